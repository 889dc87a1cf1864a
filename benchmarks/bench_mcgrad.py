"""Mending the same forecasts for the same groups: our methods against MCGrad (Tax et al. 2026).

Each method learns from the same held-out forecasts and groups. "certified" is what SoundClassifier publishes:
it sets rows aside to certify with, keeps the forecasts if no map is better, and rounds to levels. The data:
UCI Adult and published odds of games, from MAKEWHOLE_DATA or downloaded once, and made-up people. Run it with
`make bench-mcgrad`.
"""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import pandas as pd
from mcgrad.methods import MCGrad
from mcgrad.metrics import MulticalibrationError
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.compose import make_column_transformer
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import makewhole as mw
from makewhole import datasets
from makewhole.mending.maps import METHODS, Known, MapSettings

ADULT_GROUPS = ["sex", "race", "marital_status"]


def adult() -> tuple[pd.DataFrame, pd.DataFrame, list[str]]:
    """Return forecasts by logistic regression without the groups for both halves; held out for the first."""
    people = datasets.load_adult_table().to_pandas().rename(columns={"over_50k": "y"})
    train, test = people[~people["test"]].copy(), people[people["test"]].copy()
    numbers, labels = ["age", "education_num", "hours_per_week"], ["workclass", "occupation"]
    made = make_column_transformer(
        (StandardScaler(), numbers), (OneHotEncoder(handle_unknown="ignore"), labels)
    )
    model = make_pipeline(made, LogisticRegression(max_iter=1000))
    train["p"] = cross_val_predict(model, train, train["y"], method="predict_proba")[:, 1]
    test["p"] = model.fit(train, train["y"]).predict_proba(test)[:, 1]
    return train, test, ADULT_GROUPS


def made_up() -> tuple[pd.DataFrame, pd.DataFrame, list[str]]:
    """Return people grouped in five ways, one of which the forecast should have used."""
    draw, rows = np.random.default_rng(0), 200_000
    table = pd.DataFrame({f"g{k}": draw.integers(0, 5, rows).astype(str) for k in range(5)})
    x = draw.normal(size=rows)
    table["p"] = 1 / (1 + np.exp(-x))
    shift = np.array([1.0, 0.5, 0.0, -0.5, -1.0])[table["g0"].astype(int)]
    table["y"] = (draw.uniform(size=rows) < 1 / (1 + np.exp(-x - shift))).astype(int)
    return table[: rows // 2], table[rows // 2 :], [f"g{k}" for k in range(5)]


def games(league: Literal["mlb", "nba"]) -> Callable[[], tuple[pd.DataFrame, pd.DataFrame, list[str]]]:
    """Return published odds: the earlier half to learn from, the later half to test with."""

    def make() -> tuple[pd.DataFrame, pd.DataFrame, list[str]]:
        table = datasets.load_538(league).to_pandas().sort_values("date", kind="stable")
        table = table.rename(columns={"mu": "p"}).astype({"y": int})
        half = len(table) // 2
        return table[:half], table[half:], ["team1", "team2"]

    return make


def ours(method: str) -> Callable[..., Any]:
    def mend(train: pd.DataFrame, test: pd.DataFrame, groups: list[str]) -> Any:
        labels = [{g: t[g].to_numpy().astype(str) for g in groups} for t in (train, test)]
        known = Known(train["p"].to_numpy(), labels[0])
        settings = MapSettings(15, 0.95, 1000)
        fitted = METHODS[method](known, train["y"].to_numpy(float), np.ones(len(train)), settings)
        return fitted(Known(test["p"].to_numpy(), labels[1]))

    return mend


class Said(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn is not typed
    """A model that forecasts the column p."""

    def fit(self, X: Any = None, y: Any = None) -> Said:
        """Learn nothing."""
        self.classes_ = np.array([0, 1])
        return self

    def predict_proba(self, X: pd.DataFrame) -> Any:
        """Return the column p."""
        return np.column_stack([1 - X["p"], X["p"]])


def certified(method: Any) -> Callable[..., Any]:
    def mend(train: pd.DataFrame, test: pd.DataFrame, groups: list[str]) -> Any:
        model = mw.SoundClassifier(
            FrozenEstimator(Said().fit()), groups=groups, method=method, random_state=0
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about groups with few rows
            model.fit(train[["p", *groups]], train["y"])
        return model.predict_proba(test[["p", *groups]])[:, 1]

    return mend


def theirs(train: pd.DataFrame, test: pd.DataFrame, groups: list[str]) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = MCGrad().fit(train, "p", "y", categorical_feature_column_names=groups)
        return fitted.predict(test, "p", categorical_feature_column_names=groups)


def main() -> None:
    logging.disable(logging.WARNING)
    ways: dict[str, Callable[..., Any]] = {
        "as it came": lambda train, test, groups: test["p"].to_numpy(),
        "isotonic": ours("isotonic"),
        "multicalibration": ours("multicalibration"),
        "boosting": ours("boosting"),
        "certified, multi.": certified("multicalibration"),
        "certified, boost.": certified("boosting"),
        "MCGrad": theirs,
    }
    columns = ("seconds", "Brier", "log loss", "c needed", "p-value", "their MCE")
    print(f"{'data':<9}{'mended by':<18}" + "".join(f"{column:>11}" for column in columns))
    every = {"adult": adult, "made up": made_up, "mlb": games("mlb"), "nba": games("nba")}
    for name, make in every.items():
        train, test, groups = make()
        for way, mend in ways.items():
            began = time.perf_counter()
            mu = np.clip(mend(train, test, groups), 1e-6, 1 - 1e-6)
            seconds = time.perf_counter() - began
            table = test.assign(q=mu)
            report = mw.audit(table, mu="q", outcome="y", groups=groups)
            error = MulticalibrationError(table, "y", "q", categorical_segment_columns=groups).mce
            numbers = [f"{seconds:.2f}", f"{report.brier:.4f}", f"{report.log_loss:.4f}"]
            numbers += [f"{report.smallest_c:.4f}", f"{report.p_value:.2g}", f"{float(error):.3f}"]
            print(f"{name:<9}{way:<18}" + "".join(f"{number:>11}" for number in numbers), flush=True)


if __name__ == "__main__":
    main()
