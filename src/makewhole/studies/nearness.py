"""How near to zero a reserve comes, and swap, when both publish the same mean |c|.

A correction that moves c further can come nearer to balance just because of that. So a reserve's rate is
chosen by its mean |c|, the nearest to swap's, and not by the loss that is then compared. Books are in exact
mode; a short one has 1,000 rounds, a long one half the log, and each begins at a random place in it. Stakes
do not depend on c, so every correction gets the same bets.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from makewhole.backtesting.backtest import backtest
from makewhole.frames import make_frame
from makewhole.insured.forecaster import InsuredForecaster
from makewhole.studies.claims import Claim, all_positive, interval
from makewhole.studies.drawing import grid, styles
from makewhole.studies.lineup import make_correction, make_reserve
from makewhole.studies.logs import Log
from makewhole.studies.study import Result, as_columns

ROUNDS = 50_000  # the most rounds of a log
SHORT = 1_000
LENGTHS = ("short", "long")
KNOWN = {"honest customers only": 0.0, "somebody knows one outcome in ten": 0.1}
SWAP = "swap"
_RATES = (0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001, 0.0005)
RESERVES = {f"reserve {rate:g}": rate for rate in _RATES}
_BOOKS = 8  # books of each kind, per seed: a single one may end near zero by luck
_ALIKE = 0.05  # two values of mean |c| that differ by less than this share of swap's count as the same


class Seen(NamedTuple):
    """The mean over books of |mean loss|, in caps, and of the published |c|."""

    loss: float
    width: float


def measure(log: Log, seed: int) -> dict[tuple[str, str, str], Seen]:
    """Return the results of swap and reserves, by length, customers and correction."""
    measured = {}
    for length in LENGTHS:
        rounds = min(SHORT, len(log["y"])) if length == "short" else max(1, len(log["y"]) // 2)
        for who, share in KNOWN.items():
            books = [_book(log, rounds, share, np.random.default_rng([seed, i])) for i in range(_BOOKS)]
            for name in (SWAP, *RESERVES):
                runs = [_run(name, book, seed * _BOOKS + i) for i, book in enumerate(books)]
                measured[length, who, name] = Seen(*np.mean(runs, axis=0).tolist())
    return measured


def _book(log: Log, rounds: int, share: float, draw: np.random.Generator) -> Log:
    """Return a piece of the log; in a share of its rounds a clairvoyant stakes the cap on the outcome."""
    start = int(draw.integers(0, len(log["y"]) - rounds + 1))
    piece = {name: column[start : start + rounds] for name, column in log.items()}
    knows = draw.random(rounds) < share
    return piece | {"stake": np.where(knows, np.where(piece["y"] == 1, 1.0, -1.0), piece["stake"])}


def _run(name: str, book: Log, seed: int) -> Seen:
    rounds, c_range = len(book["y"]), (float(book["c_hat"].min()), float(book["c_hat"].max()))
    swap = name == SWAP
    correction = make_correction(SWAP, rounds, c_range, seed) if swap else make_reserve(RESERVES[name])
    f = InsuredForecaster(None, correction, mode="exact", max_stake=1.0, c_range=c_range)
    done = backtest(make_frame(book, "polars"), f, c_hat="c_hat")
    return Seen(abs(done.total_loss) / rounds, done.mean_size_of_c)


COLUMNS = {
    "log": "the log that the books are pieces of",
    "seed": "the seed; it draws the pieces, and where somebody knows the outcome",
    "length": f"short: {SHORT:,} rounds; long: half the log",
    "customers": "who comes",
    "correction": "the correction, in exact mode",
    "size_of_mean_loss": "mean over books of |mean loss|, in caps a round",
    "mean_size_of_c": "mean of the published |c|",
}


def table(results: list[Result]) -> dict[str, Any]:
    """Return the measurements, a row per log, seed, kind of book and correction."""
    rows = [(r["log"], r["seed"], *key, *seen) for r in results for key, seen in r["nearness"].items()]
    return as_columns(tuple(COLUMNS), rows)


# --- claims -----------------------------------------------------------------------------------------------


def reserve_is_nearer(results: list[Result]) -> list[Claim]:
    """Whether a reserve comes nearer to zero than swap at about the same mean |c|, on every log."""
    made = []
    for length in LENGTHS:
        for who in KNOWN:
            ratios, words = {}, []
            for log in dict.fromkeys(r["log"] for r in results):
                ratios[log], numbers = _nearer(_seen(results, log, length, who))
                words.append(f"{log}: {numbers}")
            text = (
                f"{length} books, {who}: at about the same mean |c| a reserve comes nearer to zero than swap"
            )
            numbers = f"nearer by a factor of: {'; '.join(words)}"
            made.append(Claim(text, "ours", all_positive(ratios), numbers, "nearness"))
    return made


def _seen(results: list[Result], log: str, length: str, who: str) -> list[dict[str, Seen]]:
    """Return the measurements of one kind of book on one log, per seed."""
    return [
        {name: r["nearness"][length, who, name] for name in (SWAP, *RESERVES)}
        for r in results
        if r["log"] == log
    ]


def _nearer(seen: list[dict[str, Seen]]) -> tuple[list[float], str]:
    """Return how many times nearer the chosen reserve is: its logarithm, one per seed, and in words."""
    width = {name: float(np.mean([one[name].width for one in seen])) for name in seen[0]}
    away = {name: abs(width[name] - width[SWAP]) for name in RESERVES}
    logs = {
        name: [float(np.log(one[SWAP].loss / max(one[name].loss, 1e-300))) for one in seen]
        for name in RESERVES
    }
    chosen = min(RESERVES, key=away.__getitem__)
    middle, low, high = np.exp(interval(logs[chosen]))
    words = f"{middle:.3g} [{low:.3g}, {high:.3g}] ({chosen}, mean |c| {width[chosen]:.3g}, "
    words += f"swap's {width[SWAP]:.3g}"
    alike = [np.exp(np.mean(logs[name])) for name in RESERVES if away[name] <= _ALIKE * width[SWAP]]
    if len(alike) > 1:
        words += f"; {min(alike):.3g} to {max(alike):.3g} at rates within {_ALIKE:.0%}"
    return logs[chosen], f"{words})"


# --- the figure -------------------------------------------------------------------------------------------


def draw(results: list[Result]) -> Any:
    """Draw how many times nearer to balance a reserve is than swap: a row per kind of book and log."""
    rows = {}
    for length in LENGTHS:
        for who in KNOWN:
            for log in dict.fromkeys(r["log"] for r in results):
                seen = _seen(results, log, length, who)
                rows[f"{length} books, {who}", log] = np.exp(interval(_nearer(seen)[0]))
    middles = [middle for middle, _, _ in rows.values()]
    title = "At the same mean |c|, a reserve ends "
    title += f"{min(middles):.2g} to {max(middles):.2g} times as near to balance as swap"
    figure, axes = grid(1, 1, 8.6, 1.4 + 0.27 * len(rows), title)
    ax, colour = axes[0, 0], styles(("reserve",))["reserve"]["color"]
    for k, ((_, _), (middle, low, high)) in enumerate(reversed(rows.items())):
        ax.plot([low, high], [k, k], color=colour, linewidth=1.5)
        ax.plot(middle, k, "o", color=colour, markersize=6)
    ax.axvline(1, color="black", linewidth=0.8)
    ax.set_xscale("log")
    ax.set_yticks(range(len(rows)), [f"{kind}: {log}" for kind, log in reversed(rows)], fontsize=8)
    ax.set_xlabel("times nearer to 0 than swap's |mean loss| (95 % over seeds)")
    return figure
