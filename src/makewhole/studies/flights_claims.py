"""The paper's claims about its case study, compared with the runs; and who gains, which it does not ask."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from makewhole.studies.claims import FREE, Claim, all_positive, interval, listed, positive
from makewhole.studies.drawing import shown
from makewhole.studies.lineup import PAPERS, RIVALS

UNINSURED = "no insurance"
CLIPPED = "swap, ĉ in [0, ½]"  # the paper's swap, but where ĉ cannot be negative
TYPES = ("cautious", "trustful", "naive")
EARLY = 0.01  # the share of the flights that is "with fewer iterations"; 578 of United's 57,782


class Runs:
    """The runs of a sweep; differences between them are one per seed, in dollars per would-be passenger."""

    def __init__(self, results: list[dict[str, Any]]) -> None:
        self._run = {(r["share"], r["correction"], r["seed"]): r for r in results}
        self.shares = sorted({r["share"] for r in results})
        self.seeds = sorted({r["seed"] for r in results})
        self.corrections = [
            c for c in dict.fromkeys(r["correction"] for r in results) if c not in (UNINSURED, CLIPPED)
        ]
        self.rounds = results[0]["rounds"]
        ours = [name for name in self.corrections if name.startswith("swap")]
        self.main = (ours or self.corrections)[0]  # the paper's Algorithm 3, if it ran
        self.clipped = CLIPPED in {r["correction"] for r in results}

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


# --- insurance itself -------------------------------------------------------------------------------------

_MORE_SEEDS = "More seeds can decide what is undecided."
_GAIN = "the end of the season, with insurance minus without it, at each share of cautious passengers."


def insurance_pays(results: list[dict[str, Any]]) -> list[Claim]:
    """Whether revenue and total utility are higher with insurance, at every share of cautious passengers."""
    runs = Runs(results)
    made = []
    for column, what in (("revenue", "the airline's revenue"), ("utility", "total utility")):
        gains = runs.at_every_share(column, runs.main, UNINSURED)
        made.append(
            Claim(
                f"insurance ({runs.main}) raises {what} at every share of cautious passengers",
                "§6.2, Fig. 1", all_positive(gains), f"Dollars per passenger: {listed(gains)}.",
                "airline_levels",
                measured=f"{what[0].upper()}{what[1:]} per would-be passenger at {_GAIN}",
                change="One share at which the interval lies below 0 makes it fail.", key=column,
            )
        )  # fmt: skip
    return made


def more_demand(results: list[dict[str, Any]]) -> list[Claim]:
    """Whether revenue rises for the paper's reason: more cautious passengers fly, and tickets cost more."""
    runs = Runs(results)
    made = []
    for column, what, unit, key in (
        ("mean_flying", "more cautious passengers fly", "passengers on board", "demand"),
        ("mean_price", "tickets cost more", "dollars a ticket", "price"),
    ):
        more = runs.more_in_all(column, runs.main, UNINSURED)
        before = ", ".join(
            f"{np.mean([runs.in_all(column, share, UNINSURED, s) for s in runs.seeds]):.3g}"
            for share in runs.shares
        )
        made.append(
            Claim(
                f"with insurance ({runs.main}) {what}, at every share of cautious passengers", "§6.2",
                all_positive(more), f"Without insurance {before} {unit}; with it, more by {listed(more)}.",
                "airline_welfare",
                measured=f"The mean over the season of {unit}, with insurance minus without it, at each "
                "share.",
                change="One share at which the interval lies below 0 makes it fail.", key=key,
            )
        )  # fmt: skip
    return made


def airline_does_not_lose(results: list[dict[str, Any]]) -> list[Claim]:
    """Whether the airline's loss on the bets is below `FREE` per dollar in the end, at every share."""
    runs = Runs(results)
    lost = {
        f"{share:.0%}": [float(-runs.won(share, runs.main, s)[-1]) for s in runs.seeds]
        for share in runs.shares
    }
    little = {share: [FREE - loss for loss in losses] for share, losses in lost.items()}
    numbers = f"Lost per dollar insured (below 0: won): {listed(lost)}."
    for name in [name for name in runs.present(PAPERS) if name != runs.main]:
        means = [np.mean([-runs.won(share, name, s)[-1] for s in runs.seeds]) for share in runs.shares]
        numbers += f" With {shown(name)}: {', '.join(f'{mean:.2g}' for mean in means)}."
    return [
        Claim(
            f"the airline does not lose on the insurance ({runs.main}) in the long run", "§6",
            all_positive(little), numbers, "airline_corrections",
            measured="The airline's loss on the bets at the end of the season, per dollar insured, at each "
            "share. "
            f"Not losing is less than {FREE:g}: no sum over finitely many flights is 0.",
            change=f"One share with a loss of more than {FREE:g} per dollar makes it fail. “No matter what "
            "the "
            "passengers do” is judged by the adversaries.", key="no loss",
        )
    ]  # fmt: skip


def free_for_the_airline(results: list[dict[str, Any]]) -> list[Claim]:
    """Whether insurance is free for the airline, as the paper claims; and who else gains, which is ours."""
    runs = Runs(results)
    airline = runs.at_every_share("airline", runs.main, UNINSURED)
    together = {
        f"{share:.0%}": np.sum(
            [runs.gains(who, share, runs.main, UNINSURED) for who in TYPES], axis=0
        ).tolist()
        for share in runs.shares
    }
    each = {
        f"{who}, {share:.0%}": runs.gains(who, share, runs.main, UNINSURED)
        for who in TYPES
        for share in runs.shares
        if 0 < share < 1
    }
    means = {key: float(np.mean(values)) for key, values in each.items()}
    by_type = "; ".join(
        f"{who} {', '.join(f'{mean:.2f}' for key, mean in means.items() if key.startswith(who))}"
        for who in TYPES
    )
    made = [
        Claim(
            f"insurance ({runs.main}) costs the airline nothing, at any share of cautious passengers",
            "§6, “for free”", all_positive(airline), f"Dollars per would-be passenger: {listed(airline)}.",
            "airline",
            measured=f"The airline's ticket revenue and what it won on the bets, per would-be passenger, "
            f"at {_GAIN}",
            change="One share at which the airline earns less makes it fail. Whether its passengers "
            "benefit is the "
            "next question, which is ours.", key="for free",
        ),
        Claim(
            "its passengers gain in sum, at every share", "ours", all_positive(together),
            f"Dollars per would-be passenger: {listed(together)}.", "airline",
            measured=f"The utility of all passengers, payments from bets included, at {_GAIN}",
            change="It fails if at one share passengers together are worse off.",
        ),
    ]  # fmt: skip
    if each:
        text = "no type of passenger is worse off, at any share"
        numbers = f"Dollars per would-be passenger, by share: {by_type}."
        made.append(Claim(text, "ours", all_positive(each), numbers, "airline"))
    return made


# --- what the correction adds -----------------------------------------------------------------------------


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
            numbers = f"After {runs.rounds[at]:,} flights: {listed(gains)}."
            numbers += f" {_holds_when(runs, column)}" if at == early else ""
            made.append(
                Claim(
                    f"{when}, {what} is better with Algorithm 3 ({runs.main}) than without it (none)",
                    "caption of Fig. 1" if at == early else "not in the paper", all_positive(gains), numbers,
                    "airline_extension",
                    measured=f"Mean {what} so far, in dollars per would-be passenger, with Algorithm 3 minus "
                    f"without it, after {EARLY:.0%} of the flights, at each share.",
                    change="One share at which it is lower makes it fail; how few iterations are “fewer” "
                    "the paper "
                    f"does not say. {_MORE_SEEDS}", key=f"early, {what}" if at == early else "",
                )
            )  # fmt: skip
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
        return "It is above 0 at every share at no time."
    return (
        f"It is above 0 at every share from flight {runs.rounds[best[0]]:,} to {runs.rounds[best[-1]]:,} "
        "(the "
        "longest such time; 95 % at each moment)."
    )


def converges_faster(results: list[dict[str, Any]]) -> list[Claim]:
    """Whether revenue and utility fall less short of their end under Algorithm 3 than under others."""
    runs = Runs(results)
    others = [name for name in runs.present(PAPERS) if name != runs.main]
    made = []
    for column, what in (("revenue", "revenue"), ("utility", "total utility")):
        short = {name: _shortfall(runs, column, name) for name in runs.corrections}
        more = {name: (np.array(short[name]) - short[runs.main]).tolist() for name in others}
        for key, where, rivals in (
            ("faster", "caption of Fig. 1", others[:1] if others[:1] == ["none"] else []),
            ("worse", "§6.2", others),
        ):
            if not rivals:
                continue
            words = " or ".join(shown(name) for name in rivals)
            numbers = (
                f"{runs.main} falls short by {interval(short[runs.main])} dollars per would-be passenger. By "
            )
            numbers += f"how much more: {listed({shown(name): more[name] for name in rivals})}."
            made.append(
                Claim(
                    f"on the way, {what} falls less short of its end under {runs.main} than under {words}",
                    where, all_positive({name: more[name] for name in rivals}), numbers, "airline_extension",
                    measured=f"How far mean {what} so far is below its value at the end of the season, "
                    "from 1 % to "
                    "50 % of the flights, mean over shares. More than in the end is no shortfall.",
                    change=f"It fails if one of them falls less short than {runs.main}. {_MORE_SEEDS}",
                    key=f"{key}, {what}",
                )
            )  # fmt: skip
    return made


def _shortfall(runs: Runs, column: str, correction: str) -> list[float]:
    """Return the mean shortfall below the last value over shares and moments from 1 % to 50 %, per seed."""
    rounds = runs.rounds
    moments = np.searchsorted(rounds, rounds[-1] * np.geomspace(EARLY, 0.5, 30))
    per_seed = []
    for seed in runs.seeds:
        paths = [runs.path(column, share, correction, seed) for share in runs.shares]
        per_seed.append(float(np.mean([np.maximum(path[-1] - path[moments], 0).mean() for path in paths])))
    return per_seed


def _off_balance(runs: Runs, correction: str) -> list[float]:
    """Return |what the airline won on the bets| at the end, mean over shares, per seed."""
    return [
        float(np.mean([abs(runs.path("bets", share, correction, s)[-1]) for share in runs.shares]))
        for s in runs.seeds
    ]


def negative_c_is_more_stable(results: list[dict[str, Any]]) -> list[Claim]:
    """Whether swap's bets end nearer to balance where ĉ may be negative than where it is kept in [0, ½]."""
    runs = Runs(results)
    if not runs.clipped or runs.main != "swap":
        return []
    free, kept = _off_balance(runs, "swap"), _off_balance(runs, CLIPPED)
    return [
        Claim(
            "swap's bets are nearer to balance if ĉ may be negative", "Appendix B.1",
            positive([k - f for f, k in zip(free, kept, strict=True)]).verdict,
            f"{interval(free)} dollars per would-be passenger with ĉ in ±½, {interval(kept)} with ĉ in [0, "
            "½].",
            measured="“Stability” has no measure in the paper. We take |what the airline won or lost on "
            "the bets| "
            "at the end of the season, mean over shares, with ĉ in [0, ½] minus that with ĉ in ±½.",
            change=f"It fails if the bets are nearer to balance with ĉ in [0, ½]. {_MORE_SEEDS}",
            key="negative c",
        )
    ]  # fmt: skip


def nearer_to_balance(results: list[dict[str, Any]]) -> list[Claim]:
    """Whether the bets come nearer to balance under Algorithm 3 than under others, seed by seed."""
    runs = Runs(results)
    sizes = {name: _off_balance(runs, name) for name in runs.corrections}
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


JUDGES = (
    insurance_pays,
    more_demand,
    airline_does_not_lose,
    free_for_the_airline,
    better_with_swap,
    converges_faster,
    negative_c_is_more_stable,
    nearer_to_balance,
)
