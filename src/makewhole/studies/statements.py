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
from makewhole.studies.calibrated import play_all
from makewhole.studies.drawing import GREY, grid, label_ends, styles
from makewhole.studies.lineup import bound_of, make_correction
from makewhole.studies.offline_worlds import WORLDS, offline
from makewhole.studies.own import NOTHING, Own
from makewhole.studies.statements_claims import JUDGES, blind, printed
from makewhole.studies.study import Options, Result, Study, StudyPicture, StudyPlan, as_columns

ROUNDS = 20_000
_KINDS = {
    "random": "targets at random",
    "pushing": "pushing away from the mean λ",
    "phases": "phases of doubling length",
}


@dataclass(frozen=True)
class StatementSettings:
    """How many cases each search tries, and how long the games are."""

    rounds: int = ROUNDS


# --- decisions and bets -----------------------------------------------------------------------------------


def _cases(draw: np.random.Generator, count: int) -> Any:
    """Draw forecasts with their interval inside [0, 1], true probabilities, and losses of one action.

    Every tenth interval reaches 0 or 1, as far as floats allow.
    """
    mu = draw.uniform(0.02, 0.98, count)
    c = draw.uniform(0, 1, count) * np.minimum(mu, 1 - mu)
    c[::10] = np.minimum(mu, 1 - mu)[::10]
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
    """Propositions 2 and 3: how far the loss with the bet is from L_max, also with classes.

    `desideratum` counts the cases with the true expected loss, payment included, outside [L_min, L_max].
    """
    mu, c, truth, losses = _cases(draw, count)
    low, _, high = loss_bounds(losses, mu, c)
    with_payment = [losses[:, y] - payment(hedge(losses), np.full(count, y), mu, c) for y in (0, 1)]
    expected = (1 - truth) * with_payment[0] + truth * with_payment[1]
    outside = (expected < low - 1e-12) | (expected > high + 1e-12)
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
    return {"prop2": off, "desideratum": float(outside.sum())} | errors


def naive_payment(losses: Any, outcome: Any, mu: Any) -> Any:
    """Return the payment of §3 that "any side payment" allows: the loss minus the one that was forecast.

    The paper prints it with the other sign. It is the bet l(1) − l(0) at c = 0.
    """
    expected = loss_bounds(losses, mu, 0.0).expected
    return np.where(np.asarray(outcome) == 1, losses[..., 1], losses[..., 0]) - expected


def paying_whatever_is_asked(draw: np.random.Generator, count: int) -> dict[str, float]:
    """§3: the naive payment keeps Desideratum 1′, and whoever offers it is exploited for ever.

    `naive` and `naive_printed` are the largest distances from [L_min, L_max] of the true expected loss with
    the payment. `claims` is what an agent wins a round who knows the outcome, and claims to lose 1 by it;
    `claims_late` is what she wins a round from deterministic swap.
    """
    mu, c, truth, losses = _cases(draw, count)
    low, _, high = loss_bounds(losses, mu, c)
    paid = [naive_payment(losses, np.full(count, y), mu) for y in (0, 1)]
    received = (1 - truth) * paid[0] + truth * paid[1]
    true = (1 - truth) * losses[:, 0] + truth * losses[:, 1]
    away = [np.maximum(0.0, np.maximum(low - t, t - high)) for t in (true - received, true + received)]
    y = (draw.random(count) < 0.5).astype(np.int64)
    claimed = np.stack([1.0 - y, y.astype(np.float64)], axis=-1)  # she says that what will happen costs her 1
    rounds = min(count, 4_000)
    f = InsuredForecaster(
        None, make_correction("deterministic swap", rounds), max_stake=1.0, c_range=(0.0, 0.0)
    )
    for outcome, table in zip(y[:rounds].tolist(), claimed, strict=False):
        f.settle(f.forecast(mu=0.5), outcome, stake=hedge(table))
    return {
        "naive": float(away[0].max()),
        "naive_printed": float(away[1].max()),
        "claims": float(naive_payment(claimed, y, 0.5).mean()),
        "claims_late": f.statement().mean_loss,
    }


def budgets(draw: np.random.Generator, count: int) -> dict[str, float]:
    """§4, footnote: mean losses in both modes, to one who knows the outcome and one who is always wrong."""
    rounds, means = min(count, 4_000), {}
    outcomes = (draw.random(rounds) < 0.5).astype(np.int64).tolist()
    for mode in ("exact", "sound"):
        for who, right in (("knows", 1.0), ("wrong", -1.0)):
            correction = make_correction("deterministic swap", rounds)
            f = InsuredForecaster(None, correction, max_stake=1.0, c_range=(0.0, 0.0), mode=mode, thaw=None)
            for y in outcomes:
                f.settle(f.forecast(mu=0.5), y, stake=right if y else -right)
            means[f"{mode}_{who}"] = f.statement().mean_loss
    bound = bound_of(make_correction("deterministic swap", rounds), rounds)
    return means | {"budget_bound": bound.mean_loss if bound else 0.0}


def bets_and_beliefs(draw: np.random.Generator, count: int) -> dict[str, float]:
    """Lemma 1: count the cases with an acceptable contract and no bet as good, and the reverse.

    A contract is acceptable if its expectation is at most 0 at both ends of the interval: it is linear in
    between. `lemma1_reach` is the largest f(1) that a bet of size up to a million offers where μ + c = 1: the
    printed proof needs every number. `lemma1_line` is by how much its line for b ≥ 0 falls short of f(0).
    """
    mu, c, _, contract = _cases(draw, count)
    slope = contract[:, 1] - contract[:, 0]
    by_belief = np.max([contract[:, 0] + (mu + side * c) * slope for side in (-1, 1)], axis=0) <= 0
    offered = [payment(np.linspace(-12, 12, 481)[:, None], y, mu, c) for y in (0, 1)]
    # A grid misses the stake f(1) − f(0): it is tried separately.
    own = [payment(slope, np.full(count, y), mu, c) for y in (0, 1)]
    matched = ((contract[:, 0] <= offered[0]) & (contract[:, 1] <= offered[1])).any(axis=0)
    matched |= (contract[:, 0] <= own[0] + 1e-12) & (contract[:, 1] <= own[1] + 1e-12)
    accepts = np.array(must_accept(contract, mu, c).accepts)
    stakes = np.concatenate([-np.geomspace(1e6, 1, 200), np.geomspace(1, 1e6, 200)])
    # From the line follows f(0) ≤ −b(1−μ−c)(μ−c)/(1−μ+c); the lemma needs f(0) ≤ −b(μ+c). For b = 1:
    line = -(1 - mu - c) * (mu - c) / (1 - mu + c)
    return {
        "lemma1": float(((by_belief != matched) | (accepts != matched)).sum()),
        "lemma1_reach": float(max(payment(b, 1, 0.75, 0.25) for b in stakes)),
        "lemma1_line": float((line + mu + c).max()),
    }


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
    """Lemmas 3 and 5: follow-the-leader's regret over 4·(1 + log T), and the sum over its bounds.

    `lemma5` tries β of equal size, random ones of very different sizes, and growing ones. `lemma5_step` is by
    how much the sum *falls* when the first of three β is raised from 0: the printed proof says it never does.
    """
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
        worst = max(worst, float(regret / (4 * (1 + np.log(count)))))
    t = np.arange(1, count + 1)
    squares = {
        "equal": np.ones(count),
        "random": np.exp(-draw.exponential(3.0, count)),
        "growing": t / count,
        "rare": (draw.random(count) < 0.1) + 1e-9,
    }
    totals = {kind: np.cumsum(w / w.max() * w / np.cumsum(w)) for kind, w in squares.items()}

    def of_three(first: float) -> float:
        w = np.array([first, 1.0, 1.0])
        return float((w**2 / np.cumsum(w)).sum())

    return {
        "lemma3": worst,
        "lemma5_printed": float((totals["equal"] - np.log(t + 1)).max()),
        "lemma5": max(float((one - 1 - np.log(t)).max()) for one in totals.values()),
        "lemma5_step": of_three(1e-9) - of_three(0.1),
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
    """Theorems 1 and 2 in games of Algorithm 3 against agents who cannot see the draw, at several lengths.

    The target is drawn fresh every round, pushes away from the mean λ of the cycle, or goes up and down in
    phases. `regrets` are against shifts: by Lemma 2, T times the square of the mean loss. `in_cells` are the
    paper's discretised swap regrets: against the best constant for each cell in which λ lies. `reader` has
    the first for the agent who reads the draw from c.
    """
    draw = np.random.default_rng(seed)
    regrets: dict[str, Any] = {}
    in_cells: dict[str, Any] = {}
    long = [10**k for k in range(3, 8)]
    reader = [t * mean_loss("draw reading", "swap", t, seed) ** 2 for t in long]
    lengths = [t for t in (10**k for k in range(2, 8)) if t < settings.rounds] + [settings.rounds]
    for name in ("swap", "swap 1/3", "swap 1/2", "deterministic swap"):
        for kind in _KINDS:
            made = [_play(name, kind, length, seed, draw) for length in lengths]
            regrets[f"{name}, {kind}"] = [one[0] for one in made]
            in_cells[f"{name}, {kind}"] = [one[1] for one in made]
    return {"lengths": lengths, "regrets": regrets, "in_cells": in_cells, "long": long, "reader": reader}


def _play(name: str, kind: str, length: int, seed: int, draw: np.random.Generator) -> tuple[float, float]:
    """Return the regret against shifts, and the one against a constant for each cell, of one game."""
    correction: Any = make_correction(name, length, (0.0, 0.0), seed)
    lams, targets = np.empty(length), np.empty(length)
    for t in range(length):
        if kind == "random":
            up = draw.random() < 0.5
        elif kind == "phases":
            up = (t + 1).bit_length() % 2 == 1
        else:
            up = correction.mean_proposal() <= 0
        proposal = correction.propose()
        lams[t], targets[t] = proposal.lam, 1.0 if up else -1.0
        correction.observe(proposal, targets[t], 1.0)
    off = targets - lams
    inside = np.array([correction.cell_of(lam) for lam in lams.tolist()])
    counts = np.maximum(np.bincount(inside), 1)
    best = (np.bincount(inside, targets) / counts)[inside]
    return float(off.sum() ** 2 / length), float((off**2 - (targets - best) ** 2).sum())


# --- the special case -------------------------------------------------------------------------------------


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
    searches = (
        without_bets, with_bets, paying_whatever_is_asked, bets_and_beliefs, no_forecast_is_enough,
        budgets, shifts, leader, cells, offline,
    )  # fmt: skip
    for search in searches:
        results |= search(draw, count)
    results |= one_sided(min(count, 4_000), seed)
    tried = dict.fromkeys(("lemma1", "prop1_in", "prop1_out", "desideratum"), count)
    tried |= dict.fromkeys(("prop4", "prop5"), WORLDS)
    return {
        "seed": seed,
        "found": results,
        "tried": tried,
        "games": games(settings, seed),
        "calibrated": play_all(min(count, 10_000), seed),
    }


# --- the figure -------------------------------------------------------------------------------------------


def draw_regret(results: list[Result]) -> Any:
    """Draw the regret of Algorithm 3 per round against the length of the game, with its bounds."""
    lengths = np.array(results[0]["games"]["lengths"], dtype=np.float64)
    title = "Agents who cannot see the draw do not beat Algorithm 3; one who sees it keeps winning"
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
        look = {"--": " (dashed)", "-.": " (dash-dotted)"}.get(style[name]["linestyle"], "")
        label = name + look
        axes[0, 0].annotate(label, (0.04, 0.04 + 0.055 * k), color=style[name]["color"], **first)
    for ax in axes[0]:
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_xlabel("rounds T")
    label_ends(axes[0, 3], ends)
    axes[0, 0].set_ylabel("(mean loss)², in caps")
    return figure


def _draw_bounds(ax: Any, lengths: Any) -> dict[str, float]:
    """Draw both bounds, each with its own number of cells; returns the last value of each."""
    ends = {}
    for name, of, power, look in (("as printed", printed, 0.25, "--"), ("Theorem J", blind, 0.5, "-")):
        k = (lengths / np.log(lengths)) ** power
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
            "Regret of Algorithm 3 in games, and two bounds: Theorem 2 as printed, and our Theorem J",
            draw_regret,
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
The paper's propositions, lemmas and theorems, tried out one by one and numbered as they are printed. Proofs
and symbols are in [theory.md](theory.md), "The paper's statements". Those about decisions and bets hold; the
stake for K classes and the sign of the naive payment have slips. The theorem on swap regret is about λ, the
target that would have balanced a bet, and the K cells into which the range of λ is divided; ψ is any other
way to choose λ. Its lemmas need mending, and an agent who reads the draw off c undoes it as it is printed.
Against agents who cannot see the draw it holds, in expectation and with more cells: our Theorem J proves it.
The last rows ask what a better μ is worth: with a μ that is calibrated against every nature, c vanishes for
bets that depend on μ alone, and stays for bettors who know more.""",
    shown="You have just seen the paper's propositions and lemmas tried out, and where they need mending.",
    next_step="Next, read the proofs in docs/theory.md, or see who can beat which correction: "
    "makewhole study adversaries.",
    seeds=10,
    plan=_plan,
    columns={"results": _COLUMNS, "summary": _COLUMNS},
)
