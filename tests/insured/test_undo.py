"""A change is a value: computed first, made true in one step, undone, dropped, interrupted."""

import copy
import functools
import json
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np
import pytest

import makewhole as mw
from makewhole.insured import settings as module
from makewhole.insured.bookkeeping import Bookkeeping
from samples import KINDS, Own, bet, given_to, insured, played, state

# --- two ways to the same numbers -------------------------------------------------------------------------


class General(Bookkeeping):
    """The general steps, where a plain book would take the short ones."""


@pytest.mark.parametrize("kind", ["default", "swap", "deterministic", "reserve", "one-sided", "own"])
def test_the_short_steps_of_a_plain_book_are_the_general_ones_bit_for_bit(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = played(insured(kind), 60, 3)
    monkeypatch.setattr(module, "PlainBookkeeping", General)
    general = played(insured(kind), 60, 3)
    assert state(short) == state(general)


@pytest.mark.parametrize("kind", KINDS)
def test_planned_and_applied_is_what_the_verbs_do(kind: str) -> None:
    draws = np.random.default_rng(5), np.random.default_rng(5)
    f, g = insured(kind), insured(kind)
    for t in range(25):
        q = f.forecast(**given_to(f, draws[0]))
        opening = g.plan_forecast(**given_to(g, draws[1]))
        g.apply(opening)
        assert opening.forecast == q
        place = f.stake(q, bet(f, draws[0]), by="her")
        planned = g.plan_stake(q, bet(g, draws[1]), by="her")
        g.apply(planned)
        assert (planned.place, planned.by, planned.id) == (place, "her", q.id)
        if t % 4 == 3:
            f.void(q)
            g.apply(g.plan_void(q))
        elif t % 4:
            payments = f.settle(q, t % 2)
            settlement = g.plan_settle(q, t % 2)
            g.apply(settlement)
            assert settlement.payments == payments
            assert settlement.payments.by == payments.by == {"her": sum(payments)}
            assert settlement.loss == pytest.approx(sum(payments), abs=1e-12)
    assert state(f) == state(g)


@pytest.mark.parametrize("kind", KINDS)
def test_planning_changes_nothing_and_undoing_takes_everything_back(kind: str) -> None:
    f = played(insured(kind), 20, 1)
    draw, before, undos = np.random.default_rng(9), state(f), []
    f.plan_forecast(**given_to(f, draw))
    assert state(f) == before
    opening = f.plan_forecast(**given_to(f, draw))
    undos.append(f.apply(opening))
    undos.append(f.apply(f.plan_stake(opening.forecast, bet(f, draw))))
    middle = state(f)
    old = f.open_forecasts[0]
    assert state(f) == middle
    undos.append(f.apply(f.plan_settle(old, 1)))
    undos.append(f.apply(f.plan_void(opening.forecast)))
    for undo in reversed(undos):
        f.apply(undo)
    assert state(f) == before
    assert state(played(f, 15, 2)) == state(
        played(
            mw.InsuredForecaster.from_state(
                json.loads(json.dumps(played(insured(kind), 20, 1).to_state())),
                correction=Own if kind == "own" else None,
            ),
            15,
            2,
        )
    )


def test_a_change_is_refused_once_the_forecaster_has_changed() -> None:
    f = mw.InsuredForecaster(max_stake=1)
    first, second = f.plan_forecast(mu=0.5), f.plan_forecast(mu=0.7)
    undo = f.apply(first)
    with pytest.raises(mw.ChangeRefused, match="plan it again"):
        f.apply(second)
    with pytest.raises(mw.ChangeRefused):
        f.apply(first)
    later = f.plan_stake(first.forecast, 0.5)
    f.apply(undo)
    f.forecast(mu=0.5)
    with pytest.raises(mw.ChangeRefused):  # another state of the same length
        f.apply(later)


def test_a_group_of_changes_can_be_dropped_at_the_cost_of_what_it_changed() -> None:
    f = mw.InsuredForecaster(None, mw.Reserve(0.1), mode="sound", max_stake=1)
    f.forecast_many(mu=[0.5] * 1000)
    before = state(f)
    undos = [f.apply(f.plan_settle(k, 1, stake=1.0)) for k in range(20)]
    assert all(len(undo.patch) < 10 for undo in undos)
    for undo in reversed(undos):
        f.apply(undo)
    assert state(f) == before


@pytest.mark.parametrize("kind", KINDS)
def test_a_store_that_keeps_items_one_by_one_has_the_whole_state(kind: str) -> None:
    """A toy store: a dictionary of JSON texts by key, written only where a change says so."""
    f = insured(kind)
    store: dict[str, str] = {}

    def write(items: list[list[Any]]) -> None:
        for key, value in items:
            if value is None:
                store.pop(json.dumps(key), None)
            else:
                store[json.dumps(key)] = json.dumps(value)

    head = json.dumps(f.head_state())
    write(f.to_state()["items"])
    draw = np.random.default_rng(2)
    for t in range(30):
        change: Any = f.plan_forecast(**given_to(f, draw), id=f"no {t}")
        write(f.change_state(change))
        f.apply(change)
        plans: list[Callable[[], Any]] = [
            lambda t=t: f.plan_stake(f"no {t}", bet(f, draw), by=t),  # type: ignore[misc]  # bound at once
            lambda t=t: f.plan_settle(f"no {t}", 1),  # type: ignore[misc]  # bound at once
        ]
        for plan in plans:
            if draw.uniform() < 0.8:
                change = plan()
                write(f.change_state(change))
                f.apply(change)
    items = [[json.loads(key), json.loads(value)] for key, value in store.items()]
    again = mw.InsuredForecaster.from_state(
        json.loads(head) | {"items": items}, correction=Own if kind == "own" else None
    )
    assert state(again) == state(f)
    assert state(played(again, 10, 4)) == state(played(f, 10, 4))


# --- interrupts -------------------------------------------------------------------------------------------


class Stop(BaseException):
    """An interrupt."""


def interrupted_at(step: Callable[[], Any], line: int) -> bool:
    """Run a step with an exception raised at its n-th line; False if it has fewer."""
    seen = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal seen
        if "makewhole" not in frame.f_code.co_filename:
            return None
        if event == "line":
            seen += 1
            if seen == line:
                raise Stop
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        step()
    except Stop:
        return True
    finally:
        sys.settrace(before)
    return False


STEPS: dict[str, Callable[[mw.InsuredForecaster], Any]] = {
    "forecast": lambda f: f.forecast(mu=0.4 if f.classes is None else [0.2, 0.3, 0.5], **extra(f)),
    "stake": lambda f: f.stake(f.open_forecasts[0], 0.05 if f.classes is None else [0.05] * 3, by="her"),
    "settle": lambda f: f.settle(f.open_forecasts[0], 1),
    "void": lambda f: f.void(f.open_forecasts[0]),
    "forecast_many": lambda f: f.forecast_many(
        mu=[0.4, 0.6] if f.classes is None else [[0.2, 0.3, 0.5]] * 2,
        groups=[extra(f)["groups"]] * 2 if extra(f) else None,
    ),
    "settle_many": lambda f: f.settle_many({q.id: 1 for q in f.open_forecasts[:2]}),
}


def extra(f: mw.InsuredForecaster) -> dict[str, Any]:
    return {"groups": ["a"]} if f.corrections[0].grouped else {}


@pytest.mark.slow
@pytest.mark.parametrize("step", list(STEPS))
@pytest.mark.parametrize("kind", ["default", "over", "classes", "grouped"])
def test_an_interrupt_at_any_line_leaves_all_of_a_change_or_nothing(kind: str, step: str) -> None:
    f = played(insured(kind), 12, 6)
    saved = json.loads(json.dumps(f.to_state()))
    done = mw.InsuredForecaster.from_state(saved)
    before = state(done)
    STEPS[step](done)
    after, outcomes, line = state(done), set(), 0
    assert after != before
    while True:
        line += 1
        f = mw.InsuredForecaster.from_state(saved)
        stopped = interrupted_at(functools.partial(STEPS[step], f), line)
        now = state(f)
        assert now in (before, after), f"torn at line {line}"
        outcomes.add(now == after)
        if not stopped:
            break
    assert outcomes == {True, False}
    assert line > 15


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
    f.apply(f.plan_forecast("y", id="y"))
    settlement = f.plan_settle("y", 0)
    undo = f.apply(settlement)
    assert len(taught) == 1
    f.teach(settlement)
    assert len(taught) == 2
    f.apply(undo)
    f.settle("y", 0)
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


def test_settings_cannot_be_changed_after_the_fact() -> None:
    f = mw.InsuredForecaster(None, mw.Reserve(0.1), max_stake=1)
    for name, value in (("max_stake", 100.0), ("mode", "sound"), ("c_range", (0.0, 0.0)), ("capital", 1.0)):
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


def test_a_plan_of_another_forecaster_or_from_before_a_restart_is_refused() -> None:
    f = mw.InsuredForecaster(max_stake=1)
    for k in range(3):
        f.settle(f.forecast(mu=0.5), k % 2, stake=1.0)
    old = f.plan_forecast(mu=0.5)
    again = mw.InsuredForecaster.from_state(f.to_state())
    other = mw.InsuredForecaster(max_stake=1)
    for one in (again, other):
        for _ in range(12):
            with pytest.raises(mw.ChangeRefused):
                one.apply(old)
            q = one.forecast(mu=0.5)
            one.stake(q, 0.1)
            one.void(q)
    f.apply(old)


def test_settings_cannot_be_deleted_either() -> None:
    f, reserve = mw.InsuredForecaster(max_stake=1), mw.Reserve(0.1)
    with pytest.raises(AttributeError, match="max_stake cannot be deleted: make a new InsuredForecaster"):
        del f.max_stake
    with pytest.raises(AttributeError, match="rate cannot be deleted: make a new Reserve"):
        del reserve.rate


@pytest.mark.parametrize("kind", KINDS)
def test_no_two_states_have_the_same_revision_and_every_change_ends_older_plans(kind: str) -> None:
    f, draw = insured(kind), np.random.default_rng(1)
    seen = {f._revision()}
    for t in range(12):
        q = f.forecast(**given_to(f, draw))
        calls: list[Any] = [lambda q=q: f.stake(q, bet(f, draw)), lambda q=q: f.settle_many({q.id: 1})]
        calls[1:] = [lambda q=q: f.void(q)] if t % 3 == 0 else calls[1:]
        for call in calls:
            seen.add(f._revision())
            planned = f.plan_void(q)
            call()
            assert f._revision() not in seen
            with pytest.raises(mw.ChangeRefused):
                f.apply(planned)
