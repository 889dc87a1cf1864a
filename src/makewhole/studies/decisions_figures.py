"""The figures of the decision tasks: losses, balance within groups, widths, and certain losses."""

from __future__ import annotations

from typing import Any

import numpy as np

from makewhole.studies.decisions_claims import C_BINS, ORACLE
from makewhole.studies.drawing import GREY, few, grid, shown, styles

Results = list[dict[str, Any]]


def betting_loss(results: Results, data: str) -> Any:
    """Draw quantiles 10 … 90 % across tasks (and seeds) of the running mean loss, a panel per correction."""
    names = few(list(results[0]["corrections"]))
    columns = min(3, len(names))
    rows = -(-len(names) // columns)
    title = f"The forecaster's mean loss over twenty tasks on {data}: it should go to 0"
    figure, axes = grid(rows, columns, 10, 1.0 + 2.4 * rows, title, sharex=True, sharey=True)
    rounds, style = results[0]["rounds"], styles(names)
    later = rounds >= min(100, rounds[-1] // 10)
    for ax, name in zip(axes.flat, names, strict=False):
        colour = style[name]["color"]
        q10, q25, q50, q75, q90 = _quantiles(results, name, later)
        ax.fill_between(rounds[later], q10, q90, color=colour, alpha=0.2, linewidth=0)
        ax.fill_between(rounds[later], q25, q75, color=colour, alpha=0.4, linewidth=0)
        ax.plot(rounds[later], q50, color=colour)
        if ORACLE in results[0]["corrections"]:
            low, *_, high = _quantiles(results, ORACLE, later)
            for edge in (low, high):
                ax.plot(rounds[later], edge, color="black", linewidth=0.8, linestyle=":")
        ax.axhline(0, color=GREY, linewidth=0.8)
        ax.set_xscale("log")
        ax.set_title(shown(name), fontsize=10, color=colour)
    for ax in axes.flat[len(names) :]:
        ax.set_visible(False)
    limit = np.quantile(
        [np.abs(r["corrections"][n]["curves"][:, later]) for r in results for n in names], 0.98
    )
    axes[0, 0].set_ylim(-limit, limit)
    for ax in axes[:, 0]:
        ax.set_ylabel("mean loss / cap")
    for ax in axes[-1]:
        ax.set_xlabel("forecasts")
    note = "line: median; bands: 25–75 % and 10–90 %"
    if ORACLE in results[0]["corrections"]:
        note += "\ndotted: 10–90 % of an oracle, luck alone"
    axes[0, 0].annotate(note, (0.98, 0.03), xycoords="axes fraction", ha="right", fontsize=7.5, color="0.3")
    return figure


def _quantiles(results: Results, name: str, later: Any) -> Any:
    curves = np.concatenate([r["corrections"][name]["curves"] for r in results])[:, later]
    return np.quantile(curves, [0.1, 0.25, 0.5, 0.75, 0.9], axis=0)


def loss_by_group(results: Results, group: str, data: str) -> Any:
    """Draw two dots for every correction: |mean loss| over all bets, and within one group."""
    names = list(results[0]["corrections"])
    over_all = {
        n: np.mean([np.abs(r["corrections"][n]["curves"][:, -1]).mean() for r in results]) for n in names
    }
    names.sort(key=lambda name: -over_all[name])
    within = {n: np.mean([np.abs(r["corrections"][n]["by_z"]).mean() for r in results]) for n in names}
    title = f"Balance over all bets says nothing about those on one {group} ({data})"
    figure, axes = grid(1, 1, 8, 1.6 + 0.3 * len(names), title)
    ax, at, style = axes[0, 0], np.arange(len(names)), styles(names)
    for k, name in enumerate(names):
        colour = "black" if name == ORACLE else style[name]["color"]
        ax.plot([over_all[name], within[name]], [k, k], color=colour, linewidth=1, alpha=0.5)
        ax.plot(over_all[name], k, "o", color=colour)
        ax.plot(within[name], k, "o", markerfacecolor="white", color=colour)
    ax.set_xscale("log")
    ax.set_yticks(at, ["oracle (luck alone)" if n == ORACLE else shown(n) for n in names])
    ax.set_xlabel("|mean loss| / cap, mean over twenty tasks")
    top = len(names) - 1
    label: dict[str, Any] = {"textcoords": "offset points", "fontsize": 8.5, "va": "bottom", "ha": "center"}
    ax.annotate("over all bets", (over_all[names[top]], top), (0, 6), **label | {"ha": "left"})
    ax.annotate(f"within one {group}", (within[names[top]], top), (0, 6), **label)
    ax.set_ylim(-0.6, top + 0.9)
    return figure


def interval_size(results: Results, data: str) -> Any:
    """Draw the share of forecasts with a wider c, on a log scale: exponentially rarer is a straight line."""
    names = few([n for n in results[0]["corrections"] if n != ORACLE])
    title = f"How often c is how wide on {data}: a straight line is exponentially rarer"
    figure, axes = grid(1, 1, 8.4, 4.4, title)
    ax, style, ends = axes[0, 0], styles(names), {}
    edges = np.linspace(0, 1, len(C_BINS) // 2 + 1)
    middle = np.abs((C_BINS[1:] + C_BINS[:-1]) / 2)
    for name in names:
        counts = np.sum([r["corrections"][name]["c_counts"] for r in results], axis=0)
        wider = np.array([counts[middle > edge].sum() for edge in edges]) / counts.sum()
        seen = wider > 1e-5
        ax.plot(edges[seen], wider[seen], **style[name])
        ends[name] = (edges[seen][-1], style[name]["color"])
    ax.set_yscale("log")
    ax.set_xlabel("|c|")
    ax.set_ylabel("share of forecasts with a larger |c|")
    ax.set_xlim(0, max(x for x, _ in ends.values()) * 1.02)
    place: dict[str, Any] = {"xycoords": "axes fraction", "ha": "right", "va": "top", "fontsize": 9}
    for k, (name, (x, colour)) in enumerate(sorted(ends.items(), key=lambda item: -item[1][0])):
        text = f"{shown(name)}: up to {x:.2f}"  # where the line ends
        ax.annotate(text, (0.99, 0.98 - 0.065 * k), color=colour, **place)
    return figure


def forecasted_loss(results: Results) -> Any:
    """Draw a dot per digit and task: the forecast loss and the true one, without and with the bets."""
    title = "What an action costs on MNIST, in units of the loss tables: as forecast, and in truth"
    figure, axes = grid(1, 2, 9, 4.6, title, sharex=True, sharey=True)
    dots = results[0]["honesty"]
    panels = (
        ("true", "without bets: the truth is elsewhere"),
        ("insured", "with the bets: as forecast, plus |b|·c"),
    )
    ends = [f(f(dots["forecasted"]), f(dots["true"])) for f in (min, max)]
    for ax, (column, heading), colour in zip(axes[0], panels, ("0.35", "black"), strict=True):
        ax.plot(ends, ends, color=GREY, linewidth=0.8, zorder=0)
        ax.scatter(dots["forecasted"], dots[column], s=6, alpha=0.5, color=colour, linewidths=0)
        ax.set_title(heading, fontsize=10)
        ax.set_xlabel("expected loss under the forecast")
    axes[0, 0].set_ylabel("expected loss under the true probability")
    return figure
