"""Backtests in which customers belong to agencies and countries: each level has a line of its own."""

from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import makewhole as mw
from makewhole.backtesting import backtest as module
from makewhole.backtesting.limited import LimitedRun
from makewhole.insured.refusals import StakeRefused
from samples import replay

pytestmark = pytest.mark.slow  # its loops take seconds to compile

CAP = 2.0
LEVELS = ["country", "agency", "who"]
# A name may be an agency's in one row and a customer's in another: there is one account for it.
COUNTRIES, AGENCIES, PEOPLE = [None, "US"], [None, "one", "two", 7], [None, "ann", "bob", "one"]
ROW = st.tuples(
    st.sampled_from([0.0, 0.5, 1.0]) | st.floats(0, 1),
    st.integers(0, 1),
    st.sampled_from([0.0, 0.01, 1.0, CAP, -1.0, -CAP]),
    st.sampled_from(COUNTRIES),
    st.sampled_from(AGENCIES),
    st.sampled_from(PEOPLE),
)


def table(rows: list[Any]) -> pd.DataFrame:
    rows = [(*row[:5], None if row[5] == row[4] else row[5]) for row in rows]
    log = pd.DataFrame(rows, columns=["mu", "y", "size", *LEVELS])
    for at, name in enumerate(LEVELS, 3):
        log[name] = pd.Series([row[at] for row in rows], dtype=object)
    log["stake"] = log["size"] * (2.0 * log["y"] - 1.0)  # who stakes more than 0 knows the outcome
    return log


def live(log: pd.DataFrame, options: dict[str, Any]) -> tuple[mw.InsuredForecaster, list[float], int]:
    """The slow, obvious way."""
    f, paid, refused = mw.InsuredForecaster(max_stake=CAP, **options), [], 0
    for row in log.to_dict("records"):
        q = f.forecast(mu=row["mu"])
        names = tuple(row[level] for level in LEVELS if row[level] is not None)
        try:
            f.stake(q, row["stake"], by=names or None)
        except StakeRefused:
            refused += 1
        paid += f.settle(q, row["y"]) or [0.0]
    return f, paid, refused


@settings(max_examples=60)
@given(
    st.lists(ROW, min_size=1, max_size=40),
    st.sampled_from([None, 3.0, 20.0]),
    st.builds(
        mw.Lines,
        each=st.sampled_from([0.5, 3.0]),
        of=st.sampled_from([{}, {"US": 1.5, "one": 1.0, 7: 9.0}]),
        keep_gains=st.booleans(),
    ),
)
def test_levels_are_the_forecasters_to_the_bit(rows: list[Any], capital: Any, lines: mw.Lines) -> None:
    log = table(rows * 3)
    options: dict[str, Any] = dict(mode="sound", capital=capital, lines=lines, thaw=mw.Thaw(budget=1.0))
    f, paid, refused = live(log, options)
    made: list[Any] = []

    class Seen(LimitedRun):
        def __init__(self, *given: Any, **settings: Any) -> None:
            super().__init__(*given, **settings)
            made.append(self)

    given: Any = dict(by=LEVELS, max_stake=CAP, trace=True, **options)
    with mock.patch.object(module, "LimitedRun", Seen), mock.patch.object(module, "LiveRun", None):
        compiled = replay(log, **given)
    driven = replay(log, max_exposure=1e9, **given)  # row by row
    for result in (compiled, driven):
        assert result.trace is not None
        assert result.trace["payment"].tolist() == paid
        assert result.refused == refused
    assert compiled.total_loss == f.statement().total_loss
    (run,) = made
    for name, (taken, low, *_) in zip(run.names, run.accounts.tolist(), strict=True):
        assert f.account(name).taken == taken + low


@settings(max_examples=40)
@given(st.lists(ROW, min_size=1, max_size=60))
def test_no_level_takes_more_than_its_line_by_another_count(rows: list[Any]) -> None:
    """Payments are added up here, by name, from what the backtest paid."""
    log, lines = table(rows * 4), mw.Lines(each=4.0, of={"US": 5.0}, share=1.0)
    result = replay(log, by=LEVELS, capital=30.0, lines=lines, max_stake=CAP, trace=True)
    assert result.trace is not None
    taken: dict[Any, float] = {}
    for names, paid in zip(log[LEVELS].to_numpy().tolist(), result.trace["payment"].tolist(), strict=True):
        there = [name for name in names if name is not None]
        for name in there:
            taken[name] = taken.get(name, 0.0) + paid
            if name == there[-1] or name in lines.of:  # other groups have no line
                assert taken[name] <= 1.2 * lines.of.get(name, lines.each) + 1e-9


def known(rows: int, seed: int = 0) -> dict[str, Any]:
    """Everyone knows every outcome; ten customers, three agencies."""
    draw = np.random.default_rng(seed)
    y = draw.integers(2, size=rows)
    people = draw.integers(10, size=rows)
    columns = {"mu": draw.uniform(0.2, 0.8, rows), "y": y, "stake": 2.0 * y - 1.0}
    return columns | {"who": [f"c{k}" for k in people], "agency": [f"a{k % 3}" for k in people]}


@pytest.mark.parametrize("hold", [pd.DataFrame, pl.DataFrame])
def test_an_agency_limits_its_customers(hold: Any) -> None:
    log = hold(known(500))
    lines = mw.Lines(each=10.0, of={f"a{k}": 10.0 for k in range(3)}, share=1.0, thaw=0.0)
    options: Any = dict(capital=1000.0, max_stake=1.0, lines=lines)
    alone, with_agency = (replay(log, by=by, **options) for by in ("who", ["agency", "who"]))
    assert alone.total_loss > 50.0
    assert with_agency.total_loss <= 30.0
    assert replay(log, by=["who"], **options).total_loss == alone.total_loss


def test_the_same_name_twice_in_a_row_is_refused_in_both_ways() -> None:
    log = pd.DataFrame({"mu": 0.5, "y": [1, 1], "stake": 1.0, "agency": ["x", "z"], "who": ["y", "z"]})
    for event in (None, "mu"):
        with pytest.raises(ValueError, match=r"must be different names; got 'z' twice at row 1"):
            replay(log, by=["agency", "who"], id=event, capital=20.0, max_stake=2.0)


@pytest.mark.parametrize(
    ("by", "error", "message"),
    [
        ([], ValueError, "at least one"),
        (["who", "who"], TypeError, "a list of different names"),
        ([3], TypeError, "a list of different names"),
        (["who", "nobody"], ValueError, "nobody"),
        ([f"c{k}" for k in range(17)], ValueError, "at most 16 columns"),
    ],
)
def test_what_is_no_list_of_columns_is_refused(by: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        replay(pd.DataFrame(known(5)), by=by, capital=20.0, max_stake=1.0)


def test_customers_who_decide_see_the_price_of_all_their_levels() -> None:
    log = pd.DataFrame(known(300)).drop(columns="stake")
    people = mw.agents.Customers(clairvoyant=1.0)
    lines = mw.Lines(each=10.0, of={f"a{k}": 10.0 for k in range(3)}, share=1.0, thaw=0.0)
    options: Any = dict(customers=people, capital=1000.0, lines=lines, max_stake=1.0)
    assert replay(log, by=["agency", "who"], **options).total_loss <= 30.0
