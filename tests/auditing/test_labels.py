"""Labels of groups: the same text whichever engine gave them."""

from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest

import makewhole as mw
from makewhole.auditing.labels import MISSING, text_of


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (3, "3"),
        (3.0, "3"),
        (np.float64(-2.0), "-2"),
        (np.float32(0.0), "0"),
        (3.5, "3.5"),
        (-0.25, "-0.25"),
        (float("inf"), "inf"),
        (float("nan"), MISSING),
        (None, MISSING),
        (pd.NA, MISSING),
        (pd.NaT, MISSING),
        ("", ""),
        ("3.0", "3.0"),
        (True, "True"),
        (Decimal("1.50"), "1.50"),
    ],
)
def test_a_label_is_written_the_same_whatever_kind_of_number_it_came_as(value: Any, text: str) -> None:
    assert text_of(value) == text


def test_whole_numbers_and_missing_values_name_their_groups() -> None:
    table = pd.DataFrame({"mu": 0.5, "y": [0, 1, 1, 0, 1], "g": [1.0, 1.0, 2.5, np.nan, np.nan]})
    found = mw.audit(table, groups="g", bins=1).groups["g"]
    assert {name: one.rows for name, one in found.items()} == {"1": 2, MISSING: 2, "2.5": 1}


@pytest.mark.parametrize("settings", [{}, {"method": "betting", "order": "t"}])
@pytest.mark.parametrize("nothing", [Decimal("NaN"), np.datetime64("NaT"), np.nan, None])
def test_whatever_pandas_calls_missing_is_one_group(nothing: Any, settings: dict[str, Any]) -> None:
    g = pd.Series([nothing, "a", None, nothing], dtype=object)
    table = pd.DataFrame({"mu": 0.5, "y": [0, 1, 1, 0], "t": range(4), "g": g})
    found = mw.audit(table, groups="g", bins=1, **settings).groups["g"]
    assert {name: one.rows for name, one in found.items()} == {"a": 1, MISSING: 3}


@pytest.mark.parametrize("settings", [{}, {"method": "betting", "order": "t"}])
@pytest.mark.parametrize("first", [0, 1, 2])
def test_true_is_not_one_in_a_column_of_mixed_values(first: int, settings: dict[str, Any]) -> None:
    """To pandas they are equal: bets on one of them were credited to whichever group came last."""
    values = [True, 1, 1.0, "1", None]
    g = pd.Series(values[first:] + values[:first] + values * 39, index=range(500, 300, -1), dtype=object)
    right = [int(value is True) if value in (True, 1) else k % 2 for k, value in enumerate(g)]
    table = pd.DataFrame({"mu": 0.5, "y": right, "t": range(200), "g": g})
    table.loc[500, "mu"] = np.nan  # the first row is left out
    found = mw.audit(table, groups="g", bins=1, **settings).groups["g"]
    rows = {"True": 40, "1": 80, "'1'": 40, MISSING: 40}
    rows[["True", "1", "1"][first]] -= 1
    assert {name: one.rows for name, one in found.items()} == rows
    assert [name for name, one in found.items() if one.p_value < 0.05] == ["1", "True"]
    assert all(one.gap.low <= one.gap.value <= one.gap.high for one in found.values())
    assert (found["True"].outcome, found["1"].outcome) == (1.0, 0.0)


@pytest.mark.parametrize("settings", [{}, {"method": "betting", "order": "t"}])
def test_one_is_one_cluster_whatever_kind_of_number_it_is(settings: dict[str, Any]) -> None:
    days = [k // 4 for k in range(400)]
    table = pd.DataFrame({"mu": 0.5, "y": [int(day % 3 > 0) for day in days], "t": range(400), "day": days})
    mixed = pd.Series([day if k % 2 else float(day) for k, day in enumerate(days)], dtype=object)
    one = mw.audit(table, cluster="day", bins=1, **settings)
    other = mw.audit(table.assign(day=mixed), cluster="day", bins=1, **settings)
    assert one.clusters == other.clusters == 100
    assert one.p_value == other.p_value < 0.1
