"""Backtests that are a real forecaster's: with classes, capital, a cap on exposure, names and a thaw."""

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import makewhole as mw
from makewhole.agents import Customers
from samples import CORRECTIONS, Foreign, replay, sold

pytestmark = pytest.mark.slow  # its loops take seconds to compile

K = 3


def class_log(rows: int, seed: int = 0) -> pd.DataFrame:
    draw = np.random.default_rng(seed)
    p, b = draw.dirichlet([1.0] * K, rows), draw.normal(size=(rows, K))
    log = pd.DataFrame(
        np.hstack([p, b]), columns=[*(f"p{k}" for k in range(K)), *(f"b{k}" for k in range(K))]
    )
    time = np.arange(rows)
    return log.assign(y=draw.integers(0, K, rows), time=time, known=time + draw.integers(0, 9, rows))


CLASSES: dict[str, Any] = dict(mu=["p0", "p1", "p2"], stake=["b0", "b1", "b2"])


@pytest.mark.parametrize("mode", ["exact", "sound"])
def test_classes_are_the_forecasters(mode: Any) -> None:
    log = class_log(200)
    options: Any = dict(mode=mode, max_stake=9.0)
    result = replay(log, **CLASSES, correction=mw.Reserve(0.1), trace=True, **options)
    f = mw.InsuredForecaster(None, mw.Reserve(0.1), classes=K, **options)
    paid: list[float] = []
    cs: list[Any] = []
    for row in log.to_dict("records"):
        quote = f.forecast(mu=[row[f"p{k}"] for k in range(K)])
        cs.append(quote.c)
        paid += f.settle(quote, row["y"], stake=[row[f"b{k}"] for k in range(K)])
    assert result.trace is not None
    assert result.trace["payment"].tolist() == paid
    assert [result.trace[f"c[{k}]"].tolist() for k in range(K)] == np.array(cs).T.tolist()
    assert result.total_loss == f.statement().total_loss
    assert result.certificate == f.certificate()
    assert list(result.corrections) == f.corrections
    staked = log[["b0", "b1", "b2"]].to_numpy()
    staked = staked if mode == "sound" else mw.multiclass.centred(staked)
    assert result.turnover == pytest.approx(np.abs(staked).sum())
    assert result.turnover == pytest.approx(f.statement().turnover)
    assert result.negative_c == f.statement().negative_c
    assert result.max_stake == 9.0
    running = np.cumsum(paid)
    assert result.peak_loss == pytest.approx(max(0.0, running.max()))
    happened = np.eye(K)[log["y"]]
    fair = (log[["b0", "b1", "b2"]].to_numpy() * (happened - log[["p0", "p1", "p2"]].to_numpy())).sum()
    assert result.premiums == pytest.approx(fair - sum(paid))


def one_price_log(rows: int, classes: int, seed: int = 0) -> Any:
    """A log, and its columns, in which some stakes are the same on all classes, or nothing."""
    draw = np.random.default_rng(seed)
    p, b = draw.dirichlet([1.0] * classes, rows), draw.normal(size=(rows, classes))
    b[::7] = b[::7, :1]
    b[3::11] = 0.0
    names = [f"p{k}" for k in range(classes)], [f"b{k}" for k in range(classes)]
    log = pd.DataFrame(np.hstack([p, b]), columns=[*names[0], *names[1]])
    log = log.assign(
        y=draw.integers(0, classes, rows), w=draw.uniform(0, 0.3, rows), g=draw.choice(["a", "b"], rows)
    )
    return log, dict(mu=names[0], stake=names[1], c_hat="w", max_stake=9.0, c_range=(0.0, 0.5))


@pytest.mark.parametrize("make", [*CORRECTIONS, lambda: Foreign(mw.NaiveBestResponse())])
@pytest.mark.parametrize("classes", [2, 3, 4])
def test_at_one_price_the_compiled_loop_is_the_forecaster_to_the_bit(make: Any, classes: int) -> None:
    log, options = one_price_log(300, classes)
    result = replay(log, correction=make(), trace=True, **options)
    f = mw.InsuredForecaster(None, make(), classes=classes, max_stake=9.0)
    paid: list[float] = []
    cs: list[float] = []
    for row in log.to_dict("records"):
        q = f.forecast(mu=[row[name] for name in options["mu"]], c_hat=row["w"])
        cs.append(q.c[0])
        paid += f.settle(q, row["y"], stake=[row[name] for name in options["stake"]])
    assert result.trace is not None
    assert result.trace["payment"].tolist() == paid
    for k in range(classes):
        assert result.trace[f"c[{k}]"].tolist() == cs
        assert result.trace[f"mu[{k}]"].tolist() == log[f"p{k}"].tolist()
    assert result.total_loss == f.statement().total_loss
    assert result.certificate == f.certificate()
    assert [c.state() for c in result.corrections] == [c.state() for c in f.corrections]
    assert (result.rounds, result.negative_c) == (300, f.statement().negative_c)
    assert result.turnover == pytest.approx(f.statement().turnover)
    assert result.mean_c == pytest.approx(np.mean(cs))


@pytest.mark.parametrize("kind", ["grouped", "overlapping", "events", "thaw"])
def test_at_one_price_groups_events_and_thaws_are_the_forecasters_too(kind: str) -> None:
    log, options = one_price_log(200, 3)
    correction: Any = mw.Grouped(mw.Reserve(0.2)) if kind == "grouped" else mw.Reserve(0.2)
    more: Any = {}
    if kind == "thaw":
        correction = mw.Reserve(0.2, start=0.5)
    if kind == "overlapping":
        correction = mw.Balance(0.2)
    if kind in ("grouped", "overlapping"):
        more = {"group": "g"}
    if kind == "events":
        log = log.assign(e=np.repeat(np.arange(100), 2))
        first = log.groupby("e").transform("first")
        log, more = log.assign(**{name: first[name] for name in (*options["mu"], "y", "w")}), {"id": "e"}
    thaw = mw.Thaw(budget=3.0) if kind == "thaw" else None
    result = replay(log, correction=correction, thaw=thaw, trace=True, **options, **more)
    f = mw.InsuredForecaster(None, correction, classes=3, max_stake=9.0, thaw=thaw)
    q: Any = None
    paid: list[float] = []
    for n, row in enumerate(log.to_dict("records")):
        if q is None or kind != "events" or n % 2 == 0:
            groups = row["g"] if more.get("group") else None
            q = f.forecast(mu=[row[name] for name in options["mu"]], c_hat=row["w"], groups=groups)
        f.stake(q, [row[name] for name in options["stake"]])
        if kind != "events" or n % 2:
            paid += f.settle(q, row["y"])
    assert result.trace is not None
    assert result.trace["payment"].tolist() == pytest.approx(paid, abs=1e-12)
    assert result.total_loss == pytest.approx(f.statement().total_loss, abs=1e-12)
    assert result.certificate == f.certificate()
    if more.get("group"):
        assert result.groups["a"].total_loss == pytest.approx(f.statement().groups["a"].total_loss)
    if kind == "thaw":
        assert f.statement().conceded > 0


def test_late_classes_in_events_are_the_forecasters() -> None:
    log = class_log(60).assign(e=np.repeat(np.arange(30), 2))
    first = log.groupby("e").transform("first")
    log = log.assign(**{name: first[name] for name in ("p0", "p1", "p2", "y")}, known=first["time"] + 7)
    times: Any = dict(time="time", known="known", id="e")
    result = replay(log, **CLASSES, **times, max_stake=9.0)
    f = mw.InsuredForecaster(None, classes=K, max_stake=9.0)
    quotes: dict[int, Any] = {}
    for row in log.to_dict("records"):
        for e in [e for e in quotes if log["known"][2 * e] <= row["time"]]:
            f.settle(quotes.pop(e), int(log["y"][2 * e]))
        if row["e"] not in quotes:
            quotes[row["e"]] = f.forecast(mu=[row[f"p{k}"] for k in range(K)])
        f.stake(quotes[row["e"]], [row[f"b{k}"] for k in range(K)])
    for e, quote in quotes.items():
        f.settle(quote, int(log["y"][2 * e]))
    assert result.rounds == 30
    assert result.total_loss == f.statement().total_loss


@pytest.mark.parametrize(
    ("change", "options", "error", "message"),
    [
        ({"y": 3}, {}, ValueError, "outcome='y' must be a class index, one of 0 … 2; got 3.0 at row 0"),
        ({"p0": 2.0}, {}, ValueError, r"mu\[0\]='p0' must lie in \[0, 1\]; got 2.0 at row 0"),
        ({"p0": 0.0, "p1": 0.1}, {}, ValueError, "mu must add up to 1 over the classes; got .* at row 0"),
        ({"b1": np.inf}, {}, ValueError, r"stake\[1\]='b1' must be finite; got inf at row 0"),
        ({"b1": 8.0}, {"max_stake": 7.0}, ValueError, "max_stake must cover .* got 7.0 < 8.0 at row 0"),
        ({}, {"stake": "b0"}, TypeError, "stake must be a list of the names of columns, one per class"),
        ({}, {"stake": ["b0", "b1"]}, ValueError, "one column for each of at least 2 classes; got 3 and 2"),
        ({}, {"mu": "p0"}, TypeError, "stake must be the name of a column, as mu is"),
    ],
)
def test_classes_that_do_not_fit_are_named(
    change: Any, options: Any, error: type[Exception], message: str
) -> None:
    log = class_log(9).assign(**change)
    with pytest.raises(error, match=message):
        replay(log, **(CLASSES | options))


def winning_log(rows: int) -> pd.DataFrame:
    """Whoever bets wins, whatever the price."""
    draw = np.random.default_rng(0)
    y = draw.integers(0, 2, rows)
    return pd.DataFrame({"mu": draw.uniform(size=rows), "y": y, "stake": 2.0 * y - 1.0, "time": range(rows)})


def test_capital_is_never_exceeded_and_the_result_says_how_much_was_used() -> None:
    log = winning_log(400)
    options: Any = dict(mode="sound", correction=mw.NoCorrection(), max_stake=1.0, stop=False)
    lost = replay(log, **options)
    assert lost.peak_loss > 100
    assert lost.capital is None
    assert lost.capital_used is None
    kept = replay(log, capital=5.0, **options)
    assert kept.peak_loss == pytest.approx(5.0)
    assert kept.capital_used == pytest.approx(1.0)
    assert kept.peak_loss <= 5.0
    assert kept.certificate is not None
    assert kept.certificate.bound == 5.0
    assert "5 (100.0% used)" in str(kept)
    f = mw.InsuredForecaster(None, mw.NoCorrection(), capital=5.0, mode="sound", max_stake=1.0, stop=False)
    for mu, y, b in zip(log["mu"], log["y"], log["stake"], strict=True):
        f.settle(f.forecast(mu=mu), y, stake=b)
    assert kept.total_loss == f.statement().total_loss
    with pytest.raises(ValueError, match="capital can be guarded in sound mode only"):
        replay(log, capital=5.0, mode="exact", max_stake=1.0)
    with pytest.raises(ValueError, match="capital must be at least 1e-06, a millionth of max_stake"):
        replay(log, capital=1e-9, **options)


def test_stakes_beyond_the_cap_on_exposure_are_counted_and_left_out() -> None:
    log = winning_log(50).assign(known=100)
    options: Any = dict(time="time", known="known", correction=mw.NoCorrection(), max_stake=1.0)
    result = replay(log, max_exposure=3.0, trace=True, **options)
    f = mw.InsuredForecaster(None, mw.NoCorrection(), max_exposure=3.0, max_stake=1.0)
    refused, quotes = 0, []
    for mu, y, b in zip(log["mu"], log["y"], log["stake"], strict=True):
        quotes.append((f.forecast(mu=mu), y))
        try:
            f.stake(quotes[-1][0], b)
        except mw.StakeRefused:
            refused += 1
    for quote, y in quotes:
        f.settle(quote, y)
    assert result.refused == refused > 0
    assert result.refused_stake == refused
    assert result.turnover == 50 - refused
    assert result.peak_loss <= 3.0
    assert result.total_loss == f.statement().total_loss
    assert f"{refused} stakes, {refused} in all" in str(result)


def test_a_limit_that_never_binds_changes_nothing() -> None:
    """The compiled loop and the forecaster, on the same log."""
    draw = np.random.default_rng(1)
    time = np.arange(300)
    log = winning_log(300).assign(known=time + draw.integers(0, 20, 300), stake=draw.normal(size=300))
    options: Any = dict(time="time", known="known", max_stake=9.0, trace=True)
    for correction in (mw.StandardRegret(0.5), mw.Reserve(0.05), mw.DeterministicSwap(7)):
        one = replay(log, correction=correction, **options)
        other = replay(log, correction=correction, max_exposure=1e9, **options)
        assert one.trace is not None
        assert other.trace is not None
        for name, column in one.trace.items():
            assert column.tolist() == other.trace[name].tolist(), name
        assert (one.total_loss, one.peak_loss, one.peak_at) == (
            other.total_loss,
            other.peak_loss,
            other.peak_at,
        )
        assert one.curve.lam.tolist() == other.curve.lam.tolist()
        assert one.correction == other.correction


# --- customers --------------------------------------------------------------------------------------------


def forecasts(rows: int, seed: int = 0) -> pd.DataFrame:
    draw = np.random.default_rng(seed)
    mu, time = draw.uniform(size=rows), np.arange(rows)
    view = np.clip(mu + draw.normal(0, 0.2, rows), 0, 1)
    known = time + draw.integers(0, 20, rows)
    return pd.DataFrame({"mu": mu, "y": draw.random(rows) < view, "q": view, "time": time, "known": known})


MIXED: dict[str, Any] = dict(hedgers=0.5, informed=0.2, clairvoyant=0.2, view="q")


@pytest.mark.parametrize("mode", ["exact", "sound"])
@pytest.mark.parametrize("times", [{}, {"time": "time", "known": "known"}])
@pytest.mark.parametrize("losses", [None, 3.0, lambda draw, count: draw.uniform(0, 20, count)])
def test_customers_stake_the_same_compiled_and_not(losses: Any, times: Any, mode: Any) -> None:
    log = forecasts(500)
    customers = Customers(**MIXED, losses=losses, size=7.0, seed=3)
    options: Any = dict(
        customers=customers, mode=mode, max_stake=9.0, correction=mw.Reserve(0.02), trace=True
    )
    compiled = replay(log, **options, **times)
    live = replay(log, max_exposure=1e9, **options, **times)
    assert compiled.trace is not None
    assert live.trace is not None
    assert set(compiled.trace) == set(live.trace)
    for name, column in compiled.trace.items():
        assert column.tolist() == live.trace[name].tolist(), name
    assert (compiled.total_loss, compiled.peak_loss) == (live.total_loss, live.peak_loss)
    assert compiled.wanted_stake == pytest.approx(live.wanted_stake)
    assert compiled.turnover == pytest.approx(live.turnover)
    assert compiled.premium == pytest.approx(live.premium)


def test_customers_do_what_their_manual_says() -> None:
    """Every stake again, from what was published, by the words of the manual."""
    log = forecasts(4000)
    customers = Customers(**MIXED, size=7.0)
    result = replay(log, customers=customers, max_stake=9.0, mode="sound", trace=True)
    kinds, amounts, views = customers.begin(9.0).draw(4000, log["q"])
    trace = result.trace or {}
    wanted = 0.0
    for row in range(4000):
        mu, c, stake, y = (*(trace[name][row] for name in ("mu", "c", "stake")), float(log["y"][row]))
        edge = {1: views[row], 2: y}.get(int(kinds[row]), mu) - mu
        plain = {1: views[row], 2: y}.get(int(kinds[row]), 0.5) - log["mu"][row]
        if kinds[row] == 0:
            uninsured, insured = amounts[row], amounts[row] * (mu + c)
            assert stake == (amounts[row] if insured < uninsured else 0.0)
            wanted += amounts[row]
        elif kinds[row] in (1, 2):
            assert stake == (7.0 * np.sign(edge) if abs(edge) > c else 0.0)
            wanted += 7.0 * (plain != 0)
        else:
            assert stake == 0.0
    assert result.wanted_stake == pytest.approx(wanted)
    shares = np.bincount(kinds, minlength=4) / 4000
    spread = 4 * np.sqrt(0.25 / 4000)  # four standard deviations of a share
    assert shares == pytest.approx([0.5, 0.2, 0.2, 0.1], abs=spread)


def test_losses_are_the_papers_unless_said() -> None:
    _, amounts, _ = Customers().begin(1620.0).draw(20_000)
    assert amounts.min() > 1620 * np.exp(-5)
    assert amounts.max() <= 1620
    # log-uniform: the logarithms have the mean and the variance of a uniform number on 5 units
    logs = np.log(amounts / 1620)
    assert logs.mean() == pytest.approx(-2.5, abs=4 * 5 / np.sqrt(12 * 20_000))
    _, drawn, _ = Customers(losses=10.0).begin(50.0).draw(20_000)
    assert drawn.max() == 50.0
    mean = 10 * (1 - np.exp(-5))  # of an exponential number that is cut at five times its mean
    assert drawn.mean() == pytest.approx(mean, abs=4 * 10 / np.sqrt(20_000))


def test_a_one_sided_forecaster_meets_customers_of_one_side() -> None:
    log = forecasts(300)
    options: Any = dict(one_sided=True, max_stake=1.0, trace=True, customers=Customers(**MIXED))
    compiled, live = replay(log, **options), replay(log, max_exposure=1e9, **options)
    assert compiled.trace is not None
    assert live.trace is not None
    assert (compiled.trace["stake"] >= 0).all()
    assert compiled.trace["payment"].tolist() == live.trace["payment"].tolist()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (dict(hedgers=0.9, clairvoyant=0.2), "must add up to at most 1; got 1.1"),
        (dict(hedgers=-0.1), r"hedgers must lie in \[0, 1\]; got -0.1"),
        (dict(informed=0.1), "view must name the column that informed customers believe; got None"),
        (dict(losses=0), "losses must be one number above 0; got 0"),
        (dict(size=-1), "size must be one number above 0"),
        (dict(seed=-1), "seed must be a whole number of at least 0"),
    ],
)
def test_customers_that_cannot_be_are_named(settings: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Customers(**settings)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(stake="q"), "stake must not be given with customers, who stake once; got 'q'"),
        (dict(id="q"), "id must not be given with customers"),
        (dict(customers=Customers(size=3.0)), "max_stake must be given with losses or size of customers"),
        (dict(customers=Customers(size=3.0), max_stake=2.0), "size must be at most max_stake, 2; got 3"),
        (dict(customers=Customers(informed=0.5, view="z")), "view='z' is not a column"),
        (dict(customers=Customers(informed=0.5, view="time")), r"view='time' must lie in \[0, 1\]; got 2.0"),
        (dict(mu=["mu", "q"]), "customers bet on binary events"),
        (
            dict(customers=Customers(losses=lambda draw, count: [-1.0] * count), max_stake=1),
            "losses must return 9 numbers that are not negative",
        ),
    ],
)
def test_backtests_that_customers_do_not_fit_are_named(options: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replay(forecasts(9), **({"customers": Customers()} | options))


def test_customers_show_what_they_are() -> None:
    assert repr(Customers(**MIXED, seed=2)) == (
        "Customers(hedgers=0.5, informed=0.2, clairvoyant=0.2, view='q', seed=2)"
    )
    assert Customers(clairvoyant=0.25).hedgers == 0.75


@pytest.mark.parametrize("hold", [pd.DataFrame, pl.DataFrame])
def test_with_names_it_is_the_forecaster_to_the_bit(hold: Any) -> None:
    draw = np.random.default_rng(4)
    rows = 800
    y = draw.integers(2, size=rows)
    names = [f"customer {k}" for k in draw.integers(5, size=rows)]
    names[:100] = ["clairvoyant"] * 100
    stake = np.where(np.arange(rows) < 100, 2.0 * y - 1.0, draw.uniform(-1, 1, rows))
    stake[300:320] = 0.0  # nobody
    given: list[Any] = [None if k % 7 == 0 else name for k, name in enumerate(names)]
    log = hold({"mu": draw.uniform(0.2, 0.8, rows), "y": y, "stake": stake, "who": given})
    lines = mw.Lines(each=8.0, share=1.0)
    result = replay(log, by="who", capital=20.0, max_stake=1.0, lines=lines, trace=True)
    f = mw.InsuredForecaster(capital=20.0, max_stake=1.0, lines=lines)
    paid: list[float] = []
    for mu, outcome, b, who in zip(log["mu"], y.tolist(), stake.tolist(), given, strict=True):
        paid += sold(f, f.forecast(mu=float(mu)), outcome, b, who)
    assert result.trace is not None
    assert result.trace["payment"].tolist() == paid
    assert result.total_loss == f.statement().total_loss
    assert result.certificate == f.statement().certificate
    assert 7.3 < f.account("clairvoyant").taken <= 1.2 * 8.0  # her line, and what may thaw
    alone = replay(log, by="who", capital=20.0, max_stake=1.0, lines=None, trace=True)
    assert alone.trace is not None
    assert alone.trace["payment"][:100].tolist() != paid[:100]


def test_a_thaw_in_a_backtest_is_the_forecasters() -> None:
    log = pd.DataFrame({"mu": [0.5] * 800, "y": [1] * 800, "stake": [1.0] * 200 + [0.0] * 600})
    result = mw.backtest(log, max_stake=1.0, trace=True)
    f = mw.InsuredForecaster(max_stake=1.0)
    published = []
    for b in log["stake"]:
        q = f.forecast(mu=0.5)
        f.settle(q, 1, stake=b or None)
        published.append(q.c)
    assert result.trace is not None
    assert result.trace["c"].tolist() == published
    assert published[-1] < 0.2 < published[200]
    still = replay(log, max_stake=1.0, trace=True, thaw=None)
    assert still.trace is not None
    assert still.trace["c"][-1] == still.trace["c"][200]


@pytest.mark.parametrize(
    "settings",
    [
        {"correction": mw.Barrier(100.0), "thaw": mw.Thaw(budget=10.0)},
        {"capital": 100.0},
        {"correction": mw.Reserve(0.01), "mode": "sound", "thaw": mw.Thaw(budget=10.0)},
        {"correction": mw.Barrier(5.0, "guard")},
        {"correction": mw.Barrier(1.0, "linear")},
        {"correction": mw.Reserve.for_capital(5.0, 1.0)},
    ],
)
@pytest.mark.parametrize("unstaked", [0, 3])
@pytest.mark.parametrize("right", [0.8, 1.0])  # if she always is, nothing is left in the end but rounding
def test_capital_and_certificate_are_the_forecasters(
    settings: dict[str, Any], unstaked: int, right: float
) -> None:
    draw = np.random.default_rng(7)
    log = pd.DataFrame({"mu": draw.uniform(size=300), "y": draw.binomial(1, right, 300), "stake": 1.0})
    log.loc[: unstaked - 1, "stake"] = 0.0
    result = replay(log, max_stake=1.0, trace=True, **settings)
    f = mw.InsuredForecaster(max_stake=1.0, **settings)
    paid: list[float] = []
    for mu, y, b in zip(log["mu"].tolist(), log["y"].tolist(), log["stake"].tolist(), strict=True):
        paid += sold(f, f.forecast(mu=mu), y, b)
    assert result.trace is not None
    assert result.trace["payment"].tolist() == paid
    assert (result.certificate, result.capital) == (f.certificate(), f.capital)


@pytest.mark.parametrize(
    "names",
    [
        pd.Series(["ann", None] * 10, dtype="string"),
        pd.Series([1, None] * 10, dtype="Int64"),
        pd.Series([1, None] * 10),
        pd.Series(["ann", None] * 10, dtype="category"),
    ],
)
def test_names_may_be_missing_in_every_way(names: Any) -> None:
    log = pd.DataFrame({"mu": [0.5] * 20, "y": 1, "stake": 1.0, "who": names})
    some = replay(log, by="who", capital=20.0, max_stake=1.0)
    plain = log.assign(who=["ann", None] * 10)
    assert some.total_loss == replay(plain, by="who", capital=20.0, max_stake=1.0).total_loss


def test_customers_with_names_decide_at_their_own_price() -> None:
    log = pd.DataFrame({"mu": [0.5] * 400, "y": 1, "view": 0.6, "who": "ann"})
    customers = Customers(hedgers=0.0, informed=1.0, view="view")
    lines = mw.Lines(each=8.0, share=1.0)
    result = replay(log, by="who", customers=customers, capital=20.0, max_stake=1.0, lines=lines)
    assert 0 < result.turnover < 60  # she leaves when her own price is above her edge
