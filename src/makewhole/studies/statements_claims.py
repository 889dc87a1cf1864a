"""The paper's statements, judged by the results of `statements`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from makewhole.studies.calibrated import TASKS
from makewhole.studies.claims import Claim, SeedInterval, interval
from makewhole.studies.lineup import make_correction
from makewhole.studies.offline_worlds import WORLDS

Results = list[dict[str, Any]]
_CLOSE = 1e-9
_ERRORS = 5.0  # standard errors: by chance one of 10,000 worlds is beyond them once in 300 times


def _most(results: Results, key: str) -> float:
    return max(float(r["found"][key]) for r in results)


def row(text: str, where: str, ok: bool, numbers: str, figure: str = "") -> Claim:
    """Return a claim that holds, or does not."""
    return Claim(text, where, "holds" if ok else "fails", numbers, figure)


def _counted(results: Results, key: str, text: str, where: str, note: str = "") -> Claim:
    """Return a claim that holds if no case speaks against it."""
    against = _most(results, key)
    tried = sum(r["tried"][key] for r in results)
    return row(text, where, against == 0, f"{tried:,} random cases, {against:.0f} against{note}")


def _exact(results: Results, key: str, text: str, where: str, note: str = "") -> Claim:
    """Return a claim that two numbers are equal."""
    return row(text, where, _most(results, key) < _CLOSE, f"off by up to {_most(results, key):.2g}{note}")


def what_a_forecast_cannot_promise(results: Results) -> list[Claim]:
    """Lemma 1, Proposition 1, and Desiderata 1 and 2: a forecast alone."""

    def shares(name: str) -> str:
        both = [np.mean([r["found"][f"{name}_{world}"] for r in results]) for world in ("half", "certain")]
        return f"{both[0]:.0%} and {both[1]:.0%}"

    narrow = max(_most(results, "frequency_certain"), _most(results, "quarter_certain"))
    reach, line = _most(results, "lemma1_reach"), _most(results, "lemma1_line")
    return [
        _counted(
            results, "lemma1", "a contract is acceptable exactly if some bet is at least as good", "Lemma 1",
            " (one interval in ten reaches 0 or 1)",
        ),
        row(
            "for every f(1) some b has f(1) = b(1 − μ) − |b|c, and for b ≥ 0 the line gives f(0) ≤ −b(μ + c)",
            "the proof of Lemma 1", reach > 1 and line <= 0,
            f"where μ + c = 1, no b up to a million offers more than {reach:.0f}; the line falls short by "
            f"up to {line:.2f}·b; b = f(1) − f(0) proves the lemma in two lines (theory.md)",
        ),
        _counted(
            results, "prop1_in",
            "if the probability is in the interval, every agent's true loss is in the forecast's range",
            "Proposition 1.1",
        ),
        _counted(
            results, "prop1_out",
            "if it is not, no agent's is, unless both outcomes cost her the same", "Proposition 1.2",
        ),
        row(
            "without bets no forecast that learns from data has both a true range and a small c",
            "§3, Desiderata 1 and 2", narrow < 0.01,
            "two worlds that no data tell apart: every event is even, or certain; true losses in the range, "
            f"in the one and in the other: frequency ± its error {shares('frequency')}, ½ ± ¼ "
            f"{shares('quarter')}, all of [0, 1] {shares('everything')}; an interval that is right in both "
            "contains 0, ½ and 1",
        ),
    ]  # fmt: skip


def paying_whatever_is_asked(results: Results) -> list[Claim]:
    """§3: the naive payment keeps the promise to the agent, and can be exploited; bets cannot."""
    claims, late = _most(results, "claims"), _most(results, "claims_late")
    return [
        _exact(
            results, "naive_printed", "the payment E_μ[l(a, Y)] − l(a, Y) satisfies Desideratum 1′",
            "§3.1, as printed", ": the sign is turned, and the loss leaves [L_min, L_max]",
        ),
        _exact(
            results, "naive", "the payment l(a, Y) − E_μ[l(a, Y)] satisfies Desideratum 1′", "§3.1, mended"
        ),
        row(
            "a forecaster that offers any side payment can be exploited, and such a mechanism is not "
            "sustainable", "§3.1, exploited", claims > 0.25 and late < claims / 10,
            "an agent who asks for 1 whatever happens gets 1 a round; one who knows the outcome, and claims "
            f"a loss of 1 by it, wins {claims:.2f} a round, and only {late:.4f} from deterministic swap",
        ),
    ]  # fmt: skip


def what_a_bet_promises(results: Results) -> list[Claim]:
    """Desideratum 1′, Propositions 2 and 3, Corollary 1, and the footnote on balanced budgets."""
    one_sided, bound = _most(results, "corollary1"), _most(results, "budget_bound")
    means = {
        key: np.array([r["found"][key] for r in results])
        for key in ("exact_knows", "exact_wrong", "sound_knows", "sound_wrong")
    }
    strong = max(np.abs(means["exact_knows"]).max(), np.abs(means["exact_wrong"]).max()) <= bound
    weak = max(means["sound_knows"].max(), means["sound_wrong"].max()) <= bound
    only = means["sound_wrong"].max() < -bound
    return [
        _counted(
            results, "desideratum",
            "with the payment, her true expected loss lies in [L_min, L_max], whatever the true probability",
            "Desideratum 1′",
        ),
        _exact(
            results, "prop2", "with the bet l(1) − l(0) her loss is L_max, whatever happens", "Proposition 2"
        ),
        _exact(
            results, "prop3_printed", "the same with K classes and the stake as printed",
            "Proposition 3, as printed", ": it takes off the least cost, and not the γ that has it",
        ),
        _exact(
            results, "prop3", "the same with K classes and the stake l − γ*", "Proposition 3, mended"
        ),
        row(
            "soundness is weak budget balance, exactness strong budget balance", "§4, footnote",
            bool(strong and weak and only),
            "mean loss a round to one who knows the outcome, and to one who is always wrong: in exact mode "
            f"{means['exact_knows'].mean():.4f} and {means['exact_wrong'].mean():.4f}, in sound mode "
            f"{means['sound_knows'].mean():.4f} and {means['sound_wrong'].mean():.2f}: no deficit, but "
            "a surplus",
        ),
        row(
            "where y = 1 is never better, c = 0 is enough", "Corollary 1", one_sided < 0.02,
            f"one-sided deterministic swap against a clairvoyant: |mean loss|/cap {one_sided:.4f}",
        ),
    ]  # fmt: skip


def lemmas_on_swap_regret(results: Results) -> list[Claim]:
    """Appendix C: the lemmas behind the theorem on swap regret, as printed and mended."""
    along, square = _most(results, "lemma4"), _most(results, "lemma4_square")
    wide = _most(results, "lemma4_wide")
    leader, sums = _most(results, "lemma3"), _most(results, "lemma5_printed")
    over, step = _most(results, "lemma5"), _most(results, "lemma5_step")
    return [
        _exact(
            results, "lemma2_printed",
            "the squared mean loss is at most the regret against ψ into [−1, 1]", "Lemma 2, as printed",
            ": λ = −1 and a target of −1.5 (ĉ = ½) have no regret",
        ),
        _exact(
            results, "lemma2", "it is the regret against shifts of any size: an identity", "Lemma 2, mended"
        ),
        row(
            "follow-the-leader's regret grows like log T", "Lemma 3", leader <= 1,
            f"at most {leader:.2f} of 4·(1 + log T), which theory.md proves for targets in [−1, 1]",
        ),
        Claim(
            "cells of width δ cost at most δ more than 1-Lipschitz ψ, per round", "Lemma 4, as printed",
            "undecided", f"for sequences in general up to {wide:.2f} δ where |r/s| ≤ 2, as the paper allows; "
            "for those that Algorithm 3 makes, of which it speaks, we do not know",
        ),
        row(
            "they do for every sequence if the targets lie in an interval of length 2, as with ĉ = 0",
            "Lemma 4, mended",
            along <= 1 + _CLOSE, f"at most {along:.2f} δ; proved in theory.md",
        ),
        row(
            "they cost at most δ², because ψ has a slope of at most 1", "the proof of Lemma 4",
            square <= 1, f"{square:.1f} δ² where λ, at the ends of a cell, goes with the target",
        ),
        row(
            "Σ_t β_t⁴/(β_1² + … + β_t²) ≤ M² log(T + 1)", "Lemma 5, as printed", sums <= 0,
            f"with equal β, Σ1/t is larger by up to {sums:.3f}",
        ),
        row(
            "Σ_t β_t⁴/(β_1² + … + β_t²) ≤ M² (1 + log T)", "Lemma 5, mended", over <= _CLOSE,
            f"equal, random, growing and rare β: at most {over:.2g} above it; proved in theory.md",
        ),
        row(
            "the sum is largest with every β as large as allowed: raising one never lowers it",
            "the proof of Lemma 5", step <= 0,
            f"for β² = (0, 1, 1), raising the first to 0.1 lowers the sum by {step:.3f}",
        ),
    ]  # fmt: skip


def theorem_on_swap_regret(results: Results) -> list[Claim]:
    """Theorem 2: as printed, against everyone; and Algorithm 3's games against other agents."""
    lengths = results[0]["games"]["long"]
    regret = np.mean([r["games"]["reader"] for r in results], axis=0) / lengths
    bound = [printed(make_swap(t).cells, t) / t for t in lengths]
    falls = regret[-1] < regret[0] / 2
    in_cells = _of_bound(results, blind_in_cells, "in_cells")
    unproved = _of_bound(results, proved)
    return [
        row(
            "Algorithm 3's regret is at most of the order K² log T + T/K²", "Theorem 2, as printed", falls,
            f"an agent who reads the draw: a regret of {regret[0]:.3f} per round after {lengths[0]:,} "
            f"rounds, of {regret[-1]:.3f} after {lengths[-1]:,}; the bound per round goes to 0 whatever "
            f"its constant (with 8: {bound[0]:.2f}, then {bound[-1]:.3f})",
            "regret",
        ),
        row(
            "against agents who cannot see the draw it is at most of the order K log T + √(KT) + T/K, in "
            "expectation", "Theorem 2, mended", max(in_cells) <= 1,
            f"proved in theory.md, Theorem J; in our games, against the best constant for each cell, at most "
            f"{max(in_cells):.2f} of 4·(K(1 + log T) + 1.07·√(KT))",
            "regret",
        ),
        Claim(
            "against them it is at most of the order K log T + 4T/K²", "the proof of Theorem 2",
            "undecided" if max(unproved) <= 1 else "fails",
            "that is with the δ² of the proof of Lemma 4, which is wrong for sequences in general; against "
            f"shifts at most {max(unproved):.2g} of 8·K(1 + log T) + 4T/K² in our games",
            "regret",
        ),
    ]  # fmt: skip


def theorem_1_for_blind_agents(results: Results) -> list[Claim]:
    """Theorem 1, second half, for agents who cannot see the draw: the paper's rate, with more cells."""
    lengths = results[0]["games"]["lengths"]
    share = max(_of_bound(results, blind, only="swap 1/2"))
    rate = [math.sqrt(math.log(t) / t) for t in lengths]

    def worst(name: str) -> list[float]:
        kinds = [k for k in results[0]["games"]["regrets"] if k.partition(",")[0] == name]
        means = [np.mean([r["games"]["regrets"][k] for r in results], axis=0) / lengths for k in kinds]
        return [float(v) for v in np.max(means, axis=0) / rate]

    def listed(values: list[float]) -> str:
        return ", ".join(f"{v:.2f} (T = {t:,})" for t, v in zip(lengths, values, strict=True))

    return [
        row(
            "the squared mean loss is of the order √(log T/T), in expectation, against agents who cannot see "
            "the draw, with K = (T/log T)^½ cells", "Theorem 1, second half, blind agents", share <= 1,
            f"proved in theory.md, Theorem J; in our games at most {share:.2f} of the bound; the largest "
            f"square over √(log T/T): {listed(worst('swap 1/2'))}",
            "regret",
        ),
        Claim(
            "the same with the printed K = (T/log T)^¼ cells", "Theorem 1, second half, printed K",
            "undecided",
            f"proved is (log T/T)^¼ for the square; the largest square over √(log T/T): "
            f"{listed(worst('swap'))}",
            "regret",
        ),
    ]  # fmt: skip


def make_swap(rounds: int, name: str = "swap") -> Any:
    """Return Algorithm 3 for a game of this length."""
    return make_correction(name, rounds, (0.0, 0.0))


def _of_bound(results: Results, bound: Any, which: str = "regrets", only: str = "swap") -> list[float]:
    """Return the mean regret over seeds in every kind of game of Algorithm 3, divided by a bound."""
    shares, lengths = [], results[0]["games"]["lengths"]
    for label in results[0]["games"][which]:
        name = label.partition(",")[0]
        if name.startswith(only):
            means = np.mean([r["games"][which][label] for r in results], axis=0)
            shares += [
                float(regret / bound(make_swap(length, name).cells, length))
                for length, regret in zip(lengths, means, strict=True)
            ]
    return shares


def blind(cells: float, rounds: float) -> float:
    """Theorem J for targets in [−1, 1]: the expected regret against shifts, if agents are blind."""
    return float(4 * (cells * (1 + np.log(rounds)) + 4 * np.sqrt(rounds) + 9 / 8 * rounds / cells))


def blind_in_cells(cells: float, rounds: float) -> float:
    """Theorem J: the same against the best constant for each cell in which λ lies."""
    return float(4 * (cells * (1 + np.log(rounds)) + 1.07 * np.sqrt(cells * rounds)))


def proved(cells: float, rounds: float) -> float:
    """The result of Theorem 2's proof, with the δ² of its Lemma 4, and the constant of its Lemma 3."""
    return float(8 * cells * (1 + np.log(rounds)) + 4 * rounds / cells**2)


def printed(cells: float, rounds: float) -> float:
    """Theorem 2 as printed, with the same constant."""
    return float(8 * cells**2 * (1 + np.log(rounds)) + rounds / cells**2)


def forecasts_that_no_longer_learn(results: Results) -> list[Claim]:
    """Appendix A.2: soundness of fixed forecasts, and calibration."""
    sound, unsound = _most(results, "sound"), min(float(r["found"]["unsound"]) for r in results)
    error, null = _most(results, "prop4_printed"), _most(results, "prop4_null")
    return [
        row(
            "sound for bets on μ alone if and only if the maximum calibration error is less than c₀",
            "Proposition 4, as printed", not (error > 0.1 and null < _ERRORS),
            f"a μ that is off by {error:.1f} at one value that never occurs: bets around it win at most "
            f"{null:.1f} standard errors at c₀ = 0; and an error of exactly c₀ is sound",
        ),
        _counted(
            results, "prop4",
            "sound for bets on μ alone exactly if the essential supremum of the error is at most c₀",
            "Proposition 4, mended", ", each with a search over 243 bets",
        ),
        _counted(
            results, "prop5", "sound for bets on sets implies multicalibrated", "Proposition 5",
            ", each with a search over 243 bets on each set",
        ),
        row(
            "a forecaster that is not multicalibrated has a set with |1(X ∈ S)(U − E[Y | U])| > c₀",
            "the proof of Proposition 5", _most(results, "prop5_read") <= 0,
            f"right in the set, wrong elsewhere: |U − E[Y | U]| = {_most(results, 'prop5_read'):.2f}, and no "
            "bet on the set wins; the expectation has to be given U and S",
        ),
        row(
            "sound implies asymptotically sound, for draws from one source", "Appendix A.2",
            sound < _ERRORS < unsound,
            f"at the smallest sound c the largest mean loss of {WORLDS * len(results):,} worlds is "
            f"{sound:.1f} standard errors; at two thirds of it the median is {unsound:.0f}",
        ),
    ]  # fmt: skip


def a_calibrated_forecaster(results: Results) -> list[Claim]:
    """§5: what a μ that is calibrated against every nature is worth: whether c then vanishes."""
    games = [r["calibrated"] for r in results]
    lengths = games[0]["lengths"]

    def c(forecaster: str, bettor: str) -> list[SeedInterval]:
        each = [np.abs(g["c"][f"{forecaster}, {bettor}"]) for g in games]
        return [interval([one[k] for one in each]) for k in range(len(lengths))]

    def both(bettor: str) -> str:
        made, raw = c("calibrated", bettor), c("as learned", bettor)
        return f"{made[0].mean:.3f}, then {made[1]} (as learned {raw[0].mean:.3f}, then {raw[1].mean:.3f})"

    opposite, alone = c("calibrated", "knows μ, opposite"), c("calibrated", "knows μ")
    knows = c("calibrated", "knows the digit")
    bounds = [1.5 * t ** (-1 / 3) for t in lengths]
    within = all(one.high <= bounds[k] for made in (opposite, alone) for k, one in enumerate(made))
    after = f"|c| that balances the bets after {lengths[0]:,} and {lengths[1]:,} forecasts"
    return [
        row(
            "with a μ that is calibrated against every nature, c vanishes for bets that depend on μ alone",
            "ours (§5, calibration)", within and opposite[1].high < 0.7 * opposite[0].low,
            f"{after}: {both('knows μ')}; where what is forecast as less likely always happens: "
            f"{both('knows μ, opposite')}",
        ),
        row(
            "with such a μ, c vanishes for every bettor", "ours (§5, calibration)",
            knows[1].low < knows[0].mean / 2,
            f"{after} of a bettor who knows the digit: {both('knows the digit')}; of the paper's random "
            f"tasks, which depend on it: {both(TASKS)}",
        ),
    ]  # fmt: skip


JUDGES = (
    what_a_forecast_cannot_promise,
    paying_whatever_is_asked,
    what_a_bet_promises,
    lemmas_on_swap_regret,
    theorem_on_swap_regret,
    theorem_1_for_blind_agents,
    forecasts_that_no_longer_learn,
    a_calibrated_forecaster,
)
