"""A statement in words, as HTML, and of groups."""

from pathlib import Path

import numpy as np
import pytest

import makewhole as mw


def grouped(groups: int = 25) -> mw.InsuredForecaster:
    f = mw.InsuredForecaster(None, mw.Grouped(mw.Reserve(0.1)), mode="sound", max_stake=10)
    draw = np.random.default_rng(0)
    for t in range(60):
        f.settle(f.forecast(mu=0.5, groups=f"<b>{t % groups}"), int(draw.integers(2)), stake=5.0)
    return f


def test_no_bound_is_said_as_such() -> None:
    text = str(mw.InsuredForecaster(None, mw.NoCorrection(), max_stake=1).statement())
    assert "can lose at most    no bound: no correction is used" in text


def test_a_book_without_rounds_has_lost_nothing() -> None:
    statement = mw.InsuredForecaster(None, mw.Reserve(0.1), mode="sound", max_stake=1).statement()
    assert (statement.total_loss, statement.mean_loss, statement.capital_used) == (0.0, 0.0, 0.0)
    assert "mean loss           0\n" in str(statement)


def test_what_was_lost_is_a_share_of_what_can_be_and_a_gain_is_none_of_it() -> None:
    losing, gaining = (mw.InsuredForecaster(None, mw.Reserve(0.1), mode="sound", max_stake=2) for _ in "ab")
    losing.settle(losing.forecast(mu=0.5), 1, stake=1.0)
    gaining.settle(gaining.forecast(mu=0.5), 0, stake=1.0)
    assert losing.statement().certificate.bound == 10.0  # M/(2·0.1)
    assert losing.statement().capital_used == 0.5 / 10.0
    assert "of that lost        5.0%\n" in str(losing.statement())
    assert gaining.statement().capital_used == -0.5 / 10.0
    assert "of that lost        0.0%\n" in str(gaining.statement())


def test_the_alarm_does_not_go_by_the_stakes_unit() -> None:
    """A mean loss whose interval lies above 0 is one, and be it a thousandth of a unit."""
    f = mw.InsuredForecaster(None, mw.NoCorrection(), max_stake=0.01, c_range=(0.0, 0.0))
    assert not f.statement().alarm
    for t in range(1000):
        f.settle(f.forecast(mu=0.5), t % 2, stake=0.01 if t % 2 else -0.01)
    interval = f.statement().mean_loss_interval
    assert interval is not None
    assert 0.0 < interval.low < 0.005 < interval.high
    assert f.statement().alarm


def test_twenty_groups_are_all_shown() -> None:
    statement = grouped(20).statement()
    assert all(f"<b>{k} " in str(statement) for k in range(20))
    assert "groups more" not in str(statement)
    assert "groups more" not in statement._repr_html_()
    assert "and 1 groups more" in str(grouped(21).statement())


def test_html_says_what_the_text_says_and_escapes_names(tmp_path: Path) -> None:
    statement = grouped().statement()
    shown = statement._repr_html_()
    assert "<b>3" not in shown
    assert "&lt;b&gt;" in shown
    assert f"{statement.total_loss:,.6g}" in shown
    assert "and 5 groups more" in shown
    assert "and 5 groups more" in str(statement)
    statement.to_html(tmp_path / "statement.html", title="ours & theirs")
    page = (tmp_path / "statement.html").read_text()
    assert "<title>ours &amp; theirs</title>" in page
    assert shown in page
    with pytest.raises(ValueError, match=r"path must end in .html; got 'statement.txt'"):
        statement.to_html("statement.txt")
    with pytest.raises(ValueError, match="must lie in a folder that exists"):
        statement.to_html(tmp_path / "nowhere" / "statement.html")


def test_a_backtest_is_shown_as_html_too(tmp_path: Path) -> None:
    import pandas as pd

    log = pd.DataFrame({"mu": [0.5] * 4, "y": [1, 0, 1, 1], "stake": [1.0] * 4, "g": ["<i>", "b"] * 2})
    result = mw.backtest(log, group="g", correction=mw.Reserve(0.1))
    assert "&lt;i&gt;" in result._repr_html_()
    assert f"{result.total_loss:,.6g}" in result._repr_html_()
    result.to_html(tmp_path / "backtest.html")
    assert result._repr_html_() in (tmp_path / "backtest.html").read_text()


def test_what_all_groups_can_lose_is_the_sum_of_what_each_can() -> None:
    """Kept up to date as groups begin and are late, it must be what adding up over the groups gives."""
    draw = np.random.default_rng(1)
    books = [
        mw.InsuredForecaster(None, mw.Grouped(mw.Reserve(0.1)), mode="sound", max_stake=3),
        mw.InsuredForecaster(None, mw.Grouped(mw.Reserve(0.01)), max_stake=3),
        mw.InsuredForecaster(None, mw.Grouped(mw.Reserve(0.1), ["a", "b", "z"]), mode="sound", max_stake=3),
        mw.InsuredForecaster(None, mw.Grouped(mw.Reserve(0.1)), max_stake=3, max_exposure=7, mode="sound"),
        mw.InsuredForecaster(None, mw.Grouped(mw.Reserve(0.2)), max_stake=3, classes=3, mode="sound"),
    ]
    for f in books:
        fixed: bool = f.corrections[0].groups is not None
        for _ in range(80):
            mu = 0.4 if f.classes is None else [0.2, 0.3, 0.5]
            f.forecast(mu=mu, groups="ab"[int(draw.integers(2))] if fixed else int(draw.integers(6)))
            if draw.uniform() < 0.7:
                f.settle(f.open_forecasts[0], 1)
            statement = f.statement()
            bounds = [s.certificate.bound for s in statement.groups.values()]
            if fixed:
                bounds += [15.0] * (3 - len(bounds))
            expected = None if None in bounds else sum(b for b in bounds if b is not None)
            assert statement.certificate.bound == pytest.approx(expected, rel=1e-12)
