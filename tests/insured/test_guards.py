"""What keeps the money: for each guard, a customer who would win more if that one check were missing.

Customers here know every outcome, and forecasts wait for their outcomes together, so that prices cannot help.
"""

import contextlib
from typing import Any

import numpy as np
import pandas as pd
import pytest

import makewhole as mw
from makewhole.insured.lines import LineBook
from makewhole.ledger import Ledger

M = 1.0


def free(**settings: Any) -> mw.InsuredForecaster:
    """A forecaster that charges nothing by itself: only its guards protect it."""
    given: dict[str, Any] = {"mode": "sound", "max_stake": M, "lines": None, "thaw": None}
    return mw.InsuredForecaster(None, mw.NoCorrection(), **(given | settings))


def won(f: mw.InsuredForecaster, count: int, by: Any = None, **more: Any) -> tuple[float, int]:
    """What customers win who stake the whole cap on these forecasts, and how often they are refused."""
    waiting, refused = [f.forecast(mu=0.5, **more) for _ in range(count)], 0
    for k, q in enumerate(waiting):
        try:
            f.stake(q, M, by=by(k) if callable(by) else by)
        except mw.StakeRefused:
            refused += 1
    return sum(sum(f.settle(q, 1)) for q in waiting), refused


# --- the capital ------------------------------------------------------------------------------------------


def test_all_customers_together_win_at_most_the_capital() -> None:
    f = free(capital=1.0)
    total, refused = won(f, 6)
    assert total == pytest.approx(1.0)
    assert refused == 4
    assert f.statement().total_loss <= 1.0


def test_with_classes_all_customers_together_win_at_most_the_capital() -> None:
    f = free(capital=1.0, classes=3)
    waiting, refused = [f.forecast(mu=[0.5, 0.25, 0.25]) for _ in range(20)], 0
    for q in waiting:
        try:
            f.stake(q, [M, 0.0, 0.0])
        except mw.StakeRefused:
            refused += 1
    assert refused > 0
    assert 0.5 < sum(sum(f.settle(q, 0)) for q in waiting) <= 1.0


def test_the_published_price_leaves_room_for_the_whole_cap_however_little_of_the_capital_is_left() -> None:
    for capital in (0.1, 0.3, 0.8):
        f = free(capital=capital)
        total, refused = won(f, 1)
        assert refused == 0
        assert total <= capital


def test_one_sided_customers_together_win_at_most_the_capital() -> None:
    f = free(mode="exact", capital=1.0, one_sided=True)
    total, refused = won(f, 6)
    assert refused > 0
    assert total <= 1.0


def test_a_group_loses_at_most_the_capital_of_its_correction() -> None:
    f = mw.InsuredForecaster(None, mw.Grouped(mw.Barrier(1.0, "guard")), mode="sound", max_stake=M)
    total, refused = won(f, 6, groups="a")
    other, _ = won(f, 1, groups="b")
    assert refused > 0
    assert 0.5 <= total <= 1.0
    assert other > 0.0  # another group has its own


def test_a_stake_on_an_old_forecast_is_refused_when_the_capital_was_lost_meanwhile() -> None:
    f = free(capital=1.0)
    old = [f.forecast(mu=0.5) for _ in range(3)]
    assert f.settle(old[0], 1, stake=M) + f.settle(old[1], 1, stake=M) == pytest.approx([0.5, 0.5])
    with pytest.raises(mw.StakeRefused, match="the capital leaves") as refused:
        f.stake(old[2], M)
    assert refused.value.limit == pytest.approx(0.0, abs=1e-11)


# --- a customer's line ------------------------------------------------------------------------------------


@pytest.fixture
def without_own_prices(monkeypatch: pytest.MonkeyPatch) -> None:
    """All customers pay the published price: the line alone must limit what they win."""
    monkeypatch.setattr(LineBook, "price", lambda *_: 0.0)


@pytest.mark.usefixtures("without_own_prices")
def test_a_customer_wins_at_most_her_line() -> None:
    f = free(lines=mw.Lines(each=1.5))
    total, refused = won(f, 8, by="ann")
    assert total == pytest.approx(1.5)
    assert refused == 5
    assert f.account("ann").taken == pytest.approx(total)


@pytest.mark.usefixtures("without_own_prices")
def test_the_customers_of_an_agency_together_win_at_most_its_line() -> None:
    f = free(lines=mw.Lines(each=100.0, of={"agency": 1.5}))
    total, refused = won(f, 8, by=lambda k: ("agency", f"customer {k}"))
    assert total == pytest.approx(1.5)
    assert refused == 5


@pytest.mark.usefixtures("without_own_prices")
def test_several_stakes_of_a_customer_on_one_forecast_count_together_in_her_line() -> None:
    f = free(max_stake=10.0, lines=mw.Lines(each=1.0, scale=10.0))
    q, taken = f.forecast(mu=0.5), 0.0
    for _ in range(16):
        with contextlib.suppress(mw.StakeRefused):
            f.stake(q, 0.25, by="ann")
            taken += 0.25
    f.stake(q, 1.0, by="bob")  # whose line is his own
    assert taken == 2.0
    assert f.settle(q, 1).by == {"ann": pytest.approx(1.0), "bob": pytest.approx(0.5)}


def test_a_customers_open_bets_raise_her_price_until_she_cannot_win_more_than_her_line() -> None:
    f = free(lines=mw.Lines(each=1.5))
    total, refused = won(f, 8, by="ann")
    assert refused == 0
    assert 1.0 <= total <= 1.5


def test_a_customer_whose_line_is_used_up_cannot_win_and_others_pay_the_published_price() -> None:
    f = free(lines=mw.Lines(each=1.0))
    for _ in range(200):
        f.settle(f.forecast(mu=0.5), 1, stake=M, by="ann")
    q = f.forecast(mu=0.5)
    assert f.account("ann").taken <= 1.0
    assert f.quote(q, by="ann").c > 0.49
    assert f.quote(q, by="bob").c < 0.2
    assert q.c == 0.0


# --- the cap and the exposure -----------------------------------------------------------------------------


@pytest.mark.parametrize("classes", [None, 3])
@pytest.mark.parametrize("mode", ["exact", "sound"])
def test_all_stakes_on_a_forecast_together_are_at_most_the_cap(classes: int | None, mode: Any) -> None:
    f = free(mode=mode, classes=classes)
    q = f.forecast(mu=0.5 if classes is None else [0.2, 0.3, 0.5])
    for k in range(10):
        f.stake(q, 0.1 if classes is None else [0.1, 0.0, 0.0], by=f"customer {k}")
    for b in (0.1, 1e-12):
        with pytest.raises(mw.StakeRefused, match="over the cap of 1.0"):
            f.stake(q, b if classes is None else [b, 0.0, 0.0])
    assert f.settle(q, 1).by.keys() == {f"customer {k}" for k in range(10)}


def test_a_one_sided_forecast_takes_no_stake_below_0() -> None:
    f = free(mode="exact", one_sided=True)
    with pytest.raises(mw.StakeRefused, match="must not be negative"):
        f.stake(f.forecast(mu=0.5), -0.1)


def test_open_bets_can_lose_at_most_the_exposure_that_is_allowed() -> None:
    f = free(max_exposure=1.2)
    total, refused = won(f, 6)
    assert total == pytest.approx(1.0)
    assert refused == 4
    assert won(f, 6)[0] == pytest.approx(1.0)  # once settled, there is room again


def test_with_a_capped_exposure_a_stake_beyond_the_certificate_is_refused() -> None:
    f = mw.InsuredForecaster(None, mw.Reserve(0.5), mode="sound", max_stake=M, max_exposure=1.0)
    bound, lost, refused = f.statement().certificate.bound, 0.0, 0
    waiting = [f.forecast(mu=0.5) for _ in range(40)]  # all at the first price
    for q in waiting:
        try:
            lost += sum(f.settle(q, 1, stake=M))
        except mw.StakeRefused:
            refused += 1
    assert refused > 0
    assert bound is not None
    assert lost <= bound


# --- the surcharge ----------------------------------------------------------------------------------------


def test_a_customer_pays_the_price_that_she_was_quoted() -> None:
    for settings in ({}, {"one_sided": True, "mode": "exact"}, {"mode": "exact"}):
        f = free(lines=mw.Lines(each=2.0), **settings)
        for _ in range(6):
            f.settle(f.forecast(mu=0.5), 1, stake=M, by="ann")
        q = f.forecast(mu=0.5)
        own = f.quote(q, by="ann")
        assert (own.mu, own.c) != (q.mu, q.c)
        paid = f.settle(q, 1, stake=0.5, by="ann")
        assert paid == pytest.approx([mw.payment(0.5, 1, own.mu, own.c)], abs=1e-15)
        assert f.statement().total_loss == pytest.approx(f.account("ann").taken)


@pytest.mark.parametrize("mode", ["sound", "exact"])
def test_the_correction_learns_what_was_paid_and_in_exact_mode_without_the_surcharge(mode: Any) -> None:
    f = mw.InsuredForecaster(None, mw.Reserve(0.001), mode=mode, max_stake=M, lines=mw.Lines(each=2.0))
    published = 0.0
    for _ in range(10):
        q = f.forecast(mu=0.5)
        f.settle(q, 1, stake=M, by="ann")
        published += mw.payment(M, 1, q.mu, q.c)
    paid = f.statement().total_loss
    assert paid < published - 0.5
    learned = f.forecast(mu=0.5).c / 0.001
    assert learned == pytest.approx(paid if mode == "sound" else published)


def test_in_sound_mode_the_target_counts_the_surcharge() -> None:
    f = mw.InsuredForecaster(
        None, mw.NaiveBestResponse(), mode="sound", max_stake=M, lines=mw.Lines(each=2.0, spread=0.1)
    )
    (paid,) = f.settle(f.forecast(mu=0.5), 1, stake=0.5, by="ann")
    assert paid == pytest.approx(0.5 * (0.5 - 0.1))
    assert f.forecast(mu=0.5).c == pytest.approx(paid / 0.5)  # λ that would have balanced it


# --- money is conserved -----------------------------------------------------------------------------------


def test_payments_that_do_not_add_up_to_the_loss_are_never_booked() -> None:
    f = free()
    q = f.forecast(mu=0.5)
    f.stake(q, 0.5)
    f.book.find(q).legs[0].net += 0.1  # a bug
    before = f.to_state()["book"]["everyone"]
    with pytest.raises(mw.ConservationError, match="payments add up to"):
        f.settle(q, 1)
    assert f.to_state()["book"]["everyone"] == before
    assert f.open_forecasts == [q]


def test_a_ledger_that_would_pay_more_than_its_capital_stores_nothing(tmp_path: Any) -> None:
    with Ledger.open(tmp_path / "book.db") as ledger:
        book = ledger.create("delays", capital=10_000, max_stake=1_000, unit="cent")
        book.forecast("UA-1", mu=0.2)
        book.stake("UA-1", by="ann", stake=1_000)
        book._writer.state().subjects["UA-1"].if_1 += 50_000  # a bug
        events = book.statement().events
        with pytest.raises(Exception, match="more than the capital"):
            book.settle("UA-1", 1)
        assert book.statement().events == events
        assert book.statement().payouts == 0


def test_a_ledger_refunds_what_was_paid_and_pays_what_was_promised(tmp_path: Any) -> None:
    with Ledger.open(tmp_path / "book.db") as ledger:
        book = ledger.create("delays", capital=10_000, max_stake=1_000, unit="cent")
        for id_ in ("late", "in time", "cancelled"):
            book.forecast(id_, mu=0.2)
        prices = [book.stake(id_, by="ann", stake=900)["price"] for id_ in ("late", "in time", "cancelled")]
        book.settle("late", 1)
        book.settle("in time", 0)
        book.void("cancelled", "strike")
        told = book.statement()
        assert (told.premiums, told.payouts, told.refunds) == (sum(prices), 900, prices[2])
        assert told.cash == 10_000 + sum(prices) - 900 - prices[2]
        assert told.lost == 900 - prices[0] - prices[1]
        assert [p.amount for id_ in ("late", "in time", "cancelled") for p in book.payments(id_)] == [
            900,
            0,
            prices[2],
        ]


def test_a_ledger_holds_all_versions_of_a_forecast_to_one_cap(tmp_path: Any) -> None:
    with Ledger.open(tmp_path / "book.db") as ledger:
        book = ledger.create("delays", capital=10_000, max_stake=1_000, unit="cent")
        for mu in (0.2, 0.3):
            book.forecast("UA-1", mu=mu)
            book.stake("UA-1", by="ann", stake=500)
        with pytest.raises(mw.StakeRefused, match="all its versions: 0 is left"):
            book.stake("UA-1", by="bob", stake=1)


# --- the same in a compiled backtest ----------------------------------------------------------------------


def test_a_compiled_backtest_keeps_to_the_capital_and_to_every_line() -> None:
    rows = 400
    log = pd.DataFrame(
        {"mu": [0.5] * rows, "y": [1] * rows, "stake": [M] * rows, "who": ["ann", "bob"] * 200}
    )
    alone = mw.backtest(log, free(capital=3.0))
    assert 2.5 < alone.total_loss <= 3.0
    named = mw.backtest(log, free(lines=mw.Lines(each=1.0)), by="who")
    assert 1.5 < named.total_loss <= 2.0
    exact = mw.backtest(log, free(mode="exact", lines=mw.Lines(each=1.0)), by="who")
    assert exact.total_loss <= 2.0
    assert [one.refused for one in (alone, named, exact)] == [0, 0, 0]  # prices leave room for every stake


# --- units ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("correction", [None, mw.NoCorrection()])  # the second leaves it all to the guard
@pytest.mark.parametrize("settings", [{}, {"one_sided": True}, {"classes": 3}, {"lines": None, "thaw": None}])
def test_money_in_another_unit_is_the_same_money(settings: dict[str, Any], correction: Any) -> None:
    """With eight times as much of everything, prices are the same and payments eight times as large."""

    def play(unit: float) -> tuple[list[Any], list[Any]]:
        f = mw.InsuredForecaster(None, correction, max_stake=unit, capital=2.0 * unit, **settings)
        prices, payments, draw = list[Any](), list[Any](), np.random.default_rng(0)
        for k in range(120):
            mu: Any = float(draw.uniform()) if f.classes is None else draw.dirichlet([2.0] * 3)
            q, b, y = f.forecast(mu=mu), float(draw.uniform(-0.4 * (not f.one_sided), 0.9)), k % 3 % 2
            stake = b * unit if f.classes is None else [b * unit, 0.0, 0.0]
            with contextlib.suppress(mw.StakeRefused):
                f.stake(q, stake, by=["ann", "bob"][k % 2])
            prices.append(np.asarray([q.mu, q.c]).tolist())
            payments += [paid / unit for paid in f.settle(q, y)]
        told = f.statement()
        return prices, [*payments, told.total_loss / unit, (told.certificate.bound or 0.0) / unit]

    assert play(8.0) == play(1.0)


def test_a_price_limit_holds_for_the_most_expensive_class_that_she_stakes_on() -> None:
    f = mw.InsuredForecaster(None, mw.Reserve(0.5), mode="sound", max_stake=M, classes=3)
    f.settle(f.forecast(mu=[0.5, 0.25, 0.25]), 0, stake=[M, 0.0, 0.0])  # now the first class costs more
    q = f.forecast(mu=[0.5, 0.25, 0.25])
    cheap, dear = q.c[1], q.c[0]
    assert cheap < dear
    with pytest.raises(mw.PriceRefused) as refused:
        f.stake(q, [0.1, 0.1, 0.0], price=(cheap + dear) / 2)
    assert refused.value.limit == dear
    f.stake(q, [0.0, 0.1, 0.0], price=(cheap + dear) / 2)  # she does not stake on the first


def test_a_one_sided_ask_leaves_no_more_than_the_capital_to_be_won_whatever_the_unit() -> None:
    for unit in (1.0, 8.0):
        f = free(mode="exact", one_sided=True, max_stake=unit, capital=0.25 * unit)
        q = f.forecast(mu=0.125)
        assert q.mu == pytest.approx(0.75)
        assert sum(f.settle(q, 1, stake=unit)) == pytest.approx(0.25 * unit)
