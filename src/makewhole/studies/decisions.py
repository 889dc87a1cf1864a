"""The paper's benchmark: twenty decision tasks on MNIST and on Adult, bets by whoever decides.

On MNIST Pr[y = 1 | digit] = (digit + 1)/11, so the true probability is known. There an *oracle* forecaster,
which says it, shows what is mere luck.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from makewhole import arguments
from makewhole.arguments import Floats
from makewhole.backtesting.backtest import backtest
from makewhole.bets import loss_bounds, payment
from makewhole.datasets import Events, load_adult, load_mnist
from makewhole.forecasters import TwoLayerLearner
from makewhole.frames import make_frame
from makewhole.jit import call
from makewhole.plots import COLOURS
from makewhole.studies._many_nets import compiled_pass
from makewhole.studies.claims import Claim, Verdict, all_of, interval, positive
from makewhole.studies.drawing import BESIDE, grid, line
from makewhole.studies.lineup import LINEUP, compiled, make_correction
from makewhole.studies.own import NOTHING, Own, check_events
from makewhole.studies.study import Options, Picture, Plan, Result, Study, as_columns

TASKS = ("one-sided",) * 7 + ("different stakes",) * 7 + ("random",) * 6
ORACLE = "oracle"
PAPERS_ALTERNATIVES = ("naive", "standard 0.01", "standard 0.1", "standard 1")
_POINTS = 200
C_BINS = np.linspace(-1, 1, 401)


@dataclass(frozen=True)
class DecisionSettings:
    """The settings of a run; the same settings and seed give the same bits."""

    dataset: str = "mnist"
    rounds: int | None = None
    hidden: int = 16
    mu_rate: float = 0.003
    c_rate: float = 0.01
    c_range: tuple[float, float] = (0.0, 0.5)
    corrections: tuple[str, ...] = tuple(LINEUP)

    def check(self) -> None:
        """Raise a ValueError that names the setting that does not fit."""
        if self.dataset not in ("mnist", "adult"):
            raise ValueError(f"dataset must be 'mnist' or 'adult'; got {self.dataset!r}")
        if self.rounds is not None:
            arguments.whole("rounds", self.rounds, least=1)


def draw_tables(seed: int) -> Floats:
    """Losses l(z, y, a) of the twenty tasks: (task, z, action, outcome), ten values of z, two actions."""
    draw = np.random.default_rng(seed)
    tables = np.empty((len(TASKS), 10, 2, 2))
    for k, kind in enumerate(TASKS):
        if kind == "one-sided":  # small if the action is right; large, at a stake that depends on z, if not
            stakes = draw.uniform(0, 1, 10)
            right, wrong = draw.uniform(0, 1, (10, 2)), draw.uniform(0, 10, (10, 2)) * stakes[:, None]
            for y in (0, 1):
                tables[k, :, y, y], tables[k, :, 1 - y, y] = right[:, y], wrong[:, y]
        elif kind == "different stakes":  # the larger z, the more is at stake
            tables[k] = draw.normal(size=(10, 2, 2)) * np.arange(10)[:, None, None]
        else:
            tables[k] = np.clip(draw.normal(0, 10, (10, 2, 2)), -10, 10)
    return tables


@functools.lru_cache(maxsize=2)
def _loaded(dataset: str, seed: int) -> Events:
    return load_mnist(seed=seed) if dataset == "mnist" else load_adult()


def load(settings: DecisionSettings, seed: int, own: Own = NOTHING) -> Events:
    """The events in an order drawn by the seed; on MNIST the seed draws the outcomes, too."""
    events = (_loaded(settings.dataset, seed) if own.data is None else own.data).shuffled(seed)
    return events if settings.rounds is None else events.take(np.arange(min(settings.rounds, len(events))))


@dataclass
class Pass:
    """What the base learner forecast and the agents staked; the same for every correction."""

    mu: Floats
    c_hat: Floats
    stake: Floats
    action: Any
    caps: Floats
    tables: Floats
    learner: TwoLayerLearner


def predict_and_stake(events: Events, settings: DecisionSettings, seed: int) -> Pass:
    """Algorithm 2 on every task at once."""
    settings.check()
    tables = draw_tables(seed)
    caps = np.abs(tables[..., 1] - tables[..., 0]).max(axis=(1, 2))
    learner = TwoLayerLearner(
        events.inputs,
        settings.hidden,
        mu_rate=settings.mu_rate,
        c_rate=settings.c_rate,
        c_range=settings.c_range,
        seed=seed,
    )
    nets, internal = learner.internals
    tasks, units = len(TASKS), len(TASKS) * settings.hidden
    draw = np.random.default_rng(seed)
    W = (draw.normal(size=(events.inputs + 1, units)) / np.sqrt(events.inputs)).astype(np.float32)
    W[-1] = 0
    v = np.zeros((tasks, settings.hidden + 1), dtype=np.float32)
    rounds = len(events)
    out = (
        np.empty(rounds),
        np.empty((rounds, tasks)),
        np.empty((rounds, tasks)),
        np.empty((rounds, tasks), np.int8),
    )
    work = (
        np.empty(settings.hidden),
        np.empty(units, np.float32),
        np.empty(tasks, np.float32),
        np.empty(tasks),
    )
    rows = (events.indptr, events.indices, events.data)
    call(compiled_pass(), nets[0], internal, W, v, rows, events.outcome, events.z, tables, caps, work, out)
    return Pass(*out, caps, tables, learner)


def run(settings: DecisionSettings, seed: int, own: Own = NOTHING) -> Result:
    """All tasks and corrections under one seed, as plain numbers and arrays; losses in units of the cap."""
    events = load(settings, seed, own)
    made = predict_and_stake(events, settings, seed)
    rounds = len(events)
    at = np.unique(np.ceil(np.geomspace(1, rounds, _POINTS)).astype(np.int64)) - 1
    result: Result = {"seed": seed, "rounds": at + 1, "corrections": {}}
    names = [*settings.corrections, *([ORACLE] if events.probability is not None else [])]
    in_group = np.maximum(1, np.bincount(events.z, minlength=10))
    for name in names:
        curves, c_counts, negative, by_z = [], np.zeros(len(C_BINS) - 1), [], []
        for k, cap in enumerate(made.caps):
            replayed = _replay(name, events, made, k, settings, seed, own)
            loss = replayed.loss / cap
            curves.append(np.cumsum(loss)[at] / (at + 1))
            c_counts += np.histogram(replayed.c, bins=C_BINS)[0]
            negative.append(float((replayed.c < 0).mean()))
            by_z.append(np.bincount(events.z, weights=loss, minlength=10) / in_group)
        result["corrections"][name] = {
            "curves": np.array(curves),
            "c_counts": c_counts,
            "negative_c": float(np.mean(negative)),
            "by_z": np.array(by_z),
        }
    if settings.dataset == "mnist" and own.data is None:
        result["honesty"] = honesty(made, seed)
    return result


class Replayed(NamedTuple):
    """One task under one correction: c and the forecaster's loss, per round."""

    c: Floats
    loss: Floats


def _replay(
    name: str, events: Events, made: Pass, k: int, settings: DecisionSettings, seed: int, own: Own
) -> Replayed:
    """Replay task k under a correction, or for the oracle."""
    if name == ORACLE:
        table, truth = made.tables[k, events.z], np.asarray(events.probability)
        expected = (1 - truth[:, None]) * table[..., 0] + truth[:, None] * table[..., 1]
        taken = table[np.arange(len(table)), expected.argmin(axis=1)]
        columns = {"mu": truth, "c_hat": np.zeros(len(events)), "stake": taken[:, 1] - taken[:, 0]}
        correction = make_correction("none", len(events))
    else:
        columns = {"mu": made.mu, "c_hat": made.c_hat[:, k], "stake": made.stake[:, k]}
        correction = make_correction(name, len(events), settings.c_range, seed, own.corrections)
    frame = make_frame(columns | {"y": events.outcome}, "polars")
    cap = float(made.caps[k])
    said = columns["c_hat"]
    terms: Any = {"max_stake": cap, "c_range": (float(said.min()), float(said.max()))}
    trace = backtest(frame, c_hat="c_hat", correction=correction, trace=True, **terms).trace or {}
    return Replayed(trace["c"], trace["payment"])


def honesty(made: Pass, seed: int, bins: int = 15, points: int = 500) -> dict[str, Any]:
    """Forecasted against true expected loss on the test digits, recalibrated by histogram binning.

    c is the largest standard error that a bin's frequency can have; the stake hedges the trustful action.
    """
    test = load_mnist("test", seed=seed)
    said = _frozen_predictions(made.learner, test)
    which = np.searchsorted(np.quantile(said, np.arange(1, bins) / bins), said)
    counts = np.maximum(np.bincount(which, minlength=bins), 1)
    recalibrated = np.bincount(which, weights=test.outcome, minlength=bins) / counts
    chosen = np.random.default_rng(seed).choice(len(test), points, replace=False)
    mu, width = recalibrated[which[chosen]], 0.5 / np.sqrt(counts[which[chosen]])
    truth = np.asarray(test.probability)[chosen]
    columns: dict[str, list[Floats]] = {name: [] for name in ("forecasted", "true", "insured", "low", "high")}
    for table in made.tables[:, test.z[chosen]]:
        action = ((1 - mu[:, None]) * table[..., 0] + mu[:, None] * table[..., 1]).argmin(axis=1)
        losses = table[np.arange(points), action]
        low, forecasted, high = loss_bounds(losses, mu, width)
        stake = losses[:, 1] - losses[:, 0]
        true = (1 - truth) * losses[:, 0] + truth * losses[:, 1]
        received = (1 - truth) * payment(stake, 0, mu, width) + truth * payment(stake, 1, mu, width)
        for name, column in zip(columns, (forecasted, true, true - received, low, high), strict=True):
            columns[name].append(column)
    return {name: np.concatenate(parts) for name, parts in columns.items()}


def _frozen_predictions(learner: TwoLayerLearner, events: Events) -> Floats:
    """μ of every row from a learner that no longer learns, in one matrix product."""
    (W, v, _), slope = learner.internals[0][0], learner.internals[1][0]
    dense = np.zeros((len(events), events.inputs))
    dense[np.repeat(np.arange(len(events)), np.diff(events.indptr)), events.indices] = events.data
    hidden = dense @ W[:-1] + W[-1]
    active = np.where(hidden < 0, slope * hidden, hidden)
    said: Floats = np.clip(active @ v[:-1] + v[-1], 0.01, 0.99)
    return said


# --- claims -----------------------------------------------------------------------------------------------


def _sizes(results: list[Result], name: str) -> list[float]:
    """Per seed, the mean over tasks of |mean loss| at the end, in units of the cap."""
    return [float(np.abs(r["corrections"][name]["curves"][:, -1]).mean()) for r in results]


def claims(results: list[Result], dataset: str) -> list[Claim]:
    """What the paper says of its benchmark, held against the runs."""
    names = [n for n in results[0]["corrections"] if n != ORACLE]
    made: list[Claim] = []
    if "swap" in names:
        made += _nearness(results, names, dataset)
    made.append(_interval_size(results, "swap" if "swap" in names else names[0], dataset))
    if "honesty" in results[0]:
        made += _honesty_claims(results)
    return made


def _nearness(results: list[Result], names: list[str], dataset: str) -> list[Claim]:
    """Whether swap's mean loss comes nearer to zero than the others'."""
    swap, figure = _sizes(results, "swap"), f"betting_loss_{dataset}"
    judged = {
        n: positive([a - b for a, b in zip(_sizes(results, n), swap, strict=True)])
        for n in names
        if n != "swap"
    }
    sizes = {
        n: interval(_sizes(results, n)).mean
        for n in [*names, *([ORACLE] if ORACLE in results[0]["corrections"] else [])]
    }
    numbers = "mean |loss|/cap: " + ", ".join(
        f"{n} {v:.2g}" for n, v in sorted(sizes.items(), key=lambda kv: kv[1])
    )
    made = []
    if "none" in judged:
        text = f"on {dataset.upper()} swap comes nearer to zero than no correction"
        verdict, change = judged["none"]
        made.append(Claim(text, "§7, Fig. 2 and 5", verdict, f"by {change}, in units of the cap", figure))
    others = {n: one.verdict for n, one in judged.items() if n in PAPERS_ALTERNATIVES}
    if others:
        nearer = [n for n, v in others.items() if v == "fails"]
        text = f"on {dataset.upper()} swap comes nearer to zero than each alternative; they fail to be exact"
        note = f"{numbers}; nearer than swap: {', '.join(nearer) or 'none'}"
        made.append(Claim(text, "§7, obs. 3", all_of(list(others.values())), note, figure))
    return made


def _interval_size(results: list[Result], name: str, dataset: str) -> Claim:
    """Whether c is small, and large c exponentially rarer.

    Small means that |c| is below 0.1 on average. Exponentially rarer means that the share of larger |c|
    decays beyond 0.2 at no less than 0.7 of the rate before; a power law decays at 0.58 of it.
    """
    middle = np.abs((C_BINS[1:] + C_BINS[:-1]) / 2)
    counts = [r["corrections"][name]["c_counts"] for r in results]
    size = interval([float((middle * n).sum() / n.sum()) for n in counts])
    wider = np.array(
        [[max(n[middle > limit].sum(), 0.5) / n.sum() for limit in (0.1, 0.2, 0.3)] for n in counts]
    )
    rates = -np.diff(np.log(wider), axis=1)
    small = positive([0.1 - float((middle * n).sum() / n.sum()) for n in counts]).verdict
    fading = positive((rates[:, 1] - 0.7 * rates[:, 0]).tolist()).verdict
    shares = ", ".join(
        f"|c| > {limit}: {share:.2%}"
        for limit, share in zip((0.1, 0.2, 0.3), wider.mean(axis=0), strict=True)
    )
    slower = interval((rates[:, 1] / rates[:, 0]).tolist())
    negative = interval([r["corrections"][name]["negative_c"] for r in results])
    text = f"on {dataset.upper()} c ({name}) is small, and large c are exponentially rarer"
    decay = f"rate of decay beyond 0.2 over that before {slower}"
    note = f"mean |c| {size}; {shares}; {decay}; c < 0 in {negative.mean:.0%}"
    return Claim(text, "§7, obs. 2, Fig. 3", all_of([small, fading]), note, f"interval_size_{dataset}")


def _honesty_claims(results: list[Result]) -> list[Claim]:
    error = max(float(np.abs(r["honesty"]["insured"] - r["honesty"]["high"]).max()) for r in results)
    shares = []
    for h in (r["honesty"] for r in results):
        open_ = h["high"] > h["low"]  # where both outcomes cost the same there is nothing to be wrong about
        shares.append(float(((h["true"] >= h["low"]) & (h["true"] <= h["high"]))[open_].mean()))
    inside = interval(shares)
    rare: Verdict = "holds" if inside.high < 0.25 else "fails" if inside.low > 0.25 else "undecided"
    exact: Verdict = "holds" if error < 1e-9 else "fails"
    return [
        Claim(
            "with the bets the agent's expected loss is L_max, always",
            "Prop. 2, Fig. 6",
            exact,
            f"off by at most {error:.1e}",
            "forecasted_loss",
        ),
        Claim(
            "without them it is rarely inside [L_min, L_max], though the forecaster is calibrated",
            "§7, obs. 1",
            rare,
            f"inside in {inside} of cases (15 bins, c their largest standard error; rarely: under 0.25)",
            "forecasted_loss",
        ),
    ]


# --- figures ----------------------------------------------------------------------------------------------


def betting_loss(results: list[Result]) -> Any:
    """Quantiles 10 … 90 % across tasks (and seeds) of the running mean loss, a panel per correction."""
    names = list(results[0]["corrections"])
    columns = 3
    rows = -(-len(names) // columns)
    figure, axes = grid(rows, columns, 10, 0.6 + 2.3 * rows, sharex=True, sharey=True)
    rounds = results[0]["rounds"]
    later = rounds >= min(100, rounds[-1] // 10)
    for ax, name in zip(axes.flat, names, strict=False):
        curves = np.concatenate([r["corrections"][name]["curves"] for r in results])[:, later]
        q10, q25, q50, q75, q90 = np.quantile(curves, [0.1, 0.25, 0.5, 0.75, 0.9], axis=0)
        ax.fill_between(rounds[later], q10, q90, color=COLOURS[0], alpha=0.2, linewidth=0, label="10–90 %")
        ax.fill_between(rounds[later], q25, q75, color=COLOURS[0], alpha=0.4, linewidth=0, label="25–75 %")
        ax.plot(rounds[later], q50, color=COLOURS[1], label="median")
        ax.axhline(0, color="0.4", linewidth=0.8, linestyle=":")
        ax.set_xscale("log")
        ax.set_title("oracle (the true probability, c = 0)" if name == ORACLE else name, fontsize=10)
    for k, ax in enumerate(axes.flat[len(names) :], start=len(names)):
        ax.set_visible(False)
        axes.flat[k - columns].tick_params(labelbottom=True)  # the lowest visible panel has the labels
        axes.flat[k - columns].set_xlabel("forecasts")
    limit = np.quantile(
        [np.abs(r["corrections"][n]["curves"][:, later]) for r in results for n in names], 0.98
    )
    axes[0, 0].set_ylim(-limit, limit)
    for ax in axes[:, 0]:
        ax.set_ylabel("mean loss / cap")
    for ax in axes[-1]:
        ax.set_xlabel("forecasts")
    axes[0, 0].legend(frameon=False, fontsize=8)
    return figure


def loss_by_group(results: list[Result], group: str) -> Any:
    """Mean over tasks of |mean loss| within each group; balance over all bets does not promise it small."""
    figure, axes = grid(1, 1, 7.5, 4.3)
    ax = axes[0, 0]
    for k, name in enumerate(results[0]["corrections"]):
        values = np.mean([np.abs(r["corrections"][name]["by_z"]).mean(axis=0) for r in results], axis=0)
        style = {"color": "black", "linestyle": ":"} if name == ORACLE else line(k)
        ax.plot(np.arange(len(values)), values, label=name, marker="o", markersize=3, **style)
    ax.set_yscale("log")
    ax.set_xticks(np.arange(10))
    ax.set_xlabel(group)
    ax.set_ylabel("mean over tasks of |mean loss in the group| / cap")
    ax.legend(**BESIDE)
    return figure


def interval_size(results: list[Result]) -> Any:
    """How often c is how wide, on a logarithmic scale: exponentially rarer is a straight line."""
    figure, axes = grid(1, 1, 7.5, 4.3)
    ax = axes[0, 0]
    names = [n for n in results[0]["corrections"] if n != ORACLE]
    middle = (C_BINS[1:] + C_BINS[:-1]) / 2
    for k, name in enumerate(names):
        counts = np.sum([r["corrections"][name]["c_counts"] for r in results], axis=0)
        shares = counts / counts.sum()
        ax.plot(middle[counts > 0], shares[counts > 0], label=name, linewidth=1.3, **line(k))
    ax.set_yscale("log")
    ax.set_xlabel("half-width c")
    ax.set_ylabel("share of forecasts, per bin of 0.005")
    ax.legend(**BESIDE)
    return figure


def forecasted_loss(results: list[Result]) -> Any:
    """Each dot a digit and a task: what the forecast said, and what is true, without and with the bets."""
    figure, axes = grid(1, 2, 9, 4.4, sharex=True, sharey=True)
    dots = results[0]["honesty"]
    panels = (("true", "without bets"), ("insured", "with the bets"))
    lowest, highest = (
        min(dots["forecasted"].min(), dots["true"].min()),
        max(dots["forecasted"].max(), dots["true"].max()),
    )
    for ax, (column, title), colour in zip(axes[0], panels, COLOURS, strict=False):
        ax.plot([lowest, highest], [lowest, highest], color="0.6", linewidth=0.8, zorder=0)
        ax.scatter(dots["forecasted"], dots[column], s=6, alpha=0.5, color=colour, linewidths=0)
        ax.set_title(title, fontsize=10)
        ax.set_xlabel("expected loss under the forecast")
    axes[0, 0].set_ylabel("expected loss under the true probability")
    return figure


# --- the studies ------------------------------------------------------------------------------------------


def _table(results: list[Result]) -> dict[str, Any]:
    columns: dict[str, list[Any]] = {k: [] for k in _COLUMNS["results"]}
    for r in results:
        for correction, measured in r["corrections"].items():
            tasks, points = measured["curves"].shape
            columns["seed"].append(np.full(tasks * points, r["seed"]))
            columns["correction"].append(np.full(tasks * points, correction))
            columns["task"].append(np.repeat(np.arange(tasks), points))
            columns["rounds"].append(np.tile(r["rounds"], tasks))
            columns["mean_loss"].append(measured["curves"].ravel())
    return {k: np.concatenate(v) for k, v in columns.items()}


def _summary(results: list[Result]) -> dict[str, Any]:
    rows = [
        (r["seed"], correction, z, float(np.abs(measured["by_z"][:, z]).mean()), measured["negative_c"])
        for r in results
        for correction, measured in r["corrections"].items()
        for z in range(10)
    ]
    return as_columns(tuple(_COLUMNS["summary"]), rows)


def _pictures(dataset: str, group: str, own: bool) -> dict[str, Picture]:
    """The figures of one data set; the paper's numbers are for its own data only."""
    label = "your data" if own else dataset.upper() if dataset == "mnist" else dataset.capitalize()
    figure = {} if own else {"mnist": " (the paper's Figure 2)", "adult": " (the paper's Figure 5)"}
    width = " (the paper's Figure 3)" if dataset == "mnist" and not own else ""
    by_group = functools.partial(loss_by_group, group="z" if own else group)
    pictures = {
        f"betting_loss_{dataset}": Picture(
            f"Betting loss across 20 tasks on {label}{figure.get(dataset, '')}", betting_loss
        ),
        f"loss_by_group_{dataset}": Picture(
            f"Balance within each {'value of z' if own else group}, on {label}", by_group
        ),
        f"interval_size_{dataset}": Picture(f"How wide c is, on {label}{width}", interval_size),
    }
    if dataset == "mnist" and not own:
        caption = "Forecasted against true expected loss, with and without bets (the paper's Figure 6)"
        pictures["forecasted_loss"] = Picture(caption, forecasted_loss)
    return pictures


def _plan(options: Options, dataset: str, group: str, seeds: int) -> Plan:
    if isinstance(options.data, str):
        raise TypeError(
            "data must be makewhole.datasets.Events; the folder with MNIST and Adult is named by the "
            f"environment variable MAKEWHOLE_DATA; got {options.data!r}"
        )
    own = Own(data=None if options.data is None else check_events(options.data, grouped=True))
    chosen = options.chosen()
    names, makers = (tuple(LINEUP), {}) if chosen is None else chosen
    if ORACLE in names:
        raise ValueError(f"corrections must not be called {ORACLE!r}: that is the forecaster who knows")
    settings = DecisionSettings(dataset, options.rounds, corrections=names)
    settings.check()
    rounds = len(load(settings, 0, own))  # what does not fit is named here, not in a worker
    for name in names:
        compiled(make_correction(name, rounds, settings.c_range, 0, makers))
    own = Own(corrections=makers, data=own.data)
    cases: list[dict[str, Any]] = [
        {"settings": settings, "seed": seed} for seed in range(options.seeds or seeds)
    ]
    if makers or own.data is not None:
        cases = [case | {"own": own} for case in cases]
    pictures = _pictures(dataset, group, own.data is not None)
    judge = functools.partial(claims, dataset=dataset if own.data is None else own.data.name)
    return Plan(run, cases, settings, judge, pictures, _table, _summary)


_COLUMNS = {
    "results": {
        "seed": "the seed; it draws the order of the data, the tasks and the networks' first weights",
        "correction": f"the correction, or {ORACLE!r} for a forecaster who says the true probability",
        "task": "the decision task, from 0 to 19",
        "rounds": "forecasts so far",
        "mean_loss": "the forecaster's mean loss over them, in units of the cap",
    },
    "summary": {
        "seed": "the seed",
        "correction": "the correction, or the oracle",
        "z": "the group: the digit (MNIST), the decile of age (Adult), or z of your data",
        "mean_size_of_loss": "mean over tasks of |mean loss in the group|, in units of the cap",
        "negative_c": "share of forecasts with c below 0, in all groups",
    },
}


def _study(name: str, group: str, seeds: int, **words: str) -> Study:
    def plan(options: Options) -> Plan:
        return _plan(options, name, group, seeds)

    return Study(name=name, seeds=seeds, plan=plan, columns=_COLUMNS, takes=("data",), **words)


MNIST = _study(
    "mnist",
    "digit",
    5,
    title="Twenty decision tasks on MNIST",
    why="""\
Losses are in units of the cap. Swap corrects most of what the base learner gets wrong, as the paper claims.
The paper also claims that simpler alternatives do worse, and we do not find that: gradient descent with
large steps ends far nearer to zero, nearer even than an *oracle* that says the true probability. This is
not forecasting skill. A correction that integrates its losses pays back past luck, win or loss, so its mean
loss falls faster than chance allows; the oracle's row shows what chance alone does. Follow-the-leader is
about as good as swap on these data, where nature repeats itself; adversaries beat it (below).

Balance is over all bets. Within one digit every correction is off by about as much as none at all. For the
best of them that is tens to hundreds of times as much as over all bets. Exactness says nothing about any
single group.""",
    shown="You have just seen twenty decision makers insure themselves on MNIST digits, and which correction "
    "brings the forecaster's mean loss nearest to zero.",
    next_step="Next, see who can beat these corrections on purpose: makewhole study adversaries.",
)
ADULT = _study(
    "adult",
    "decile of age",
    5,
    title="Twenty decision tasks on Adult",
    why="""\
The same tasks on Adult, where the true probability is not known and there is no oracle row. The results are
the same with one exception: c is smaller here, but large c fade more slowly than exponentially.""",
    shown="You have just seen twenty decision makers insure themselves on forecasts of income (UCI Adult), "
    "and which correction brings the forecaster's mean loss nearest to zero.",
    next_step="Next, run the same tasks on your own data: the page docs/studies.md shows how, with "
    'makewhole.studies.run("adult", data=...).',
)
