"""The rules of money: the same bits in Python and compiled, and no function of the C library."""

from __future__ import annotations

import ast
import decimal
import inspect
import math
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import makewhole
from makewhole import rules

# Correctly rounded by IEEE 754, or exact, on every processor.
SAFE = {
    "ceil",
    "copysign",
    "floor",
    "fsum",
    "inf",
    "isclose",
    "isfinite",
    "isqrt",
    "ldexp",
    "nextafter",
    "sqrt",
}
# NumPy's functions that the C library, or vector instructions, compute differently on each processor.
INEXACT = {
    "exp",
    "exp2",
    "expm1",
    "log",
    "log10",
    "log1p",
    "log2",
    "power",
    "sin",
    "cos",
    "tan",
    "tanh",
    "cbrt",
}
# Where money is decided. `swap.for_horizon` chooses a number of cells, which is then stored.
DECIDING = ("rules.py", "insured", "corrections/_kernels.py", "ledger", "backtesting/_*.py")
# An interval in the statement: no payment depends on it.
REPORTING = {"monitor.py"}


def points() -> list[float]:
    chance = np.random.default_rng(0)
    drawn: list[float] = (-chance.exponential(10.0, 20_000)).tolist()
    return drawn + [-k / 64 for k in range(4_000)] + [-708.0, -0.0]


def test_exp_is_within_one_unit_of_the_last_place() -> None:
    with decimal.localcontext(prec=50):
        for x in points()[::7]:
            true = decimal.Decimal(x).exp()
            error = abs(decimal.Decimal(rules.exp(x)) - true)
            assert error <= decimal.Decimal(math.ulp(float(true)))


def test_exp_never_falls() -> None:
    values = [rules.exp(x) for x in sorted(points())]
    assert values == sorted(values)
    assert values[-1] == 1.0


def test_exp_has_the_same_bits_compiled() -> None:
    compiled: Any = numba.njit(rules.exp)
    assert all(compiled(x) == rules.exp(x) for x in points())


@given(
    left=st.floats(0.0, 1e6),
    scale=st.floats(1e-3, 1e5),
    top=st.sampled_from([0.5, 1.0]),
    least=st.floats(0.0, 0.5),
)
def test_the_price_of_a_barrier_is_exponential_and_at_least_the_least(
    left: float, scale: float, top: float, least: float
) -> None:
    price = rules.barrier_price(left, scale, False, top, least)
    expected = max(least, top * rules.exp(-left / scale)) if left > 0.0 else top
    assert price == expected


def files() -> list[Path]:
    root = Path(inspect.getfile(makewhole)).parent
    named = [path for part in DECIDING for path in root.glob(part)]
    found = [path for one in named for path in ([one] if one.is_file() else sorted(one.glob("*.py")))]
    return [path for path in found if path.name not in REPORTING]


@pytest.mark.parametrize("path", files(), ids=lambda path: path.name)
def test_no_function_of_the_c_library_decides_money(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            where = f"{path.name}:{node.lineno} uses {node.value.id}.{node.attr}"
            assert node.value.id != "math" or node.attr in SAFE, where
            assert node.value.id not in ("np", "numpy") or node.attr not in INEXACT, where
        if isinstance(node, ast.ImportFrom):
            assert node.module not in ("math", "cmath"), f"{path.name}:{node.lineno}: write math.<name>"


def test_only_a_study_may_reorder_sums_or_fuse_operations() -> None:
    """Numba does neither unless `fastmath` allows it, which `jit` asks for only with `reorder`."""
    root = Path(inspect.getfile(makewhole)).parent
    texts = {path.relative_to(root).as_posix(): path.read_text() for path in root.rglob("*.py")}
    assert [name for name, text in texts.items() if "fastmath" in text] == ["jit.py"]
    assert [name for name, text in texts.items() if "reorder=" in text and name != "jit.py"] == [
        "studies/_market.py"
    ]
