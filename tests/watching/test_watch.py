"""A watch: its arithmetic against a slow oracle, its false alarms, what it finds, and how it reads rows."""

import datetime as dt
import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import makewhole as mw
from makewhole.watching import _kernel
from makewhole.watching.groups import risk_share
from makewhole.watching.times import PERIODS, period_of, periods_of, read_time, show_time

SHARES = [0.98 / 2**k for k in range(10)]
PRICES = [0.0, 0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.5]


def rows_of(seed: int, days: int = 60, size: int = 20, shift: float = 0.0, change: int = 0) -> pd.DataFrame:
    """Right forecasts, but for a `shift` in the truth from day `change` on; days share a common shock."""
    draw = np.random.default_rng(seed)
    count = draw.integers(1, 2 * size, days)
    day = np.repeat(np.arange(days), count)
    mu = draw.uniform(0.1, 0.6, len(day))
    shock = np.repeat(draw.choice([-0.08, 0.08], days), count)
    y = draw.uniform(size=len(day)) < mu + shock + np.where(day >= change, shift, 0.0)
    kind = draw.choice(["jet", "prop"], len(day))
    return pd.DataFrame({"day": day, "mu": mu, "y": y.astype(int), "kind": kind})


def slow_money(rows: pd.DataFrame, price: float, side: int, alone: bool = False) -> tuple[float, float]:
    """The most money that one group's bettors ever had on one side, and when, from every start separately."""
    starts: list[list[float]] = [[] for _ in SHARES]
    most_rows = most_loss = 0.0
    richest, when = 0.0, math.nan
    units = [rows.iloc[k : k + 1] for k in range(len(rows))] if alone else [u for _, u in rows.groupby("day")]
    for number, unit in enumerate(units, 1):
        loses = (unit["mu"] if side == 0 else 1 - unit["mu"]).tolist()
        error = ((unit["y"] - unit["mu"]) * (1 if side == 0 else -1)).tolist()
        if number > 1:
            bet: list[int] = []
            for k in range(len(unit)):
                if len(bet) + 1 <= most_rows and sum(loses[j] for j in bet) + loses[k] <= most_loss:
                    bet.append(k)
            win = sum(error[k] for k in bet) - price * len(bet)
            weight = next(1 / (e * (e + 1) * 2 ** (e - 1)) for e in range(1, 99) if number - 1 < 2**e)
            for k, share in enumerate(SHARES):
                if share * (most_loss + price * most_rows) > 0.999 * most_loss:
                    starts[k] = [0.0]
                    continue
                starts[k] = [one * (1 + share * win / most_loss) for one in [*starts[k], weight]]
            total = sum(map(sum, starts))
            if total > richest:
                richest, when = total, number
        most_rows = 1.0 if alone else max(most_rows, float(len(unit)))
        most_loss = min(max(most_loss, sum(loses), 0.01 * most_rows), most_rows)
    return richest, when


@pytest.mark.parametrize("alone", [False, True])
def test_the_money_is_what_a_slow_oracle_computes(alone: bool) -> None:
    """`enough` is set near the peak that the oracle finds: a little below it is refuted, above it is not."""
    table = rows_of(0, days=25, size=4, shift=0.2)
    for side in (0, 1):
        for place, price in enumerate(PRICES[:7]):
            richest, _ = slow_money(table, price, side, alone)
            for factor, refuted in ((1 - 1e-9, True), (1 + 1e-9, False)):
                watch = mw.Watch(cluster=None if alone else "at", bins=1)
                watch._memory.enough[0] = richest * factor
                watch.see_many(table, at="day")
                if not alone:
                    watch.end_cluster()
                watch.alarms()
                assert (watch._memory.level[0, side] > place) == refuted or richest == 0.0


@pytest.mark.parametrize("cluster", [None, "at"])
def test_one_by_one_many_and_plain_python_give_the_same_bits(
    cluster: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = rows_of(1, days=80, shift=0.3, change=20)
    many, one, pieces, plain = (mw.Watch(groups=["kind"], cluster=cluster) for _ in range(4))
    many.see_many(table, at="day")
    for row in table.itertuples():
        one.see(row.mu, row.y, groups={"kind": row.kind}, at=row.day)
    for start in range(0, len(table), 37):
        pieces.see_many(pl.from_pandas(table.iloc[start : start + 37]), at="day")
        pieces.alarms()
    monkeypatch.setattr("makewhole.watching.watch.compiled_rows", lambda: _kernel.watch_rows)
    plain.see_many(table, at="day")
    assert len(many.alarms()) >= 2
    for other in (one, pieces, plain):
        assert other.alarms() == many.alarms()
        for mine, theirs in zip(other._memory, many._memory, strict=True):
            np.testing.assert_array_equal(mine, theirs)


def quiet(seed: int, days: int, cluster: str | None) -> mw.Watch:
    """Watch right forecasts; with clusters, the days share shocks of a Gaussian copula."""
    from scipy.stats import norm

    draw = np.random.default_rng(seed)
    mu = draw.uniform(0.05, 0.6, (days, 12))
    common = draw.normal(size=(days, 1)) if cluster else np.zeros((days, 1))
    hidden = math.sqrt(0.5 if cluster else 0.0) * common
    hidden = hidden + math.sqrt(0.5 if cluster else 1.0) * draw.normal(size=mu.shape)
    frame = pd.DataFrame({"mu": mu.ravel(), "y": (hidden < norm.ppf(mu)).astype(int).ravel()})
    frame = frame.assign(day=np.repeat(np.arange(days), 12), kind=np.tile(np.arange(12) % 4, days))
    watch = mw.Watch(groups=["kind"], cluster=cluster, confidence=0.8)
    watch.see_many(frame, at="day")
    return watch


@pytest.mark.slow
@pytest.mark.parametrize(("runs", "most"), [(60, 22), pytest.param(300, 84, marks=pytest.mark.long)])
@pytest.mark.parametrize("cluster", [None, "at"])
def test_right_forecasts_raise_alarms_no_more_often_than_is_said(
    cluster: str | None, runs: int, most: int
) -> None:
    """At most 20% of the watches ever: more than 22 of 60, or 84 of 300, has a chance below 1 in 1,000."""
    assert sum(bool(quiet(seed, 300, cluster).alarms()) for seed in range(runs)) <= most


@pytest.mark.slow
def test_without_clusters_right_forecasts_of_stormy_days_raise_alarms() -> None:
    """So the count above can fail."""
    watches = [mw.Watch(groups=["kind"], confidence=0.8) for _ in range(10)]
    from scipy.stats import norm

    for seed, watch in enumerate(watches):
        draw = np.random.default_rng(seed)
        mu = draw.uniform(0.05, 0.6, (300, 12))
        hidden = math.sqrt(0.5) * (draw.normal(size=(300, 1)) + draw.normal(size=mu.shape))
        y = (hidden < norm.ppf(mu)).astype(int).ravel()
        watch.see_many(pd.DataFrame({"mu": mu.ravel(), "y": y, "kind": "x"}))
    assert sum(bool(watch.alarms()) for watch in watches) >= 8


@pytest.mark.parametrize(("shift", "direction"), [(0.25, "more"), (-0.25, "less")])
def test_a_change_after_a_long_good_time_is_found(shift: float, direction: str) -> None:
    table = rows_of(2, days=400, shift=shift, change=300)
    table["mu"] = table["mu"].clip(0.3, 0.6) if shift < 0 else table["mu"]
    draw = np.random.default_rng(3)
    truth = table["mu"] + np.where(table["day"] >= 300, shift, 0.0)
    table["y"] = (draw.uniform(size=len(table)) < truth).astype(int)
    watch = mw.Watch(cluster="at", groups=["kind"])
    watch.see_many(table[table["day"] < 300], at="day")
    assert not watch.alarms()
    watch.see_many(table[table["day"] >= 300], at="day")
    first = watch.alarms()[0]
    assert first.direction == direction
    assert 290 <= first.since <= 310
    assert 300 < first.raised < 360
    assert 0.0 < max(state.smallest_c for state in watch.groups()) < 0.25
    assert first.at_least == watch.smallest_c(first.group)


def test_overconfident_forecasts_are_found_in_bins() -> None:
    draw = np.random.default_rng(4)
    truth = draw.uniform(0.2, 0.8, 6000)
    mu = np.clip(0.5 + 1.6 * (truth - 0.5), 0.0, 1.0)
    table = pd.DataFrame({"mu": mu, "y": (draw.uniform(size=6000) < truth).astype(int)})
    whole, bins = mw.Watch(bins=1), mw.Watch()
    whole.see_many(table)
    bins.see_many(table)
    assert not whole.alarms()
    sides = {alarm.group.value: alarm.direction for alarm in bins.alarms()}
    assert sides["0 to 0.2"] == "more"
    assert sides["0.8 to 1"] == "less"


def test_a_gap_within_c_raises_no_alarm_and_a_larger_one_does() -> None:
    draw = np.random.default_rng(5)
    table = pd.DataFrame({"mu": np.full(20_000, 0.3)})
    table["y"] = (draw.uniform(size=20_000) < 0.34).astype(int)
    wide, narrow = mw.Watch(c=0.045), mw.Watch(c=0.015)
    wide.see_many(table)
    narrow.see_many(table)
    assert not wide.alarms()
    assert narrow.alarms()[0].at_least >= 0.015
    assert 0.015 <= wide.smallest_c() <= 0.04  # refuted below c, so without an alarm


def test_late_outcomes_count_in_the_order_of_the_forecasts() -> None:
    """Events become known sooner than non-events: that alone must not look like a gap."""
    draw = np.random.default_rng(6)
    mu = draw.uniform(0.2, 0.6, 800)
    y = (draw.uniform(size=800) < mu + 0.2 * (np.arange(800) > 500)).astype(int)
    late, prompt = mw.Watch(), mw.Watch()
    for k in range(800):
        late.see(mu[k], id=k, at=k)
        prompt.see(mu[k], int(y[k]), at=k)
    for k in np.argsort(-y, kind="stable").tolist():  # all events first
        late.outcome(k, int(y[k]))
        if k % 7 == 0:
            assert y[k] == 0 or not late.alarms()  # while only events are known, nothing looks wrong
    assert late.waiting == 0
    assert late.alarms() == prompt.alarms()
    np.testing.assert_array_equal(late._memory.money, prompt._memory.money)


def test_a_dropped_row_is_left_out_and_no_longer_holds_up_others() -> None:
    watch, other = mw.Watch(bins=1), mw.Watch(bins=1)
    watch.see(0.5, 1)
    watch.see(0.5, id="lost")
    watch.see(0.5, 1)
    assert (watch.waiting, watch.oldest) == (2, "lost")
    assert "2 rows wait, the first for the outcome of 'lost'" in str(watch)
    watch.drop("lost")
    assert (watch.waiting, watch.oldest, watch.dropped) == (0, None, 1)
    other.see(0.5, 1)
    other.see(0.5, 1)
    assert watch.alarms() == other.alarms() == []
    np.testing.assert_array_equal(watch._memory.money, other._memory.money)


def test_restart_forgets_and_finds_the_next_change() -> None:
    watch = mw.Watch(bins=1)
    for _ in range(60):
        watch.see(0.2, 1)
    assert len(watch.alarms()) == 1
    watch.restart()
    assert not watch.alarms()
    assert watch.smallest_c() == 0.0
    for _ in range(100):
        watch.see(0.9, 0)
    assert [alarm.direction for alarm in watch.alarms()] == ["less"]
    assert 60 <= watch.alarms()[0].since < 75


def test_a_largest_cluster_keeps_rare_large_clusters_from_breaking_the_promise() -> None:
    """Days of 1 row (p = 0.6) and rarely 2,000 (all 0): on average over days, 0.2 is right."""
    for seed in range(10):
        draw = np.random.default_rng(seed)
        size = np.where(draw.uniform(size=600) < 0.001, 2000, 1)
        happens = (size == 1) & (draw.uniform(size=600) < 0.6)
        table = pd.DataFrame({"day": np.repeat(np.arange(600), size), "y": np.repeat(happens, size)})
        watch = mw.Watch(cluster="at", largest_cluster=2000)
        watch.see_many(table.assign(mu=0.2), at="day")
        assert not watch.alarms()
    without = mw.Watch(cluster="at")
    without.see_many(table.assign(mu=0.2), at="day")
    assert without.alarms()  # it assumes that each forecast is right given what was known
    with pytest.raises(ValueError, match="at most largest_cluster=2 rows; got 3"):
        mw.Watch(cluster="at", largest_cluster=2).see_many(
            pd.DataFrame({"mu": [0.5] * 3, "y": 1, "t": 1}), at="t"
        )


def test_a_cluster_is_settled_when_it_ends() -> None:
    watch = mw.Watch(cluster="day", bins=1)
    for day in range(1, 31):
        for _ in range(20):
            watch.see(0.2, 1, at=dt.date(2026, 1, day))
    settled = watch.groups()[0].clusters
    watch.end_cluster()
    assert (settled, watch.groups()[0].clusters) == (29, 30)
    assert watch.alarms()[0].raised < dt.date(2026, 1, 20)
    with pytest.raises(ValueError, match="at must not lie in a day that is over; got 2026-01-30"):
        watch.see(0.2, 1, at=dt.date(2026, 1, 30))
    watch.see(0.2, 1, at=dt.date(2026, 1, 31))


def test_times_that_are_fractions_make_clusters_like_whole_ones() -> None:
    table = rows_of(8, days=30)
    whole, halves = mw.Watch(cluster="at"), mw.Watch(cluster="at")
    whole.see_many(table, at="day")
    halves.see_many(table.assign(day=table["day"] / 2), at="day")
    assert [state.clusters for state in halves.groups()] == [state.clusters for state in whole.groups()]
    np.testing.assert_array_equal(halves._memory.money, whole._memory.money)


def test_the_parts_of_the_risk_add_up_to_one() -> None:
    shares = [risk_share(number) for number in range(100_000)]
    assert 0.9 < sum(shares) <= 1
    assert shares[1:17] == [1 / 64] * 16
    weights = [_kernel.prior_weight(number, 1) for number in range(1, 2**16)]
    assert sum(weights) == pytest.approx(1 - 1 / 17)


@pytest.mark.parametrize("cluster", PERIODS)
@pytest.mark.parametrize("kind", ["date", "datetime", "datetime UTC"])
def test_periods_are_those_of_the_calendar(cluster: str, kind: str) -> None:
    if cluster == "hour" and kind == "date":
        return
    times: list[Any] = [dt.datetime(1969, 12, 28, 5) + dt.timedelta(hours=7 * k) for k in range(3000)]
    if kind == "datetime UTC":
        times = [time.replace(tzinfo=dt.UTC) for time in times]
    if kind == "date":
        times = [time.date() for time in times]
    read = [read_time(time) for time in times]
    assert {name for name, _ in read} == {kind}
    numbers = np.array([number for _, number in read])
    assert [show_time(read[0][0], number) for number in numbers] == times
    one = [period_of(cluster, read[0][0], number) for number in numbers.tolist()]
    assert one == periods_of(cluster, read[0][0], numbers).tolist()
    keys: dict[str, Any] = {
        "hour": lambda t: (t.year, t.month, t.day, t.hour),
        "day": lambda t: (t.year, t.month, t.day),
        "week": lambda t: t.isocalendar()[:2],
        "month": lambda t: (t.year, t.month),
        "year": lambda t: t.year,
        "at": lambda t: t,
    }
    changes = [keys[cluster](a) != keys[cluster](b) for a, b in itertools.pairwise(times)]
    assert changes == [a != b for a, b in itertools.pairwise(one)]


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow", "duckdb"])
def test_frames_of_any_library_are_read_and_gaps_are_counted(library: str) -> None:
    rows = pl.DataFrame(
        {
            "p": [0.2, None, 0.4, 0.5, 0.3],
            "late": [1, 0, None, 0, 1],
            "when": [dt.datetime(2026, 1, day) for day in (3, 1, 2, 1, 2)],
            "carrier": ["AA", "UA", "AA", None, "UA"],
        }
    )
    frame: Any = rows
    if library == "duckdb":
        import duckdb

        frame = duckdb.sql("SELECT * FROM rows")
    elif library != "polars":
        frame = rows.to_pandas() if library == "pandas" else rows.to_arrow()
    watch = mw.Watch(groups=["carrier"], cluster="day")
    assert watch.see_many(frame, mu="p", outcome="late", at="when") == 3
    assert watch.missing == 2
    watch.end_cluster()
    counts = {str(state.group): state.rows for state in watch.groups()}
    assert counts["all forecasts"] == 3
    assert counts["carrier AA"] == counts["carrier UA"] == 1
    assert [str(group) for group in watch._groups.all[-2:]] == ["carrier UA", "carrier AA"]  # by time


def test_a_frame_without_outcomes_waits_for_them() -> None:
    watch = mw.Watch()
    frame = pd.DataFrame({"mu": [0.2, 0.3, 0.4], "y": [1.0, math.nan, 0.0], "flight": ["a", "b", "c"]})
    assert watch.see_many(frame, id="flight") == 3
    assert (watch.waiting, watch.oldest) == (2, "b")
    watch.outcome("b", 1)
    assert watch.waiting == 0
    assert max(state.rows for state in watch.groups()) == 3


def test_a_saved_watch_goes_on_where_it_was(tmp_path: Path) -> None:
    table = rows_of(7, days=80, shift=0.3, change=20)
    whole = mw.Watch(groups=["kind"], cluster="at", c=0.02, confidence=0.9)
    half = mw.Watch(groups=["kind"], cluster="at", c=0.02, confidence=0.9)
    for k, row in enumerate(table.itertuples()):
        for watch in (whole, half):
            late = k % 50 == 0
            watch.see(
                row.mu, None if late else row.y, id=k if late else None, groups={"kind": row.kind}, at=row.day
            )
        if k == 510:
            half.save(tmp_path / "watch.json")
            half = mw.Watch.load(tmp_path / "watch.json")
    for k in range(0, len(table), 50):
        whole.outcome(k, int(table["y"][k]))
        half.outcome(k, int(table["y"][k]))
    assert whole.alarms() == half.alarms() != []
    assert str(whole) == str(half)
    assert whole.to_dict() == half.to_dict()
    for mine, theirs in zip(whole._memory, half._memory, strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    import json

    from makewhole import saving

    watch = mw.Watch(groups=["kind"])
    watch.see(0.5, 1, groups={"kind": "x"})
    watch.save(tmp_path / "watch.json")
    document = json.loads((tmp_path / "watch.json").read_text())
    broken: Any
    for part, broken, message in (
        ("memory", lambda c: c["memory"]["money"].__setitem__(0, -1.0), "money must not be negative"),
        ("memory", lambda c: c["memory"]["sums"].pop(), "sums must have"),
        ("groups", lambda c: c["groups"].append(["other", "x"]), "no column 'other'"),
        ("progress", lambda c: c["progress"].update(seen=-1), "counts must be whole numbers"),
        ("progress", lambda c: c["progress"].update(kind="x"), "kind='x' is not a kind of time"),
        ("groups", lambda c: c["groups"].__setitem__(0, ["a", "b"]), "first groups"),
    ):
        content = json.loads(json.dumps(document["content"]))
        assert part in content
        broken(content)
        saving.write(tmp_path / "broken.json", kind="makewhole.watch", version=1, content=content)
        with pytest.raises(ValueError, match=message):
            mw.Watch.load(tmp_path / "broken.json")
    saving.write(tmp_path / "other.json", kind="other", version=1, content={})
    with pytest.raises(ValueError, match="is not a makewhole.watch file"):
        mw.Watch.load(tmp_path / "other.json")


def test_the_page_shows_alarms_and_names_from_the_data_are_escaped(tmp_path: Path) -> None:
    watch = mw.Watch(groups=["kind"])
    for _ in range(80):
        watch.see(0.1, 1, groups={"kind": "<b>\nno alarm"})
    watch.to_html(tmp_path / "watch.html")
    page = (tmp_path / "watch.html").read_text()
    assert "ALARM: 3" in page
    assert "<b>" not in page.replace("<br>", "")
    assert "\nno alarm" not in str(watch)
    assert "every alarm that this watch ever raises is right" in page
    with pytest.raises(ValueError, match="path must end in .html"):
        watch.to_html(tmp_path / "watch.txt")
    plain = watch.to_dict()
    assert plain["alarms"][0]["direction"] == "more"
    assert len(plain["groups"]) == 3


def test_the_history_of_a_group_takes_constant_room() -> None:
    watch = mw.Watch(bins=1)
    watch.see_many(pd.DataFrame({"mu": np.full(5000, 0.25), "y": np.tile([1, 0, 0, 0], 1250)}))
    times, rows, excess = watch.history()
    assert 64 <= len(times) <= 128
    assert rows == [time + 1 for time in times]
    steps = np.diff(rows)
    assert (steps == steps[0]).all()
    assert excess == pytest.approx([n // 4 + (n % 4 > 0) - n / 4 for n in rows])


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"groups": "carrier"}, TypeError, r"groups must be a list of names, such as \['carrier'\]; got"),
        ({"groups": ["a", "a"]}, ValueError, "groups must have different names"),
        ({"groups": [1]}, TypeError, "groups must be names of columns; got 1"),
        ({"groups": ["forecast"]}, ValueError, "groups must not be called 'forecast' with bins"),
        ({"cluster": "dag"}, ValueError, "cluster must be None or one of hour, day, week.*; got 'dag'"),
        ({"confidence": 95}, ValueError, "confidence must lie between 0 and 1; got 95"),
        ({"c": 0.7}, ValueError, r"c must lie in \[0, 0.5\]; got 0.7"),
        ({"bins": 0}, ValueError, "bins must be a whole number of at least 1; got 0"),
        ({"largest_cluster": 5}, ValueError, "largest_cluster needs cluster=; got 5"),
        ({"graded": "yes"}, TypeError, "graded must be True or False; got 'yes'"),
    ],
)
def test_bad_settings_are_named(options: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        mw.Watch(**options)


def test_bad_rows_are_named_and_change_nothing() -> None:
    watch: Any = mw.Watch(groups=["kind"], cluster="day")
    monday = dt.date(2026, 11, 16)
    watch.see(0.5, 1, groups={"kind": "x"}, at=monday)
    watch.see(0.5, id="a", at=monday)
    before = watch.to_dict()
    for arguments, error, message in (
        (dict(mu=20.0, y=1, at=monday), ValueError, r"mu must lie in \[0, 1\]; got 20.0 \(a percentage"),
        (dict(mu="x", y=1, at=monday), TypeError, "mu must be a number"),
        (dict(mu=math.nan, y=1, at=monday), ValueError, "mu must be finite"),
        (dict(mu=0.5, y=0.5, at=monday), ValueError, "outcome must be 0 or 1; got 0.5"),
        (dict(mu=0.5, y=[1], at=monday), ValueError, "outcome must be one number"),
        (dict(mu=0.5, at=monday), ValueError, "y must be given, or an id="),
        (dict(mu=0.5, id="a", at=monday), ValueError, "id must be new; got 'a', which waits"),
        (dict(mu=0.5, id=(1,), at=monday), TypeError, "id must be text or a whole number"),
        (dict(mu=0.5, y=1), TypeError, "at must be a date or a datetime where cluster='day'; got no time"),
        (
            dict(mu=0.5, y=1, at=3),
            TypeError,
            "at must be a date or a datetime where cluster='day'; got a number",
        ),
        (dict(mu=0.5, y=1, at="2026"), TypeError, "at must be a number, a date or a datetime; got '2026'"),
        (
            dict(mu=0.5, y=1, at=dt.datetime(2026, 11, 17)),
            TypeError,
            "at must be of one kind; got a datetime",
        ),
        (dict(mu=0.5, y=1, at=dt.date(2026, 11, 15)), ValueError, "a day that is over; got 2026-11-15"),
        (
            dict(mu=0.5, y=1, at=monday, groups={"z": 1}),
            ValueError,
            "among those of the watch, 'kind'; got 'z'",
        ),
        (dict(mu=0.5, y=1, at=monday, groups=["x"]), TypeError, "groups must be a mapping"),
    ):
        with pytest.raises(error, match=message):
            watch.see(**arguments)
    frame = pd.DataFrame({"mu": [0.5], "y": [1], "kind": "x", "t": [monday], "text": "x"})
    for options, error, message in (
        (dict(mu="nowhere"), ValueError, "mu='nowhere' is not a column"),
        (dict(mu=3), TypeError, "mu must be the name of a column; got 3"),
        (dict(mu="text"), TypeError, "mu must be a column of numbers; got .*, as in 'x'"),
        (dict(at="text"), TypeError, "at must be a column of numbers, dates or datetimes"),
    ):
        with pytest.raises(error, match=message):
            watch.see_many(frame, **options)
    with pytest.raises(ValueError, match="id must be of a forecast that waits for its outcome; got 'b'"):
        watch.outcome("b", 1)
    with pytest.raises(ValueError, match="end_cluster.. needs all outcomes; id='a' waits"):
        watch.end_cluster()
    with pytest.raises(ValueError, match="group must be one that was seen; got 'kind': 'y'"):
        watch.smallest_c({"kind": "y"})
    with pytest.raises(TypeError, match="group must be None"):
        watch.smallest_c("x")
    assert watch.to_dict() == before
