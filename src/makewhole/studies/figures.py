"""The paper's figures, by name, and the adversaries'. Each takes results and returns a matplotlib figure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from makewhole.plots import COLOURS, DASHES
from makewhole.studies.adversaries import AGENTS, bound
from makewhole.studies.decisions import C_BINS, ORACLE
from makewhole.studies.flights import UNINSURED
from makewhole.studies.frontier import OTHERS, RATES

# name -> what it is in the paper
TITLES = {
    "airline": "The airline's revenue and total utility with and without insurance (the paper's Figure 1)",
    "airline_extension": "The same with the other corrections (the paper's Figure 4)",
    "airline_corrections": "What the bets cost the airline under every correction",
    "airline_welfare": "Who gains from insurance: welfare by type of passenger",
    "betting_loss_mnist": "Betting loss across 20 tasks on MNIST (the paper's Figure 2)",
    "betting_loss_adult": "Betting loss across 20 tasks on Adult (the paper's Figure 5)",
    "loss_by_group_mnist": "Balance within each digit, on MNIST",
    "loss_by_group_adult": "Balance within each decile of age, on Adult",
    "interval_size_mnist": "How wide c is, on MNIST (the paper's Figure 3)",
    "interval_size_adult": "How wide c is, on Adult",
    "forecasted_loss": "Forecasted against true expected loss, with and without bets (the paper's Figure 6)",
    "frontier": "What certainty costs: agents' premium over fair against certified capital",
    "adversaries": "Mean loss against adversaries, for ever longer games",
}


def save(figure: Any, folder: Path, name: str) -> list[Path]:
    """Write PNG and SVG, the same bytes for the same results."""
    import matplotlib as mpl

    paths = [folder / f"{name}.png", folder / f"{name}.svg"]
    with mpl.rc_context({"svg.hashsalt": name, "svg.fonttype": "none"}):
        figure.savefig(paths[0], dpi=150, metadata={"Software": None})
        figure.savefig(paths[1], metadata={"Date": None, "Creator": None})
    return paths


def _grid(rows: int, columns: int, width: float, height: float, **options: Any) -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False, **options)
    for ax in axes.flat:
        ax.spines[["top", "right"]].set_visible(False)
        ax.tick_params(labelsize=9)
    return figure, axes


def _shades(count: int) -> Sequence[Any]:
    """A sequence of colours from dark to light that the colour-blind can tell apart."""
    from matplotlib import colormaps

    return [colormaps["cividis"](x) for x in np.linspace(0, 0.9, count)]


def _mean_curve(results: list[dict[str, Any]], share: float, correction: str, column: str) -> tuple[Any, Any]:
    chosen = [r for r in results if r["share"] == share and r["correction"] == correction]
    return chosen[0]["rounds"], np.mean([r[column] for r in chosen], axis=0)


def airline(results: list[dict[str, Any]], corrections: Sequence[str] = ("swap", "none")) -> Any:
    """Revenue above, total utility below; without insurance, and with it under each correction."""
    present = {r["correction"] for r in results}
    columns = [UNINSURED, *(c for c in corrections if c in present)]
    shares = sorted({r["share"] for r in results})
    figure, axes = _grid(2, len(columns), 2.1 + 2.6 * len(columns), 5.6, sharex=True, sharey="row")
    for j, correction in enumerate(columns):
        heading = correction if correction == UNINSURED else f"insured, {correction}"
        axes[0, j].set_title(heading, fontsize=10)
        for i, (column, label) in enumerate((("revenue", "ticket revenue"), ("utility", "total utility"))):
            for share, colour in zip(shares, _shades(len(shares)), strict=True):
                rounds, values = _mean_curve(results, share, correction, column)
                later = rounds > rounds[-1] / 40  # the first few flights are all noise
                axes[i, j].plot(rounds[later], values[later], color=colour, label=f"{share:.0%}")
            if j == 0:
                axes[i, j].set_ylabel(f"{label}\n(dollars per passenger)")
    for ax in axes[-1]:
        ax.set_xlabel("flights")
        ax.xaxis.set_major_formatter(lambda x, _: f"{x / 1000:g}k" if x else "0")
    axes[0, -1].legend(title="cautious", frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1, 1))
    return figure


def airline_corrections(results: list[dict[str, Any]]) -> Any:
    """What the bets cost the airline under each correction, one panel per share of cautious passengers."""
    shares = sorted({r["share"] for r in results})
    names = [c for c in dict.fromkeys(r["correction"] for r in results) if c != UNINSURED]
    figure, axes = _grid(1, len(shares), 2.2 + 2.3 * len(shares), 3.4, sharey=True)
    for ax, share in zip(axes[0], shares, strict=True):
        for k, name in enumerate(names):
            rounds, values = _mean_curve(results, share, name, "bets")
            later = rounds > rounds[-1] / 40
            style = {"color": COLOURS[k % len(COLOURS)], "linestyle": DASHES[k % len(DASHES)]}
            ax.plot(rounds[later], -values[later], label=name, **style)
        ax.axhline(0, color="0.6", linewidth=0.8, zorder=0)
        ax.set_title(f"{share:.0%} cautious", fontsize=10)
        ax.set_xlabel("flights")
        ax.xaxis.set_major_formatter(lambda x, _: f"{x / 1000:g}k" if x else "0")
    axes[0, 0].set_ylabel("airline's mean betting loss\n(dollars per passenger)")
    axes[0, -1].legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1, 1))
    return figure


def airline_welfare(results: list[dict[str, Any]]) -> Any:
    """Mean utility of a passenger of each type, by the share of cautious ones, without and with insurance."""
    shares = sorted({r["share"] for r in results})
    corrections = list(dict.fromkeys(r["correction"] for r in results))
    insured = "swap" if "swap" in corrections else corrections[-1]
    figure, axes = _grid(1, 1, 7.5, 4.3)
    ax = axes[0, 0]
    for k, kind in enumerate(("cautious", "naive", "trustful")):
        of_all = np.array([s if kind == "cautious" else (1 - s) / 2 for s in shares])
        for correction, dash in ((UNINSURED, "--"), (insured, "-")):
            ends = [_mean_curve(results, s, correction, kind)[1][-1] for s in shares]
            label = f"{kind}, {'no insurance' if correction == UNINSURED else f'insured ({insured})'}"
            values = np.array(ends) / of_all
            ax.plot(
                np.array(shares) * 100,
                values,
                color=COLOURS[k],
                linestyle=dash,
                marker="o",
                markersize=4,
                label=label,
            )
    ax.set_xlabel("cautious passengers (%)")
    ax.set_ylabel("utility (dollars per passenger of the type)")
    ax.legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1, 1))
    return figure


def loss_by_group(results: list[dict[str, Any]], group: str) -> Any:
    """Mean over tasks of |mean loss| within each group: what balance over all does not promise."""
    figure, axes = _grid(1, 1, 7.5, 4.3)
    ax = axes[0, 0]
    for k, name in enumerate(results[0]["corrections"]):
        values = np.mean([np.abs(r["corrections"][name]["by_z"]).mean(axis=0) for r in results], axis=0)
        style = {"color": COLOURS[k % len(COLOURS)], "linestyle": DASHES[k % len(DASHES)]}
        if name == ORACLE:
            style = {"color": "black", "linestyle": ":"}
        ax.plot(np.arange(len(values)), values, label=name, marker="o", markersize=3, **style)
    ax.set_yscale("log")
    ax.set_xticks(np.arange(10))
    ax.set_xlabel(group)
    ax.set_ylabel("mean over tasks of |mean loss in the group| / cap")
    ax.legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1, 1))
    return figure


def betting_loss(results: list[dict[str, Any]]) -> Any:
    """Quantiles 10 … 90 % across tasks (and seeds) of the running mean loss, a panel per correction."""
    names = list(results[0]["corrections"])
    columns = 3
    rows = -(-len(names) // columns)
    figure, axes = _grid(rows, columns, 10, 0.6 + 2.3 * rows, sharex=True, sharey=True)
    rounds = results[0]["rounds"]
    later = rounds >= min(100, rounds[-1] // 10)
    for ax, name in zip(axes.flat, names, strict=False):
        curves = np.concatenate([r["corrections"][name]["curves"] for r in results])[:, later]
        q10, q25, q50, q75, q90 = np.quantile(curves, [0.1, 0.25, 0.5, 0.75, 0.9], axis=0)
        ax.fill_between(rounds[later], q10, q90, color=COLOURS[0], alpha=0.2, linewidth=0, label="10–90 %")
        ax.fill_between(rounds[later], q25, q75, color=COLOURS[0], alpha=0.4, linewidth=0, label="25–75 %")
        ax.plot(rounds[later], q50, color=COLOURS[1], label="median")
        ax.axhline(0, color="0.4", linewidth=0.8, linestyle=":")
        ax.set_xscale("log")
        ax.set_title("oracle (the true probability, c = 0)" if name == ORACLE else name, fontsize=10)
    for k, ax in enumerate(axes.flat[len(names) :], start=len(names)):
        ax.set_visible(False)
        axes.flat[k - columns].tick_params(labelbottom=True)  # the lowest that is seen carries the labels
        axes.flat[k - columns].set_xlabel("forecasts")
    limit = np.quantile(
        [np.abs(r["corrections"][n]["curves"][:, later]) for r in results for n in names], 0.98
    )
    axes[0, 0].set_ylim(-limit, limit)
    for ax in axes[:, 0]:
        ax.set_ylabel("mean loss / cap")
    for ax in axes[-1]:
        ax.set_xlabel("forecasts")
    axes[0, 0].legend(frameon=False, fontsize=8)
    return figure


def interval_size(results: list[dict[str, Any]]) -> Any:
    """How often c is how wide, on a logarithmic scale: exponentially rarer is a straight line."""
    figure, axes = _grid(1, 1, 7.5, 4.3)
    ax = axes[0, 0]
    names = [n for n in results[0]["corrections"] if n != ORACLE]
    middle = (C_BINS[1:] + C_BINS[:-1]) / 2
    for k, name in enumerate(names):
        counts = np.sum([r["corrections"][name]["c_counts"] for r in results], axis=0)
        shares = counts / counts.sum()
        style = {"color": COLOURS[k % len(COLOURS)], "linestyle": DASHES[k % len(DASHES)]}
        ax.plot(middle[counts > 0], shares[counts > 0], label=name, linewidth=1.3, **style)
    ax.set_yscale("log")
    ax.set_xlabel("half-width c")
    ax.set_ylabel("share of forecasts, per bin of 0.005")
    ax.legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1, 1))
    return figure


def forecasted_loss(results: list[dict[str, Any]]) -> Any:
    """Each dot a digit and a task: what the forecast said, and what is true, without and with the bets."""
    figure, axes = _grid(1, 2, 9, 4.4, sharex=True, sharey=True)
    dots = results[0]["honesty"]
    panels = (("true", "without bets"), ("insured", "with the bets"))
    lowest, highest = (
        min(dots["forecasted"].min(), dots["true"].min()),
        max(dots["forecasted"].max(), dots["true"].max()),
    )
    for ax, (column, title), colour in zip(axes[0], panels, COLOURS, strict=False):
        ax.plot([lowest, highest], [lowest, highest], color="0.6", linewidth=0.8, zorder=0)
        ax.scatter(dots["forecasted"], dots[column], s=6, alpha=0.5, color=colour, linewidths=0)
        ax.set_title(title, fontsize=10)
        ax.set_xlabel("expected loss under the forecast")
    axes[0, 0].set_ylabel("expected loss under the true probability")
    return figure


def adversaries(results: list[dict[str, Any]]) -> Any:
    """|mean loss| against the length of the game, log-log, a panel per agent; thin lines are theorems."""
    figure, axes = _grid(1, len(AGENTS), 14, 4.0, sharey=True)
    names = list(dict.fromkeys(r["correction"] for r in results))
    for ax, agent in zip(axes[0], AGENTS, strict=True):
        for k, name in enumerate(names):
            chosen = [r for r in results if r["correction"] == name]
            rounds = np.array(chosen[0]["rounds"])
            sizes = np.mean([np.abs(r["losses"][agent]) for r in chosen], axis=0)
            style = {"color": COLOURS[k % len(COLOURS)], "linestyle": DASHES[k % len(DASHES)]}
            ax.plot(rounds, np.maximum(sizes, 1e-8), label=name, marker="o", markersize=3, **style)
            promised = [bound(name, int(t)) for t in rounds]
            if name in ("deterministic swap", "standard 0.1", "standard 1", "reserve 0.01"):
                ax.plot(rounds, promised, color=style["color"], linewidth=0.7, alpha=0.8)
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_title(agent, fontsize=10)
        ax.set_xlabel("rounds T")
    axes[0, 0].set_ylabel("|mean loss| / cap")
    axes[0, -1].legend(
        frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1, 1), title="thin: the bound"
    )
    return figure


def frontier(results: list[dict[str, Any]]) -> Any:
    """Premium against certified capital, a panel per log; dotted lines have no certificate."""
    logs = list(dict.fromkeys(r["log"] for r in results))
    figure, axes = _grid(1, len(logs), 2.2 + 2.6 * len(logs), 3.8)

    def mean(log: str, name: str, what: str) -> float:
        return float(np.mean([r["contenders"][name][what] for r in results if r["log"] == log]))

    for ax, log in zip(axes[0], logs, strict=True):
        for k, ending in enumerate(("", " over deterministic swap")):
            names = [f"reserve {rate}{ending}" for rate in RATES]
            capital, premium = ([mean(log, n, what) for n in names] for what in ("capital", "premium"))
            ax.plot(capital, premium, marker="o", markersize=4, color=COLOURS[k], label=f"reserve{ending}")
        for k, name in enumerate(OTHERS, start=2):
            label = f"{name} (not certified)"
            ax.axhline(
                mean(log, name, "premium"), color=COLOURS[k], linestyle=DASHES[k], linewidth=1.3, label=label
            )
        ax.set_xscale("log")
        ax.set_title(log, fontsize=10)
        ax.set_xlabel("certified capital (caps)")
    axes[0, 0].set_ylabel("agents' premium over fair\n(per unit staked)")
    axes[0, -1].legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1, 1))
    return figure
