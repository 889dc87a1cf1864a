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
    given: dict[str, Any] = {"mode": "sound", "max_stake": M, "lines": None, "thaw": None, "stop": False}
    return mw.InsuredForecaster(None, mw.NoCorrection(), **(given | settings))


def line(each: float, **settings: Any) -> mw.Lines:
    """Lines alone: a customer may hold the whole cap, and no line thaws."""
    return mw.Lines(each=each, share=1.0, thaw=0.0, **settings)


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
    f = free(lines=line(1.5))
    total, refused = won(f, 8, by="ann")
    assert total == pytest.approx(1.5)
    assert refused == 5
    assert f.account("ann").taken == pytest.approx(total)


@pytest.mark.usefixtures("without_own_prices")
def test_the_customers_of_an_agency_together_win_at_most_its_line() -> None:
    f = free(lines=line(100.0, of={"agency": 1.5}))
    total, refused = won(f, 8, by=lambda k: ("agency", f"customer {k}"))
    assert total == pytest.approx(1.5)
    assert refused == 5


@pytest.mark.usefixtures("without_own_prices")
def test_several_stakes_of_a_customer_on_one_forecast_count_together_in_her_line() -> None:
    f = free(max_stake=10.0, lines=line(1.0, scale=10.0))
    q, taken = f.forecast(mu=0.5), 0.0
    for _ in range(16):
        with contextlib.suppress(mw.StakeRefused):
            f.stake(q, 0.25, by="ann")
            taken += 0.25
    f.stake(q, 1.0, by="bob")  # whose line is his own
    assert taken == 2.0
    assert f.settle(q, 1).by == {"ann": pytest.approx(1.0), "bob": pytest.approx(0.5)}


def test_a_customers_open_bets_raise_her_price_until_she_cannot_win_more_than_her_line() -> None:
    f = free(lines=line(1.5))
    total, refused = won(f, 8, by="ann")
    assert refused == 0
    assert 1.0 <= total <= 1.5


def test_a_customer_whose_line_is_used_up_cannot_win_and_others_pay_the_published_price() -> None:
    f = free(lines=line(1.0))
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


# --- a share of the cap, and a price at which selling stops -----------------------------------------------


@pytest.mark.parametrize("classes", [None, 3])
def test_a_customer_holds_at_most_her_share_of_the_cap(classes: int | None) -> None:
    f = free(lines=mw.Lines(each=100.0, share=0.25), classes=classes)
    q = f.forecast(mu=0.5 if classes is None else [0.2, 0.3, 0.5])
    for b in (0.15, -0.1):
        f.stake(q, b if classes is None else [b, 0.0, 0.1], by=("agency", "ann"))
    with pytest.raises(mw.StakeRefused, match="'ann' may hold 0.25 of the cap of 1 per forecast") as refused:
        f.stake(q, 0.01 if classes is None else [0.01, 0.0, 0.0], by=("agency", "ann"))
    assert refused.value.limit == 0.0
    f.stake(q, 0.25 if classes is None else [0.25, 0.0, 0.0], by=("agency", "bob"))  # the agency has no share


def test_an_agency_holds_at_most_the_share_that_it_is_given() -> None:
    f = free(lines=mw.Lines(each=100.0, shares={"agency": 0.3}))
    q = f.forecast(mu=0.5)
    for k in range(3):
        f.stake(q, 0.1, by=("agency", f"customer {k}"))
    with pytest.raises(mw.StakeRefused, match="'agency' may hold 0.3 of the cap"):
        f.stake(q, 0.1, by=("agency", "customer 3"))
    f.stake(q, 0.1, by="customer 3")


def test_a_customer_whose_line_is_used_up_cannot_fill_the_cap_for_nothing() -> None:
    for settings in ({}, {"one_sided": True, "mode": "exact"}, {"mode": "exact"}, {"classes": 3}):
        f = free(lines=line(3.0), stop=True, **settings)
        classes, refused = f.classes, 0
        for _ in range(400):
            q = f.forecast(mu=0.5 if classes is None else [0.5, 0.25, 0.25])
            try:
                f.stake(q, M if classes is None else [M, 0.0, 0.0], by="ann")
            except mw.StakeRefused:
                refused += 1
            f.settle(q, 1 if classes is None else 0)
        q = f.forecast(mu=0.5 if classes is None else [0.5, 0.25, 0.25])
        with pytest.raises(mw.StakeRefused, match="selling has stopped"):
            f.stake(q, M if classes is None else [M, 0.0, 0.0], by="ann")
        f.stake(q, M if classes is None else [M, 0.0, 0.0], by="bob")
        assert refused > 380


def test_a_stake_that_lowers_both_risks_is_taken_at_any_price() -> None:
    f = free(lines=line(3.0), stop=True)
    q, other = f.forecast(mu=0.5), f.forecast(mu=0.5)
    f.stake(q, 0.4, by="ann")
    f.stake(other, 0.4, by="bob")
    for _ in range(20):
        with contextlib.suppress(mw.StakeRefused):
            f.settle(f.forecast(mu=0.5), 1, stake=0.5, by="ann")
    # More of the same; a stake that lowers only bob's risk; one on a forecast without risk.
    for on, b in ((q, 0.1), (other, -0.3), (f.forecast(mu=0.5), -0.3)):
        with pytest.raises(mw.StakeRefused, match="selling has stopped"):
            f.stake(on, b, by="ann")
    f.stake(q, -0.3, by="ann")


def test_on_the_common_price_selling_stops_only_while_a_thaw_can_lower_it() -> None:
    for budget, stops in ((50.0, True), (1e-9, False)):
        f = mw.InsuredForecaster(
            None, mw.Reserve(0.01), mode="sound", max_stake=M, thaw=mw.Thaw(budget=budget), stop=False
        )
        for _ in range(100):
            f.settle(f.forecast(mu=0.5), 1, stake=M)
        f.settle(f.forecast(mu=0.5), 1)
        state = f.to_state()
        state["settings"]["stop"] = True
        g = mw.InsuredForecaster.from_state(state)
        q = g.forecast(mu=0.5)
        assert q.c > 0.3
        if stops:
            with pytest.raises(mw.StakeRefused, match="selling has stopped"):
                g.stake(q, 0.5)
        else:
            g.stake(q, 0.5)


def test_a_stake_that_cannot_win_is_refused() -> None:
    f = free(stop=True)
    q = f.forecast(mu=0.8, c_hat=0.5)
    with pytest.raises(mw.StakeRefused, match="cannot win anything: selling has stopped"):
        f.stake(q, 0.5)


def test_a_line_thaws_by_no_more_than_its_part() -> None:
    f = free(lines=mw.Lines(each=1.0, share=1.0, thaw=0.2, scale=1.0))
    for t in range(4000):
        f.settle(f.forecast(mu=0.5), 1, stake=M if t % 100 < 50 else None, by="ann")
    assert 1.1 < f.account("ann").taken <= 1.2
    assert f.account("ann").line <= 1.2
    assert f.account("bob").line == pytest.approx(1.0 + 4000 / 5000 * 0.25)  # his price was ½·e^(−1) at first


# --- the surcharge ----------------------------------------------------------------------------------------


def test_a_customer_pays_the_price_that_she_was_quoted() -> None:
    for settings in ({}, {"one_sided": True, "mode": "exact"}, {"mode": "exact"}):
        f = free(lines=line(2.0), **settings)
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
    given: Any = {"mode": mode, "max_stake": M, "lines": line(2.0), "stop": False}
    f = mw.InsuredForecaster(None, mw.Reserve(0.001), **given)
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
        None, mw.NaiveBestResponse(), mode="sound", max_stake=M, lines=line(2.0, spread=0.1)
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
        book.stake("UA-1", by="ann", stake=100)
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
        prices = [book.stake(id_, by="ann", stake=90)["price"] for id_ in ("late", "in time", "cancelled")]
        book.settle("late", 1)
        book.settle("in time", 0)
        book.void("cancelled", "strike")
        told = book.statement()
        assert (told.premiums, told.payouts, told.refunds) == (sum(prices), 90, prices[2])
        assert told.cash == 10_000 + sum(prices) - 90 - prices[2]
        assert told.lost == 90 - prices[0] - prices[1]
        assert [p.amount for id_ in ("late", "in time", "cancelled") for p in book.payments(id_)] == [
            90,
            0,
            prices[2],
        ]


def test_a_ledger_holds_all_versions_of_a_forecast_to_one_cap(tmp_path: Any) -> None:
    with Ledger.open(tmp_path / "book.db") as ledger:
        book = ledger.create("delays", capital=10_000, max_stake=1_000, unit="cent")
        for mu in (0.2, 0.3):
            book.forecast("UA-1", mu=mu)
            for k in range(5):
                book.stake("UA-1", by=f"customer {k} at {mu}", stake=100)
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
    named = mw.backtest(log, free(lines=line(1.0)), by="who")
    assert 1.5 < named.total_loss <= 2.0
    exact = mw.backtest(log, free(mode="exact", lines=line(1.0)), by="who")
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
