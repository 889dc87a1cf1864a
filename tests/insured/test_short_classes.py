"""The steps of classes that are written out for speed do what the general ones do, to the bit and word."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from makewhole.insured.one_price import OnePriceBookkeeping
from makewhole.insured.plain_classes import PlainClasses

import makewhole as mw
from makewhole.insured import settings as module
from samples import CORRECTIONS, Own, state


class General(OnePriceBookkeeping):
    """The general steps, where a book would take the short ones."""


class Said:
    """A base that says what it is asked about, and keeps what it is taught."""

    def __init__(self) -> None:
        self.taught: list[Any] = []

    def predict(self, x: Any) -> tuple[Any, Any]:
        return x, np.linspace(0.0, 0.1, len(x))

    def learn(self, x: Any, outcome: Any, **more: Any) -> None:
        self.taught.append((x, outcome, {name: value.tobytes() for name, value in more.items()}))


BOOKS: dict[str, Callable[[int], mw.InsuredForecaster]] = {
    "default": lambda k: mw.InsuredForecaster(max_stake=1, classes=k),
    "reserve": lambda k: mw.InsuredForecaster(None, mw.Reserve(0.1), max_stake=1, classes=k),
    "swap": lambda k: mw.InsuredForecaster(None, mw.SwapRegret(5, seed=1), max_stake=1, classes=k),
    "somebody's own": lambda k: mw.InsuredForecaster(None, Own(), max_stake=1, classes=k),
    "thaw": lambda k: mw.InsuredForecaster(
        None, mw.StandardRegret(1.0), max_stake=1, classes=k, thaw=mw.Thaw(share=0.5, root=1)
    ),
    "a base": lambda k: mw.InsuredForecaster(Said(), max_stake=3.7, classes=k, c_range=(-0.1, 0.2)),
}

NUMBERS = st.one_of(
    st.floats(-1.0, 1.0), st.sampled_from([0.0, -0.0, 1e-300, 1.0, -1.0, 0.25, 1.0 - 1e-10, 5e-324])
)
ODD = st.sampled_from(
    [0.5, 2.0, "x", None, [0.1], [1, 0], [float("nan")] * 3, [1e308, -1e308, 1e308], [float("inf"), 0.0, 0.0]]
)
NAMES = st.sampled_from([None, None, "ann", 7, np.int64(7), ("agency", "ann"), ["bob"], True, (), 2**70])


@st.composite
def books_and_steps(draw: st.DrawFn) -> tuple[int, list[tuple[Any, ...]]]:
    """How many classes, and what happens."""
    classes = draw(st.sampled_from([2, 3, 4, 5, 7, 10]))
    row = st.lists(NUMBERS, min_size=classes, max_size=classes)
    shifted, without_last = row.map(lambda b: [x + 3.0 for x in b]), row.map(lambda b: [*b[:-1], math.nan])
    stakes = st.one_of(row, row.map(np.array), row.map(tuple), shifted, without_last, ODD, row.map(small))
    chances = st.one_of(row.map(np.abs).map(shares), row.map(shares), ODD, row)
    outcomes = st.sampled_from([0, 1, classes - 1, classes, -1, 1.0, 0.5, True, "1"])
    forecast = st.tuples(
        st.just("forecast"), chances, st.sampled_from([None, None, None, "mine", 3, 1.5]), st.just(None)
    )
    prices = st.sampled_from([None, None, None, 0.02, 0.3, "dear"])
    stake = st.tuples(st.just("stake"), st.integers(0, 3), stakes, NAMES, prices)
    settle = st.tuples(st.just("settle"), st.integers(0, 3), outcomes, st.one_of(st.none(), stakes), NAMES)
    others = st.tuples(st.sampled_from(["void", "many"]), st.integers(0, 3))
    kinds = st.one_of(forecast, stake, stake, settle, settle, others)
    return classes, draw(st.lists(kinds, min_size=1, max_size=40))


def shares(row: Any) -> list[float]:
    """The same numbers as shares of their sum, if it has any."""
    total = sum(row)
    return [x / total for x in row] if total else [1.0, *[0.0] * (len(row) - 1)]


def small(row: list[float]) -> list[float]:
    return [0.01 * x for x in row]


def done(f: mw.InsuredForecaster, step: tuple[Any, ...]) -> Any:
    """What a step returns, or how it is refused; the forecasts are named by their age."""
    verb, first, *rest = step
    waiting = f.open_forecasts
    try:
        if verb == "forecast":
            given: Any = {"mu": first} if f.base is None else {"x": first}
            q = f.forecast(**given, id=rest[0])
            return q.mu.tobytes(), q.c.tobytes(), q.mu.flags.writeable, q.id, q.classes, q.one_price
        if not waiting:
            return None
        q = waiting[first % len(waiting)]
        if verb == "stake":
            return f.stake(q, rest[0], by=rest[1], price=rest[2])
        if verb == "many":
            small_one = [0.001 * k for k in range(len(q.mu))]
            return [f.stake(q, small_one, by="ann") for _ in range(10 * first)]
        if verb == "void":
            return f.void(q)
        plan = f.plan_settle(q, rest[0], stake=rest[1], by=rest[2])
        paid = f.settle(q, rest[0], stake=rest[1], by=rest[2])
        return repr(paid), repr(dict(paid.by)), repr(plan[2:8])
    except (mw.insured.refusals.Refusal, TypeError, ValueError) as error:
        return type(error), str(error), getattr(error, "limit", None)


def both(kind: str, classes: int) -> list[mw.InsuredForecaster]:
    """The same forecaster twice: with the short steps, and with the general ones."""
    short = BOOKS[kind](classes)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(module, "PlainClasses", General)
        general = BOOKS[kind](classes)
    assert type(short._books) is PlainClasses
    assert type(general._books) is General
    return [short, general]


@pytest.mark.slow
@pytest.mark.parametrize("kind", BOOKS)
@given(books_and_steps())
def test_the_short_steps_are_the_general_ones(kind: str, drawn: tuple[int, list[tuple[Any, ...]]]) -> None:
    classes, steps = drawn
    pair = both(kind, classes)
    for step in [("forecast", [1.0 / classes] * classes, None, None), *steps]:
        before = state(pair[0])
        returned = done(pair[0], step)
        assert returned == done(pair[1], step)
        assert state(pair[0]) == state(pair[1])
        if isinstance(returned, tuple) and isinstance(returned[0], type):  # refused
            assert step[0] == "many" or state(pair[0]) == before
    short, general = (getattr(f.base, "taught", None) for f in pair)
    assert short == general


@pytest.mark.parametrize("classes", [2, 3, 10])
@pytest.mark.parametrize("make", [*CORRECTIONS, None])
def test_they_are_the_same_in_a_long_run_and_with_many_stakes_too(make: Any, classes: int) -> None:
    pair = []
    for books in (PlainClasses, General):
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(module, "PlainClasses", books)
            pair.append(mw.InsuredForecaster(None, make and make(), max_stake=1.0, classes=classes))
    draw = np.random.default_rng(classes)
    for t in range(60):
        mu, y = draw.dirichlet([1.0] * classes), int(draw.integers(classes))
        stakes = draw.uniform(-0.4, 0.4, (int(draw.integers(3)), classes)).tolist()
        for f in pair:
            q = f.forecast(mu=mu)
            for b in stakes:
                f.stake(q, b, by=t % 3 or None)
        if t % 4:
            assert pair[0].settle(t, y) == pair[1].settle(t, y)
    paid = []
    for f in pair:
        q = f.forecast(mu=[1.0 / classes] * classes, id="busy")
        for k in range(40):  # more than a block
            f.stake(q, [0.01 * (k % 3), *[0.0] * (classes - 2), -0.01], by=k % 2)
        paid.append(f.settle("busy", 1, stake=[0.1] * classes, by="last"))
    assert paid[0] == paid[1]
    assert paid[0].by == paid[1].by
    assert state(pair[0]) == state(pair[1])
    for f in pair:
        for q in f.open_forecasts[::-1]:
            f.settle(q, 0)
        assert f._state["standing", None].at_risk == 0.0
    assert state(pair[0]) == state(pair[1])
