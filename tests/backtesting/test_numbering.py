"""Groups are numbered as they first occur, the same by the fast ways as one by one."""

import datetime
import functools
from collections.abc import Callable
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from makewhole.backtesting import numbering
from makewhole.backtesting.numbering import number_groups
from makewhole.corrections.names import read_each, read_name

VALUES: Any = {
    "whole": st.integers(-3, 3) | st.integers(-(2**63), 2**63 - 1),
    "yes or no": st.booleans(),
    "numbers": st.sampled_from([0.0, -0.0, 1.0, -2.0, 2.5, float("nan"), float("inf"), 1e300]),
    "whole floats": st.integers(-5, 5).map(float),
    "text": st.text(max_size=2),
    "dates": st.dates(datetime.date(2026, 1, 1), datetime.date(2026, 1, 4)),
}
TYPES: Any = {"whole": pl.Int64, "yes or no": pl.Boolean, "text": pl.String, "dates": pl.Date}
WAYS: Any = {
    "polars": lambda column: column,
    "pandas": lambda column: column.to_pandas(),
    "pandas, objects": lambda column: column.to_pandas().astype(object),
    "pandas, shuffled": lambda column: column.to_pandas().sort_index(ascending=False),
    "arrow": lambda column: pa.chunked_array([column.to_arrow()]),
    "categories": lambda column: column.cast(pl.Categorical) if column.dtype == pl.String else column,
}


def one_by_one(series: Any, known: dict[Any, float], label: Callable[[Any], Any]) -> list[float]:
    """The slow, obvious version."""
    rows = zip(series.to_list(), series.is_null().to_list(), strict=True)
    return [
        float("nan") if gap or value != value else known.setdefault(label(value), float(len(known)))
        for value, gap in rows
    ]


@given(st.lists(st.integers() | st.text(max_size=2) | st.sampled_from([True, 2.5, None, np.int64(3)])))
def test_names_are_read_all_at_once_as_one_by_one(given_: list[Any]) -> None:
    def read(way: Any) -> Any:
        try:
            return [(type(name), name) for name in way()]
        except (TypeError, ValueError) as error:
            return type(error), str(error)

    assert read(lambda: read_each("by", given_)) == read(lambda: [read_name("by", one) for one in given_])


def check(native: Any, prefix: str) -> None:
    series = nw.from_native(native, series_only=True)
    fast, slow = {"before": 0.0, "a": 1.0}, {"before": 0.0, "a": 1.0}
    codes = number_groups(series, fast, prefix)
    label = functools.partial(numbering._label, prefix=prefix)
    expected = one_by_one(series, slow, label)
    assert list(fast.items()) == list(slow.items())
    assert list(map(type, fast)) == list(map(type, slow))
    np.testing.assert_array_equal(codes, expected)
    alone, names = numbering.number_alone(series, lambda values: list(map(label, values)))
    apart: dict[Any, float] = {}
    np.testing.assert_array_equal(alone, one_by_one(series, apart, label))
    assert names == list(apart)
    assert list(map(type, names)) == list(map(type, apart))


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", VALUES)
@given(data=st.data(), prefix=st.sampled_from(["", "column="]))
def test_the_fast_ways_number_as_one_by_one(kind: str, way: str, data: Any, prefix: str) -> None:
    values = data.draw(st.lists(VALUES[kind] | st.none(), max_size=12))
    check(WAYS[way](pl.Series("g", values, dtype=TYPES.get(kind, pl.Float64))), prefix)


@pytest.mark.parametrize(
    "native",
    [
        pl.Series([2**64 - 1, 2**63, 5, None], dtype=pl.UInt64),
        pl.Series([7, 300, 7], dtype=pl.Int128),
        pl.Series(["b", None, "a"], dtype=pl.Enum(["a", "b"])),
        pd.Series([1, True, "1", 1.0, None, 2.5, 1], dtype=object),
        pd.Series([3, None, 1, 3], dtype="Int64"),
        pd.Series([True, None, False], dtype="boolean"),
        pd.Series(["x", None, "y"], dtype="category"),
    ],
    ids=["large", "128 bits", "enum", "mixed", "nullable", "nullable yes or no", "pandas categories"],
)
@pytest.mark.parametrize("prefix", ["", "column="])
def test_so_do_columns_of_rarer_kinds(native: Any, prefix: str) -> None:
    check(native, prefix)


def test_whole_numbers_and_text_are_not_looked_at_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numbering, "_one_by_one", None)
    for column in (
        pl.Series([3, None, 3]),
        pl.Series(["b", "a", "b"]),
        pd.Series(["b", "a"]),
        pd.Series([1.0]),
    ):
        number_groups(nw.from_native(column, series_only=True), {}, "")
