"""Reading columns of a dataframe: the column that is named, whatever its name looks like."""

from collections.abc import Callable
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import makewhole as mw
from makewhole import frames

ENGINES: dict[str, Callable[[pd.DataFrame], Any]] = {
    "pandas": lambda table: table,
    "polars": pl.from_pandas,
    "polars lazy": lambda table: pl.from_pandas(table).lazy(),
    "pyarrow": pa.Table.from_pandas,
    "duckdb": duckdb.from_df,
}
NAMES = ["^k$", "*", "^.*$", "a.b", "`a`", 'q"q', "COLUMNS(*)"]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", NAMES)
def test_the_column_that_is_named_is_read(engine: str, name: str) -> None:
    columns = {"k": [0.0], "a": [0.5]} | {other: [1.0 + place] for place, other in enumerate(NAMES)}
    read = frames.read_columns(ENGINES[engine](pd.DataFrame(columns)), {"x": name, "y": "k"})
    assert (read["x"].to_list(), read["y"].to_list()) == (columns[name], [0.0])


@pytest.mark.parametrize("engine", ENGINES)
def test_backtests_and_settlements_read_the_column_that_is_named(engine: str) -> None:
    make = ENGINES[engine]
    log = pd.DataFrame({"k": [0.9, 0.9], "^k$": [0.5, 0.5], "*": [1, 1], "stake": [10.0, 10.0]})
    result = mw.backtest(make(log), mu="^k$", outcome="*", correction=mw.NoCorrection())
    assert result.total_loss == 10.0
    f = mw.InsuredForecaster(max_stake=10)
    f.stake(f.forecast(mu=0.5, id="a"), 10.0)
    given = make(pd.DataFrame({"k": ["z"], "^k$": ["a"], "*": [1]}))
    f.settle_many(given, id="^k$", outcome="*")
    assert f.statement().total_loss == 5.0


def test_a_missing_column_is_named_among_those_there_are() -> None:
    with pytest.raises(ValueError, match=r"mu='\^m\$' is not a column; the frame has: \^k\$, y"):
        frames.read_columns(pl.DataFrame({"^k$": [1.0], "y": [1]}), {"mu": "^m$"})
