"""A market that stays open: who is served, what they pay and who takes what, if some are better informed.

Honest customers leave if the price is above what they would pay. Attackers know the outcome. Every
correction runs alone, with a line for every customer, with a thaw, and with both, in sound mode.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from makewhole.corrections import Barrier, Correction
from makewhole.corrections.barrier import Shape
from makewhole.insured.forecaster import InsuredForecaster
from makewhole.insured.lines import Lines
from makewhole.insured.thaw import Thaw
from makewhole.studies import crowding, logs
from makewhole.studies.claims import Claim, Verdict
from makewhole.studies.crowding import ENOUGH
from makewhole.studies.drawing import GREY, grid, styles
from makewhole.studies.lineup import Maker, make_correction
from makewhole.studies.own import NOTHING, Own
from makewhole.studies.study import Options, Result, Study, StudyPicture, StudyPlan, as_columns
from makewhole.studies.trading import WOULD_PAY, Scene, trade

CAPITAL = 150.0  # in caps; if there is a thaw, half of it is the thaw's
LINE = 60.0
ROUNDS = 8_000  # so that 5,000 rounds after an attack can be seen

# Prices by the capital left: close to 0 until little is left; the least possible; in proportion to the loss.
FAMILY: dict[str, Shape] = {"barrier": "exponential", "guard": "guard", "linear barrier": "linear"}
OTHERS = ("none", "swap", "deterministic swap", "standard 0.1", "reserve 0.01")
WAYS = ("", "lines", "thaw", "lines, thaw")


SCENES = {
    "honest customers only": Scene(),
    "a clairvoyant, 200 rounds": Scene(first=200),
    "a clairvoyant, one round in ten": Scene(later=0.1),
    "an insider, one round in ten": Scene(later=0.1, right=0.8),
    "100 invented names": Scene(later=0.1, names=100),
    "50 rounds of her, then a thin book": Scene(first=50, honest=0.05),
}


@dataclass(frozen=True)
class MarketSettings:
    """Which logs, how many rounds at most, and the corrections that the barriers are compared with."""

    logs: tuple[str, ...]
    rounds: int = ROUNDS
    others: tuple[str, ...] = OTHERS


# --- runs -------------------------------------------------------------------------------------------------


def make_book(
    name: str, way: str, rounds: int, c_range: tuple[float, float], seed: int, own: Mapping[str, Maker]
) -> InsuredForecaster:
    """Return a forecaster with this correction, run in this way."""
    thaw = Thaw(budget=CAPITAL / 2) if "thaw" in way else None
    correction: Correction
    if name in FAMILY:
        correction = Barrier(CAPITAL if thaw is None else CAPITAL / 2, FAMILY[name], spread=0.02)
    else:
        correction = make_correction(name, rounds, c_range, seed, own)
    # Lines alone: everybody may hold the whole cap, no line thaws, and selling never stops.
    lines = Lines(each=LINE, share=1.0, thaw=0.0) if "lines" in way else None
    given: Any = {"mode": "sound", "max_stake": 1.0, "c_range": c_range, "lines": lines, "thaw": thaw}
    return InsuredForecaster(None, correction, stop=False, **given)


def run(settings: MarketSettings, log: str, seed: int, own: Own = NOTHING) -> Result:
    """Trade one log in every scene with every correction, run in every way; money is in caps.

    Instead of a log it may be `crowding`: attacks on the book that a capital makes by default.
    """
    if log == crowding.NAME:
        return {"log": log, "seed": seed, "crowd": crowding.play_all(seed, settings.rounds)}
    columns = logs.read(log, settings.rounds, seed, own.data)
    rounds = len(columns["y"])
    c_range = (float(columns["c_hat"].min()), float(columns["c_hat"].max()))
    seen = {}
    for scene, customers in SCENES.items():
        for name in (*settings.others, *FAMILY):
            for way in WAYS:
                f = make_book(name, way, rounds, c_range, seed, own.corrections)
                seen[scene, name, way] = trade(f, columns, customers, seed)
    return {"log": log, "seed": seed, "seen": seen}


# --- claims -----------------------------------------------------------------------------------------------


def bounds_hold(results: list[Result]) -> list[Claim]:
    """Whether every certificate and every line held."""
    runs = [(key, seen) for r in _traded(results) for key, seen in r["seen"].items()]
    shares = [seen["worst"] / seen["certified"] for _, seen in runs if seen["certified"]]
    made = []
    if shares:
        kept: Verdict = "holds" if max(shares) <= 1 else "fails"
        numbers = f"at most {max(shares):.3f} of it, in {len(shares)} runs"
        made.append(Claim("no certificate was broken", "our Theorems B, D, F", kept, numbers, "open_market"))
    each = [seen["most_taken"] for (_, _, way), seen in runs if "lines" in way]
    stopped: Verdict = "holds" if max(each) <= LINE + 1e-9 else "fails"
    numbers = f"at most {max(each):.1f} of a line of {LINE:g}, in {len(each)} runs"
    text = "nobody took more than her line, whether she knew better or was lucky"
    made.append(Claim(text, "our Theorem E", stopped, numbers, "open_market_taken"))
    return made


def stays_open(results: list[Result]) -> list[Claim]:
    """Whether the market stays open with lines and a thaw, and not without."""
    traded = _traded(results)
    names = list(dict.fromkeys(name for _, name, _ in traded[0]["seen"]))
    return [_stays_open(traded, name, way) for name in names for way in ("", "lines, thaw")]


def is_hard_to_block(results: list[Result]) -> list[Claim]:
    """Whether honest customers are served by the book that a capital makes, after every attack."""
    crowds = _crowds(results)
    return crowding.judge(crowds) if crowds else []


def _traded(results: list[Result]) -> list[Result]:
    return [r for r in results if "seen" in r]


def _crowds(results: list[Result]) -> list[Any]:
    return [r["crowd"] for r in results if "crowd" in r]


def _stays_open(results: list[Result], name: str, way: str) -> Claim:
    scene = "a clairvoyant, 200 rounds"
    seen = {(r["log"], r["seed"]): r["seen"][scene, name, way]["served"] for r in results}
    shares = {key: share for key, share in seen.items() if not np.isnan(share)}
    with_ = f"{name} with {way}" if way else f"{name} alone"
    text = f"{with_}: after a clairvoyant's 200 rounds nine in ten honest customers are served, on every log"
    if not shares:
        return Claim(text, "ours", "undecided", "no honest customer came", "open_market")
    verdict: Verdict = "holds" if min(shares.values()) >= ENOUGH else "fails"
    worst = min(shares, key=lambda key: shares[key])
    numbers = f"least {shares[worst]:.3f} ({worst[0]}), mean {np.mean(list(shares.values())):.3f}"
    return Claim(text, "ours", verdict, numbers, "open_market")


# --- figures ----------------------------------------------------------------------------------------------


def draw_crowds(results: list[Result]) -> Any:
    """Draw who is served after an attack on the default book."""
    return crowding.draw(_crowds(results))


def draw_served(results: list[Result]) -> Any:
    """Draw the share of honest customers served after a clairvoyant, alone and with both remedies."""
    results = _traded(results)
    scene, ways = "a clairvoyant, 200 rounds", ("", "lines, thaw")
    opened = {way: sum(_share(results, scene, n, way) >= ENOUGH for n in _names(results)) for way in ways}
    title = f"After a clairvoyant, {opened['']} of {len(_names(results))} corrections stay open alone, "
    title += f"{opened['lines, thaw']} with lines and a thaw"
    return _dumbbells(results, "served", (scene,), ways, title, "share of honest customers served")


def _share(results: list[Result], scene: str, name: str, way: str) -> float:
    """Return the share of honest customers served, on the log and seed where it is smallest."""
    seen = [r["seen"][scene, name, way]["served"] for r in results]
    return min((share for share in seen if not np.isnan(share)), default=1.0)


def draw_taken(results: list[Result]) -> Any:
    """Draw what attackers took, with and without lines: one clairvoyant, and one with a hundred names."""
    results = _traded(results)
    scenes = ("a clairvoyant, one round in ten", "100 invented names")
    most = max(r["seen"][scenes[0], n, "lines"]["taken"] for r in results for n in _names(results))
    title = f"With lines one clairvoyant takes at most {most:.0f} caps; a hundred invented names undo that"
    return _dumbbells(
        results, "taken", scenes, ("", "lines"), title, "taken by attackers (caps)", symlog=True
    )


def draw_premium(results: list[Result]) -> Any:
    """Draw what honest customers who were served paid above fair odds, without and with a clairvoyant."""
    results = _traded(results)
    scenes = ("honest customers only", "a clairvoyant, one round in ten")
    paid = _mean([100 * r["seen"][scenes[1], "barrier", ""]["premium"] for r in results])
    title = f"Under the barrier honest customers pay {paid:.1f} per 100 staked, also where a clairvoyant bets"
    return _dumbbells(
        results, "premium", scenes, ("", "lines, thaw"), title, "premium per 100 staked", times=100
    )


def draw_worst(results: list[Result]) -> Any:
    """Draw the most that each certified book was ever down, in any scene, and its certificate."""
    results = _traded(results)
    used: dict[tuple[str, str], float] = {}
    bound: dict[tuple[str, str], float] = {}
    for r in results:
        for (_, name, way), seen in r["seen"].items():
            if seen["certified"]:
                used[name, way] = max(used.get((name, way), 0.0), seen["worst"])
                bound[name, way] = seen["certified"]
    share = max((used[row] / bound[row] for row in used), default=0.0)
    kept = "No certificate was broken" if share <= 1 else "A certificate was broken"
    title = f"{kept}: at most {share:.0%} of it was ever lost"
    figure, axes = grid(1, 1, 8.4, 1.6 + 0.26 * len(used), title)
    ax, rows = axes[0, 0], list(used)[::-1]
    for k, row in enumerate(rows):
        ax.plot([0, used[row]], [k, k], color=_colour(row[0]), linewidth=5, solid_capstyle="butt")
        ax.plot(bound[row], k, "|", color="black", markersize=11)
    ax.set_yticks(range(len(rows)), [f"{name} + {way}" if way else name for name, way in rows], fontsize=8)
    ax.set_xlabel("most that the book was ever down, in caps, on any log in any scene; |: the certificate")
    ax.set_xlim(left=0)
    return figure


def _names(results: list[Result]) -> list[str]:
    return list(dict.fromkeys(name for _, name, _ in results[0]["seen"]))


def _colour(name: str) -> Any:
    return styles([name])[name]["color"]


def _mean(values: list[float]) -> float:
    """Return the mean of the values that are not nan; nan if there are none, as when nobody came."""
    there = [value for value in values if not np.isnan(value)]
    return float(np.mean(there)) if there else float("nan")


def _dumbbells(
    results: list[Result],
    what: str,
    scenes: tuple[str, ...],
    ways: tuple[str, str],
    title: str,
    label: str,
    *,
    symlog: bool = False,
    times: float = 1.0,
) -> Any:
    """Draw two dots per correction, run in two ways, a panel per scene; means over logs and seeds."""
    names = _names(results)[::-1]
    height = 1.8 + 0.34 * len(names)
    figure, axes = grid(1, len(scenes), 4.2 + 4.0 * len(scenes), height, title, sharex=True, sharey=True)
    for ax, scene in zip(axes[0], scenes, strict=True):
        for k, name in enumerate(names):
            one, two = (times * _mean([r["seen"][scene, name, way][what] for r in results]) for way in ways)
            ax.plot([one, two], [k, k], color=_colour(name), linewidth=1, alpha=0.5)
            ax.plot(one, k, "o", color=_colour(name), markerfacecolor="white", markersize=7)
            ax.plot(two, k, "o", color=_colour(name), markersize=5)
        ax.set_yticks(range(len(names)), names, fontsize=9)
        ax.set_title(scene, fontsize=10)
        ax.set_xlabel(label)
        if symlog:
            ax.set_xscale("symlog", linthresh=10)
        ax.set_ylim(-0.6, len(names) - 0.4)
    note = f"open: alone; filled: with {ways[1].replace(', ', ' and a ')}; mean over logs"
    axes[0, 0].annotate(note, (0.0, 1.0), (0, 18), xycoords="axes fraction", textcoords="offset points",
                        fontsize=8, color=GREY)  # fmt: skip
    return figure


# --- the study --------------------------------------------------------------------------------------------

_FIELDS = ("served", "premium", "taken", "most_taken", "worst", "certified", "conceded", "mean_size_of_c")


def _table(results: list[Result]) -> dict[str, Any]:
    rows = [
        (r["log"], r["seed"], scene, name, way or "alone", *(seen[k] for k in _FIELDS))
        for r in _traded(results)
        for (scene, name, way), seen in r["seen"].items()
    ]
    for r in results if _crowds(results) else ():
        for case, seen in r.get("crowd", {}).items():
            book = f"{case.caps} caps, {case.classes} classes{'' if case.named else ', no names'}"
            values = [seen.get(k, float("nan")) for k in _FIELDS]
            rows.append((r["log"], r["seed"], case.attack, "the default", book, *values))
    return as_columns(("log", "seed", "scene", "correction", "way", *_FIELDS), rows)


def _plan(options: Options) -> StudyPlan:
    rounds = options.rounds or ROUNDS
    chosen = options.chosen()
    others, makers = (OTHERS, {}) if chosen is None else chosen
    if taken := [name for name in others if name in FAMILY]:
        raise ValueError(f"corrections must not be called {taken[0]!r}, which is in this study already")
    for name in others:
        make_correction(name, rounds, (0.0, 0.5), 0, makers)  # a bad maker is reported here, not in a worker
    mine = None if options.data is None else logs.own_logs(options.data, rounds)
    settings = MarketSettings(logs.available() if mine is None else tuple(mine), rounds, tuple(others))
    own = {"own": Own(makers, data=mine)} if makers or mine is not None else {}
    cases = [
        {"settings": settings, "log": log, "seed": seed, **own}
        for seed in range(options.seeds or STUDY.seeds)
        for log in settings.logs
    ]
    pictures = {}
    if mine is None and chosen is None:
        seeds = range(options.seeds or crowding.SEEDS)
        cases += [{"settings": settings, "log": crowding.NAME, "seed": seed} for seed in seeds]
        shown = "Who is served after an attack, by the book that a capital makes"
        pictures["crowding"] = StudyPicture(shown, draw_crowds)
    pictures |= {
        "open_market": StudyPicture(
            "A market that stays open: the share of honest customers served", draw_served
        ),
        "open_market_taken": StudyPicture("What those who know better take", draw_taken),
        "open_market_premium": StudyPicture("What honest customers pay", draw_premium),
        "open_market_worst": StudyPicture("The capital that is used, and what is certified", draw_worst),
    }
    setting = f"ours; honest customers leave if the price is above ĉ + {WOULD_PAY:g}"
    judges = (is_hard_to_block, bounds_hold, stays_open)
    return StudyPlan(run, cases, settings, judges, pictures, _table, _table, setting)


_COLUMNS = {
    "log": "the log that was replayed",
    "seed": "the seed; it draws who comes, and what is made up",
    "scene": "who comes",
    "correction": "the correction",
    "way": "alone, with a line for every customer, with a thaw, or with both; for crowding, which book",
    "served": f"the share of honest customers that staked: the price was at most ĉ + {WOULD_PAY:g}",
    "premium": "what they paid above fair odds, per unit staked",
    "taken": "what all attackers took together, in caps",
    "most_taken": "the most that anybody under one name had ever taken, in caps",
    "worst": "the most that the forecaster was ever down, in caps",
    "certified": "the bound on the total loss, in caps; missing where nothing is certified",
    "conceded": "what the thaw conceded, in caps",
    "mean_size_of_c": "mean of the published |c|",
}
STUDY = Study(
    name="market",
    title="A market that stays open (beyond the paper)",
    why=f"""\
The first figure is of the book that `InsuredForecaster(capital=..., max_stake=...)` makes: a tenth of the cap
and a twenty-fifth of the capital for each name, lines that thaw, a price at which selling stops. Attackers
move first, in each of {crowding.ROUNDS:,} rounds; after ten names or more, honest customers are counted from
round {crowding.SETTLED:,} on. What stays possible is in it, too: ten names that neither win nor lose fill the
cap at no cost, and a person with thirty names is thirty customers. Names are the operator's to check.

The other figures are of its parts, one by one, against other corrections: everybody may hold the whole cap,
and selling never stops. Honest customers leave if the price is above {WOULD_PAY:g} (and the model's own ĉ).
Then somebody comes who knows better. A correction that charges everybody for what she takes loses the
honest customers, and because nothing is learned without bets, it never gets them back. Three things mend
it. A barrier spends capital before it charges customers: the exponential one as little as it can at first,
the guard only what it must, the linear one in proportion to what is lost. With a line of {LINE:g} caps
everyone pays for what she herself takes. A thaw lowers the price again while nobody bets, within a budget
that the certificate counts. It is paid for: of the same capital half is the barrier's and half the thaw's,
so against somebody who keeps coming the barrier alone serves more. Lines do nothing against invented names.
With a thaw of {CAPITAL / 2:g} caps the swap corrections and the linear barrier serve again, gradient
descent and reserve only in part. Running without a correction serves everybody, but nothing bounds what it
loses. A premium is above fair odds, the model's own ĉ included, and missing where nobody was served. The
cap is 1, the barriers' capital {CAPITAL:g}; the seeds draw who comes. Without MAKEWHOLE_DATA, the folder of
MNIST and the games, only coins and flights are replayed.""",
    shown="You have just seen how many honest customers are served, and what is taken by those who know "
    "better, with and without lines and a thaw.",
    next_step="Next, try it on a log of your own: mw.backtest(log, mw.InsuredForecaster(capital=..., "
    "max_stake=...), by=...).",
    seeds=3,
    plan=_plan,
    columns={"results": _COLUMNS, "summary": _COLUMNS},
    takes=("data",),
)
