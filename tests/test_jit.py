"""Compiled code and its cache on disk: a damaged one is written anew, and other errors are not hidden."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from makewhole import jit

_BACKTEST = """
import pandas as pd
import makewhole as mw
log = pd.DataFrame({"mu": [0.5] * 4, "y": [1, 0, 1, 1], "stake": [1.0, -1.0, 1.0, 1.0]})
print(mw.backtest(log, correction=mw.Reserve(0.1)).total_loss)
"""


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Return a cache that is whole, and what the program prints with it."""
    folder = tmp_path_factory.mktemp("numba")
    return folder, backtest(folder)


def backtest(folder: Path) -> str:
    environment = os.environ | {"NUMBA_CACHE_DIR": str(folder)}
    done = subprocess.run(
        [sys.executable, "-c", _BACKTEST], env=environment, capture_output=True, text=True, check=False
    )
    return done.stdout + done.stderr


def cut(data: bytes) -> bytes:
    return data[: len(data) // 2]


def empty(data: bytes) -> bytes:
    return b""


def overwrite(data: bytes) -> bytes:
    return b"?" * 99


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "damage"),
    [
        ("nbi", cut),
        ("nbc", overwrite),
        *(pytest.param(*two, marks=pytest.mark.long) for two in (("nbi", empty), ("nbi", overwrite))),
        *(pytest.param(*two, marks=pytest.mark.long) for two in (("nbc", empty), ("nbc", cut))),
    ],
)
def test_a_damaged_cache_is_written_anew(
    kind: str, damage: Callable[[bytes], bytes], tmp_path: Path, compiled: tuple[Path, str]
) -> None:
    whole, expected = compiled
    shutil.copytree(whole, tmp_path, dirs_exist_ok=True)
    files = sorted(tmp_path.rglob(f"*.{kind}"))
    assert len(files) >= 2
    for file in files:
        file.write_bytes(damage(file.read_bytes()))
    broken = {file: file.read_bytes() for file in files}
    assert backtest(tmp_path) == expected
    assert all(file.read_bytes() != broken[file] for file in files if file.exists())
    assert backtest(tmp_path) == expected


def test_errors_of_ones_own_are_not_taken_for_the_caches() -> None:
    calls = []

    def fails() -> None:
        calls.append(1)
        raise OSError("mine")

    with pytest.raises(OSError, match="mine"):
        jit.call(fails)
    assert len(calls) == 1
