"""The paper's claims about its benchmark, compared with the runs; losses are in units of the cap."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from makewhole.studies.claims import (
    FADING,
    NOTICEABLE,
    OFTEN,
    RARELY,
    SMALL_C,
    VANISHES,
    Claim,
    Verdict,
    all_positive,
    interval,
    listed,
    positive,
)
from makewhole.studies.lineup import GRADIENT, PAPERS, RIVALS

ORACLE = "oracle"
C_BINS = np.linspace(-1, 1, 401)
_MIDDLE = np.abs((C_BINS[1:] + C_BINS[:-1]) / 2)

Results = list[dict[str, Any]]


def _names(results: Results) -> list[str]:
    return [name for name in results[0]["corrections"] if name != ORACLE]


def sizes(results: Results, name: str) -> list[float]:
    """Return, per seed, the mean over tasks of |mean loss| at the end."""
    return [float(np.abs(r["corrections"][name]["curves"][:, -1]).mean()) for r in results]


def swap_comes_nearest(results: Results, dataset: str, suffix: str) -> list[Claim]:
    """Whether swap's mean loss comes nearer to zero than that of the paper's, other and our corrections."""
    names = _names(results)
    if "swap" not in names:
        return []
    swap, made = sizes(results, "swap"), []
    for whom, rivals in RIVALS.items():
        others = [name for name in rivals if name in names]
        if not others:
            continue
        further = {name: (np.array(sizes(results, name)) - swap).tolist() for name in others}
        text = f"on {dataset} swap's loss comes nearer to zero than those of {whom}"
        numbers = f"mean |loss|/cap: swap {interval(swap)}; how much further: {listed(further)}"
        if ORACLE in results[0]["corrections"]:
            numbers += f"; an oracle's luck alone: {interval(sizes(results, ORACLE))}"
        numbers += f"; mean |c|: {_widths(results, ('swap', *others))}"
        where = "§7, Fig. 2 and 5" if rivals == PAPERS else "not in the paper"
        made.append(Claim(text, where, all_positive(further), numbers, f"betting_loss_{suffix}"))
    return made


def what_vanishes(results: Results, dataset: str, suffix: str) -> list[Claim]:
    """Whether swap's mean loss goes to 0, and that of the alternatives does not: "often fail to converge".

    The speed of a fall is the slope of log |mean loss| over log T, from a sixteenth of the run to its end.
    Luck alone has a slope of ½. A loss that falls more slowly than T^(−¼) is not called vanishing.
    """
    names = _names(results)
    last = results[0]["rounds"]
    early = int(np.searchsorted(last, last[-1] / 16))

    def speeds(name: str) -> list[float]:
        slopes = []
        for r in results:
            curves = np.abs(r["corrections"][name]["curves"]).mean(axis=0)
            fell = np.log(max(curves[early], 1e-300) / max(curves[-1], 1e-300))
            slopes.append(float(fell / np.log(last[-1] / last[early])))
        return slopes

    made = []
    if "swap" in names and last[early] < last[-1]:
        falls = {"swap": speeds("swap")}
        text = f"on {dataset} swap's own loss goes to 0, at least like T^−¼"
        numbers = (
            f"it falls like T^−s, s = {listed(falls)}; at the end {interval(sizes(results, 'swap'))} caps"
        )
        verdict = all_positive({"swap": [speed - VANISHES for speed in falls["swap"]]})
        made.append(Claim(text, "§1, §7, obs. 2", verdict, numbers, f"betting_loss_{suffix}"))
    for whom, rivals in (
        ("no correction", PAPERS[:1]),
        ("follow-the-leader", PAPERS[1:]),
        ("gradient descent", GRADIENT),
    ):
        others = {name: speeds(name) for name in rivals if name in names}
        if others and last[early] < last[-1]:
            stays = {name: [VANISHES - speed for speed in each] for name, each in others.items()}
            text = f"on {dataset} the mean loss of {whom} falls more slowly than T^−¼, if at all"
            numbers = f"it falls like T^−s, s = {listed(others)}"
            where = "not in the paper" if rivals == GRADIENT else "§7, obs. 3"
            made.append(Claim(text, where, all_positive(stays), numbers, f"betting_loss_{suffix}"))
    return made


def c_is_small(results: Results, dataset: str, suffix: str) -> list[Claim]:
    """Whether c is small, and large c exponentially rarer; `makewhole.studies.claims` has the thresholds."""
    names = _names(results)
    name = "swap" if "swap" in names else names[0]
    counts = [r["corrections"][name]["c_counts"] for r in results]
    means = [float((_MIDDLE * n).sum() / n.sum()) for n in counts]
    limits = (0.1, 0.2, 0.3)
    wider = np.array([[max(n[limit < _MIDDLE].sum(), 0.5) / n.sum() for limit in limits] for n in counts])
    rates = -np.diff(np.log(wider), axis=1)
    shares = ", ".join(
        f"|c| > {limit}: {share:.2%}" for limit, share in zip(limits, wider.mean(axis=0), strict=True)
    )
    negative = interval([r["corrections"][name]["negative_c"] for r in results])
    small = f"mean |c| {interval(means)} (small: under {SMALL_C:g}); c < 0 in {negative.mean:.0%}"
    slower = interval((rates[:, 1] / rates[:, 0]).tolist())
    fading = f"{shares}; rate of decay beyond 0.2 over that before {slower} (exponential: above {FADING:g})"
    figure = f"interval_size_{suffix}"
    return [
        Claim(
            f"on {dataset} |c| ({name}) is small, where c may be negative", "§7, obs. 2, Fig. 3",
            positive([SMALL_C - mean for mean in means]).verdict, small, figure,
        ),
        Claim(
            f"on {dataset} large c ({name}) are exponentially rarer", "§7, Fig. 3",
            positive((rates[:, 1] - FADING * rates[:, 0]).tolist()).verdict, fading, figure,
        ),
    ]  # fmt: skip


def _widths(results: Results, names: Sequence[str]) -> str:
    """Return the mean of |c| of each correction, over seeds, in words."""
    means = {n: np.mean([r["corrections"][n]["mean_size_of_c"] for r in results]) for n in names}
    return ", ".join(f"{name} {mean:.3g}" for name, mean in means.items())


def widths_are_alike(results: Results, dataset: str, suffix: str) -> list[Claim]:
    """Whether the distribution of |c| looks the same under all of the paper's algorithms.

    The distance of two distributions is the largest difference between their shares of forecasts with |c|
    below any number (Kolmogorov's). Without a correction c is ĉ, which these tasks keep in [0, ½].
    """
    names = _names(results)
    made = []
    for whom, rivals in (
        ("no correction, where c is ĉ, never below 0", PAPERS[:1]),
        ("follow-the-leader", PAPERS[1:]),
        ("gradient descent", GRADIENT),
    ):
        others = [name for name in rivals if name in names]
        if "swap" not in names or not others:
            continue
        away = {name: [_distance(r, "swap", name) for r in results] for name in others}
        near = {name: [NOTICEABLE - d for d in distances] for name, distances in away.items()}
        text = f"on {dataset} there is no noticeable difference between the |c| of swap and of {whom}"
        numbers = f"distance from swap's: {listed(away)} (noticeable: {NOTICEABLE:g}); mean |c|: "
        numbers += _widths(results, ("swap", *others))
        places = {GRADIENT: "not in the paper", PAPERS[:1]: "Fig. 3; the clip of ĉ is ours"}
        where = places.get(rivals, "Fig. 3")
        made.append(Claim(text, where, all_positive(near), numbers, f"interval_size_{suffix}"))
    return made


def _distance(result: dict[str, Any], one: str, other: str) -> float:
    shares = []
    for name in (one, other):
        counts = result["corrections"][name]["c_counts"]
        sizes_of_c = counts[len(counts) // 2 :] + counts[: len(counts) // 2][::-1]
        shares.append(np.cumsum(sizes_of_c) / sizes_of_c.sum())
    return float(np.abs(shares[0] - shares[1]).max())


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
    return [Claim(text, "ours", verdict, numbers, f"betting_loss_{suffix}")]


def bets_make_losses_certain(results: Results, dataset: str, suffix: str) -> list[Claim]:
    """Whether the expected loss is L_max with the bets, and without them hardly ever the forecast one."""
    if "honesty" not in results[0]:
        return []
    error = max(float(np.abs(r["honesty"]["insured"] - r["honesty"]["high"]).max()) for r in results)
    shares = []
    for h in (r["honesty"] for r in results):
        open_ = h["high"] > h["low"]  # if both outcomes cost the same, no forecast can be wrong
        shares.append(float(((h["true"] >= h["low"]) & (h["true"] <= h["high"]))[open_].mean()))
    exact: Verdict = "holds" if error < 1e-9 else "fails"
    made = [
        Claim(
            "with the bets the agent's expected loss is L_max, always", "Proposition 2, Fig. 6",
            exact, f"off by at most {error:.1e}", "forecasted_loss",
        )
    ]  # fmt: skip
    differ, halves = [], []
    for h in (r["honesty"] for r in results):
        half = (h["high"] - h["low"]) / 2
        off = np.abs(h["true"] - h["forecasted"])[half > 0]
        differ.append(float((off > 1e-9).mean()))
        halves.append(float(np.median(off / half[half > 0])))
    text = "without them the loss that was forecast is almost always not the true one, though calibrated"
    verdict = positive([RARELY - (1 - share) for share in differ]).verdict
    numbers = f"another in {min(differ):.1%} of cases (almost always: all but {RARELY:g}); it is off by "
    numbers += f"{interval(halves)} standard errors of a bin (median)"
    made.append(Claim(text, "§7, obs. 1, Fig. 6", verdict, numbers, "forecasted_loss"))
    text = "nor is it mostly inside an interval of ± the largest standard error of a bin"
    verdict = positive([OFTEN - share for share in shares]).verdict
    numbers = f"inside in {interval(shares)} of cases (15 bins)"
    made.append(Claim(text, "ours", verdict, numbers, "forecasted_loss"))
    return made


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
    return [Claim(text, "not in the paper", all_positive(more), numbers, f"loss_by_group_{suffix}")]


JUDGES = (
    swap_comes_nearest,
    what_vanishes,
    c_is_small,
    widths_are_alike,
    reserve_against_swap,
    bets_make_losses_certain,
    balance_is_over_all_bets,
)
