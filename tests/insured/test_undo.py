"""All or nothing: what is refused or interrupted is undone, and one call runs at a time."""

import contextlib
import copy
import json
import os
import pickle
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

import makewhole as mw
from makewhole.corrections import Proposal
from makewhole.forecasters import Said
from makewhole.insured.journal import Journal, Record
from samples import KINDS, Own, bet, given_to, insured, played, state

SOURCE = str(Path(mw.__file__).parent)

# --- a journal --------------------------------------------------------------------------------------------


class Pair(Record):
    """A record of two numbers."""

    __slots__ = changing = ("a", "b")

    def __init__(self, a: int, b: int) -> None:
        self.a, self.b = a, b


def test_a_journal_puts_records_dictionaries_and_lists_back_the_latest_change_first() -> None:
    journal, pair, items, listed = Journal(), Pair(1, 2), {"x": 1}, [1]
    journal.keep(pair)
    pair.a = 5
    journal.keep_item(items, "x")
    items["x"] = 2
    mark = len(journal)
    journal.keep_item(items, "y")
    items["y"] = 3
    journal.keep_length(listed)
    listed += [2, 3]
    journal.keep(pair)
    pair.a, pair.b = 6, 7
    journal.undo(mark)
    assert (pair.a, pair.b, items, listed) == (5, 2, {"x": 2}, [1])
    journal.undo()
    assert (pair.a, pair.b, items, listed) == (1, 2, {"x": 1}, [1])
    journal.undo()  # there is nothing left to undo
    assert (pair.a, pair.b, items, listed) == (1, 2, {"x": 1}, [1])


def test_what_a_journal_was_cleared_of_is_final() -> None:
    journal, pair = Journal(), Pair(1, 2)
    journal.keep(pair)
    pair.a = 5
    journal.clear()
    journal.undo()
    assert pair.a == 5


# --- the steps of a book ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_the_steps_of_a_book_are_what_the_calls_do_and_can_be_undone(kind: str) -> None:
    """A ledger takes these steps itself, and undoes a group of them together."""
    f, twin, draw = played(insured(kind), 20, 1), played(insured(kind), 20, 1), np.random.default_rng(9)
    before, book = state(f), f.book
    for _ in range(5):
        row, stake = given_to(twin, draw), bet(twin, draw)
        q = twin.forecast(**row)
        entry = book.open(None, said(row["mu"]), book.read_groups(row.get("groups")), None)
        assert entry.forecast == q
        assert book.take(entry, stake, "her") == twin.stake(q, stake, by="her")
        old = twin.open_forecasts[0]
        payments = book.close(book.find_to_change(old.id), 1).payments
        paid = twin.settle(old, 1)
        assert (payments, payments.by) == (paid, paid.by)
    gone = twin.open_forecasts[1]
    book.void(book.find_to_change(gone.id))
    twin.void(gone)
    entries = list(book.journal)
    book.journal.clear()
    assert state(f) == state(twin)
    book.journal.extend(entries)
    book.journal.undo()
    assert state(f) == before
    again = mw.InsuredForecaster.from_state(
        json.loads(json.dumps(f.to_state())), correction=Own if kind == "own" else None
    )
    assert state(played(f, 15, 2)) == state(played(again, 15, 2))


def said(mu: Any) -> Said:
    """What a base that only gives probabilities says."""
    mus = tuple(np.atleast_1d(mu).tolist())
    return Said(mus, (0.0,) * len(mus))


def test_a_group_of_steps_is_undone_at_the_cost_of_what_it_changed() -> None:
    f = mw.InsuredForecaster(None, mw.Reserve(0.1), mode="sound", max_stake=1)
    f.forecast_many(mu=[0.5] * 1000)
    before, book = state(f), f.book
    for k in range(20):
        entry = book.find_to_change(k)
        book.take(entry, 1.0, None)
        book.close(entry, 1)
    assert len(book.journal) < 20 * 25
    book.journal.undo()
    assert state(f) == before


@pytest.mark.parametrize("kind", KINDS)
def test_looking_changes_nothing(kind: str, tmp_path: Path) -> None:
    f = played(insured(kind), 20, 1)
    before, draw = json.dumps(f.to_state()), np.random.default_rng(9)
    looks: list[Callable[[], Any]] = [
        lambda: f.peek(**given_to(f, draw)),
        lambda: f.quote(f.open_forecasts[0], by="her"),
        lambda: f.statement().groups,
        lambda: f.certificate(),
        lambda: f.corrections,
        lambda: f.proposed(f.open_forecasts[0]),
        lambda: f.check_stake(bet(f, draw)),
        lambda: f.save(tmp_path / "book.json"),
        lambda: repr(f),
        lambda: copy.deepcopy(f),
        lambda: pickle.dumps(f),
    ]
    for look in looks:
        look()
        assert json.dumps(f.to_state()) == before


# --- interrupts -------------------------------------------------------------------------------------------


class Stop(BaseException):
    """An interrupt."""


class Interrupter:
    """Raises `Stop` before the n-th operation of a call, and once more so many operations later.

    The second one comes while what the first has interrupted is undone. Python stops tracing where a trace
    function raises: the undo starts it again.
    """

    def __init__(self, *at: int) -> None:
        self.at, self.seen, self.raised = list(at), 0, 0

    def trace(self, frame: FrameType, event: str, _: Any) -> Any:
        if not frame.f_code.co_filename.startswith(SOURCE):
            return None
        if event == "call":
            frame.f_trace_opcodes = True
        elif event == "opcode":
            self.seen += 1
            if self.at and self.seen >= self.at[0]:
                del self.at[0]
                self.seen, self.raised = 0, self.raised + 1
                raise Stop
        return self.trace

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        real, before = Journal.undo, sys.gettrace()

        def undo(journal: Journal, mark: int = 0) -> None:
            if self.raised and self.at:
                sys.settrace(self.trace)
            real(journal, mark)

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(Journal, "undo", undo)
            sys.settrace(self.trace)
            try:
                yield
            finally:
                sys.settrace(before)


def lately() -> mw.InsuredForecaster:
    """Old forecasts at a price that the capital can no longer afford."""
    f = mw.InsuredForecaster(None, mw.NoCorrection(), mode="sound", max_stake=1, capital=1.0, lines=None)
    for _ in range(4):
        f.forecast(mu=0.5)
    f.stake(0, 0.9)
    f.stake(1, 0.9)
    return f


def with_lines() -> mw.InsuredForecaster:
    """A capital, a line for each name, a thaw, and a forecast that several names have staked on."""
    f = played(mw.InsuredForecaster(max_stake=1, capital=9, lines=mw.Lines(each=2.0)), 12, 6)
    for by in ("her", ("club", "him"), "her"):
        f.stake(f.open_forecasts[0], 0.05, by=by)
    return f


def batched() -> mw.InsuredForecaster:
    """Forecasts that were published together, some of them staked on."""
    f = mw.InsuredForecaster(None, mw.Reserve(0.1), mode="sound", max_stake=1)
    f.forecast_many(mu=[0.2, 0.4, 0.6, 0.8])
    f.stake(1, 0.5, by="her")
    return f


MADE: dict[str, Callable[[], mw.InsuredForecaster]] = {
    **{kind: partial(lambda kind: played(insured(kind), 12, 6), kind) for kind in KINDS},
    "lines": with_lines,
    "late": lately,
    "batched": batched,
}

STEPS: dict[str, Callable[[mw.InsuredForecaster], Any]] = {
    "forecast": lambda f: f.forecast(mu=some_mu(f), **extra(f)),
    "stake": lambda f: f.stake(f.open_forecasts[-1], some_stake(f, 0.05), by=("club", "her")),
    "stake again": lambda f: f.stake(f.open_forecasts[0], some_stake(f, 0.05), by="her"),
    "stake, refused": lambda f: refused(f, f.open_forecasts[-1]),
    "settle": lambda f: f.settle(f.open_forecasts[0], 1),
    "settle with a stake": lambda f: f.settle(f.open_forecasts[0], 1, stake=some_stake(f, 0.04), by="him"),
    "void": lambda f: f.void(f.open_forecasts[0]),
    "forecast_many": lambda f: f.forecast_many(
        mu=[some_mu(f)] * 3, groups=[extra(f)["groups"]] * 3 if extra(f) else None
    ),
    "settle_many": lambda f: f.settle_many({q.id: 1 for q in f.open_forecasts[:2]}),
    "settle_many, all": lambda f: f.settle_many({q.id: 1 for q in f.open_forecasts}),
    "change_capital": lambda f: f.change_capital(7.5),
}


def steps_of(kind: str) -> list[str]:
    """The steps that a book of this kind can take."""
    with_capital = kind in ("capped", "lines", "late")
    return [step for step in STEPS if step != "change_capital" or with_capital]


def some_mu(f: mw.InsuredForecaster) -> Any:
    return 0.4 if f.classes is None else [0.2, 0.3, 0.5]


def some_stake(f: mw.InsuredForecaster, size: float) -> Any:
    return size if f.classes is None else [size, 0.0, 0.0 if f.one_sided else -size]


def refused(f: mw.InsuredForecaster, q: mw.Forecast) -> None:
    """Stake too much: more than the cap, or than the capital leaves."""
    with pytest.raises(mw.StakeRefused):
        f.stake(q, some_stake(f, 1.0 if f.capital == 1.0 else 2.0), by="her")


def extra(f: mw.InsuredForecaster) -> dict[str, Any]:
    return {"groups": ["a"]} if f.book.grouped else {}


# What is done next; it must see everything that was done, or nothing.
LOOKS: dict[str, Callable[[mw.InsuredForecaster, Path], Any]] = {
    "state": lambda f, _: json.dumps(f.to_state()),
    "statement": lambda f, _: re.sub("0x[0-9a-f]+", "", str(f.statement())),
    "open forecasts": lambda f, _: repr(f.open_forecasts),
    "a quote": lambda f, _: repr([f.quote(q, by="her") for q in f.open_forecasts]),
    "an account": lambda f, _: f.account("her") if f.lines is not None else None,
    "corrections": lambda f, _: repr([one.state() for one in f.corrections]),
    "a look": lambda f, _: repr(f.peek(mu=some_mu(f), **extra(f))),
    "capital": lambda f, _: f.capital,
    "save": lambda f, path: saved_text(f, path),
    "copy": lambda f, _: json.dumps(copy.deepcopy(f).to_state()),
    "pickle": lambda f, _: json.dumps(pickle.loads(pickle.dumps(f)).to_state()),  # noqa: S301 - our own bytes
    "another forecast": lambda f, _: (repr(f.forecast(mu=some_mu(f), **extra(f))), state(f)),
    "another settlement": lambda f, _: (
        repr(f.settle(f.open_forecasts[-1], 0)) if f.open_forecasts else None,
        state(f),
    ),
    "another void": lambda f, _: (list(map(f.void, f.open_forecasts[-1:])), state(f)),
}


def saved_text(f: mw.InsuredForecaster, path: Path) -> str:
    f.save(path)
    return path.read_text()


def interrupted(call: Callable[[], Any], *at: int) -> int:
    """Make a call that is interrupted at these operations; returns how often it was."""
    interrupter = Interrupter(*at)
    with interrupter.running(), contextlib.suppress(Stop):
        call()
    return interrupter.raised


def operations(call: Callable[[], Any]) -> int:
    """How many operations a call has."""
    interrupter = Interrupter()
    with interrupter.running():
        call()
    return interrupter.seen


class Case:
    """A forecaster before a step and after it, as bytes, and what one sees of each."""

    def __init__(self, kind: str, step: str, folder: Path) -> None:
        self.step, self.path = STEPS[step], folder / "book.json"
        f = MADE[kind]()
        self.before = pickle.dumps(f)
        self.operations = operations(partial(self.step, f))
        self.after = pickle.dumps(f)
        self.changes = step != "stake, refused"
        assert (self.seen(self.before, "state") != self.seen(self.after, "state")) == self.changes
        self.expected: dict[str, list[Any]] = {}

    def seen(self, made: bytes, look: str) -> Any:
        return LOOKS[look](pickle.loads(made), self.path)  # noqa: S301 - our own bytes

    def check(self, draw: np.random.Generator) -> tuple[int, bool]:
        """Interrupt the step, and sometimes its undoing and what comes next; then look.

        Returns how often the step was interrupted, and whether it took effect.
        """
        f = pickle.loads(self.before)  # noqa: S301 - our own bytes
        at = [int(draw.integers(1, self.operations + 1))]
        if draw.random() < 0.7:
            at.append(int(draw.integers(1, 120)))
        times = interrupted(partial(self.step, f), *at)
        if draw.random() < 0.3:  # finishing the undo is interrupted as well
            interrupted(f.statement, int(draw.integers(1, 200)))
        look = list(LOOKS)[int(draw.integers(len(LOOKS)))]
        if look not in self.expected:
            self.expected[look] = [self.seen(self.before, look), self.seen(self.after, look)]
        found = LOOKS[look](f, self.path)
        assert found in self.expected[look], f"torn at {at}, seen by {look}"
        if not look.startswith("another"):
            now = json.dumps(f.to_state())
            both = [self.seen(self.before, "state"), self.seen(self.after, "state")]
            assert now in both, f"torn at {at}, after {look}"
            assert found == self.expected[look][both.index(now)], f"{look} saw another state; torn at {at}"
            return times, now == both[1]
        return times, found == self.expected[look][1]

    def check_the_end(self) -> None:
        """The last interrupt that is possible comes when the step is complete."""
        for at in range(self.operations, 0, -1):
            f = pickle.loads(self.before)  # noqa: S301 - our own bytes
            if interrupted(partial(self.step, f), at):
                assert json.dumps(f.to_state()) == self.seen(self.after, "state")
                return


def check_many(kind: str, count: int, folder: Path) -> None:
    """Interrupt every step of a kind of book so often."""
    draw = np.random.default_rng(sorted(MADE).index(kind))
    for step in steps_of(kind):
        case = Case(kind, step, folder)
        results = [case.check(draw) for _ in range(count)]
        assert sum(times > 0 for times, _ in results) > 0.8 * count
        if case.changes:
            assert not all(done for _, done in results)
        if count > 50:
            assert {1, 2} <= {times for times, _ in results}
        case.check_the_end()


@pytest.mark.parametrize("kind", ["lines", "grouped", "batched", "late"])
def test_an_interrupt_anywhere_leaves_all_of_a_change_or_nothing(kind: str, tmp_path: Path) -> None:
    check_many(kind, 10, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("kind", MADE)
def test_ten_thousand_interrupts_leave_all_of_a_change_or_nothing(kind: str, tmp_path: Path) -> None:
    check_many(kind, 65, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("step", ["stake again", "settle", "stake, refused"])
def test_an_interrupt_at_every_single_operation_leaves_all_of_a_change_or_nothing(
    step: str, tmp_path: Path
) -> None:
    case = Case("late" if "refused" in step else "lines", step, tmp_path)
    both = [case.seen(case.before, "state"), case.seen(case.after, "state")]
    seen = set()
    for at in range(1, case.operations + 1):
        f = pickle.loads(case.before)  # noqa: S301 - our own bytes
        interrupted(partial(case.step, f), at)
        now = json.dumps(f.to_state())
        assert now in both, f"torn at {at}"
        seen.add(now)
    assert seen == set(both)


def test_the_capital_is_the_one_in_force_also_when_the_undo_was_interrupted(tmp_path: Path) -> None:
    case = Case("lines", "change_capital", tmp_path)
    for at in range(case.operations - 80, case.operations):
        for second in range(1, 100, 9):
            f = pickle.loads(case.before)  # noqa: S301 - our own bytes
            interrupted(partial(case.step, f), at, second)
            seen = f.capital
            assert seen == f.to_state()["settings"]["capital"]


_RUNG_AT = """
import signal
import numpy as np
import makewhole as mw

class Stop(BaseException):
    pass

armed = False

def ring(*_):
    global armed
    if armed:
        armed = False  # once, so that the handling itself is not interrupted
        raise Stop

def settled(t):
    global armed
    try:
        armed = True
        f.settle(t, t % 2)
    except mw.UnknownForecast:  # it took effect before it rang
        pass
    finally:
        armed = False

signal.signal(signal.SIGALRM, ring)
f = mw.InsuredForecaster(None, mw.Reserve(0.05), mode="sound", max_stake=1)
draw, rounds, rung = np.random.default_rng(0), 1500, 0
for t in range(rounds):
    f.forecast(mu=0.5, id=t)
    f.stake(t, 1.0)
    while True:
        signal.setitimer(signal.ITIMER_REAL, float(draw.uniform(1e-6, 3e-5)))
        try:
            settled(t)
            break
        except Stop:
            rung += 1
signal.setitimer(signal.ITIMER_REAL, 0)
signal.signal(signal.SIGALRM, signal.SIG_IGN)
again = mw.InsuredForecaster(None, mw.Reserve(0.05), mode="sound", max_stake=1)
for t in range(rounds):
    again.settle(again.forecast(mu=0.5), t % 2, stake=1.0)
one, two = f.statement(), again.statement()
print(rung > 50, (one.rounds, one.bets, one.open) == (rounds, rounds, 0))
print(one.total_loss == two.total_loss, f.corrections == again.corrections)
"""


def test_signals_at_random_times_tear_nothing_and_a_retry_learns_nothing_twice() -> None:
    """Ctrl-C or a timeout's signal, hundreds of times; each settlement is retried until it is closed.

    In a process of its own, which nobody measures: a signal inside coverage's own lock would never end.
    """
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COV")}
    done = subprocess.run(
        [sys.executable, "-c", _RUNG_AT],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        timeout=300,
    )
    assert done.stdout.split() == ["True"] * 4, done.stderr


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
    f = mw.InsuredForecaster(None, Meddling(), mode="sound", max_stake=1, capital=9)
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
    f = mw.InsuredForecaster(max_stake=1, capital=9)
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
    f = mw.InsuredForecaster(max_stake=1, capital=9.0)
    with pytest.raises(AttributeError, match="capital cannot be changed"):
        f.capital = 1.0  # type: ignore[misc]  # that is the point


def test_settings_cannot_be_deleted_either() -> None:
    f, reserve = mw.InsuredForecaster(max_stake=1), mw.Reserve(0.1)
    with pytest.raises(AttributeError, match="max_stake cannot be deleted: make a new InsuredForecaster"):
        del f.max_stake
    with pytest.raises(AttributeError, match="rate cannot be deleted: make a new Reserve"):
        del reserve.rate
