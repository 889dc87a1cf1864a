"""One call at a time; and what calls are given: ids, names, settings."""

import contextlib
import copy
import json
import pickle
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest
from interrupts import operations

import makewhole as mw
from makewhole.corrections import Proposal
from samples import KINDS, Own, insured, played, state

SOURCE = str(Path(mw.__file__).parent)

# --- one call at a time -----------------------------------------------------------------------------------

# Calls that somebody may make while another one is running.
CALLS: dict[str, Callable[[mw.InsuredForecaster], Any]] = {
    "forecast": lambda f: f.forecast(mu=0.3, id="inner"),
    "forecast_many": lambda f: f.forecast_many(mu=[0.3], ids=["inner"]),
    "peek": lambda f: f.peek(mu=0.3),
    "quote": lambda f: f.quote("open"),
    "stake": lambda f: f.stake("open", 0.01),
    "settle": lambda f: f.settle("open", 1),
    "settle_many": lambda f: f.settle_many({"open": 1}),
    "void": lambda f: f.void("open"),
    "change_capital": lambda f: f.change_capital(8.0),
    "statement": lambda f: f.statement(),
    "certificate": lambda f: f.certificate(),
    "account": lambda f: f.account("her"),
    "open_forecasts": lambda f: f.open_forecasts,
    "corrections": lambda f: f.corrections,
    "proposed": lambda f: f.proposed("open"),
    "to_state": lambda f: f.to_state(),
    "repr": repr,
    "copy": copy.deepcopy,
    "pickle": pickle.dumps,
}
READS = ["peek", "quote", "statement", "certificate", "account", "open_forecasts", "proposed", "to_state"]


class Meddling(Own):
    """Somebody's own correction that calls its forecaster while it is asked or taught."""

    meddle: Callable[[], Any] | None = None  # not in the object, which is copied

    def propose(self) -> Proposal:
        if Meddling.meddle is not None:
            Meddling.meddle()
        return super().propose()

    def observe(self, proposal: Proposal, target: float, weight: float) -> None:
        if Meddling.meddle is not None:
            Meddling.meddle()
        super().observe(proposal, target, weight)


def meddled() -> mw.InsuredForecaster:
    f = mw.InsuredForecaster(
        None, Meddling(), mode="sound", max_stake=1, capital=9, lines=mw.Lines(each=3.6, share=1.0)
    )
    f.forecast(mu=0.5, id="open")
    f.stake("open", 0.5, by="her")
    f.forecast(mu=0.6, id="other")
    f.stake("other", 0.5, by="her")
    return f


@pytest.fixture
def meddling() -> Iterator[type[Meddling]]:
    yield Meddling
    Meddling.meddle = None


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("caught", [False, True])
def test_a_call_from_a_correction_is_refused_and_harms_nothing(
    name: str, caught: bool, meddling: Any
) -> None:
    f, twin, heard = meddled(), meddled(), []

    def meddle() -> None:
        with pytest.raises(RuntimeError, match="one call at a time") as refused:
            CALLS[name](f)
        heard.append(str(refused.value))
        if not caught:
            raise refused.value

    outer: list[Callable[[mw.InsuredForecaster], Any]] = [
        lambda one: one.forecast(mu=0.4),
        lambda one: one.settle("other", 1),
    ]
    for call in outer:
        before = json.dumps(f.to_state())
        meddling.meddle = staticmethod(meddle)
        if caught:  # the call that was running goes on as if nothing had been
            found = repr(call(f))
            meddling.meddle = None
            assert found == repr(call(twin))
            assert json.dumps(f.to_state()) == json.dumps(twin.to_state())
        else:
            with pytest.raises(RuntimeError, match="one call at a time"):
                call(f)
            meddling.meddle = None
            assert json.dumps(f.to_state()) == before
    assert len(heard) == 2
    assert all("another call of this InsuredForecaster is running" in text for text in heard)
    assert not f.book.journal


def outcome_of(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except RuntimeError as error:
        assert "one call at a time" in str(error)  # noqa: PT017 - it need not be raised
        return "refused"


@pytest.mark.parametrize("name", ["forecast", "settle", "void", *READS])
def test_a_call_from_a_signal_handler_or_a_trace_function_is_refused_or_comes_first_or_last(
    name: str,
) -> None:
    """The handler runs between any two operations; it can only tell a call from outside by the lock."""
    blob, inner = pickle.dumps(with_an_id()), CALLS[name]
    fresh: Callable[[], mw.InsuredForecaster] = lambda: pickle.loads(blob)  # noqa: E731, S301 - our own bytes

    def outer(f: mw.InsuredForecaster) -> None:
        f.stake("other", 0.2, by="her")

    count, answers = operations(partial(outer, fresh())), set()
    orders = []
    for calls in ([outer], [inner, outer], [outer, inner]):
        f = fresh()
        for call in calls:
            call(f)
        orders.append(state(f))
    reads = []
    for calls in ([], [outer]):
        f = fresh()
        for call in calls:
            call(f)
        reads.append(repr(inner(f)))
    for at in np.linspace(1, count, 60).astype(int).tolist():
        f, found = fresh(), list[Any]()
        with handled(at, lambda: found.append(outcome_of(lambda: inner(f)))):  # noqa: B023 - called here
            outer(f)
        (answer,) = found
        answers.add(answer if isinstance(answer, str) and answer == "refused" else "done")
        if answer == "refused":
            assert state(f) == orders[0]
        else:
            assert state(f) in orders[1:]
            assert repr(answer) in reads
        assert not f._lock.locked()
        assert not f.book.journal
    assert answers == {"refused", "done"}


def with_an_id() -> mw.InsuredForecaster:
    f = mw.InsuredForecaster(max_stake=1, capital=9, lines=mw.Lines(each=3.6, share=1.0))
    for id_ in ("open", "other"):
        f.forecast(mu=0.5, id=id_)
        f.stake(id_, 0.3, by="her")
    return f


@contextlib.contextmanager
def handled(at: int, handler: Callable[[], Any]) -> Iterator[None]:
    """Run a handler before the n-th operation."""
    seen = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal seen
        if not frame.f_code.co_filename.startswith(SOURCE):
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            seen += 1
            if seen == at:
                handler()
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)


def test_a_signal_handler_that_looks_is_refused_while_a_call_is_running() -> None:
    f, heard = with_an_id(), []

    def handler(*_: Any) -> None:
        heard.append(outcome_of(lambda: (f.statement().rounds, f.statement().open)))

    previous = signal.signal(signal.SIGALRM, handler)
    try:
        for t in range(400):
            signal.setitimer(signal.ITIMER_REAL, 1e-5 + (t % 20) * 1e-5)
            f.settle(f.forecast(mu=0.5), t % 2, stake=0.1, by="her")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    assert f.statement().rounds == 400
    assert "refused" in heard
    assert all(one == "refused" or one[1] in (2, 3) for one in heard)


@pytest.mark.parametrize("name", CALLS)
def test_a_call_from_another_thread_is_refused_while_one_is_running(name: str, meddling: Any) -> None:
    f, twin, heard = meddled(), meddled(), []

    def meddle() -> None:
        thread = threading.Thread(target=lambda: heard.append(outcome_of(lambda: CALLS[name](f))))
        thread.start()
        thread.join(timeout=60)

    meddling.meddle = staticmethod(meddle)
    f.settle("other", 1)
    meddling.meddle = None
    twin.settle("other", 1)
    assert heard == ["refused"]
    assert json.dumps(f.to_state()) == json.dumps(twin.to_state())


def test_threads_that_call_at_the_same_time_lose_and_double_nothing() -> None:
    f, done = mw.InsuredForecaster(None, mw.Reserve(0.1), mode="sound", max_stake=1), list[int]()

    def work(who: int) -> None:
        for t in range(150):
            steps: list[Callable[[], Any]] = [
                lambda: f.forecast(mu=0.5, id=f"{who}-{t}"),  # noqa: B023 - called here
                lambda: f.stake(f"{who}-{t}", 0.5, by=who),  # noqa: B023 - called here
                lambda: f.settle(f"{who}-{t}", t % 2),  # noqa: B023 - called here
            ]
            for step in steps:
                while isinstance(answer := outcome_of(step), str) and answer == "refused":
                    pass
            done.append(who)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work, args=(who,)) for who in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=120)
    finally:
        sys.setswitchinterval(before)
    statement = f.statement()
    assert len(done) == statement.rounds == statement.bets == 450
    assert statement.open == 0
    assert statement.turnover == 225.0


def test_the_base_is_taught_after_the_step_and_once(monkeypatch: pytest.MonkeyPatch) -> None:
    taught: list[Any] = []

    class Base:
        def predict(self, x: Any) -> tuple[float, float]:
            return 0.25, 0.0

        def learn(self, x: Any, outcome: int, **stakes: Any) -> None:
            taught.append((x, outcome, stakes, len(f.open_forecasts), f.statement().rounds))

    f = mw.InsuredForecaster(Base(), max_stake=2)
    f.settle(f.forecast("x"), 1, stake=-1.0)
    assert taught == [("x", 1, {"mu": 0.25, "net": -0.5, "gross": 0.5}, 0, 1)]
    f.forecast("y", id="y")
    f.book.close(f.book.find_to_change("y"), 0)
    f.book.journal.undo()
    assert len(taught) == 1  # what was undone was not taught
    with pytest.raises(ValueError, match="outcome must be 0 or 1"):
        f.settle("y", 2)
    assert len(taught) == 1
    f.settle("y", 0)
    assert len(taught) == 2
    taught.clear()
    f.forecast_many(["a", "b", "c"], ids=["a", "b", "c"])
    f.stake("b", 2.0)
    f.settle_many({"b": 1, "a": 0})  # both are settled before the base hears of either
    assert [(x, y, rounds, left) for x, y, _, left, rounds in taught] == [("b", 1, 4, 1), ("a", 0, 4, 1)]
    assert [stakes["net"] for _, _, stakes, _, _ in taught] == [1.0, 0.0]


# --- ids and names ----------------------------------------------------------------------------------------


def test_ids_of_ones_own_and_names_for_bettors() -> None:
    f = mw.InsuredForecaster(None, mw.NoCorrection(), max_stake=10)
    q = f.forecast(mu=0.5, id="UA-123")
    assert q.id == "UA-123"
    assert f.forecast(mu=0.5).id == 0
    assert f.forecast(mu=0.5, id=np.int64(1)).id == 1
    assert f.forecast(mu=0.5).id == 2  # 1 is taken
    f.stake("UA-123", 4.0, by="ann")
    f.stake(q, -2.0, by=7)
    f.stake("UA-123", 2.0, by="ann")
    f.stake("UA-123", 1.0)
    payments = f.settle("UA-123", 1)
    assert payments == [2.0, -1.0, 1.0, 0.5]
    assert payments.by == {"ann": 3.0, 7: -1.0}
    assert f.settle(1, 0, stake=1.0, by="bob").by == {"bob": -0.5}
    assert f.settle(2, 1) == []
    assert f.settle(0, 1).by == {}


def test_ids_that_do_not_fit_are_refused_and_change_nothing() -> None:
    f = mw.InsuredForecaster(max_stake=1)
    q = f.forecast(mu=0.5, id="a")
    before = state(f)
    with pytest.raises(mw.ForecastOpen, match="a forecast with the id 'a' is open"):
        f.forecast(mu=0.5, id="a")
    for strange in (1.5, True, None, b"a", ["a"]):
        with pytest.raises((TypeError, mw.UnknownForecast), match="id must be text|no such forecast|must be"):
            f.settle(strange, 1) if strange is None else f.forecast(mu=0.5, id=strange)  # type: ignore[arg-type]  # that is the point
    with pytest.raises(mw.UnknownForecast, match="no open forecast has the id 'b'"):
        f.stake("b", 1.0)
    with pytest.raises(TypeError, match="by must be text or a whole number"):
        f.stake("a", 0.5, by=1.5)  # type: ignore[arg-type]  # that is the point
    assert state(f) == before
    f.settle("a", 1)
    with pytest.raises(mw.ForecastClosed, match="settled or voided before"):
        f.settle(q, 1)
    with pytest.raises(mw.UnknownForecast, match="settled or voided before, or never made here"):
        f.settle("a", 1)
    assert f.forecast(mu=0.2, id="a").mu == 0.2  # open forecasts are the only memory
    with pytest.raises(mw.UnknownForecast):
        f.settle(q, 1)  # another forecast of that id


# --- what a statement costs -------------------------------------------------------------------------------


def test_a_statement_writes_nothing_and_looks_at_groups_only_when_asked() -> None:
    f = mw.InsuredForecaster(None, mw.Grouped(mw.Reserve(0.1)), mode="sound", max_stake=1)
    f.forecast_many(mu=[0.5] * 3, groups=["a", "b", "c"])
    before = copy.deepcopy(f.to_state())
    statement = f.statement()
    assert f.to_state() == before
    assert statement.certificate.bound == pytest.approx(15.0)
    assert list(statement.groups) == ["a", "b", "c"]
    late = f.statement()
    f.forecast(mu=0.5, groups="d")
    with pytest.raises(RuntimeError, match="look at groups right after statement"):
        late.groups["a"]
    assert list(statement.groups) == ["a", "b", "c"]  # looked at in time


@pytest.mark.parametrize(
    "change",
    [
        lambda f: f.stake(0, 0.5),
        lambda f: f.settle(0, 1),
        lambda f: f.void(0),
        lambda f: f.settle_many({0: 1, 1: 1}),
    ],
    ids=["stake", "settle", "void", "settle_many"],
)
def test_the_groups_of_a_statement_are_never_later_than_the_rest_of_it(change: Any) -> None:
    f = mw.InsuredForecaster(None, mw.Grouped(mw.Reserve(0.1)), mode="sound", max_stake=1)
    f.forecast_many(mu=[0.5] * 3, groups=["a", "b", "c"])
    late = f.statement()
    change(f)
    with pytest.raises(RuntimeError, match="look at groups right after statement"):
        late.groups["a"]


def test_settings_cannot_be_changed_after_the_fact() -> None:
    f = mw.InsuredForecaster(None, mw.Reserve(0.1), max_stake=1)
    for name, value in (("max_stake", 100.0), ("mode", "sound"), ("c_range", (0.0, 0.0)), ("lines", None)):
        with pytest.raises(AttributeError, match=f"{name} cannot be changed"):
            setattr(f, name, value)
    reserve = mw.Reserve(0.1)
    for name in ("rate", "start", "over"):
        with pytest.raises(AttributeError, match=f"{name} cannot be changed"):
            setattr(reserve, name, 0.5)
    for name in ("observe", "propose", "_observe"):
        with pytest.raises(AttributeError, match=f"{name} cannot be replaced"):
            setattr(reserve, name, lambda *_: None)


@pytest.mark.parametrize("kind", KINDS)
def test_copies_go_on_as_the_original_does(kind: str) -> None:
    f = played(insured(kind), 12, 5)
    copies = [copy.deepcopy(f), pickle.loads(pickle.dumps(f))]  # noqa: S301 - our own bytes
    expected = state(played(f, 8, 6))
    assert [state(played(twin, 8, 6)) for twin in copies] == [expected] * 2


def test_the_capital_is_changed_with_a_call_and_setting_it_says_so() -> None:
    f = mw.InsuredForecaster(max_stake=1, capital=9.0, lines=mw.Lines(each=3.6, share=1.0))
    with pytest.raises(AttributeError, match="capital cannot be changed"):
        f.capital = 1.0  # type: ignore[misc]  # that is the point


def test_settings_cannot_be_deleted_either() -> None:
    f, reserve = mw.InsuredForecaster(max_stake=1), mw.Reserve(0.1)
    with pytest.raises(AttributeError, match="max_stake cannot be deleted: make a new InsuredForecaster"):
        del f.max_stake
    with pytest.raises(AttributeError, match="rate cannot be deleted: make a new Reserve"):
        del reserve.rate
