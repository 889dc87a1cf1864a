"""The paper's benchmark: twenty decision tasks on MNIST and on Adult, where the decision makers bet.

On MNIST Pr[y = 1 | digit] = (digit + 1)/11, so the true probability is known. There an *oracle* forecaster,
which publishes it, shows what luck alone does.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from makewhole import arguments
from makewhole.arguments import Floats
from makewhole.backtesting.backtest import backtest
from makewhole.bets import payment
from makewhole.corrections import Correction
from makewhole.datasets import Events, load_adult, load_mnist
from makewhole.forecasters import TwoLayerLearner
from makewhole.frames import make_frame
from makewhole.insured.forecaster import InsuredForecaster
from makewhole.jit import call
from makewhole.studies import decisions_figures as figures
from makewhole.studies import paper
from makewhole.studies._many_nets import compiled_pass
from makewhole.studies.decisions_claims import (
    BASE_ERROR,
    C_BINS,
    JUDGES,
    NETWORK,
    ORACLE,
    OUR_JUDGES,
    OUR_SETTING,
    PAPERS_SETTING,
)
from makewhole.studies.lineup import LINEUP, PAPERS, compiled, make_correction
from makewhole.studies.own import NOTHING, Own, check_events
from makewhole.studies.study import Options, Result, Study, StudyPicture, StudyPlan, as_columns

TASKS = ("one-sided",) * 7 + ("different stakes",) * 7 + ("random",) * 6
_POINTS = 200


@dataclass(frozen=True)
class DecisionSettings:
    """The settings of a run; the same settings and seed give the same bits.

    The paper's ĉ is any real number. `c_range` keeps it in ±½, as in the case study: no price can be further
    from μ = ½. Beside it the paper's corrections also run with ĉ in [0, ½], where ĉ is an interval's width.
    """

    dataset: str = "mnist"
    rounds: int | None = None
    hidden: int = 16
    mu_rate: float = 0.003
    c_rate: float = 0.01
    c_range: tuple[float, float] = (-0.5, 0.5)
    corrections: tuple[str, ...] = tuple(LINEUP)

    def check(self) -> None:
        """Raise a ValueError that names the setting that does not fit."""
        if self.dataset not in ("mnist", "adult"):
            raise ValueError(f"dataset must be 'mnist' or 'adult'; got {self.dataset!r}")
        if self.rounds is not None:
            arguments.whole("rounds", self.rounds, least=1)


def draw_tables(seed: int) -> Floats:
    """Return the losses l(z, y, a) of the twenty tasks: (task, z, action, outcome), ten z, two actions.

    The paper leaves open how many tasks there are of each kind, what is small and large in one-sided ones,
    and whether N(0, z) names a variance. Ours: 7, 7 and 6; U(0, 1), and U(0, 10) times a stake in U(0, 1);
    and the standard deviation.
    """
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
    c_nets: tuple[Any, Any]  # the weights of the twenty networks for c, side by side


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
    return Pass(*out, caps, tables, learner, (W, v))


def run(settings: DecisionSettings, seed: int, own: Own = NOTHING) -> Result:
    """Run all tasks and corrections under one seed: plain numbers and arrays, losses in units of the cap.

    "corrections" are in the paper's setting, "clipped" with ĉ in [0, ½], and "bases" are swap over
    forecasters with other μ, and ĉ = 0.
    """
    events = load(settings, seed, own)
    made = predict_and_stake(events, settings, seed)
    at = np.unique(np.ceil(np.geomspace(1, len(events), _POINTS)).astype(np.int64)) - 1

    def measured(name: str, bets: list[Bets], c_range: tuple[float, float]) -> dict[str, Any]:
        replays = []
        for one, cap in zip(bets, made.caps, strict=True):
            correction = make_correction(name, len(events), c_range, seed, own.corrections)
            replays.append(_replay(one, correction, float(cap)))
        return _in_all(replays, made.caps, events.z, at)

    bets = [
        {"mu": made.mu, "c_hat": made.c_hat[:, k], "stake": made.stake[:, k], "y": events.outcome}
        for k in range(len(TASKS))
    ]
    clipped = [one | {"c_hat": np.maximum(one["c_hat"], 0.0)} for one in bets]
    result: Result = {"seed": seed, "rounds": at + 1}
    result["corrections"] = {name: measured(name, bets, settings.c_range) for name in settings.corrections}
    if events.probability is not None:
        result["corrections"][ORACLE] = measured("none", _bets_under(events.probability, events, made), POINT)
    papers = [name for name in ("swap", *PAPERS) if name in settings.corrections]
    result["clipped"] = {name: measured(name, clipped, (0.0, settings.c_range[1])) for name in papers}
    bases = other_bases(made.mu, seed) if "swap" in papers else {}
    result["bases"] = {
        name: measured("swap", _bets_under(mu, events, made), POINT) for name, mu in bases.items()
    }
    if settings.dataset == "mnist" and own.data is None:
        name = "swap" if "swap" in papers else settings.corrections[0]
        result["honesty"] = honesty(made, result["corrections"][name]["last_lam"], settings.c_range, seed)
    return result


Bets = dict[str, Floats]  # the columns mu, c_hat, stake and y of one task
POINT = (0.0, 0.0)  # the range of ĉ where it is always 0


def other_bases(mu: Floats, seed: int) -> dict[str, Floats]:
    """Return the network's μ, and three poor ones: shifted, noisy and constant."""
    noise = np.random.default_rng(seed).normal(0, BASE_ERROR, len(mu))
    return {
        NETWORK: mu,
        "shift": np.clip(mu + BASE_ERROR, 0.01, 0.99),
        "noise": np.clip(mu + noise, 0.01, 0.99),
        "constant": np.full(len(mu), 0.5),
    }


def _bets_under(mu: Floats, events: Events, made: Pass) -> list[Bets]:
    """Return the bets of trustful agents under another μ, with ĉ = 0."""
    zero, bets = np.zeros(len(mu)), []
    for tables in made.tables:
        table = tables[events.z]
        expected = (1 - mu[:, None]) * table[..., 0] + mu[:, None] * table[..., 1]
        taken = table[np.arange(len(table)), expected.argmin(axis=1)]
        bets.append({"mu": mu, "c_hat": zero, "stake": taken[:, 1] - taken[:, 0], "y": events.outcome})
    return bets


class Replayed(NamedTuple):
    """One task under one correction: c and the forecaster's loss per round, and the last λ."""

    c: Floats
    loss: Floats
    last_lam: float


def _replay(bets: Bets, correction: Correction, cap: float) -> Replayed:
    """Replay one task under a correction."""
    c_range = (float(bets["c_hat"].min()), float(bets["c_hat"].max()))
    f = InsuredForecaster(None, correction, max_stake=cap, c_range=c_range)
    trace = backtest(make_frame(bets, "polars"), f, c_hat="c_hat", trace=True).trace or {}
    return Replayed(trace["c"], trace["payment"], float(trace["lam"][-1]))


def _in_all(replays: list[Replayed], caps: Floats, z: Any, at: Any) -> dict[str, Any]:
    """Sum up the replays of all tasks: curves, how c is spread, and mean losses by group."""
    in_group = np.maximum(1, np.bincount(z, minlength=10))
    losses = [one.loss / cap for one, cap in zip(replays, caps, strict=True)]
    return {
        "curves": np.array([np.cumsum(loss)[at] / (at + 1) for loss in losses]),
        "c_counts": np.sum([np.histogram(one.c, bins=C_BINS)[0] for one in replays], axis=0, dtype=float),
        "negative_c": float(np.mean([(one.c < 0).mean() for one in replays])),
        "mean_size_of_c": float(np.mean([np.abs(one.c).mean() for one in replays])),
        "by_z": np.array([np.bincount(z, weights=loss, minlength=10) / in_group for loss in losses]),
        "last_lam": np.array([one.last_lam for one in replays]),
    }


def honesty(
    made: Pass, lam: Floats, c_range: tuple[float, float], seed: int, bins: int = 15, points: int = 500
) -> dict[str, Any]:
    """Compare forecast and true expected loss on the test digits, recalibrated by histogram binning.

    c is Algorithm 1's own: ĉ of the networks as they are after the last round, plus the last λ of each task.
    The stake hedges the trustful action. `low` and `high` are L_min and L_max under μ ± |c|.
    """
    test = load_mnist("test", seed=seed)
    (W, v, _), slope = made.learner.internals[0][0], made.learner.internals[1][0]
    mu_hat: Floats = np.clip(_frozen_outputs(test, W, v[None, :], slope)[:, 0], 0.01, 0.99)
    which = np.searchsorted(np.quantile(mu_hat, np.arange(1, bins) / bins), mu_hat)
    counts = np.maximum(np.bincount(which, minlength=bins), 1)
    recalibrated = np.bincount(which, weights=test.outcome, minlength=bins) / counts
    chosen = np.random.default_rng(seed).choice(len(test), points, replace=False)
    mu, truth = recalibrated[which[chosen]], np.asarray(test.probability)[chosen]
    c_hat = np.clip(_frozen_outputs(test.take(chosen), *made.c_nets, slope), *c_range)
    columns: dict[str, list[Floats]] = {name: [] for name in ("forecasted", "true", "insured", "low", "high")}
    for k, table in enumerate(made.tables[:, test.z[chosen]]):
        c = c_hat[:, k] + lam[k]
        action = ((1 - mu[:, None]) * table[..., 0] + mu[:, None] * table[..., 1]).argmin(axis=1)
        losses = table[np.arange(points), action]
        forecasted, true = ((1 - p) * losses[:, 0] + p * losses[:, 1] for p in (mu, truth))
        stake = losses[:, 1] - losses[:, 0]
        received = (1 - truth) * payment(stake, 0, mu, c) + truth * payment(stake, 1, mu, c)
        half = np.abs(stake * c)
        parts = (forecasted, true, true - received, forecasted - half, forecasted + half)
        for name, column in zip(columns, parts, strict=True):
            columns[name].append(column)
    return {name: np.concatenate(parts) for name, parts in columns.items()}


def _frozen_outputs(events: Events, W: Any, v: Any, slope: float) -> Floats:
    """Return every row's outputs of networks that no longer learn: a column per row of `v`, their outputs.

    `W` has the networks' hidden weights side by side, a row per input and the biases last.
    """
    dense = np.zeros((len(events), events.inputs))
    dense[np.repeat(np.arange(len(events)), np.diff(events.indptr)), events.indices] = events.data
    hidden = dense @ W[:-1] + W[-1]
    active = np.where(hidden < 0, slope * hidden, hidden).reshape(len(events), len(v), -1)
    outputs: Floats = (active * v[:, :-1]).sum(axis=2) + v[:, -1]
    return outputs


# --- the studies ------------------------------------------------------------------------------------------


_SETTINGS = {"corrections": PAPERS_SETTING, "clipped": OUR_SETTING, "bases": "another base, ĉ = 0"}


def _measurements(result: Result) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield everything that a run measured: the setting, the correction or base, and the numbers."""
    for group, setting in _SETTINGS.items():
        for name, measured in result[group].items():
            yield setting, f"swap over {name}" if group == "bases" else name, measured


def _table(results: list[Result]) -> dict[str, Any]:
    columns: dict[str, list[Any]] = {k: [] for k in _COLUMNS["results"]}
    for r in results:
        for setting, name, measured in _measurements(r):
            tasks, points = measured["curves"].shape
            columns["seed"].append(np.full(tasks * points, r["seed"]))
            columns["setting"].append(np.full(tasks * points, setting))
            columns["correction"].append(np.full(tasks * points, name))
            columns["task"].append(np.repeat(np.arange(tasks), points))
            columns["rounds"].append(np.tile(r["rounds"], tasks))
            columns["mean_loss"].append(measured["curves"].ravel())
    return {k: np.concatenate(v) for k, v in columns.items()}


def _summary(results: list[Result]) -> dict[str, Any]:
    rows = [
        (
            r["seed"],
            setting,
            name,
            z,
            float(np.abs(measured["by_z"][:, z]).mean()),
            measured["negative_c"],
            measured["mean_size_of_c"],
        )
        for r in results
        for setting, name, measured in _measurements(r)
        for z in range(10)
    ]
    return as_columns(tuple(_COLUMNS["summary"]), rows)


_LABEL = {"mnist": "MNIST", "adult": "Adult"}


def _pictures(dataset: str, group: str, own: bool, swap: bool) -> dict[str, StudyPicture]:
    """Return the figures of one data set; the paper's figure numbers are for its own data only."""
    label = "your data" if own else _LABEL[dataset]
    figure = {} if own else {"mnist": " (the paper's Figure 2)", "adult": " (the paper's Figure 5)"}
    width = " (the paper's Figure 3)" if dataset == "mnist" and not own else ""
    within = "value of z" if own else group
    quotes = {
        "loss": "Figures 2 and 5: faster to 0",
        "c": "Figure 3: large c are rare",
        "stable": "Negative c",
    }
    said = {key: "" if own else paper.says(name) for key, name in quotes.items()}
    pictures = {
        f"betting_loss_{dataset}": StudyPicture(
            f"Betting loss across 20 tasks on {label}{figure.get(dataset, '')}",
            functools.partial(figures.betting_loss, data=label),
            said["loss"],
        ),
        f"interval_size_{dataset}": StudyPicture(
            f"Histogram of c on {label}{width}",
            functools.partial(figures.interval_size, data=label),
            said["c"],
        ),
        f"stability_{dataset}": StudyPicture(
            f"Negative ĉ, and poor bases, on {label}",
            functools.partial(figures.stability, data=label),
            said["stable"],
        ),
        f"loss_by_group_{dataset}": StudyPicture(
            f"Balance within each {within}, on {label}",
            functools.partial(figures.loss_by_group, group=within, data=label),
        ),
    }
    if not swap:
        del pictures[f"stability_{dataset}"]
    if dataset == "mnist" and not own:
        caption = "Forecasted against true expected loss, with and without bets (the paper's Figure 6)"
        quote = paper.says("Figure 6: with the bets")
        pictures["forecasted_loss"] = StudyPicture(caption, figures.forecasted_loss, quote)
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
    pictures = _pictures(dataset, group, own.data is not None, "swap" in names)
    name = _LABEL[dataset] if own.data is None else own.data.name
    judges = [functools.partial(judge, dataset=name, suffix=dataset) for judge in (*JUDGES, *OUR_JUDGES)]
    return StudyPlan(run, cases, settings, judges, pictures, _table, _summary)


_COLUMNS = {
    "results": {
        "seed": "the seed; it draws the order of the data, the tasks and the networks' first weights",
        "setting": "the paper's, ours with ĉ in [0, ½], or swap over another base",
        "correction": f"the correction, or {ORACLE!r} for a forecaster who says the true probability",
        "task": "the decision task, from 0 to 19",
        "rounds": "forecasts so far",
        "mean_loss": "the forecaster's mean loss over them, in units of the cap",
    },
    "summary": {
        "seed": "the seed",
        "setting": "the setting, as in the results",
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
    10,
    title="Twenty decision tasks on MNIST",
    why="""\
Twenty decision makers with different losses bet on each of 60,000 digits. Losses are in units of the cap, the
most that may be staked on a forecast. The seeds draw the order of the digits, their outcomes, the tasks and
the networks' first weights.

The paper's ĉ, the base learner's c, is any real number; we keep it in ±½. Our own choice, ĉ in [0, ½], stands
beside it. What that clipping does: without a correction every c is at least 0, so the forecaster wins on
average, and the corrections have to bring c below 0 again.

*Algorithm 3 (swap) works as the paper says.* Its loss is close to zero after some two hundred rounds, falls
at least as fast as Theorem 1 states, and c is small. *It is no better than follow-the-leader here.* Both end
equally near to zero, so the claim that swap comes nearest is undecided, and that follow-the-leader fails to
converge is wrong on these data. Only adversaries beat follow-the-leader. Leaving c uncorrected is worse.

Gradient descent with large steps, which the paper does not run, and our own corrections end nearer to zero
than swap; the fastest of them nearer even than an *oracle* that says the true probability. This is not
forecasting skill. A correction that adds up its losses pays back past luck, so its mean loss falls faster
than chance allows. The oracle shows what chance alone does.

These c are below 0 about as often as above: they are prices, not intervals. As the paper says, the loss under
a calibrated forecast is never the true one, and with the bets it is always in the range of μ ± |c|. Balance
is over all bets: within one digit every correction is about as far off as none at all.""",
    shown="You have just seen twenty decision makers insure themselves on MNIST digits, and which correction "
    "brings the forecaster's mean loss nearest to zero.",
    next_step="Next, see who can beat these corrections on purpose: makewhole study adversaries.",
)
ADULT = _study(
    "adult",
    "decile of age",
    10,
    title="Twenty decision tasks on Adult",
    why="""\
The same tasks on Adult, where the true probability is not known and there is no oracle. The seeds draw the
order of the rows, the tasks and the networks' first weights. The verdicts are those of MNIST with four
exceptions. Large c fade more slowly than exponentially. The loss without a correction also vanishes, though
more slowly than swap's. Follow-the-leader ends with a small loss. And over each of the poor bases swap's loss
falls as fast as Theorem 1 states, which MNIST leaves undecided.""",
    shown="You have just seen twenty decision makers insure themselves on forecasts of income (UCI Adult), "
    "and which correction brings the forecaster's mean loss nearest to zero.",
    next_step="Next, run the same tasks on your own data: the page docs/studies.md shows how, with "
    'makewhole.studies.run("adult", data=...).',
)
