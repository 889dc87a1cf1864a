"""The recipe for streams: killed in the middle and started again, every row is booked once, to the bit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

EXAMPLE = Path(__file__).parents[1] / "examples" / "spark_books.py"
BOOKS, EACH, FILES = 6, 200, 4


def rows() -> pd.DataFrame:
    draw = np.random.default_rng(0)
    count = BOOKS * EACH
    names = np.tile([f"book {k}" for k in range(BOOKS)], EACH)
    table = pd.DataFrame({"book": names, "seq": np.repeat(np.arange(EACH), BOOKS)})
    table["mu"] = draw.uniform(0.1, 0.9, count)
    table["outcome"] = (draw.uniform(size=count) < 0.8 * table["mu"]).astype(int)
    table["stake"] = np.where(table["outcome"] == 1, 100.0, -100.0) * (draw.uniform(size=count) < 0.3)
    return table


@pytest.mark.slow
def test_a_stream_that_was_killed_goes_on_and_books_every_row_once(tmp_path: Path) -> None:
    table = rows()
    (tmp_path / "in").mkdir()
    for k in range(FILES):
        part = table.iloc[k * len(table) // FILES : (k + 1) * len(table) // FILES]
        part.to_parquet(tmp_path / "in" / f"{k}.parquet")

    run = [sys.executable, str(EXAMPLE), str(tmp_path)]
    with subprocess.Popen(run, stderr=subprocess.DEVNULL, start_new_session=True) as process:
        done = tmp_path / "checkpoint" / "commits" / "1"
        while not done.exists():
            assert process.poll() is None, "it ended before it could be killed"
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGKILL)
    assert not (tmp_path / "checkpoint" / "commits" / str(FILES - 1)).exists(), "it was killed too late"
    subprocess.run(run, check=True, stderr=subprocess.DEVNULL)

    sys.path.insert(0, str(EXAMPLE.parent))
    try:
        from spark_books import new_book, play
    finally:
        sys.path.pop(0)
    wanted = pd.concat([play(new_book(), of.reset_index(drop=True)) for _, of in table.groupby("book")])
    parts = sorted((tmp_path / "out").glob("*.parquet"))
    log = tmp_path / "out" / "_spark_metadata"
    assert log.is_dir()
    found = pd.concat([pd.read_parquet(part) for part in _committed(log, parts)])
    order = ["book", "seq"]
    found, wanted = (one.sort_values(order, ignore_index=True) for one in (found, wanted))
    assert len(found) == len(table)
    pd.testing.assert_frame_equal(found, wanted, check_exact=True, check_dtype=False)


def _committed(log: Path, parts: list[Path]) -> list[Path]:
    """The files that Spark's own log names: a batch that was cut short may have left others."""
    text = "".join(one.read_text() for one in log.iterdir() if not one.name.startswith("."))
    return [part for part in parts if part.name in text]
