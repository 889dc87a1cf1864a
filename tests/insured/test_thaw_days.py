"""A thaw by the day: no more than so much between two days, and in all no more than without."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import makewhole as mw
from samples import replay, state

MAKERS: dict[str, Any] = {
    "reserve": lambda: mw.Reserve(0.1),
    "barrier": lambda: mw.Barrier(5.0),
    "standard": lambda: mw.StandardRegret(0.5),
    "swap": lambda: mw.SwapRegret(8, seed=1),
    "deterministic swap": lambda: mw.DeterministicSwap(8),
}
MOVES = st.lists(st.sampled_from(["win", "win", "lose", "wait", "wait", "wait", "day", "save"]), max_size=120)


def book(name: str, thaw: mw.Thaw, **other: Any) -> mw.InsuredForecaster:
    given: Any = {"mode": "sound", "max_stake": 1, "thaw": thaw, "stop": False}
    return mw.InsuredForecaster(None, MAKERS[name](), **given, **other)


def play(f: mw.InsuredForecaster, moves: list[str]) -> tuple[mw.InsuredForecaster, list[float]]:
    """Make these moves; returns what was conceded on each day."""
    day, conceded = 0, [0.0]
    for move in moves:
        before = f.statement().conceded
        if move == "day":
            day += 1 + day % 3  # some days are skipped
            f.begin_day(day)
            f.begin_day(day)
            conceded.append(0.0)
        elif move == "save":
            f = mw.InsuredForecaster.from_state(json.loads(json.dumps(f.to_state())))
        else:
            f.settle(f.forecast(mu=0.5), int(move == "win"), stake=None if move == "wait" else 1.0)
        conceded[-1] += f.statement().conceded - before
    return f, conceded


@settings(max_examples=100)
@given(st.sampled_from(list(MAKERS)), MOVES, st.sampled_from([0.01, 0.3, 1.0]))
def test_no_day_concedes_more_than_its_part_and_all_no_more_than_the_budget(
    name: str, moves: list[str], per_day: float
) -> None:
    f = book(name, mw.Thaw(budget=2.0, per_day=per_day), capital=1000.0)
    bound = f.certificate().bound
    f, conceded = play(f, ["win"] * 9 + moves)
    assert max(conceded) <= per_day + 1e-12
    assert sum(conceded) <= 2.0 + 1e-12
    assert (
        f.certificate().bound == bound == book(name, mw.Thaw(budget=2.0), capital=1000.0).certificate().bound
    )
    if name in ("reserve", "barrier"):
        assert f.statement().total_loss <= 5.0 + sum(conceded) + 1e-12


@settings(max_examples=30)
@given(st.sampled_from(list(MAKERS)), MOVES)
def test_a_limit_that_is_never_met_changes_nothing(name: str, moves: list[str]) -> None:
    one, _ = play(book(name, mw.Thaw(budget=2.0, per_day=50.0)), moves)
    other, _ = play(book(name, mw.Thaw(budget=2.0)), [move for move in moves if move != "day"])
    assert [c.state() for c in one.corrections] == [c.state() for c in other.corrections]
    assert one.statement() == other.statement()


def test_it_goes_on_the_next_day() -> None:
    f = book("reserve", mw.Thaw(budget=2.0, per_day=0.5))
    told = []
    for day in range(6):
        f, _ = play(f, ["win"] * 40 + ["wait"] * 40)
        told.append(round(f.statement().conceded, 9))
        f.begin_day(day)
    assert told == [0.5, 1.0, 1.5, 2.0, 2.0, 2.0]


def test_a_day_is_a_change_like_any_other() -> None:
    f = book("reserve", mw.Thaw(budget=2.0, per_day=0.5))
    start = state(f)
    f.book.begin_day(3)
    assert f.book.thawing.day == 3
    f.book.journal.undo()
    assert state(f) == start
    f.begin_day(3)
    before = state(f)
    assert before != start
    f.begin_day(3)  # it is already
    assert state(f) == before
    for day, message in ((2, "not be before the last one, 3; got 2"), (3.5, "day"), (-1, "day")):
        with pytest.raises((ValueError, TypeError), match=message):
            f.begin_day(day)  # type: ignore[arg-type]  # that is the point
    assert state(f) == before
    for thaw in (None, mw.Thaw(budget=1.0)):
        with pytest.raises(ValueError, match="only a thaw with per_day"):
            mw.InsuredForecaster(max_stake=1, thaw=thaw).begin_day(1)


@pytest.mark.parametrize("change", [{"day": -1}, {"before": -0.1}, {"before": 0.6}, {"day": "1"}])
def test_a_day_that_cannot_have_been_is_refused(change: dict[str, Any]) -> None:
    f = book("reserve", mw.Thaw(budget=2.0, per_day=0.5))
    f, _ = play(f, ["win"] * 40 + ["wait"] * 40 + ["day"])
    plain = f.to_state()
    plain["book"]["thaw"].update(change)
    with pytest.raises(ValueError, match="day|before"):
        mw.InsuredForecaster.from_state(plain)


def test_a_day_without_anything_to_concede_is_refused() -> None:
    with pytest.raises(ValueError, match="per_day must be"):
        mw.Thaw(budget=2.0, per_day=0.0)


def test_a_backtest_has_no_days() -> None:
    log = {"mu": [0.5] * 3, "y": [1] * 3, "stake": [1.0] * 3}
    pd = pytest.importorskip("pandas")
    with pytest.raises(ValueError, match="a log has no days"):
        replay(pd.DataFrame(log), capital=9, max_stake=1, thaw=mw.Thaw(budget=1, per_day=1))
