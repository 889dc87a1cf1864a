"""Figures are drawn, labelled, and the same to the pixel."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from sklearn.linear_model import LogisticRegression

import makewhole as mw
from makewhole.backtesting.result import BacktestResult
from samples import classes_of, replay, table_of


def results() -> dict[str, BacktestResult]:
    draw = np.random.default_rng(0)
    log = pd.DataFrame({"mu": 0.3, "y": draw.integers(0, 2, 3000), "stake": draw.normal(size=3000)})
    corrections: dict[str, mw.Correction] = {"none": mw.NoCorrection(), "swap": mw.SwapRegret(9, seed=0)}
    return {name: mw.backtest(log, correction=correction) for name, correction in corrections.items()}


@pytest.mark.slow
def test_a_loss_display_has_a_labelled_line_per_run(tmp_path: Path) -> None:
    display = mw.plots.LossDisplay.from_results(results(), unit="euro")
    labels = [line.get_label() for line in display.ax_.get_lines()][:2]
    assert labels == ["none", "swap"]
    assert display.ax_.get_ylabel() == "forecaster's mean loss per forecast (euro)"
    for suffix in ("png", "svg", "pdf"):
        display.figure_.savefig(tmp_path / f"loss.{suffix}")
        assert (tmp_path / f"loss.{suffix}").stat().st_size > 1000


def test_it_draws_into_axes_it_is_given() -> None:
    ax = Figure().subplots()
    display = mw.plots.LossDisplay.from_results(results(), ax=ax)
    assert display.ax_ is ax
    assert display.money_ax_ is None
    pair = Figure().subplots(1, 2)
    display = mw.plots.LossDisplay.from_results(results(), ax=pair)
    assert (display.money_ax_, display.ax_) == tuple(pair)
    with pytest.raises(ValueError, match="ax must be one axes or a pair of them; got 3"):
        mw.plots.LossDisplay.from_results(results(), ax=Figure().subplots(1, 3))


def test_the_profit_is_drawn_in_money_with_its_peak_and_the_capital() -> None:
    draw = np.random.default_rng(0)
    y = draw.integers(0, 2, 9000)
    log = pd.DataFrame({"mu": draw.uniform(size=9000), "y": y, "stake": 2.0 * y - 1})
    result = replay(log[:900], mode="sound", capital=7.0, max_stake=1, correction=mw.Reserve(0.01))
    display = mw.plots.LossDisplay.from_report(result)
    lines = {line.get_label(): line for line in display.money_ax_.get_lines()}
    assert lines["Reserve"].get_ydata().min() == -result.peak_loss
    assert lines["Reserve"].get_ydata()[-1] == -result.total_loss
    assert set(lines["capital used up: -7"].get_ydata()) == {-7.0}
    assert display.money_ax_.get_ylim()[0] < -7.0
    long = mw.backtest(log.assign(stake=draw.normal(size=9000)), correction=mw.NoCorrection())
    drawn = mw.plots.LossDisplay.from_report(long).money_ax_.get_lines()[0]
    assert drawn.get_ydata().min() == -long.peak_loss  # at one of 9000 settlements, of which 2000 are drawn
    certified = replay(log[:900], mode="sound", max_stake=1, correction=mw.Reserve(0.1))
    bounds = [line.get_label() for line in mw.plots.LossDisplay.from_report(certified).money_ax_.get_lines()]
    assert "Reserve: at most 5 lost" in bounds


def test_a_capital_display_marks_what_sufficed() -> None:
    draw = np.random.default_rng(0)
    mu = draw.uniform(size=5000)
    log = pd.DataFrame({"mu": mu, "y": draw.random(5000) < mu})
    report = mw.find_capital(log, customers=mw.agents.Customers(clairvoyant=0.04))
    display = mw.plots.CapitalDisplay.from_report(report, unit="euro")
    dots = {one.get_label(): one.get_offsets() for one in display.ax_.collections}
    assert dots["sufficed"].tolist() == [[p.capital, p.premium] for p in report.points if report.suffices(p)]
    assert len(dots["sufficed"]) + len(dots["did not suffice"]) == len(report.points)
    labels = [line.get_label() for line in display.ax_.get_lines()]
    assert f"smallest that sufficed: {report.smallest:g}" in labels
    assert display.ax_.get_xlabel() == "capital (euro)"
    none = mw.plots.CapitalDisplay.from_report(mw.find_capital(log, premium=1e-9))
    assert not any("smallest" in str(line.get_label()) for line in none.ax_.get_lines())
    with pytest.raises(
        TypeError, match="report must be a CapitalReport, which mw.find_capital returns; got dict"
    ):
        mw.plots.CapitalDisplay.from_report({})


def test_the_same_run_gives_the_same_pixels(tmp_path: Path) -> None:
    paths = [tmp_path / "one.png", tmp_path / "two.png"]
    for path in paths:
        mw.plots.LossDisplay.from_results(results()).figure_.savefig(path, metadata={"Software": None})
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_a_certificate_is_drawn_where_there_is_one() -> None:
    draw = np.random.default_rng(0)
    y, p, b = draw.integers(0, 2, 500), draw.uniform(size=500), draw.normal(size=500)
    f = mw.InsuredForecaster(None, mw.Reserve(0.5), mode="sound", max_stake=5)
    display = mw.plots.LossDisplay.from_predictions(y, p, b, forecaster=f)
    labels = [line.get_label() for line in display.ax_.get_lines()]
    assert "Reserve: at most 5 in all" in labels
    curve, bound = (display.ax_.get_lines()[k].get_ydata() for k in (0, 1))
    assert np.all(np.asarray(curve) <= np.asarray(bound) + 1e-12)
    model = LogisticRegression().fit(p[:, None], y)
    drawn = mw.plots.LossDisplay.from_estimator(model, p[:, None], y, b, correction=mw.NoCorrection())
    assert len(drawn.curves) == 1


def test_reliability_shows_bins_bounds_band_and_the_best_bet() -> None:
    report = mw.audit(table_of(8000, 0, 0.1), c=0.02, groups="g")
    display = mw.plots.ReliabilityDisplay.from_report(report)
    legend = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert legend[:2] == ["the band of c", "a bin, by rows"]
    assert legend[2].startswith("best bet: yes, wins at least 0.0")
    points = display.ax_.collections[-2].get_offsets()
    assert len(points) == 15
    group = mw.plots.ReliabilityDisplay.from_report(report, group="g", value="a")
    assert group.ax_.get_title() == "g=a"
    even = pd.DataFrame({"mu": [0.5] * 2000, "y": [0, 1] * 1000})  # exactly as often as said
    calm = mw.plots.ReliabilityDisplay.from_report(mw.audit(even))
    assert len(calm.ax_.get_legend().get_texts()) == 1  # no band, and no bet to mark
    with pytest.raises(ValueError, match="the report has no cells for group='nowhere'"):
        mw.plots.ReliabilityDisplay.from_report(report, group="nowhere")


def test_soundness_shows_the_surest_bets_first() -> None:
    report = mw.audit(table_of(8000, 0, lambda t: -0.2 * (t["g"] == "b")), groups="g")
    display = mw.plots.SoundnessDisplay.from_report(report, most=5)
    labels = [tick.get_text() for tick in display.ax_.get_yticklabels()]
    assert len(labels) == 5
    assert labels[0].startswith("no on g=b")


@pytest.mark.slow
def test_displays_come_from_predictions_and_estimators_too() -> None:
    table = table_of(1000, 1)
    X, y = table[["mu"]].to_numpy(), np.where(table["y"] == 1, "late", "on time")
    model = LogisticRegression().fit(X, y)
    ax: Any = Figure().subplots()
    for kind in (mw.plots.ReliabilityDisplay, mw.plots.SoundnessDisplay):
        said = kind.from_estimator(model, X, y, groups={"g": table["g"], "y": table["g"]}, ax=ax)
        assert said.ax_ is ax
        assert set(said.report.groups["g"]) == set("abcd")
        total = next(k for k in said.report.rows_of() if said.report.is_total(k))
        assert said.report.table["outcome"][total] == pytest.approx(float((y == "on time").mean()))
        again = kind.from_predictions(y == "on time", model.predict_proba(X)[:, 1])
        assert again.report.brier == pytest.approx(said.report.brier)
    classes = classes_of(900, 0)
    several = mw.plots.ReliabilityDisplay.from_predictions(
        classes["y"], classes[["p0", "p1", "p2"]], class_=2
    )
    assert several.ax_.get_title() == "class 2 of 3"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda k: k.from_predictions([0, 1], [0.5]), "mu must be as long as the outcomes, 2; got 1"),
        (lambda k: k.from_predictions([0, 1], [0.5, 0.5], groups={"y": [1]}), "group y must be as long as"),
        (lambda k: k.from_predictions([0, 1], [0.5, 0.5], groups=["y"]), "groups must be a mapping"),
        (lambda k: k.from_predictions([0, 1], [[0.5], [0.5]]), r"got shape \(2, 1\)"),
        (lambda k: k.from_estimator(object(), [[0]], [0]), "estimator must be a fitted classifier"),
        (
            lambda k: k.from_estimator(LogisticRegression().fit([[0], [1]], [0, 1]), [[0]], [7]),
            r"y must hold the estimator's classes \[0, 1\]; got 7",
        ),
    ],
)
def test_bad_input_to_displays_is_named(call: Any, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        call(mw.plots.ReliabilityDisplay)


def test_an_audit_given_to_the_picture_of_a_backtest_is_named() -> None:
    report = mw.audit(pd.DataFrame({"mu": [0.5], "y": [1]}))
    with pytest.raises(
        TypeError, match="report must be a BacktestResult, which mw.backtest returns; got AuditRep"
    ):
        mw.plots.LossDisplay.from_report(report)


def test_a_watch_is_drawn_with_its_alarms() -> None:
    watch = mw.Watch(groups=["carrier"])
    for day in range(300):
        watch.see(0.2, int(day % 5 == 0), groups={"carrier": "$AA"}, at=day)
        watch.see(0.2, int(day % (5 if day < 150 else 2) == 0), groups={"carrier": "UA"}, at=day)
    display = mw.plots.WatchDisplay.from_watch(watch)
    legend = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert legend[0] == "carrier UA"
    assert r"carrier \$AA" in legend
    assert len(display.ax_.collections) == 2 * len(watch.alarms())
    one = mw.plots.WatchDisplay.from_watch(watch, groups=[{"carrier": "UA"}])
    times, _, excess = watch.history({"carrier": "UA"})
    assert one.ax_.lines[0].get_xdata().tolist() == times
    assert one.ax_.lines[0].get_ydata().tolist() == excess
    not_a_watch: Any = "watch"
    with pytest.raises(TypeError, match="watch must be a makewhole.Watch; got str"):
        mw.plots.WatchDisplay.from_watch(not_a_watch)


def test_the_value_of_forecasts_is_drawn() -> None:
    draw = np.random.default_rng(0)
    mu = draw.uniform(size=800)
    log = pd.DataFrame({"mu": mu, "y": (draw.uniform(size=800) < mu).astype(int), "kind": ["$a", "b"] * 400})
    report = mw.value(log, c=0.02, groups="kind")
    whole = mw.plots.ValueDisplay.from_report(report)
    assert whole.ax_.lines[0].get_ydata().tolist() == [point.saving.value for point in report.of()]
    part = mw.plots.ValueDisplay.from_report(report, group="kind", value="b")
    assert part.ax_.lines[0].get_ydata().tolist() == [point.saving.value for point in report.of("kind", "b")]
    assert [text.get_text() for text in part.ax_.get_legend().get_texts()][-1] == "insured at c = 0.02"
    bars = mw.plots.ValueDisplay.from_report(
        mw.value(log, losses={"go": (0, 3), "stay": (1, 1)}, groups="kind")
    )
    assert [tick.get_text() for tick in bars.ax_.get_yticklabels()] == [
        "all decisions",
        r"kind \$a",
        "kind b",
    ]
    with pytest.raises(ValueError, match="group and value must be in the report; got 'kind', 'z'"):
        mw.plots.ValueDisplay.from_report(report, group="kind", value="z")
    not_a_report: Any = 3
    with pytest.raises(TypeError, match="report must be a ValueReport, which mw.value returns; got int"):
        mw.plots.ValueDisplay.from_report(not_a_report)
