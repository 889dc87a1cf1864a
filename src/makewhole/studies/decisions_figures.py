"""The figures of the decision tasks: losses, balance within groups, widths, and certain losses."""

from __future__ import annotations

from typing import Any

import numpy as np

from makewhole.plots import COLOURS
from makewhole.studies.decisions_claims import C_BINS, ORACLE, sizes
from makewhole.studies.drawing import GREY, few, grid, label_ends, shown, styles

Results = list[dict[str, Any]]
_MIDDLE = (C_BINS[1:] + C_BINS[:-1]) / 2


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
    """Draw the paper's Figure 3: a histogram of c for each of its algorithms, on a log scale."""
    names = few(_without_oracle(results), ("swap", "none", "naive"))
    counts = {name: _counts(results, name) for name in names}
    large = np.sum([n[np.abs(_MIDDLE) > 0.2].sum() for n in counts.values()])
    share = large / np.sum([n.sum() for n in counts.values()])
    title = f"Large c are rare on {data}: |c| is above 0.2 in {share:.1%} of forecasts"
    figure, axes = grid(1, len(names), 1.5 + 3.2 * len(names), 3.9, title, sharex=True, sharey=True)
    style = styles(names)
    for ax, (name, number) in zip(axes[0], counts.items(), strict=True):
        ax.bar(_MIDDLE, number / number.sum(), np.diff(C_BINS), color=style[name]["color"])
        ax.set_yscale("log")
        ax.set_title(shown(name), fontsize=10, color=style[name]["color"])
        ax.set_xlabel("c")
        ax.axvline(0, color="black", linewidth=0.6)
    seen = np.flatnonzero(np.sum(list(counts.values()), axis=0))
    axes[0, 0].set_xlim(C_BINS[seen[0]], C_BINS[seen[-1] + 1])
    axes[0, 0].set_ylabel("share of forecasts (log scale)")
    return figure


def _without_oracle(results: Results) -> list[str]:
    return [n for n in results[0]["corrections"] if n != ORACLE]


def _counts(results: Results, name: str) -> Any:
    """Return how often c falls into each bin, over all seeds."""
    return np.sum([r["corrections"][name]["c_counts"] for r in results], axis=0)


def stability(results: Results, data: str) -> Any:
    """Draw |mean loss| of swap along the rounds: with ĉ in ±½ and in [0, ½], and over other bases."""
    ratio = np.mean(sizes(results, "swap", "clipped")) / np.mean(sizes(results, "swap"))
    title = f"Swap ends {ratio:.1f} times as far from zero if ĉ cannot be negative ({data})"
    figure, axes = grid(1, 2, 11.5, 4.2, title, sharex=True, sharey=True)
    free = {"ĉ in ±½": ("corrections", "swap"), "ĉ in [0, ½]": ("clipped", "swap")}
    bases = {f"μ: {name}": ("bases", name) for name in results[0]["bases"]}
    rounds = results[0]["rounds"]
    later = rounds >= min(100, rounds[-1] // 10)
    labels = []
    for ax, heading, lines in (
        (axes[0, 0], "swap over the network", free),
        (axes[0, 1], "swap over other bases, ĉ = 0", bases),
    ):
        ends: dict[str, tuple[float, Any]] = {}
        for (label, (group, name)), colour in zip(lines.items(), COLOURS, strict=False):
            size = np.mean([np.abs(r[group][name]["curves"]).mean(axis=0) for r in results], axis=0)
            ax.plot(rounds[later], size[later], color=colour)
            ends[label] = (size[-1], colour)
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_xlabel("forecasts")
        ax.set_title(heading, fontsize=10)
        labels.append((ax, ends))
    for ax, ends in labels:  # when both panels are drawn, because they share their scale
        label_ends(ax, ends)
    axes[0, 0].set_ylabel("|mean loss| / cap, mean over twenty tasks")
    return figure


def forecasted_loss(results: Results) -> Any:
    """Draw a dot per digit and task: the forecast loss and the true one, without and with the bets."""
    dots = results[0]["honesty"]
    off = np.median(np.abs(dots["true"] - dots["forecasted"]))
    inside = np.median((dots["high"] - dots["low"]) / 2)
    title = f"Without bets the true loss is off by {off:.2f} (median); with them, by |b·c|: {inside:.2f}"
    figure, axes = grid(1, 2, 9, 4.6, title, sharex=True, sharey=True)
    panels = (("true", "without bets"), ("insured", "with the bets, at Algorithm 1's own c"))
    ends = [f(f(dots["forecasted"]), f(dots["true"])) for f in (min, max)]
    for ax, (column, heading), colour in zip(axes[0], panels, (COLOURS[0], "black"), strict=True):
        ax.plot(ends, ends, color=GREY, linewidth=0.8, zorder=0)
        ax.scatter(dots["forecasted"], dots[column], s=6, alpha=0.5, color=colour, linewidths=0)
        ax.set_title(heading, fontsize=10)
        ax.set_xlabel("expected loss under the forecast")
    axes[0, 0].set_ylabel("expected loss under the true probability")
    return figure
