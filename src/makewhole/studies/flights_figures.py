"""The figures of the case study: what insurance adds, who gets it, and what the correction changes."""

from __future__ import annotations

from typing import Any

import numpy as np

from makewhole.studies.claims import interval
from makewhole.studies.drawing import GREY, few, grid, label_ends, shades, styles, thousands
from makewhole.studies.flights_claims import EARLY, TYPES, UNINSURED, Runs

# Not the colours of corrections: these are people (Tol's muted colours).
_WHO = {"airline": "#332288", "cautious": "#44AA99", "trustful": "#DDCC77", "naive": "#AA4499"}


def airline_levels(results: list[dict[str, Any]]) -> Any:
    """Draw the paper's Figure 1: revenue and total utility without bets, with Algorithm 3, and with λ = 0."""
    runs = Runs(results)
    columns = {
        UNINSURED: "without the betting mechanism",
        runs.main: f"with it: Algorithms 1 and 3 ({runs.main})",
    }
    if "none" in runs.corrections:
        columns["none"] = "with it: Algorithm 1, λ = 0 (none)"
    gain = [float(_mean_gain(runs, "revenue", share)[-1]) for share in runs.shares]
    title = f"Insurance raises revenue by {min(gain):.1f} to {max(gain):.1f} dollars per passenger, "
    title += "most where most are cautious"
    return _levels(
        runs, columns, title if min(gain) > 0 else "Revenue and total utility, with and without insurance"
    )


def airline_levels_more(results: list[dict[str, Any]]) -> Any:
    """Draw the paper's Figure 4: the same for the alternatives to Algorithm 3."""
    runs = Runs(results)
    columns = {name: name for name in few(runs.corrections, (runs.main, "naive", "standard 0.1"))}
    columns[runs.main] = f"Algorithm 3 ({runs.main})"
    if "naive" in columns:
        columns["naive"] = "follow-the-leader: the paper's\nstandard regret and naive best response"
    if "standard 0.1" in columns:
        columns["standard 0.1"] = "gradient descent (ours)"
    apart = max(
        abs(np.mean(runs.gains(column, share, name, runs.main)))
        for column in ("revenue", "utility")
        for share in runs.shares
        for name in columns
    )
    title = f"The alternatives to Algorithm 3 end within {apart:.2f} dollars per passenger of it"
    return _levels(runs, columns, title)


def _levels(runs: Runs, columns: dict[str, str], title: str) -> Any:
    """Draw levels as the paper does: revenue above, total utility below, a colour per share of cautious."""
    figure, axes = grid(2, len(columns), 1.6 + 3.5 * len(columns), 6.6, title, sharex=True, sharey="row")
    later = runs.rounds >= EARLY * runs.rounds[-1]
    for j, (name, heading) in enumerate(columns.items()):
        for i, column in enumerate(("revenue", "utility")):
            ax, ends = axes[i, j], {}
            for share, colour in zip(runs.shares, shades(len(runs.shares)), strict=True):
                level = np.mean([runs.path(column, share, name, s) for s in runs.seeds], axis=0)
                ax.plot(runs.rounds[later], level[later], color=colour)
                ends[f"{share:.0%}"] = (level[-1], colour)
            ax.xaxis.set_major_formatter(thousands)
            if j == len(columns) - 1:
                label_ends(ax, ends)
        axes[0, j].set_title(heading, fontsize=10)
        axes[1, j].set_xlabel("flights so far")
    axes[0, 0].set_ylabel("ticket revenue\n(dollars per would-be passenger)")
    axes[1, 0].set_ylabel("total utility\n(dollars per would-be passenger)")
    axes[0, 1 % len(columns)].annotate(
        "colours: share of cautious passengers",
        (0.5, 0.04),
        xycoords="axes fraction",
        ha="center",
        fontsize=8.5,
    )
    return figure


def airline(results: list[dict[str, Any]]) -> Any:
    """Draw what insurance adds to revenue and total utility over the season, and who gets it in the end."""
    runs = Runs(results)
    won = min(_mean_gain(runs, "airline", share)[-1] for share in runs.shares)
    lost = max(sum(_mean_gain(runs, who, share)[-1] for who in TYPES) for share in runs.shares)
    title = f"What delay insurance ({runs.main}) adds, and who gets it; dollars per would-be passenger"
    if won > 0 > lost:
        title = "The airline gains from delay insurance at every share; its passengers together pay for it"
    figure, axes = grid(1, 3, 13, 4.6, title)
    later = runs.rounds >= EARLY * runs.rounds[-1]
    for ax, (column, heading) in zip(
        axes[0], (("revenue", "ticket revenue"), ("utility", "total utility")), strict=False
    ):
        ends = {}
        for share, colour in zip(runs.shares, shades(len(runs.shares)), strict=True):
            gain = _mean_gain(runs, column, share)
            ax.plot(runs.rounds[later], gain[later], color=colour)
            ends[f"{share:.0%}"] = (gain[-1], colour)
        ax.axhline(0, color=GREY, linewidth=0.8)
        ax.set_title(f"added to {heading}, by share of cautious passengers", fontsize=10)
        ax.set_xlabel("flights so far")
        ax.xaxis.set_major_formatter(thousands)
        label_ends(ax, ends)
    axes[0, 0].set_ylabel("with insurance minus without (dollars)")
    _who_gets_it(axes[0, 2], runs)
    return figure


def _mean_gain(runs: Runs, column: str, share: float) -> Any:
    return np.mean(
        [runs.path(column, share, runs.main, s) - runs.path(column, share, UNINSURED, s) for s in runs.seeds],
        axis=0,
    )


def _who_gets_it(ax: Any, runs: Runs) -> None:
    """Draw stacked bars: gains up, losses down; the diamond is their sum."""
    at = np.arange(len(runs.shares))
    up, down, total = np.zeros(len(at)), np.zeros(len(at)), np.zeros(len(at))
    for who, colour in _WHO.items():
        gain = np.array([_mean_gain(runs, who, share)[-1] for share in runs.shares])
        ax.bar(at, gain, 0.62, bottom=np.where(gain >= 0, up, down), color=colour, label=who)
        up, down, total = up + np.maximum(gain, 0), down + np.minimum(gain, 0), total + gain
    ax.plot(at, total, "D", color="black", markersize=6, label="all together")
    ax.axhline(0, color="black", linewidth=0.8)
    ax.set_xticks(at, [f"{share:.0%}" for share in runs.shares])
    ax.set_xlabel("cautious passengers")
    ax.set_title("who gets it, after the whole season", fontsize=10)
    ax.legend(frameon=False, fontsize=9, loc="upper left")


def airline_extension(results: list[dict[str, Any]]) -> Any:
    """Draw revenue and total utility under each correction minus those under none, over the season."""
    runs = Runs(results)
    base = "none" if "none" in runs.corrections else runs.main
    names = [name for name in few(runs.corrections, (runs.main, *few(runs.corrections))) if name != base]
    title = (
        f"What a correction changes along the season, against {'no correction' if base == 'none' else base}"
    )
    figure, axes = grid(1, 2, 11.5, 4.4, title)
    style = styles(names)
    later = runs.rounds >= min(EARLY, 100 / runs.rounds[-1]) * runs.rounds[-1]
    for ax, (column, heading) in zip(
        axes[0], (("revenue", "ticket revenue"), ("utility", "total utility")), strict=True
    ):
        ends = {}
        for name in names:
            per_seed = np.array(
                [
                    np.mean(
                        [
                            runs.path(column, share, name, s) - runs.path(column, share, base, s)
                            for share in runs.shares
                        ],
                        axis=0,
                    )
                    for s in runs.seeds
                ]
            )[:, later]
            middle = per_seed.mean(axis=0)
            ax.plot(runs.rounds[later], middle, **style[name])
            if name == runs.main and len(runs.seeds) > 1:
                bands = [interval(column_of.tolist()) for column_of in per_seed.T]
                ax.fill_between(
                    runs.rounds[later], [b.low for b in bands], [b.high for b in bands],
                    color=style[name]["color"], alpha=0.2, linewidth=0,
                )  # fmt: skip
            ends[name] = (middle[-1], style[name]["color"])
        ax.axhline(0, color=GREY, linewidth=0.8)
        ax.set_xscale("log")
        ax.set_xlabel("flights so far")
        ax.set_title(f"{heading}, mean over shares of cautious passengers", fontsize=10)
        label_ends(ax, ends)
    axes[0, 0].set_ylabel(f"more than under {base}\n(dollars per passenger)")
    if len(runs.seeds) > 1:
        axes[0, 0].annotate(
            f"band: 95 % over seeds, {runs.main}", (0.98, 0.97), xycoords="axes fraction",
            ha="right", va="top", fontsize=8, color=GREY,
        )  # fmt: skip
    return figure


def airline_corrections(results: list[dict[str, Any]]) -> Any:
    """Draw what the bets cost the airline, in % of the amount insured: over the season, and by share."""
    runs = Runs(results)
    names = few(runs.corrections, (runs.main, *few(runs.corrections)))
    figure, axes = grid(
        1, 2, 11.5, 4.4, "How far the bets are from balance: the airline's loss or gain on them", sharey=True
    )
    style = styles(names)
    later = runs.rounds >= EARLY * runs.rounds[-1]
    ends = {}
    for name in names:
        off = np.array(
            [[100 * np.abs(runs.won(share, name, s)) for s in runs.seeds] for share in runs.shares]
        ).mean(axis=1)
        mean = np.maximum(off.mean(axis=0), 1e-5)
        axes[0, 0].plot(runs.rounds[later], mean[later], **style[name])
        axes[0, 1].plot(
            np.array(runs.shares) * 100, np.maximum(off[:, -1], 1e-5), marker="o", markersize=4, **style[name]
        )
        ends[name] = (max(float(off[-1, -1]), 1e-5), style[name]["color"])
    for ax in axes[0]:
        ax.set_yscale("log")
    axes[0, 0].set_ylabel("|won or lost| in % of the amount insured")
    axes[0, 0].set_xlabel("flights so far")
    axes[0, 0].xaxis.set_major_formatter(thousands)
    axes[0, 0].set_title("along the season, mean over shares", fontsize=10)
    axes[0, 1].set_xlabel("cautious passengers (%)")
    axes[0, 1].set_title("after the whole season", fontsize=10)
    label_ends(axes[0, 1], ends)
    return figure


def airline_welfare(results: list[dict[str, Any]]) -> Any:
    """Draw what insurance changes for a passenger of each type, who is on board, and what a ticket costs."""
    runs = Runs(results)
    title = "What insurance changes for one passenger of each type, and why"
    figure, axes = grid(1, 3, 15, 4.4, title, width_ratios=(1.3, 1, 1))
    _on_board(axes[0, 1], runs, "mean_flying", "cautious passengers on board", "passengers")
    _on_board(axes[0, 2], runs, "mean_price", "the price of a ticket", "dollars")
    ax, ends = axes[0, 0], {}
    for who in ("cautious", "trustful", "naive"):
        of_all = np.array([s if who == "cautious" else (1 - s) / 2 for s in runs.shares])
        gain = np.array([_mean_gain(runs, who, share)[-1] for share in runs.shares]) / np.maximum(
            of_all, 1e-12
        )
        ax.plot(np.array(runs.shares) * 100, gain, marker="o", markersize=4, color=_WHO[who])
        ends[f"{who} passenger"] = (gain[-1], _WHO[who])
    ax.set_title("what she gains or loses", fontsize=10)
    ax.axhline(0, color="black", linewidth=0.8)
    ax.annotate(
        "worse off below this line",
        (0.99, 0),
        (0, -4),
        xycoords=("axes fraction", "data"),
        textcoords="offset points",
        va="top",
        ha="right",
        fontsize=8,
        color=GREY,
    )
    ax.set_xlabel("cautious passengers (%)")
    ax.set_ylabel("with insurance minus without\n(dollars per passenger of the type)")
    label_ends(ax, ends)
    return figure


def _on_board(ax: Any, runs: Runs, column: str, heading: str, unit: str) -> None:
    """Draw a mean over the season by the share of cautious passengers, with insurance and without."""
    ends = {}
    for name, label, look in ((runs.main, "insured", "-"), (UNINSURED, "not insured", "--")):
        means = [np.mean([runs.in_all(column, share, name, s) for s in runs.seeds]) for share in runs.shares]
        ax.plot(np.array(runs.shares) * 100, means, look, marker="o", markersize=4, color=_WHO["airline"])
        ends[label] = (float(means[-1]), _WHO["airline"])
    ax.set_ylim(bottom=0)
    ax.set_xlabel("cautious passengers (%)")
    ax.set_ylabel(unit)
    ax.set_title(heading, fontsize=10)
    label_ends(ax, ends)
