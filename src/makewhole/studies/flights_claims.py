"""The paper's claims about its case study, compared with the runs; and who gains, which it does not ask."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from makewhole.studies.claims import FREE, Claim, all_positive, interval, listed
from makewhole.studies.lineup import PAPERS, RIVALS

UNINSURED = "no insurance"
TYPES = ("cautious", "trustful", "naive")
EARLY = 0.01  # the share of the flights that is "with fewer iterations"; 578 of United's 57,782


class Runs:
    """The runs of a sweep; differences between them are one per seed, in dollars per would-be passenger."""

    def __init__(self, results: list[dict[str, Any]]) -> None:
        self._run = {(r["share"], r["correction"], r["seed"]): r for r in results}
        self.shares = sorted({r["share"] for r in results})
        self.seeds = sorted({r["seed"] for r in results})
        self.corrections = [c for c in dict.fromkeys(r["correction"] for r in results) if c != UNINSURED]
        self.rounds = results[0]["rounds"]
        ours = [name for name in self.corrections if name.startswith("swap")]
        self.main = (ours or self.corrections)[0]  # the paper's Algorithm 3, if it ran

    def path(self, column: str, share: float, correction: str, seed: int) -> Any:
        """Return the running mean of a column at every moment; "airline" is its revenue and winnings."""
        run = self._run[share, correction, seed]
        return run["revenue"] + run["bets"] if column == "airline" else run[column]

    def won(self, share: float, correction: str, seed: int) -> Any:
        """Return what the airline has won on the bets at every moment, per dollar insured in the season."""
        run = self._run[share, correction, seed]
        return run["bets"] / max(run["turnover"], 1e-12)

    def gains(self, column: str, share: float, one: str, other: str, at: int = -1) -> list[float]:
        """Return how much larger a column is under one correction than under another, at a moment."""
        return [
            float(self.path(column, share, one, s)[at] - self.path(column, share, other, s)[at])
            for s in self.seeds
        ]

    def at_every_share(self, column: str, one: str, other: str, at: int = -1) -> dict[str, list[float]]:
        """Return the same for every share of cautious passengers."""
        return {f"{share:.0%}": self.gains(column, share, one, other, at) for share in self.shares}

    def in_all(self, column: str, share: float, correction: str, seed: int) -> float:
        """Return a mean over the whole season."""
        return float(self._run[share, correction, seed][column])

    def mean_over_all(self, column: str, correction: str) -> float:
        """Return the mean of such means over shares and seeds."""
        return float(
            np.mean([self.in_all(column, share, correction, s) for share in self.shares for s in self.seeds])
        )

    def more_in_all(self, column: str, one: str, other: str) -> dict[str, list[float]]:
        """Return how much larger such a mean is under one correction than under another, for every share."""
        return {
            f"{share:.0%}": [
                self.in_all(column, share, one, s) - self.in_all(column, share, other, s) for s in self.seeds
            ]
            for share in self.shares
        }

    def moment(self, fraction: float) -> int:
        """Return the first moment with this fraction of all flights flown."""
        return int(np.searchsorted(self.rounds, fraction * self.rounds[-1]))

    def present(self, names: Iterable[str]) -> list[str]:
        """Return those of these corrections that ran."""
        return [name for name in names if name in self.corrections]


def insurance_pays(results: list[dict[str, Any]]) -> list[Claim]:
    """Whether revenue and total utility are higher with insurance, at every share of cautious passengers."""
    runs = Runs(results)
    made = []
    for column, what in (("revenue", "the airline's revenue"), ("utility", "total utility")):
        gains = runs.at_every_share(column, runs.main, UNINSURED)
        text = f"insurance ({runs.main}) raises {what} at every share of cautious passengers"
        numbers = f"dollars per passenger, by share of cautious: {listed(gains)}"
        made.append(Claim(text, "§6.2, Fig. 1", all_positive(gains), numbers, "airline"))
    return made


def more_demand(results: list[dict[str, Any]]) -> list[Claim]:
    """Whether revenue rises for the paper's reason: more cautious passengers fly, and tickets cost more."""
    runs = Runs(results)
    made = []
    for column, what in (
        ("mean_flying", "more cautious passengers fly"),
        ("mean_price", "tickets are dearer"),
    ):
        more = runs.more_in_all(column, runs.main, UNINSURED)
        before = ", ".join(
            f"{np.mean([runs.in_all(column, share, UNINSURED, s) for s in runs.seeds]):.3g}"
            for share in runs.shares
        )
        unit = "passengers on board" if column == "mean_flying" else "dollars a ticket"
        text = f"with insurance ({runs.main}) {what}, at every share of cautious passengers"
        numbers = f"{unit}, not insured: {before}; how many more: {listed(more)}"
        made.append(Claim(text, "§6.2", all_positive(more), numbers, "airline_welfare"))
    return made


def better_with_swap(results: list[dict[str, Any]]) -> list[Claim]:
    """Whether revenue and utility are better with Algorithm 3 than without it: early, and in the end."""
    runs = Runs(results)
    if "none" not in runs.corrections or runs.main == "none":
        return []
    early = runs.moment(EARLY)
    made = []
    for column, what in (("revenue", "revenue"), ("utility", "total utility")):
        for at, when in ((early, "with fewer flights"), (-1, "after the whole season")):
            gains = runs.at_every_share(column, runs.main, "none", at)
            text = f"{when}, {what} is better with Algorithm 3 ({runs.main}) than without it (none)"
            numbers = f"after {runs.rounds[at]:,} flights: {listed(gains)}"
            where = "§6.2, caption of Fig. 1" if at == early else "not in the paper"
            if at == early:
                numbers += f"; {_holds_when(runs, column)}"
            made.append(Claim(text, where, all_positive(gains), numbers, "airline_extension"))
    return made


def _holds_when(runs: Runs, column: str) -> str:
    """Return the longest time, after a hundred flights, in which the difference is above 0 at every share."""
    moments = [at for at in range(len(runs.rounds)) if runs.rounds[at] >= min(100, runs.rounds[-1])]
    best: list[int] = []
    now: list[int] = []
    for at in moments:
        holds = all_positive(runs.at_every_share(column, runs.main, "none", at)) == "holds"
        now = [*now, at] if holds else []
        best = max(best, now, key=len)
    if not best:
        return "above 0 at every share at no time"
    return (
        f"above 0 at every share from flight {runs.rounds[best[0]]:,} to {runs.rounds[best[-1]]:,} "
        "(the longest such time; 95 % at each moment)"
    )


def airline_does_not_lose(results: list[dict[str, Any]]) -> list[Claim]:
    """Whether the airline's loss on the bets is below `FREE` per dollar in the end, at every share."""
    runs = Runs(results)
    lost = {
        f"{share:.0%}": [float(-runs.won(share, runs.main, s)[-1]) for s in runs.seeds]
        for share in runs.shares
    }
    little = {share: [FREE - loss for loss in losses] for share, losses in lost.items()}
    text = f"the airline does not lose on the insurance ({runs.main}) in the long run"
    numbers = f"lost per dollar insured (below 0: won), by share: {listed(lost)} (not losing: under {FREE:g})"
    for name in [name for name in runs.present(PAPERS) if name != runs.main]:
        means = [np.mean([-runs.won(share, name, s)[-1] for s in runs.seeds]) for share in runs.shares]
        numbers += f"; {name}: {', '.join(f'{mean:.2g}' for mean in means)}"
    return [Claim(text, "§6", all_positive(little), numbers, "airline_corrections")]


def converges_faster(results: list[dict[str, Any]]) -> list[Claim]:
    """Whether utility is nearer to its final value on the way under Algorithm 3 than under others."""
    runs = Runs(results)
    others = [name for name in runs.present(PAPERS) if name != runs.main]
    if not others:
        return []
    made = []
    for column, what in (("utility", "total utility"), ("revenue", "revenue")):
        far = {name: _distance(runs, column, name) for name in runs.corrections}
        slower = {name: (np.array(far[name]) - far[runs.main]).tolist() for name in others}
        text = f"{what} comes to its final value sooner under {runs.main} than under {' or '.join(others)}"
        where = "§6.2, “worse convergence to the final utility”"
        ranked = sorted(far, key=lambda name: float(np.mean(far[name])))
        numbers = "mean distance on the way, above or below, dollars per passenger: "
        numbers += "; ".join(f"{name}: {interval(far[name])}" for name in ranked)
        numbers += f"; how much further than {runs.main}: {listed(slower)}; of the distance, below the end: "
        below = {name: np.mean(_distance(runs, column, name, below=True)) for name in ranked}
        numbers += ", ".join(f"{name} {mean:.3g}" for name, mean in below.items())
        made.append(Claim(text, where, all_positive(slower), numbers, "airline_extension"))
    return made


def _distance(runs: Runs, column: str, correction: str, *, below: bool = False) -> list[float]:
    """Return the mean distance to the last value over shares and moments from 1 % to 50 %, one per seed.

    With `below`, values above the last one count as no distance: more than in the end does no harm.
    """
    rounds = runs.rounds
    moments = np.searchsorted(rounds, rounds[-1] * np.geomspace(EARLY, 0.5, 30))
    return [
        float(
            np.mean(
                [
                    (
                        np.maximum(path[-1] - path[moments], 0) if below else np.abs(path[moments] - path[-1])
                    ).mean()
                    for path in (runs.path(column, share, correction, seed) for share in runs.shares)
                ]
            )
        )
        for seed in runs.seeds
    ]


def nearer_to_balance(results: list[dict[str, Any]]) -> list[Claim]:
    """Whether the bets come nearer to balance under Algorithm 3 than under others, seed by seed."""
    runs = Runs(results)
    sizes = {
        name: [
            float(np.mean([abs(runs.path("bets", share, name, s)[-1]) for share in runs.shares]))
            for s in runs.seeds
        ]
        for name in runs.corrections
    }
    made = []
    for whom, names in RIVALS.items():
        others = [name for name in runs.present(names) if name != runs.main]
        if not others:
            continue
        further = {name: (np.array(sizes[name]) - sizes[runs.main]).tolist() for name in others}
        text = f"at the end, in the mean over shares, {runs.main}'s bets are nearer to balance than those of "
        text += whom
        numbers = f"|what the airline won|, dollars per passenger: {runs.main} {interval(sizes[runs.main])}; "
        numbers += f"how much further: {listed(further)}; mean |c|: " + ", ".join(
            f"{name} {runs.mean_over_all('mean_size_of_c', name):.3g}" for name in (runs.main, *others)
        )
        made.append(Claim(text, "not in the paper", all_positive(further), numbers, "airline_corrections"))
    return made


def nobody_worse_off(results: list[dict[str, Any]]) -> list[Claim]:
    """Whether each type of passenger, and the airline, is better off with insurance, at every share."""
    runs = Runs(results)
    gains = {
        f"{who}, {share:.0%}": runs.gains(who, share, runs.main, UNINSURED)
        for who in ("airline", *TYPES)
        for share in runs.shares
        if 0 < share < 1 or who == "airline"
    }
    text = "nobody is worse off with insurance: neither the airline nor any type of passenger, at any share"
    shares = ", ".join(f"{share:.0%}" for share in runs.shares)
    means = {key: float(np.mean(values)) for key, values in gains.items()}
    numbers = f"dollars per would-be passenger at {shares} cautious; " + "; ".join(
        f"{who}: " + ", ".join(f"{mean:.2f}" for key, mean in means.items() if key.startswith(who))
        for who in ("airline", *TYPES)
    )
    return [Claim(text, "§6, “for free”", all_positive(gains), numbers, "airline")]


JUDGES = (
    insurance_pays,
    more_demand,
    airline_does_not_lose,
    better_with_swap,
    converges_faster,
    nearer_to_balance,
    nobody_worse_off,
)
