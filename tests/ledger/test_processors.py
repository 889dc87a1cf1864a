"""A book has the same events on every processor: with and without fused multiply-add."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

# Makes the GNU C library choose the functions for a processor without these instructions.
OLD_PROCESSOR = {"GLIBC_TUNABLES": "glibc.cpu.hwcaps=-FMA,-AVX2,-FMA4,-AVX512F"}


def played(rounds: int, more: dict[str, str]) -> str:
    asked = [sys.executable, "-m", "tests.ledger.priced", str(rounds)]
    return subprocess.run(
        asked, env=os.environ | more, check=True, capture_output=True, text=True, timeout=120
    ).stdout


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only the GNU C library has these tunables")
def test_a_processor_without_fused_multiply_add_gives_the_same_events() -> None:
    # With math.exp instead of rules.exp, 7 of these events differ.
    new, old = played(800, {}), played(800, OLD_PROCESSOR)
    assert new.count("\n") > 2_000
    assert new == old
