"""`make bench`: every hot path against a peer, in one run. Exits 1 if a target is missed."""

from __future__ import annotations

import sys

import bench_audit
import bench_backtest
import bench_books
import bench_corrections
import bench_import
import bench_ledger
import bench_mending
import bench_serve
import bench_two_layer
import bench_watch
from timing import print_rows


def main() -> int:
    """Run all benchmarks."""
    met = True
    modules = (
        bench_import,
        bench_books,
        bench_ledger,
        bench_serve,
        bench_corrections,
        bench_two_layer,
        bench_backtest,
        bench_audit,
        bench_mending,
        bench_watch,
    )
    for module in modules:
        print(f"\n{(module.__doc__ or '').splitlines()[0]}\n")
        met &= print_rows(module.rows())
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
