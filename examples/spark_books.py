"""One book per key in Spark Structured Streaming: killed and started again, every row is booked once.

The stream has columns book, seq, mu, outcome and stake. Spark brings each book its rows and keeps its state,
as `InsuredForecaster.to_state()` gives it, in RocksDB with the stream's own checkpoints: rows and state are
committed together. Needs pyspark 4, pandas and a Java 17.

    python examples/spark_books.py FOLDER      reads FOLDER/in/*.parquet, writes FOLDER/out

"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

import makewhole as mw

ROWS = "book string, seq long, mu double, outcome long, stake double"
RESULTS = "book string, seq long, c double, paid double"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def new_book() -> mw.InsuredForecaster:
    """The book that every key begins with."""
    return mw.InsuredForecaster(max_stake=100, capital=15_000)


def play(f: mw.InsuredForecaster, rows: pd.DataFrame) -> pd.DataFrame:
    """Forecast, stake and settle row by row; a stake that the book refuses is paid 0."""
    c, paid = [], []
    for mu, outcome, stake in zip(rows["mu"], rows["outcome"], rows["stake"], strict=True):
        q = f.forecast(mu=float(mu))
        c.append(q.c)
        with contextlib.suppress(mw.StakeRefused):
            f.stake(q, float(stake))
        paid.append(sum(f.settle(q, int(outcome))))
    return pd.DataFrame({"book": rows["book"], "seq": rows["seq"], "c": c, "paid": paid})


class Books(StatefulProcessor):
    """The book of one key: its state comes from Spark, and goes back to it."""

    def init(self, handle: Any) -> None:
        """Ask Spark for a place for the state."""
        self._state = handle.getValueState("book", "json string")

    def handleInputRows(  # noqa: N802 - Spark's name
        self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any
    ) -> Iterator[pd.DataFrame]:
        """Play the rows of one batch, in their order."""
        f = new_book()
        if self._state.exists():
            f = mw.InsuredForecaster.from_state(json.loads(self._state.get()[0]))
        # A batch comes in parts, in any order: the order of the bets is ours to restore.
        batch = pd.concat(list(rows)).sort_values("seq", ignore_index=True)
        yield play(f, batch)
        self._state.update((json.dumps(f.to_state()),))

    def close(self) -> None:
        """Nothing to close."""


def booked(stream: DataFrame) -> DataFrame:
    """The stream of what every row was offered and paid."""
    return stream.groupBy("book").transformWithStateInPandas(
        Books(), outputStructType=RESULTS, outputMode="Append", timeMode="None"
    )


def main(folder: Path) -> None:
    """Play everything that is in FOLDER/in, from where the last run has stopped."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # else Spark takes another Python
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.streaming.stateStore.providerClass", ROCKSDB)
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    stream = spark.readStream.schema(ROWS).option("maxFilesPerTrigger", 1).parquet(str(folder / "in"))
    (
        booked(stream)
        .writeStream.format("parquet")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .option("path", str(folder / "out"))
        .trigger(availableNow=True)
        .start()
        .awaitTermination()
    )
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
