"""Whether honesty pays, and what would make it pay: the claims of the study of honesty.

The paper raises the question (§6, §8) and leaves it open. Gains are in dollars per would-be passenger, one
per seed: the income of an airline that makes a false report, minus that of the honest one, which reports what
its network forecasts. Both have the same flights and passengers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from makewhole.studies.claims import FREE, Claim, Verdict, all_positive, interval, listed
from makewhole.studies.flights_claims import UNINSURED

CAPITAL = "capital"
HALF = 0.5  # the false report that the claims name: half of the risk that the airline's network forecasts
WORTH = 0.01  # "pays": earns more than a hundredth of the honest income
MULTIPLES = (1.0, 2.0)  # of the gap: how much of it a bond takes
_NOTHING = 1e-9  # dollars
PRICE_SHOWN = ", price shown"
HALF_TOLD = ", price shown to half"
# What an audit says about a season's reports, and how a bond calls it.
GAPS = {"mean_gap": "the mean gap (wins_low)", "worst_gap": "the widest gap (smallest_c)"}

MAY_LIE = (
    "“the airline may have the incentive to under-report the probability of delay to attract passengers”"
)
CONFIDENCE = (
    "“the airline can use Protocol 2 to convey confidence to the passengers that the delay probability is "
    "accurate”"
)
NO_WORRY = "“she does not need to worry that the predicted delay probability might be incorrect”"
NO_LOSS = "“guaranteed to not lose money from the ‘delay insurance’ in the long run”"
FUTURE = "“Future work can explore social issues that arise, such as honesty”"


def name_way(correction: str, told: float) -> str:
    """Return the name of a way to insure: the correction, and who of the trustful is shown its price."""
    return correction + {0.0: "", 0.5: HALF_TOLD, 1.0: PRICE_SHOWN}[told]


class Response(NamedTuple):
    """A report that was searched for: the (mean) report, and what it earns more than honesty."""

    report: float
    gain: float


class Seasons:
    """The seasons of a sweep, by mix of passengers, way to insure, seed and report."""

    def __init__(self, results: list[dict[str, Any]]) -> None:
        self._run = {(r["mix"], r["way"], r["seed"]): r for r in results}
        self.mixes = list(dict.fromkeys(r["mix"] for r in results))
        self.ways = list(dict.fromkeys(r["way"] for r in results))
        self.seeds = sorted({r["seed"] for r in results})
        self.reports = [row["report"] for row in results[0]["seasons"] if row["how"] == "given"]
        self.insured = [way for way in self.ways if way != UNINSURED and "," not in way]
        self.main = self.insured[0]  # the paper's Algorithm 3, if it ran
        self.setting = f"ours, in the paper's market, {len(self.seeds)} seeds"

    def _season(self, mix: str, way: str, seed: int, report: float) -> dict[str, Any]:
        rows = self._run[mix, way, seed]["seasons"]
        found: dict[str, Any] = next(r for r in rows if r["how"] == "given" and r["report"] == report)
        return found

    def column(self, name: str, mix: str, way: str, report: float = 1.0) -> Any:
        """Return a column of the seasons with this report, one number per seed."""
        return np.array([self._season(mix, way, s, report)[name] for s in self.seeds])

    def gain(self, mix: str, way: str, report: float, column: str = "income") -> Any:
        """Return how much more than under the honest report it is, one number per seed."""
        return self.column(column, mix, way, report) - self.column(column, mix, way)

    def responses(self, mix: str, way: str, *, per_flight: bool = False) -> list[Response]:
        """Return the best response of each seed: one report for all flights, or one for each flight.

        Returns nothing if no season with such reports was flown.
        """
        best = []
        for seed, honest in zip(self.seeds, self.column("income", mix, way), strict=True):
            rows = self._run[mix, way, seed]["seasons"]
            rows = [row for row in rows if (row["how"] == "per flight") == per_flight]
            if rows:
                row = max(rows, key=lambda row: float(row["income"]))
                best.append(Response(row["report"], row["income"] - honest))
        return best

    def at_every_mix(self, measure: Callable[[str], Any]) -> dict[str, list[float]]:
        """Return a measure of each mix of passengers, one number per seed."""
        return {mix: np.asarray(measure(mix), dtype=np.float64).tolist() for mix in self.mixes}

    def half_gains(self, way: str) -> dict[str, list[float]]:
        """Return what a report of half of the risk gains, at every mix."""
        return self.at_every_mix(lambda mix: self.gain(mix, way, HALF))

    def charged(self, mix: str, way: str, report: float, gap: str) -> Any:
        """Return what a bond of one gap costs: the gap times the cost of a delay to the trustful on board."""
        return self.column(gap, mix, way, report) * self.column("trusted", mix, way, report)

    def after_bond(self, mix: str, way: str, report: float, gap: str, multiple: float) -> Any:
        """Return the gain of a report if the airline pays a multiple of the audited gap."""
        more = self.charged(mix, way, report, gap) - self.charged(mix, way, 1.0, gap)
        return self.gain(mix, way, report) - multiple * more

    def claim(self, text: str, where: str, verdict: Verdict, numbers: str) -> Claim:
        """Return a claim; its numbers begin with the setting and the number of seeds."""
        return Claim(text, where, verdict, f"{self.setting}: {numbers}", "honesty")


def _opposite(gains: dict[str, list[float]]) -> dict[str, list[float]]:
    return {mix: [-gain for gain in values] for mix, values in gains.items()}


# --- does a false report pay? -----------------------------------------------------------------------------


def half_the_risk_pays(results: list[dict[str, Any]]) -> list[Claim]:
    """Whether half of the risk earns more without insurance, and less with it, at every mix of passengers."""
    seasons = Seasons(results)
    made = []
    for way in (UNINSURED, *seasons.insured):
        gains = seasons.half_gains(way)
        often = [100 * float(seasons.column("oftener", mix, way, HALF).mean()) for mix in seasons.mixes]
        numbers = (
            f"dollars more than the honest airline, by mix (% cautious/trustful/naive): {listed(gains)}; "
            f"more on {min(often):.0f} to {max(often):.0f} % of the flights"
        )
        if way == UNINSURED:
            text = "without insurance, an airline that reports half of the risk earns more than an honest one"
            made.append(seasons.claim(text, f"§6, {MAY_LIE}", all_positive(gains), numbers))
        else:
            text = f"with insurance ({way}), an airline that reports half of the risk earns less than an "
            text += "honest one"
            made.append(
                seasons.claim(text, f"ours, about §6: {CONFIDENCE}", all_positive(_opposite(gains)), numbers)
            )
    return made


def best_response_is_honest(results: list[dict[str, Any]]) -> list[Claim]:
    """Whether the best report found by search earns at most `WORTH` more than the honest one."""
    seasons = Seasons(results)
    quotes = dict.fromkeys(seasons.insured, f"ours, about §6: {CONFIDENCE}")
    return [
        _best_response(seasons, way, where) for way, where in ({UNINSURED: f"§6, {MAY_LIE}"} | quotes).items()
    ]


def _best_response(seasons: Seasons, way: str, where: str) -> Claim:
    def spare(mix: str) -> Any:
        honest = seasons.column("income", mix, way)
        return WORTH - np.array([one.gain for one in seasons.responses(mix, way)]) / honest

    words = []
    for mix in seasons.mixes:
        best = seasons.responses(mix, way)
        words.append(f"{mix}: {np.mean([b.report for b in best]):.2f}, {interval([b.gain for b in best])}")
    numbers = f"best report found, and dollars more than honest: {'; '.join(words)}"
    each = {mix: [one.gain for one in seasons.responses(mix, way, per_flight=True)] for mix in seasons.mixes}
    if all(each.values()):
        numbers += f"; with a report chosen for each flight: {listed(each)}"
    insured = "without insurance" if way == UNINSURED else f"with insurance ({way})"
    if way == UNINSURED:
        text = f"{insured}, some report earns over {100 * WORTH:g} % more than the honest one"
        return seasons.claim(text, where, all_positive(_opposite(seasons.at_every_mix(spare))), numbers)
    text = f"{insured}, no report earns over {100 * WORTH:g} % more than the honest one"
    return seasons.claim(text, where, all_positive(seasons.at_every_mix(spare)), numbers)


def insurance_makes_lies_pay_less(results: list[dict[str, Any]]) -> list[Claim]:
    """Whether the best false report gains less with insurance than without it, at every mix."""
    seasons = Seasons(results)

    def less(mix: str) -> Any:
        plain, insured = (
            [one.gain for one in seasons.responses(mix, way)] for way in (UNINSURED, seasons.main)
        )
        return np.array(plain) - insured

    gains = seasons.at_every_mix(less)
    text = f"the best false report gains less with insurance ({seasons.main}) than without it"
    return [seasons.claim(text, "not in the paper", all_positive(gains), f"dollars less: {listed(gains)}")]


# --- who pays for it? -------------------------------------------------------------------------------------


def insured_are_safe(results: list[dict[str, Any]]) -> list[Claim]:
    """Whether neither side of the insurance loses over `FREE` per dollar insured if less risk is reported."""
    seasons = Seasons(results)
    lower = [report for report in seasons.reports if report < 1]
    sides = {
        "the insured do not overpay": (1, NO_WORRY),
        "the airline does not lose on the insurance": (-1, NO_LOSS),
    }
    made = []
    for way in seasons.insured:
        won = {
            f"{mix}, {report:g}": seasons.column("bets", mix, way, report)
            / np.maximum(seasons.column("turnover", mix, way, report), 1e-12)
            for mix in seasons.mixes
            for report in lower
        }
        for text, (sign, quote) in sides.items():
            taken = {key: sign * values for key, values in won.items()}
            spare = {key: (FREE - values).tolist() for key, values in taken.items()}
            worst = max(taken, key=lambda key: float(taken[key].mean()))
            numbers = f"at most {interval(taken[worst])} per dollar insured (mix, report: {worst}); the "
            numbers += f"threshold is {FREE:g}; a part of the season is short for “the long run”"
            whole = f"if the airline reports less risk, {text} ({way}), at every mix and report"
            made.append(seasons.claim(whole, f"ours, about §6, {quote}", all_positive(spare), numbers))
    return made


def trustful_pay(results: list[dict[str, Any]]) -> list[Claim]:
    """Whether the trustful are worse off if half of the risk is reported, at every mix, insured."""
    seasons = Seasons(results)
    lost = _opposite(seasons.at_every_mix(lambda mix: seasons.gain(mix, seasons.main, HALF, "trustful")))
    cautious = seasons.at_every_mix(lambda mix: seasons.gain(mix, seasons.main, HALF, "cautious"))
    text = f"the trustful pay for a report of half of the risk, although others are insured ({seasons.main})"
    numbers = f"dollars that they lose: {listed(lost)}; the cautious gain: " + ", ".join(
        f"{np.mean(values):.2f}" for values in cautious.values()
    )
    return [seasons.claim(text, "not in the paper", all_positive(lost), numbers)]


# --- what would make honesty pay? -------------------------------------------------------------------------


def shown_prices_make_honesty_pay(results: list[dict[str, Any]]) -> list[Claim]:
    """Whether a false report stops paying if trustful passengers are shown μ + c, the insurance's price."""
    seasons = Seasons(results)
    made = []
    for way in [way for way in seasons.ways if way.endswith((PRICE_SHOWN, HALF_TOLD))]:
        gains = seasons.half_gains(way)
        who = "half of the trustful see" if way.endswith(HALF_TOLD) else "everybody sees"
        text = f"if {who} the insurance's price ({way.partition(',')[0]}), reporting half of the risk earns "
        text += "less than honesty"
        numbers = f"dollars more than the honest airline: {listed(gains)}"
        made.append(seasons.claim(text, f"§8, {FUTURE}", all_positive(_opposite(gains)), numbers))
        made.append(_best_response(seasons, way, f"§8, {FUTURE}"))
    return made


def bonds_make_honesty_pay(results: list[dict[str, Any]]) -> list[Claim]:
    """Whether honesty is the best of the given reports if the airline pays for its audited gap."""
    seasons = Seasons(results)
    way = seasons.main
    others = [report for report in seasons.reports if report != 1]
    made = []
    for gap, words in GAPS.items():
        for multiple in MULTIPLES:
            gains = {
                f"{mix}, {report:g}": seasons.after_bond(mix, way, report, gap, multiple).tolist()
                for mix in seasons.mixes
                for report in others
            }
            best = max(gains, key=lambda key: float(np.mean(gains[key])))
            text = (
                f"with a bond of {multiple:g} × {words}, every other report earns less than honesty ({way})"
            )
            numbers = (
                f"the best of them gains {interval(gains[best])} dollars (mix, report: {best}); the honest "
                f"airline pays {_honest_bond(seasons, gap, multiple)}; a bond is enough from "
                f"{_enough(seasons, gap)}"
            )
            made.append(seasons.claim(text, f"§8, {FUTURE}", all_positive(_opposite(gains)), numbers))
    return made


def _enough(seasons: Seasons, gap: str) -> str:
    """Return in words the least multiple at which no lower report earns more than honesty, mix by mix."""
    least = {mix: _multiple(seasons, mix, gap) for mix in seasons.mixes}
    return "; ".join(
        f"{mix}: {interval(values) if np.isfinite(values).all() else 'no multiple'}"
        for mix, values in least.items()
    )


def _multiple(seasons: Seasons, mix: str, gap: str) -> list[float]:
    """Return the least multiple of each seed; infinite if a report that gains has no wider gap."""
    needed = np.zeros(len(seasons.seeds))
    honest = seasons.charged(mix, seasons.main, 1.0, gap)
    for report in [report for report in seasons.reports if report < 1]:
        gain = seasons.gain(mix, seasons.main, report)
        more = seasons.charged(mix, seasons.main, report, gap) - honest
        ratio = np.divide(gain, more, out=np.full_like(gain, math.inf), where=more > _NOTHING)
        needed = np.maximum(needed, np.where(gain > 0, ratio, 0.0))
    return [float(multiple) for multiple in needed]


def _honest_bond(seasons: Seasons, gap: str, multiple: float) -> str:
    paid = [multiple * float(seasons.charged(mix, seasons.main, 1.0, gap).mean()) for mix in seasons.mixes]
    return f"at most {max(paid):.2f} dollars"


JUDGES = (
    half_the_risk_pays,
    best_response_is_honest,
    insurance_makes_lies_pay_less,
    insured_are_safe,
    trustful_pay,
    shown_prices_make_honesty_pay,
    bonds_make_honesty_pay,
)
