"""The steps that are written out for speed do what the general steps do, to the bit and to the word."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from makewhole.insured.bookkeeping import Bookkeeping
from makewhole.insured.plain import PlainBookkeeping

import makewhole as mw
from makewhole.insured import settings as module
from samples import Own, state

pytestmark = pytest.mark.slow  # together they take seconds


class General(Bookkeeping):
    """The general steps, where a book would take the short ones."""


class Said:
    """A base that says what it is asked about, and keeps what it is taught."""

    def __init__(self) -> None:
        self.taught: list[Any] = []

    def predict(self, x: Any) -> tuple[float, float]:
        return float(x), 0.01

    def learn(self, x: Any, outcome: Any, **more: Any) -> None:
        self.taught.append((x, outcome, more))


def lines(**settings: Any) -> mw.Lines:
    return mw.Lines(each=4.0, of={"ann": 1.5, 7: 2.5}, **settings)


BOOKS: dict[str, Callable[[], mw.InsuredForecaster]] = {
    "default": lambda: mw.InsuredForecaster(max_stake=1),
    "one-sided": lambda: mw.InsuredForecaster(None, mw.Reserve(0.1), max_stake=1, one_sided=True),
    "capital": lambda: mw.InsuredForecaster(max_stake=1, capital=6),
    "hardly any capital": lambda: mw.InsuredForecaster(max_stake=1, capital=0.5),
    "capital, one-sided": lambda: mw.InsuredForecaster(max_stake=1, capital=6, one_sided=True),
    "capital, no lines": lambda: mw.InsuredForecaster(max_stake=1, capital=3, lines=None, thaw=None),
    "capital, swap": lambda: mw.InsuredForecaster(None, mw.SwapRegret(5, seed=1), max_stake=1, capital=3),
    "capital, somebody's own": lambda: mw.InsuredForecaster(None, Own(), max_stake=1, capital=3),
    "capital, no correction": lambda: mw.InsuredForecaster(None, mw.NoCorrection(), max_stake=1, capital=3),
    "long lines": lambda: mw.InsuredForecaster(max_stake=1, capital=100),
    "long lines, one-sided": lambda: mw.InsuredForecaster(max_stake=1, capital=100, one_sided=True),
    "long lines, short of capital": lambda: mw.InsuredForecaster(
        max_stake=1, capital=2, lines=lines(scale=1.0)
    ),
    "lines of their own": lambda: mw.InsuredForecaster(max_stake=1, capital=9, lines=lines(scale=1.5)),
    "lines without gains": lambda: mw.InsuredForecaster(
        max_stake=1, capital=9, lines=lines(keep_gains=False)
    ),
    "lines, no capital": lambda: mw.InsuredForecaster(
        None, mw.StandardRegret(1.0), mode="sound", max_stake=1, lines=lines(), thaw=mw.Thaw(share=0.5)
    ),
    "lines, one-sided": lambda: mw.InsuredForecaster(
        None, mw.StandardRegret(1.0), max_stake=1, one_sided=True, lines=lines()
    ),
    "graded": lambda: mw.InsuredForecaster(max_stake=1, capital=6, graded=True),
    "a base": lambda: mw.InsuredForecaster(Said(), max_stake=1, capital=6),
}

NAMES = st.sampled_from(
    [None, None, "ann", "bob", 7, np.int64(7), ("agency", "ann"), ["bob"], True, (), 2**70]
)
STAKES = st.one_of(
    st.sampled_from([0.0, -0.0, 1.0, -1.0, 1, 2.0, 1e-300, float("nan"), np.float64(0.25), "x", [0.5]]),
    st.floats(-1.0, 1.0),
    st.floats(0.0, 0.02),
)
STEPS = st.one_of(
    st.tuples(st.just("forecast"), st.floats(0.0, 1.0), st.sampled_from([None, None, None, "mine", 3, 1.5])),
    st.tuples(
        st.just("stake"),
        st.integers(0, 3),
        STAKES,
        NAMES,
        st.one_of(st.none(), st.sampled_from([0.02, 0.3, 1.0, "dear"])),
    ),
    st.tuples(st.just("stake"), st.integers(0, 3), st.floats(-0.3, 0.3), NAMES, st.none()),
    st.tuples(st.just("settle"), st.integers(0, 3), st.sampled_from([0, 1, 1.0, 0.5, 2]), STAKES, NAMES),
    st.tuples(st.just("settle"), st.integers(0, 3), st.sampled_from([0, 1]), st.none(), st.none()),
    st.tuples(st.just("quote"), st.integers(0, 3), NAMES),
    st.tuples(st.just("void"), st.integers(0, 3)),
    st.tuples(st.just("many"), st.integers(1, 3)),
)


def done(f: mw.InsuredForecaster, step: tuple[Any, ...]) -> Any:
    """What a step returns, or how it is refused; the forecasts are named by their age."""
    verb, first, *rest = step
    waiting = f.open_forecasts
    try:
        if verb == "forecast":
            given: Any = {"mu": first} if f.base is None else {"x": first}
            return repr(f.forecast(**given, id=rest[0]))
        if verb == "many":
            return [f.stake(q, 0.01, by="ann") for q in waiting[:1] for _ in range(10 * first)]
        if not waiting:
            return None
        q = waiting[first % len(waiting)]
        if verb == "stake":
            return f.stake(q, rest[0], by=rest[1], price=rest[2])
        if verb == "quote":
            return repr(f.quote(q, by=rest[0]))
        if verb == "void":
            return f.void(q)
        paid = f.settle(q, rest[0], stake=rest[1], by=rest[2])
        return repr(paid), repr(dict(paid.by))
    except (mw.insured.refusals.Refusal, TypeError, ValueError) as error:
        return type(error), str(error), getattr(error, "limit", None)


def both(kind: str) -> list[mw.InsuredForecaster]:
    """The same forecaster twice: with the short steps, and with the general ones."""
    short = BOOKS[kind]()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(module, "PlainBookkeeping", General)
        general = BOOKS[kind]()
    assert type(short._books) is PlainBookkeeping
    assert type(general._books) is General
    return [short, general]


@pytest.mark.slow
@pytest.mark.parametrize("kind", BOOKS)
@given(st.lists(STEPS, min_size=1, max_size=40))
def test_the_short_steps_are_the_general_ones(kind: str, steps: list[tuple[Any, ...]]) -> None:
    pair = both(kind)
    for step in [("forecast", 0.4, None), *steps]:
        assert done(pair[0], step) == done(pair[1], step)
    assert state(pair[0]) == state(pair[1])
    short, general = (getattr(f.base, "taught", None) for f in pair)
    assert short == general


@pytest.mark.parametrize("kind", BOOKS)
def test_they_are_the_same_in_a_long_run_too(kind: str) -> None:
    pair, draw = both(kind), np.random.default_rng(4)
    for _ in range(300):
        mu, b, y = float(draw.uniform()), float(draw.uniform(-0.6, 0.6)), int(draw.integers(2))
        who = ["ann", "bob", 7, "eve", None][int(draw.integers(5))]
        steps = [("forecast", mu, None), ("stake", 0, b, who, None), ("settle", 0, y, 1.0, "eve")]
        steps[1:2] = [("quote", 0, who), steps[1]] * int(draw.integers(3))
        for step in steps:
            assert done(pair[0], step) == done(pair[1], step)
    assert state(pair[0]) == state(pair[1])


@pytest.mark.parametrize("kind", BOOKS)
def test_nobody_stakes_at_the_price_that_somebody_else_was_told(kind: str) -> None:
    pair = both(kind)
    steps = [
        ("quote", 0, "ann"),
        ("stake", 0, 0.3, "bob", None),
        ("quote", 0, "eve"),
        ("stake", 0, 0.2, "ann", None),
    ]
    for step in [("forecast", 0.4, None), *steps, ("settle", 0, 1, None, None)]:
        assert done(pair[0], step) == done(pair[1], step)
    assert state(pair[0]) == state(pair[1])


@pytest.mark.parametrize("kind", BOOKS)
def test_they_are_the_same_where_old_quotes_are_too_cheap(kind: str) -> None:
    pair, draw, refused = both(kind), np.random.default_rng(5), 0
    for t in range(60):
        b = float(draw.choice([-0.9, 0.9, 0.3])) if not pair[0].one_sided else 0.9
        steps: list[tuple[Any, ...]] = [("forecast", float(draw.uniform(0.1, 0.9)), None)] * (1 + (t < 8))
        steps += [("stake", t % 5, b / 2, [None, "ann", 7, "eve"][t % 4], None)] * 2
        steps.append(("settle", t % 5, int(b > 0), None, None))  # whoever staked knew the outcome
        for step in steps:
            found = done(pair[0], step)
            assert found == done(pair[1], step)
            refused += isinstance(found, tuple) and "capital leaves" in str(found[1])
    assert state(pair[0]) == state(pair[1])
    assert refused or kind != "capital, no lines"


@pytest.mark.parametrize("kind", BOOKS)
def test_they_are_the_same_where_somebody_has_many_open_bets(kind: str) -> None:
    pair = both(kind)
    steps: list[tuple[Any, ...]] = [("forecast", 0.2, None)] * 120
    for k in range(120):
        first = [0.9, 0.9, 0.9, -0.0, -0.3][k % 5]
        steps += [("stake", k, b, "bob", None) for b in (2.0, first, 0.05)]
    for step in steps:
        assert done(pair[0], step) == done(pair[1], step)
    assert state(pair[0]) == state(pair[1])
