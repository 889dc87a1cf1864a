"""How often an audit finds a gap that is there, and one that is not: `python benchmarks/power.py`.

This does not measure time. Every line counts how many of 100 made-up tables are refuted. For clusters, the
audit is compared with two tests that it cannot use: one that treats rows as independent, which is wrong here,
and a normal test that knows which rows depend on each other and trusts the normal distribution.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

import makewhole as mw

TABLES = 100
BINS = 15


def waves(seed: int, gap: float, rows: int, bins: int) -> pd.DataFrame:
    """Return independent rows: too low in every other bin, too high in the rest."""
    draw = np.random.default_rng(seed)
    mu = draw.uniform(0.1, 0.9, rows)
    p = mu + gap * np.where((mu * bins).astype(int) % 2, 1, -1)
    return pd.DataFrame({"mu": mu, "y": (draw.uniform(size=rows) < p).astype(int)})


def days(seed: int, gap: float, shock: float, one_bin: bool = False) -> pd.DataFrame:
    """Return 200 days of 50 rows; on a bad day all are likelier by `shock`, on a good one less likely."""
    draw = np.random.default_rng(seed)
    base, bad = draw.uniform(0.3, 0.6, 200), draw.uniform(size=200) < 0.5
    mu = np.repeat(base, 50)
    inside = (mu * BINS).astype(int) == 6 if one_bin else np.ones(len(mu), bool)
    p = np.clip(mu + np.repeat(np.where(bad, shock, -shock), 50) + gap * inside, 0, 1)
    y = (draw.uniform(size=len(mu)) < p).astype(int)
    return pd.DataFrame({"mu": mu, "y": y, "day": np.repeat(np.arange(200), 50), "t": range(len(mu))})


def knows(table: pd.DataFrame) -> bool:
    """Run a normal test of every bin and of all rows, with the variance of the days' sums; Bonferroni."""
    from scipy.stats import norm

    place = np.minimum((table["mu"] * BINS).astype(int), BINS - 1)
    cells = [table[place == k] for k in sorted(place.unique())] + [table]
    sums = [(cell["y"] - cell["mu"]).groupby(cell["day"]).sum() for cell in cells]
    z = [abs(s.sum()) / np.sqrt((s**2).sum() + 1e-12) for s in sums]
    return bool(2 * norm.sf(max(z)) * len(z) <= 0.05)


def count(tables: list[pd.DataFrame], **options: Any) -> int:
    """Return how many of the tables are refuted."""
    return sum(mw.audit(table, **options).verdict == "refuted" for table in tables)


def main() -> None:
    """Print all lines."""
    print(f"independent rows, refuted of {TABLES}:                         audit   of these by a single cell")
    for gap, rows, bins in ((0.0, 12_000, 15), (0.03, 12_000, 15), (0.02, 24_000, 30), (0.03, 24_000, 60)):
        reports = [mw.audit(waves(seed, gap, rows, bins), bins=bins) for seed in range(TABLES)]
        refuted = [report for report in reports if report.verdict == "refuted"]
        alone = sum(report.best.p_value <= 0.05 for report in refuted)
        print(f"  gap ±{gap} in every bin, {rows:,} rows, {bins} bins{'':<10}{len(refuted):>8}{alone:>8}")
    print(
        f"200 days of 50 rows, refuted of {TABLES}:   audit by day   by betting   rows as independent   knows"
    )
    for gap, shock, one_bin in ((0, 0.3, False), (0, 0.1, False), (0.05, 0.1, False), (0.05, 0.3, False),
                                (0.1, 0.3, False), (0.2, 0.1, True), (0.2, 0.3, True)):  # fmt: skip
        tables = [days(seed, gap, shock, one_bin) for seed in range(TABLES)]
        found = (
            count(tables, cluster="day"),
            count(tables, cluster="day", method="betting", order="t"),
            count(tables),
            sum(map(knows, tables)),
        )
        where = "one bin" if one_bin else "all rows"
        by_day, bets, rows_alone, oracle = found
        print(f"  gap {gap:<5} in {where}, shock {shock:<8}{by_day:>11}{bets:>13}{rows_alone:>22}{oracle:>8}")


if __name__ == "__main__":
    main()
