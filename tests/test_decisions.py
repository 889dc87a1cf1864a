"""Plans: the insured loss is certain, never worse than going without, and what is left open is reported."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

import makewhole as mw
from makewhole.decisions import Plan
from samples import trial

loss = st.floats(-100, 100)
tables = st.dictionaries(st.text(min_size=1, max_size=3), st.tuples(loss, loss), min_size=1, max_size=4)


def totals(plan: Plan, table: Any, mu: float, c: float) -> list[float]:
    return [table[plan.action][y] - mw.payment(plan.stake, y, mu, c) for y in (0, 1)]


@pytest.mark.slow
@given(tables, st.floats(0, 1), st.floats(-0.5, 1.5), st.one_of(st.none(), st.floats(0.1, 50)))
def test_a_plans_loss_is_the_most_that_can_happen_and_its_spread_how_much_less(
    table: Any, mu: float, c: float, cap: float | None
) -> None:
    plan = mw.insure(mw.Forecast(mu, c), table, max_stake=cap)
    outcomes = totals(plan, table, mu, c)
    assert max(outcomes) == pytest.approx(plan.loss, abs=1e-9)
    assert max(outcomes) - min(outcomes) == pytest.approx(plan.spread, abs=1e-9)
    assert cap is None or abs(plan.stake) <= cap


@given(tables, st.floats(0, 1), st.floats(0, 1))
def test_insured_she_never_does_worse_than_the_best_of_hedging_and_not(
    table: Any, mu: float, c: float
) -> None:
    plan = mw.insure(mw.Forecast(mu, c), table)
    best = min(min(mw.loss_bounds(l, mu, c).high, max(l)) for l in table.values())  # noqa: E741 - l(a, y)
    assert plan.loss == pytest.approx(best, abs=1e-9)


def test_the_example_of_every_doc() -> None:
    plan = mw.insure(mw.Forecast(mu=0.5, c=0.0), {"use": (2, -10), "skip": (0, 0)})
    assert plan == ("use", -12.0, -4.0, 0.0, -4.0)


def test_cover_that_costs_more_than_it_can_pay_is_not_bought() -> None:
    plan = mw.insure(mw.Forecast(mu=0.9, c=0.3), {"go": (0, 10)})
    assert (plan.stake, plan.loss, plan.spread) == (0.0, 10.0, 10.0)


def test_a_one_sided_forecast_takes_no_negative_stake() -> None:
    plan = mw.insure(mw.Forecast(mu=0.5, c=0.0, one_sided=True), {"use": (2, -10)})
    assert (plan.stake, plan.loss, plan.spread) == (0.0, 2.0, 12.0)
    plan = mw.insure(mw.Forecast(mu=0.5, c=0.0, one_sided=True), {"fly": (0, 10)})
    assert (plan.stake, plan.loss, plan.spread) == (10.0, 5.0, 0.0)


def test_rules_against_brute_force() -> None:
    draw = np.random.default_rng(0)
    for _ in range(200):
        table, mu = draw.normal(size=(4, 2)), float(draw.uniform())
        expected = [(1 - mu) * l[0] + mu * l[1] for l in table]  # noqa: E741 - l(a, y)
        forecast = mw.Forecast(mu)
        assert mw.decide(forecast, table, rule="trustful").action == np.argmin(expected)
        assert mw.decide(forecast, table, rule="cautious").action == np.argmin(table.max(axis=1))
        assert mw.decide(forecast, table, rule="naive").action == np.argmin(table[:, 0])
        assert mw.decide(forecast, table, rule="naive", assume=1).action == np.argmin(table[:, 1])


def test_many_rows_at_once_are_the_rows_one_by_one() -> None:
    draw = np.random.default_rng(1)
    mu, c, table = draw.uniform(size=30), draw.uniform(0, 0.3, 30), draw.normal(size=(30, 3, 2))
    ways: list[Callable[[mw.Forecast, Any], Plan]] = [
        lambda f, t: mw.insure(f, t, max_stake=1),
        lambda f, t: mw.decide(f, t, rule="trustful"),
    ]
    for plan_of in ways:
        many = plan_of(mw.Forecast(mu, c), table)
        for i in range(30):
            one = plan_of(mw.Forecast(float(mu[i]), float(c[i])), table[i])
            assert tuple(np.asarray(column)[i] for column in many) == tuple(one)


def test_one_table_serves_many_forecasts_and_names_survive() -> None:
    plan = mw.insure(mw.Forecast(np.array([0.1, 0.9])), {"fly": (0, 10), "drive": (4, 4)})
    assert plan.action.tolist() == ["fly", "drive"]
    assert plan.loss.tolist() == pytest.approx([1.0, 4.0])


def test_classes_hedge_every_outcome() -> None:
    draw = np.random.default_rng(2)
    mu, c, table = (
        draw.dirichlet(np.ones(3), 20),
        draw.uniform(0, 0.05, (20, 3)),
        draw.normal(size=(20, 4, 3)),
    )
    plan = mw.insure(mw.Forecast(mu, c, classes=3), table)
    assert plan.stake.shape == (20, 3)
    for y in range(3):
        taken = table[np.arange(20), plan.action, y] - mw.multiclass.payment(plan.stake, y, mu, c)
        assert np.all(taken <= plan.loss + 1e-12)
        assert np.allclose(taken[plan.spread == 0], plan.loss[plan.spread == 0], atol=1e-12)


def least_worst_case(losses: Any, forecast: mw.Forecast, cap: float | None) -> float:
    """The least that the worst case can be, from a solver: −∞ if there is no least.

    It minimises t, where t >= l_y − g_y + <g, μ> + <p + n, c>, g = p − n, and 0 <= p, n <= cap.
    """
    k, mu, c = len(losses), np.asarray(forecast.mu), np.asarray(forecast.c)
    rows = np.hstack([mu + c - np.eye(k), c - mu + np.eye(k), -np.ones((k, 1))])
    most = [(0, cap)] * k + [(0, 0 if forecast.one_sided else cap)] * k + [(None, None)]
    best = linprog([0] * (2 * k) + [1], A_ub=rows, b_ub=-np.asarray(losses), bounds=most)
    assert best.status in (0, 3)
    return float(best.fun) if best.status == 0 else -np.inf


@st.composite
def class_problems(draw: st.DrawFn) -> tuple[mw.Forecast, Any]:
    """Three actions, and a forecast of four classes, honest or not: c may exceed μ, μ need not sum to 1."""
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    mu, one_sided = rng.dirichlet(np.ones(4)), draw(st.booleans())
    simplex = draw(st.booleans())
    if not simplex:
        mu = np.clip(mu + rng.uniform(-0.3, 0.3, 4), 0, 1)
    c = rng.uniform(0, draw(st.sampled_from([0.0, 0.05, 0.2, 1.0])), 4)
    forecast = mw.Forecast(mu, c, classes=4, one_sided=one_sided, simplex=simplex)
    losses = rng.integers(-3, 4, (3, 4)) if draw(st.booleans()) else rng.normal(size=(3, 4))
    return forecast, losses.astype(float)


@pytest.mark.slow
@settings(max_examples=150)
@given(class_problems(), st.one_of(st.none(), st.floats(0.05, 10)))
def test_no_action_and_stake_on_classes_has_a_smaller_worst_case(
    problem: tuple[mw.Forecast, Any], cap: float | None
) -> None:
    forecast, losses = problem
    plan = mw.insure(forecast, losses, max_stake=cap)
    taken = losses[plan.action]
    paid = [mw.multiclass.payment(plan.stake, y, forecast.mu, forecast.c, simplex=False) for y in range(4)]
    assert np.max(taken - paid) == pytest.approx(plan.loss, abs=1e-9)
    assert np.ptp(taken - paid) == pytest.approx(plan.spread, abs=1e-9)
    assert np.abs(plan.stake).max() <= (np.ptp(taken) if cap is None else cap)
    assert not forecast.one_sided or plan.stake.min() >= 0
    least = min(least_worst_case(row, forecast, cap) for row in losses)
    assert plan.loss >= least - 1e-7
    if least > -np.inf:  # else the same stake on every class wins for certain
        assert plan.loss <= least + 1e-7


@pytest.mark.slow
@given(class_problems(), st.floats(0.05, 10), st.floats(1, 5))
def test_a_larger_cap_is_never_worse(problem: tuple[mw.Forecast, Any], cap: float, times: float) -> None:
    forecast, losses = problem
    small, large, none = (mw.insure(forecast, losses, max_stake=m) for m in (cap, cap * times, None))
    assert large.loss <= small.loss + 1e-9
    if min(least_worst_case(row, forecast, None) for row in losses) > -np.inf:
        assert none.loss <= large.loss + 1e-9


@st.composite
def one_price_problems(draw: st.DrawFn) -> tuple[Any, float, Any]:
    """Probabilities, one c for all classes, of any sign, and the losses of an action."""
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    k = draw(st.integers(2, 5))
    losses = rng.integers(-3, 4, k) if draw(st.booleans()) else rng.normal(size=k)
    return rng.dirichlet(np.ones(k)), draw(st.floats(-0.5, 0.5)), losses.astype(float)


@given(one_price_problems())
def test_at_one_price_of_any_sign_the_losses_less_their_median_make_the_total_certain(problem: Any) -> None:
    """Σ μ_k·l_k + c·Σ|l_k − m|, whichever class happens, in the books that take the bet."""
    mu, c, losses = problem
    k = len(mu)
    f = mw.InsuredForecaster(None, mw.NoCorrection(), max_stake=9.0, classes=k, c_range=(-0.5, 0.5))
    q = f.forecast(mu=mu, c_hat=c)
    assert q == mw.Forecast(mu, np.full(k, c), 0, classes=k, one_price=True)
    f.stake(q, mw.multiclass.centred(losses))
    spread = min(np.abs(losses - m).sum() for m in losses)
    totals = [losses[y] - trial(f, q, y)[0] for y in range(k)]
    assert totals == pytest.approx([mu @ losses + c * spread] * k, abs=1e-12)
    plan = mw.insure(q, {"go": losses})
    assert plan.loss <= totals[0] + 1e-12
    if c <= 0:
        assert plan.loss == pytest.approx(totals[0], abs=1e-12)
        assert plan.spread == 0.0
    else:  # nothing is better: a bet less its median costs least
        least = least_worst_case(losses, mw.Forecast(mu, c, classes=k), None)
        assert plan.loss == pytest.approx(least, abs=1e-7)


@given(one_price_problems(), st.floats(0.05, 2))
def test_at_one_price_a_plan_within_the_cap_is_what_the_books_pay(problem: Any, cap: float) -> None:
    mu, c, losses = problem
    k = len(mu)
    f = mw.InsuredForecaster(None, mw.NoCorrection(), max_stake=cap, classes=k, c_range=(-0.5, 0.5))
    q = f.forecast(mu=mu, c_hat=c)
    plan = mw.insure(q, [losses, np.zeros(k)], max_stake=cap)
    f.stake(q, plan.stake)
    taken = losses if plan.action == 0 else np.zeros(k)
    totals = np.array([taken[y] - trial(f, q, y)[0] for y in range(k)])
    assert totals.max() == pytest.approx(plan.loss, abs=1e-12)
    assert np.ptp(totals) == pytest.approx(plan.spread, abs=1e-12)


def least_at_one_price(losses: Any, mu: Any, c: float, low: Any, high: Any) -> float:
    """The least that the worst case can be at one price c >= 0, from a solver.

    It minimises W + <g, μ> + c·Σt, where g_k >= l_k − W, t_k >= |g_k − m|, and low <= g <= high.
    """
    k = len(losses)
    one, none = np.eye(k), np.zeros((k, k))
    column, nothing = np.ones((k, 1)), np.zeros((k, 1))
    rows = np.vstack(
        [
            np.hstack([-one, none, -column, nothing]),
            np.hstack([one, -one, nothing, -column]),
            np.hstack([-one, -one, nothing, column]),
        ]
    )
    bound = np.concatenate([-np.asarray(losses), np.zeros(2 * k)])
    box = [*zip(np.broadcast_to(low, k), np.broadcast_to(high, k), strict=True), *[(0, None)] * k]
    best = linprog([*mu, *[c] * k, 1, 0], A_ub=rows, b_ub=bound, bounds=[*box, (None, None), (None, None)])
    assert best.status == 0
    return float(best.fun)


@pytest.mark.slow
@settings(max_examples=150)
@given(one_price_problems(), st.one_of(st.none(), st.floats(0.05, 4)))
def test_at_one_price_no_stake_within_the_cap_has_a_smaller_worst_case(
    problem: Any, cap: float | None
) -> None:
    mu, c, losses = problem
    forecast = mw.Forecast(mu, c, classes=len(mu), one_price=True)
    plan = mw.insure(forecast, {"go": losses}, max_stake=cap)
    box = np.ptp(losses) if cap is None else cap
    assert np.abs(plan.stake).max() <= box
    if c >= 0:
        least = least_at_one_price(losses, mu, c, -box, box)
        assert plan.loss == pytest.approx(least, abs=1e-7)
    else:  # of all hedges that are cut off at the cap
        for level in np.linspace(losses.max() - box, losses.max() + box, 41):
            stake = mw.multiclass.centred(np.clip(losses - level, -box, box))
            worst = (losses - stake).max() + stake @ mu + c * np.abs(stake).sum()
            assert plan.loss <= worst + 1e-9


def test_at_one_price_a_cap_of_half_the_range_allows_the_whole_hedge() -> None:
    """Only the part that differs between classes counts: −5, −5, 5 is the same bet as 0, 0, 10."""
    forecast = mw.Forecast([0.5, 0.3, 0.2], 0.01, classes=3, one_price=True)
    plan = mw.insure(forecast, {"go": (0, 0, 10)}, max_stake=5)
    assert plan.stake.tolist() == [-5.0, -5.0, 5.0]
    assert (plan.loss, plan.spread) == (pytest.approx(2.1), 0.0)


def test_many_forecasts_at_one_price_are_planned_as_one_by_one() -> None:
    draw = np.random.default_rng(3)
    mu, c, table = draw.dirichlet(np.ones(3), 30), draw.uniform(-0.1, 0.3, 30), draw.normal(size=(30, 2, 3))
    many = mw.insure(mw.Forecast(mu, np.repeat(c[:, None], 3, axis=1), classes=3, one_price=True), table)
    for i in range(30):
        one = mw.insure(mw.Forecast(mu[i], c[i], classes=3, one_price=True), table[i])
        assert many.loss[i] == one.loss
        assert many.stake[i].tolist() == one.stake.tolist()


@pytest.mark.parametrize(
    ("given_", "message"),
    [
        ({"c": [-0.1, 0.1, 0.1]}, "c must be the same for all classes where one of them is negative"),
        ({"c": [0.1, 0.2, 0.1], "one_price": True}, "c must be the same for all classes"),
        (
            {"c": -0.1, "one_sided": True},
            "c must not be negative for classes, one-sided or clipped; got -0.1",
        ),
        (
            {"c": 0.1, "one_sided": True, "one_price": True},
            "one_price must be False for a one-sided or clipped",
        ),
        ({"c": -0.1, "simplex": False}, "c must not be negative for classes, one-sided or clipped; got -0.1"),
    ],
)
def test_a_negative_c_is_taken_for_classes_where_all_have_the_same(given_: Any, message: str) -> None:
    assert mw.Forecast([0.2, 0.3, 0.5], -0.1, classes=3).one_price
    assert not mw.Forecast([0.2, 0.3, 0.5], 0.1, classes=3).one_price
    with pytest.raises(ValueError, match=message):
        mw.Forecast([0.2, 0.3, 0.5], classes=3, **given_)


def test_a_class_whose_c_exceeds_its_probability_is_not_bet_against() -> None:
    """To stake −b on it costs b·(c − μ), whatever happens: the hedge (−4, 0, 4) loses 3.2 for certain."""
    forecast = mw.Forecast(np.full(3, 1 / 3), 0.4, classes=3)
    plans = [mw.insure(forecast, {"go": (-4.0, 0.0, 4.0)}, max_stake=cap) for cap in (2, 3.9, 4, None)]
    least = [4 - b + b * (1 / 3 + 0.4) for b in (2, 3.9, 4, 4)]
    assert [plan.loss for plan in plans] == pytest.approx(least)
    assert plans[-1].stake.tolist() == [0.0, 0.0, 4.0]
    assert plans[-1].spread == 4.0


def test_a_forecast_rounded_like_a_softmax_is_hedged_and_not_exploited() -> None:
    mu = np.array([0.3, 0.3, 0.4 - 3e-7])
    for cap in (None, 50.0):
        plan = mw.insure(mw.Forecast(mu, 0.0, classes=3), {"go": (0.0, 2.0, 4.0)}, max_stake=cap)
        assert plan.stake.tolist() == [-2.0, 0.0, 2.0]
        assert plan.spread == 0.0


def test_what_is_left_open_on_classes_is_a_range_not_a_size() -> None:
    forecast = mw.Forecast([0.3, 0.3, 0.4], [0.0, 0.0, 0.0], classes=3, one_sided=True)
    plan = mw.insure(forecast, {"go": (-3.0, 0.0, 3.0)}, max_stake=0.5)
    paid = [mw.multiclass.payment(plan.stake, y, forecast.mu, forecast.c) for y in range(3)]
    totals = np.array([-3.0, 0.0, 3.0]) - paid
    assert plan.spread == pytest.approx(np.ptp(totals))


def test_one_probability_with_many_widths_is_many_forecasts() -> None:
    plan = mw.insure(mw.Forecast(0.5, np.array([0.1, 0.4])), {"a": (0, 10)})
    assert plan.loss.tolist() == [6.0, 9.0]
    assert mw.decide(mw.Forecast(0.5, np.array([0.1, 0.4])), {"a": (0, 10)}, rule="cautious").loss.shape == (
        2,
    )


def test_what_is_published_cannot_be_written_over() -> None:
    given = np.array([0.2, 0.8])
    forecast = mw.Forecast(given, 0.0, classes=2)
    with pytest.raises(ValueError, match="read-only"):
        forecast.mu[0] = 0.9
    given[0] = 0.9
    assert forecast.mu[0] == 0.2
    assert hash(mw.Forecast(0.0)) == hash(mw.Forecast(-0.0))


def test_one_sided_classes_stake_nothing_negative_and_are_certain() -> None:
    mu = np.array([0.3, 0.5, 0.4])  # an ask per class: sums to 1.2
    forecast = mw.Forecast(mu, 0.0, classes=3, one_sided=True)
    plan = mw.insure(forecast, {"go": (1.0, 2.0, 5.0)})
    assert plan.stake.tolist() == [0.0, 1.0, 4.0]
    for y, l in enumerate((1.0, 2.0, 5.0)):  # noqa: E741 - l(a, y)
        paid = mw.multiclass.payment(plan.stake, y, mu, np.zeros(3), simplex=False)
        assert l - paid == pytest.approx(plan.loss)


def test_forecasts_are_frozen_compared_by_value_and_checked() -> None:
    forecast = mw.Forecast(0.3, 0.1)
    with pytest.raises(AttributeError):
        forecast.mu = 0.4  # type: ignore[misc]  # that is the point
    assert forecast == mw.Forecast(0.3, 0.1)
    assert forecast != mw.Forecast(0.3, 0.2)
    assert hash(forecast) == hash(mw.Forecast(0.3, 0.1))
    assert forecast.is_interval
    assert mw.Forecast([0.1, 0.5], 0.2).is_interval.tolist() == [False, True]
    assert mw.Forecast([0.5, 0.5], [0.1, 0.1], classes=2).is_interval
    with pytest.raises(ValueError, match=r"mu must lie in \[0, 1\]"):
        mw.Forecast(30)
    with pytest.raises(ValueError, match="sum of mu"):
        mw.Forecast([0.5, 0.6], 0.0, classes=2)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({}, "at least one action"),
        ({"a": (1, 2, 3)}, "2 numbers, one per outcome"),
        ([1, 2], "2 numbers, one per outcome"),
        ({"a": (1, np.nan)}, r"losses\['a'\] must be finite"),
        (np.zeros((3, 2, 2)), "losses must have as many rows as the forecast"),
    ],
)
def test_bad_tables_are_named(table: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        mw.insure(mw.Forecast([0.1, 0.2]), table)


def test_an_unknown_rule_is_named() -> None:
    with pytest.raises(ValueError, match="rule must be 'trustful', 'cautious' or 'naive'; got 'bold'"):
        mw.decide(mw.Forecast(0.5), {"a": (0, 1)}, rule="bold")  # type: ignore[arg-type]  # bad on purpose


@pytest.mark.parametrize("decision", [mw.insure, lambda f, table: mw.decide(f, table, rule="trustful")])
def test_a_bare_number_instead_of_a_forecast_is_told_how_to_become_one(decision: Callable[..., Any]) -> None:
    table = {"use": (2, -10), "skip": (0, 0)}
    with pytest.raises(TypeError, match=r"forecast must be a Forecast: write mw\.Forecast\(mu=0\.5\)"):
        decision(0.5, table)
    with pytest.raises(TypeError, match=r"write mw\.Forecast\(mu=\.\.\.\); got \[0\.5, 0\.2\]"):
        decision([0.5, 0.2], table)


def test_a_class_instead_of_a_correction_is_told_how_to_become_one() -> None:
    with pytest.raises(TypeError, match=r"must be an object, not a class: write Reserve\(\.\.\.\) instead"):
        mw.InsuredForecaster(None, mw.Reserve, max_stake=1)  # type: ignore[arg-type]  # the mistake itself


def test_losses_that_overflow_are_named() -> None:
    with pytest.raises(ValueError, match=r"losses must lie in \[-1e300, 1e300\]; got 1e\+308"):
        mw.insure(mw.Forecast(0.5), {"use": (1e308, -1e308), "skip": (0, 0)})
    plan = mw.insure(mw.Forecast(0.5, 0.1), {"use": (1e300, -1e300), "skip": (0, 0)})
    assert np.isfinite([plan.stake, plan.loss, plan.spread, plan.expected]).all()
