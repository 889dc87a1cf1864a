"""K classes: the certain loss for every class, and the bounds against a linear programme."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import linprog

import makewhole as mw
from makewhole import multiclass


@st.composite
def problems(draw: st.DrawFn, *, simplex: bool, believable: bool = False) -> tuple[Any, Any, Any]:
    """Losses, mu and c for some K; with many ties, zeros and constants among them."""
    k = draw(st.integers(2, 6))
    number = st.one_of(st.integers(-3, 3).map(float), st.floats(-100, 100))
    losses = draw(arrays(np.float64, k, elements=number))
    raw = draw(arrays(np.float64, k, elements=st.one_of(st.sampled_from([0.0, 1.0]), st.floats(0.01, 1))))
    if simplex:
        mu = (raw + (1e-3 if raw.sum() == 0 else 0)) / (raw.sum() or 1e-3 * k)
        mu[-1] += 1 - mu.sum()
        mu = np.clip(mu, 0, 1)
    else:
        mu = raw
    c = draw(arrays(np.float64, k, elements=st.one_of(st.sampled_from([0.0, 0.25]), st.floats(0, 1))))
    return losses, mu, c * mu if believable else c


def total_losses(losses: Any, stake: Any, mu: Any, c: Any) -> Any:
    paid = [multiclass.payment(stake, y, mu, c, simplex=False) for y in range(len(losses))]
    return losses - np.array(paid)


@given(problems(simplex=True))
def test_with_the_hedge_the_total_loss_is_the_upper_bound_for_every_class(
    problem: tuple[Any, Any, Any],
) -> None:
    losses, mu, c = problem
    totals = total_losses(losses, multiclass.hedge(losses, mu, c), mu, c)
    high = multiclass.loss_bounds(losses, mu, c).high
    scale = max(1e-300, np.abs(losses).max()) * (2 + c.sum())
    assert np.abs(totals - high).max() <= 1e-12 * scale


@pytest.mark.slow
@given(problems(simplex=False))
def test_the_loss_is_certain_and_least_also_where_mu_does_not_sum_to_one(
    problem: tuple[Any, Any, Any],
) -> None:
    losses, mu, c = problem
    totals = total_losses(losses, multiclass.hedge(losses, mu, c, simplex=False), mu, c)
    high = multiclass.loss_bounds(losses, mu, c, simplex=False).high
    scale = max(1e-300, np.abs(losses).max()) * (2 + c.sum() + mu.sum())
    assert np.abs(totals - high).max() <= 1e-12 * scale
    # no level among the losses does better; a convex, piecewise linear cost is least at one of them
    for level in losses:
        other = total_losses(losses, losses - level, mu, c).max()
        assert high <= other + 1e-12 * scale


@pytest.mark.slow
@given(problems(simplex=True, believable=True))
def test_bounds_equal_the_linear_programme(problem: tuple[Any, Any, Any]) -> None:
    losses, mu, c = problem
    bounds = multiclass.loss_bounds(losses, mu, c)
    box = [(max(0.0, m - w), min(1.0, m + w)) for m, w in zip(mu, c, strict=True)]
    scale = 1e-7 * max(1.0, np.abs(losses).max())
    for sign, bound in ((-1, bounds.high), (1, bounds.low)):
        solved = linprog(sign * losses, A_eq=np.ones((1, len(mu))), b_eq=[mu.sum()], bounds=box)
        assert solved.success
        assert abs(sign * solved.fun - bound) <= scale


@pytest.mark.slow
@given(
    st.lists(st.integers(-4, 4), min_size=4, max_size=4),
    st.lists(st.sampled_from([0.0, 0.25, 0.5]), min_size=4, max_size=4),
)
def test_of_all_best_levels_the_one_with_the_smallest_largest_stake_is_taken(
    losses: list[int], widths: list[float]
) -> None:
    # numbers that floats hold exactly, so that ties are ties
    array, mu, c = np.array(losses, dtype=float), np.full(4, 0.25), np.array(widths)
    stake = multiclass.hedge(array, mu, c)
    least = multiclass.loss_bounds(array, mu, c).high
    levels = np.arange(-16, 17) / 4
    costs = [total_losses(array, array - level, mu, c).max() for level in levels]
    assert min(costs) == least
    best = [np.abs(array - level).max() for level, cost in zip(levels, costs, strict=True) if cost == least]
    assert np.abs(stake).max() == min(best)


@given(st.floats(-100, 100), st.floats(-100, 100), st.floats(0, 1), st.floats(0, 1))
def test_two_classes_with_equal_widths_agree_with_binary(
    if_0: float, if_1: float, mu: float, c: float
) -> None:
    many = multiclass.loss_bounds([if_0, if_1], [1 - mu, mu], [c, c])
    assert np.allclose(many, mw.loss_bounds((if_0, if_1), mu, c), atol=1e-9)


def test_the_plain_median_is_wrong_where_mu_does_not_sum_to_one() -> None:
    mu, c, losses = [0.9, 0.4, 0.4], [0.1, 0.4, 0.4], np.array([0.0, 0.0, 1.0])
    assert multiclass.loss_bounds(losses, mu, c, simplex=False).high == pytest.approx(0.2)
    assert total_losses(losses, losses - 0.0, mu, c).max() == pytest.approx(0.8)


def test_rows_are_events() -> None:
    draw = np.random.default_rng(0)
    losses, mu, c = draw.normal(size=(50, 4)), draw.dirichlet(np.ones(4), 50), draw.uniform(0, 0.2, (50, 4))
    together = multiclass.hedge(losses, mu, c)
    one_by_one = [multiclass.hedge(*row) for row in zip(losses, mu, c, strict=True)]
    assert np.array_equal(together, one_by_one)
    assert multiclass.payment(together, np.arange(50) % 4, mu, c).shape == (50,)


@pytest.mark.parametrize(
    ("mu", "c", "message"),
    [
        ([0.5, 0.4], [0, 0], "the sum of mu over its last axis must be 1; got 0.9"),
        ([0.5, 0.5], [0, -0.1], "c must not be negative for classes; got -0.1 at index 1"),
        ([0.5, 0.5], [0, 0, 0], "c must have 2 classes"),
        ([0.2, 0.3, 0.5], [0, 0, 0], "stake must have 3 classes"),
        ([1.0], [0], "at least two classes"),
    ],
)
def test_bad_values_are_named(mu: Any, c: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        multiclass.payment([1, 2], 0, mu, c)


def test_an_outcome_must_be_a_class() -> None:
    with pytest.raises(ValueError, match="outcome must be a class index, one of 0 … 1; got 2"):
        multiclass.payment([1, 2], 2, [0.5, 0.5], [0, 0])
    with pytest.raises(ValueError, match=r"got 0\.5"):
        multiclass.payment([1, 2], 0.5, [0.5, 0.5], [0, 0])
