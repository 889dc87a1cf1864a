"""Check that a correction, forecaster or agent of your own works with makewhole.

Each check takes a function without arguments that returns a new object, and raises an AssertionError that
says what is wrong.
"""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from makewhole.agents import Decision
from makewhole.corrections import Correction
from makewhole.decisions import Forecast
from makewhole.forecasters import BaseForecaster, adapt
from makewhole.insured.forecaster import InsuredForecaster
from makewhole.protocol import Agent, Forecaster


def _expect(holds: bool, message: str) -> None:
    """Raise an AssertionError unless `holds`; unlike assert, also under `python -O`."""
    if not holds:
        raise AssertionError(message)


# --- corrections ------------------------------------------------------------------------------------------


def check_correction(make: Callable[[], Correction]) -> None:
    """Check a correction: its four methods, its state, and outcomes that come late or have no weight.

    Parameters
    ----------
    make
        A function without arguments that returns a new correction.

    Raises
    ------
    AssertionError
        If something is wrong; the message says what.

    Examples
    --------
    >>> import makewhole as mw
    >>> mw.checks.check_correction(lambda: mw.SwapRegret(cells=5, seed=1))
    """
    _expect(callable(make), f"make must be a function that returns a new object; got {make!r}")
    fresh = make()
    _expect(isinstance(fresh, Correction), "a correction must have propose, observe, state and from_state")
    _proposes_finite_numbers(fresh)
    _is_reproducible(make)
    _survives_a_round_trip(make())
    _ignores_weight_zero(make())
    _takes_outcomes_late(make())
    _refuses_nonsense(make())


def _targets() -> list[tuple[float, float]]:
    draw = np.random.default_rng(0)
    xs, ws = draw.uniform(-1.5, 1, 2000), draw.uniform(0, 1, 2000)
    return list(zip(xs.tolist(), ws.tolist(), strict=True))


def _feed(correction: Correction, pairs: list[tuple[float, float]]) -> list[float]:
    played = []
    for target, weight in pairs:
        proposal = correction.propose()
        played.append(proposal.lam)
        correction.observe(proposal, target, weight)
    return played


def _proposes_finite_numbers(correction: Correction) -> None:
    first = correction.propose()
    _expect(
        isinstance(first, tuple) and hasattr(first, "lam"), f"propose must return a Proposal; got {first!r}"
    )
    for lam in _feed(correction, _targets()):
        _expect(
            isinstance(lam, float) and math.isfinite(lam),
            f"propose().lam must be a finite float; got {lam!r}",
        )


def _is_reproducible(make: Callable[[], Correction]) -> None:
    first, second = make(), make()
    state = first.state()
    second = type(second).from_state(copy.deepcopy(state))
    _expect(
        _feed(first, _targets()) == _feed(second, _targets()),
        "two corrections with the same state must propose the same λ",
    )


def _survives_a_round_trip(correction: Correction) -> None:
    pairs = _targets()
    _feed(correction, pairs[:100])
    state = correction.state()
    text = json.dumps(state, allow_nan=False)
    _spoil(state)
    _expect(
        json.dumps(correction.state()) == text,
        "state() must return a copy: changing it must not change the correction",
    )
    again = type(correction).from_state(json.loads(text))
    _expect(
        _feed(correction, pairs[100:]) == _feed(again, pairs[100:]),
        "from_state(state()) must propose the same λ as the original, even if saved as JSON in between",
    )


def _spoil(value: Any) -> None:
    """Change every value in nested dicts and lists."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in list(items):
        _spoil(inner)
        if not isinstance(inner, (dict, list)):
            value[key] = 0.123


def _ignores_weight_zero(correction: Correction) -> None:
    _feed(correction, _targets()[:20])
    proposal = correction.propose()
    before = json.dumps(correction.state())
    correction.observe(proposal, 0.9, 0.0)
    _expect(json.dumps(correction.state()) == before, "an outcome of weight 0 must not change the state")


def _takes_outcomes_late(correction: Correction) -> None:
    open_ = [correction.propose() for _ in range(20)]
    for proposal, (target, weight) in zip(reversed(open_), _targets(), strict=False):
        correction.observe(proposal, target, weight)
    _expect(
        math.isfinite(correction.propose().lam), "λ must stay finite when outcomes come late and in any order"
    )


def _refuses_nonsense(correction: Correction) -> None:
    proposal = correction.propose()
    before = json.dumps(correction.state())
    json.dumps(list(proposal), allow_nan=False)  # proposals of open forecasts are saved
    for target, weight in [(math.nan, 0.5), (math.inf, 0.5), (0.5, -0.1), (0.5, 1.1), (0.5, math.nan)]:
        try:
            correction.observe(proposal, target, weight)
        except ValueError:
            _expect(
                json.dumps(correction.state()) == before, "an outcome that raises must not change the state"
            )
        else:
            raise AssertionError(f"observe must raise a ValueError for target {target}, weight {weight}")


# --- forecasters ------------------------------------------------------------------------------------------


def check_forecaster(make: Callable[[], Any], xs: Any = None, classes: int | None = None) -> None:
    """Check a base learner, a model that can be used as one, or a whole forecaster.

    Parameters
    ----------
    make
        A function without arguments that returns a new base learner or model (see
        `makewhole.forecasters.adapt`), or a forecaster with the methods `forecast` and `settle`.
    xs
        At least six rows of features of the kind that it expects; by default, twenty rows of None.
    classes
        The number of classes; None for binary events.

    Raises
    ------
    AssertionError
        If something is wrong; the message says what.

    Examples
    --------
    >>> import makewhole as mw
    >>> mw.checks.check_forecaster(lambda: lambda x: 0.3)
    >>> mw.checks.check_forecaster(lambda: mw.InsuredForecaster(lambda x: 0.3, max_stake=1))
    """
    rows = [None] * 20 if xs is None else list(xs)
    _expect(callable(make), f"make must be a function that returns a new object; got {make!r}")
    _expect(len(rows) >= 6, f"xs must be at least six rows of features; got {len(rows)}")
    made = make()
    if not hasattr(made, "settle"):
        _check_base(adapt(made, classes), rows, classes)
        made = InsuredForecaster(make(), max_stake=1.0, classes=classes)
    _check_whole(made, rows)


def _check_base(base: BaseForecaster, rows: list[Any], classes: int | None) -> None:
    unit: Any = 1.0 if classes is None else np.ones(classes)
    for t, x in enumerate(rows):
        first, *others = (base.predict(x), base.predict(rows[0]), base.predict(x), base.predict(x))
        _expect(
            _same(first, others[1]) and _same(first, others[2]),
            "predict must not change the learner: called again, it must return the same",
        )
        mu, c = (np.asarray(part, dtype=np.float64) for part in first)
        shape = () if classes is None else (classes,)
        _expect(
            mu.shape == shape and c.shape == shape,
            f"predict must return μ̂ and ĉ of shape {shape}; got {first!r}",
        )
        _expect(bool(np.isfinite(c).all()), f"ĉ must be finite; got {c}")
        _expect(bool(((mu >= 0) & (mu <= 1)).all()), f"μ̂ must lie in [0, 1]; got {mu}")
        _expect(
            classes is None or abs(float(mu.sum()) - 1) < 1e-6, f"class probabilities must sum to 1; got {mu}"
        )
        net = unit * (0.0, 0.5, -0.5)[t % 3]
        base.learn(x, t % (classes or 2), mu=first[0], net=net, gross=np.abs(net))


def _same(first: tuple[Any, Any], second: tuple[Any, Any]) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))


def _check_whole(forecaster: Forecaster, rows: list[Any]) -> None:
    for t, x in enumerate(rows):
        forecast = forecaster.forecast(x)
        _expect(
            isinstance(forecast, Forecast), f"forecast must return a Forecast; got {type(forecast).__name__}"
        )
        shape, cap = np.shape(forecast.mu), float(getattr(forecaster, "max_stake", 1.0))
        size = cap * (0.5, 0.0, 0.25 if forecast.one_sided else -0.25)[t % 3]
        stake: Any = size if not shape else np.full(shape, size)
        outcome = t % (forecast.classes or 2)
        paid = forecaster.settle(forecast, outcome, stake=stake)
        hit = float(outcome) if forecast.classes is None else np.arange(forecast.classes) == outcome
        due = float(np.sum(stake * (hit - forecast.mu) - np.abs(stake) * forecast.c))
        _expect(
            len(paid) == 1 and abs(paid[0] - due) < 1e-9 * (1 + cap),
            f"settle must pay b(y−μ) − |b|c = {due}; got {paid!r}",
        )


# --- agents -----------------------------------------------------------------------------------------------


def check_agent(make: Callable[[], Agent], max_stake: float = 1.0, classes: int | None = None) -> None:
    """Check an agent: it must answer any forecast with a finite stake of the right shape within the cap.

    Parameters
    ----------
    make
        A function without arguments that returns a new agent, with the method `act`.
    max_stake
        The cap: the largest stake that the agent may place.
    classes
        The number of classes; None for binary events.

    Raises
    ------
    AssertionError
        If something is wrong; the message says what.

    Examples
    --------
    >>> import makewhole as mw
    >>> mw.checks.check_agent(lambda: mw.agents.Random(seed=0))
    """
    agent = make()
    draw = np.random.default_rng(0)
    for i in range(60):
        one_sided = i % 3 == 2
        if classes is None:
            mu, c = float(draw.uniform()), 0.0 if one_sided else float(draw.uniform(-0.1, 0.5))
            forecast = Forecast(mu, c, i, None, one_sided)
        else:
            c_all = np.zeros(classes) if one_sided else draw.uniform(0, 0.3, classes)
            forecast = Forecast(draw.dirichlet(np.ones(classes)), c_all, i, classes, one_sided)
        decision = agent.act(forecast)
        _expect(isinstance(decision, Decision), f"act must return a Decision; got {type(decision).__name__}")
        stake = np.asarray(decision.stake, dtype=np.float64)
        shape = () if classes is None else (classes,)
        _expect(stake.shape == shape, f"a stake must have shape {shape}; got {stake.shape}")
        _expect(bool(np.isfinite(stake).all()), f"a stake must be finite; got {stake}")
        _expect(
            bool((np.abs(stake) <= max_stake).all()),
            f"a stake must be at most max_stake, {max_stake}; got {stake}",
        )
        _expect(
            not one_sided or bool((stake >= 0).all()),
            f"stakes on a one-sided forecast must be >= 0; got {stake}",
        )
        if decision.losses is not None:
            length = len(np.asarray(decision.losses))
            _expect(bool(np.isfinite(decision.losses).all()), f"losses must be finite; got {decision.losses}")
            _expect(length == (classes or 2), f"losses must have one number per outcome; got {length}")
