"""What the paper states and proves, tried out: its propositions, lemmas and the theorem on swap regret.

Numbers are those of the printed paper. If we have checked a statement's proof, a search without
counterexamples adds little, and the row says how many cases were tried. If a statement as printed is wrong,
the row has the counterexample, and the next row what is true instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from makewhole import multiclass
from makewhole.bets import hedge, loss_bounds, must_accept, payment
from makewhole.insured.forecaster import InsuredForecaster
from makewhole.studies.adversaries import mean_loss
from makewhole.studies.drawing import GREY, grid, label_ends, styles
from makewhole.studies.lineup import make_correction
from makewhole.studies.own import NOTHING, Own
from makewhole.studies.statements_claims import JUDGES, mended, printed
from makewhole.studies.study import Options, Result, Study, StudyPicture, StudyPlan, as_columns

ROUNDS = 20_000
_WORLDS = 200
_KINDS = {
    "random": "targets at random",
    "pushing": "pushing away from λ",
    "phases": "phases of doubling length",
}


@dataclass(frozen=True)
class StatementSettings:
    """How many cases each search tries, and how long the games are."""

    rounds: int = ROUNDS


# --- decisions and bets -----------------------------------------------------------------------------------


def _cases(draw: np.random.Generator, count: int) -> Any:
    """Draw forecasts with their interval inside (0, 1), true probabilities, and losses of one action."""
    mu = draw.uniform(0.02, 0.98, count)
    c = draw.uniform(0, 1, count) * np.minimum(mu, 1 - mu)
    return mu, c, draw.uniform(0, 1, count), draw.normal(size=(count, 2))


def without_bets(draw: np.random.Generator, count: int) -> dict[str, float]:
    """Proposition 1: count the cases with the true loss in the range and the truth not, and the reverse."""
    mu, c, truth, losses = _cases(draw, count)
    low, _, high = loss_bounds(losses, mu, c)
    true = (1 - truth) * losses[:, 0] + truth * losses[:, 1]
    right = np.abs(truth - mu) <= c
    inside = (true >= low) & (true <= high)
    return {"prop1_in": float((right & ~inside).sum()), "prop1_out": float((~right & inside).sum())}


def with_bets(draw: np.random.Generator, count: int) -> dict[str, float]:
    """Propositions 2 and 3: how far the loss with the bet is from L_max, also with classes."""
    mu, c, _, losses = _cases(draw, count)
    high = loss_bounds(losses, mu, c).high
    off = max(
        float(np.abs(losses[:, y] - payment(hedge(losses), np.full(count, y), mu, c) - high).max())
        for y in (0, 1)
    )
    errors = {"prop3": 0.0, "prop3_printed": 0.0}
    for _ in range(200):
        classes = int(draw.integers(3, 6))
        probabilities, table = draw.dirichlet(np.ones(classes)), draw.normal(size=classes)
        widths = draw.uniform(0, 1, classes) * np.minimum(probabilities, 1 - probabilities)
        top = multiclass.loss_bounds(table, probabilities, widths).high
        cheapest = min(float((widths * np.abs(table - g)).sum()) for g in table)
        stakes = {
            "prop3": multiclass.hedge(table, probabilities, widths),
            "prop3_printed": table - cheapest,
        }
        for which, g in stakes.items():
            lost = [
                table[y] - float(g @ (np.eye(classes)[y] - probabilities) - np.abs(g) @ widths)
                for y in range(classes)
            ]
            errors[which] = max(errors[which], float(np.abs(np.array(lost) - top).max()))
    return {"prop2": off} | errors


def bets_and_beliefs(draw: np.random.Generator, count: int) -> dict[str, float]:
    """Lemma 1: count the cases with an acceptable contract and no bet as good, and the reverse."""
    mu, c, _, contract = _cases(draw, count)
    accepts = np.array(must_accept(contract, mu, c).accepts)
    slopes = np.linspace(-12, 12, 481)[:, None]
    offered = [payment(slopes, y, mu, c) for y in (0, 1)]
    # The stake f(1) − f(0) is not on the grid: it is tried separately, and by the proof it is enough.
    own = np.asarray(contract[:, 1] - contract[:, 0])
    mine = [payment(own, np.full(count, y), mu, c) for y in (0, 1)]
    matched = ((contract[:, 0] <= offered[0]) & (contract[:, 1] <= offered[1])).any(axis=0)
    matched |= (contract[:, 0] <= mine[0] + 1e-12) & (contract[:, 1] <= mine[1] + 1e-12)
    return {"lemma1": float((accepts != matched).sum())}


def no_forecast_is_enough(draw: np.random.Generator, count: int) -> dict[str, float]:
    """Desiderata 1 and 2: two worlds that no data can tell apart, and forecasts for both.

    In one world every event has the probability ½. In the other each is certain, one way or the other, and
    nothing says which. The outcomes have the same distribution. Returns, for each world, the share of
    forecasts with the true loss inside the range: for an interval around the frequency so far, for ½ ± ¼,
    and for all of [0, 1].
    """
    y = (draw.random(count) < 0.5).astype(np.float64)
    seen = np.arange(1, count + 1)
    frequency = np.concatenate([[0.5], (np.cumsum(y) / seen)[:-1]])
    narrow = np.minimum(1.0 / np.sqrt(seen), 0.5)
    inside = {}
    for name, mu, c in (
        ("frequency", np.clip(frequency, narrow, 1 - narrow), narrow),
        ("quarter", np.full(count, 0.5), np.full(count, 0.25)),
        ("everything", np.full(count, 0.5), np.full(count, 0.5)),
    ):
        for world, truth in (("half", np.full(count, 0.5)), ("certain", y)):
            inside[f"{name}_{world}"] = float((np.abs(truth - mu) <= c + 1e-12).mean())
    return inside


# --- the theorem on swap regret ---------------------------------------------------------------------------


def shifts(draw: np.random.Generator, count: int) -> dict[str, float]:
    """Lemma 2: how far the square of the mean loss is from the regret against shifts, times Σs²/T².

    As printed, ψ maps to [−1, 1]; a shift that leaves it is not allowed, and the lemma fails. With shifts of
    any size it is an identity.
    """
    worst = 0.0
    for _ in range(200):
        length = int(draw.integers(1, 40))
        weight, target = draw.uniform(0, 1, length), draw.uniform(-1.5, 1.5, length)
        lam = draw.uniform(-1, 1, length)
        s, r = -np.sqrt(weight), np.sqrt(weight) * target
        left = (s * (r + s * lam)).sum() ** 2
        shift = (weight * (target - lam)).sum() / weight.sum()
        regret = ((r + s * lam) ** 2).sum() - ((r + s * (lam + shift)) ** 2).sum()
        worst = max(worst, float(abs(left - regret * weight.sum())))
    # λ = −1 always, and a target of −1 − ĉ with ĉ = ½: ψ(−1) is one number, at least −1.
    square = (-1.5 + 1.0) ** 2
    regret = square - min((-1.5 - psi) ** 2 for psi in np.linspace(-1, 1, 201))
    return {"lemma2": worst, "lemma2_printed": float(square - regret)}


def leader(draw: np.random.Generator, count: int) -> dict[str, float]:
    """Lemmas 3 and 5: follow-the-leader's regret over 8·(1 + log T), and the sum over log(T+1)."""
    worst = 0.0
    for kind in ("random", "alternating", "runs"):
        t = np.arange(count)
        target = {
            "random": draw.uniform(-1, 1, count),
            "alternating": np.where(t % 2 == 0, 1.0, -1.0),
            "runs": np.where((np.log2(t + 1)).astype(int) % 2 == 0, 1.0, -1.0),
        }[kind]
        weight = draw.uniform(0, 1, count) if kind == "random" else np.ones(count)
        sums, weights = np.cumsum(weight * target), np.cumsum(weight)
        lam = np.concatenate([[0.0], (sums / weights)[:-1]])
        best = sums[-1] / weights[-1]
        regret = (weight * ((target - lam) ** 2 - (target - best) ** 2)).sum()
        worst = max(worst, float(regret / (8 * (1 + np.log(count)))))
    terms = 1.0 / np.arange(1, count + 1)
    return {
        "lemma3": worst,
        "lemma5_printed": float((np.cumsum(terms) - np.log(np.arange(2, count + 2))).max()),
        "lemma5": float((np.cumsum(terms) - 1 - np.log(np.arange(1, count + 1))).max()),
    }


def cells(draw: np.random.Generator, count: int) -> dict[str, float]:
    """Lemma 4: how much better a 1-Lipschitz ψ is than the best constant of a cell of width δ, over δ and δ².

    λ lies in one cell, and targets are ±1, or ±2 (`lemma4_wide`); ψ has a slope of ±1 and any height. Some λ
    go with their targets, the worst of them at the ends of the cell. Such λ need not be Algorithm 3's.
    """
    delta, most = 0.2, {1.0: 0.0, 2.0: 0.0}
    for size in most:
        for together in (0.0, 0.5, 1.0):
            side = draw.choice([-1.0, 1.0], min(count, 2_000))
            with_it = draw.random(len(side)) < together
            lam = delta / 2 * np.where(with_it, side, draw.uniform(-1, 1, len(side)))
            constant = float(np.var(size * side))
            for slope in (-1.0, 1.0):
                most[size] = max(most[size], constant - float(np.var(size * side - slope * lam)))
    return {
        "lemma4": most[1.0] / delta,
        "lemma4_wide": most[2.0] / delta,
        "lemma4_square": most[1.0] / delta**2,
    }


def games(settings: StatementSettings, seed: int) -> dict[str, Any]:
    """Theorem 2 in games of Algorithm 3: the regret against shifts, at several lengths.

    The target is drawn fresh every round, pushes away from λ, or goes up and down in phases. By Lemma 2 the
    regret is T times the square of the mean loss; `reader` has it for the agent who reads the draw from c.
    """
    draw = np.random.default_rng(seed)
    by_game: dict[str, Any] = {}
    long = [10**k for k in range(3, 8)]
    reader = [t * mean_loss("draw reading", "swap", t, seed) ** 2 for t in long]
    lengths = [t for t in (10**k for k in range(2, 8)) if t < settings.rounds] + [settings.rounds]
    for name in ("swap", "swap 1/3", "deterministic swap"):
        for kind in _KINDS:
            regrets = []
            for length in lengths:
                correction = make_correction(name, length, (0.0, 0.0), seed)
                total = 0.0
                for t in range(1, length + 1):
                    proposal = correction.propose()
                    up = {"random": draw.random() < 0.5, "phases": t.bit_length() % 2 == 1}.get(
                        kind, proposal.lam <= 0
                    )
                    target = 1.0 if up else -1.0
                    total += target - proposal.lam
                    correction.observe(proposal, target, 1.0)
                regrets.append(total**2 / length)
            by_game[f"{name}, {kind}"] = regrets
    return {"lengths": lengths, "regrets": by_game, "long": long, "reader": reader}


# --- the offline half -------------------------------------------------------------------------------------


def offline(draw: np.random.Generator, count: int) -> dict[str, float]:
    """Propositions 4 and 5, and that sound implies asymptotically sound: on small worlds of known truth.

    A world has twenty inputs, five published values and three sets of inputs. `prop4` and `prop5` count
    disagreements; `sound` is the largest mean loss of the forecaster, in standard errors, where it is sound.
    """
    wrong4 = wrong5 = 0
    worst = -np.inf
    for _ in range(_WORLDS):
        mass, truth = draw.dirichlet(np.ones(20)), draw.uniform(0, 1, 20)
        value = draw.integers(0, 5, 20)
        mu = np.linspace(0.1, 0.9, 5)[value]
        c = float(draw.uniform(0, 0.6))
        sets = draw.random((3, 20)) < 0.5

        def gap(where: Any, mass: Any = mass, truth: Any = truth, mu: Any = mu) -> float:
            total = mass[where].sum()
            return 0.0 if total == 0 else float(abs((mass * (truth - mu))[where].sum()) / total)

        here = [value == k for k in range(5)]
        calibrated = max(gap(w) for w in here) <= c
        # b is any function of μ: the best one stakes ±1 on each value, with the sign of its gap
        best = sum(mass[w].sum() * max(0.0, gap(w) - c) for w in here)
        wrong4 += calibrated != (best <= 1e-12)
        in_sets = max(gap(w & s) for w in here for s in sets) <= c
        sound = all(mass[w & s].sum() * max(0.0, gap(w & s) - c) <= 1e-12 for w in here for s in sets)
        wrong5 += sound and not in_sets
        if calibrated:
            x = draw.choice(20, count // 10 + 10, p=mass)
            y = draw.random(len(x)) < truth[x]
            sign = np.array([np.sign((mass * (truth - mu))[w].sum()) for w in here])
            paid = sign[value[x]] * (y - mu[x]) - np.abs(sign[value[x]]) * c
            worst = max(worst, float(paid.mean() / max(paid.std() / np.sqrt(len(x)), 1e-12)))
    return {"prop4": float(wrong4), "prop5": float(wrong5), "sound": float(worst)}


def one_sided(rounds: int, seed: int) -> dict[str, float]:
    """Corollary 1: the mean loss of a one-sided forecaster, c = 0, against a clairvoyant."""
    draw = np.random.default_rng(seed)
    correction = make_correction("deterministic swap", rounds, (0.0, 0.0), seed)
    f = InsuredForecaster(None, correction, max_stake=1.0, c_range=(0.0, 0.0), one_sided=True)
    for _ in range(rounds):
        y = int(draw.random() < 0.5)
        f.settle(f.forecast(mu=0.5), y, stake=1.0 if y else None)
    return {"corollary1": abs(f.statement().mean_loss)}


def run(settings: StatementSettings, seed: int, own: Own = NOTHING) -> Result:
    """Run every search under one seed; `tried` says how many cases were counted."""
    draw, count = np.random.default_rng(seed), settings.rounds
    results: dict[str, float] = {}
    searches = (without_bets, with_bets, bets_and_beliefs, no_forecast_is_enough, shifts, leader, cells)
    for search in (*searches, offline):
        results |= search(draw, count)
    results |= one_sided(min(count, 4_000), seed)
    tried = dict.fromkeys(("lemma1", "prop1_in", "prop1_out"), count) | {"prop4": _WORLDS, "prop5": _WORLDS}
    return {"seed": seed, "found": results, "tried": tried, "games": games(settings, seed)}


# --- the figure -------------------------------------------------------------------------------------------


def draw_regret(results: list[Result]) -> Any:
    """Draw the regret of Algorithm 3 per round against the length of the game, with its bounds."""
    lengths = np.array(results[0]["games"]["lengths"], dtype=np.float64)
    title = "Regret against shifts, per round: in games, and Theorem 2 as printed and mended (grey)"
    figure, axes = grid(1, 4, 14.5, 4.2, title, sharex=True, sharey=True)
    names = list(dict.fromkeys(k.partition(",")[0] for k in results[0]["games"]["regrets"]))
    style = styles(names)
    for ax, kind in zip(axes[0], _KINDS, strict=False):
        for name in names:
            mean = np.mean([r["games"]["regrets"][f"{name}, {kind}"] for r in results], axis=0) / lengths
            ax.plot(lengths, np.maximum(mean, 1e-9), marker="o", markersize=3, **style[name])
        ax.set_title(_KINDS[kind], fontsize=10)
        _draw_bounds(ax, lengths)
    ax, long = axes[0, 3], np.array(results[0]["games"]["long"], dtype=np.float64)
    reader = np.mean([r["games"]["reader"] for r in results], axis=0) / long
    ax.plot(long, reader, marker="o", markersize=3, **style["swap"])
    ax.set_title("reading the draw", fontsize=10)
    ends = {"swap": (reader[-1], style["swap"]["color"])}
    ends |= {name: (last, GREY) for name, last in _draw_bounds(ax, long).items()}
    first: dict[str, Any] = {"xycoords": "axes fraction", "fontsize": 8.5}
    for k, name in enumerate(names):  # named once, in the first panel
        label = f"{name} (dashed)" if style[name]["linestyle"] != "-" else name
        axes[0, 0].annotate(label, (0.04, 0.04 + 0.055 * k), color=style[name]["color"], **first)
    for ax in axes[0]:
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_xlabel("rounds T")
    label_ends(axes[0, 3], ends)
    axes[0, 0].set_ylabel("regret / T")
    return figure


def _draw_bounds(ax: Any, lengths: Any) -> dict[str, float]:
    """Draw the bounds with the printed number of cells; returns the last value of each."""
    k, ends = (lengths / np.log(lengths)) ** 0.25, {}
    for name, of, look in (("as printed", printed, "--"), ("mended, not proved", mended, "-")):
        bound = np.array([of(a, b) for a, b in zip(k, lengths, strict=True)]) / lengths
        ax.plot(lengths, bound, look, color=GREY, linewidth=1)
        ends[name] = float(bound[-1])
    return ends


# --- the study --------------------------------------------------------------------------------------------


def _table(results: list[Result]) -> dict[str, Any]:
    rows = [(r["seed"], key, value) for r in results for key, value in r["found"].items()]
    return as_columns(tuple(_COLUMNS), rows)


def _plan(options: Options) -> StudyPlan:
    if options.corrections is not None:
        raise ValueError("corrections are the paper's own in the study of statements; leave them out")
    settings = StatementSettings(options.rounds or ROUNDS)
    cases = [{"settings": settings, "seed": seed} for seed in range(options.seeds or STUDY.seeds)]
    pictures = {
        "regret": StudyPicture(
            "Regret in games of Algorithm 3, and a bound (about the paper's Theorem 2)", draw_regret
        )
    }
    return StudyPlan(run, cases, settings, JUDGES, pictures, _table, _table)


_COLUMNS = {
    "seed": "the seed; it draws the cases",
    "search": "the statement that was tried, and what was counted",
    "found": "cases against it, the largest error, or a share of a bound",
}
STUDY = Study(
    name="statements",
    title="What the paper states",
    why="""\
The paper's propositions and lemmas, tried out one by one, numbered as they are printed; proofs and symbols
are in [theory.md](theory.md), "The paper's theorems as printed". Those about decisions and bets hold, but for
a slip in the stake for K classes. The theorem on swap regret is about λ, the target that would have balanced
a bet, and the K cells into which the range of λ is divided; ψ is any other way to choose λ. In its proof the
shifts of Lemma 2 must be allowed to leave [−1, 1], Lemma 4 needs, for sequences in general, targets in an
interval of length 2, and not the δ² of its proof, and the sum of Lemma 5 lacks a 1, which does no harm. One
who reads the draw off c undoes the theorem as it is printed. Against others we have no proof of any of its
forms, and no game that speaks against one: such rows are undecided.""",
    shown="You have just seen the paper's propositions and lemmas tried out, and where they need mending.",
    next_step="Next, read the proofs in docs/theory.md, or see who can beat which correction: "
    "makewhole study adversaries.",
    seeds=3,
    plan=_plan,
    columns={"results": _COLUMNS, "summary": _COLUMNS},
)
