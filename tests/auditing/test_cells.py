"""What is said of groups, of the best bet and of the scores: from the rows, and from the table of cells."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

import makewhole as mw
from makewhole.auditing.audit import audit_arrays
from makewhole.auditing.report import Scores

BINS, NAMES = 6, ["p0", "p1", "p2"]


def classes_table(rows: int = 700) -> pd.DataFrame:
    """Three classes, weights, stakes; in group "a" the last class is much too rare, but not in every bin."""
    draw = np.random.default_rng(7)
    p = draw.dirichlet([1.5, 2, 3], rows)
    group = draw.choice(list("abc"), rows)
    truth = np.where((group == "a")[:, None], p * [1.0, 2.0, 0.4], p)
    truth /= truth.sum(axis=1, keepdims=True)
    y = (draw.uniform(size=rows)[:, None] > np.cumsum(truth, axis=1)).sum(axis=1)
    table = pd.DataFrame(p, columns=NAMES).assign(y=np.minimum(y, 2), g=group)
    table["w"] = draw.integers(1, 5, rows) / 2.0
    return table


def in_group(table: dict[str, Any], value: str) -> Any:
    group = "g" if value else ""
    return (np.array(table["group"]) == group) & (np.array(table["value"]) == value)


@pytest.mark.parametrize("weight", [None, "w"])
@pytest.mark.parametrize("c", [0.0, 0.03])
def test_a_groups_finding_is_what_its_cells_say(weight: str | None, c: float) -> None:
    report = mw.audit(classes_table(), mu=NAMES, groups="g", bins=BINS, weight=weight, c=c)
    t = report.table
    assert sorted(report.groups["g"]) == ["a", "b", "c"]
    for value, found in report.groups["g"].items():
        mine = in_group(t, value)
        whole, parts = mine & t["total"], mine & ~t["total"]
        assert whole.sum() == 3  # one for each class
        largest = np.flatnonzero(whole)[np.argmax(np.abs(t["gap"][whole]))]
        assert found.class_ == t["class"][largest]
        assert found.rows == t["rows"][largest]
        assert (found.mu, found.outcome, found.c) == (
            t["mu"][largest],
            t["outcome"][largest],
            t["c"][largest],
        )
        assert found.gap == (t["gap"][largest], t["gap_low"][largest], t["gap_high"][largest])
        assert found.c == pytest.approx(c)
        total = t["weight"][whole][0]
        assert found.wins == pytest.approx(
            (np.maximum(t["wins"], 0) * t["weight"])[parts].sum() / total, abs=1e-12
        )
        by_bins = (np.maximum(t["wins_low"], 0) * t["weight"])[parts].sum() / total
        surest = max(0.0, *t["wins_low"][whole])
        assert found.wins_low == pytest.approx(max(by_bins, surest), abs=1e-12)
        assert found.smallest_c == t["smallest_c"][mine].max()
        assert found.p_value == t["p_value"][mine].min()
    assert report.groups["g"]["a"].class_ == 2


def test_one_bet_on_a_whole_group_may_be_surer_than_bets_on_its_bins() -> None:
    rows = 60
    table = pd.DataFrame({"mu": np.linspace(0.3, 0.6, rows), "y": np.arange(rows) % 4 > 0, "g": "a"})
    report = mw.audit(table, groups="g", bins=30)
    t = report.table
    parts = ~t["total"]
    assert not np.any(t["wins_low"][parts] > 0)
    assert report.groups["g"]["a"].wins_low == t["wins_low"][in_group(t, "a") & t["total"]][0] > 0
    assert report.wins_low >= report.groups["g"]["a"].wins_low


def test_the_best_bet_is_the_surest_or_else_the_least_likely_to_be_chance() -> None:
    planted = mw.audit(classes_table(), mu=NAMES, groups="g", bins=BINS)
    t = planted.table
    surest = int(np.argmax(t["wins_low"]))
    assert t["wins_low"][surest] > 0
    right = mw.audit(classes_table().assign(y=2), mu=NAMES, groups="g", bins=BINS, c=1.0)
    least = int(np.argmin(right.table["p_value"]))
    assert right.table["wins_low"].max() <= 0
    for report, k in ((planted, surest), (right, least)):
        t, best = report.table, report.best
        assert (best.class_, best.group, best.value) == (t["class"][k], t["group"][k], t["value"][k])
        assert (best.low, best.high, best.rows) == (t["bin_low"][k], t["bin_high"][k], t["rows"][k])
        assert (best.mu, best.outcome, best.c) == (t["mu"][k], t["outcome"][k], t["c"][k])
        assert best.wins == (t["wins"][k], t["wins_low"][k], t["wins_high"][k])
        assert (best.stake, best.p_value) == (t["stake"][k], t["p_value"][k])
    assert planted.best.stake == np.sign(planted.best.outcome - planted.best.mu)


@pytest.mark.parametrize("c", [0.0, 0.04])
def test_what_a_bet_wins_is_the_size_of_its_gap_after_c(c: float) -> None:
    t = mw.audit(classes_table(), mu=NAMES, groups="g", bins=BINS, c=c).table
    np.testing.assert_allclose(t["gap"], t["outcome"] - t["mu"])
    np.testing.assert_allclose(t["wins"], np.abs(t["gap"]) - c)
    np.testing.assert_allclose(t["wins_low"], np.maximum(t["gap_low"], -t["gap_high"]) - c)
    np.testing.assert_allclose(t["wins_high"], np.maximum(t["gap_high"], -t["gap_low"]) - c)


def test_an_audit_with_the_smallest_c_is_not_refuted_and_with_a_little_less_it_is() -> None:
    table = classes_table()
    needed = mw.audit(table, mu=NAMES, groups="g", bins=BINS).smallest_c
    assert needed > 0.01
    assert mw.audit(table, mu=NAMES, groups="g", bins=BINS, c=needed).sound
    assert not mw.audit(table, mu=NAMES, groups="g", bins=BINS, c=0.999 * needed).sound


def slow_scores(mu: Any, y: Any, w: Any, bins: int) -> dict[str, float]:
    """Murphy's decomposition over bins, and the two scores themselves, row by row."""
    place = np.minimum((mu * bins).astype(int), bins - 1)
    base = np.average(y, weights=w)
    reliability = resolution = ece = mce = 0.0
    for k in np.unique(place):
        inside = place == k
        share = w[inside].sum() / w.sum()
        said, happened = np.average(mu[inside], weights=w[inside]), np.average(y[inside], weights=w[inside])
        reliability += share * (happened - said) ** 2
        resolution += share * (happened - base) ** 2
        ece += share * abs(happened - said)
        mce = max(mce, abs(happened - said))
    brier = np.average((y - mu) ** 2, weights=w)
    parts = {"reliability": reliability, "resolution": resolution, "uncertainty": base * (1 - base)}
    within = brier - reliability + resolution - base * (1 - base)
    log_loss = -np.average(np.log(np.where(y == 1, mu, 1 - mu)), weights=w)
    return parts | {"brier": brier, "within": within, "ece": ece, "mce": mce, "log_loss": log_loss}


def scores_of(scores: Scores) -> dict[str, float]:
    return {name: value[0] if name == "mce" else value for name, value in scores._asdict().items()}


@pytest.mark.parametrize("weight", [None, "w"])
def test_scores_are_what_the_rows_say_class_by_class_and_together(weight: str | None) -> None:
    table = classes_table()
    report = mw.audit(table, mu=NAMES, bins=BINS, weight=weight)
    w = table["w"].to_numpy() if weight else np.ones(len(table))
    p, y = table[NAMES].to_numpy(), table["y"].to_numpy()
    slow = [slow_scores(p[:, k], (y == k).astype(int), w, BINS) for k in range(3)]
    for scores, expected in zip(report.by_class, slow, strict=True):
        assert scores_of(scores) == pytest.approx(expected)
    added = ("brier", "reliability", "resolution", "uncertainty", "within")
    together = {name: sum(one[name] for one in slow) for name in added}
    together["ece"] = sum(one["ece"] for one in slow) / 3
    together["mce"] = max(one["mce"] for one in slow)
    together["log_loss"] = -float(np.average(np.log(p[np.arange(len(y)), y]), weights=w))
    assert scores_of(report.scores) == pytest.approx(together)
    t = report.table
    parts = ~t["total"]
    low = np.maximum(0.0, np.maximum(t["gap_low"], -t["gap_high"]))[parts].max()
    high = np.minimum(1.0, np.maximum(t["gap_high"], -t["gap_low"]))[parts].max()
    assert report.mce[1:] == pytest.approx((low, high))


def test_stakes_are_added_up_in_every_cell_and_group() -> None:
    draw = np.random.default_rng(3)
    table = pd.DataFrame({"mu": draw.uniform(size=300), "g": draw.choice(list("ab"), 300)})
    table["y"] = (draw.uniform(size=300) < table["mu"]).astype(int)
    table = table.assign(stake=draw.normal(size=300), c=draw.uniform(0, 0.1, 300))
    report = mw.audit(table, groups="g", bins=BINS, stake="stake", c="c")
    won = table["stake"] * (table["y"] - table["mu"]) - table["stake"].abs() * table["c"]
    place = np.minimum((table["mu"] * BINS).astype(int), BINS - 1)
    t = report.table
    for k in range(len(t["value"])):
        mine = pd.Series(True, index=table.index) if t["value"][k] == "" else table["g"] == t["value"][k]
        if not t["total"][k]:
            mine &= place == round(t["bin_low"][k] * BINS)
            assert t["bin_high"][k] == pytest.approx(t["bin_low"][k] + 1 / BINS)
        assert t["rows"][k] == mine.sum()
        assert t["staked"][k] == pytest.approx(table["stake"].abs()[mine].sum())
        assert t["won"][k] == pytest.approx(won[mine].sum())
        assert t["c"][k] == pytest.approx(table["c"][mine].mean())
    for value, found in report.groups["g"].items():
        assert found.staked == pytest.approx(table["stake"].abs()[table["g"] == value].sum())
        assert found.won == pytest.approx(won[table["g"] == value].sum())
        assert found.class_ is None


@pytest.mark.parametrize("most", [1, 2, 3, 4])
def test_the_largest_groups_come_first_and_the_rest_are_one(most: int) -> None:
    table = pd.DataFrame({"g": list("ccccaabbd"), "mu": 0.5, "y": [1, 1, 1, 0, 1, 0, 0, 0, 1]})
    table.loc[len(table)] = ["e", np.nan, 1]  # a group without a row that counts is no group
    sizes = {"c": 4, "a": 2, "b": 2, "d": 1}
    happened = {"c": 0.75, "a": 0.5, "b": 0.0, "d": 1.0}
    if most < 4:
        with pytest.warns(UserWarning, match=f"g has 4 groups: the {most} largest"):
            groups = mw.audit(table, groups="g", max_groups=most, bins=1).groups["g"]
    else:
        groups = mw.audit(table, groups="g", max_groups=most, bins=1).groups["g"]
    alone, rest = list(sizes)[:most], list(sizes)[most:]
    assert list(groups) == alone + ([f"({len(rest)} others)"] if rest else [])
    for name in alone:
        assert (groups[name].rows, groups[name].outcome) == (sizes[name], happened[name])
    if rest:
        others = groups[f"({len(rest)} others)"]
        assert others.rows == sum(sizes[name] for name in rest)
        assert others.outcome == pytest.approx(sum(sizes[n] * happened[n] for n in rest) / others.rows)


def test_a_group_that_is_named_like_the_others_does_not_vanish() -> None:
    names = ["(2 others)"] * 40 + ["(2 others, merged)"] * 30 + ["a"] * 2 + ["b"]
    table = pd.DataFrame({"g": names, "mu": 0.5, "y": [1] * 60 + [0] * 13})
    with pytest.warns(UserWarning, match="g has 4 groups: the 2 largest"):
        report = mw.audit(table, groups="g", max_groups=2, bins=1)
    rows = {"(2 others)": 40, "(2 others, merged)": 30, "(2 others, merged, merged)": 3}
    assert {name: group.rows for name, group in report.groups["g"].items()} == rows
    totals = dict(zip(report.table["value"], report.table["rows"].tolist(), strict=True))
    assert totals == {"": 73} | rows
    for shown in (str(report), report._repr_html_()):
        assert all(name[:24] in shown for name in rows)
    assert report.to_dict()["groups"]["g"].keys() == rows.keys()


def test_labels_that_read_alike_are_different_groups() -> None:
    values = pd.Series([1, "1", None, "(missing)", "'1'"] * 4, dtype=object)
    table = pd.DataFrame({"g": values, "mu": 0.5, "y": 1})
    groups = mw.audit(table, groups="g", bins=1).groups["g"]
    assert {name: group.rows for name, group in groups.items()} == {
        "1": 4,
        "\"'1'\"": 4,  # the text 1: its quotes are those of another text
        "'1'": 4,
        "(missing)": 4,
        "'(missing)'": 4,
    }


def test_arrays_are_audited_as_their_frame_would_be() -> None:
    table = classes_table(200)
    groups = {"g": table["g"].to_numpy()}
    many = mw.audit(table, mu=NAMES, groups="g", bins=BINS)
    same = audit_arrays(table["y"].to_numpy(), table[NAMES].to_numpy(), groups, bins=BINS)
    assert same.table["value"] == many.table["value"]
    np.testing.assert_array_equal(same.table["class"], many.table["class"])
    np.testing.assert_allclose(same.table["gap_low"], many.table["gap_low"])
    binary = table.assign(y=(table["y"] == 1).astype(int))
    one = mw.audit(binary, mu="p1", bins=BINS)
    nothing: list[Any] = [None, {}]
    for given in nothing:
        made = audit_arrays(binary["y"].to_numpy(), binary["p1"].to_numpy(), given, bins=BINS)
        assert scores_of(made.scores) == pytest.approx(scores_of(one.scores))
        assert made.groups == {}
    with pytest.raises(ValueError, match=r"probability must be one column, .* got shape \(200, 1\)"):
        audit_arrays(binary["y"].to_numpy(), binary[["p1"]].to_numpy())
    with pytest.raises(ValueError, match="group g must be as long as the outcomes, 200; got 199"):
        audit_arrays(binary["y"].to_numpy(), binary["p1"].to_numpy(), {"g": ["a"] * 199})
