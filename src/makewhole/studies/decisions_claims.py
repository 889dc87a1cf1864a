"""The paper's claims about its benchmark, compared with the runs; losses are in units of the cap.

Each judge looks at one group of results: "corrections" is the paper's setting, in which ĉ may be negative,
and "clipped" is ours, in which ĉ is kept in [0, ½].
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from makewhole.studies.claims import (
    CLOSE,
    FADING,
    NOTICEABLE,
    OFTEN,
    RARELY,
    SMALL_C,
    VANISHES,
    Claim,
    Verdict,
    all_positive,
    any_positive,
    interval,
    listed,
    positive,
)
from makewhole.studies.lineup import GRADIENT, PAPERS, RIVALS

ORACLE = "oracle"
C_BINS = np.linspace(-1, 1, 401)
_MIDDLE = np.abs((C_BINS[1:] + C_BINS[:-1]) / 2)
PAPERS_SETTING = "the paper's: ĉ may be negative (it is kept in ±½)"
OUR_SETTING = "ours: ĉ is kept in [0, ½]"
_SETTINGS = {"corrections": (PAPERS_SETTING, ""), "clipped": (OUR_SETTING, ", with ĉ in [0, ½]")}
NETWORK = "the network"
BASE_ERROR = 0.2  # how far the shifted base is off, and the standard deviation of the noisy one
_MORE_SEEDS = "More seeds can decide what is undecided."

Results = list[dict[str, Any]]


def _names(results: Results, group: str = "corrections") -> list[str]:
    return [name for name in results[0][group] if name != ORACLE]


def sizes(results: Results, name: str, group: str = "corrections", at: int = -1) -> list[float]:
    """Return, per seed, the mean over tasks of |mean loss| at a moment, by default the end."""
    return [float(np.abs(r[group][name]["curves"][:, at]).mean()) for r in results]


def _speeds(results: Results, name: str, group: str) -> list[float]:
    """Return, per seed, s where the mean over tasks of |mean loss| falls like T^(−s), from T/16 to T."""
    last = results[0]["rounds"]
    early = int(np.searchsorted(last, last[-1] / 16))
    slopes = []
    for r in results:
        curves = np.abs(r[group][name]["curves"]).mean(axis=0)
        fell = np.log(max(curves[early], 1e-300) / max(curves[-1], 1e-300))
        slopes.append(float(fell / np.log(last[-1] / last[early])))
    return slopes


def _widths(results: Results, names: Sequence[str], group: str = "corrections") -> str:
    """Return the mean of |c| of each correction, over seeds, in words."""
    means = {n: np.mean([r[group][n]["mean_size_of_c"] for r in results]) for n in names}
    return ", ".join(f"{name} {mean:.3g}" for name, mean in means.items())


def _long_enough(results: Results) -> bool:
    """Whether the runs are long enough to see whether a loss falls."""
    last = results[0]["rounds"]
    return bool(last[np.searchsorted(last, last[-1] / 16)] < last[-1])


# --- what comes near to zero ------------------------------------------------------------------------------


def swap_comes_nearest(
    results: Results, dataset: str, suffix: str, group: str = "corrections"
) -> list[Claim]:
    """Whether swap's mean loss comes nearer to zero than that of the paper's, other and our corrections."""
    names = _names(results, group)
    if "swap" not in names:
        return []
    swap, made = sizes(results, "swap", group), []
    setting, ours = _SETTINGS[group]
    for whom, rivals in RIVALS.items():
        others = [name for name in rivals if name in names]
        if not others:
            continue
        further = {name: (np.array(sizes(results, name, group)) - swap).tolist() for name in others}
        numbers = f"Swap ends at {interval(swap)} caps. How much further from 0: {listed(further)}. "
        numbers += f"Mean |c|: {_widths(results, ('swap', *others), group)}."
        if ORACLE in results[0][group]:
            numbers += f" Luck alone, for an oracle: {interval(sizes(results, ORACLE))} caps."
        paper = rivals == PAPERS
        made.append(
            Claim(
                f"on {dataset} swap's loss comes nearer to zero than those of {whom}{ours}",
                "§7, Fig. 2 and 5" if paper else "not in the paper",
                all_positive(further), numbers, f"betting_loss_{suffix}",
                measured="|mean loss| over all rounds in units of the cap, mean over the twenty tasks, minus "
                "swap's.",
                change=f"It fails if one of them ends nearer to 0 than swap. {_MORE_SEEDS}",
                setting=setting, key="nearest" if paper else "",
            )
        )  # fmt: skip
    return made


def swap_is_close(results: Results, dataset: str, suffix: str, group: str = "corrections") -> list[Claim]:
    """Whether swap's mean loss ends close to zero: a level, in all seeds."""
    if "swap" not in _names(results, group):
        return []
    ends = sizes(results, "swap", group)
    setting, ours = _SETTINGS[group]
    along = np.mean([np.abs(r[group]["swap"]["curves"]).mean(axis=0) for r in results], axis=0)
    far = np.flatnonzero(along >= CLOSE)
    since = results[0]["rounds"][min(far[-1] + 1, len(along) - 1)] if len(far) else 1
    when = f" It stays below {CLOSE:g} from round {since:,} on." if along[-1] < CLOSE else ""
    return [
        Claim(
            f"on {dataset} swap's loss is close to zero after few rounds{ours}", "§1; §7, obs. 2",
            positive([CLOSE - end for end in ends]).verdict,
            f"At the end {interval(ends)} caps (close to zero: under {CLOSE:g}).{when}",
            f"betting_loss_{suffix}",
            measured="|mean loss| over all rounds in units of the cap, mean over the twenty tasks.",
            change=f"It fails if the loss at the end is above {CLOSE:g} of the cap.",
            setting=setting, key="close",
        )
    ]  # fmt: skip


def what_vanishes(results: Results, dataset: str, suffix: str, group: str = "corrections") -> list[Claim]:
    """Whether swap's mean loss goes to 0, and that of the alternatives does not: "often fail to converge".

    The speed of a fall is the slope of log |mean loss| over log T, from a sixteenth of the run to its end.
    Luck alone has a slope of ½. A loss that falls more slowly than T^(−¼) is not called vanishing.
    """
    names = _names(results, group)
    if not _long_enough(results):
        return []
    setting, ours = _SETTINGS[group]
    measured = (
        "The speed s at which |mean loss|, mean over the twenty tasks, falls like T^−s, from a sixteenth "
    )
    measured += "of the rounds to all of them. Luck alone has s = ½, Theorem 1 states s = ¼."
    made = []
    if "swap" in names:
        falls = _speeds(results, "swap", group)
        made.append(
            Claim(
                f"on {dataset} swap's own loss goes to 0, at least like T^−¼{ours}", "Theorem 1; §7, obs. 2",
                positive([speed - VANISHES for speed in falls]).verdict,
                f"s = {interval(falls)} (swap).", f"betting_loss_{suffix}",
                measured=measured, change=f"It fails if s is below ¼. {_MORE_SEEDS}",
                setting=setting, key="rate",
            )
        )  # fmt: skip
    for whom, rivals, key in (
        ("no correction", PAPERS[:1], "none stays"),
        ("follow-the-leader", PAPERS[1:], "leader stays"),
        ("gradient descent", GRADIENT, ""),
    ):
        others = {name: _speeds(results, name, group) for name in rivals if name in names}
        if not others:
            continue
        stays = {name: [VANISHES - speed for speed in each] for name, each in others.items()}
        made.append(
            Claim(
                f"on {dataset} the mean loss of {whom} falls more slowly than T^−¼, if at all{ours}",
                "§7, obs. 3" if key else "not in the paper",
                all_positive(stays), f"s = {listed(others)}.", f"betting_loss_{suffix}",
                measured=measured, change=f"It fails if s is above ¼: then the loss vanishes. {_MORE_SEEDS}",
                setting=setting, key=key,
            )
        )  # fmt: skip
    return made


def alternatives_lose(results: Results, dataset: str, suffix: str, group: str = "corrections") -> list[Claim]:
    """Whether the paper's alternatives end with a loss above 0, over all tasks together."""
    names = _names(results, group)
    setting, ours = _SETTINGS[group]
    made = []
    for whom, name, key in (
        ("no correction", "none", "none positive"),
        ("follow-the-leader", "naive", "leader positive"),
    ):
        if name not in names:
            continue
        losses = [float(r[group][name]["curves"][:, -1].mean()) for r in results]
        share = np.mean([(r[group][name]["curves"][:, -1] > 0).mean() for r in results])
        made.append(
            Claim(
                f"on {dataset} {whom} ends with a loss above 0{ours}", "§1", positive(losses).verdict,
                f"{interval(losses)} caps (below 0: the forecaster won); above 0 in {share:.0%} of the "
                "tasks.",
                f"betting_loss_{suffix}",
                measured="Mean loss over all rounds in units of the cap, with its sign, mean over the twenty "
                "tasks.",
                change=f"It fails if the forecaster wins. {_MORE_SEEDS}", setting=setting, key=key,
            )
        )  # fmt: skip
    return made


# --- how large c is ---------------------------------------------------------------------------------------


def c_is_small(results: Results, dataset: str, suffix: str, group: str = "corrections") -> list[Claim]:
    """Whether c is small, and large c exponentially rarer; `makewhole.studies.claims` has the thresholds."""
    names = _names(results, group)
    name = "swap" if "swap" in names else names[0]
    setting, ours = _SETTINGS[group]
    counts = [r[group][name]["c_counts"] for r in results]
    means = [float((_MIDDLE * n).sum() / n.sum()) for n in counts]
    limits = (0.1, 0.2, 0.3)
    wider = np.array([[max(n[limit < _MIDDLE].sum(), 0.5) / n.sum() for limit in limits] for n in counts])
    rates = -np.diff(np.log(wider), axis=1)
    shares = ", ".join(
        f"{share:.2%} above {limit}" for limit, share in zip(limits, wider.mean(axis=0), strict=True)
    )
    negative = interval([r[group][name]["negative_c"] for r in results])
    slower = interval((rates[:, 1] / np.maximum(rates[:, 0], 1e-300)).tolist())
    figure = f"interval_size_{suffix}"
    return [
        Claim(
            f"on {dataset} |c| ({name}) is small, where c may be negative{ours}", "§7, obs. 2, Fig. 3",
            positive([SMALL_C - mean for mean in means]).verdict,
            f"Mean |c| {interval(means)} (small: under {SMALL_C:g}); c is negative in {negative.mean:.0%} of "
            "forecasts.", figure,
            measured="The mean of |c| over all rounds and tasks.",
            change=f"It fails if the mean is above {SMALL_C:g}.", setting=setting, key="small c",
        ),
        Claim(
            f"on {dataset} large c ({name}) are exponentially rarer{ours}", "§7, Fig. 3",
            positive((rates[:, 1] - FADING * rates[:, 0]).tolist()).verdict,
            f"|c| is {shares}. The rate of decay beyond 0.2 is {slower} of that before (exponential: above "
            f"{FADING:g}; a power law: at most 0.58).", figure,
            measured="The share of forecasts with |c| above 0.1, 0.2 and 0.3, and how fast it decays from "
            "one "
            "to the next.",
            change=f"It fails if the decay slows down to less than {FADING:g} of its rate. {_MORE_SEEDS}",
            setting=setting, key="rare c",
        ),
    ]  # fmt: skip


def widths_are_alike(results: Results, dataset: str, suffix: str, group: str = "corrections") -> list[Claim]:
    """Whether the distribution of |c| looks the same under all of the paper's algorithms.

    The distance of two distributions is the largest difference between their shares of forecasts with |c|
    below any number (Kolmogorov's).
    """
    names = _names(results, group)
    setting, ours = _SETTINGS[group]
    made = []
    for whom, rivals, key in (
        ("no correction", PAPERS[:1], "widths, none"),
        ("follow-the-leader", PAPERS[1:], "widths, leader"),
        ("gradient descent", GRADIENT, ""),
    ):
        others = [name for name in rivals if name in names]
        if "swap" not in names or not others:
            continue
        away = {name: [_distance(r[group], "swap", name) for r in results] for name in others}
        near = {name: [NOTICEABLE - d for d in distances] for name, distances in away.items()}
        made.append(
            Claim(
                f"on {dataset} there is no noticeable difference between the |c| of swap and of {whom}{ours}",
                "Fig. 3" if key else "not in the paper", all_positive(near),
                f"Distance from swap's: {listed(away)} (noticeable: {NOTICEABLE:g}). Mean |c|: "
                f"{_widths(results, ('swap', *others), group)}.", f"interval_size_{suffix}",
                measured="Kolmogorov's distance: the largest difference between the shares of forecasts with "
                "|c| below any number.",
                change=f"It fails if some share differs by more than {NOTICEABLE:g}.",
                setting=setting, key=key,
            )
        )  # fmt: skip
    return made


def _distance(corrections: Mapping[str, Any], one: str, other: str) -> float:
    shares = []
    for name in (one, other):
        counts = corrections[name]["c_counts"]
        sizes_of_c = counts[len(counts) // 2 :] + counts[: len(counts) // 2][::-1]
        shares.append(np.cumsum(sizes_of_c) / sizes_of_c.sum())
    return float(np.abs(shares[0] - shares[1]).max())


def negative_c_is_more_stable(results: Results, dataset: str, suffix: str) -> list[Claim]:
    """Whether swap ends nearer to zero where ĉ may be negative than where it is kept in [0, ½]."""
    if "swap" not in results[0]["clipped"]:
        return []
    free, kept = sizes(results, "swap"), sizes(results, "swap", "clipped")
    ratio = [k / max(f, 1e-300) for f, k in zip(free, kept, strict=True)]
    return [
        Claim(
            f"on {dataset} swap ends nearer to zero if ĉ may be negative", "Appendix B.1",
            positive([k - f for f, k in zip(free, kept, strict=True)]).verdict,
            f"{interval(free)} caps with ĉ in ±½, {interval(kept)} with ĉ in [0, ½]: {interval(ratio)} "
            "times as "
            "far.", f"stability_{suffix}",
            measured="“Stability” has no measure in the paper. We take |mean loss| at the end in units of "
            "the "
            "cap, mean over the twenty tasks, with ĉ in [0, ½] minus that with ĉ in ±½.",
            change=f"It fails if swap ends nearer to zero with ĉ in [0, ½]. {_MORE_SEEDS}",
            setting="both, side by side", key="negative c",
        )
    ]  # fmt: skip


# --- other bases ------------------------------------------------------------------------------------------


def _on_the_way(results: Results, base: str) -> list[float]:
    """Return, per seed, the mean of |mean loss| over tasks and moments from 1 % to 50 % of the rounds."""
    rounds = results[0]["rounds"]
    moments = np.searchsorted(rounds, rounds[-1] * np.geomspace(0.01, 0.5, 30))
    return [float(np.abs(r["bases"][base]["curves"][:, moments]).mean()) for r in results]


def poor_bases_hurt_for_a_while(results: Results, dataset: str, suffix: str) -> list[Claim]:
    """Whether swap over a poor base loses more early, and whether its loss still vanishes in the end."""
    bases = list(results[0]["bases"])
    poor = [name for name in bases if name != NETWORK]
    if not poor or not _long_enough(results):
        return []
    good = _on_the_way(results, NETWORK)
    worse = {n: (np.array(_on_the_way(results, n)) - good).tolist() for n in poor}
    speeds = {name: _speeds(results, name, "bases") for name in poor}
    ends = {name: sizes(results, name, "bases") for name in bases}
    setting = f"ours, because the paper names no base: μ shifted by {BASE_ERROR:g}, μ with noise of standard "
    setting += f"deviation {BASE_ERROR:g}, μ = ½; ĉ = 0"
    return [
        Claim(
            f"on {dataset} a poor base can bring swap further from zero for a while", "§4.1",
            any_positive(worse),
            f"On the way swap over the network is {interval(good)} caps from zero. How much further over a "
            "poor "
            f"base: {listed(worse)}.", f"stability_{suffix}",
            measured="|mean loss| on the way, from 1 % to 50 % of the rounds, in units of the cap, mean "
            "over the "
            "twenty tasks, minus that over the network's μ with ĉ = 0.",
            change="The paper says “could”: one base that is further from zero is enough, with the 5 % "
            "shared "
            "among the three. It fails if all three are nearer to zero.",
            setting=setting, key="poor base",
        ),
        Claim(
            f"on {dataset} swap's loss vanishes over any of these bases, at least like T^−¼", "§4.1",
            all_positive({n: [s - VANISHES for s in each] for n, each in speeds.items()}),
            f"It falls like T^−s, s = {listed(speeds)}. At the end: {listed(ends)} "
            "caps.", f"stability_{suffix}",
            measured="The speed s at which |mean loss|, mean over the twenty tasks, falls like T^−s, from a "
            "sixteenth of the rounds to all of them.",
            change=f"It fails if s is below ¼ for one of the bases. {_MORE_SEEDS}",
            setting=setting, key="any base",
        ),
    ]  # fmt: skip


# --- certain losses ---------------------------------------------------------------------------------------


def bets_make_losses_certain(results: Results, dataset: str, suffix: str) -> list[Claim]:
    """Whether the true loss is in the forecast's range with the bets, and without them not as forecast."""
    if "honesty" not in results[0]:
        return []
    outside, differ, off, shares = 0.0, [], [], []
    for h in (r["honesty"] for r in results):
        beyond = np.maximum(h["low"] - h["insured"], h["insured"] - h["high"])
        outside = max(outside, float(beyond.max()))
        open_ = h["high"] > h["low"]  # if both outcomes cost the same, no forecast can be wrong
        error = np.abs(h["true"] - h["forecasted"])[open_]
        differ.append(float((error > 1e-9).mean()))
        off.append(float(np.median(error)))
        shares.append(float(((h["true"] >= h["low"]) & (h["true"] <= h["high"]))[open_].mean()))
    kept: Verdict = "holds" if outside < 1e-9 else "fails"
    setting = "the paper's: recalibrated by histogram binning, with Algorithm 1's own c after the last round"
    return [
        Claim(
            "with the bets the expected total loss is in the forecast's range, always", "Proposition 2, "
            "Fig. 6",
            kept, f"Beyond the range by at most {max(outside, 0.0):.1e}, in 10,000 cases per seed.",
            "forecasted_loss",
            measured="The agent's expected loss under the true probability, minus what the bet pays her, "
            "and the "
            "range of expected losses under μ ± |c|.",
            change="A single case outside the range makes it fail.", setting=setting, key="bounded",
        ),
        Claim(
            "without them the loss that was forecast is almost always not the true one, though calibrated",
            "§7, obs. 1, Fig. 6", positive([RARELY - (1 - share) for share in differ]).verdict,
            f"Another in {min(differ):.1%} of cases (almost always: all but {RARELY:g}); it is off by "
            f"{interval(off)} in the median, where losses lie between −10 and 10 or so.", "forecasted_loss",
            measured="The share of digits and tasks whose expected loss under the recalibrated forecast "
            "differs "
            "from that under the true probability.",
            change=f"It fails if the two agree in more than {RARELY:.0%} of cases.", setting=setting,
            key="forecast loss",
        ),
        Claim(
            "nor is it mostly in the range of μ ± |c|", "ours", positive([OFTEN - s for s in shares]).verdict,
            f"Inside in {interval(shares)} of cases.", "forecasted_loss",
            measured="The share of cases in which the true expected loss, without bets, is in the range.",
            change="It fails if it is inside in more than half of the cases.", setting=setting,
        ),
    ]  # fmt: skip


# --- ours -------------------------------------------------------------------------------------------------


def reserve_against_swap(results: Results, dataset: str, suffix: str) -> list[Claim]:
    """How much nearer to zero a reserve is than swap, at the rate whose mean |c| is nearest to swap's.

    The rate is chosen by |c| and not by the loss that is then compared.
    """
    names = _names(results)
    reserves = [name for name in names if name.startswith("reserve")]
    if "swap" not in names or not reserves:
        return []

    def width(name: str) -> float:
        return float(np.mean([r["corrections"][name]["mean_size_of_c"] for r in results]))

    chosen = min(reserves, key=lambda name: abs(width(name) - width("swap")))
    ratio = [s / max(o, 1e-300) for s, o in zip(sizes(results, "swap"), sizes(results, chosen), strict=True)]
    text = f"on {dataset} a reserve comes nearer to zero than swap at about the same mean |c|"
    numbers = f"mean |c| {width(chosen):.3g} ({chosen}), {width('swap'):.3g} (swap); nearer by a factor of "
    numbers += f"{interval(ratio)}"
    verdict = positive([value - 1 for value in ratio]).verdict
    return [Claim(text, "ours", verdict, numbers, f"betting_loss_{suffix}", setting=PAPERS_SETTING)]


def balance_is_over_all_bets(results: Results, dataset: str, suffix: str) -> list[Claim]:
    """Whether within one group a correction is further from balance than over all bets."""
    names = _names(results)
    times = {}
    for name in names:
        within = [float(np.abs(r["corrections"][name]["by_z"]).mean()) for r in results]
        times[name] = [a / max(b, 1e-300) for a, b in zip(within, sizes(results, name), strict=True)]
    more = {name: [factor - 1 for factor in factors] for name, factors in times.items()}
    ranked = sorted(times, key=lambda name: float(np.mean(times[name])))
    numbers = "how many times as far: " + "; ".join(f"{n} {np.mean(times[n]):.3g}" for n in ranked)
    text = f"on {dataset} every correction is further from balance within a group than over all bets"
    figure = f"loss_by_group_{suffix}"
    return [Claim(text, "not in the paper", all_positive(more), numbers, figure, setting=PAPERS_SETTING)]


Judge = Callable[..., list[Claim]]
_BOTH: tuple[Judge, ...] = (
    swap_comes_nearest,
    swap_is_close,
    what_vanishes,
    alternatives_lose,
    c_is_small,
    widths_are_alike,
)
JUDGES: tuple[Judge, ...] = (
    *_BOTH,
    negative_c_is_more_stable,
    poor_bases_hurt_for_a_while,
    bets_make_losses_certain,
    reserve_against_swap,
    balance_is_over_all_bets,
)
OUR_JUDGES: tuple[Judge, ...] = tuple(functools.partial(judge, group="clipped") for judge in _BOTH)
