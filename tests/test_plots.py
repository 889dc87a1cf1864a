"""Figures are drawn, labelled, and the same to the pixel."""

from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

import makewhole as mw


def results() -> dict[str, mw.BacktestResult]:
    draw = np.random.default_rng(0)
    log = pd.DataFrame({"mu": 0.3, "y": draw.integers(0, 2, 3000), "stake": draw.normal(size=3000)})
    corrections: dict[str, mw.Correction] = {"none": mw.NoCorrection(), "swap": mw.SwapRegret(9, seed=0)}
    return {name: mw.backtest(log, correction=correction) for name, correction in corrections.items()}


def test_a_loss_display_has_a_labelled_line_per_run(tmp_path: Path) -> None:
    display = mw.plots.LossDisplay.from_results(results(), unit="euro")
    labels = [line.get_label() for line in display.ax_.get_lines()][:2]
    assert labels == ["none", "swap"]
    assert display.ax_.get_ylabel() == "forecaster's mean loss per forecast (euro)"
    for suffix in ("png", "svg", "pdf"):
        display.figure_.savefig(tmp_path / f"loss.{suffix}")
        assert (tmp_path / f"loss.{suffix}").stat().st_size > 1000


def test_it_draws_into_axes_it_is_given() -> None:
    ax = Figure().subplots()
    display = mw.plots.LossDisplay.from_results(results(), ax=ax)
    assert display.ax_ is ax


def test_the_same_run_gives_the_same_pixels(tmp_path: Path) -> None:
    paths = [tmp_path / "one.png", tmp_path / "two.png"]
    for path in paths:
        mw.plots.LossDisplay.from_results(results()).figure_.savefig(path, metadata={"Software": None})
    assert paths[0].read_bytes() == paths[1].read_bytes()
