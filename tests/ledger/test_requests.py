"""A refused request leaves no trace, and all that a request did can be undone: to the last bit."""

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
from makewhole.ledger.requests import KINDS
from makewhole.ledger.state import VERSION, State


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
    "a thaw by the day": lambda: mw.InsuredForecaster(
        None, mw.StandardRegret(1.0), max_stake=100, capital=900, thaw=mw.Thaw(budget=90, above=0, per_day=9)
    ),
    "no correction": lambda: mw.InsuredForecaster(None, mw.NoCorrection(), max_stake=100, capital=300),
    "exposure": lambda: mw.InsuredForecaster(
        None, mw.Reserve(0.3), mode="sound", max_stake=100, capital=900, max_exposure=150
    ),
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
    asked("reported", id=IDS, outcome=st.integers(0, 1), by=st.sampled_from(["tower", "clerk"])),
    asked("settled", id=IDS, outcome=st.integers(0, 1)),
    asked("settled", id=IDS, outcome=st.integers(0, 1)),
    asked("voided", id=IDS, reason=st.just("fog")),
    asked("deposited", amount=st.integers(1, 50)),
    asked("withdrawn", amount=st.integers(1, 50)),
    asked("compensated", id=IDS, by=st.just("ann"), amount=st.just(5), reason=st.just("late")),
    asked("rekeyed", key=st.just("11")),
)
Step = tuple[str, dict[str, Any]]


def begun(f: mw.InsuredForecaster, hold: int = 0) -> State:
    state = State("book")
    asked = {"rules": VERSION, "unit": "cent", "hold": hold, "key": "00", "forecaster": f.to_state()}
    KINDS["created"](state, 1, 0, asked, lambda _: None)
    state.seq = 1
    state.journal.clear()
    return state


def done(state: State, step: Step) -> Any:
    """What came of a request, or how it was refused, in which case it is undone."""
    kind, given_ = step
    mark, seq = len(state.journal), state.seq + 1
    parts = {name: value for name, value in given_.items() if value is not None}
    try:
        body = KINDS[kind](state, seq, seq, parts, lambda _: None)
    except (Refusal, ValueError, TypeError) as error:
        state.journal.undo(mark)
        return type(error), str(error), getattr(error, "limit", None)
    state.journal.keep(state)
    state.seq = seq
    return body


@pytest.mark.parametrize("kind", BOOKS)
@given(st.lists(STEPS, min_size=5, max_size=40))
def test_a_group_of_requests_is_undone_and_done_again_with_the_same_events_and_state(
    kind: str, steps: list[Step]
) -> None:
    state = begun(BOOKS[kind]())
    done(state, ("forecast", {"id": "UA-1", "mu": 0.4}))
    for begin in range(0, len(steps), 7):
        state.journal.clear()
        group, before = steps[begin : begin + 7], snapshot_of(state)
        first = [done(state, step) for step in group]
        after = snapshot_of(state)
        state.journal.undo()
        assert snapshot_of(state) == before
        assert [done(state, step) for step in group] == first
        assert snapshot_of(state) == after


@pytest.mark.parametrize("kind", BOOKS)
@given(st.lists(STEPS, min_size=5, max_size=40))
def test_a_refused_request_leaves_no_trace(kind: str, steps: list[Step]) -> None:
    state, only_taken = begun(BOOKS[kind]()), begun(BOOKS[kind]())
    for step in [("forecast", {"id": "UA-1", "mu": 0.4}), *steps]:
        before = snapshot_of(state)
        answer = done(state, step)
        if isinstance(answer, tuple):
            assert snapshot_of(state) == before
        else:
            assert done(only_taken, step) == answer
    assert snapshot_of(state) == snapshot_of(only_taken)
    assert snapshot_of(State.from_plain("book", json.loads(snapshot_of(state)))) == snapshot_of(state)


@pytest.mark.parametrize("kind", BOOKS)
def test_a_state_that_was_saved_and_read_goes_on_with_the_same_events(kind: str) -> None:
    state, draw = begun(BOOKS[kind]()), np.random.default_rng(4)
    waiting: list[str] = []
    for k in range(120):
        id_, stake = f"UA-{k}", int(draw.integers(-70, 70)) or 1
        names = [["ann", "bob", "eve"][int(draw.integers(3))] for _ in range(int(draw.integers(3)))]
        steps: list[Step] = [("forecast", {"id": id_, "mu": float(draw.uniform())})]
        steps += [("staked", {"id": id_, "by": name, "stake": stake}) for name in names]
        waiting.append(id_)
        while len(waiting) > (0 if k % 10 == 9 else 3):  # several are open together, and at times none
            steps.append(("settled", {"id": waiting.pop(0), "outcome": int(draw.integers(2))}))
        read = State.from_plain("book", json.loads(snapshot_of(state)))
        assert [done(read, step) for step in steps] == [done(state, step) for step in steps]
        assert snapshot_of(read) == snapshot_of(state)


def test_ids_that_are_due_are_settled_in_the_order_in_which_they_were_reported() -> None:
    state = begun(BOOKS["default"]())
    for id_ in ("UA-1", "UA-2", "UA-3"):
        done(state, ("forecast", {"id": id_, "mu": 0.4}))
    for id_ in ("UA-3", "UA-1"):
        done(state, ("reported", {"id": id_, "outcome": 1}))
    assert state.due(state.seq) == ["UA-3", "UA-1"]
    state.journal.clear()
    done(state, ("settled", {"id": "UA-3"}))
    state.journal.undo()  # which puts it back at the end of a dictionary
    assert state.due(state.seq) == ["UA-3", "UA-1"]
    assert [id_ for id_, _ in state.in_order()] == ["UA-1", "UA-2", "UA-3"]
