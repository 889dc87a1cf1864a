"""Backtests with a forecaster: its settings are used, and it stays as it is."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

import makewhole as mw
from makewhole.agents import Customers

ROWS = 200


def make_log() -> pd.DataFrame:
    draw = np.random.default_rng(0)
    y, time = draw.integers(2, size=ROWS), np.arange(ROWS)
    log = pd.DataFrame({"mu": draw.uniform(size=ROWS), "y": y, "stake": draw.uniform(-1, 1, ROWS)})
    log = log.assign(time=time, known=time + draw.integers(0, 9, ROWS), c_hat=draw.uniform(0, 0.3, ROWS))
    return log.assign(g=draw.choice(["a", "b"], ROWS), who=draw.choice(["ann", "bob"], ROWS))


LATE = {"time": "time", "known": "known"}
# The compiled loop, with limits, late, by group; and bet by bet.
WAYS: dict[str, tuple[Any, dict[str, Any]]] = {
    "compiled": (lambda: mw.InsuredForecaster(None, mw.SwapRegret(9, seed=1), max_stake=1), {}),
    "limited": (lambda: mw.InsuredForecaster(capital=9, max_stake=1), {"by": "who"}),
    "late": (lambda: mw.InsuredForecaster(None, mw.Reserve(0.1), mode="sound", max_stake=1), LATE),
    "grouped": (lambda: mw.InsuredForecaster(None, mw.Grouped(mw.Reserve(0.1)), max_stake=1), {"group": "g"}),
    "live": (lambda: mw.InsuredForecaster(capital=9, max_exposure=3, max_stake=1), LATE | {"by": "who"}),
}


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_the_forecaster_stays_as_it_was_and_can_be_replayed_again(way: str) -> None:
    make, columns = WAYS[way]
    f, log = make(), make_log()
    before = f.to_state()
    first = mw.backtest(log, f, trace=True, **columns)
    assert f.to_state() == before
    again = mw.backtest(log, f, trace=True, **columns)
    assert first.trace is not None
    assert again.trace is not None
    assert first.trace["payment"].tolist() == again.trace["payment"].tolist()
    assert (first.total_loss, first.certificate) == (again.total_loss, again.certificate)
    assert f.forecast(mu=0.3, groups="a" if way == "grouped" else None).id == 0


@pytest.mark.slow
def test_the_numbers_are_those_of_the_forecaster_itself() -> None:
    log = make_log()
    made: Any = {
        "capital": 5.0,
        "max_stake": 1.0,
        "lines": mw.Lines(each=1.0, share=1.0),
        "thaw": None,
        "stop": False,
    }
    result = mw.backtest(log, mw.InsuredForecaster(**made), by="who", c_hat="c_hat")
    f = mw.InsuredForecaster(**made)
    for row in log.to_dict("records"):
        q = f.forecast(mu=row["mu"], c_hat=row["c_hat"])
        f.settle(q, row["y"], stake=row["stake"], by=row["who"])
    assert result.total_loss == f.statement().total_loss
    assert (result.certificate, result.capital, result.max_stake) == (f.certificate(), 5.0, 1.0)


def test_shorthands_are_a_forecaster_with_these_settings() -> None:
    log = make_log()
    short = mw.backtest(log, correction=mw.DeterministicSwap(9), max_stake=2)
    f = mw.InsuredForecaster(None, mw.DeterministicSwap(9), max_stake=2)
    assert mw.backtest(log, f).total_loss == short.total_loss


def test_a_correction_that_goes_on_learning_elsewhere_does_not_change_the_forecaster() -> None:
    correction, log = mw.NaiveBestResponse(), make_log()
    f = mw.InsuredForecaster(None, correction, max_stake=1)
    before = mw.backtest(log, f).total_loss
    correction.observe(correction.propose(), 0.5, 1.0)
    assert mw.backtest(log, f).total_loss == before


def test_what_a_forecaster_has_learned_elsewhere_is_where_it_begins() -> None:
    correction = mw.NaiveBestResponse()
    correction.observe(correction.propose(), 0.25, 1.0)
    f = mw.InsuredForecaster.from_state(mw.InsuredForecaster(None, correction, max_stake=1).to_state())
    result = mw.backtest(make_log(), f, trace=True)
    assert result.trace is not None
    assert result.trace["c"][0] == 0.25


def begun(end: str) -> mw.InsuredForecaster:
    f = mw.InsuredForecaster(max_stake=1)
    q = f.forecast(mu=0.5)
    if end == "settled":
        f.settle(q, 1)
    if end == "voided":
        f.void(q)
    return f


@pytest.mark.parametrize("end", ["open", "settled", "voided"])
@pytest.mark.parametrize("call", [mw.backtest, mw.find_capital])
def test_a_forecaster_that_has_begun_is_refused(call: Any, end: str) -> None:
    with pytest.raises(
        ValueError, match=rf"must not have made a forecast yet; got .*1 {end}.*make a new one"
    ):
        call(make_log(), begun(end), stake="stake")


@pytest.mark.parametrize("call", [mw.backtest, mw.find_capital])
def test_a_forecaster_with_a_base_is_refused(call: Any) -> None:
    f = mw.InsuredForecaster(lambda x: 0.5, max_stake=1)
    with pytest.raises(ValueError, match="forecaster must have base=None, because the log has the forecasts"):
        call(make_log(), f, stake="stake")


def test_shorthands_beside_a_forecaster_are_refused_by_name() -> None:
    log, f = make_log(), mw.InsuredForecaster(max_stake=1)
    with pytest.raises(
        ValueError, match=r"max_stake must not be given with a forecaster, .*max_stake=\.\.\."
    ):
        mw.backtest(log, f, max_stake=1)
    with pytest.raises(ValueError, match="correction and max_stake must not be given with a forecaster"):
        mw.backtest(log, f, correction=mw.NoCorrection(), max_stake=1)
    with pytest.raises(ValueError, match="max_stake must not be given with a forecaster"):
        mw.find_capital(log, f, max_stake=1)


@pytest.mark.parametrize("wrong", ["mu", mw.Reserve(0.1), mw.InsuredForecaster])
def test_what_is_no_forecaster_is_named(wrong: Any) -> None:
    with pytest.raises(TypeError, match=r"forecaster must be an InsuredForecaster; got .*correction=\.\.\."):
        mw.backtest(make_log(), wrong)


@pytest.mark.parametrize(
    ("settings", "columns", "message"),
    [
        ({"classes": 3}, {}, "mu must be a list of 3 columns, .* classes=3; got one column"),
        (
            {},
            {"mu": ["mu", "c_hat"], "stake": ["stake", "stake"]},
            "mu must be one column, .* classes=None; got a list of 2 columns",
        ),
        ({"c_range": (0.0, 0.1)}, {"c_hat": "c_hat"}, r"c_hat='c_hat' must lie in \[0, 0.1\]; got .* at row"),
        ({}, {"group": "g"}, r"group=\['g'\] needs .* a grouped correction: use Grouped\(StandardRegret"),
        ({"correction": mw.Grouped(mw.Reserve())}, {}, "group must name a column, because Grouped"),
        ({"max_stake": 0.5}, {}, r"max_stake must cover the sum of \|stake\| on every forecast; got 0.5 <"),
        ({"one_sided": True}, {}, "must not be negative when one-sided"),
        ({"thaw": mw.Thaw(budget=1, per_day=1)}, {}, "a log has no days"),
    ],
)
def test_a_log_that_does_not_fit_the_forecaster_is_refused(settings: Any, columns: Any, message: str) -> None:
    f = mw.InsuredForecaster(**{"max_stake": 1.0, **settings})
    before = f.to_state()
    with pytest.raises(ValueError, match=message):
        mw.backtest(make_log(), f, **columns)
    assert f.to_state() == before


# --- find_capital -----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_every_capital_is_tried_on_a_new_forecaster_with_the_defaults_for_it() -> None:
    log, capitals = make_log(), [2.0, 8.0, 50.0]
    f = mw.InsuredForecaster(capital=3.0, max_stake=1.0)
    before = f.to_state()
    report = mw.find_capital(log, f, stake="stake", by="who", capitals=capitals)
    assert f.to_state() == before
    for capital, point in zip(capitals, report.points, strict=True):
        alone = mw.backtest(log, mw.InsuredForecaster(capital=capital, max_stake=1.0), by="who")
        assert (point.capital, point.certified) == (capital, capital)
        assert (point.peak_loss, point.profit) == (alone.peak_loss, -alone.total_loss)
        assert point.premium == alone.premium


@pytest.mark.slow
def test_what_was_given_is_kept_for_every_capital() -> None:
    log, lines = make_log(), mw.Lines(each=0.5)
    made: Any = {"max_stake": 1.0, "lines": lines, "thaw": None, "max_exposure": 4.0}
    report = mw.find_capital(log, mw.InsuredForecaster(None, mw.StandardRegret(0.3), **made), stake="stake",
                             by="who", capitals=[5.0])  # fmt: skip
    alone = mw.backtest(
        log, mw.InsuredForecaster(None, mw.StandardRegret(0.3), capital=5.0, **made), by="who"
    )
    assert report.points[0].profit == -alone.total_loss
    assert report.max_exposure == 4.0


@pytest.mark.slow
def test_without_a_forecaster_each_capital_has_the_book_that_it_makes() -> None:
    log = make_log().drop(columns="stake")
    people: Any = {"customers": Customers(clairvoyant=0.1, seed=1), **LATE}
    made = mw.InsuredForecaster(max_stake=1.0, capital=3.0)
    assert mw.find_capital(log, **people).points == mw.find_capital(log, made, **people).points


@pytest.mark.slow
def test_a_reserve_is_made_for_each_capital() -> None:
    log = make_log().drop(columns="stake")
    people: Any = {"customers": Customers(clairvoyant=0.1, seed=1), **LATE}
    for mode in (None, "sound"):
        f = mw.InsuredForecaster(None, mw.Reserve(), mode=mode, max_stake=1.0)
        for point in mw.find_capital(log, f, capitals=[2.0, 20.0], **people).points:
            reserve = mw.InsuredForecaster(None, mw.Reserve(0.5 / point.capital), mode="sound", max_stake=1.0)
            alone = mw.backtest(log, reserve, **people)
            assert (point.profit, point.peak_loss) == (-alone.total_loss, alone.peak_loss)


def test_a_correction_that_has_a_capital_cannot_be_tried_with_others() -> None:
    f = mw.InsuredForecaster(None, mw.Barrier(5.0), max_stake=1.0)
    with pytest.raises(ValueError, match=r"must not be made for a capital, .*; got Barrier"):
        mw.find_capital(make_log(), f, stake="stake")
    exact = mw.InsuredForecaster(None, mw.Reserve(), mode="exact", max_stake=1.0)
    with pytest.raises(ValueError, match="capital can be guarded in sound mode only"):
        mw.find_capital(make_log(), exact, stake="stake")
    with pytest.raises(ValueError, match="group='g' needs a forecaster with a grouped correction"):
        mw.find_capital(make_log(), stake="stake", group="g")
