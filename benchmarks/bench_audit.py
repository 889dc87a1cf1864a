"""Auditing 50 million rows of Parquet, against the bare DuckDB query; and 100,000 rows of pandas."""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import makewhole as mw
from timing import Row, side_by_side

ROWS = 50_000_000

# Exactly the sums of an audit, without its checks for missing or invalid numbers, in one query and one scan.
QUERY = """
with t as (
    select mu, y::double as y, least(floor(mu * 15)::int, 14) as bin, carrier, origin,
           (y - mu) * (y - mu) as squared, ln(case when y = 1 then mu else 1 - mu end) as log_chance
    from '{path}'
)
select bin, carrier, origin, count(*), sum(y), sum(mu), sum(squared), sum(log_chance)
from t group by grouping sets ((bin, carrier), (bin, origin))
"""

# The same by cluster: the sums of every pair of a cell and a cluster, and from them those of every cell.
CLUSTERED = """
with t as (
    select y::double as y, mu, least(floor(mu * 15)::int, 14) as bin, carrier, day from '{path}'
), pairs as (
    select bin, carrier, day, count(*) as n, sum(y - mu) as error, sum(mu) as mu
    from t group by bin, carrier, day
)
select bin, carrier, count(*), sum(n), sum(error), sum(error * error), max(mu)
from pairs group by bin, carrier
"""

MAKE = """
copy (
    select random() as mu, (random() < 0.3)::int as y,
           'c' || (random() * 20)::int as carrier, 'o' || (random() * 300)::int as origin,
           (random() * 10000)::int as day
    from range({rows})
) to '{path}' (format parquet)
"""


def make(path: str) -> None:
    import duckdb

    duckdb.execute(MAKE.format(rows=ROWS, path=path))


def measure(path: str, kind: str = "rows") -> None:
    """Print the seconds of the bare query and of the audit, in turn, and this process's peak memory."""
    import duckdb

    options: Any = {"clusters": {"groups": ["carrier"], "cluster": "day"}}.get(
        kind, {"groups": ["carrier", "origin"]}
    )
    query = CLUSTERED if kind == "clusters" else QUERY
    bare, audits = [], []
    for _ in range(3):
        began = time.perf_counter()
        duckdb.execute(query.format(path=path)).fetchall()
        bare.append(time.perf_counter() - began)
        began = time.perf_counter()
        mw.audit(duckdb.read_parquet(path), **options)
        audits.append(time.perf_counter() - began)
    print(min(bare), min(audits), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6)


def rows() -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "forecasts.parquet")
        printed = {}
        for step in (("make",), ("measure",), ("measure", "clusters")):
            command = [sys.executable, __file__, step[0], path, *step[1:]]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            printed[step] = done.stdout
    bare, ours, memory = map(float, printed["measure",].split())
    bare_clusters, by_cluster, cluster_memory = map(float, printed["measure", "clusters"].split())
    draw, n = np.random.default_rng(0), 100_000
    table = pd.DataFrame({"mu": draw.uniform(size=n), "y": draw.integers(0, 2, n)})
    table = table.assign(g=draw.choice(list("abcdefghij"), n), h=draw.integers(0, 50, n))

    def sums() -> None:
        made = table.assign(bin=(table["mu"] * 15).astype(int), e=(table["y"] - table["mu"]) ** 2)
        for column in ("g", "h"):
            made.groupby([column, "bin"])[["y", "mu", "e"]].sum()

    clusters = "audit, 50 million rows in 10⁴ clusters"
    floor, audited = side_by_side(sums, lambda: mw.audit(table, groups=["g", "h"]))
    return [
        Row("audit, 50 million rows of Parquet", ours, "the bare DuckDB query", bare, "s", 2.0),
        Row("audit, 50 million rows: memory", memory, "2 GB", 2.0, "GB", 1.0),
        Row(clusters, by_cluster, "the bare two-level DuckDB query", bare_clusters, "s", 4.0),
        Row(f"{clusters}: memory", cluster_memory, "4 GB", 4.0, "GB", 1.0),
        Row("audit, 100,000 rows of pandas", audited, "0.1 s", 0.1, "s", 1.0),
        Row("audit, 100,000 rows of pandas", audited, "the bare pandas group-bys", floor, "s", None),
    ]


if __name__ == "__main__":
    {"make": make, "measure": measure}[sys.argv[1]](*sys.argv[2:])
