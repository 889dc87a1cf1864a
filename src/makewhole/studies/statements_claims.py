"""The paper's statements, judged by the results of `statements`. Chance plays no part in these verdicts."""

from __future__ import annotations

from typing import Any

import numpy as np

from makewhole.studies.claims import Claim
from makewhole.studies.lineup import make_correction

Results = list[dict[str, Any]]
_CLOSE = 1e-9


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
    return [
        _counted(
            results, "lemma1", "a contract is acceptable exactly if some bet is at least as good", "Lemma 1"
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


def what_a_bet_promises(results: Results) -> list[Claim]:
    """Propositions 2 and 3, and Corollary 1."""
    one_sided = _most(results, "corollary1")
    return [
        _exact(
            results, "prop2", "with the bet l(1) − l(0) her loss is L_max, whatever happens", "Proposition 2"
        ),
        _exact(
            results, "prop3_printed", "with K classes and the stake as printed, too",
            "Proposition 3, as printed", ": it takes off the least cost, and not the γ that has it",
        ),
        _exact(
            results, "prop3", "with K classes and the stake l − γ*, too", "Proposition 3, mended"
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
    enough = _most(results, "lemma5") <= _CLOSE
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
            f"at most {leader:.2f} of 8·(1 + log T)",
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
            f"Σ1/t is larger by up to {sums:.3f}"
            + ("; 1 + log T is enough, and Lemma 3 holds with it" if enough else ""),
        ),
    ]  # fmt: skip


def theorem_on_swap_regret(results: Results) -> list[Claim]:
    """Theorem 2: as printed, against everyone; and Algorithm 3's games against other agents."""
    lengths = results[0]["games"]["long"]
    regret = np.mean([r["games"]["reader"] for r in results], axis=0) / lengths
    bound = [printed(make_swap(t).cells, t) / t for t in lengths]
    falls = regret[-1] < regret[0] / 2
    shares = _of_bound(results, mended)
    return [
        row(
            "Algorithm 3's regret is at most of the order K² log T + T/K²", "Theorem 2, as printed", falls,
            f"who reads the draw: a regret of {regret[0]:.3f} per round after {lengths[0]:,} rounds, of "
            f"{regret[-1]:.3f} after {lengths[-1]:,}; the bound per round goes to 0 whatever its constant "
            f"(with 8: {bound[0]:.2f}, then {bound[-1]:.3f})",
            "regret",
        ),
        Claim(
            "against agents who do not read the draw it is at most of the order K log T + 2T/K", "ours",
            "undecided" if max(shares) <= 1 else "fails",
            f"not proved; against shifts at most {max(shares):.2g} of 8·K(1 + log T) + 2T/K in our games",
            "regret",
        ),
        Claim(
            "against them it is at most of the order K log T + 4T/K²", "the proof of Theorem 2",
            "undecided" if max(_of_bound(results, proved)) <= 1 else "fails",
            "that is with the δ² of the proof of Lemma 4, which is wrong for sequences in general; against "
            f"shifts at most {max(_of_bound(results, proved)):.2g} of 8·K(1 + log T) + 4T/K² in our games",
            "regret",
        ),
    ]  # fmt: skip


def make_swap(rounds: int, name: str = "swap") -> Any:
    """Return Algorithm 3 for a game of this length."""
    return make_correction(name, rounds, (0.0, 0.0))


def _of_bound(results: Results, bound: Any) -> list[float]:
    """Return the regret in every game of Algorithm 3, divided by a bound."""
    shares = []
    for r in results:
        for label, regrets in r["games"]["regrets"].items():
            name = label.partition(",")[0]
            if name.startswith("swap"):
                for length, regret in zip(r["games"]["lengths"], regrets, strict=True):
                    shares.append(regret / bound(make_swap(length, name).cells, length))
    return shares


def mended(cells: float, rounds: float) -> float:
    """Theorem 2 with Lemma 4 corrected, and the constant of Lemma 3 for targets in [−1, 1]; not proved."""
    return float(8 * cells * (1 + np.log(rounds)) + 2 * rounds / cells)


def proved(cells: float, rounds: float) -> float:
    """The result of Theorem 2's proof, with the δ² of its Lemma 4, and the same constant."""
    return float(8 * cells * (1 + np.log(rounds)) + 4 * rounds / cells**2)


def printed(cells: float, rounds: float) -> float:
    """Theorem 2 as printed, with the same constant."""
    return float(8 * cells**2 * (1 + np.log(rounds)) + rounds / cells**2)


def forecasts_that_no_longer_learn(results: Results) -> list[Claim]:
    """Appendix B: soundness of fixed forecasts, and calibration."""
    worst = _most(results, "sound")
    return [
        _counted(
            results, "prop4",
            "sound for bets that depend on μ only: exactly if the calibration error is at most c",
            "Proposition 4", " (printed: less than c)",
        ),
        _counted(results, "prop5", "sound for bets on sets implies multicalibrated", "Proposition 5"),
        row(
            "sound implies asymptotically sound, for draws from one source", "Appendix B.2", worst < 5,
            f"true by the law of large numbers; the largest mean loss seen is {worst:.1f} standard errors",
        ),
    ]  # fmt: skip


JUDGES = (
    what_a_forecast_cannot_promise,
    what_a_bet_promises,
    lemmas_on_swap_regret,
    theorem_on_swap_regret,
    forecasts_that_no_longer_learn,
)
