"""Tables, logs and rounds that several tests play with."""

from importlib import metadata
from typing import Any

import numpy as np
import pandas as pd
from hypothesis import strategies as st

import makewhole as mw

# A round: μ̂, where ĉ lies in its range, the outcome, a stake, and the share of it that is staked against it.
step = st.tuples(st.floats(0, 1), st.floats(0, 1), st.integers(0, 1), st.floats(-1, 1), st.floats(0, 1))


def version_of(package: str) -> tuple[int, ...]:
    """The first two numbers of an installed version, for what older ones cannot do."""
    return tuple(int(part) for part in metadata.version(package).split(".")[:2])


def table_of(rows: int, seed: int, shift: Any = 0.0) -> pd.DataFrame:
    """Forecasts that are right, but for a shift of the truth."""
    draw = np.random.default_rng(seed)
    table = pd.DataFrame({"mu": draw.uniform(0.02, 0.98, rows), "g": draw.choice(list("abcd"), rows)})
    table["p"] = np.clip(table["mu"] + (shift(table) if callable(shift) else shift), 0, 1)
    table["y"] = (draw.uniform(size=rows) < table["p"]).astype(int)
    return table


def classes_of(rows: int, seed: int, twist: float = 0.0) -> pd.DataFrame:
    draw = np.random.default_rng(seed)
    p = draw.dirichlet([2, 2, 2], rows)
    truth = p + twist * np.array([1, -1, 0]) * np.minimum(p[:, 0], p[:, 1])[:, None]
    y = (draw.uniform(size=rows)[:, None] > np.cumsum(truth, axis=1)).sum(axis=1)
    return pd.DataFrame(p, columns=["p0", "p1", "p2"]).assign(
        y=np.minimum(y, 2), g=draw.choice(list("ab"), rows)
    )


def log_of(rows: int = 1200) -> pd.DataFrame:
    draw = np.random.default_rng(1)
    return pd.DataFrame(
        {
            "mu": draw.uniform(size=rows),
            "y": draw.integers(0, 2, rows),
            "stake": draw.uniform(-1, 1, rows),
            "carrier": draw.choice(["AA", "UA", "DL"], rows),
            "month": draw.integers(1, 4, rows),
        }
    )


def overlapping(rate: float, **options: Any) -> mw.InsuredForecaster:
    reserve = mw.OverlappingReserve(rate, over=options.pop("over", None))
    return mw.InsuredForecaster(None, reserve, mode="sound", max_stake=1, **options)


def rounds_of(f: mw.InsuredForecaster, moves: list[Any], c_range: tuple[float, float], bound: Any) -> None:
    """Play moves (μ̂, where ĉ lies in its range, y, stake, opposite stake); check the total at every step."""
    for mu, at, y, b, opposite in moves:
        q = f.forecast(mu=mu, c_hat=c_range[0] + at * (c_range[1] - c_range[0]))
        b = abs(b) if f.one_sided else b
        f.stake(q, b)
        if not f.one_sided:
            f.stake(q, -b * opposite * (1 - abs(b)))  # net and gross differ; Σ|b| <= 1
        f.settle(q, y)
        low, high = bound
        assert low - 1e-9 <= f.statement().total_loss <= high + 1e-9
