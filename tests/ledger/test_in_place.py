"""The steps in place do what the forecaster's own steps do: the same events, states and words."""

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import makewhole as mw
from makewhole.insured.refusals import Refusal
from makewhole.ledger.following import snapshot_of
from makewhole.ledger.in_place import InPlace
from makewhole.ledger.rules import ENDS, KINDS, RULES, State

pytestmark = pytest.mark.slow  # together they take seconds


class Slow(State):
    """A book whose forecaster takes every step itself."""

    __slots__ = ()
    steps = property(lambda self: None)


def lines(**settings: Any) -> mw.Lines:
    return mw.Lines(each=400.0, of={"ann": 150.0}, **settings)


BOOKS: dict[str, Callable[[], mw.InsuredForecaster]] = {
    "default": lambda: mw.InsuredForecaster(max_stake=100, capital=2_000),
    "hardly any capital": lambda: mw.InsuredForecaster(max_stake=100, capital=60),
    "one-sided": lambda: mw.InsuredForecaster(max_stake=100, capital=900, one_sided=True),
    "no lines": lambda: mw.InsuredForecaster(max_stake=100, capital=300, lines=None, thaw=None),
    "a width": lambda: mw.InsuredForecaster(max_stake=100, capital=900, c_range=(0.05, 0.3)),
    "lines of their own": lambda: mw.InsuredForecaster(max_stake=100, capital=900, lines=lines(scale=150.0)),
    "lines without gains": lambda: mw.InsuredForecaster(
        max_stake=100, capital=900, lines=lines(keep_gains=False)
    ),
    "swap": lambda: mw.InsuredForecaster(None, mw.SwapRegret(5, seed=1), max_stake=100, capital=900),
    "a share thaws": lambda: mw.InsuredForecaster(
        None, mw.StandardRegret(1.0), max_stake=100, capital=900, thaw=mw.Thaw(share=0.5)
    ),
    "a thaw": lambda: mw.InsuredForecaster(
        None, mw.StandardRegret(1.0), max_stake=100, capital=900, thaw=mw.Thaw(budget=90.0, above=0.0)
    ),
    "no correction": lambda: mw.InsuredForecaster(None, mw.NoCorrection(), max_stake=100, capital=300),
}
IDS = st.sampled_from(["UA-1", "UA-2", "UA-3"])
NAMES = st.sampled_from(["ann", "bob", "eve", ["club", "ann"], ["bob"]])
SIZES = st.one_of(st.integers(-100, 100), st.sampled_from([1, -1, 100, -100, 50]))


def asked(kind: str, **parts: Any) -> st.SearchStrategy[tuple[str, dict[str, Any]]]:
    return st.tuples(st.just(kind), st.fixed_dictionaries(parts))


STEPS = st.one_of(
    asked("forecast", id=IDS, mu=st.floats(0, 1)),
    asked("forecast", id=IDS, mu=st.sampled_from([0.0, 1.0, 0.3, 1, 2.0]), c_hat=st.none() | st.just(0.1)),
    asked("staked", id=IDS, by=NAMES, stake=SIZES),
    asked("staked", id=IDS, by=NAMES, stake=SIZES),
    asked("staked", id=IDS, by=NAMES, stake=SIZES, most=st.integers(0, 90)),
    asked("settled", id=IDS, outcome=st.integers(0, 1)),
    asked("settled", id=IDS, outcome=st.integers(0, 1)),
    asked("voided", id=IDS, reason=st.just("fog")),
    asked("many", id=IDS, by=st.sampled_from(["ann", "bob"]), stake=st.sampled_from([1, -1])),
    asked("look"),
    asked("reopened"),
    asked("deposited", amount=st.just(5)),
)


def begun(kind: type[State], f: mw.InsuredForecaster) -> State:
    state = kind("book")
    KINDS["created"](state, 1, 0, created(f), lambda _: None)
    state.seq = 1
    return state


def created(f: mw.InsuredForecaster) -> dict[str, Any]:
    return {"rules": RULES, "unit": "cent", "hold": 0, "key": "00", "forecaster": f.to_state()}


def done(state: State, kind: str, given_: dict[str, Any], ended: dict[str, str]) -> Any:
    """What came of a request, or how it was refused."""
    seq = state.seq + 1
    try:
        body = KINDS[kind](state, seq, seq, {k: v for k, v in given_.items() if v is not None}, ended.get)
    except (Refusal, ValueError, TypeError) as error:
        return type(error), str(error), getattr(error, "limit", None)
    state.seq = seq
    if kind in ENDS:
        ended[body["id"]] = kind
    return body


@pytest.mark.parametrize("kind", BOOKS)
@given(st.lists(STEPS, min_size=5, max_size=60))
def test_the_steps_in_place_are_the_forecasters_own(
    kind: str, steps: list[tuple[str, dict[str, Any]]]
) -> None:
    f = BOOKS[kind]()
    pair: list[State] = [begun(State, f), begun(Slow, f)]
    ends: list[dict[str, str]] = [{}, {}]
    assert isinstance(pair[0].steps, InPlace)
    for verb, given_ in [("forecast", {"id": "UA-1", "mu": 0.4}), *steps]:
        if verb == "look":
            assert snapshot_of(pair[0]) == snapshot_of(pair[1])
        elif verb == "reopened":
            pair[:] = [type(one).from_plain("book", json.loads(snapshot_of(one))) for one in pair]
        else:
            times, verb = (20, "staked") if verb == "many" else (1, verb)
            for _ in range(times):
                quick, slow = (done(one, verb, given_, end) for one, end in zip(pair, ends, strict=True))
                assert repr(quick) == repr(slow)
        for end in ends:
            end.clear()  # the same few ids again
    assert snapshot_of(pair[0]) == snapshot_of(pair[1])


@pytest.mark.parametrize("kind", BOOKS)
def test_they_are_the_same_in_a_long_run_too(kind: str) -> None:
    f, draw = BOOKS[kind](), np.random.default_rng(4)
    pair = [begun(State, f), begun(Slow, f)]
    waiting: list[str] = []
    for k in range(400):
        id_, stake = f"UA-{k}", int(draw.integers(-70, 70)) or 1
        names = [["ann", "bob", "eve"][int(draw.integers(3))] for _ in range(int(draw.integers(3)))]
        steps: list[tuple[str, dict[str, Any]]] = [("forecast", {"id": id_, "mu": float(draw.uniform())})]
        steps += [("staked", {"id": id_, "by": name, "stake": stake}) for name in names]
        waiting.append(id_)
        while len(waiting) > (0 if k % 10 == 9 else 3):  # several are open at once, and at times none
            steps.append(("settled", {"id": waiting.pop(0), "outcome": int(draw.integers(2))}))
        for step in steps:
            quick, slow = (done(one, *step, {}) for one in pair)
            assert repr(quick) == repr(slow)
    assert snapshot_of(pair[0]) == snapshot_of(pair[1])


@pytest.mark.parametrize("kind", BOOKS)
def test_they_are_the_same_where_old_quotes_are_too_cheap(kind: str) -> None:
    f, refused = BOOKS[kind](), 0
    pair = [begun(State, f), begun(Slow, f)]
    steps: list[tuple[str, dict[str, Any]]] = [("forecast", {"id": f"UA-{k}", "mu": 0.5}) for k in range(100)]
    for k in range(100):  # they know every outcome
        steps += [("staked", {"id": f"UA-{k}", "by": name, "stake": 50}) for name in ("ann", f"cid {k}")]
        steps.append(("settled", {"id": f"UA-{k}", "outcome": 1}))
        steps.append(("forecast", {"id": f"new {k}", "mu": 0.5}))
    for step in steps:
        quick, slow = (done(one, *step, {}) for one in pair)
        assert repr(quick) == repr(slow)
        refused += isinstance(quick, tuple) and "the capital leaves" in quick[1]
    assert refused
    assert snapshot_of(pair[0]) == snapshot_of(pair[1])
