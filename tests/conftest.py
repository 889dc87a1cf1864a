"""Shared by all tests: one Hypothesis profile, one thread per worker, and programs that hear a Ctrl-C."""

import os
import re
import signal
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling

# These start first, so that no worker waits for the other at the end.
LONGEST = {"theory.md", "test_a_stream_that_was_killed_goes_on_and_books_every_row_once"}

# `make fuzz` makes those tests that search for trouble search longer, and elsewhere each time.
LONGER = int(os.environ.get("MAKEWHOLE_FUZZ", "1"))

# Each worker of pytest-xdist has one core. With more threads than cores, OpenMP's threads block each other.
for _threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_threads, "1")
# Spark's tests are over before Java's second compiler has paid for itself.
os.environ.setdefault("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

# The same examples on every machine, however slow it is.
settings.register_profile("makewhole", deadline=None, derandomize=True)
# `make quick` and `make test` try fewer of them: --hypothesis-profile=short.
settings.register_profile("short", deadline=None, derandomize=True, max_examples=40)
settings.register_profile("fuzz", deadline=None, max_examples=100 * LONGER)
settings.load_profile("makewhole" if LONGER == 1 else "fuzz")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the longest tests first, and add the markers that a rule decides."""
    items.sort(key=lambda item: item.name not in LONGEST)
    for item in items:
        if item.get_closest_marker("long") is not None:
            item.add_marker(pytest.mark.slow)
        if item.name in ("studies.md", "theory.md"):
            item.add_marker(pytest.mark.slow)
        if getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
            item.add_marker(pytest.mark.fuzz)


class Together(LoadScopeScheduling):  # type: ignore[misc]  # pytest-xdist is not typed
    """Run all cases of a test on one worker, and all tests with Spark, so that Java starts once."""

    def _split_scope(self, nodeid: str) -> str:
        test, _, case = nodeid.partition("[")
        return "spark" if re.search(r"\bspark\b", case) else test


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Together:
    """Schedule the tests. `--dist loadgroup` ignores its marker with pytest 9.2 (pytest-xdist issue 1386)."""
    return Together(config, log)


@pytest.fixture(scope="session", autouse=True)
def _flights_are_read_once() -> Iterator[None]:
    """Read the installed flights once per worker: unpacking and parsing them takes a second."""
    from makewhole import datasets

    read, installed = datasets._read_flights, datasets._nycflights_path()
    read_once = cache(read)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(datasets, "_read_flights", lambda p: read_once(p) if p == installed else read(p))
        yield


@pytest.fixture
def fuzzing() -> int:
    """How many times as long as in `make test` to search for trouble."""
    return LONGER


# A shell makes what it runs in the background deaf to Ctrl-C, and so the programs that the tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
