"""Shared by the figures of all studies: titles, colours, labels beside lines, reproducible files.

Every correction has one colour in all figures, its variants differ in the dash, and lines are named where
they end, not in a legend. A figure's title says what it shows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from makewhole.plots import COLOURS, DASHES

MOST_LINES = 6  # in one panel; more cannot be told apart
SHOWN = ("swap", "none", "naive", "standard 0.1", "deterministic swap", "reserve 0.01")
# The colour of each correction; its variants (a rate, a power) differ in the dash.
_OF = {
    "swap": COLOURS[0],
    "deterministic swap": COLOURS[1],
    "standard": COLOURS[2],
    "reserve": COLOURS[3],
    "naive": COLOURS[4],
    "none": COLOURS[7],
    "barrier": COLOURS[6],
    "guard": COLOURS[5],
}
_MAIN = ("standard 0.1", "reserve 0.01")  # the variants that are drawn as solid lines
GREY = "0.55"
_SHOWN_AS = {"naive": "follow-the-leader"}  # because passengers may also be naive


def shown(name: str) -> str:
    """Return the name of a correction in figures."""
    return _SHOWN_AS.get(name, name)


def save(figure: Any, folder: Path, name: str) -> list[Path]:
    """Write a figure as PNG and SVG, with the same bytes for the same results; returns the two paths."""
    import matplotlib as mpl

    paths = [folder / f"{name}.png", folder / f"{name}.svg"]
    with mpl.rc_context({"svg.hashsalt": name, "svg.fonttype": "none"}):
        figure.savefig(paths[0], dpi=150, metadata={"Software": None})
        figure.savefig(paths[1], metadata={"Date": None, "Creator": None})
    return paths


def grid(
    rows: int, columns: int, width: float, height: float, title: str = "", **options: Any
) -> tuple[Any, Any]:
    """Return a figure with a title, and its axes as an array of rows and columns."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False, **options)
    for ax in axes.flat:
        ax.spines[["top", "right"]].set_visible(False)
        ax.tick_params(labelsize=9)
    if title:
        figure.suptitle(title, fontsize=12, x=0.01, ha="left", fontweight="bold")
    return figure, axes


def styles(names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return the colour and the dash of each correction by name, as keywords of `plot`."""
    made, own, used = {}, 0, dict.fromkeys(_OF, 0)
    for name in names:
        family = next((k for k in sorted(_OF, key=len, reverse=True) if name.startswith(k)), None)
        if family is None:  # the user's own
            made[name] = {"color": COLOURS[6], "linestyle": DASHES[own % len(DASHES)]}
            own += 1
        elif name in (family, *_MAIN):
            made[name] = {"color": _OF[family], "linestyle": "-"}
        else:
            used[family] += 1
            made[name] = {"color": _OF[family], "linestyle": DASHES[used[family] % len(DASHES)]}
    return made


def few(names: Sequence[str], wanted: Sequence[str] = SHOWN) -> list[str]:
    """Return the corrections that a figure shows: those wanted, or if none of them ran, the first six."""
    return [name for name in dict.fromkeys(wanted) if name in names] or list(names)[:MOST_LINES]


def label_ends(ax: Any, labels: Mapping[str, tuple[float, Any]], *, fontsize: float = 8.5) -> None:
    """Write each name beside the right end of its line; `labels` gives the last y and the colour of each.

    Call it when everything is drawn: names that would overlap are moved apart.
    """
    ax.autoscale_view()
    middle = ax.get_xlim()[1]
    height = ax.figure.get_size_inches()[1] / len({a.get_subplotspec().rowspan.start for a in ax.figure.axes})
    gap = 1.45 * fontsize / 72 / (0.72 * height)  # of the axes' height, about

    def place(y: float) -> float:
        return float(ax.transLimits.transform(ax.transScale.transform((middle, y)))[1])

    wanted = sorted((min(max(place(y), 0.0), 1.0), name, colour) for name, (y, colour) in labels.items())
    at = [y for y, _, _ in wanted]
    for _ in range(200):  # push neighbours apart, a little each time
        for k in range(len(at) - 1):
            lacking = gap - (at[k + 1] - at[k])
            if lacking > 0:
                at[k] -= lacking / 2
                at[k + 1] += lacking / 2
    for y, (_, name, colour) in zip(at, wanted, strict=True):
        text = {"color": colour, "fontsize": fontsize, "va": "center", "ha": "left"}
        ax.annotate(
            shown(name), (1.0, y), (4, 0), xycoords="axes fraction", textcoords="offset points", **text
        )


def shades(count: int) -> Sequence[Any]:
    """Return `count` colours from dark to light that colour-blind people can tell apart."""
    from matplotlib import colormaps

    return [colormaps["cividis"](x) for x in np.linspace(0, 0.85, count)]


def thousands(x: float, _: int) -> str:
    """Return an axis label: 20000 as "20k"."""
    return f"{x / 1000:g}k" if x else "0"
