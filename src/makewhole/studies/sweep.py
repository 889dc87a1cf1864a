"""Run many cases, on all cores or on a Dask cluster, and continue a sweep that was stopped."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from makewhole.extras import need

Watch = Callable[[list[Any], int], None]


def sweep(
    function: Callable[..., Any],
    cases: list[dict[str, Any]],
    *,
    jobs: int = -1,
    cache: Path | None = None,
    scheduler: str | None = None,
    watch: Watch | None = None,
) -> tuple[list[Any], bool]:
    """Call `function(**case)` for every case; returns the results in order, and whether they are complete.

    joblib's memory keeps each result in the folder `cache`, where a later sweep finds it. A case with a key
    "own" holds the user's functions or data; it is run every time. After Ctrl-C the results so far are
    returned. `watch(results, total)` is called after each result.
    """
    joblib = need("joblib", "studies")

    cached = joblib.Memory(cache, verbose=0).cache(function) if cache else function
    results: list[Any] = []
    with _backend(scheduler), warnings.catch_warnings():
        # loky replaces a worker whose memory has grown; no result is lost
        warnings.filterwarnings("ignore", message="A worker stopped while some jobs were given")
        parallel = joblib.Parallel(n_jobs=jobs, return_as="generator")
        running = parallel(joblib.delayed(function if "own" in case else cached)(**case) for case in cases)
        try:
            for result in running:
                results.append(result)
                if watch is not None:
                    watch(results, len(cases))
        except KeyboardInterrupt:
            with contextlib.suppress(Exception, KeyboardInterrupt):
                running.close()
            return results, False
    return results, True


@contextlib.contextmanager
def _backend(scheduler: str | None) -> Iterator[None]:
    """Run on joblib's own processes, or on the Dask cluster at this address."""
    if scheduler is None:
        yield
        return
    joblib = need("joblib", "studies")

    try:
        from distributed import Client
    except ModuleNotFoundError:
        raise ModuleNotFoundError("distributed is needed for --scheduler: pip install distributed") from None
    with Client(scheduler, timeout="10s"), joblib.parallel_config(backend="dask"):
        yield
