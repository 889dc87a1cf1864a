"""Importing makewhole, against importing NumPy, each in a fresh interpreter with its bytecode cached."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

from timing import Row

CODE = "import time; t = time.perf_counter(); import {}; print(time.perf_counter() - t)"


def rows() -> list[Row]:
    """Time fifteen imports of each, in turns; the first ones only write the bytecode, as an install does."""
    best = {"numpy": float("inf"), "makewhole": float("inf")}
    with tempfile.TemporaryDirectory() as bytecode:
        environment = os.environ | {"PYTHONPYCACHEPREFIX": bytecode, "PYTHONDONTWRITEBYTECODE": ""}
        for turn in range(16):
            for module in best:
                command = [sys.executable, "-c", CODE.format(module)]
                done = subprocess.run(command, capture_output=True, check=True, env=environment)
                if turn:
                    best[module] = min(best[module], float(done.stdout))
    return [Row("import makewhole", best["makewhole"] * 1e3, "import numpy", best["numpy"] * 1e3, "ms", 1.6)]
