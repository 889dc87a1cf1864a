"""Backtests with times: a forecaster that is fed the same log in order of time has the same numbers."""

import datetime as dt
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import makewhole as mw
from makewhole.backtesting import log as logs
from makewhole.backtesting.late import more_slots, new_slots, stable_order
from makewhole.backtesting.result import BacktestResult
from samples import CORRECTIONS, Foreign, replay

pytestmark = pytest.mark.slow  # its loops take seconds to compile


def late_log(rows: int, seed: int = 0, *, longest: int = 40, one_sided: bool = False) -> dict[str, Any]:
    """Forecasts at times with ties and in no order, whose outcomes are known up to `longest` later."""
    draw = np.random.default_rng(seed)
    stake = draw.normal(size=rows) * (draw.random(rows) < 0.9)
    time = draw.integers(0, rows // 2 + 1, rows)
    return {
        "mu": draw.uniform(size=rows),
        "y": draw.integers(0, 2, rows),
        "stake": np.abs(stake) if one_sided else stake,
        "c_hat": draw.uniform(0, 0.2, rows),
        "time": time,
        "known": time + draw.integers(0, longest + 1, rows),
    }


class Told(dict[int, Any]):
    """What a forecaster published and paid, by row; `totals` are its total losses after every settlement."""

    totals: list[float]


def fed_in_time_order(log: dict[str, Any], f: mw.InsuredForecaster) -> Told:
    """The slow, obvious way: a list of all that happens, sorted; at the same time settlements come first."""
    told, forecasts = Told(), dict[int, Any]()
    told.totals = []
    order = sorted(range(len(log["time"])), key=lambda row: (log["time"][row], row))
    for row in order:
        settle_until(log, f, told, forecasts, log["time"][row])
        quote = f.forecast(mu=float(log["mu"][row]), c_hat=float(log["c_hat"][row]))
        forecasts[row] = quote
        f.stake(quote, float(log["stake"][row]))
    settle_until(log, f, told, forecasts, np.inf)
    return told


def settle_until(log: dict[str, Any], f: mw.InsuredForecaster, told: Told, open_: Any, moment: float) -> None:
    due = [row for row in open_ if log["known"][row] <= moment]
    for row in sorted(due, key=lambda row: (log["known"][row], log["time"][row], row)):
        quote = open_.pop(row)
        (paid,) = f.settle(quote, int(log["y"][row]))
        told[row] = (quote.mu, quote.c, paid)
        told.totals.append(f.statement().total_loss)


def check_same(result: BacktestResult, told: Told, f: mw.InsuredForecaster) -> None:
    assert result.trace is not None
    rows = sorted(told)
    for k, name in enumerate(("mu", "c", "payment")):
        assert result.trace[name][rows].tolist() == [told[row][k] for row in rows]
    statement = f.statement()
    assert result.total_loss == statement.total_loss
    assert result.rounds == statement.rounds
    assert result.certificate == f.certificate()
    assert result.correction == f.corrections[0]
    assert result.negative_c == statement.negative_c
    path = np.array([0.0, *told.totals])
    assert result.peak_loss == path.max()
    assert result.peak_at == path.argmax()
    rises = path - np.minimum.accumulate(path)
    assert result.drawdown == rises.max()
    assert result.drawdown_to == rises.argmax()
    assert path[result.drawdown_to] - path[result.drawdown_from] == rises.max()
    assert result.curve.total_loss.tolist() == [path[n] for n in result.curve.round.tolist()]


TIMES: dict[str, Any] = dict(c_hat="c_hat", time="time", known="known", trace=True)


@pytest.mark.parametrize("mode", ["exact", "sound"])
@pytest.mark.parametrize("make", [*CORRECTIONS, lambda: mw.Reserve(0.01)])
def test_late_outcomes_have_the_forecasters_bits(make: Any, mode: Any) -> None:
    log = late_log(600)
    cap = float(np.abs(log["stake"]).max())
    options: Any = dict(mode=mode, max_stake=cap, c_range=(0.0, 0.2))
    result = replay(pd.DataFrame(log), correction=make(), **TIMES, **options)
    f = mw.InsuredForecaster(None, make(), **options)
    check_same(result, fed_in_time_order(log, f), f)


def test_the_forecasters_own_correction_has_its_bits_late() -> None:
    log = late_log(600)
    result = replay(pd.DataFrame(log), max_stake=5.0, c_range=(0.0, 0.5), **TIMES)
    f = mw.InsuredForecaster(max_stake=5.0)
    check_same(result, fed_in_time_order(log, f), f)


def test_the_certificate_is_the_forecasters_where_the_book_empties_now_and_then() -> None:
    """What open forecasts could lose is added up and subtracted, and must be nothing when none is open."""
    log = late_log(400, longest=1)
    options: Any = dict(mode="sound", max_stake=5.0, c_range=(0.0, 0.2))
    result = replay(pd.DataFrame(log), correction=mw.Reserve(0.1), **TIMES, **options)
    f = mw.InsuredForecaster(None, mw.Reserve(0.1), **options)
    check_same(result, fed_in_time_order(log, f), f)
    assert result.certificate is not None
    assert 0 < result.certificate.exposure < 100 * 5.0


@pytest.mark.parametrize("make", CORRECTIONS[1:3])
def test_one_sided_late_outcomes_have_the_forecasters_bits(make: Any) -> None:
    log = late_log(400, one_sided=True)
    options: Any = dict(one_sided=True, max_stake=5.0, c_range=(0.0, 0.2))
    result = replay(pd.DataFrame(log), correction=make(), **TIMES, **options)
    f = mw.InsuredForecaster(None, make(), **options)
    check_same(result, fed_in_time_order(log, f), f)


SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    "over",
    [
        mw.NaiveBestResponse(),
        pytest.param(mw.DeterministicSwap(9), marks=SLOW),
        pytest.param(mw.SwapRegret(9, seed=1), marks=SLOW),
    ],
)
def test_a_late_reserve_over_another_correction_has_the_forecasters_bits(over: Any) -> None:
    log = late_log(300)
    options: Any = dict(mode="sound", max_stake=5.0, c_range=(0.0, 0.2))
    result = replay(pd.DataFrame(log), correction=mw.Reserve(0.1, over=over), **TIMES, **options)
    f = mw.InsuredForecaster(None, mw.Reserve(0.1, over=over), **options)
    check_same(result, fed_in_time_order(log, f), f)


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(
            st.floats(0, 1), st.integers(0, 1), st.floats(-1, 1), st.integers(0, 12), st.integers(0, 12)
        ),
        min_size=1,
        max_size=40,
    ),
    st.sampled_from([0, 2, 4, 7, 9]),
)
def test_what_hypothesis_finds_has_the_forecasters_bits(rows: list[Any], which: int) -> None:
    mu, y, b, time, wait = (np.array(column) for column in zip(*rows, strict=True))
    log = {"mu": mu, "y": y, "stake": b, "c_hat": np.zeros(len(mu)), "time": time, "known": time + wait}
    options: Any = dict(max_stake=1.0, c_range=(0.0, 0.0))
    result = replay(pl.DataFrame(log), correction=CORRECTIONS[which](), **TIMES, **options)
    f = mw.InsuredForecaster(None, CORRECTIONS[which](), **options)
    check_same(result, fed_in_time_order(log, f), f)


@pytest.mark.parametrize(("chunk", "blocks"), [(1, 3), (7, 3), (7, 8), (64, 2)])
def test_chunks_do_not_show_in_late_backtests(
    chunk: int, blocks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = pd.DataFrame(late_log(500, longest=300)).astype({"mu": float})
    log.loc[::13, "mu"] = np.nan
    options: Any = dict(correction=mw.SwapRegret(7, seed=0), max_stake=5, **TIMES)
    expected = replay(log, **options)
    monkeypatch.setattr(logs, "CHUNK", chunk)
    monkeypatch.setattr(logs, "_BLOCK", blocks * chunk)
    for table in (log, log.sort_values("time", kind="stable")):
        result = replay(table, **options)
        assert (result.total_loss, result.missing) == (expected.total_loss, expected.missing)
        assert result.correction == expected.correction
        assert (result.peak_loss, result.peak_at) == (expected.peak_loss, expected.peak_at)


@given(st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(0, 9)))
def test_the_order_of_settlement_is_that_of_a_stable_sort(keys: list[int]) -> None:
    ordered, found = stable_order(np.array(keys, dtype=np.int64))
    assert ordered.tolist() == sorted(keys)
    assert found.tolist() == sorted(range(len(keys)), key=lambda place: keys[place])


@pytest.mark.parametrize("lines", [1, 2])
def test_every_slot_begins_a_line_of_the_cache(lines: int) -> None:
    slots = new_slots(5, lines)
    slots.kept[3, 0] = slots.free[1] = slots.counts[0] = 7
    for one in (slots, more_slots(slots, 1000)):
        assert one.kept.ctypes.data % 64 == 0
        assert one.kept.strides == (64 * lines, 8)
        assert (one.kept[3, 0], one.kept.sum(), one.free[1], one.counts[0]) == (7, 7, 7, 7)


def test_without_delays_times_only_sort_the_rows() -> None:
    log = pd.DataFrame(late_log(400))
    sorted_ = log.sort_values("time", kind="stable")
    plain = mw.backtest(sorted_, correction=mw.DeterministicSwap(9))
    timed = mw.backtest(log, time="time", correction=mw.DeterministicSwap(9))
    assert timed.total_loss == plain.total_loss
    assert timed.peak_loss == plain.peak_loss
    assert timed.peak_time == sorted_["time"].iloc[timed.peak_at - 1]
    assert plain.peak_time is None
    at_once = log.assign(time=np.arange(400), known=np.arange(400))
    for correction in (mw.DeterministicSwap(9), mw.Reserve(0.1)):
        late = replay(at_once, time="time", known="known", correction=correction, mode="sound", max_stake=4.0)
        prompt = replay(log, correction=correction, mode="sound", max_stake=4.0)
        assert late.total_loss == prompt.total_loss
        assert late.certificate == prompt.certificate  # never more than one forecast was open
        assert late.mean_c == pytest.approx(prompt.mean_c)
        assert late.premium == pytest.approx(prompt.premium)
        assert late.turnover == pytest.approx(prompt.turnover)


def test_a_correction_of_ones_own_and_groups_take_late_outcomes_too() -> None:
    log = late_log(300)
    options: Any = dict(max_stake=5.0, c_range=(0.0, 0.2))
    ours = replay(pd.DataFrame(log), correction=mw.NaiveBestResponse(), **TIMES, **options)
    theirs = replay(pd.DataFrame(log), correction=Foreign(mw.NaiveBestResponse()), **TIMES, **options)
    assert ours.trace is not None
    assert theirs.trace is not None
    assert ours.trace["payment"].tolist() == theirs.trace["payment"].tolist()
    assert (ours.peak_loss, ours.peak_at, ours.drawdown) == (
        theirs.peak_loss,
        theirs.peak_at,
        theirs.drawdown,
    )
    assert ours.turnover == pytest.approx(theirs.turnover)
    assert ours.premium == pytest.approx(theirs.premium)
    assert ours.mean_c == pytest.approx(theirs.mean_c)
    one = {"g": ["only"] * 300}
    grouped = replay(
        pd.DataFrame(log | one), mw.Grouped(mw.NaiveBestResponse()), group="g", **TIMES, **options
    )
    assert grouped.trace is not None
    assert grouped.trace["payment"].tolist() == ours.trace["payment"].tolist()
    assert grouped.groups["only"].total_loss == pytest.approx(ours.total_loss)
    assert grouped.groups["only"].rounds == 300


def test_groups_are_replayed_in_order_of_time() -> None:
    log = pd.DataFrame(late_log(300)).assign(g=np.arange(300) % 3, h=np.arange(300) % 2)
    options: Any = dict(group="g", correction=mw.Reserve(0.1), max_stake=5.0)
    timed = replay(log, time="time", **options)
    plain = replay(log.sort_values("time", kind="stable"), **options)
    assert timed.total_loss == plain.total_loss
    assert {name: group.total_loss for name, group in timed.groups.items()} == {
        name: plain.groups[name].total_loss for name in timed.groups
    }


def test_late_outcomes_of_overlapping_groups_are_the_forecasters() -> None:
    log = late_log(200)
    frame = pd.DataFrame(log).assign(g=np.arange(200) % 3, h=np.arange(200) % 2)
    options: Any = dict(mode="sound", max_stake=5.0, c_range=(0.0, 0.2))
    reserve = mw.OverlappingReserve(0.1)
    result = replay(frame, group=["g", "h"], correction=reserve, **TIMES, **options)
    f = mw.InsuredForecaster(None, reserve, **options)
    quotes: dict[int, Any] = {}
    for row in [*sorted(range(200), key=lambda row: (log["time"][row], row)), -1]:
        now = np.inf if row < 0 else log["time"][row]
        due = [one for one in quotes if log["known"][one] <= now]
        for one in sorted(due, key=lambda one: (log["known"][one], log["time"][one], one)):
            f.settle(quotes.pop(one), int(log["y"][one]))
        if row >= 0:
            members = [f"g={row % 3}", f"h={row % 2}"]
            said: Any = {"mu": float(log["mu"][row]), "c_hat": float(log["c_hat"][row])}
            quotes[row] = f.forecast(**said, groups=members)
            f.stake(quotes[row], float(log["stake"][row]))
    assert result.total_loss == f.statement().total_loss
    assert result.certificate == f.certificate()
    assert result.groups["g=1"].total_loss == pytest.approx(f.statement().groups["g=1"].total_loss)


def test_stakes_of_an_event_come_when_they_come() -> None:
    """Two forecasts, one staked again after the other was made; the cap on exposure sees both."""
    log = pd.DataFrame(
        {
            "e": ["a", "b", "a", "c"],
            "mu": [0.5, 0.5, 0.5, 0.5],
            "y": [1, 0, 1, 1],
            "stake": [1.0, 1.0, 1.0, 1.0],
            "time": [0, 1, 2, 9],
            "known": [5, 6, 5, 9],
        }
    )
    options: Any = dict(id="e", time="time", known="known", correction=mw.NoCorrection(), max_stake=2)
    free = replay(log, **options)
    assert (free.rounds, free.total_loss, free.peak_loss) == (3, 1.0, 1.0)
    limited = replay(log, max_exposure=1.0, trace=True, **options)
    assert (limited.refused, limited.refused_stake) == (1, 1.0)  # the third: 0.5 + 0.5 + 0.5 > 1
    assert limited.total_loss == 0.5
    assert limited.trace is not None
    assert limited.trace["payment"].tolist() == [0.5, -0.5, 0.0, 0.5]
    with pytest.raises(ValueError, match="known='known' must be the same in all rows of an id; got 7"):
        replay(log.assign(known=[5, 6, 7, 9]), **options)


DAY = dt.datetime(2013, 1, 1, 12, 0)


@pytest.mark.parametrize("kind", ["datetime", "date", "zone", "float", "duration", "pyarrow"])
def test_times_may_be_dates_and_numbers_of_all_kinds(kind: str) -> None:
    log = late_log(200)
    whole = replay(pd.DataFrame(log), correction=mw.DeterministicSwap(9), **TIMES)
    make: Any = {
        "datetime": lambda n: DAY + dt.timedelta(hours=n),
        "date": lambda n: DAY.date() + dt.timedelta(days=n),
        "zone": lambda n: DAY.replace(tzinfo=dt.UTC) + dt.timedelta(hours=n),
        "float": lambda n: (n - 30) * 0.5,
        "duration": lambda n: dt.timedelta(minutes=n - 50),
        "pyarrow": lambda n: DAY + dt.timedelta(hours=n),
    }[kind]
    changed = log | {name: [make(int(n)) for n in log[name]] for name in ("time", "known")}
    frame: Any = pa.table(changed) if kind == "pyarrow" else pl.DataFrame(changed)
    result = replay(frame, correction=mw.DeterministicSwap(9), **TIMES)
    assert result.total_loss == whole.total_loss
    assert result.peak_at == whole.peak_at
    assert result.peak_time == make(whole.peak_time)
    assert str(make(whole.peak_time)) in str(result)
    assert result.drawdown_times is not None
    assert result.drawdown_times[1] == make(whole.drawdown_times[1])  # type: ignore[index]  # it has times


def test_times_of_different_units_compare_as_times() -> None:
    base = pl.DataFrame(late_log(100))
    days, hours = pl.col("time").cast(pl.Date), pl.col("known").cast(pl.Date).cast(pl.Datetime("ns"))
    whole = replay(base, **TIMES)
    assert replay(base.with_columns(days, hours), **TIMES).total_loss == whole.total_loss


def test_rows_without_a_time_are_left_out() -> None:
    log = pd.DataFrame(late_log(100)).astype({"known": float, "time": float})
    log.loc[7, "known"] = np.nan
    log.loc[9, "time"] = np.nan
    result = replay(log, **TIMES)
    assert (result.missing, result.rounds) == (2, 98)
    assert result.total_loss == replay(log.drop([7, 9]), max_stake=result.max_stake, **TIMES).total_loss


@pytest.mark.parametrize(
    ("change", "options", "error", "message"),
    [
        (
            {"known": [3, 1, 3]},
            {},
            ValueError,
            "known='known' must not be before time='time'; got 1 before 2 at row 1",
        ),
        ({}, {"time": None}, ValueError, "known='known' needs time=..., the column that says when"),
        ({"time": list("abc")}, {}, TypeError, "time='time' must be a column of numbers, dates or datetimes"),
        (
            {"known": [DAY] * 3},
            {},
            TypeError,
            "must both be numbers or both be dates, .*; got Int64 and Datetime",
        ),
        ({}, {"known": "k"}, ValueError, "known='k' is not a column"),
    ],
)
def test_times_that_do_not_fit_are_named(
    change: Any, options: Any, error: type[Exception], message: str
) -> None:
    log = {"mu": [0.5] * 3, "y": [1, 0, 1], "stake": [1.0] * 3, "time": [1, 2, 3], "known": [3, 3, 3]}
    with pytest.raises(error, match=message):
        replay(pl.DataFrame(log | change), **({"time": "time", "known": "known"} | options))


def test_times_that_cannot_be_compared_are_refused() -> None:
    zoned = pd.Timestamp("2020-01-01", tz="Asia/Tokyo") + pd.to_timedelta(np.arange(5), "h")
    log = pd.DataFrame({"mu": 0.5, "y": [0, 1, 0, 1, 1], "stake": 1.0, "t": zoned})
    naive = log.assign(k=(zoned + pd.Timedelta("3h")).tz_localize(None))
    with pytest.raises(TypeError, match="with a time zone or without"):
        mw.backtest(naive, time="t", known="k")
    with pytest.raises(TypeError, match="must both be numbers or both be dates"):
        mw.backtest(log.assign(k=pd.to_timedelta(np.arange(5), "h")), time="t", known="k")
    with pytest.raises(ValueError, match=r"time='t' must be below 2\*\*63"):
        mw.backtest(log.assign(t=np.array([1, 2, 3, 4, 2**63 + 1], dtype=np.uint64)), time="t")
    wrong: Any = "hedgers"
    with pytest.raises(TypeError, match="customers must be makewhole.agents.Customers"):
        mw.backtest(log.drop(columns="stake"), customers=wrong)


def test_capital_takes_quantities_one_number_and_no_cap_of_zero() -> None:
    log = pd.DataFrame({"mu": [0.4] * 200, "y": [0.3, 0.5] * 100})
    f = mw.InsuredForecaster(None, mw.Reserve(), graded=True, max_stake=1.0)
    report = mw.find_capital(log, f, capitals=10.0)
    assert [point.capital for point in report.points] == [10.0]
    with pytest.raises(ValueError, match="max_stake must be one number above 0"):
        mw.find_capital(log, max_stake=0)


# --- what is known at t can be used at t ------------------------------------------------------------------


def both_ways(log: pd.DataFrame, **columns: Any) -> list[tuple[int, float]]:
    """Rounds and loss, compiled and then driven bet by bet: a cap on exposure that never binds needs that."""
    results = []
    for most in (None, 1e6):
        f = mw.InsuredForecaster(None, mw.StandardRegret(0.5), max_stake=2.0, thaw=None, max_exposure=most)
        result = mw.backtest(log, f, id="id", time="t", known="known", **columns)
        results.append((result.rounds, result.total_loss))
    return results


def test_a_stake_at_the_time_its_outcome_is_known_still_counts() -> None:
    log = pd.DataFrame({"id": ["a", "a"], "mu": 0.5, "y": 1, "stake": 1.0, "t": [1, 3], "known": 3})
    assert both_ways(log) == [(1, 1.0), (1, 1.0)]


def test_an_outcome_is_used_by_forecasts_made_when_it_is_known() -> None:
    """Forecasts at 3 are made after the outcome of "a", whose last stake is at 3, wherever its row stands."""
    rows = [("a", 1, 3), ("b", 2, 9), ("c", 3, 9), ("b", 3, 9), ("a", 3, 3), ("d", 3, 3), ("d", 3, 3)]
    log = pd.DataFrame(rows, columns=["id", "t", "known"]).assign(mu=0.5, y=1, stake=1.0)
    compiled, live = both_ways(log)
    assert compiled == live
    assert compiled[0] == 4
    early = log.assign(known=log["known"].replace(3, 4), t=log["t"])
    assert both_ways(early)[0][1] > compiled[1]  # "c" and "d" are then made at the old price


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 4), st.integers(0, 1), st.floats(-0.3, 0.3)), min_size=1
    )
)
def test_whatever_comes_at_the_same_time_both_ways_agree(rows: list[Any]) -> None:
    log = pd.DataFrame(rows, columns=["id", "t", "y", "stake"]).assign(mu=0.4)
    log["y"] = log.groupby("id")["y"].transform("first")
    log["known"] = log.groupby("id")["t"].transform("max") + log["id"] % 2
    log["stake"] /= 10.0
    compiled, live = both_ways(log)
    assert compiled[0] == live[0]
    assert compiled[1] == pytest.approx(live[1], abs=1e-12)
