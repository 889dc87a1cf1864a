"""Backtests with a capital, lines and a thaw, compiled: they are a forecaster's, to the bit."""

from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

import makewhole as mw
from makewhole.backtesting import backtest as module
from makewhole.backtesting.limited import LimitedRun
from makewhole.insured.records import Account
from makewhole.insured.refusals import StakeRefused
from samples import replay, sold

pytestmark = pytest.mark.slow  # its loops take seconds to compile

CAP = 2.0


@dataclass
class Played:
    """What a forecaster did with a log, row by row; `running` is its total loss after each settlement."""

    forecaster: mw.InsuredForecaster
    mu: list[float] = field(default_factory=list)
    c: list[float] = field(default_factory=list)
    paid: list[float] = field(default_factory=list)
    running: list[float] = field(default_factory=list)
    refused: list[float] = field(default_factory=list)


def one_by_one(log: pd.DataFrame, correction: Any, options: dict[str, Any]) -> Played:
    """The slow, obvious way."""
    f = mw.InsuredForecaster(None, correction, max_stake=CAP, **options)
    played = Played(f)
    for row in log.to_dict("records"):
        q = f.forecast(mu=row["mu"], c_hat=row["c_hat"])
        try:
            f.stake(q, row["stake"], by=row["who"])
        except StakeRefused:
            played.refused.append(abs(row["stake"]))
        (paid,) = f.settle(q, row["y"]) or [0.0]
        played.mu.append(float(q.mu))
        played.c.append(float(q.c))
        played.paid.append(paid)
        played.running.append(f.statement().total_loss)
    return played


class Seen(LimitedRun):
    """Remembers the last one that was made."""

    last: Any = None

    def __init__(self, *given: Any, **settings: Any) -> None:
        super().__init__(*given, **settings)
        Seen.last = self


def replayed(log: pd.DataFrame, correction: Any, options: dict[str, Any]) -> tuple[Any, Any]:
    """The result of a backtest, and its compiled run; None if it did not run in this loop."""
    Seen.last = None
    with mock.patch.object(module, "LimitedRun", Seen), mock.patch.object(module, "LiveRun", None):
        columns: Any = dict(by="who", c_hat="c_hat", max_stake=CAP, c_range=(0.0, 0.5), trace=True)
        return replay(log, correction=correction, **columns, **options), Seen.last


def check_equal(log: pd.DataFrame, correction: Any, options: dict[str, Any]) -> Played:
    """Every number of the backtest is the forecaster's."""
    played = one_by_one(log, correction, options)
    result, run = replayed(log, correction, options)
    f = played.forecaster
    assert result.trace["mu"].tolist() == played.mu
    assert result.trace["c"].tolist() == played.c
    assert result.trace["payment"].tolist() == played.paid
    assert result.total_loss == f.statement().total_loss
    assert result.peak_loss == max(0.0, *played.running)
    assert set(result.curve.total_loss.tolist()) == set(played.running)
    assert result.turnover == pytest.approx(f.statement().turnover, rel=1e-12)
    refused_stake = 0.0
    for stake in played.refused:  # not sum(): later Pythons add up differently
        refused_stake += stake
    assert (result.refused, result.refused_stake) == (len(played.refused), refused_stake)
    assert (result.certificate, result.capital) == (f.certificate(), f.capital)
    assert result.correction.state() == f.corrections[0].state()
    if run is not None:
        assert result.turnover == f.statement().turnover
        assert run.totals[8] == (f.book.thawing.conceded if f.thaw is not None else 0.0)
        if f.thaw is not None and f.thaw.share:
            assert run.totals[9] == f.book.thawing.profit
        if run.limits.lines.top:
            assert f.book.lines is not None
            for name, numbers in zip(run.names, run.accounts.tolist(), strict=True):
                account = f.book.lines.accounts.get(name, Account())
                assert [account.total, account.low, account.thawed, account.since] == numbers
                assert account.at_risk == 0.0
    return played


MAKERS: dict[str, Any] = {
    "default": lambda: None,
    "barrier": lambda: mw.Barrier(3.0, spread=0.01),
    "barrier, no gains": lambda: mw.Barrier(3.0, keep_gains=False),
    "guard": lambda: mw.Barrier(3.0, "guard"),
    "linear": lambda: mw.Barrier(3.0, "linear"),
    "standard": lambda: mw.StandardRegret(0.5),
    "reserve": lambda: mw.Reserve(0.1),
    "none": mw.NoCorrection,
    "naive": mw.NaiveBestResponse,
    "swap": lambda: mw.SwapRegret(8, low=-1.5, seed=1),
    "deterministic": lambda: mw.DeterministicSwap(8, low=-1.5),
    "over standard": lambda: mw.Reserve(0.1, over=mw.StandardRegret(0.5)),
    "over swap": lambda: mw.Reserve(0.1, over=mw.SwapRegret(8, low=-1.5, seed=1)),
}

PROBABILITY = st.sampled_from([0.0, 1.0, 0.5]) | st.floats(0.0, 1.0)
# Knowing the outcome uses up capital and lines.
SIZES = st.sampled_from([0.0, 1e-300, 0.0199, 0.02, 1.0, CAP]) | st.floats(0.0, CAP)
ROWS = st.tuples(
    PROBABILITY,
    st.integers(0, 1),
    SIZES,
    st.sampled_from([True, True, True, False]),
    st.sampled_from([None, "ann", "bob", 7]),
    st.sampled_from([0.0, 0.0, 0.1]),
)
LINES = st.builds(
    mw.Lines,
    each=st.sampled_from([1e-9, 0.5, 1.0, 3.0, 20.0]) | st.floats(1e-3, 10.0),
    of=st.sampled_from([{}, {"bob": 0.25, 7: 5.0}]),
    share=st.sampled_from([1.0, 1.0, 0.1, 0.5]),
    shares=st.sampled_from([{}, {"bob": 1.0}]),
    thaw=st.sampled_from([0.0, 0.2, 1.0]),
    scale=st.sampled_from([None, CAP, 3 * CAP]),
    keep_gains=st.booleans(),
    spread=st.sampled_from([0.0, 0.0, 0.02, 0.5]),
)
BUDGET = st.sampled_from([0.3, 2.0, 100.0])
THAWS = st.one_of(
    st.builds(mw.Thaw, budget=BUDGET, above=st.sampled_from([0.0, 0.02, 0.3])),
    st.builds(mw.Thaw, budget=BUDGET, per_forecast=st.just(0.01), root=st.just(0.1)),
    st.builds(mw.Thaw, per_forecast=st.sampled_from([0.0, 0.001]), root=st.just(0.01)),
    st.builds(mw.Thaw, budget=st.sampled_from([0.0, 0.3]), share=st.sampled_from([0.1, 0.5, 1.0])),
)


def make_log(rows: list[Any], repeats: int, one_sided: bool) -> pd.DataFrame:
    log = pd.DataFrame(rows * repeats, columns=["mu", "y", "size", "knows", "who", "c_hat"])
    log["who"] = pd.Series([row[4] for row in rows * repeats], dtype=object)  # a None stays one
    sign = np.where(log["y"] == 1, 1.0, -1.0) * np.where(log["knows"], 1.0, -1.0)
    log["stake"] = np.where(one_sided, np.where(sign > 0, log["size"], 0.0), sign * log["size"])
    return log.drop(columns=["size", "knows"])


@pytest.mark.parametrize("name", MAKERS)
@settings(max_examples=30)
@given(
    rows=st.lists(ROWS, min_size=1, max_size=30),
    repeats=st.sampled_from([1, 4]),
    mode=st.sampled_from(["sound", "sound", "one-sided", "exact"]),
    capital=st.sampled_from([None, 1e-3, 3.0, 50.0]) | st.floats(0.01, 8.0),
    lines=st.none() | st.just("default") | LINES,
    thaw=st.none() | st.just("default") | THAWS,
    stop=st.sampled_from(["default", False]),
)
def test_it_is_the_forecaster_to_the_bit(
    name: str, rows: list[Any], repeats: int, mode: str, capital: Any, lines: Any, thaw: Any, stop: Any
) -> None:
    one_sided = mode == "one-sided"
    options: dict[str, Any] = dict(one_sided=one_sided, capital=capital, lines=lines, thaw=thaw, stop=stop)
    options["mode"] = None if one_sided else mode
    try:
        mw.InsuredForecaster(None, MAKERS[name](), max_stake=CAP, **options)
    except ValueError:
        reject()
    check_equal(make_log(rows, repeats, one_sided), MAKERS[name](), options)


def attacked(rows: int, idle: int) -> pd.DataFrame:
    """Three customers who know every outcome, of whom one is nameless; then nobody stakes, or hardly."""
    draw = np.random.default_rng(3)
    y = draw.integers(2, size=rows + idle)
    stake = np.where(np.arange(rows + idle) < rows, CAP * (2.0 * y - 1.0), draw.uniform(0, 0.03, rows + idle))
    who = pd.Series([["ann", "bob", None][k] for k in draw.integers(3, size=rows + idle)], dtype=object)
    columns = {"mu": draw.uniform(size=rows + idle), "y": y, "stake": stake, "who": who, "c_hat": 0.0}
    return pd.DataFrame(columns)


def test_what_is_refused_because_of_rounding_is_what_the_forecaster_refuses() -> None:
    """At her own price a stake takes at most what is left, but for rounding: so begin where nothing is."""
    cap, options = 1e-9, dict(mode="sound", capital=2.0, thaw=mw.Thaw(budget=1.0, above=0.0))
    draw, refused, all_refused = np.random.default_rng(0), 0, 0
    own = mw.Lines(each=1.0, share=1.0, thaw=0.0)
    for number in range(60):
        options["correction"] = mw.StandardRegret(0.5) if number % 2 else mw.NoCorrection()
        taken, lost = 1.0 + draw.integers(-4, 5) * 2.0**-52, 2.0 * draw.integers(2)
        y = draw.integers(2, size=20)
        log = pd.DataFrame({"mu": draw.uniform(size=20), "y": y, "stake": cap * (2.0 * y - 1.0)})
        log["who"] = pd.Series(["ann" if draw.random() < 0.5 else None for _ in y], dtype=object)

        class Late(LimitedRun):
            def __init__(self, *given: Any, **settings: Any) -> None:
                super().__init__(*given, **settings)
                self.accounts[:, 0], self.totals[0] = taken, lost  # noqa: B023 - used in this round only

        settings: Any = {**options, "lines": own, "max_stake": cap, "stop": False}
        with mock.patch.object(module, "LimitedRun", Late):
            result = replay(log, by="who", trace=True, **settings)
        f = mw.InsuredForecaster(**settings)
        assert f.book.lines is not None
        f.book.lines.accounts["ann"] = Account(taken)
        f.book.everyone.totals.total = lost
        paid = []
        for row in log.to_dict("records"):
            q = f.forecast(mu=row["mu"])
            try:
                f.stake(q, row["stake"], by=row["who"])
            except StakeRefused:
                refused += 1
            paid += f.settle(q, row["y"]) or [0.0]
        assert result.trace is not None
        assert result.trace["payment"].tolist() == paid
        assert result.refused == refused
        assert result.total_loss == f.statement().total_loss
        all_refused, refused = all_refused + refused, 0
    assert all_refused > 0


@pytest.mark.parametrize("name", MAKERS)
def test_until_everything_is_used_up_it_is_the_forecaster(name: str) -> None:
    own = mw.Lines(each=4.0, share=1.0, thaw=0.0)
    for capital, lines in ((20.0, own), (20.0, None), (None, own)):
        options = dict(mode="sound", capital=capital, lines=lines, thaw=mw.Thaw(budget=2.0), stop=False)
        played = check_equal(attacked(300, 100), MAKERS[name](), options)
        f = played.forecaster
        assert lines is None or 1.0 < f.account("ann").taken <= 4.0
        assert capital is None or f.statement().total_loss <= capital


@pytest.mark.parametrize("above", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("name", ["swap", "deterministic", "over swap", "spread"])
def test_what_a_thaw_does_not_use_changes_nothing(name: str, above: float) -> None:
    """A swap correction draws when it is asked: if λ is not lowered, it must be as if nobody had asked."""
    draw = np.random.default_rng(8)
    y = draw.integers(2, size=600)
    stake = draw.uniform(-CAP, CAP, 600) * (draw.random(600) < 0.5)
    log = pd.DataFrame({"mu": draw.uniform(size=600), "y": y, "stake": stake, "who": 1, "c_hat": 0.0})
    correction = mw.Barrier(30.0, spread=0.05) if name == "spread" else MAKERS[name]()
    check_equal(log, correction, dict(mode="sound", thaw=mw.Thaw(budget=3.0, above=above)))


@pytest.mark.parametrize("name", ["default", "barrier, no gains", "reserve", "standard"])
def test_a_share_of_profits_is_the_forecasters(name: str) -> None:
    log = attacked(150, 200)
    log.loc[:19, "stake"] *= -1.0  # they begin by losing
    options = dict(mode="sound", capital=9.0, lines=None, thaw=mw.Thaw(share=0.1))
    thawing = check_equal(log, MAKERS[name](), options).forecaster.book.thawing
    conceded, profit = thawing.conceded, thawing.profit
    assert profit > 10.0
    assert 0.09 * profit < conceded <= 0.1 * profit


@pytest.mark.parametrize("name", ["default", "reserve"])
def test_a_budget_that_grows_is_the_forecasters(name: str) -> None:
    options = dict(mode="exact" if name == "default" else "sound", thaw=mw.Thaw(root=0.05, per_forecast=0.01))
    played = check_equal(attacked(50, 300), MAKERS[name](), options)
    f = played.forecaster
    assert f.thaw is not None
    assert f.thaw.allowed(300) < f.book.thawing.conceded <= f.thaw.allowed(350)  # it was all used


def test_a_guard_with_less_than_a_rounding_left_is_the_forecasters() -> None:
    """Compiled, a Barrier was narrower here by 5e-13: it did not ask what the capital leaves."""
    log = attacked(400, 0).assign(who=None, y=1, stake=CAP)
    options = dict(mode="sound", capital=3.0, lines=None, thaw=None)
    played = check_equal(log, mw.Barrier(3.0, scale=2.5), options)
    assert 0.0 <= 3.0 - played.running[-1] < 1e-11


def test_many_rows_in_chunks_are_the_forecasters() -> None:
    draw = np.random.default_rng(5)
    rows = 40_000
    y = draw.integers(2, size=rows)
    names = draw.integers(50, size=rows)
    knows = np.where(names < 5, 2.0 * y - 1.0, draw.uniform(-1, 1, rows)) * (draw.random(rows) < 0.9)
    columns = {"mu": draw.uniform(0.1, 0.9, rows), "y": y, "stake": knows, "who": names, "c_hat": 0.0}
    options = dict(mode="sound", capital=60.0, lines=mw.Lines(each=10.0, share=1.0), thaw=mw.Thaw(budget=5.0))
    log = pd.DataFrame(columns)
    result, run = replayed(log, None, options)
    assert run is not None
    f = mw.InsuredForecaster(max_stake=CAP, capital=60.0, lines=options["lines"], thaw=options["thaw"])  # type: ignore[arg-type]  # a dict of several kinds
    paid = []
    for mu, outcome, stake, who, _ in log.itertuples(index=False):
        paid += sold(f, f.forecast(mu=mu), outcome, stake, who)
    assert result.trace["payment"].tolist() == paid
    assert result.total_loss == f.statement().total_loss


@pytest.mark.parametrize("hold", [pd.DataFrame, pl.DataFrame])
@pytest.mark.parametrize("kind", [str, int])
def test_names_stay_with_their_rows(hold: Any, kind: Any) -> None:
    """Where rows are out of order, or lack a number, those that are left are as in a log without them."""
    draw = np.random.default_rng(6)
    rows = 400
    mu, names = draw.uniform(size=rows), draw.integers(20, size=rows)
    y = draw.integers(2, size=rows)
    clean: dict[str, Any] = {"mu": mu, "y": y, "stake": 2.0 * y - 1.0, "who": list(map(kind, names.tolist()))}
    options: Any = dict(by="who", capital=20.0, max_stake=1.0)
    expected = replay(hold(clean), **options)
    gaps: dict[str, Any] = {
        "mu": [0.5, np.nan],
        "y": [1, 1],
        "stake": [np.nan, 1.0],
        "who": list(map(kind, [3, 77])),
    }
    order = draw.permutation(rows + 2)
    longer = {name: [[*values, *gaps[name]][k] for k in order] for name, values in clean.items()}
    result = replay(hold({**longer, "time": order}), time="time", **options)
    assert result.missing == 2
    assert result.total_loss == expected.total_loss
    assert result.premium == expected.premium


@pytest.mark.parametrize("column", [[True, False], [1.5, 2.0], [b"ann", b"bob"]])
@pytest.mark.parametrize("event", [None, "event"])
def test_what_is_no_name_is_refused_in_the_same_words(column: list[Any], event: Any) -> None:
    log = pd.DataFrame({"mu": [0.5] * 2, "y": 1, "stake": 1.0, "who": column, "event": [1, 2]})
    with pytest.raises(TypeError, match=r"by='who' must be text or a whole number; got (True|1\.5|b'ann')"):
        replay(log, by="who", id=event, capital=20.0, max_stake=1.0)
