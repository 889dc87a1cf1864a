"""The search for a capital: each point is a backtest of its own, and the smallest is the smallest."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

import makewhole as mw
from makewhole.agents import Customers
from makewhole.backtesting.capital import NO_PROMISE
from samples import replay

pytestmark = pytest.mark.slow  # its loops take seconds to compile


def forecasts(rows: int, seed: int = 0) -> pd.DataFrame:
    draw = np.random.default_rng(seed)
    mu, time = draw.uniform(0.05, 0.95, rows), np.arange(rows)
    y = (draw.random(rows) < mu).astype(int)
    return pd.DataFrame({"mu": mu, "y": y, "t": time, "k": time + 5, "b": draw.normal(size=rows)})


def test_every_point_is_what_a_forecaster_with_that_capital_does() -> None:
    log = forecasts(400)
    customers = Customers(clairvoyant=0.05, seed=1)
    capitals = [2.0, 8.0]
    report = mw.find_capital(log, customers=customers, capitals=capitals, time="t", known="k")
    kinds, amounts, _ = customers.begin(1.0).draw(400)
    for capital, point in zip(capitals, report.points, strict=True):
        f = mw.InsuredForecaster(max_stake=1.0, capital=capital)
        lost, paid, staked, quotes = [0.0], 0.0, 0.0, dict[int, Any]()
        widths, wanted, placed = [], np.zeros(3), np.zeros(3)
        for row in range(400 + 6):
            if row - 5 in quotes:
                f.settle(quotes.pop(row - 5), int(log["y"][row - 5]))
                lost.append(f.statement().total_loss)
            if row >= 400:
                continue
            q = quotes[row] = f.forecast(mu=float(log["mu"][row]))
            hedge = float(amounts[row]) if q.mu + q.c < 1 else 0.0
            edge = log["y"][row] - q.mu
            b = hedge if kinds[row] == 0 else float(np.sign(edge)) * (abs(edge) > q.c)
            widths.append(q.c)
            wanted[kinds[row]] += amounts[row] if log["mu"][row] < 1 else 0.0
            try:
                f.stake(q, b)
            except mw.StakeRefused:
                continue
            staked += abs(b)
            placed[kinds[row]] += abs(b)
            paid += abs(b) * q.c + b * (q.mu - log["mu"][row])
        assert point.capital == capital
        assert point.certified == f.certificate().bound
        assert point.peak_loss == max(lost)
        assert point.profit == -f.statement().total_loss
        assert point.premium == pytest.approx(paid / staked)
        assert point.mean_c == pytest.approx(np.mean(widths))
        assert point.worst_c == pytest.approx(np.quantile(widths, 0.9))
        assert point.placed == pytest.approx(placed.sum() / wanted.sum())
        for kind, name in ((0, "hedgers"), (2, "clairvoyant")):
            assert point.turned_away.get(name, 0.0) == pytest.approx(1 - placed[kind] / wanted[kind])
    few, many = report.points
    assert few.turned_away["clairvoyant"] > many.turned_away.get("clairvoyant", 0.0)
    assert (few.carries, report.most_open) == (int(2.0 / room_of(log, few)), 5)


def room_of(log: pd.DataFrame, point: Any) -> float:
    """What a forecast of the log can lose, staked in full, at the lowest price with this capital."""
    f = mw.InsuredForecaster(max_stake=1.0, capital=point.capital)
    people = Customers(clairvoyant=0.05, seed=1)
    trace = mw.backtest(log, f, customers=people, time="t", known="k", trace=True).trace
    assert trace is not None
    return float(np.mean(np.maximum(log["mu"], 1 - log["mu"]) - trace["c"].min()))


def test_who_was_turned_away_is_said_by_name_where_the_log_has_names() -> None:
    log = forecasts(800)
    log["who"] = np.where(np.arange(800) % 2, "ann", "eve")
    log["b"] = np.where(log["who"] == "eve", np.sign(log["y"] - 0.5), 0.2 * np.sign(log["b"]))  # eve knows
    f = mw.InsuredForecaster(max_stake=1.0, capital=4.0, lines=mw.Lines(each=1.0))
    report = mw.find_capital(log, f, stake="b", by="who", capitals=[4.0])
    (point,) = report.points
    if point.turned_away:
        assert max(point.turned_away, key=lambda name: point.turned_away[name]) == "eve"
        assert "eve" in report.not_served()
        assert report.to_frame("pandas")["turned_away_eve"].tolist() == [point.turned_away["eve"]]


def test_how_many_can_be_open_at_once_is_what_the_guard_leaves_room_for() -> None:
    """At μ = 0.2 and c = 0.02 a full stake can lose 0.78: 100 caps carry 128 of 1,000 open forecasts."""
    log = pd.DataFrame({"mu": 0.2, "y": [0] * 1000, "b": 1.0, "t": 0, "k": 1})
    report = mw.find_capital(log, stake="b", time="t", known="k", capitals=[100.0, 500.0], max_stake=1.0)
    f = mw.InsuredForecaster(max_stake=1.0, capital=100.0)
    waiting, taken = [f.forecast(mu=0.2) for _ in range(1000)], 0
    for q in waiting:
        try:
            f.stake(q, 1.0)
            taken += 1
        except mw.StakeRefused:
            pass
    assert taken == 128
    assert report.most_open == 1000
    assert [p.carries for p in report.points] == [128, 641]


def test_the_smallest_that_sufficed_is_named() -> None:
    log = forecasts(20_000)
    customers = Customers(clairvoyant=0.05)
    report = mw.find_capital(log, customers=customers)
    enough = [p for p in report.points if p.premium <= 0.03 and p.placed >= 0.95]
    assert all(p.peak_loss <= p.capital == p.certified for p in report.points)
    assert 0 < len(enough) < len(report.points)
    assert report.smallest == enough[0].capital
    assert len(report.points) == 12
    assert (report.points[0].capital, report.points[-1].capital) == (1.0, 5000.0)
    assert f"is {report.smallest:g}, {report.smallest:g} caps" in str(report)
    assert NO_PROMISE in str(report)
    assert NO_PROMISE in report._repr_html_()
    frame = report.to_frame("pandas")
    assert frame["premium"].tolist() == [p.premium for p in report.points]


def test_a_closed_book_does_not_suffice_however_cheap_the_bets_that_got_through() -> None:
    log = forecasts(5000)
    report = mw.find_capital(log, customers=Customers(clairvoyant=1.0), capitals=[1.0, 2.0], premium=1.0)
    assert report.smallest is None
    assert all(point.peak_loss <= point.capital for point in report.points)
    assert "No capital up to 2 sufficed" in str(report)
    lenient = mw.find_capital(
        log, customers=Customers(clairvoyant=1.0), capitals=[1.0, 2.0], premium=1.0, placed=0.0
    )
    assert lenient.smallest == 1.0


def test_a_capital_that_was_exceeded_does_not_suffice() -> None:
    """Outcomes that all come at the end teach the reserve nothing in time."""
    log = forecasts(100).assign(k=1000)
    clairvoyants: Any = dict(customers=Customers(clairvoyant=1.0), capitals=[1.0, 100.0], premium=1.0)
    f = mw.InsuredForecaster(None, mw.Reserve(), mode="sound", max_stake=1.0)
    report = mw.find_capital(log, f, time="t", known="k", **clairvoyants)
    few, many = report.points
    assert few.peak_loss > few.capital
    assert (few.certified or 0.0) >= few.peak_loss
    assert not report.suffices(few)
    assert report.suffices(many)
    assert report.smallest == 100.0


def test_a_log_with_stakes_needs_no_customers() -> None:
    log = forecasts(2000)
    report = mw.find_capital(log, stake="b", premium=0.05)
    assert report.max_stake == log["b"].abs().max()
    assert report.points[0].capital == report.max_stake
    assert report.points[-1].placed == 1.0
    assert report.customers is None


def limited(max_stake: float, max_exposure: float) -> mw.InsuredForecaster:
    """A reserve with a cap on exposure."""
    return mw.InsuredForecaster(None, mw.Reserve(), max_stake=max_stake, max_exposure=max_exposure)


def test_open_bets_are_limited_and_what_was_refused_was_not_placed() -> None:
    log = forecasts(600)
    late: Any = dict(time="t", known="k", capitals=[10.0, 50.0], premium=1.0)
    plain = {m: mw.InsuredForecaster(None, mw.Reserve(), max_stake=m) for m in (1.0, 4.0)}
    free = mw.find_capital(log, plain[4.0], stake="b", **late)
    tight = mw.find_capital(log, limited(4.0, 4.5), stake="b", **late)
    assert (free.max_exposure, tight.max_exposure) == (None, 4.5)
    for before, point in zip(free.points, tight.points, strict=True):
        reserve = mw.Reserve(2.0 / point.capital)
        alone = replay(log, stake="b", mode="sound", correction=reserve, max_stake=4.0, time="t",
                            known="k", c_range=(0.0, 0.5), max_exposure=4.5)  # fmt: skip
        assert alone.refused > 0
        assert point.placed == pytest.approx(alone.turnover / log["b"].abs().sum())
        assert point.placed < before.placed == 1.0
        assert alone.certificate is not None
        assert point.certified == alone.certificate.bound
        assert (point.peak_loss, point.profit) == (alone.peak_loss, -alone.total_loss)
    assert "most that open bets could lose" in tight._repr_html_()
    customers = Customers(clairvoyant=0.05, seed=1)
    some = mw.find_capital(log, limited(1.0, 1.5), customers=customers, **late)
    every = mw.find_capital(log, plain[1.0], customers=customers, **late)
    assert all(a.placed < b.placed for a, b in zip(some.points, every.points, strict=True))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (
            dict(capitals=[0.5], forecaster=mw.InsuredForecaster(None, mw.Reserve(), max_stake=1.0)),
            ValueError,
            r"capitals must be at least max_stake, 1, which one .* got 0.5: raise",
        ),
        (dict(capitals=[1e-9]), ValueError, "capital must be at least 1e-06, a millionth of max_stake"),
        (dict(capitals=[True]), ValueError, "capitals must be one number above 0; got True"),
        (dict(capitals=[]), ValueError, "capitals must name at least one capital"),
        (dict(premium=0), ValueError, "premium must be one number above 0; got 0"),
        (dict(placed=2), ValueError, r"placed must lie in \[0, 1\]; got 2"),
        (dict(stake="b", customers=Customers()), ValueError, "stake must not be given with customers"),
    ],
)
def test_what_does_not_fit_is_named(options: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        mw.find_capital(forecasts(10), **options)
