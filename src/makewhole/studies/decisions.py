"""The paper's benchmark: twenty decision tasks on MNIST and on Adult, where the decision makers bet.

On MNIST Pr[y = 1 | digit] = (digit + 1)/11, so the true probability is known. There an *oracle* forecaster,
which publishes it, shows what luck alone does.
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
from makewhole.insured.forecaster import InsuredForecaster
from makewhole.jit import call
from makewhole.studies import decisions_figures as figures
from makewhole.studies._many_nets import compiled_pass
from makewhole.studies.decisions_claims import C_BINS, JUDGES, ORACLE
from makewhole.studies.lineup import LINEUP, compiled, make_correction
from makewhole.studies.own import NOTHING, Own, check_events
from makewhole.studies.study import Options, Result, Study, StudyPicture, StudyPlan, as_columns

TASKS = ("one-sided",) * 7 + ("different stakes",) * 7 + ("random",) * 6
_POINTS = 200


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
    """Return the losses l(z, y, a) of the twenty tasks: (task, z, action, outcome), ten z, two actions."""
    draw = np.random.default_rng(seed)
    tables = np.empty((len(TASKS), 10, 2, 2))
    for k, kind in enumerate(TASKS):
        if kind == "one-sided":  # small if the action is right; if not, large and depending on z
            stakes = draw.uniform(0, 1, 10)
            right, wrong = draw.uniform(0, 1, (10, 2)), draw.uniform(0, 10, (10, 2)) * stakes[:, None]
            for y in (0, 1):
                tables[k, :, y, y], tables[k, :, 1 - y, y] = right[:, y], wrong[:, y]
        elif kind == "different stakes":  # more is at stake for larger z
            tables[k] = draw.normal(size=(10, 2, 2)) * np.arange(10)[:, None, None]
        else:
            tables[k] = np.clip(draw.normal(0, 10, (10, 2, 2)), -10, 10)
    return tables


@functools.lru_cache(maxsize=2)
def _loaded(dataset: str, seed: int) -> Events:
    return load_mnist(seed=seed) if dataset == "mnist" else load_adult()


def load(settings: DecisionSettings, seed: int, own: Own = NOTHING) -> Events:
    """Return the events in an order drawn by the seed; on MNIST the seed also draws the outcomes."""
    events = (_loaded(settings.dataset, seed) if own.data is None else own.data).shuffled(seed)
    return events if settings.rounds is None else events.take(np.arange(min(settings.rounds, len(events))))


@dataclass
class Pass:
    """The base learner's forecasts and the agents' stakes; the same for every correction."""

    mu: Floats
    c_hat: Floats
    stake: Floats
    action: Any
    caps: Floats
    tables: Floats
    learner: TwoLayerLearner


def predict_and_stake(events: Events, settings: DecisionSettings, seed: int) -> Pass:
    """Run Algorithm 2 on all tasks in one pass."""
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
    """Run all tasks and corrections under one seed: plain numbers and arrays, losses in units of the cap."""
    events = load(settings, seed, own)
    made = predict_and_stake(events, settings, seed)
    rounds = len(events)
    at = np.unique(np.ceil(np.geomspace(1, rounds, _POINTS)).astype(np.int64)) - 1
    result: Result = {"seed": seed, "rounds": at + 1, "corrections": {}}
    names = [*settings.corrections, *([ORACLE] if events.probability is not None else [])]
    in_group = np.maximum(1, np.bincount(events.z, minlength=10))
    for name in names:
        curves, c_counts, negative, sizes, by_z = [], np.zeros(len(C_BINS) - 1), [], [], []
        for k, cap in enumerate(made.caps):
            replayed = _replay(name, events, made, k, settings, seed, own)
            loss = replayed.loss / cap
            curves.append(np.cumsum(loss)[at] / (at + 1))
            c_counts += np.histogram(replayed.c, bins=C_BINS)[0]
            negative.append(float((replayed.c < 0).mean()))
            sizes.append(float(np.abs(replayed.c).mean()))
            by_z.append(np.bincount(events.z, weights=loss, minlength=10) / in_group)
        result["corrections"][name] = {
            "curves": np.array(curves),
            "c_counts": c_counts,
            "negative_c": float(np.mean(negative)),
            "mean_size_of_c": float(np.mean(sizes)),
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
    c_hat = columns["c_hat"]
    c_range = (float(c_hat.min()), float(c_hat.max()))
    f = InsuredForecaster(None, correction, max_stake=cap, c_range=c_range)
    trace = backtest(frame, f, c_hat="c_hat", trace=True).trace or {}
    return Replayed(trace["c"], trace["payment"])


def honesty(made: Pass, seed: int, bins: int = 15, points: int = 500) -> dict[str, Any]:
    """Compare forecast and true expected loss on the test digits, recalibrated by histogram binning.

    c is the largest standard error that a bin's frequency can have; the stake hedges the trustful action.
    """
    test = load_mnist("test", seed=seed)
    mu_hat = _frozen_predictions(made.learner, test)
    which = np.searchsorted(np.quantile(mu_hat, np.arange(1, bins) / bins), mu_hat)
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
    """Return μ of every row from a learner that no longer learns, in one matrix product."""
    (W, v, _), slope = learner.internals[0][0], learner.internals[1][0]
    dense = np.zeros((len(events), events.inputs))
    dense[np.repeat(np.arange(len(events)), np.diff(events.indptr)), events.indices] = events.data
    hidden = dense @ W[:-1] + W[-1]
    active = np.where(hidden < 0, slope * hidden, hidden)
    said: Floats = np.clip(active @ v[:-1] + v[-1], 0.01, 0.99)
    return said


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
        (
            r["seed"],
            correction,
            z,
            float(np.abs(measured["by_z"][:, z]).mean()),
            measured["negative_c"],
            measured["mean_size_of_c"],
        )
        for r in results
        for correction, measured in r["corrections"].items()
        for z in range(10)
    ]
    return as_columns(tuple(_COLUMNS["summary"]), rows)


_LABEL = {"mnist": "MNIST", "adult": "Adult"}


def _pictures(dataset: str, group: str, own: bool) -> dict[str, StudyPicture]:
    """Return the figures of one data set; the paper's figure numbers are for its own data only."""
    label = "your data" if own else _LABEL[dataset]
    figure = {} if own else {"mnist": " (the paper's Figure 2)", "adult": " (the paper's Figure 5)"}
    width = " (the paper's Figure 3)" if dataset == "mnist" and not own else ""
    within = "value of z" if own else group
    pictures = {
        f"betting_loss_{dataset}": StudyPicture(
            f"Betting loss across 20 tasks on {label}{figure.get(dataset, '')}",
            functools.partial(figures.betting_loss, data=label),
        ),
        f"loss_by_group_{dataset}": StudyPicture(
            f"Balance within each {within}, on {label}",
            functools.partial(figures.loss_by_group, group=within, data=label),
        ),
        f"interval_size_{dataset}": StudyPicture(
            f"How wide c is, on {label}{width}", functools.partial(figures.interval_size, data=label)
        ),
    }
    if dataset == "mnist" and not own:
        caption = "Forecasted against true expected loss, with and without bets (the paper's Figure 6)"
        pictures["forecasted_loss"] = StudyPicture(caption, figures.forecasted_loss)
    return pictures


def _plan(options: Options, dataset: str, group: str, seeds: int) -> StudyPlan:
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
    rounds = len(load(settings, 0, own))  # raise errors here, not in a worker
    for name in names:
        compiled(make_correction(name, rounds, settings.c_range, 0, makers))
    own = Own(corrections=makers, data=own.data)
    cases: list[dict[str, Any]] = [
        {"settings": settings, "seed": seed} for seed in range(options.seeds or seeds)
    ]
    if makers or own.data is not None:
        cases = [case | {"own": own} for case in cases]
    pictures = _pictures(dataset, group, own.data is not None)
    name = _LABEL[dataset] if own.data is None else own.data.name
    judges = [functools.partial(judge, dataset=name, suffix=dataset) for judge in JUDGES]
    return StudyPlan(run, cases, settings, judges, pictures, _table, _summary)


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
        "mean_size_of_c": "mean of |c|, in all groups",
    },
}


def _study(name: str, group: str, seeds: int, **words: str) -> Study:
    def plan(options: Options) -> StudyPlan:
        return _plan(options, name, group, seeds)

    return Study(name=name, seeds=seeds, plan=plan, columns=_COLUMNS, takes=("data",), **words)


MNIST = _study(
    "mnist",
    "digit",
    5,
    title="Twenty decision tasks on MNIST",
    why="""\
The seeds draw the order of the digits, their outcomes, the tasks and the networks' first weights. Losses are
in units of the cap, the most that may be staked on a forecast. Against the alternatives that the paper has,
swap comes nearest to zero, as claimed. Whether follow-the-leader's loss vanishes, too, these data do not say;
adversaries beat it. Gradient descent with large steps, which the paper does not run, and our own corrections
end nearer to zero than swap; the fastest of them nearer even than an *oracle* that says the true probability.
This is not forecasting skill. A correction that integrates its losses pays back past luck, win or loss, so
that its mean loss falls faster than chance allows; the oracle shows what chance alone does. At about the same
mean |c| a reserve is some 30 times nearer to zero than swap.

c is small in size, but negative in most forecasts: those are prices, and no intervals. Swap's widths are like
follow-the-leader's. They are not like those without a correction, where c is ĉ; but that is because here ĉ is
kept in [0, ½], where half of them are next to 0. As the paper says, the loss under a calibrated forecast is
never the true one; in an interval of ± the largest standard error of a bin it is in one case in six.

Balance is over all bets. Within one digit every correction is off by about as much as none at all: from seven
times as much as over all bets (gradient descent with small steps) to two thousand times (reserve). Exactness
says nothing about any single group.""",
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
The same tasks on Adult, where the true probability is not known and there is no oracle. The seeds draw the
order of the rows, the tasks and the networks' first weights. Against the paper's alternatives, gradient
descent and ours the verdicts are those of MNIST. c is smaller here, but large c fade more slowly than
exponentially; whether swap's own loss falls as fast as T^−¼ is undecided.""",
    shown="You have just seen twenty decision makers insure themselves on forecasts of income (UCI Adult), "
    "and which correction brings the forecaster's mean loss nearest to zero.",
    next_step="Next, run the same tasks on your own data: the page docs/studies.md shows how, with "
    'makewhole.studies.run("adult", data=...).',
)
