"""How soon a watch finds a change, and how often it cries wolf: `python benchmarks/watch_power.py`.

This does not measure time. The forecasts are real: FiveThirtyEight's baseball and basketball games, and a
frozen model of flight delays (the share of late flights by hour of the day in January and February, used from
March on). Monitors look at them after every day:

- `mw.Watch` by day, and by row (each row its own cluster), with five bins of the forecast, at 95 %;
- `mw.audit(method="betting")` by day with five bins, at 95 %, repeated every day;
- a CUSUM of the days' standardised calibration errors (k = 0.5, h = 5), the textbook's choice. It assumes
  that the rows of a day are independent, and promises an average run length, not that it is never wrong.

Quiet days have outcomes drawn from the forecasts themselves; with storms, those of a day share a normal shock
with correlation 0.1. A change adds a gap to the probability of every row, or of a fifth of the rows (one
group), from the middle day on. The real rows are as they were.
"""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import norm

import makewhole as mw

QUIET, CHANGES = 200, 20  # made-up histories per line


def games(league: Any) -> pd.DataFrame:
    """Return the games as they were, with a day's number and a group of a fifth of them."""
    table = mw.datasets.load_538(league).to_pandas()
    return _with_days(table, pd.to_datetime(table["date"]), table["team1"])


def flights() -> pd.DataFrame:
    """Return United's flights from March to December, forecast by the hour's share of late ones before."""
    table = mw.datasets.load_flights_table(airline="UA").to_pandas()
    when = pd.to_datetime(table["date"])
    known = when.dt.month <= 2
    by_hour = table[known].groupby("hour")["late"]
    rate = (by_hour.sum() + 1) / (by_hour.size() + 5)
    mu = table["hour"].map(rate).fillna(table["late"][known].mean())
    table = table.assign(mu=mu, y=table["late"])[~known]
    return _with_days(table, when[~known], table["destination"])


def _with_days(table: pd.DataFrame, when: pd.Series, name: pd.Series) -> pd.DataFrame:
    """Keep what the monitors need, in order of time; the group `chosen` has a fifth of the rows or less."""
    table = pd.DataFrame({"when": when, "mu": table["mu"], "y": table["y"].astype(int), "name": name})
    table = table.sort_values("when", kind="stable").reset_index(drop=True)
    counts = table["name"].value_counts(normalize=True)
    chosen = counts.index[counts.cumsum() <= max(0.2, counts.iloc[0])]
    return table.assign(
        day=np.unique(table["when"], return_inverse=True)[1],
        group=np.where(table["name"].isin(chosen), "a", "b"),
    )


def redraw(table: pd.DataFrame, seed: int, gap: Any = 0.0, storms: bool = False) -> pd.DataFrame:
    """Return the rows with outcomes drawn from the forecasts, plus a gap."""
    draw = np.random.default_rng(seed)
    p = np.clip(table["mu"] + gap, 1e-9, 1 - 1e-9)
    shock = draw.normal(size=table["day"].max() + 1)[table["day"]]
    share = 0.1 if storms else 0.0
    hidden = np.sqrt(share) * shock + np.sqrt(1 - share) * draw.normal(size=len(table))
    return table.assign(y=(hidden < norm.ppf(p)).astype(int))


def watch_alarm(table: pd.DataFrame, groups: list[str], cluster: str | None = "at") -> int | None:
    """Return the day of the watch's first alarm."""
    watch = mw.Watch(groups=groups, cluster=cluster)
    watch.see_many(table, at="day")
    if cluster is not None:
        watch.end_cluster()
    alarms = watch.alarms()
    return int(alarms[0].raised) if alarms else None


def row_alarm(table: pd.DataFrame, groups: list[str]) -> int | None:
    """Return the day of the first alarm of a watch that takes rows as independent."""
    return watch_alarm(table, groups, None)


def audit_alarm(table: pd.DataFrame, groups: list[str]) -> int | None:
    """Return the first day on which the audit by betting refutes: its evidence only grows, so bisect."""

    def refutes(day: int) -> bool:
        known = table[table["day"] <= day]
        report = mw.audit(known, method="betting", order="day", bins=5, groups=groups)
        return report.verdict == "refuted"

    low, high = -1, int(table["day"].max())
    if not refutes(high):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if refutes(middle) else (middle, high)
    return high


def cusum_alarm(table: pd.DataFrame, groups: list[str], start: int = 0) -> int | None:
    """Return the day of the first alarm of a two-sided CUSUM, over all rows and each group."""
    parts = [table, *(part for name in groups for _, part in table.groupby(name))]
    firsts = []
    for part in parts:
        part = part[part["day"] >= start]
        error = (part["y"] - part["mu"]).groupby(part["day"]).sum()
        z = error / np.sqrt((part["mu"] * (1 - part["mu"])).groupby(part["day"]).sum())
        up = down = 0.0
        for day, value in z.items():
            up, down = max(0.0, up + value - 0.5), max(0.0, down - value - 0.5)
            if max(up, down) > 5:
                firsts.append(int(day))
                break
    return min(firsts, default=None)


def count_cusum(table: pd.DataFrame) -> int:
    """Count the alarms of a CUSUM that starts again after each."""
    alarms, start = 0, 0
    while (day := cusum_alarm(table, [], start)) is not None:
        alarms, start = alarms + 1, day + 1
    return alarms


def print_quiet(name: str, table: pd.DataFrame, storms: bool) -> None:
    """Print false alarms per thousand quiet days, and the share of histories with any."""
    days = int(table["day"].max()) + 1
    made = [redraw(table, seed, storms=storms) for seed in range(QUIET)]
    watched, by_row = (sum(alarm(one, []) is not None for one in made) for alarm in (watch_alarm, row_alarm))
    audited = sum(audit_alarm(one, []) is not None for one in made[: QUIET // 10])
    cusum = [count_cusum(one) for one in made]
    per = 1000 / (days * QUIET)
    line, second = (f"{n * per:.3f} ({n / QUIET:.1%})" for n in (watched, by_row))
    other = f"{audited * per * 10:.3f} ({audited / (QUIET // 10):.0%})"
    third = f"{sum(cusum) * per:.2f} ({np.mean([n > 0 for n in cusum]):.0%})"
    print(
        f"  {name + (', storms' if storms else ''):<22}{days:>6}{line:>16}{second:>16}{other:>16}{third:>16}"
    )


def print_change(name: str, table: pd.DataFrame, gap: float, part: bool) -> None:
    """Print the median days until the alarm after a change in the middle."""
    middle = int(table["day"].max()) // 2
    where = (table["day"] >= middle) & ((table["group"] == "a") | (not part))
    groups = ["group"] if part else []
    made = [redraw(table, seed, gap * where) for seed in range(CHANGES)]
    cells = []
    for alarm in (watch_alarm, row_alarm, audit_alarm, lambda t, g: cusum_alarm(t, g, middle)):
        days = [alarm(one, groups) for one in made]
        delays = [day - middle for day in days if day is not None and day >= middle]
        median = np.median(delays) if len(delays) > CHANGES / 2 else float("nan")
        cells.append(f"{median:.0f} ({len(delays)})")
    what = f"{name}, {gap:+g} in {'a group' if part else 'all rows'}"
    print(f"  {what:<40}" + "".join(f"{cell:>14}" for cell in cells))


def main() -> None:
    """Print all lines."""
    tables = {"baseball": games("mlb"), "basketball": games("nba"), "flights": flights()}
    print(f"false alarms per thousand quiet days (share of {QUIET} histories with any; audit: {QUIET // 10})")
    print(f"  {'':<22}{'days':>6}{'watch by day':>16}{'by row':>16}{'audit':>16}{'CUSUM':>16}")
    for name, table in tables.items():
        print_quiet(name, table, storms=False)
    print_quiet("flights", tables["flights"], storms=True)
    print(f"median days from the change to the alarm (of {CHANGES} histories, how many had one)")
    print(f"  {'':<40}{'watch by day':>14}{'by row':>14}{'audit':>14}{'CUSUM':>14}")
    for name, table in tables.items():
        for gap, part in ((0.05, False), (0.1, False), (0.2, True)):
            print_change(name, table, gap, part)
    print("the real rows, as they were: first alarm")
    for name, table in tables.items():
        firsts = [alarm(table, []) for alarm in (watch_alarm, row_alarm, audit_alarm, cusum_alarm)]
        dates = ["none" if day is None else str(_date(table, day)) for day in firsts]
        print(f"  {name:<12}watch by day {dates[0]}, by row {dates[1]}, audit {dates[2]}, CUSUM {dates[3]}")


def _date(table: pd.DataFrame, day: int) -> dt.date:
    found: dt.date = table.loc[table["day"] == day, "when"].iloc[0].date()
    return found


if __name__ == "__main__":
    main()
