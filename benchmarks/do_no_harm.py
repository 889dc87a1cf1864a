"""What publishing costs forecasts that need no mending: `python benchmarks/do_no_harm.py`.

This does not measure time. Published odds of games (from MAKEWHOLE_DATA, or downloaded once) and made-up
forecasts that are right go through SoundClassifier: one half of the rows to fit, the other to test. Each line
has the share of the splits in which the forecasts were kept unchanged. For these it has the number of levels;
the log loss per row added to the original forecasts', its paired standard error, their ratio z, and the worst
split; and the mean and the widest certified c. The last column is the log loss of the splits in which they
were mended. Splits share rows, so errors and z are those of one split.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.frozen import FrozenEstimator

import makewhole as mw
from makewhole import datasets

Table = tuple[Any, Any]  # for each outcome a row of forecasts and, optionally, a group; and the outcomes


class Said(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn is not typed
    """A model that forecasts the first columns of X, one for each class."""

    def __init__(self, classes: int = 2) -> None:
        self.classes = classes
        self.classes_ = np.arange(classes)

    def fit(self, X: Any, y: Any) -> Any:
        """Learn nothing."""
        return self

    def predict_proba(self, X: Any) -> Any:
        """Return the first columns."""
        return np.asarray(X, dtype=float)[:, : self.classes]


def games(league: Literal["mlb", "nba"], group: bool = False) -> Table:
    """Return published odds that the first team wins; the group is the first team."""
    table = datasets.load_538(league)
    mu = table["mu"].to_numpy().astype(float)
    columns = [1 - mu, mu]
    if group:
        columns.append(np.unique(table["team1"].to_numpy().astype(str), return_inverse=True)[1])
    return np.column_stack(columns), table["y"].to_numpy().astype(int)


def made_up(low: float, high: float, rows: int) -> Table:
    """Return forecasts that are right, spread evenly."""
    draw = np.random.default_rng(0)
    p = draw.uniform(low, high, rows)
    return np.column_stack([1 - p, p]), (draw.random(rows) < p).astype(int)


def three_way(rows: int, only: int | None = None) -> Table:
    """Return odds like football's, which are right: teams differ in strength, and matches in closeness.

    With `only`, those of one outcome against the two others.
    """
    draw = np.random.default_rng(1)
    strength, close = draw.normal(0.25, 0.9, rows), draw.normal(0.6, 0.08, rows)
    loses, not_wins = (1 / (1 + np.exp(strength + side * close)) for side in (1, -1))
    p = np.column_stack([1 - not_wins, not_wins - loses, loses])
    y = (draw.random(rows)[:, None] > np.cumsum(p, axis=1)[:, :2]).sum(axis=1)
    if only is None:
        return p, y
    return np.column_stack([1 - p[:, only], p[:, only]]), (y == only).astype(int)


DATA: dict[str, Callable[[], Table]] = {
    "baseball odds": lambda: games("mlb"),
    "baseball odds, by team": lambda: games("mlb", group=True),
    "basketball odds": lambda: games("nba"),
    "like football, three-way": lambda: three_way(16_000),
    "like football, home win": lambda: three_way(16_000, only=0),
    "made up, 0.4 to 0.6": lambda: made_up(0.4, 0.6, 16_000),
    "made up, 0 to 1": lambda: made_up(0.0, 1.0, 16_000),
    "made up, 0 to 1, few": lambda: made_up(0.0, 1.0, 2_000),
    "made up, 0 to 1, many": lambda: made_up(0.0, 1.0, 200_000),
    "made up, 0 to 0.05": lambda: made_up(0.0, 0.05, 16_000),
}


class Split(NamedTuple):
    """The results of one split."""

    unchanged: bool
    levels: int
    lost: float
    error: float
    c: float
    widest: float


def try_one(X: Any, y: Any, seed: int, method: Any) -> Split:
    """Fit one half of the rows, and compare published with original forecasts on the other."""
    order = np.random.default_rng(seed).permutation(len(y))
    fit, test = np.array_split(order, 2)
    classes = int(y.max()) + 1
    groups = [classes] if X.shape[1] > classes else None
    model = mw.SoundClassifier(
        FrozenEstimator(Said(classes)), groups=groups, method=method, random_state=seed
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about groups with few rows
        model.fit(X[fit], y[fit])
    rows = np.arange(len(test))
    published, came = model.predict_proba(X[test])[rows, y[test]], X[test][rows, y[test]]
    more = np.log(came) - np.log(published)
    error = float(more.std() / np.sqrt(len(more)))
    unchanged = model.kept_ == "unchanged"
    return Split(unchanged, len(model.levels_), float(more.mean()), error, model.mean_c_, model.c_)


def main() -> None:
    """Print a line for each data set."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--method", default="multicalibration")
    given = parser.parse_args()
    heads = ("unchanged", "levels", "loss", "error", "mean z", "worst", "mean c", "widest c", "mended")
    print(f"{'':<26}" + "".join(f"{head:>10}" for head in heads))
    for name, make in DATA.items():
        X, y = make()
        splits = [try_one(X, y, seed, given.method) for seed in range(given.splits)]
        kept = [split for split in splits if split.unchanged]
        line = [f"{len(kept) / len(splits):.0%}"]
        if kept:
            _, levels, lost, error, c, widest = np.array(kept, dtype=float).T
            z = lost / np.maximum(error, 1e-300)
            line += [f"{levels.mean():.1f}", f"{lost.mean():+.5f}", f"{error.mean():.5f}", f"{z.mean():+.2f}"]
            line += [f"{lost.max():+.5f}", f"{c.mean():.4f}", f"{widest.mean():.4f}"]
        if len(kept) < len(splits):
            line += [""] * (8 - len(line))
            line.append(f"{np.mean([split.lost for split in splits if not split.unchanged]):+.5f}")
        print(f"{name:<26}" + "".join(f"{cell:>10}" for cell in line), flush=True)


if __name__ == "__main__":
    main()
