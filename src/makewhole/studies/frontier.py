"""What certainty costs: who is served, and what they pay, under a bound on what the forecaster can lose.

The total premium above fair odds is an identity: what the bets would have won minus what the forecaster lost.
So a cheap book is one that lost more, which says nothing about the correction. Corrections are compared by
what they do for honest customers, who leave if the price is too high: how many are served, and what they pay.
Every log is traded in sound mode, with honest customers only and with a customer who knows every tenth
outcome.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from makewhole.backtesting.backtest import backtest
from makewhole.corrections import Barrier, Correction, Reserve
from makewhole.frames import make_frame
from makewhole.insured.forecaster import InsuredForecaster
from makewhole.studies import logs, nearness
from makewhole.studies.claims import Claim, Verdict, all_positive, interval, listed, shares
from makewhole.studies.drawing import GREY, grid, label_ends, styles
from makewhole.studies.lineup import Maker, make_correction, make_reserve
from makewhole.studies.own import NOTHING, Own
from makewhole.studies.study import Options, Result, Study, StudyPicture, StudyPlan, as_columns
from makewhole.studies.trading import WOULD_PAY, Scene, trade

CAPITALS = (5.0, 15.0, 50.0, 150.0, 500.0)
CERTIFIED = ("guard", "barrier", "reserve", "reserve over deterministic swap")
OTHERS = ("none", "swap", "deterministic swap", "standard 0.1")
SCENES = {"honest customers only": Scene(), "a clairvoyant, one round in ten": Scene(later=0.1)}
ROUNDS = 4_000
_JUDGED_AT = 50.0  # caps: half of what the README advises
_SOME = 0.01  # if a smaller share was served, what they paid says nothing
_MANY = 0.9  # if both serve at least this share, what customers pay is compared
_IID_ROUNDS = 400_000


@dataclass(frozen=True)
class FrontierSettings:
    """Which logs, how many rounds at most, and the corrections without a certificate beside the others.

    `long_rounds` is the most rounds of a log where reserves are compared with swap, in compiled backtests.
    """

    logs: tuple[str, ...]
    rounds: int = ROUNDS
    long_rounds: int = nearness.ROUNDS
    others: tuple[str, ...] = OTHERS


# --- runs -------------------------------------------------------------------------------------------------


def make_certified(name: str, capital: float, rounds: int, c_range: tuple[float, float]) -> Correction:
    """Return a correction that certifies this capital in sound mode, in caps.

    "guard" is no correction under the capital's guard: the smallest c at which one forecast cannot lose more
    than the capital left. "barrier" is the default of `InsuredForecaster(capital=...)`.
    """
    if name == "guard":
        return Barrier(capital, shape="guard", spread=0.0)
    if name == "barrier":
        return Barrier(capital, spread=0.02)
    over: Any = make_correction("deterministic swap", rounds, c_range) if "over" in name else None
    return Reserve(1 / (2 * capital), over=over)


def run(settings: FrontierSettings, log: str, seed: int, own: Own = NOTHING) -> Result:
    """Trade one log under every contender and in both scenes; money is in caps."""
    columns = logs.read(log, settings.rounds, seed, own.data)
    rounds, c_range = len(columns["y"]), (float(columns["c_hat"].min()), float(columns["c_hat"].max()))
    seen = {}
    for scene, customers in SCENES.items():
        for name, capital, correction in _contenders(settings, rounds, c_range, seed, own.corrections):
            terms: Any = {"max_stake": 1.0, "c_range": c_range, "thaw": None, "lines": None}
            f = InsuredForecaster(None, correction, mode="sound", **terms)
            seen[scene, name, capital] = trade(f, columns, customers, seed)
    near = nearness.measure(logs.read(log, settings.long_rounds, seed, own.data), seed)
    return {"log": log, "seed": seed, "seen": seen, "nearness": near, "variance": _variances(seed)}


def _contenders(
    settings: FrontierSettings,
    rounds: int,
    c_range: tuple[float, float],
    seed: int,
    own: Mapping[str, Maker],
) -> list[tuple[str, float | None, Correction]]:
    """Return every correction with every capital that it certifies, and the others without one."""
    certified = [
        (name, capital, make_certified(name, capital, rounds, c_range))
        for name in CERTIFIED
        for capital in CAPITALS
    ]
    return [
        *certified,
        *((name, None, make_correction(name, rounds, c_range, seed, own)) for name in settings.others),
    ]


class Variance(NamedTuple):
    """Var λ as measured, and by the formula."""

    measured: float
    predicted: float


def _variances(seed: int) -> dict[str, Variance]:
    """Return Var λ of a reserve in exact mode on independent targets, measured and by the formula."""
    draw = np.random.default_rng(seed)
    y, w = (draw.random(_IID_ROUNDS) < 0.5).astype(np.float64), draw.uniform(0, 1, _IID_ROUNDS)
    frame = make_frame({"mu": np.full(_IID_ROUNDS, 0.5), "y": y, "stake": w}, "polars")
    variances = {}
    for rate in (0.3, 0.1, 0.03):
        f = InsuredForecaster(None, make_reserve(rate), max_stake=1.0, c_range=(0.0, 0.0))
        trace = backtest(frame, f, trace=True).trace or {}
        measured = float(trace["lam"][_IID_ROUNDS // 10 :].var())
        first, second = 0.5, 1 / 3  # E[w] and E[w²] of a uniform weight; targets ±½ have variance ¼
        predicted = rate * second * 0.25 / (2 * first - rate * second)
        variances[f"{rate}"] = Variance(measured, predicted)
    return variances


# --- claims -----------------------------------------------------------------------------------------------


def certificates_hold(results: list[Result]) -> list[Claim]:
    """Whether every certificate held, and the guard charges within a cap of the least possible."""
    used = [
        seen["worst"] / seen["certified"]
        for r in results
        for seen in r["seen"].values()
        if seen["certified"] is not None
    ]
    kept: Verdict = "holds" if max(used) <= 1 else "fails"
    text = "no book was ever down by more than its certificate"
    numbers = f"at most {max(used):.3f} of it, in {len(used)} runs"
    over = [
        seen["charged"] - max(0.0, seen["most_won"] - capital)
        for r in results
        for (_, name, capital), seen in r["seen"].items()
        if name == "guard"
    ]
    near: Verdict = "holds" if max(over) <= 1 + 1e-9 else "fails"
    optimal = "the guard charges at most one cap more than any policy with its certificate must, above ĉ"
    return [
        Claim(text, "our Theorems B and D", kept, numbers, "frontier"),
        Claim(optimal, "what any policy must charge", near, f"at most {max(over):.3f} caps more", "frontier"),
    ]


def noise_is_as_predicted(results: list[Result]) -> list[Claim]:
    """Whether the variance of a reserve's λ is what the formula says."""
    rates = results[0]["variance"]
    ratios = {k: [r["variance"][k].measured / r["variance"][k].predicted for r in results] for k in rates}
    near: Verdict = (
        "holds" if all(abs(interval(ratio).mean - 1) < 0.05 for ratio in ratios.values()) else "fails"
    )
    numbers = f"measured over predicted (within 5 %), by rate: {listed(ratios)}"
    return [Claim("the noise in a reserve's λ is what the formula says", "our Theorem A", near, numbers)]


def barrier_serves_more(results: list[Result]) -> list[Claim]:
    """Whether with the same certificate the barrier serves more honest customers than a reserve, log by log.

    If both serve many, also whether they pay less. 50 caps was chosen before the runs were seen: small enough
    to show that a certificate is too expensive.
    """
    made = []
    for log in dict.fromkeys(r["log"] for r in results):
        runs = [r for r in results if r["log"] == log]
        for scene in SCENES:
            served = {n: [r["seen"][scene, n, _JUDGED_AT]["served"] for r in runs] for n in CERTIFIED}
            paid = {n: [r["seen"][scene, n, _JUDGED_AT]["premium"] for r in runs] for n in CERTIFIED}
            if np.isnan(list(served.values())).any():
                continue
            more = {"reserve": [a - b for a, b in zip(served["barrier"], served["reserve"], strict=True)]}
            text = f"on {log}, {scene}: with {_JUDGED_AT:g} caps the barrier serves more than a reserve"
            costs = [
                f"{n}: {np.nanmean(p):.4f}" if np.mean(served[n]) >= _SOME else f"{n}: hardly anybody"
                for n, p in paid.items()
            ]
            numbers = f"served: {shares(served)}; paid per unit staked: {'; '.join(costs)}"
            made.append(Claim(text, "ours", all_positive(more), numbers, "frontier"))
            if min(*served["barrier"], *served["reserve"]) >= _MANY:
                less = {"reserve": [a - b for a, b in zip(paid["reserve"], paid["barrier"], strict=True)]}
                text = f"on {log}, {scene}: who is served pays less under the barrier than under a reserve"
                numbers = f"paid per unit staked: barrier {interval(paid['barrier'])}; "
                numbers += f"how much more under a reserve: {interval(less['reserve'])}"
                made.append(Claim(text, "ours", all_positive(less), numbers, "frontier"))
    return made


JUDGES = (certificates_hold, noise_is_as_predicted, barrier_serves_more, nearness.reserve_is_nearer)


# --- the figure -------------------------------------------------------------------------------------------


def draw(results: list[Result]) -> Any:
    """Draw the share of honest customers served beside a clairvoyant, by certified capital."""
    drawn, scene = list(dict.fromkeys(r["log"] for r in results)), "a clairvoyant, one round in ten"
    shown = ("barrier", "guard", "reserve")

    def served(name: str, capital: float, log: str | None = None) -> float:
        books = [r["seen"][scene, name, capital] for r in results if log in (None, r["log"])]
        return float(np.mean([seen["served"] for seen in books]))

    at = {name: served(name, _JUDGED_AT) for name in shown}
    title = (
        f"With {_JUDGED_AT:g} caps certified, the barrier serves {at['barrier']:.0%} beside a clairvoyant, "
    )
    title += f"a reserve {at['reserve']:.0%}"
    figure, axes = grid(1, len(drawn), 2.4 + 2.6 * len(drawn), 3.8, title, sharex=True, sharey=True)
    style = styles(shown)
    for ax, log in zip(axes[0], drawn, strict=True):
        values = {name: [served(name, capital, log) for capital in CAPITALS] for name in shown}
        for name, line in values.items():
            ax.plot(CAPITALS, line, marker="o", markersize=3.5, **style[name])
        ax.axvline(_JUDGED_AT, color=GREY, linewidth=0.8, linestyle=":")
        ax.set_xscale("log")
        ax.set_title(log, fontsize=10)
        ax.set_xlabel("certified capital (caps)")
    axes[0, 0].set_ylim(-0.03, 1.05)
    axes[0, 0].set_ylabel("share of honest customers served")
    label_ends(axes[0, -1], {name: (line[-1], style[name]["color"]) for name, line in values.items()})
    return figure


# --- the study --------------------------------------------------------------------------------------------

_FIELDS = ("served", "premium", "charged", "most_won", "taken", "total_loss", "worst", "mean_size_of_c")


def _table(results: list[Result]) -> dict[str, Any]:
    rows = [
        (r["log"], r["seed"], scene, name, seen["certified"], *(seen[k] for k in _FIELDS))
        for r in results
        for (scene, name, _), seen in r["seen"].items()
    ]
    return as_columns(("log", "seed", "scene", "correction", "capital", *_FIELDS), rows)


def _plan(options: Options) -> StudyPlan:
    rounds = options.rounds or ROUNDS
    chosen = options.chosen()
    others, makers = (OTHERS, {}) if chosen is None else chosen
    for name in others:
        if name in CERTIFIED:
            raise ValueError(f"corrections must not be called {name!r}, which is in this study already")
        make_correction(name, rounds, (0.0, 0.5), 0, makers)  # a bad maker is reported here, not in a worker
    longest = options.rounds or nearness.ROUNDS
    mine = None if options.data is None else logs.own_logs(options.data, longest)
    names = logs.available() if mine is None else tuple(mine)
    settings = FrontierSettings(names, rounds, longest, tuple(others))
    own = {"own": Own(makers, data=mine)} if makers or mine is not None else {}
    cases = [
        {"settings": settings, "log": log, "seed": seed, **own}
        for seed in range(options.seeds or STUDY.seeds)
        for log in settings.logs
    ]
    caption = "What certainty costs: who is served beside a clairvoyant, by certified capital"
    near = "How many times nearer to balance a reserve is than swap, at the same mean |c|"
    pictures = {"frontier": StudyPicture(caption, draw), "nearness": StudyPicture(near, nearness.draw)}
    setting = f"ours; honest customers leave if the price is above ĉ + {WOULD_PAY:g}"
    return StudyPlan(run, cases, settings, JUDGES, pictures, _table, nearness.table, setting)


_COLUMNS = {
    "log": "the log that was traded",
    "seed": "the seed; it draws who comes, and what is made up",
    "scene": "who comes",
    "correction": "the correction",
    "capital": "the certified bound on the total loss, in caps; missing where nothing is certified",
    "served": f"the share of honest customers that staked: the price was at most ĉ + {WOULD_PAY:g}",
    "premium": "what they paid above fair odds, per unit staked",
    "charged": "what all bets together cost above the model's own price, in caps",
    "most_won": "the most that all bets would have won at that price at any moment, in caps",
    "taken": "what the clairvoyant took, in caps",
    "total_loss": "the forecaster's total loss, in caps",
    "worst": "the most that the forecaster was ever down, in caps",
    "mean_size_of_c": "mean of the published |c|",
}
STUDY = Study(
    name="frontier",
    title="What certainty costs (beyond the paper)",
    why=f"""\
Capital is in caps: with a cap of 100 dollars, a certificate of 50 is 5,000 dollars set aside. The premium
over fair odds is what the bets would have won minus what the forecaster lost, so a cheap book has simply lost
more. We judge by what honest customers get. They leave if the price is more than {WOULD_PAY:g} above the
model's own ĉ. The seeds draw who comes.

No correction under the capital's *guard* raises c only when less than a cap is left. It charges within a cap
of the least that any policy with its certificate can charge without going below ĉ. It serves everyone while
there is capital, and then no customer. The *barrier* asks a spread of 0.02, and more as the capital shrinks.
It serves about as many, or more. A *reserve* with the same certificate, 50 caps, serves everyone on the
flights and most on MNIST while all customers are honest, because the model's own ĉ pays for its noise; on the
flights they pay less than under the barrier. Elsewhere its noise moves c above what customers would pay, and
it serves few. A reserve over deterministic swap serves almost no customer: one unlucky bet in a cell is
enough. If a customer knows one outcome in ten, the barrier needs some 50 caps on the flights and 150 on the
other logs to serve about nine in ten for these 4,000 rounds, and more for longer. Names and lines stop her
(the study of the market).

How near to balance a book comes is another question. We ask it in exact mode and at the same mean |c|,
because a correction that moves c further is nearer for that alone. In short books (1,000 rounds) a reserve is
3 to 8 times nearer to zero than swap, with honest customers and with one who knows one outcome in ten. In
long books with her it is 3 to 6 times nearer. There she sets the mean of |c|, and other rates with nearly the
same mean |c| give from half to 13 times. In long honest books it depends on the log: hardly nearer on the
flights, 8 times on the games.""",
    shown="You have just seen what a bound on the forecaster's total loss costs honest customers, at several "
    "sizes of the capital set aside.",
    next_step="Next, replay a log of your own: makewhole backtest --help; or, for this study, "
    'makewhole.studies.run("frontier", data=...) in docs/studies.md.',
    seeds=10,
    plan=_plan,
    columns={"results": _COLUMNS, "summary": nearness.COLUMNS},
    takes=("data",),
)
