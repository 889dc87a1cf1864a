"""Every engine adds up the same: pandas, polars, pyarrow, DuckDB, Dask and Spark, for real."""

import itertools
import math
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import makewhole as mw

GROUPS: Any = ["carrier", "day", "kind", "flag", "month", {"long haul": nw.col("distance") > 1000}]
_SLOW = [pytest.param(engine, marks=pytest.mark.slow) for engine in ("dask", "spark")]
ENGINES = ["polars", "polars lazy", "pyarrow", "duckdb", *_SLOW]

pytestmark = [
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # Spark's sockets live as long as its session
    pytest.mark.filterwarnings("ignore::DeprecationWarning:pyspark"),
]


@pytest.fixture(scope="module")
def parquet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table with everything that engines disagree about."""
    draw, n = np.random.default_rng(0), 4000
    p = draw.uniform(size=n)
    table = pd.DataFrame(
        {
            "p": p,
            "y": draw.uniform(size=n) < p,
            "c": draw.uniform(0, 0.02, n),
            "stake": draw.normal(size=n),
            "w": draw.uniform(0, 2, n),
            "carrier": draw.choice(["AA", "UA", "DL"], n),
            "day": pd.Timestamp("2026-01-01") + pd.to_timedelta(draw.integers(0, 3, n), "D"),
            "kind": pd.Categorical(draw.choice(["jet", "prop"], n)),
            "flag": draw.uniform(size=n) < 0.5,
            "month": draw.integers(1, 4, n).astype(float),
            "distance": draw.uniform(0, 2000, n),
            "q0": p / 2,
            "q1": p / 2,
            "q2": 1 - p,
            "k": draw.integers(0, 3, n),
            "when": pd.Timestamp("2026-01-01") + pd.to_timedelta(draw.integers(0, 200, n), "D"),
            "share": draw.beta(2, 3, n),
        }
    )
    table["month"] = table["month"].astype("Int64")
    table.loc[[1, 2], "p"] = math.nan
    table.loc[3, "stake"] = math.nan
    table.loc[5, "carrier"] = None
    table.loc[6, "month"] = None
    table.loc[7, "distance"] = math.nan
    table.loc[8, ["p", "y"]] = 0.0, True  # impossible, and happened
    table.loc[9, ["p", "y"]] = 1.0, True
    path = tmp_path_factory.mktemp("engines") / "table.parquet"
    table.to_parquet(path, coerce_timestamps="us")
    return path


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    if shutil.which("java") is None:
        pytest.skip("Spark needs a Java 17")
    from pyspark.sql import SparkSession

    settings = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2"}
    builder = SparkSession.builder.master("local[1]").appName("makewhole")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture
def opened(request: pytest.FixtureRequest, parquet: Path) -> Callable[[str], Any]:
    def read(engine: str) -> Any:
        if engine == "dask":
            import dask.dataframe as dd

            return dd.read_parquet(parquet).repartition(npartitions=3)
        if engine == "spark":
            return request.getfixturevalue("spark").read.parquet(str(parquet))
        readers: dict[str, Callable[[Any], Any]] = {
            "pandas": pd.read_parquet,
            "polars": pl.read_parquet,
            "polars lazy": pl.scan_parquet,
            "pyarrow": pq.read_table,
            "duckdb": lambda path: duckdb.read_parquet(str(path)),
        }
        return readers[engine](parquet)

    return read


AUDITS: dict[str, dict[str, Any]] = {
    "plain": dict(mu="p", outcome="y"),
    "groups": dict(mu="p", outcome="y", groups=GROUPS),
    "money": dict(mu="p", outcome="y", groups=["carrier"], c="c", stake="stake", weight="w"),
    "classes": dict(mu=["q0", "q1", "q2"], outcome="k", groups=["flag"], c=0.1),
    "clusters": dict(
        mu="p", outcome="y", groups=["kind", GROUPS[-1]], cluster="when", c="c", weight="w", bins=5
    ),
    "clusters of classes": dict(mu=["q0", "q1", "q2"], outcome="k", cluster="carrier", bins=5),
    "graded": dict(mu="p", outcome="share", groups=["kind"], graded=True),
}


def each_with_each() -> Iterator[Any]:
    """Every audit with every engine. Dask and Spark take a second for each, so two audits there are long."""
    engines = ("polars", "polars lazy", "pyarrow", "duckdb", "dask", "spark")
    for engine, audit in itertools.product(engines, AUDITS):
        long = audit in ("plain", "clusters of classes")
        marks = [pytest.mark.long if long else pytest.mark.slow] if engine in ("dask", "spark") else []
        yield pytest.param(engine, AUDITS[audit], marks=marks, id=f"{audit}-{engine}")


@pytest.mark.parametrize(("engine", "options"), list(each_with_each()))
def test_every_engine_finds_what_pandas_finds(engine: str, options: Any, opened: Any) -> None:
    expected, found = (mw.audit(opened(name), **options) for name in ("pandas", engine))
    same(found.to_dict() | {"made": ""}, expected.to_dict() | {"made": ""})
    for name, column in expected.table.items():
        if isinstance(column, list):
            assert found.table[name] == column
        else:
            np.testing.assert_allclose(found.table[name], column, rtol=0, atol=1e-9, err_msg=name)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("engine", "library"),
    [
        ("pandas", pd.DataFrame),
        ("polars", pl.DataFrame),
        ("polars lazy", pl.DataFrame),
        ("pyarrow", pa.Table),
        ("dask", pd.DataFrame),
        ("duckdb", pl.DataFrame),  # the first installed of polars, pandas and pyarrow
        ("spark", pl.DataFrame),
    ],
)
def test_the_cells_come_out_as_the_frame_went_in(engine: str, library: Any, opened: Any) -> None:
    report = mw.audit(opened(engine), mu="p", outcome="y", groups=["carrier"])
    assert isinstance(report.cells, library)
    cells = nw.from_native(report.cells, eager_only=True)
    assert cells.columns == list(report.table)
    assert cells["rows"].to_list() == report.table["rows"].tolist()
    assert set(cells["value"].to_list()) == {"", *report.groups["carrier"]}


def same(found: Any, expected: Any) -> None:
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for key, value in expected.items():
            same(found[key], value)
    elif isinstance(expected, list):
        for one, other in zip(found, expected, strict=True):
            same(one, other)
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, abs=1e-9, rel=1e-9)
    else:
        assert found == expected


def test_pandas_finds_what_is_there(parquet: Path) -> None:
    """The engines are compared with pandas; pandas is compared with plain arithmetic."""
    table = pd.read_parquet(parquet)
    report = mw.audit(table, "p", "y", groups=GROUPS)
    kept = table[table["p"].notna()]
    assert (report.rows, report.incomplete, report.missing) == (3998, 2, {"p": 2, "y": 0})
    assert report.log_loss == math.inf
    assert set(report.groups["carrier"]) == {"AA", "UA", "DL", "(missing)"}
    assert report.groups["carrier"]["(missing)"].rows == 1
    assert set(report.groups["month"]) == {"1", "2", "3", "(missing)"}
    assert set(report.groups["day"]) == {f"2026-01-0{k} 00:00:00" for k in (1, 2, 3)}
    assert set(report.groups["flag"]) == {"True", "False"}
    assert report.groups["long haul"]["yes"].rows == int((kept["distance"] > 1000).sum())
    bins = np.minimum((kept["p"] * 15).astype(int), 14)
    for k in range(15):
        mine = kept[bins == k]
        row = [
            i
            for i, low in enumerate(report.table["bin_low"])
            if low == k / 15 and report.table["group"][i] == ""
        ]
        at = row[0] if k else next(i for i in row if report.table["bin_high"][i] < 1)
        assert report.table["rows"][at] == len(mine)
        assert report.table["gap"][at] == pytest.approx((mine["y"] - mine["p"]).mean())
    assert report.brier == pytest.approx(((kept["y"] - kept["p"]) ** 2).mean())


@pytest.mark.parametrize("engine", ["pandas", *ENGINES])
@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (dict(mu="carrier", outcome="y"), TypeError, "mu='carrier' must be a column of numbers; got String"),
        (dict(mu="month", outcome="y"), ValueError, r"mu='month' must lie in \[0, 1\].*a percentage\?"),
        (dict(mu="p", outcome="month"), ValueError, "outcome='month' must be 0 or 1; got [23]"),
        (
            dict(mu="p", outcome="nowhere"),
            ValueError,
            "outcome='nowhere' is not a column; the frame has: p, y,",
        ),
        (
            dict(mu="p", outcome="y", weight="stake"),
            ValueError,
            "weight='stake' must be 0, or lie in",
        ),
    ],
    ids=["text", "percent", "outcome", "column", "weight"],
)
def test_every_engine_refuses_the_same(
    engine: str, options: Any, error: Any, message: str, opened: Any
) -> None:
    with pytest.raises(error, match=message):
        mw.audit(opened(engine), **options)


# --- names that an engine reads as a pattern --------------------------------------------------------------

ODD = {"p": "^k$", "y": "*", "w": "a.b", "g": "`g`", "q0": "^q.*$"}


def odd_names(rows: int = 300) -> tuple[pd.DataFrame, pd.DataFrame]:
    """A table with plain names, and one with odd names and with columns that they match, taken for others."""
    draw = np.random.default_rng(3)
    p = draw.uniform(size=rows)
    plain = pd.DataFrame({"p": p, "y": (draw.uniform(size=rows) < p).astype(float), "w": p + 0.5})
    plain["g"], plain["q0"], plain["q1"] = draw.choice(["a", "b"], rows), p, 1 - p
    odd = pd.DataFrame({"k": 1 - p, "g": draw.choice(["x", "y"], rows), "q1": 1 - p})
    return plain, odd.assign(**{ODD[name]: plain[name] for name in ODD})


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["pandas", *ENGINES])
@pytest.mark.parametrize(
    ("plain", "odd"),
    [
        (dict(mu="p", outcome="y"), dict(mu="^k$", outcome="*")),
        (
            dict(mu="p", outcome="y", weight="w", groups={"who": "g"}),
            dict(mu="^k$", outcome="*", weight="a.b", groups={"who": "`g`"}),
        ),
        (dict(mu=["q0", "q1"], outcome="y"), dict(mu=["^q.*$", "q1"], outcome="*")),
    ],
    ids=["plain", "weight and groups", "classes"],
)
def test_a_columns_name_is_never_a_pattern(
    engine: str, plain: Any, odd: Any, request: pytest.FixtureRequest
) -> None:
    expected, table = odd_names()
    if engine == "dask":
        import dask.dataframe as dd

        frame: Any = dd.from_pandas(table, npartitions=2)  # type: ignore[no-untyped-call]  # Dask is not typed
    elif engine == "spark":
        frame = request.getfixturevalue("spark").createDataFrame(table)
    else:
        makers: dict[str, Callable[[Any], Any]] = {
            "pandas": lambda t: t,
            "polars": pl.from_pandas,
            "polars lazy": lambda t: pl.from_pandas(t).lazy(),
            "pyarrow": pa.Table.from_pandas,
            "duckdb": duckdb.from_df,
        }
        frame = makers[engine](table)
    found, right = mw.audit(frame, **odd).to_dict(), mw.audit(expected, **plain).to_dict()
    found.pop("missing"), right.pop("missing")
    found.pop("notes"), right.pop("notes")
    found.pop("made"), right.pop("made")
    same(found, right)
    if "weight" not in odd:
        wrong = f"mu={'a.b'!r} must lie in"
        with pytest.raises(ValueError, match=wrong):  # its own name is shown
            mw.audit(frame, mu="a.b", outcome="*")
        with pytest.raises(
            ValueError, match=r"mu='nowhere' is not a column; the frame has: .*\^k\$, \*, a\.b"
        ):
            mw.audit(frame, mu="nowhere", outcome="*")


def test_rows_without_a_number_are_counted_under_the_columns_own_name() -> None:
    table = pl.from_pandas(odd_names()[1]).with_columns(pl.when(pl.col("k") < 0.9).then("k").alias("^k$"))
    report = mw.audit(table, mu="^k$", outcome="*")
    assert report.missing == {"^k$": table.filter(pl.col("k") >= 0.9).height, "*": 0}
