"""Unusual input to audits: weights of 0, names that look alike, decimals, chunks, numbers as objects."""

import math
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import makewhole as mw
from makewhole.auditing.describing import _LONGEST, describe
from samples import table_of


@pytest.mark.slow
@given(st.integers(1, 300), st.floats(0, 1), st.floats(0, 1), st.floats(0, 0.2))
def test_the_smallest_c_is_not_refuted_and_a_little_less_is(
    rows: int, mu: float, share: float, less: float
) -> None:
    table = pd.DataFrame({"mu": mu, "y": np.arange(rows) < share * rows})
    smallest = mw.audit(table).smallest_c
    assert mw.audit(table, c=smallest).sound
    if smallest > 0.01:
        assert not mw.audit(table, c=smallest * 0.99 - min(less, smallest * 0.5)).sound


@pytest.mark.parametrize("weight", [0.1, 0.3, 7.7])
def test_equal_weights_are_no_weights_even_where_rounding_says_otherwise(weight: float) -> None:
    table = pd.DataFrame({"mu": 1.0, "y": [0] * 6 + [1] * 7, "w": weight, "g": "x"})
    report = mw.audit(table, weight="w", groups="g")
    assert report.p_value == report.groups["g"]["x"].p_value
    assert report.p_value < 1e-30


def test_rows_of_no_weight_are_left_out_and_said() -> None:
    table = table_of(500, 8).assign(w=1.0)
    nobody = pd.DataFrame({"mu": [0.0] * 50, "y": [1] * 50, "w": 0.0, "g": "nobody"})
    report = mw.audit(pd.concat([table, nobody]), weight="w", groups="g")
    assert (report.rows, report.incomplete) == (500, 50)
    assert report.log_loss < math.inf
    assert "nobody" not in report.groups["g"]
    assert "50 rows without a positive w" in str(report)


def test_names_that_look_alike_stay_apart() -> None:
    table = pd.DataFrame({"mu": 0.5, "y": [0, 1] * 300, "g": ["a", "a_", "b"] * 200}).assign(
        g_=lambda t: t["g"]
    )
    report = mw.audit(table, groups=["g", "g_"])
    assert {name: set(found) for name, found in report.to_dict()["groups"].items()} == {
        "g": {"a", "a_", "b"},
        "g_": {"a", "a_", "b"},
    }
    many = pd.DataFrame({"mu": 0.5, "y": np.arange(60) % 2, "user_id": range(60), "user": np.arange(60) % 30})
    with pytest.warns(UserWarning, match="groups: the 10 largest"):
        notes = mw.audit(many, groups=["user_id", "user"], max_groups=10).notes
    assert [note.split()[0] for note in notes] == ["user_id", "user"]


def test_confidence_and_numbers_for_c_are_said_as_they_are() -> None:
    table = table_of(2000, 9, 0.2)
    assert "99.9% confidence" in str(mw.audit(table, confidence=0.999))
    number: Any = np.float32(0.1)
    assert "c = 0.1" in str(mw.audit(table, c=number))


def test_labels_of_an_array_with_chunks_of_its_own() -> None:
    parts = [pa.table({"mu": [0.5] * 4, "y": [0, 1] * 2, "g": list(g)}) for g in ("abab", "bccb")]
    coded = [part.set_column(2, "g", part["g"].dictionary_encode()) for part in parts]
    report = mw.audit(pa.concat_tables(coded), groups="g")
    assert {name: found.rows for name, found in report.groups["g"].items()} == {"a": 2, "b": 4, "c": 2}


def test_objects_that_are_numbers_are_numbers() -> None:
    table = table_of(100, 10)
    same = table.assign(mu=table["mu"].astype(object), y=table["y"].astype(bool).astype(object))
    same.loc[3, "mu"] = None
    assert mw.audit(same).rows == 99


def test_a_row_that_lacks_one_classs_number_is_no_classs_row() -> None:
    draw, n = np.random.default_rng(0), 6000
    g = np.where(np.arange(n) % 3 == 0, "A", "B")
    y = draw.integers(0, 3, n)
    y[g == "A"] = draw.choice(3, p=[0.15, 0.7, 0.15], size=2000)  # only A is wrong
    thirds = {f"p{k}": np.full(n, 1 / 3) for k in range(3)}
    gaps = [math.nan if v == "B" and i % 8 != 1 else 0.0 for i, v in enumerate(g)]
    table = pd.DataFrame({**thirds, "y": y, "g": g, "c0": 0.0, "c1": gaps, "c2": 0.0})
    options: dict[str, Any] = dict(mu=["p0", "p1", "p2"], c=["c0", "c1", "c2"], groups="g")
    report, whole = mw.audit(table, **options), mw.audit(table.dropna(), **options)
    assert report.best.value == whole.best.value == "A"
    assert report.rows == whole.rows == n - int(np.isnan(gaps).sum())
    assert report.missing["c1"] == n - report.rows
    assert report.log_loss == pytest.approx(math.log(3))
    assert report.groups == whole.groups


def test_groups_whose_rows_are_all_left_out_do_not_count() -> None:
    table = pd.DataFrame({"mu": 0.5, "y": [1, 0, 1, None, None, None], "g": list("aabcde")})
    report = mw.audit(table, groups="g", max_groups=2)
    assert report.notes == ()
    assert set(report.groups["g"]) == {"a", "b"}


def test_a_predicates_group_is_kept_however_few_groups_are_allowed() -> None:
    table = table_of(300, 11)
    report = mw.audit(table, groups={"high": nw.col("mu") > 0.9}, max_groups=1)
    assert report.notes == ()
    assert report.groups["high"]["yes"].rows == int((table["mu"] > 0.9).sum())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(bins=1001), "bins must be at most 1000; got 1001"),
        (dict(weight="w"), r"weight='w' must be 0, or lie in .*; got 1e-170"),
        (dict(c=""), "c='' is not a column"),
    ],
)
def test_what_would_drown_in_rounding_or_memory_is_refused(options: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        mw.audit(table_of(10, 0).assign(w=1e-170), **options)


def test_decimals_and_record_batches_are_read() -> None:
    prices = pd.DataFrame({"mu": 0.5, "y": [1, 0], "b": [Decimal("2.00"), Decimal("-1.50")]})
    assert mw.audit(prices, stake="b").staked == pytest.approx(3.5)
    with pytest.raises(TypeError, match=r"frame must be a dataframe .* got a RecordBatch of shape"):
        mw.audit(pa.record_batch({"mu": [0.5], "y": [1]}))


@pytest.mark.slow
def test_a_class_that_never_happens_is_said_with_the_likely_mistake() -> None:
    draw = np.random.default_rng(0)
    table = pd.DataFrame(draw.dirichlet([2, 2, 2], 400), columns=["a", "b", "c"])
    table["y"] = (draw.uniform(size=400) < table["b"]).astype(int)  # of a binary event
    report = mw.audit(table, mu=["a", "b", "c"])
    assert report.notes == (
        "class 2 (c) never happens: check that y numbers the columns of mu from 0; "
        "it is 0 or 1 only: a binary event? then give one column of mu",
    )
    assert f"note: {report.notes[0]}" in str(report)
    assert "class 2 (c) never happens" in report._repr_html_()
    from_one = mw.audit(table.assign(y=2, w=1e-100), mu=["a", "b", "c"], weight="w")
    never = "classes 0 (a), 1 (b) never happen: check that y numbers the columns of mu from 0"
    assert from_one.notes[0] == never
    many = pd.DataFrame(np.full((3, 9), 1 / 9), columns=list("abcdefghi")).assign(y=8)
    assert "4 (e), … never happen" in mw.audit(many, mu=list("abcdefghi")).notes[0]
    assert mw.audit(table.assign(y=np.arange(400) % 3), mu=["a", "b", "c"]).notes == ()
    assert mw.audit(table.assign(y=0), mu="a").notes == ()  # a binary event may well never happen


def test_a_value_is_described_whole_where_it_fits() -> None:
    assert describe(np.float64(0.5)) == repr(np.float64(0.5))  # its shape is ()
    assert describe(np.zeros((2, 3))) == "a ndarray of shape (2, 3)"
    assert describe("x" * (_LONGEST - 2)) == repr("x" * (_LONGEST - 2))
    assert describe(10**_LONGEST) == "1" + "0" * (_LONGEST - 2) + "…"


def autumn() -> pl.DataFrame:
    """Half past two comes twice on the day the clocks go back; also lists, and structs."""
    draw = np.random.default_rng(0)
    mu, hours = draw.uniform(0.1, 0.9, 400), [datetime(2024, 10, 27, hour, 30, tzinfo=UTC) for hour in (0, 1)]
    made = {"mu": mu, "y": (draw.random(400) < mu).astype(int), "time": hours * 200, "n": range(400)}
    return pl.DataFrame(
        {**made, "list": [[1, 2], [3]] * 200, "struct": [{"a": 1}, {"a": 2}] * 200}
    ).with_columns(pl.col("time").dt.convert_time_zone("Europe/Berlin"))


HOLD: dict[str, Any] = {
    "polars": lambda frame: frame,
    "lazy": lambda frame: frame.lazy(),
    "pandas": lambda frame: frame.to_pandas(),
    "pandas with arrow": lambda frame: frame.to_pandas(use_pyarrow_extension_array=True),
    "pyarrow": lambda frame: frame.to_arrow(),
}


@pytest.mark.parametrize("options", [{}, {"method": "betting", "order": "n"}])
@pytest.mark.parametrize("hold", HOLD)
def test_an_hour_that_comes_twice_is_two_groups(hold: str, options: Any) -> None:
    groups = mw.audit(HOLD[hold](autumn()), groups=["time"], **options).groups["time"]
    assert {name: group.rows for name, group in groups.items()} == {
        "2024-10-27 02:30:00+01:00": 200,
        "2024-10-27 02:30:00+02:00": 200,
    }


@pytest.mark.parametrize("column", ["list", "struct"])
@pytest.mark.parametrize("hold", HOLD)
def test_groups_that_a_library_cannot_group_by_are_named_with_a_way_out(hold: str, column: str) -> None:
    frame = HOLD[hold](autumn())
    if hold in ("polars", "lazy"):
        assert len(mw.audit(frame, groups=[column]).groups[column]) == 2
        return
    library = hold.split()[0]
    with pytest.raises(
        TypeError, match=rf"column '{column}' has values like .*, which {library} cannot group by"
    ):
        mw.audit(frame, groups=[column])
    if library == "pandas":  # the way out
        text = frame.assign(**{column: frame[column].map(str)})
        assert len(mw.audit(text, groups=[column]).groups[column]) == 2
    if hold == "pandas":
        with pytest.raises(TypeError, match=f"column '{column}' has values like"):
            mw.audit(frame, groups=[column], method="betting", order="n")
