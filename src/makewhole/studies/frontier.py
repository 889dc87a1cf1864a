"""What certainty costs: the premium agents pay over fair odds, against the capital that is certified.

Every log is replayed in sound mode. A smaller rate of a reserve takes more capital, and moves c less.
Corrections without a certificate are shown beside the reserves, with the most that they were ever down.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from makewhole import arguments, frames
from makewhole.arguments import Floats
from makewhole.backtesting.backtest import backtest
from makewhole.corrections import Correction
from makewhole.datasets import load_538, load_flights
from makewhole.forecasters import TwoLayerLearner
from makewhole.frames import make_frame
from makewhole.plots import COLOURS
from makewhole.studies import decisions
from makewhole.studies.claims import Claim, Verdict, interval, positive
from makewhole.studies.drawing import BESIDE, grid, line
from makewhole.studies.lineup import Maker, capital_of, make_correction, make_reserve
from makewhole.studies.own import NOTHING, Own
from makewhole.studies.study import Options, Picture, Plan, Result, Study, as_columns

RATES = (0.3, 0.1, 0.03, 0.01, 0.003, 0.001)
OTHERS = ("swap", "deterministic swap", "standard 0.1")
_IID_ROUNDS = 400_000


@dataclass(frozen=True)
class FrontierSettings:
    """Which logs, how many rounds at most, and the corrections that the reserves are compared with.

    Of the others only those without a certificate are drawn and judged; all are in the results.
    """

    logs: tuple[str, ...]
    rounds: int = 50_000
    others: tuple[str, ...] = OTHERS


def available_logs() -> tuple[str, ...]:
    """The logs that need no download, and the others if MAKEWHOLE_DATA names the folder with their files."""
    return (
        "flights",
        "insider",
        "clairvoyant",
        *(("mnist", "games") if os.environ.get("MAKEWHOLE_DATA") else ()),
    )


# --- logs: μ̂, ĉ, outcome, stake, and the cap ---------------------------------------------------------------


def _flights(rounds: int, seed: int) -> dict[str, Floats]:
    """Passengers who insure against delay for any amount up to the cap; all stakes are on one side."""
    events = load_flights()
    events = events.take(np.arange(min(rounds, len(events))))
    stake = np.random.default_rng(seed).uniform(0, 1, len(events))
    mu, c_hat = TwoLayerLearner(events.inputs, 8, seed=seed).run(events, events.outcome, stake)
    return {"mu": mu, "c_hat": c_hat, "y": events.outcome, "stake": stake}


def _insider(rounds: int, seed: int) -> dict[str, Floats]:
    """The forecast is ½, the true probability is 0.7, and the agent knows it."""
    y = (np.random.default_rng(seed).random(rounds) < 0.7).astype(np.float64)
    return {"mu": np.full(rounds, 0.5), "c_hat": np.zeros(rounds), "y": y, "stake": np.ones(rounds)}


def _clairvoyant(rounds: int, seed: int) -> dict[str, Floats]:
    """One agent in ten knows the outcome; the others bet at random."""
    draw = np.random.default_rng(seed)
    y = (draw.random(rounds) < 0.5).astype(np.float64)
    honest = draw.choice([-1.0, 1.0], rounds)
    stake = np.where(draw.random(rounds) < 0.1, 2 * y - 1, honest)
    return {"mu": np.full(rounds, 0.5), "c_hat": np.zeros(rounds), "y": y, "stake": stake}


def _mnist(rounds: int, seed: int) -> dict[str, Floats]:
    """One decision task of the benchmark, with different stakes for different digits."""
    settings = decisions.DecisionSettings(rounds=rounds)
    events = decisions.load(settings, seed)
    made = decisions.predict_and_stake(events, settings, seed)
    stake = made.stake[:, 8] / made.caps[8]
    return {"mu": made.mu, "c_hat": made.c_hat[:, 8], "y": events.outcome, "stake": stake}


def _games(rounds: int, seed: int) -> dict[str, Floats]:
    """Published win probabilities of baseball games, and fans of both teams."""
    games = load_538("mlb")
    y = games["y"].to_numpy().astype(np.float64)
    stake = np.random.default_rng(seed).uniform(-1, 1, len(y))
    return {"mu": games["mu"].to_numpy(), "c_hat": np.zeros(len(y)), "y": y, "stake": stake}


LOGS: dict[str, Callable[[int, int], dict[str, Floats]]] = {
    "flights": _flights,
    "insider": _insider,
    "clairvoyant": _clairvoyant,
    "mnist": _mnist,
    "games": _games,
}


# --- runs -------------------------------------------------------------------------------------------------


def contenders(
    rounds: int, c_range: tuple[float, float], seed: int, others: tuple[str, ...], own: Mapping[str, Maker]
) -> dict[str, Correction]:
    """Reserves at several rates, alone and over deterministic swap; and the others."""
    made: dict[str, Correction] = {f"reserve {rate}": make_reserve(rate) for rate in RATES}
    for rate in RATES:
        over = make_correction("deterministic swap", rounds, c_range, seed)
        made[f"reserve {rate} over deterministic swap"] = make_reserve(rate, over=over)
    return made | {name: make_correction(name, rounds, c_range, seed, own) for name in others}


def run(settings: FrontierSettings, log: str, seed: int, own: Own = NOTHING) -> Result:
    """One log under every contender: what it cost agents and the forecaster, in units of the cap."""
    columns = own.data[log] if own.data is not None else LOGS[log](settings.rounds, seed)
    frame = make_frame(columns, "polars")
    c_range = (float(columns["c_hat"].min()), float(columns["c_hat"].max()))
    made = contenders(len(columns["y"]), c_range, seed, settings.others, own.corrections)
    measured = {}
    for name, correction in made.items():
        options: dict[str, Any] = {"c_hat": "c_hat", "mode": "sound", "max_stake": 1.0, "trace": True}
        options["c_range"] = c_range
        result = backtest(frame, correction=correction, **options)
        trace = result.trace or {}
        gross = np.abs(columns["stake"])
        measured[name] = {
            "capital": capital_of(correction),
            "premium": float((gross * trace["c"]).sum() / gross.sum()),
            "mean_c": result.mean_c,
            "mean_size_of_lam": float(np.abs(trace["lam"]).mean()),
            "total_loss": result.total_loss,
            "worst": float(max(0.0, np.cumsum(trace["payment"]).max())),
        }
    others = [name for name in settings.others if measured[name]["capital"] is None]
    return {
        "log": log,
        "seed": seed,
        "contenders": measured,
        "others": others,
        "variance": _variances(seed),
    }


class Variance(NamedTuple):
    """Var λ as it was measured, and as the formula has it."""

    measured: float
    predicted: float


def _variances(seed: int) -> dict[str, Variance]:
    """Var λ of a reserve in exact mode on independent targets, measured and by the formula."""
    draw = np.random.default_rng(seed)
    y, w = (draw.random(_IID_ROUNDS) < 0.5).astype(np.float64), draw.uniform(0, 1, _IID_ROUNDS)
    frame = make_frame({"mu": np.full(_IID_ROUNDS, 0.5), "y": y, "stake": w}, "polars")
    variances = {}
    for rate in (0.3, 0.1, 0.03):
        alone: Any = {"correction": make_reserve(rate), "max_stake": 1.0, "c_range": (0.0, 0.0)}
        trace = backtest(frame, **alone, trace=True).trace or {}
        measured = float(trace["lam"][_IID_ROUNDS // 10 :].var())
        first, second = 0.5, 1 / 3  # E[w] and E[w²] of a uniform weight; targets ±½ have variance ¼
        predicted = rate * second * 0.25 / (2 * first - rate * second)
        variances[f"{rate}"] = Variance(measured, predicted)
    return variances


# --- claims -----------------------------------------------------------------------------------------------


def claims(results: list[Result]) -> list[Claim]:
    """That certificates hold, that the formula does, and where a certificate costs agents nothing."""
    shares = [v["worst"] / v["capital"] for r in results for v in r["contenders"].values() if v["capital"]]
    kept: Verdict = "holds" if max(shares) <= 1 else "fails"
    text = "no reserve was ever down by more than its certificate"
    made = [Claim(text, "our Theorem B", kept, f"at most {max(shares):.3f} of it", "frontier")]
    rates = results[0]["variance"]
    ratios = {
        k: interval([r["variance"][k].measured / r["variance"][k].predicted for r in results]) for k in rates
    }
    near: Verdict = "holds" if all(abs(ratio.mean - 1) < 0.05 for ratio in ratios.values()) else "fails"
    numbers = "measured over predicted, " + ", ".join(f"rate {k}: {ratio}" for k, ratio in ratios.items())
    made.append(Claim("the noise in λ is what the formula says", "our Theorem A", near, numbers, "frontier"))
    if not results[0]["others"]:
        return made
    logs = dict.fromkeys(r["log"] for r in results)
    return [*made, *(_worth_it([r for r in results if r["log"] == log], log) for log in logs)]


def _worth_it(results: list[Result], log: str) -> Claim:
    """Whether agents pay no more with a certificate of 50 caps than under the cheapest without one."""

    def premiums(name: str) -> list[float]:
        return [r["contenders"][name]["premium"] for r in results]

    def down(name: str) -> float:
        return float(np.mean([r["contenders"][name]["worst"] for r in results]))

    other = min(results[0]["others"], key=lambda name: float(np.mean(premiums(name))))
    certified = "reserve 0.01 over deterministic swap"
    verdict = positive([a - b for a, b in zip(premiums(other), premiums(certified), strict=True)]).verdict
    numbers = "; ".join(
        f"{name}: premium {interval(premiums(name))}, down by {down(name):.1f} caps at worst"
        for name in (certified, "reserve 0.01", other)
    )
    text = f"on {log} a certificate of 50 caps costs agents less than the cheapest correction without one"
    return Claim(text, "ours", verdict, numbers, "frontier")


# --- the figure -------------------------------------------------------------------------------------------


def draw(results: list[Result]) -> Any:
    """Premium against certified capital, a panel per log; dotted lines have no certificate."""
    logs = list(dict.fromkeys(r["log"] for r in results))
    figure, axes = grid(1, len(logs), 2.2 + 2.6 * len(logs), 3.8)

    def mean(log: str, name: str, what: str) -> float:
        return float(np.mean([r["contenders"][name][what] for r in results if r["log"] == log]))

    for ax, log in zip(axes[0], logs, strict=True):
        for k, ending in enumerate(("", " over deterministic swap")):
            names = [f"reserve {rate}{ending}" for rate in RATES]
            capital, premium = ([mean(log, n, what) for n in names] for what in ("capital", "premium"))
            ax.plot(capital, premium, marker="o", markersize=4, color=COLOURS[k], label=f"reserve{ending}")
        for k, name in enumerate(results[0]["others"], start=2):
            style = line(k) | {"linewidth": 1.3, "label": f"{name} (not certified)"}
            ax.axhline(mean(log, name, "premium"), **style)
        ax.set_xscale("log")
        ax.set_title(log, fontsize=10)
        ax.set_xlabel("certified capital (caps)")
    axes[0, 0].set_ylabel("agents' premium over fair\n(per unit staked)")
    axes[0, -1].legend(**BESIDE)
    return figure


# --- the study --------------------------------------------------------------------------------------------

_FIELDS = ("capital", "premium", "mean_c", "mean_size_of_lam", "total_loss", "worst")


def _table(results: list[Result]) -> dict[str, Any]:
    rows = [
        (r["log"], r["seed"], contender, *(measured[k] for k in _FIELDS))
        for r in results
        for contender, measured in r["contenders"].items()
    ]
    return as_columns(("log", "seed", "correction", *_FIELDS), rows)


def own_logs(data: Any, rounds: int) -> dict[str, dict[str, Floats]]:
    """The user's logs by name: columns as arrays, stakes in units of the largest."""
    if not isinstance(data, Mapping) or not all(isinstance(name, str) for name in data):
        raise TypeError(f"data must be a dict from a log's name to a frame; got {type(data).__name__}")
    logs = {}
    for name, frame in data.items():
        present = frames.open_native(frame).collect_schema().names()
        wanted = {k: k for k in ("mu", "y", "stake", *(["c_hat"] if "c_hat" in present else []))}
        table = frames.read_columns(frame, wanted)
        columns = {
            k: arguments.numbers(f"data[{name!r}][{k!r}]", table[k].to_numpy())[:rounds] for k in wanted
        }
        arguments.probabilities(f"data[{name!r}]['mu']", columns["mu"])
        arguments.binary_outcomes(f"data[{name!r}]['y']", columns["y"])
        widths = columns.get("c_hat", np.zeros(0))
        rule = "must lie in [0, 0.5]: the certificates of this study are for such c_hat"
        arguments.reject(f"data[{name!r}]['c_hat']", widths, (widths < 0) | (widths > 0.5), rule)
        largest = float(np.abs(columns["stake"]).max(initial=0.0))
        if not largest:
            raise ValueError(f"data[{name!r}]['stake'] must have a stake other than 0")
        columns["stake"] = columns["stake"] / largest
        logs[name] = {"c_hat": np.zeros(len(columns["y"]))} | columns
    if not logs:
        raise ValueError("data must hold at least one log; got none")
    return logs


def _plan(options: Options) -> Plan:
    rounds = options.rounds or 50_000
    chosen = options.chosen()
    others, makers = (OTHERS, {}) if chosen is None else chosen
    for name in others:
        make_correction(name, rounds, (0.0, 0.5), 0, makers)  # a bad maker is named here, not in a worker
    logs = None if options.data is None else own_logs(options.data, rounds)
    settings = FrontierSettings(available_logs() if logs is None else tuple(logs), rounds, others)
    own = {"own": Own(makers, data=logs)} if makers or logs is not None else {}
    cases = [
        {"settings": settings, "log": log, "seed": seed, **own}
        for seed in range(options.seeds or STUDY.seeds)
        for log in settings.logs
    ]
    caption = "What certainty costs: agents' premium over fair against certified capital"
    return Plan(run, cases, settings, claims, {"frontier": Picture(caption, draw)}, _table, _table)


_COLUMNS = {
    "log": "the log that was replayed",
    "seed": "the seed; it draws the stakes and what is made up",
    "correction": "the correction",
    "capital": "the certified bound on the total loss, in caps; missing where nothing is certified",
    "premium": "what agents paid over fair odds per unit staked, Σ|b|c/Σ|b|",
    "mean_c": "mean of the published c",
    "mean_size_of_lam": "mean of |λ|",
    "total_loss": "the forecaster's total loss, in caps",
    "worst": "the most that the forecaster was ever down, in caps",
}
STUDY = Study(
    name="frontier",
    title="What certainty costs (beyond the paper)",
    why="""\
All logs are replayed in sound mode. Capital is in caps: a certificate of 50 with a cap of 100 dollars is
5,000 dollars set aside. The premium is what agents pay over fair odds, Σ|b|c/Σ|b|. A small reserve charges
agents for its own noise. From some 50 caps on it charges little more than a correction without any
certificate, and at times less. Over deterministic swap the same certificate is cheaper, most of all where
nobody knows better than the forecast (games). There a reserve alone, at any rate, is the wrong choice.""",
    shown="You have just seen what a bound on the forecaster's total loss costs the agents, at several sizes "
    "of the capital set aside.",
    next_step="Next, replay a log of your own: makewhole backtest --help; or, for this study, "
    'makewhole.studies.run("frontier", data=...) in docs/studies.md.',
    seeds=3,
    plan=_plan,
    columns={"results": _COLUMNS, "summary": _COLUMNS},
    takes=("data",),
)
