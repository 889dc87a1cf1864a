"""All or nothing: what is refused or interrupted is undone, and one call runs at a time."""

import copy
import json
import os
import pickle
import re
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from interrupts import interrupted, operations

import makewhole as mw
from makewhole.forecasters import Said
from makewhole.insured.journal import Journal, Journaled
from samples import KINDS, Own, bet, given_to, insured, played, state

SOURCE = str(Path(mw.__file__).parent)

# --- a journal --------------------------------------------------------------------------------------------


class Pair(Journaled):
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


class Careful(Journal):
    """A journal that compares every entry with what is there: fields are written out where speed matters."""

    __slots__ = ()

    def append(self, entry: tuple[Any, Any]) -> None:
        target, old = entry
        if isinstance(target, Journaled):
            assert old == target.values()
        elif isinstance(target, dict):
            assert old[1] is target.get(old[0])
        else:
            assert old == len(target)
        super().append(entry)


@pytest.mark.parametrize("kind", KINDS)
def test_an_entry_has_every_field_that_changes_as_it_was(kind: str) -> None:
    f = insured(kind)
    f.book.share_journal(Careful())
    assert state(played(f, 30, 1)) == state(played(insured(kind), 30, 1))


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


def lately() -> mw.InsuredForecaster:
    """Old forecasts at a price that the capital can no longer afford."""
    f = mw.InsuredForecaster(
        None, mw.NoCorrection(), mode="sound", max_stake=1, capital=1.0, lines=None, stop=False
    )
    for _ in range(4):
        f.forecast(mu=0.5)
    f.stake(0, 0.9)
    f.stake(1, 0.9)
    return f


def with_lines() -> mw.InsuredForecaster:
    """A capital, a line for each name, a thaw, and a forecast that several names have staked on."""
    f = played(mw.InsuredForecaster(max_stake=1, capital=9, lines=mw.Lines(each=2.0, share=1.0)), 12, 6)
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
