"""Does an airline earn more by reporting less risk than it sees? The paper's market with false reports.

The airline's network forecasts a risk, and the airline reports a multiple of it. Trustful passengers go by
the report. Cautious ones insure at μ + c, which the correction moves until the bets balance. Naive ones
expect no delay. The study then tries what could make honesty pay: to show the insurance's price to all
passengers, and a bond on the gap that an audit of the reports shows.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from makewhole.arguments import Floats
from makewhole.auditing.audit import audit
from makewhole.corrections import Barrier, Correction, Terms
from makewhole.datasets import Events
from makewhole.frames import make_frame
from makewhole.studies import flights, honesty_figures
from makewhole.studies._market import COLUMNS
from makewhole.studies.flights import FlightSettings, Reporting
from makewhole.studies.flights_claims import UNINSURED
from makewhole.studies.honesty_claims import CAPITAL, JUDGES, name_way
from makewhole.studies.lineup import Maker, compiled, make_correction
from makewhole.studies.own import NOTHING, Own
from makewhole.studies.study import Options, Result, Study, StudyPicture, StudyPlan

REPORTS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0)  # of the risk that the airline's network forecasts
CORRECTIONS = ("swap", "deterministic swap")
CAPS = 10.0  # the capital, in caps: 0.2 % of what the tickets of a season bring
EVERY = 3  # one flight in so many, over the whole year: all of them would take three times as long
_TRIES = 3  # seasons with which the best response is searched between the given reports
_GOLDEN = (5**0.5 - 1) / 2


class Mix(NamedTuple):
    """The shares of cautious and trustful passengers; the others are naive."""

    cautious: float
    trustful: float

    def __str__(self) -> str:
        naive = 1 - self.cautious - self.trustful
        return "/".join(f"{100 * share:.3g}" for share in (self.cautious, self.trustful, naive))


# The paper splits those who are not cautious evenly. The last mix is ours.
MIXES = (Mix(0.1, 0.45), Mix(0.5, 0.25), Mix(0.9, 0.05), Mix(0.1, 0.8))


@dataclass(frozen=True)
class HonestySettings:
    """The paper's market, and which of its flights are flown: the first `rounds` of one in `every`."""

    market: FlightSettings = field(default_factory=FlightSettings)
    rounds: int | None = None
    every: int = EVERY
    reports: tuple[float, ...] = REPORTS


# --- runs -------------------------------------------------------------------------------------------------


class Insurance(NamedTuple):
    """What a season needs for one way to insure: the settings of its market, and makers of corrections."""

    settings: FlightSettings
    own: Own


def make_capital(caps: float, rounds: int, c_range: tuple[float, float], seed: int) -> Correction:
    """Return a barrier with a capital of so many caps: what `InsuredForecaster(capital=...)` charges by."""
    return Barrier(caps, spread=0.02).in_mode(Terms(1.0, c_range=c_range, sound=True))


def make_way(correction: str, settings: FlightSettings, caps: float = CAPS, own: Own = NOTHING) -> Insurance:
    """Return the settings and makers for a correction, or for a capital, whose c is never negative."""
    if correction != CAPITAL:
        return Insurance(settings, own)
    makers: dict[str, Maker] = {**own.corrections, CAPITAL: functools.partial(make_capital, caps)}
    return Insurance(replace(settings, c_range=(0.0, settings.c_range[1])), replace(own, corrections=makers))


def load(settings: HonestySettings, events: Events | None = None) -> Events:
    """Return the flights that the settings name, or those of the user's own."""
    whole = flights.load(settings.market) if events is None else events
    return whole.take(np.arange(0, len(whole), settings.every)[: settings.rounds])


class Way(NamedTuple):
    """A correction, or a capital, or no insurance; and the share of the trustful who see its price, μ + c.

    `audited` says whether the reports are audited. They do not depend on the correction, so one is enough.
    """

    correction: str
    told: float = 0.0
    audited: bool = False


def run(settings: HonestySettings, mix: Mix, way: Way, seed: int, own: Own = NOTHING) -> Result:
    """Fly a season with each report, search for the best one, and choose one for each flight."""
    correction, told, audited = way
    events = load(settings, own.data)
    market, makers = make_way(correction, settings.market, own=own)
    caps = CAPS if correction == CAPITAL else float("inf")

    def fly(*reports: float) -> Floats:
        reporting = Reporting(reports, told, mix.trustful, caps)
        return flights.simulate(events, mix.cautious, correction, seed, market, makers, reporting)

    honest = fly(1.0)

    def measure(how: str, *reports: float) -> dict[str, Any]:
        out = honest if reports == (1.0,) else fly(*reports)
        gaps = _gaps(out, events) if audited and how == "given" else (float("nan"),) * 2
        return _measure(how, out, honest, market.people, gaps)

    seasons = [measure("given", report) for report in settings.reports]
    seasons += _search(seasons, functools.partial(measure, "searched"))
    if told == 0:
        seasons.append(measure("per flight", *settings.reports))
    mu = honest[:, COLUMNS.index("mu")]
    fit = float(mu @ events.outcome / (mu @ mu))
    return {"mix": str(mix), "way": name_way(correction, told), "seed": seed, "fit": fit, "seasons": seasons}


def _measure(how: str, out: Floats, honest: Floats, people: int, gaps: tuple[float, float]) -> dict[str, Any]:
    """Return the means of a season, in dollars per would-be passenger."""
    mean = dict(zip(COLUMNS, (out.mean(axis=0) / people).tolist(), strict=True))
    income, others = (_income(season) for season in (out, honest))
    money = ("revenue", "bets", "cautious", "trustful", "naive", "trusted")
    return {
        "how": how,
        "report": float(out[:, COLUMNS.index("report")].mean()),
        "income": mean["revenue"] + mean["bets"],
        **{name: mean[name] for name in money},
        "turnover": mean["stake"],
        "oftener": float((income > others).mean()),
        "mean_gap": gaps[0],
        "worst_gap": gaps[1],
    }


def _income(season: Floats) -> Floats:
    """Return what the airline earned on each flight, with tickets and with bets."""
    revenue, bets = (season[:, COLUMNS.index(name)] for name in ("revenue", "bets"))
    return revenue + bets


def _gaps(out: Floats, events: Events) -> tuple[float, float]:
    """Return the mean and the widest gap between reports and outcomes that an audit is sure of.

    The networks learn as they go, so the audit is by betting, in the order of the flights.
    """
    table = {"mu": out[:, 0], "y": events.outcome, "flight": np.arange(len(out))}
    report = audit(make_frame(table, "polars"), method="betting", order="flight")
    return report.wins_low, report.smallest_c


def _search(
    seasons: list[dict[str, Any]], measure: Callable[[float], dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return the seasons of a golden-section search between the neighbours of the best given report."""
    given = sorted(seasons, key=lambda season: float(season["report"]))
    best = max(range(len(given)), key=lambda k: float(given[k]["income"]))
    low, high = (float(given[k]["report"]) for k in (max(best - 1, 0), min(best + 1, len(given) - 1)))
    tried: dict[float, dict[str, Any]] = {}

    def at(part: float) -> float:
        report = low + part * (high - low)
        tried[report] = measure(report)
        return report

    left, right = at(1 - _GOLDEN), at(_GOLDEN)
    for _ in range(_TRIES - 2):
        if tried[left]["income"] >= tried[right]["income"]:
            high, right = right, left
            left = at(1 - _GOLDEN)
        else:
            low, left = left, right
            right = at(_GOLDEN)
    return list(tried.values())


# --- the study --------------------------------------------------------------------------------------------


def _plan(options: Options) -> StudyPlan:
    settings = HonestySettings(flights.read_settings(replace(options, rounds=None)), options.rounds)
    events = flights.read_events(replace(options, rounds=None))
    rounds = len(load(settings, events))  # a bad file is reported here, not in a worker
    names, makers = options.chosen() or (CORRECTIONS, {})
    for name in names:
        if name in (UNINSURED, CAPITAL):
            raise ValueError(f"corrections must not be called {name!r}: the study compares them with that")
        compiled(make_correction(name, rounds, settings.market.c_range, 0, makers))
    mixes = MIXES if options.shares is None else [Mix(share, (1 - share) / 2) for share in options.shares]
    cases = [
        {"settings": settings, "mix": mix, "way": way, "seed": seed, **_own(way.correction, makers, events)}
        for seed in range(options.seeds or STUDY.seeds)
        for mix in mixes
        for way in _ways(names)
    ]
    return StudyPlan(run, cases, settings, JUDGES, _PICTURES, _table, _summary)


def _ways(corrections: tuple[str, ...]) -> list[Way]:
    """Return the ways to insure: as in the paper, and with its price shown to half or all of the trustful."""
    insured = (*corrections, CAPITAL)
    main = corrections[0]
    today = [Way(name, audited=name == main) for name in insured]
    return [Way(UNINSURED), *today, Way(main, 0.5), *(Way(name, 1.0) for name in insured)]


def _own(correction: str, makers: dict[str, Any], events: Events | None) -> dict[str, Own]:
    mine = {correction: makers[correction]} if correction in makers else {}
    return {"own": Own(corrections=mine, data=events)} if mine or events is not None else {}


_KEYS = ("mix", "way", "seed")


def _table(results: list[Result]) -> dict[str, Any]:
    rows = [{k: r[k] for k in _KEYS} | season for r in results for season in r["seasons"]]
    return {column: [row[column] for row in rows] for column in rows[0]}


def _summary(results: list[Result]) -> dict[str, Any]:
    """Return a row per run: the honest income, the best report, and what it earns more."""
    columns: dict[str, Any] = {k: [r[k] for r in results] for k in _KEYS}
    honest = [next(s["income"] for s in r["seasons"] if s["report"] == 1.0) for r in results]
    best = [
        max((s for s in r["seasons"] if s["how"] != "per flight"), key=lambda s: float(s["income"]))
        for r in results
    ]
    columns["honest_income"] = honest
    columns["best_report"] = [season["report"] for season in best]
    columns["best_gain"] = [season["income"] - h for season, h in zip(best, honest, strict=True)]
    columns["fit"] = [r["fit"] for r in results]
    return columns


_PICTURES = {
    "honesty": StudyPicture(
        "What an airline gains by a false report: with and without insurance, and with two remedies",
        honesty_figures.draw,
    ),
}
_RUN_COLUMNS = {
    "mix": "shares of cautious, trustful and naive passengers, in %",
    "way": "the correction, a capital, or no insurance; and whether trustful passengers see μ + c",
    "seed": "the seed; it draws the passengers and the networks' first weights",
}
STUDY = Study(
    name="honesty",
    title="Does honesty pay? (a question that the paper leaves open)",
    why="""\
The paper warns that an airline "may have the incentive to under-report the probability of delay", offers its
insurance "instead", and leaves honesty to future work (§6, §8). Here the airline of the case study reports a
multiple of its network's forecast, from 0 to 2; an honest airline reports the forecast itself. Trustful
passengers go by the report, cautious ones insure at μ + c, naive ones expect no delay. A mix such as 10/45/45
gives the percentages of cautious, trustful and naive passengers; the paper splits those who are not cautious
evenly. The flights are one in three of United's from New York in 2013. The seeds draw the passengers and the
networks' first weights. All gains are in dollars per would-be passenger, over the honest airline with the
same flights and passengers.

**A false report pays, insured or not.** Without insurance, half of the risk earns 2.53 dollars more at
10/45/45, 5.6 % of the airline's income, and the best report is that there is no risk at all. With insurance
(swap), half of the risk earns 2.37 more. The correction repairs the price for those who insure: with
deterministic swap neither side of the insurance loses a cent per dollar at any lower report. It does nothing
for those who go by μ. They pay for the lie, and so do the cautious, because everybody's ticket costs more. A
capital halves what the best lie earns, because sound mode raises μ to at least c. Insurance takes away most
of the gain only where nearly all passengers use it: at 90/5/5 the best report found is 73 % of the risk, and
earns 0.16 more. An airline that chooses the best report flight by flight, as if prices would not answer,
never earns more than with one report for all flights; with swap at 90/5/5 it earns 0.87 less than by honesty.

**What makes honesty pay.** First, show everybody the price μ + c, which the bets have audited, instead of μ.
With swap, half of the risk then earns 0.13 to 0.32 less than honesty, at every mix, and no report that we
found earns 1 % more. This has two conditions. All must see the price: if a rival tells half of the trustful,
half of the risk still earns 1.13 more at 10/45/45. And the price must balance the bets: with a capital it
rises only after most of the capital is lost, so half of the risk still earns 1.85 more. Second, let the
airline pay the trustful on board for the mean gap that `makewhole.audit` shows in its reports (`wins_low`),
per dollar that a delay would cost them. A bond of once the gap is too small, because a lie raises the price
of all tickets, not only theirs. From about 1.7 times the gap it is enough. An honest airline pays nothing.

**What does not.** A bond on the widest gap of a cell (`smallest_c`) is worse than none here. It charges the
honest airline for the cells in which its network is poor, and a report of 75 % of the risk has a narrower
widest gap than the truth. Nor does swap keep the insured quite safe from a lie: if no risk is reported at
90/5/5, they pay 3.4 cents per dollar too much. The airline loses up to 1.3 cents at 10/80/10, where little is
staked and one flight in three is a short season for swap.

**Can I trust the airline's number?** As a passenger, go by the price of the insurance, not by the forecast:
people bet at that price, and it moves until neither side wins. If it stays above the forecast, the forecast
is too low. As an operator, show μ + c wherever you show μ, use a correction that balances the bets, and
publish an audit of μ. Balanced bets alone do not show that μ is honest.

On Southwest's flights of 2015, the paper's airline and year, we find the same at 10/45/45. Half of the risk
earns 2.48 more without insurance, 2.32 more with it (swap), and 0.20 less than honesty if all see the price;
the bond on the mean gap is enough from 1.8 times the gap. On the widest gap it would take 2.5 times, and the
honest airline would pay 1.4 dollars.

This is one market: an airline without rivals for its seats, passengers who do not learn, and reports that are
multiples of one forecast. Other lies may pay where these do not.""",
    shown="You have just seen what an airline gains or loses by a false report of its risk of delay, with "
    "insurance and without, and what would make honesty pay.",
    next_step="Next, try other passengers (makewhole study honesty --cautious 0.2), or see what the "
    "insurance is worth if the airline is honest (makewhole study flights).",
    seeds=10,
    plan=_plan,
    columns={
        "results": _RUN_COLUMNS
        | {
            "how": "given: a report of the list; searched: of the search for the best one; per flight: the "
            "report with the highest expected income on each flight",
            "report": "the report, as a multiple of the network's forecast; per flight: the mean",
            "income": "revenue and bets; this and what follows in dollars per would-be passenger",
            "revenue": "ticket revenue",
            "bets": "what the airline won from the bets",
            "cautious": "utility of the cautious passengers, payments from bets included",
            "trustful": "utility of the trustful passengers",
            "naive": "utility of the naive passengers",
            "trusted": "what a delay would cost the trustful passengers on board",
            "turnover": "what was staked",
            "oftener": "share of the flights on which the airline earned more than with the honest report",
            "mean_gap": "the mean gap between reports and outcomes that an audit is sure of (wins_low)",
            "worst_gap": "the widest gap of a cell that an audit is sure of (smallest_c)",
        },
        "summary": _RUN_COLUMNS
        | {
            "honest_income": "income with the honest report, in dollars per would-be passenger",
            "best_report": "the best report found for all flights of the season",
            "best_gain": "how much more the airline earns with it than with the honest report",
            "fit": "the multiple of the network's forecasts that fits the outcomes best (least squares)",
        },
    },
    takes=("shares", "data", "airline", "shuffle"),
)
