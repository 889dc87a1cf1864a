"""What the figures of all studies share: grids, colours, and files with the same bytes every time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from makewhole.plots import COLOURS, DASHES

BESIDE: dict[str, Any] = {"frameon": False, "fontsize": 8, "loc": "upper left", "bbox_to_anchor": (1, 1)}


def save(figure: Any, folder: Path, name: str) -> list[Path]:
    """Write a figure as PNG and SVG, with the same bytes for the same results; returns the two paths."""
    import matplotlib as mpl

    paths = [folder / f"{name}.png", folder / f"{name}.svg"]
    with mpl.rc_context({"svg.hashsalt": name, "svg.fonttype": "none"}):
        figure.savefig(paths[0], dpi=150, metadata={"Software": None})
        figure.savefig(paths[1], metadata={"Date": None, "Creator": None})
    return paths


def grid(rows: int, columns: int, width: float, height: float, **options: Any) -> tuple[Any, Any]:
    """A figure, and its axes as an array of rows and columns."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False, **options)
    for ax in axes.flat:
        ax.spines[["top", "right"]].set_visible(False)
        ax.tick_params(labelsize=9)
    return figure, axes


def line(k: int) -> dict[str, Any]:
    """The colour and the dash of the k-th line, as keywords of `plot`."""
    return {"color": COLOURS[k % len(COLOURS)], "linestyle": DASHES[k % len(DASHES)]}


def shades(count: int) -> Sequence[Any]:
    """So many colours from dark to light that the colour-blind can tell apart."""
    from matplotlib import colormaps

    return [colormaps["cividis"](x) for x in np.linspace(0, 0.9, count)]


def thousands(x: float, _: int) -> str:
    """A label of an axis: 20000 as "20k"."""
    return f"{x / 1000:g}k" if x else "0"
