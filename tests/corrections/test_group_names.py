"""What somebody hostile tried with groups: strange names, strange columns, forged files."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import makewhole as mw
from makewhole.cli import main
from samples import log_of, overlapping


class Mine(mw.Reserve):
    """A reserve with its own ways."""

    def propose(self) -> mw.Proposal:
        return super().propose()


def test_a_reserve_with_its_own_ways_is_not_replayed_for_groups() -> None:
    with pytest.raises(TypeError, match="cannot be replayed over another, or for groups"):
        mw.backtest(log_of(20), group="carrier", mode="sound", correction=Mine(overlapping=True))
    with pytest.raises(TypeError, match="correction must be one of makewhole's"):
        mw.Grouped(Mine())


@pytest.mark.parametrize(
    ("values", "names"),
    [
        (pd.Series([1.0, "1.0", 2] * 4, dtype=object), {1, "1.0", 2}),
        (pd.Series([True, "True", "x"] * 4, dtype=object), {"True", "x"}),
        (pd.Series([1, np.nan, 2] * 4), {1, 2}),
        (pd.Series(["a", pd.NA, "b"] * 4, dtype="string"), {"a", "b"}),
        (pd.Series([1, pd.NA, 2] * 4, dtype="Int64"), {1, 2}),
        (pd.Series([[1], [2], [1]] * 4), {"[1]", "[2]"}),
    ],
    ids=["mixed", "truth", "floats", "text", "integers", "lists"],
)
def test_every_row_of_a_strange_column_is_in_a_group_or_counted(values: Any, names: Any) -> None:
    log = log_of(12).assign(g=values)
    result = mw.backtest(log, group="g", correction=mw.Reserve())
    assert set(result.groups) == names
    assert sum(g.rounds for g in result.groups.values()) == result.rounds == 12 - result.missing
    assert result.missing == int(values.isna().sum())


@pytest.mark.parametrize("group", [5, True, [None], ["carrier", "carrier"], b"carrier"])
def test_a_group_that_is_no_column_is_named(group: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="group must be a column, or several different ones"):
        mw.backtest(log_of(10), group=group)


@pytest.mark.parametrize("groups", [np.array("a"), b"AA", np.array([["a"]]), [True], [None]])
def test_groups_that_are_no_names_are_named(groups: Any) -> None:
    with pytest.raises(TypeError, match="groups must be"):
        overlapping(0.1).forecast(mu=0.5, groups=groups)


def test_columns_of_the_same_name_are_named() -> None:
    twice = pd.concat([log_of(5), log_of(5)[["carrier"]]], axis=1)
    with pytest.raises(ValueError, match="columns of different names"):
        mw.backtest(twice, group="carrier")
    with pytest.raises(ValueError, match="columns of different names"):
        mw.audit(twice)


def forged(f: mw.InsuredForecaster, path: Path, change: Any) -> None:
    f.save(path)
    document = json.loads(path.read_text())
    change(document["content"])
    path.write_text(json.dumps(document))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c["corrections"][0]["state"]["by_group"][0][1].update(rate=0.001), "a copy of Reserve"),
        (lambda c: c.update(late=[-1, [0.0], [0.0]]), "late must be a whole number of at least 0; got -1"),
        (lambda c: c.update(late=[2, [-1.0], [0.0]]), "none negative"),
        (lambda c: c["open"][0]["lines"][0].__setitem__(1, -7), r"c must lie in \[0, 0.5\] in sound mode"),
        (lambda c: c["open"][0]["lines"][0][3].__setitem__(0, float("nan")), "proposal must be finite"),
        (lambda c: c["open"][0]["lines"][0][4][1].__setitem__(1, 99), "proposal must come from this"),
        (lambda c: c["open"][0]["lines"][0].__setitem__(4, None), "made with the corrections in the file"),
        (lambda c: c["open"][0].update(stakes=[[float("nan")]]), "stakes must be finite"),
        (lambda c: c["open"][0].update(stakes=[[0.1, 0.1]]), "stakes must be 1 numbers each"),
        (lambda c: c["open"][0].update(groups=[]), "groups must name one group"),
        (lambda c: c["open"][0].update(groups=["nobody"]), "groups must be one of"),
        (lambda c: c["open"][0].update(x={}), "features must be"),
        (lambda c: c["settings"].update(classes=10**9), "there must be 1000000000 corrections; got 1"),
    ],
)
def test_a_forged_file_is_refused(change: Any, message: str, tmp_path: Path) -> None:
    composed = mw.Reserve(0.1, over=mw.DeterministicSwap(5))
    f = mw.InsuredForecaster(None, mw.Grouped(composed, ["a"]), mode="sound", max_stake=1)
    f.settle(f.forecast(mu=0.5, groups="a"), 1, stake=1.0)
    f.stake(f.forecast(mu=0.5, groups="a"), 0.5)
    forged(f, tmp_path / "book.json", change)
    with pytest.raises(ValueError, match=message):
        mw.InsuredForecaster.load(tmp_path / "book.json")


def test_a_floor_that_was_taken_out_of_a_file_is_put_back(tmp_path: Path) -> None:
    f = mw.InsuredForecaster(None, mw.Grouped(mw.Reserve(0.1)), mode="sound", max_stake=1)
    f.settle(f.forecast(mu=0.5, groups="a"), 1, stake=1.0)
    forged(
        f, tmp_path / "b.json", lambda c: c["corrections"][0]["state"]["by_group"][0][1].update(floor=None)
    )
    again = mw.InsuredForecaster.load(tmp_path / "b.json")
    assert again.corrections == f.corrections


def test_brackets_in_a_groups_name_are_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "log.csv"
    log_of(10).assign(g="[bold]x[/nope]").to_csv(path, index=False)
    assert main(["backtest", str(path), "--group", "g", "--correction", "none"]) == 0
    assert "[bold]x[/nope]" in capsys.readouterr().out
    assert main(["backtest", str(path), "--group", "g", "--group", "carrier"]) == 1
    assert "group must be one column unless" in capsys.readouterr().err
