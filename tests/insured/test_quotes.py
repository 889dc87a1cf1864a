"""Quotes: a customer's price and plan, whose they are, and that what she was told is what she loses."""

import contextlib
import copy
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import makewhole as mw
from samples import state, trial

LINES = mw.Lines(each=2.0, share=1.0)
TABLE = {"fly": (0.0, 0.9), "train": (0.3, 0.3)}
KINDS: dict[str, dict[str, Any]] = {
    "binary": {"capital": 20.0, "lines": LINES},
    "exact": {"lines": LINES},
    "one-sided": {"capital": 20.0, "one_sided": True, "lines": LINES},
    "classes": {"capital": 20.0, "classes": 3, "lines": mw.Lines(each=4.0, share=1.0)},
    "one price": {"classes": 3},
}


def book(kind: str) -> mw.InsuredForecaster:
    return mw.InsuredForecaster(max_stake=1.0, stop=False, **KINDS[kind])


def opened(f: mw.InsuredForecaster, id_: str = "UA-1") -> mw.Forecast:
    return f.forecast(mu=0.2 if f.classes is None else [0.2, 0.5, 0.3], id=id_)


def table(f: mw.InsuredForecaster) -> dict[str, Any]:
    return TABLE if f.classes is None else {"go": (0.0, 0.6, 0.9), "stay": (0.7, 0.7, 0.7)}


def won(f: mw.InsuredForecaster, rounds: int, by: Any = "ann") -> None:
    """The customer wins on other forecasts, and so uses up her line."""
    for _ in range(rounds):
        q = f.forecast(mu=0.5 if f.classes is None else [0.5, 0.25, 0.25])
        with contextlib.suppress(mw.StakeRefused):
            f.stake(q, 0.5 if f.classes is None else [0.5, 0.0, 0.0], by=by)
        f.settle(q, 1 if f.classes is None else 0)


# --- a plan -----------------------------------------------------------------------------------------------


def test_a_quote_with_losses_says_what_to_do_and_what_it_costs() -> None:
    f = mw.InsuredForecaster(capital=100_000, max_stake=1_000)
    f.forecast(mu=0.2, id="UA-123")
    quote = f.quote("UA-123", by="ann", losses={"fly": (0, 90), "train": (25, 25)})
    assert isinstance(quote, mw.Quote)
    assert (quote.by, quote.id, quote.action, quote.stake) == ("ann", "UA-123", "fly", 90.0)
    assert (quote.price, quote.loss) == (pytest.approx(19.8), pytest.approx(19.8))
    f.stake(quote, quote.stake, by="ann", price=quote)
    assert 90 - f.settle("UA-123", 1).by["ann"] == pytest.approx(quote.loss)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rounds", [0, 4])
def test_the_price_is_paid_now_and_the_loss_is_the_same_whatever_happens(kind: str, rounds: int) -> None:
    f = book(kind)
    won(f, rounds)
    q, losses = opened(f), table(f)
    before = state(f)
    quote = f.quote(q, by="ann", losses=losses)
    assert state(f) == before
    assert repr(quote.plan) == repr(mw.insure(f.quote(q, by="ann"), losses))
    f.stake(q, quote.stake, by="ann", price=quote)
    stake = np.atleast_1d(quote.stake)
    g = np.array([0.0, *stake]) if f.classes is None else stake
    for y in range(f.classes or 2):
        paid = trial(f, q, y).by.get("ann", 0.0)
        assert paid == pytest.approx(g[y] - g.min() - quote.price)
        assert losses[quote.action][y] - paid <= quote.loss + 1e-12
        if quote.spread == 0.0:
            assert losses[quote.action][y] - paid == pytest.approx(quote.loss)


def test_a_plan_keeps_to_what_the_cap_leaves() -> None:
    for kind in KINDS:
        f = book(kind)
        q = opened(f)
        f.stake(q, 0.75 if f.classes is None else [0.75, 0.0, 0.0], by="bob")
        losses = {"go": (0.0, 0.9) if f.classes is None else (0.9, 0.0, 0.0)}
        quote = f.quote(q, by="ann", losses=losses)
        assert quote.room == ((0.0 if f.one_sided else -0.25), 0.25)
        assert np.abs(quote.stake).max() <= 0.25
        assert repr(mw.insure(quote, losses)) == repr(quote.plan)
        f.stake(q, quote.stake, by="ann", price=quote)


def test_a_quote_says_how_much_would_be_taken_on_each_side() -> None:
    f = mw.InsuredForecaster(max_stake=1.0, capital=50.0)
    q = f.forecast(mu=0.5)
    assert f.quote(q, by="ann").room == (-0.1, 0.1)
    assert f.quote(q).room == (-1.0, 1.0)
    f.stake(q, 0.04, by="ann")
    assert f.quote(q, by="ann").room == pytest.approx((-0.06, 0.06))
    for _ in range(600):
        one = f.forecast(mu=0.5)
        with contextlib.suppress(mw.StakeRefused):
            f.stake(one, 0.1, by="ann")
        f.settle(one, 1)
    before = state(f)
    low, high = f.quote(q, by="ann").room
    assert state(f) == before
    assert high == 0.0  # selling has stopped
    assert low == pytest.approx(-0.06)  # but she may give some back
    assert f.quote(q, by="ann", losses=TABLE).stake == 0.0
    f.stake(q, low, by="ann")


def test_without_losses_there_is_no_plan() -> None:
    f = book("binary")
    quote = f.quote(opened(f))
    assert (quote.by, quote.plan, quote.action, quote.stake, quote.price, quote.loss, quote.spread) == (
        None,
    ) * 7


@pytest.mark.parametrize("losses", [{}, {"go": (0, 1, 2)}, {"go": (0, float("nan"))}, "go"])
def test_a_wrong_table_of_losses_is_named_and_changes_nothing(losses: Any) -> None:
    f = book("binary")
    q = opened(f)
    before = state(f)
    with pytest.raises((ValueError, TypeError), match="losses"):
        f.quote(q, by="ann", losses=losses)
    assert state(f) == before


# --- whose it is ------------------------------------------------------------------------------------------


def test_a_quote_is_one_customers_and_of_one_forecast() -> None:
    f = book("binary")
    q, other = opened(f), opened(f, "UA-2")
    quote = f.quote(q, by=("agency", "ann"))
    assert quote.by == ("agency", "ann")
    assert f.quote(q, by=["ann"]).by == "ann"
    before = state(f)
    with pytest.raises(ValueError, match=r"price is a quote for by=\('agency', 'ann'\); got by='bob'"):
        f.stake(q, 0.1, by="bob", price=quote)
    with pytest.raises(ValueError, match="price is a quote for by="):
        f.stake(q, 0.1, price=quote)
    with pytest.raises(ValueError, match="price is a quote for forecast 'UA-1'; got a stake on 'UA-2'"):
        f.stake(other, 0.1, by=("agency", "ann"), price=quote)
    assert state(f) == before
    f.stake(q, 0.1, by=["agency", "ann"], price=quote)


def test_a_quote_stands_for_its_forecast_and_survives_copies() -> None:
    f = book("binary")
    q = opened(f)
    won(f, 3)
    quote = f.quote(q, by="ann", losses=TABLE)
    assert quote.c > q.c
    for made in (quote, copy.deepcopy(quote), pickle.loads(pickle.dumps(quote))):  # noqa: S301 - our own
        f.stake(made, 0.1, by="ann")
        assert made == quote
    assert len(f.settle(quote, 1)) == 3
    f.forecast(mu=0.3, id="UA-1")  # another forecast with the same id
    with pytest.raises(mw.UnknownForecast):
        f.stake(quote, 0.1, by="ann")


# --- what was told is what is lost ------------------------------------------------------------------------


def lost_at_most(f: mw.InsuredForecaster, told: mw.Forecast, g: Any) -> float:
    """What a stake loses at most, at the prices that she was told."""
    stake = np.asarray(g, dtype=float)
    if f.classes is None:
        return -float(min(mw.payment(g, y, told.mu, told.c) for y in (0, 1)))
    if told.one_price:
        stake = mw.multiclass.centred(stake)
    return float((stake * told.mu + np.abs(stake) * told.c).sum() - stake.min())


@pytest.mark.parametrize("kind", KINDS)
@given(
    rounds=st.tuples(st.integers(0, 4), st.integers(0, 3)),
    mu=st.sampled_from([(0.2, 0.5, 0.3), (0.02, 0.9, 0.08), (0.5, 0.45, 0.05)]),
    stake=st.lists(st.sampled_from([-0.4, 0.0, 0.1, 0.4]), min_size=3, max_size=3),
    form=st.sampled_from(["quote", "prices"]),
)
def test_what_was_told_is_what_is_lost_or_it_is_refused(
    kind: str, rounds: tuple[int, int], mu: Any, stake: list[float], form: str
) -> None:
    f = book(kind)
    won(f, rounds[0])
    q = f.forecast(mu=mu[0] if f.classes is None else list(mu))
    told = f.quote(q, by="ann")
    won(f, rounds[1])  # her price may be higher now
    g: Any = stake[0] if f.classes is None else stake
    if f.one_sided:
        g = abs(g)
    limit = told if form == "quote" else told.mu if f.one_sided else told.c
    before, expected = state(f), lost_at_most(f, told, g)
    try:
        f.stake(q, g, by="ann", price=limit)
    except mw.PriceRefused:
        assert state(f) == before
        now = f.quote(q, by="ann")
        assert np.any(np.asarray(now.c) > told.c) or np.any(np.asarray(now.mu) > told.mu)
        assert form == "prices" or lost_at_most(f, now, g) > expected
        return
    except mw.StakeRefused:  # her line or the capital leaves too little
        return
    lost = -min(trial(f, q, y).by.get("ann", 0.0) for y in range(f.classes or 2))
    assert lost <= expected + 1e-12
    assert rounds[1] or lost == pytest.approx(expected)


def test_one_price_per_class_limits_each_of_them() -> None:
    f = mw.InsuredForecaster(None, mw.Reserve(0.5), mode="sound", max_stake=1.0, classes=3)
    f.settle(f.forecast(mu=[0.5, 0.25, 0.25]), 0, stake=[1.0, 0.0, 0.0])  # now the first class costs more
    q = f.forecast(mu=[0.5, 0.25, 0.25])
    f.stake(q, [0.1, 0.1, 0.0], price=q.c)
    less = np.array([q.c[0], q.c[1] - 0.001, q.c[2]])
    if q.c[1] > 0:
        with pytest.raises(mw.PriceRefused, match="the price of class 1 is"):
            f.stake(q, [0.1, 0.1, 0.0], price=less)
    with pytest.raises(
        mw.PriceRefused, match=r"the price of class 0 is .* now, above price\[0\]=0"
    ) as refused:
        f.stake(q, [0.1, 0.1, 0.0], price=[0.0, 1.0, 1.0])
    assert refused.value.limit == q.c.tolist()
    f.stake(q, [0.0, 0.1, 0.0], price=[0.0, 1.0, 0.0])  # she does not stake on the others


@pytest.mark.parametrize(
    ("kind", "price", "error", "message"),
    [
        ("binary", [0.1, 0.2], ValueError, r"price must be one number, or a quote; got \[0.1, 0.2\]"),
        ("classes", [0.1, 0.2], ValueError, r"price must be one number, 3 numbers, or a quote; got"),
        ("classes", "dear", TypeError, "price must be a number"),
        ("binary", float("nan"), ValueError, "price must be finite"),
        ("binary", 19.8, ValueError, r"price must be c, at most 1 per unit staked; got 19.8 \(an amount of"),
        ("binary", True, ValueError, "price must be one number"),
    ],
)
def test_a_price_that_is_none_is_named(kind: str, price: Any, error: type[Exception], message: str) -> None:
    f = book(kind)
    q = opened(f)
    before = state(f)
    with pytest.raises(error, match=message):
        f.stake(q, 0.1 if f.classes is None else [0.1, 0.0, 0.0], by="ann", price=price)
    assert state(f) == before
