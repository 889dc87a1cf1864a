"""Pictures, as Display objects in the scikit-learn manner. matplotlib is imported when one is drawn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from makewhole.backtest import BacktestResult, Curve

# Okabe & Ito's colours, told apart by the colour-blind; each with a dash of its own, for print in grey.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999")
DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 3)), "-")


class LossDisplay:
    """Mean loss per forecast as a run goes on, one line per correction.

    Parameters
    ----------
    curves
        By label, the curve of each run.

    Examples
    --------
    >>> import makewhole as mw
    >>> import pandas as pd
    >>> log = pd.DataFrame({"mu": [0.5] * 100, "y": [1, 0] * 50, "stake": [1.0] * 100})
    >>> result = mw.backtest(log, correction=mw.NaiveBestResponse())
    >>> display = mw.plots.LossDisplay.from_results({"naive": result})
    >>> display.ax_.get_xlabel()
    'forecasts'
    """

    def __init__(self, curves: Mapping[str, Curve]) -> None:
        self.curves = dict(curves)

    @classmethod
    def from_results(cls, results: Mapping[str, BacktestResult], *, ax: Any = None, unit: str = "") -> Self:
        """Draw the curves of several backtests of one log."""
        return cls({label: result.curve for label, result in results.items()}).plot(ax=ax, unit=unit)

    def plot(self, *, ax: Any = None, unit: str = "") -> Self:
        """Draw into `ax`, or into a new figure."""
        if ax is None:
            from matplotlib.figure import Figure

            # No pyplot: nothing global is opened that somebody would have to close.
            ax = Figure(figsize=(7.5, 4.5), layout="constrained").subplots()
        for i, (label, curve) in enumerate(self.curves.items()):
            style = {"color": COLOURS[i % len(COLOURS)], "linestyle": DASHES[i % len(DASHES)]}
            ax.plot(curve.round, curve.mean_loss, label=label, linewidth=1.8, **style)
        ax.axhline(0.0, color="0.6", linewidth=0.8, zorder=0)
        ax.set_xlabel("forecasts")
        ax.set_ylabel("forecaster's mean loss per forecast" + (f" ({unit})" if unit else ""))
        ax.set_ylim(*self._limits())
        if any(len(curve.round) and curve.round[-1] >= 1000 for curve in self.curves.values()):
            ax.xaxis.set_major_formatter(lambda x, _: f"{x:,.0f}")
        ax.spines[["top", "right"]].set_visible(False)
        ax.legend(frameon=False)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _limits(self) -> tuple[float, float]:
        """Show where the curves go; their first few rounds, all luck, may leave the picture."""
        late = [c.mean_loss[len(c.mean_loss) // 20 :] for c in self.curves.values() if len(c.mean_loss)]
        if not late:
            return -1.0, 1.0
        low, high = (float(f(np.concatenate([*late, np.zeros(1)]))) for f in (np.min, np.max))
        margin = 0.08 * (high - low) or 1e-3
        return low - margin, high + margin
