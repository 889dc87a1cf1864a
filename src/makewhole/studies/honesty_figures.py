"""The figure of the study of honesty: what a false report gains."""

from __future__ import annotations

from typing import Any

import numpy as np

from makewhole.plots import COLOURS
from makewhole.studies.claims import interval
from makewhole.studies.drawing import GREY, grid, label_ends
from makewhole.studies.flights_claims import UNINSURED
from makewhole.studies.honesty_claims import HALF, PRICE_SHOWN, Seasons

_MOST_PANELS = 3
_BOND = ("mean_gap", 2.0)  # the bond that is drawn: on the mean gap, twice


def draw(results: list[dict[str, Any]]) -> Any:
    """Draw the gain over honesty by the report, a panel for each of the first mixes of passengers."""
    seasons = Seasons(results)
    mixes = _drawn(seasons)
    figure, axes = grid(1, len(mixes), 2.2 + 3.9 * len(mixes), 4.8, title(seasons), sharey=True)
    reports = np.array(seasons.reports)
    for ax, mix in zip(axes[0], mixes, strict=True):
        ends = {}
        for name, (colour, dash) in _looks(seasons).items():
            lines = [interval(_gain(seasons, mix, name, report).tolist()) for report in seasons.reports]
            ax.plot(100 * reports, [one.mean for one in lines], dash, color=colour, marker="o", markersize=3)
            if len(seasons.seeds) > 1:
                low, high = [one.low for one in lines], [one.high for one in lines]
                ax.fill_between(100 * reports, low, high, color=colour, alpha=0.2, linewidth=0)
            ends[name] = (lines[int(reports.argmin())].mean, colour)
        ax.axhline(0, color=GREY, linewidth=0.8)
        ax.axvline(100, color=GREY, linewidth=0.8, linestyle=":")
        ax.invert_xaxis()
        cautious, trustful, naive = mix.split("/")
        ax.set_title(f"{cautious} % cautious, {trustful} % trustful, {naive} % naive", fontsize=10)
        ax.set_xlabel("reported risk, in % of the airline's own forecast\n(less risk to the right)")
        if mix == mixes[-1]:
            label_ends(ax, ends)
    axes[0, 0].set_ylabel("earned more than with an honest report\n(dollars per would-be passenger)")
    return figure


def _drawn(seasons: Seasons) -> list[str]:
    """Return the mixes that have a panel: the first ones, and of these the least cautious last."""
    return sorted(seasons.mixes[:_MOST_PANELS], key=lambda mix: -float(mix.partition("/")[0]))


def _looks(seasons: Seasons) -> dict[str, tuple[str, str]]:
    """Return the colour and the dash of each line: today's ways first, then the remedies."""
    return {
        UNINSURED: ("black", "-"),
        f"insured ({seasons.main})": (COLOURS[0], "-"),
        "insured, a bond on the gap": (COLOURS[3], "--"),
        "insured, all see the price": (COLOURS[2], "-."),
    }


def _gain(seasons: Seasons, mix: str, name: str, report: float) -> Any:
    """Return what a report gains in the way that the line shows, one number per seed."""
    if "bond" in name:
        return seasons.after_bond(mix, seasons.main, report, *_BOND)
    if "see" in name:
        return seasons.gain(mix, seasons.main + PRICE_SHOWN, report)
    return seasons.gain(mix, UNINSURED if name == UNINSURED else seasons.main, report)


def title(seasons: Seasons) -> str:
    """Return the figure's finding: at how many of its mixes half of the risk earns more than the truth."""
    mixes = _drawn(seasons)

    def where(name: str) -> str:
        gains = [_gain(seasons, mix, name, HALF).tolist() for mix in mixes]
        count = sum(interval(values).low > 0 for values in gains)
        return "none" if not count else f"all {count}" if count == len(mixes) else f"{count} of {len(mixes)}"

    plain, insured, bond, shown = map(where, _looks(seasons))
    return (
        "An airline that reports half of its risk earns more: "
        f"at {plain} mixes of passengers without insurance, at {insured} with it;\n"
        f"at {shown} if all see the insurance's price, and at {bond} with a bond on the audited gap"
    )
