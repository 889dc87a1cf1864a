"""What somebody hostile tried with groups: strange names, strange columns, forged files."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import makewhole as mw
from makewhole.cli import main
from makewhole.corrections import Proposal
from samples import group_of, log_of, memory_of, open_of, overlapping, sealed


class Mine(mw.Reserve):
    """A reserve with its own ways."""

    def propose(self) -> Proposal:
        return super().propose()


def test_a_reserve_with_its_own_ways_is_not_replayed_for_groups() -> None:
    with pytest.raises(TypeError, match="correction must be one of makewhole's corrections without groups"):
        mw.backtest(log_of(20), group="carrier", correction=Mine())
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
    with pytest.raises(
        (TypeError, ValueError), match="group must be the name of a column, or a list of different names"
    ):
        mw.backtest(log_of(10), group=group)


@pytest.mark.parametrize("groups", [np.array("a"), b"AA", np.array([["a"]]), [True], [None]])
def test_groups_that_are_no_names_are_named(groups: Any) -> None:
    with pytest.raises(TypeError, match="groups must be"):
        overlapping(0.1).forecast(mu=0.5, groups=groups)


@pytest.mark.parametrize("name", [2**63 - 1, 1 - 2**63, np.int64(2**63 - 1), 126, -126, np.uint8(255)])
def test_whole_numbers_of_63_bits_are_names_and_longer_ones_are_not(name: Any) -> None:
    f = mw.InsuredForecaster(None, mw.Grouped(mw.Reserve(0.1)), max_stake=1)
    f.settle(f.forecast(mu=0.5, groups=name), 1)
    assert list(f.statement().groups) == [int(name)]
    longer = 2**63 if name > 0 else -(2**63)
    with pytest.raises(ValueError, match="groups must be at most 9,223,372,036,854,775,807 as a number"):
        f.forecast(mu=0.5, groups=longer)
    f.forecast(mu=0.5, groups=str(longer))


def test_columns_of_the_same_name_are_named() -> None:
    twice = pd.concat([log_of(5), log_of(5)[["carrier"]]], axis=1)
    with pytest.raises(ValueError, match="columns of different names"):
        mw.backtest(twice, group="carrier")
    with pytest.raises(ValueError, match="columns of different names"):
        mw.audit(twice)


def forged(f: mw.InsuredForecaster, path: Path, change: Any) -> None:
    """Save a book, with a change to what was saved."""
    f.save(path)
    document = json.loads(path.read_text())
    change(document["content"])
    path.write_text(json.dumps(sealed(document)))


def leg(content: Any) -> Any:
    return open_of(content, 1)["legs"][0]


def stake(content: Any) -> Any:
    return open_of(content, 1)["stakes"][0]


def everyone(content: Any) -> Any:
    return content["book"]["everyone"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: memory_of(c, "a").update(rate=0.001), "a copy of Reserve"),
        (
            lambda c: everyone(c).update(late_open=-1),
            "late_open must be a whole number of at lea",
        ),
        (lambda c: everyone(c).update(late_potential=[-1.0]), "none negative"),
        (
            lambda c: group_of(c, "a").update(potential=[0.0]),
            "must be what the open forecasts add",
        ),
        (lambda c: everyone(c).update(at_risk=0.0), "must be what the open forecasts add"),
        (lambda c: group_of(c, "a").update(at_risk=0.0), "must be what the open forecasts add"),
        (lambda c: leg(c).update(c=-7), r"c must lie in \[0, 0.5\] in sound mode"),
        (lambda c: leg(c)["proposal"].__setitem__(0, float("nan")), "proposal must be finite"),
        (lambda c: leg(c)["inner"].__setitem__(1, 99), "proposal must come from this"),
        (lambda c: leg(c).update(inner=None), "made with the corrections in the file"),
        (lambda c: stake(c).update(amounts=[float("nan")]), "stakes must be finite"),
        (lambda c: stake(c).update(amounts=[0.1, 0.1]), "stakes must be 1 numbers each"),
        (lambda c: stake(c).update(amounts=[1.5]), "must be ones that are taken"),
        (lambda c: stake(c).update(by=1.5), "by must be text or a whole number"),
        (lambda c: stake(c).update(surcharges=[-0.1]), "surcharges must be 1 numbers, none negative"),
        (lambda c: stake(c).update(surcharges=[0.1, 0.1]), "surcharges must be 1 numbers, none negative"),
        (lambda c: stake(c).update(levels=["ann"]), "levels must be at most 16 names, the last that of who"),
        (
            lambda c: c["book"]["open"].append(open_of(c, 1) | {"id": 7, "number": 1}),
            "open must be the number of open forecasts",
        ),
        (lambda c: c["book"]["open"].append(open_of(c, 1)), "open forecasts must have different ids; got 1"),
        (
            lambda c: c["book"]["open"].append(open_of(c, 1) | {"id": 7}),
            "open forecasts must have different numbers",
        ),
        (lambda c: open_of(c, 1).update(number=99), "number must lie in"),
        (lambda c: open_of(c, 1)["stakes"].clear(), "must be what the open forecasts add"),
        (lambda c: open_of(c, 1).update(groups=[]), "groups must name exactly one group"),
        (lambda c: open_of(c, 1).update(groups=["nobody"]), "groups must be one of"),
        (lambda c: open_of(c, 1).update(x={}), "features must be"),
        (lambda c: leg(c).update(mu_hat=2.0), r"mu must lie in \[0, 1\]"),
        (lambda c: c["book"]["memories"].append([0, None, memory_of(c, "a")]), "must belong to a group"),
        (lambda c: c["book"]["memories"].append([5, "a", memory_of(c, "a")]), "memory must be at most 0"),
        (lambda c: c["book"]["memories"].append([0, "b", memory_of(c, "a")]), "groups must be one of"),
        (lambda c: c["book"]["inner_memories"][0].__setitem__(1, None), "must belong to a group"),
        (lambda c: c["book"]["groups"].append(["b", group_of(c, "a")]), "groups must be one of"),
        (
            lambda c: c["book"]["groups"].append(["a", group_of(c, "a")]),
            "must be those of the forecasts, each",
        ),
        (lambda c: c["book"]["groups"].clear(), "must be those of the forecasts, each once"),
        (lambda c: c["book"]["bounds"].update(base=0.0), "base must be what the open forecasts add up to"),
        (lambda c: c["book"]["bounds"].update(late=9.0), "late must be what the open forecasts add up to"),
        (lambda c: c["book"].pop("everyone"), "is damaged: KeyError"),
        (lambda c: c["settings"].update(classes=10**9), "classes must be at most 100,000"),
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


@pytest.mark.parametrize(
    "other",
    [
        mw.Reserve(0.1),
        mw.OverlappingReserve(0.1),
        mw.Grouped(mw.Reserve(0.1)),
        mw.Grouped(mw.Reserve(0.1), ["b"]),
        mw.Grouped(mw.Reserve(0.2), ["a"]),
        mw.Grouped(mw.NaiveBestResponse(), ["a"]),
    ],
)
@pytest.mark.parametrize("place", [0, 1])
def test_classes_with_different_corrections_are_refused(other: Any, place: int) -> None:
    settings: dict[str, Any] = {"mode": "sound", "max_stake": 1, "classes": 2}
    ours, theirs = (
        mw.InsuredForecaster(None, one, **settings).to_state()
        for one in (mw.Grouped(mw.Reserve(0.1), ["a"]), other)
    )
    assert mw.InsuredForecaster.from_state(ours).to_state()["corrections"] == ours["corrections"]
    ours["corrections"][place] = theirs["corrections"][place]
    with pytest.raises(ValueError, match="all classes must have a correction of the same kind"):
        mw.InsuredForecaster.from_state(ours)


def test_a_floor_that_was_taken_out_of_a_file_is_put_back(tmp_path: Path) -> None:
    f = mw.InsuredForecaster(None, mw.Grouped(mw.Reserve(0.1)), mode="sound", max_stake=1)
    f.settle(f.forecast(mu=0.5, groups="a"), 1, stake=1.0)
    forged(f, tmp_path / "b.json", lambda c: memory_of(c, "a").update(floor=None))
    again = mw.InsuredForecaster.load(tmp_path / "b.json")
    assert again.corrections == f.corrections


def test_brackets_in_a_groups_name_are_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "log.csv"
    log_of(10).assign(g="[bold]x[/nope]").to_csv(path, index=False)
    assert main(["backtest", str(path), "--group", "g", "--correction", "none"]) == 0
    assert "[bold]x[/nope]" in capsys.readouterr().out
    assert main(["backtest", str(path), "--group", "g", "--group", "carrier"]) == 1
    assert "group must be one column, or the correction" in capsys.readouterr().err
