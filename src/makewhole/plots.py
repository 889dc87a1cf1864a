"""Pictures of audits, watches, values, backtests and capitals, as Display objects like those of scikit-learn.

Each display has `from_estimator`, `from_predictions` and `from_report`. matplotlib is imported when one is
drawn.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from makewhole import frames
from makewhole.auditing.audit import audit_arrays
from makewhole.auditing.report import AuditReport
from makewhole.auditing.value import ValueReport
from makewhole.backtesting.backtest import backtest
from makewhole.backtesting.capital import CapitalReport
from makewhole.backtesting.result import BacktestResult, Curve
from makewhole.corrections import Correction
from makewhole.insured.forecaster import InsuredForecaster
from makewhole.watching.watch import Watch

# Okabe and Ito's colours, which colour-blind people can tell apart; each has its own dash, for grey print.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999")
_BARS = {"fmt": "none", "ecolor": COLOURS[5], "elinewidth": 1.4, "zorder": 2}
DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 3)), "-")


def _axes(ax: Any, size: tuple[float, float], count: int = 1) -> Any:
    """Return `ax`, or the axes of a new figure of this size; `count` of them, side by side."""
    if ax is not None:
        return ax
    from makewhole.extras import need

    Figure = need("matplotlib.figure", "cli").Figure
    # Not pyplot: it would keep the figure open until it is closed explicitly.
    return Figure(figsize=size, layout="constrained").subplots(1, count)


def _literal(text: str, most: int = 60) -> str:
    """Escape `$`, so that matplotlib does not read it as mathematics, and cut text that is too long."""
    return (text if len(text) <= most else text[: most - 1] + "…").replace("$", r"\$")


def _numbers(values: Any) -> Any:
    return np.asarray(values).astype(np.float64)


def _predict(estimator: Any, X: Any, y: Any) -> tuple[Any, Any]:
    """Return outcomes as class indices, and probabilities: of the second of two classes, or of each of K."""
    if not hasattr(estimator, "predict_proba"):
        raise TypeError(f"estimator must be a fitted classifier with predict_proba; got {estimator!r}")
    probability = np.asarray(estimator.predict_proba(X))
    classes = np.asarray(getattr(estimator, "classes_", np.arange(probability.shape[1])))
    known = {label: k for k, label in enumerate(classes.tolist())}
    strange = [label for label in np.asarray(y).tolist() if label not in known]
    if strange:
        raise ValueError(f"y must hold the estimator's classes {classes.tolist()}; got {strange[0]!r}")
    outcome = np.array([known[label] for label in np.asarray(y).tolist()])
    return outcome, probability[:, 1] if probability.shape[1] == 2 else probability


class _AuditDisplay:
    """What the pictures of an audit share: a report, and three ways to get one."""

    plot: Any  # a method of each display: draws into `ax`, or into a new figure, and returns the display

    def __init__(self, report: AuditReport) -> None:
        self.report = report

    @classmethod
    def from_report(cls, report: AuditReport, *, ax: Any = None, **options: Any) -> Self:
        """Draw a report of `makewhole.audit`; `options` are those of `plot`."""
        drawn: Self = cls(report).plot(ax=ax, **options)
        return drawn

    @classmethod
    def from_predictions(
        cls,
        y_true: Any,
        y_prob: Any,
        *,
        c: float | None = None,
        groups: Mapping[str, Any] | None = None,
        bins: int = 15,
        confidence: float = 0.95,
        ax: Any = None,
        **options: Any,
    ) -> Self:
        """Audit these outcomes and probabilities, and draw the report.

        `y_true` are outcomes 0 and 1, or class indices; `y_prob` then has a column for each class. `groups`
        are arrays of labels, by name. `c`, `bins` and `confidence` are those of `makewhole.audit`, `options`
        those of `plot`.
        """
        if groups is not None and not isinstance(groups, Mapping):
            raise TypeError(f"groups must be a mapping from names to labels; got {groups!r}")
        report = audit_arrays(y_true, y_prob, groups, c=c, bins=bins, confidence=confidence)
        return cls.from_report(report, ax=ax, **options)

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, y: Any, **options: Any) -> Self:
        """Audit a fitted classifier's probabilities for X, and draw the report.

        `options` are those of `from_predictions`.
        """
        outcome, probability = _predict(estimator, X, y)
        return cls.from_predictions(outcome, probability, **options)


class ReliabilityDisplay(_AuditDisplay):
    """A reliability diagram: for each bin, how often the event happened against the mean forecast.

    Vertical bars are bounds on the true frequency that hold for all bins and groups together. The grey
    band is [μ − c, μ + c], which the forecaster stands behind. A bar that lies outside the band refutes the
    forecaster; the bin with the surest win is marked with a star. If no bar does, a group or all bins
    together may still refute it: see `report.sound`.

    Examples
    --------
    >>> import makewhole as mw
    >>> import numpy as np
    >>> draw = np.random.default_rng(0)
    >>> p = draw.uniform(size=2000)
    >>> display = mw.plots.ReliabilityDisplay.from_predictions(draw.uniform(size=2000) < p, p, c=0.02)
    >>> display.report.sound, display.ax_.get_xlabel()
    (True, 'said: mean forecast of the bin')
    """

    def plot(
        self, *, ax: Any = None, group: str = "", value: str | None = None, class_: int | None = None
    ) -> Self:
        """Draw all rows, or one group, given by its column and value.

        With classes, `class_` says which one; by default it is the first. Draws into `ax`, or into a new
        figure.
        """
        if group and value is None and group in self.report.groups:
            known = list(self.report.groups[group])
            if known != ["yes"]:
                shown = ", ".join(known[:20])
                raise ValueError(f"value must be one of group={group!r}'s: {shown}; got None")
        ax, cells = _axes(ax, (5.6, 5.4)), self.report.table
        bins = [k for k in self.report.rows_of(group, value, class_) if not self.report.is_total(k)]
        if not bins:
            raise ValueError(
                f"the report has no cells for group={group!r}, value={value!r}, class_={class_!r}"
            )
        mu, outcome, c = (np.asarray(cells[name])[bins] for name in ("mu", "outcome", "c"))
        reach = [mu + np.asarray(cells[name])[bins] for name in ("gap_low", "gap_high")]
        line = np.concatenate([[0.0], mu, [1.0]])
        width = np.concatenate([c[:1], c, c[-1:]])
        ax.plot([0, 1], [0, 1], color="0.5", linewidth=0.9, zorder=1)
        if width.any():
            ax.fill_between(line, line - width, line + width, color="0.88", zorder=0, label="the band of c")
        ax.errorbar(mu, outcome, yerr=np.maximum(0, [outcome - reach[0], reach[1] - outcome]), **_BARS)
        rows = np.asarray(cells["rows"])[bins]
        ax.scatter(
            mu, outcome, s=14 + 120 * rows / rows.max(), color=COLOURS[0], zorder=3, label="a bin, by rows"
        )
        best = max(range(len(bins)), key=lambda k: cells["wins_low"][bins[k]])
        refuted = cells["wins_low"][bins[best]] > 0
        if refuted:
            side = "yes" if cells["stake"][bins[best]] > 0 else "no"
            text = f"best bet: {side}, wins at least {cells['wins_low'][bins[best]]:.3f}"
            ax.scatter(mu[best], outcome[best], marker="*", s=260, color=COLOURS[1], zorder=4, label=text)
        ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal")
        ax.set_xlabel("said: mean forecast of the bin")
        ax.set_ylabel(f"happened, with {self.report.sure()} bounds for all at once")
        named = [f"class {class_ or 0} of {len(self.report.by_class)}"] * ("class" in cells) + [
            f"{group}={value}" if group else ""
        ]
        ax.set_title(_literal(", ".join(n for n in named if n)) or None, fontsize=10)
        ax.spines[["top", "right"]].set_visible(False)
        ax.legend(frameon=False, loc="best", fontsize=9)
        self.ax_, self.figure_ = ax, ax.figure
        return self


class SoundnessDisplay(_AuditDisplay):
    """What the bets against the forecaster win per unit staked, with bounds; the surest wins come first.

    A bar that lies to the right of zero is a bet that wins, and not by luck.

    Examples
    --------
    >>> import makewhole as mw
    >>> import numpy as np
    >>> p = np.repeat([0.2, 0.6], 500)
    >>> display = mw.plots.SoundnessDisplay.from_predictions(np.arange(1000) % 2, p)
    >>> display.ax_.get_yticklabels()[0].get_text()
    'yes on forecasts from 0.2 to 0.267'
    """

    def plot(self, *, ax: Any = None, most: int = 20) -> Self:
        """Draw the `most` bets that win most surely, into `ax` or into a new figure."""
        cells, count = self.report.table, len(self.report.table["rows"])
        order = sorted(range(count), key=lambda k: (-cells["wins_low"][k], -cells["wins"][k]))[:most]
        ax = _axes(ax, (7.5, 1.2 + 0.27 * len(order)))
        for place, k in enumerate(order):
            wins, low, high = (float(cells[name][k]) for name in ("wins", "wins_low", "wins_high"))
            colour = COLOURS[1] if low > 0 else COLOURS[0]
            ax.errorbar(
                wins,
                place,
                xerr=[[max(0.0, wins - low)], [max(0.0, high - wins)]],
                **_BARS | {"ecolor": colour},
            )
            ax.scatter(wins, place, color=colour, s=22, zorder=3)
        ax.axvline(0.0, color="0.5", linewidth=0.9, zorder=0)
        ax.set_yticks(range(len(order)), [_literal(self.report.bet(k)) for k in order], fontsize=9)
        ax.invert_yaxis()
        ax.set_xlabel(f"wins per unit staked, after c; {self.report.sure()} bounds for all at once")
        ax.spines[["top", "right"]].set_visible(False)
        self.ax_, self.figure_ = ax, ax.figure
        return self


class LossDisplay:
    """What a forecaster won and lost in the course of a backtest, with one line for each correction.

    On the left is the cumulative profit in money, with a line where the capital is used up; on the right the
    mean loss per forecast. If a correction has a certified bound on its total loss, a dotted line shows it,
    where it lies within the picture.

    Parameters
    ----------
    curves
        By label, the curve of each backtest.
    bounds
        By label, the most that can be lost in total. For the mean it is divided by the number of forecasts.
    capitals
        By label, the capital of each backtest that had one.

    Examples
    --------
    >>> import makewhole as mw
    >>> import pandas as pd
    >>> log = pd.DataFrame({"mu": [0.5] * 100, "y": [1, 0] * 50, "stake": [1.0] * 100})
    >>> result = mw.backtest(log, correction=mw.NaiveBestResponse())
    >>> display = mw.plots.LossDisplay.from_results({"naive": result})
    >>> display.money_ax_.get_ylabel(), display.ax_.get_ylabel()
    ("forecaster's profit so far", "forecaster's mean loss per forecast")
    """

    def __init__(
        self,
        curves: Mapping[str, Curve],
        bounds: Mapping[str, float] | None = None,
        capitals: Mapping[str, float] | None = None,
    ) -> None:
        self.curves, self.bounds, self.capitals = dict(curves), dict(bounds or {}), dict(capitals or {})

    @classmethod
    def from_results(cls, results: Mapping[str, BacktestResult], *, ax: Any = None, unit: str = "") -> Self:
        """Draw the curves of several backtests of one log; `unit` is the money's, for the axes."""
        bounds = {
            label: result.certificate.bound
            for label, result in results.items()
            if result.certificate is not None and result.certificate.bound is not None
        }
        capitals = {label: result.capital for label, result in results.items() if result.capital is not None}
        curves = {label: result.curve for label, result in results.items()}
        return cls(curves, bounds, capitals).plot(ax=ax, unit=unit)

    @classmethod
    def from_report(cls, report: Any, *, ax: Any = None, unit: str = "") -> Self:
        """Draw one backtest, a `BacktestResult`, labelled by its correction."""
        if not isinstance(report, BacktestResult):
            kind = type(report).__name__
            raise TypeError(f"report must be a BacktestResult, which mw.backtest returns; got {kind}")
        return cls.from_results({type(report.correction).__name__: report}, ax=ax, unit=unit)

    @classmethod
    def from_predictions(
        cls,
        y_true: Any,
        y_prob: Any,
        stake: Any,
        *,
        forecaster: InsuredForecaster | None = None,
        correction: Correction | None = None,
        max_stake: float | None = None,
        ax: Any = None,
    ) -> Self:
        """Backtest these forecasts and stakes, and draw the result; see `backtest` for what it takes."""
        log = frames.make_frame({"mu": _numbers(y_prob), "y": _numbers(y_true), "stake": _numbers(stake)})
        done = backtest(log, forecaster, correction=correction, max_stake=max_stake)
        return cls.from_report(done, ax=ax)

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, y: Any, stake: Any, **options: Any) -> Self:
        """Backtest a fitted binary classifier's probabilities for X, and draw the result.

        `options` are those of `from_predictions`.
        """
        outcome, probability = _predict(estimator, X, y)
        if probability.ndim > 1:
            raise ValueError(f"estimator must be binary; got {probability.shape[1]} classes")
        return cls.from_predictions(outcome, probability, stake, **options)

    def plot(self, *, ax: Any = None, unit: str = "") -> Self:
        """Draw into a new figure, or into `ax`: a pair of axes, or one of them, for the mean loss alone.

        `ax_` is the axes with the mean loss and `money_ax_` that with the profit, None if it is not drawn.
        """
        axes = np.atleast_1d(_axes(ax, (11.0, 4.5), count=2))
        if len(axes) > 2:
            raise ValueError(f"ax must be one axes or a pair of them; got {len(axes)}")
        self.money_ax_: Any = axes[0] if len(axes) == 2 else None
        self.ax_ = axes[-1]
        self.figure_ = self.ax_.figure
        if self.money_ax_ is not None:
            self._plot_money(self.money_ax_, unit)
        self._plot_mean(self.ax_, unit)
        for each in axes:
            each.axhline(0.0, color="0.6", linewidth=0.8, zorder=0)
            each.set_xlabel("forecasts settled")
            if any(len(curve.round) and curve.round[-1] >= 1000 for curve in self.curves.values()):
                each.xaxis.set_major_formatter(lambda x, _: f"{x:,.0f}")
                each.locator_params(axis="x", nbins=5)  # more labels would overlap
            each.spines[["top", "right"]].set_visible(False)
            each.legend(frameon=False)
        return self

    def _style(self, k: int) -> dict[str, Any]:
        return {"color": COLOURS[k % len(COLOURS)], "linestyle": DASHES[k % len(DASHES)]}

    def _plot_money(self, ax: Any, unit: str) -> None:
        """Draw the profit so far, where the capital is used up, and the bounds within the picture."""
        for k, (label, curve) in enumerate(self.curves.items()):
            start = np.zeros(1)
            profit = np.concatenate([start, -curve.total_loss])
            ax.plot(
                np.concatenate([start, curve.round]), profit, label=label, linewidth=1.6, **self._style(k)
            )
        for capital in sorted(set(self.capitals.values())):
            text = f"capital used up: {-capital:,.6g}"
            ax.axhline(-capital, color="0.2", linewidth=1.4, linestyle=(0, (6, 2)), label=text, zorder=1)
        low, high = ax.get_ylim()
        for k, label in enumerate(self.curves):
            bound = self.bounds.get(label, np.inf)
            if bound <= 1.5 * max(high, -low) and bound not in self.capitals.values():
                line = {"color": self._style(k)["color"], "linestyle": ":", "linewidth": 1.1}
                ax.axhline(-bound, label=f"{label}: at most {bound:,.6g} lost", zorder=1, **line)
        ax.set_ylabel("forecaster's profit so far" + (f" ({unit})" if unit else ""))
        ax.yaxis.set_major_formatter(lambda money, _: f"{money:,.6g}")

    def _plot_mean(self, ax: Any, unit: str) -> None:
        """Draw the mean loss so far, and the bounds divided by the number of forecasts."""
        for k, (label, curve) in enumerate(self.curves.items()):
            style = self._style(k)
            ax.plot(curve.round, curve.mean_loss, label=label, linewidth=1.6, **style)
            most = self.bounds.get(label, np.inf) / np.maximum(curve.round, 1)
            if most.min(initial=np.inf) <= self._limits()[1]:  # else it lies above the picture
                name = f"{label}: at most {self.bounds[label]:,.6g} in all"
                ax.plot(curve.round, most, label=name, linewidth=0.9, color=style["color"], linestyle=":")
        ax.set_ylabel("forecaster's mean loss per forecast" + (f" ({unit})" if unit else ""))
        ax.set_ylim(*self._limits())

    def _limits(self) -> tuple[float, float]:
        """Return the y axis's range: that of the curves after their first twentieth, which is mostly luck."""
        late = [c.mean_loss[len(c.mean_loss) // 20 :] for c in self.curves.values() if len(c.mean_loss)]
        if not late:
            return -1.0, 1.0
        low, high = (float(f(np.concatenate([*late, np.zeros(1)]))) for f in (np.min, np.max))
        margin = 0.08 * (high - low) or 1e-3
        return low - margin, high + margin


class CapitalDisplay:
    """What bets would have cost with each capital that `makewhole.find_capital` tried.

    A full dot is a capital that was enough, an empty one a capital that was not. The horizontal line is the
    premium that was asked for, the vertical line the smallest capital that was enough.

    Examples
    --------
    >>> import makewhole as mw
    >>> import pandas as pd
    >>> log = pd.DataFrame({"mu": [0.3] * 1000, "y": ([0] * 7 + [1] * 3) * 100})
    >>> display = mw.plots.CapitalDisplay.from_report(mw.find_capital(log))
    >>> display.ax_.get_xlabel()
    'capital'
    """

    def __init__(self, report: CapitalReport) -> None:
        self.report = report

    @classmethod
    def from_report(cls, report: Any, *, ax: Any = None, unit: str = "") -> Self:
        """Draw a report of `makewhole.find_capital`; `unit` is the money's, for the axis."""
        if not isinstance(report, CapitalReport):
            kind = type(report).__name__
            raise TypeError(f"report must be a CapitalReport, which mw.find_capital returns; got {kind}")
        return cls(report).plot(ax=ax, unit=unit)

    def plot(self, *, ax: Any = None, unit: str = "") -> Self:
        """Draw into `ax`, or into a new figure."""
        ax, report = _axes(ax, (7.0, 4.5)), self.report
        points = sorted(report.points)
        capital, premium = [p.capital for p in points], [p.premium for p in points]
        ax.plot(capital, premium, color=COLOURS[0], linewidth=1.4, zorder=2)
        for enough, text in ((True, "sufficed"), (False, "did not suffice")):
            shown = [p for p in points if report.suffices(p) == enough]
            style: Any = {"color": COLOURS[0]} if enough else {"facecolor": "white", "edgecolor": COLOURS[0]}
            if shown:
                ax.scatter(
                    [p.capital for p in shown], [p.premium for p in shown], label=text, zorder=3, **style
                )
        asked = f"asked for: at most {report.premium:g}"
        ax.axhline(report.premium, color=COLOURS[1], linestyle="--", linewidth=1.1, label=asked, zorder=1)
        if report.smallest is not None:
            name = f"smallest that sufficed: {report.smallest:,.6g}"
            ax.axvline(report.smallest, color=COLOURS[2], linestyle=":", linewidth=1.4, label=name, zorder=1)
        ax.set_xscale("log")
        ax.xaxis.set_major_formatter(lambda x, _: f"{x:,.6g}")
        ax.set_ylim(bottom=min(0.0, *premium))
        ax.set_xlabel("capital" + (f" ({unit})" if unit else ""))
        ax.set_ylabel("premium above the model's odds, per unit staked")
        ax.spines[["top", "right"]].set_visible(False)
        ax.legend(frameon=False)
        self.ax_, self.figure_ = ax, ax.figure
        return self


class WatchDisplay:
    """How many more events than forecast each group of a watch has had so far, over time.

    A line that stays level belongs to forecasts that are right; its slope is the gap. A full dot is an alarm
    (since when it likely was, an empty one). By default the six groups with the strongest evidence are drawn.

    Examples
    --------
    >>> import makewhole as mw
    >>> watch = mw.Watch(bins=1)
    >>> for day in range(100):
    ...     watch.see(0.2, day % 2, at=day)
    >>> mw.plots.WatchDisplay.from_watch(watch).ax_.get_ylabel()
    'events beyond the forecast, so far'
    """

    def __init__(self, watch: Watch) -> None:
        self.watch = watch

    @classmethod
    def from_watch(cls, watch: Any, *, ax: Any = None, groups: Any = None) -> Self:
        """Draw a `makewhole.Watch`; `groups` are those to draw, such as `[{"carrier": "AA"}]`."""
        if not isinstance(watch, Watch):
            raise TypeError(f"watch must be a makewhole.Watch; got {type(watch).__name__}")
        return cls(watch).plot(ax=ax, groups=groups)

    def plot(self, *, ax: Any = None, groups: Any = None) -> Self:
        """Draw into `ax`, or into a new figure."""
        ax, watch = _axes(ax, (8.0, 4.5)), self.watch
        shown = [watch.state(g).group for g in groups or [s.group for s in watch.groups()[:6]]]
        for k, group in enumerate(shown):
            times, _, excess = watch.history(group)
            style: Any = {"color": COLOURS[k % len(COLOURS)], "linestyle": DASHES[k % len(DASHES)]}
            ax.plot(times, excess, label=_literal(str(group), 40), linewidth=1.6, **style)
            for alarm in watch.alarms():
                if alarm.group == group and times:
                    self._mark(ax, alarm, times, excess, style["color"])
        ax.axhline(0.0, color="0.4", linewidth=0.9, zorder=1)
        if shown and hasattr(watch.history(shown[0])[0][0], "year"):
            from makewhole.extras import need

            dates = need("matplotlib.dates", "cli")
            ax.xaxis.set_major_formatter(dates.ConciseDateFormatter(ax.xaxis.get_major_locator()))
        ax.set_xlabel("time")
        ax.set_ylabel("events beyond the forecast, so far")
        ax.spines[["top", "right"]].set_visible(False)
        if shown:
            ax.legend(frameon=False)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    @staticmethod
    def _mark(ax: Any, alarm: Any, times: list[Any], excess: list[float], colour: str) -> None:
        """Mark since when an alarm likely was, and when it was raised."""
        for time, face in ((alarm.since, "white"), (alarm.raised, colour)):
            at = min(range(len(times)), key=lambda k: abs(times[k] - time))
            ax.scatter([times[at]], [excess[at]], facecolor=face, edgecolor=colour, s=45, zorder=3)


class ValueDisplay:
    """What decisions by forecasts save, against always acting the same, with bounds.

    Over a range of cost–loss ratios it is the value curve of one group: the saving with its bounds, what
    knowing every outcome would save, and what insured decisions save. For one loss table it is the saving of
    each group.

    Examples
    --------
    >>> import makewhole as mw
    >>> import pandas as pd
    >>> log = pd.DataFrame({"mu": [0.1, 0.7] * 500, "y": ([0, 1] * 4 + [0, 0]) * 100})
    >>> mw.plots.ValueDisplay.from_report(mw.value(log)).ax_.get_xlabel()
    'cost–loss ratio'
    """

    def __init__(self, report: ValueReport) -> None:
        self.report = report

    @classmethod
    def from_report(cls, report: Any, *, ax: Any = None, group: str = "", value: str = "") -> Self:
        """Draw a report of `makewhole.value`; over ratios, that of one group (by default all decisions)."""
        if not isinstance(report, ValueReport):
            kind = type(report).__name__
            raise TypeError(f"report must be a ValueReport, which mw.value returns; got {kind}")
        return cls(report).plot(ax=ax, group=group, value=value)

    def plot(self, *, ax: Any = None, group: str = "", value: str = "") -> Self:
        """Draw into `ax`, or into a new figure."""
        if self.report.points[0].ratio is None:
            ax = self._plot_groups(ax)
        else:
            points = self.report.of(group, value)
            if not points:
                raise ValueError(f"group and value must be in the report; got {group!r}, {value!r}")
            ax = self._plot_curve(ax, points)
        ax.spines[["top", "right"]].set_visible(False)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _plot_curve(self, ax: Any, points: Any) -> Any:
        ax, ratios = _axes(ax, (7.0, 4.5)), [point.ratio for point in points]
        low, high = ([getattr(point.saving, end) for point in points] for end in ("low", "high"))
        sure = f"{100 * self.report.confidence:.6g} % for all at once"
        ax.fill_between(ratios, low, high, color=COLOURS[5], alpha=0.35, linewidth=0, label=sure)
        curves: dict[str, list[float]] = {
            "decisions by the forecast": [point.saving.value for point in points],
            "knowing the outcome": [point.fixed - point.knowing for point in points],
        }
        if self.report.c is not None:
            curves[f"insured at c = {self.report.c}"] = [point.fixed - point.insured for point in points]
        for k, (name, curve) in enumerate(curves.items()):
            ax.plot(ratios, curve, label=_literal(name), color=COLOURS[k], linestyle=DASHES[k], linewidth=1.6)
        ax.axhline(0.0, color="0.4", linewidth=0.9, zorder=1)
        ax.set_xlabel("cost–loss ratio")
        ax.set_ylabel("saved per decision, against always acting the same")
        ax.legend(frameon=False)
        return ax

    def _plot_groups(self, ax: Any) -> Any:
        points = self.report.points
        ax = _axes(ax, (7.5, 1.4 + 0.3 * len(points)))
        for place, point in enumerate(points):
            value, low, high = point.saving
            ax.errorbar(value, place, xerr=[[value - low], [high - value]], **_BARS)
            ax.scatter(value, place, color=COLOURS[0], s=22, zorder=3)
        ax.axvline(0.0, color="0.5", linewidth=0.9, zorder=0)
        ax.set_yticks(range(len(points)), [_literal(point.name, 40) for point in points], fontsize=9)
        ax.invert_yaxis()
        ax.set_xlabel("saved per decision, against always acting the same")
        return ax
