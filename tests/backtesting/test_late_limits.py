"""Late outcomes under a capital and a thaw, compiled: the numbers of a forecaster driven bet by bet."""

from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
import pytest

import makewhole as mw
from makewhole.backtesting import backtest as module
from makewhole.backtesting.result import BacktestResult

pytestmark = pytest.mark.slow  # its loops take seconds to compile

COLUMNS = {"time": "made", "known": "known"}
CORRECTIONS: dict[str, Any] = {
    "default": None,
    "none": mw.NoCorrection(),
    "guard": mw.Barrier(3.0, "guard"),
    "over": mw.Reserve(0.2, over=mw.StandardRegret(0.3)),
    "swap": mw.DeterministicSwap(cells=12, low=0.0, high=0.5),
}


def late_log(rows: int = 1500, seed: int = 0, *, sided: bool = False) -> pd.DataFrame:
    """Better-informed customers, then fair ones, then none; up to forty forecasts are open at once."""
    draw = np.random.default_rng(seed)
    mu, part = draw.uniform(0.05, 0.95, rows), np.arange(rows) // (rows // 3 + 1)
    y = (draw.uniform(size=rows) < mu).astype(int)
    knows = np.where(part == 0, np.sign(y - 0.5), draw.choice([-1.0, 1.0], rows))
    stake = draw.uniform(0, 1, rows) * knows * (part < 2)
    made = np.arange(rows) // 2
    known = made + draw.integers(0, 20, rows)
    log = {"mu": mu, "y": y, "stake": np.abs(stake) if sided else stake, "made": made, "known": known}
    return pd.DataFrame(log)


def both_ways(log: Any, f: mw.InsuredForecaster, **given: Any) -> tuple[BacktestResult, BacktestResult]:
    with mock.patch.object(module, "LiveRun", None):
        compiled = mw.backtest(log, f, trace=True, **given)
    with mock.patch.object(module.Case, "live", True):
        return compiled, mw.backtest(log, f, trace=True, **given)


def check_same(compiled: BacktestResult, live: BacktestResult) -> None:
    assert compiled.trace is not None
    assert live.trace is not None
    for name, column in live.trace.items():
        assert np.array_equal(column, compiled.trace[name]), name
    exact = ("total_loss", "peak_loss", "rounds", "refused", "certificate", "capital", "negative_c")
    assert [getattr(compiled, name) for name in exact] == [getattr(live, name) for name in exact]
    assert (compiled.wanted_stake or 0.0) == pytest.approx(live.wanted_stake or 0.0, rel=1e-12)
    assert compiled.most_open == live.most_open
    assert compiled.served.keys() == live.served.keys()
    for kind, both in compiled.served.items():
        assert both == pytest.approx(live.served[kind], rel=1e-12)
    assert sum(both.placed for both in compiled.served.values()) == pytest.approx(
        compiled.turnover if compiled.served else 0.0
    )
    for name in ("turnover", "refused_stake", "mean_c", "premium"):
        assert getattr(compiled, name) == pytest.approx(getattr(live, name), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("name", CORRECTIONS)
@pytest.mark.parametrize("capital", [2.0, 8.0, 60.0])
def test_stakes_under_a_capital_are_taken_and_refused_as_by_a_forecaster(name: str, capital: float) -> None:
    f = mw.InsuredForecaster(None, CORRECTIONS[name], max_stake=1.0, capital=capital)
    compiled, live = both_ways(late_log(), f, stake="stake", **COLUMNS)
    check_same(compiled, live)
    assert compiled.total_loss <= capital
    assert compiled.trace is not None
    assert compiled.trace["c"].max() > 0.3 or capital > 8.0  # the capital has a say


@pytest.mark.parametrize(
    "settings",
    [
        {"capital": 5.0},
        {"capital": 5.0, "one_sided": True},
        {"thaw": mw.Thaw(budget=4.0)},
        {"correction": mw.Reserve(0.1), "mode": "sound", "thaw": mw.Thaw(share=0.5)},
        {"correction": mw.NoCorrection(), "capital": 5.0, "thaw": None},
    ],
)
@pytest.mark.parametrize("clock", [True, False])
def test_customers_decide_as_before_a_forecaster(settings: dict[str, Any], clock: bool) -> None:
    given = {"customers": mw.agents.Customers(clairvoyant=0.2, informed=0.3, view="view")} | (
        COLUMNS if clock else {}
    )
    log = late_log()
    log["view"] = np.clip(log["mu"] + 0.1, 0, 1)
    f = mw.InsuredForecaster(max_stake=1.0, **settings)
    check_same(*both_ways(log, f, **given))
