"""Backtests of graded outcomes: they are the forecaster's, to the bit."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

import makewhole as mw
from samples import replay

pytestmark = pytest.mark.slow  # its loops take seconds to compile


def log(rows: int = 300) -> pd.DataFrame:
    draw = np.random.default_rng(0)
    table = pd.DataFrame({"mu": draw.uniform(size=rows), "y": draw.beta(2, 3, rows)})
    return table.assign(stake=draw.uniform(-1, 1, rows), made=range(rows), known=np.arange(rows) + 7)


@pytest.mark.parametrize("options", [{}, {"capital": 60.0}, {"time": "made", "known": "known"}])
@pytest.mark.parametrize("correction", [mw.Reserve(0.05), mw.StandardRegret(0.1)])
def test_a_graded_log_is_replayed_as_the_forecaster_would(options: Any, correction: Any) -> None:
    table = log()
    terms: Any = {"mode": "sound", "max_stake": 1.0, "c_range": (0.0, 0.5), "graded": True}
    result = replay(table, correction=correction, stop=False, **terms, **options)
    f = mw.InsuredForecaster(None, correction, **terms, capital=options.get("capital"), stop=False)
    late, waiting = 7 if "known" in options else 0, list[Any]()
    for mu, y, stake in table[["mu", "y", "stake"]].itertuples(index=False):
        if late and len(waiting) == late:
            f.settle(*waiting.pop(0))
        q = f.forecast(mu=mu)
        f.stake(q, stake)
        waiting.append((q, y))
        if not late:
            f.settle(*waiting.pop(0))
    for forecast, y in waiting:
        f.settle(forecast, y)
    assert result.total_loss == f.statement().total_loss


def test_what_does_not_fit_is_named() -> None:
    table = log()
    with pytest.raises(ValueError, match=r"must be 0 or 1; got 0\.\d+ at row 0 \(a quantity\? graded=True"):
        mw.backtest(table)
    with pytest.raises(ValueError, match=r"outcome='y' must lie in \[0, 1\]; got 1.5 at row 3"):
        replay(table.assign(y=np.where(np.arange(300) == 3, 1.5, table["y"])), graded=True, max_stake=1.0)
    classes: Any = {"mu": ["mu", "known"], "stake": ["stake", "made"]}
    with pytest.raises(ValueError, match="mu must be one column, because the forecaster has classes=None"):
        mw.backtest(table, mw.InsuredForecaster(graded=True, max_stake=1.0), **classes)
