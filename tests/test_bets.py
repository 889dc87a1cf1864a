"""Fair bets: the certain loss, the three forms of a bet, and Lemma 1 in both directions."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import makewhole as mw

probability = st.floats(0, 1)
amount = st.floats(-1e6, 1e6)
width = st.floats(-2, 2)


def intervals() -> st.SearchStrategy[tuple[float, float]]:
    """(mu, c) with [mu - c, mu + c] inside [0, 1]."""
    return st.tuples(probability, st.floats(0, 1)).map(lambda p: (p[0], p[1] * min(p[0], 1 - p[0])))


@given(amount, amount, probability, width)
def test_with_the_hedge_the_total_loss_is_the_upper_bound_for_both_outcomes(
    if_0: float, if_1: float, mu: float, c: float
) -> None:
    stake = mw.hedge((if_0, if_1))
    high = mw.loss_bounds((if_0, if_1), mu, c).high
    scale = max(abs(if_0), abs(if_1), 1e-300) * (1 + abs(c))
    for outcome, loss in enumerate((if_0, if_1)):
        assert abs(loss - mw.payment(stake, outcome, mu, c) - high) <= 1e-12 * scale


@given(amount, amount, intervals(), probability)
def test_the_bounds_hold_every_expected_loss_in_the_interval_and_are_attained_at_its_ends(
    if_0: float, if_1: float, forecast: tuple[float, float], share: float
) -> None:
    (mu, c), scale = forecast, 1e-9 * max(abs(if_0), abs(if_1), 1e-300)
    low, expected, high = mw.loss_bounds((if_0, if_1), mu, c)
    at = [if_0 + p * (if_1 - if_0) for p in (mu - c, mu + c, mu - c + 2 * c * share)]
    assert low - scale <= at[2] <= high + scale
    assert abs(min(at[:2]) - low) <= scale
    assert abs(max(at[:2]) - high) <= scale
    assert low <= expected <= high


def test_with_a_negative_c_the_bounds_change_places_and_high_is_still_the_hedged_loss() -> None:
    low, expected, high = mw.loss_bounds((0, 1), mu=0.5, c=-0.1)
    assert (low, expected, high) == (0.6, 0.5, 0.4)
    assert all(y - mw.payment(1.0, y, 0.5, -0.1) == pytest.approx(high) for y in (0, 1))
    assert not mw.Forecast(0.5, -0.1).is_interval


def test_beyond_the_probabilities_the_hedged_loss_is_larger_than_any_loss() -> None:
    assert mw.loss_bounds((0, 1), mu=0.9, c=0.2).high == pytest.approx(1.1)
    assert not mw.Forecast(0.9, 0.2).is_interval


@given(amount, probability, width)
def test_the_premium_form_pays_the_same(stake: float, mu: float, c: float) -> None:
    price, payout, pays_on = mw.premium(stake, mu, c)
    for outcome in (0, 1):
        received = payout * (outcome == pays_on) - price
        due = mw.payment(stake, outcome, mu, c)
        assert math.isclose(received, due, rel_tol=1e-12, abs_tol=1e-12 * (1 + abs(c)) * abs(stake))


@given(st.floats(0, 1e6), intervals())
def test_the_delay_form_pays_the_same(payout: float, forecast: tuple[float, float]) -> None:
    mu, c = forecast
    if mu + c > 0.999:
        return
    quote = mw.delay_quote(payout, mu, c)
    stake = payout + quote
    assert math.isclose(mw.payment(stake, 1, mu, c), payout, rel_tol=1e-9, abs_tol=1e-9)
    assert math.isclose(mw.payment(stake, 0, mu, c), -quote, rel_tol=1e-9, abs_tol=1e-9)


@given(st.tuples(amount, amount), intervals())
def test_lemma_1_an_accepted_contract_is_dominated_and_fair_under_every_belief(
    contract: tuple[float, float], forecast: tuple[float, float]
) -> None:
    mu, c = forecast
    accepts, stake = mw.must_accept(contract, mu, c)
    scale = 1e-12 * (abs(contract[0]) + abs(contract[1]))
    beliefs = np.linspace(mu - c, mu + c, 101)
    expected = (1 - beliefs) * contract[0] + beliefs * contract[1]
    dominated = all(contract[y] <= mw.payment(stake, y, mu, c) + scale for y in (0, 1))
    if accepts:
        assert expected.max() <= scale
        assert dominated
    else:
        assert expected.max() > -scale
        # no other stake dominates it either
        for b in np.linspace(-3, 3, 61) * (abs(contract[0]) + abs(contract[1])):
            assert not all(contract[y] < mw.payment(b, y, mu, c) - scale for y in (0, 1))


@given(amount, intervals(), st.floats(0, 100), st.floats(0, 100))
def test_lemma_1_whatever_a_stake_dominates_must_be_accepted(
    stake: float, forecast: tuple[float, float], less_0: float, less_1: float
) -> None:
    mu, c = forecast
    contract = (mw.payment(stake, 0, mu, c) - less_0, mw.payment(stake, 1, mu, c) - less_1)
    assert mw.must_accept(contract, mu, c).accepts


@pytest.mark.parametrize(("mu", "c"), [(0.75, 0.25), (0.25, 0.25), (0.5, 0.5), (1.0, 0.0), (0.0, 0.0)])
@pytest.mark.parametrize("if_0", [-3.0, 0.0, 2.0])
@pytest.mark.parametrize("if_1", [-2.0, 0.0, 1.0])
def test_lemma_1_where_the_interval_reaches_0_or_1(mu: float, c: float, if_0: float, if_1: float) -> None:
    """The printed proof takes the b with f(1) = b(1 − μ) − |b|c: where μ + c = 1, none or many have it."""
    accepts, stake = mw.must_accept((if_0, if_1), mu, c)
    assert accepts == all(if_0 + p * (if_1 - if_0) <= 0 for p in (mu - c, mu + c))
    if accepts:
        assert all(f <= mw.payment(stake, y, mu, c) for y, f in enumerate((if_0, if_1)))


def test_lemma_1_refuses_what_is_no_belief() -> None:
    with pytest.raises(ValueError, match=r"\[mu - c, mu \+ c\] must lie in \[0, 1\]"):
        mw.must_accept((0, 0), mu=0.1, c=0.2)
    with pytest.raises(ValueError, match="with c >= 0"):
        mw.must_accept((0, 0), mu=0.5, c=-0.1)


def test_scalars_give_floats_and_arrays_broadcast() -> None:
    assert type(mw.payment(1, 1, 0.5, 0)) is float
    assert type(mw.payment(np.float64(1), np.int64(1), 0.5, 0)) is float
    assert mw.payment(np.ones((3, 1)), [0, 1], 0.5, 0).shape == (3, 2)
    assert mw.hedge(np.zeros((4, 5, 2))).shape == (4, 5)
    assert mw.loss_bounds(np.zeros((4, 2)), np.full(4, 0.5), 0.1).high.shape == (4,)
    assert mw.premium([1, -1], 0.25, 0.0).pays_on.tolist() == [1, 0]
    assert mw.must_accept([[0, 0], [1, 1]], 0.5, 0.1).accepts.tolist() == [True, False]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(stake=1, outcome=1, mu=1.3, c=0), r"mu must lie in \[0, 1\]; got 1.3"),
        (dict(stake=1, outcome=1, mu=[0.1, 0.2, -0.5], c=0), r"got -0.5 at index 2"),
        (dict(stake=1, outcome=1, mu=37, c=0), r"a percentage\? divide by 100"),
        (dict(stake=np.nan, outcome=1, mu=0.5, c=0), "stake must be finite; got nan"),
        (dict(stake=1, outcome=1, mu=0.5, c=np.inf), "c must be finite; got inf"),
        (dict(stake=1, outcome=2, mu=0.5, c=0), "outcome must be 0 or 1; got 2"),
        (dict(stake=[1, 2], outcome=[1, 0, 1], mu=0.5, c=0), r"shapes must broadcast; got stake \(2,\)"),
        (dict(stake=[[1], [2, 3]], outcome=1, mu=0.5, c=0), "rectangular"),
    ],
)
def test_bad_values_are_named(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        mw.payment(**arguments)


@pytest.mark.parametrize("nonsense", ["0.5", None, ["a"], {"mu": 1}, 1j])
def test_what_is_no_number_is_a_type_error(nonsense: Any) -> None:
    with pytest.raises(TypeError, match="mu must be a number"):
        mw.payment(1, 1, nonsense, 0)


def test_there_is_no_delay_quote_where_the_ask_reaches_one() -> None:
    with pytest.raises(ValueError, match=r"mu \+ c must be below 1 for delay insurance; got 1.0"):
        mw.delay_quote(100, mu=0.75, c=0.25)
    with pytest.raises(ValueError, match="payout must not be negative"):
        mw.delay_quote(-1, mu=0.5, c=0.0)


def test_losses_must_come_in_pairs() -> None:
    with pytest.raises(ValueError, match=r"last axis of length 2, \(if 0, if 1\); got shape \(3,\)"):
        mw.hedge([1, 2, 3])
