"""What all tests share: one Hypothesis profile, and programs that hear a Ctrl-C."""

import os
import signal

import pytest
from hypothesis import settings

# `make fuzz` makes those tests that search for trouble search longer, and elsewhere each time.
LONGER = int(os.environ.get("MAKEWHOLE_FUZZ", "1"))

# The same examples on every machine, however slow it is.
settings.register_profile("makewhole", deadline=None, derandomize=True)
settings.register_profile("fuzz", deadline=None, max_examples=100 * LONGER)
settings.load_profile("makewhole" if LONGER == 1 else "fuzz")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Every test that Hypothesis drives searches for trouble; two pages of the docs run whole studies."""
    for item in items:
        if item.name in ("studies.md", "theory.md"):
            item.add_marker(pytest.mark.slow)
        if getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
            item.add_marker(pytest.mark.fuzz)


@pytest.fixture
def fuzzing() -> int:
    """How many times as long as in `make test` to search for trouble."""
    return LONGER


# A shell makes what it runs in the background deaf to Ctrl-C, and so the programs that the tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
