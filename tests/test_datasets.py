"""The real data: what is read, what is refused, what is downloaded."""

import functools
import gzip
import hashlib
import http.server
import runpy
import struct
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from makewhole import datasets

HEADER = (
    "YEAR,MONTH,DAY,AIRLINE,ORIGIN_AIRPORT,DESTINATION_AIRPORT,"
    "SCHEDULED_DEPARTURE,SCHEDULED_ARRIVAL,DISTANCE,ARRIVAL_DELAY"
)
ROWS = [
    "2015,1,2,WN,SFO,DEN,0600,0925,967,30",
    "2015,1,1,WN,SFO,ATL,1425,2140,2139,-16",
    "2015,1,1,WN,PHX,SLC,0555,0735,507,21",
    "2015,1,1,AA,PHX,SLC,0555,0735,507,99",
    "2015,1,3,WN,PHX,SLC,0555,0735,,20",
    "2015,1,3,WN,PHX,SFO,2359,0135,600,",
]


@pytest.mark.parametrize("kind", ["csv", "csv.gz"])
def test_flights_come_in_order_of_schedule_with_the_right_outcome(kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"flights.{kind}"
    content = "\n".join([HEADER, *ROWS, ""]).encode()
    path.write_bytes(gzip.compress(content) if kind.endswith("gz") else content)
    events = datasets.load_flights(path)
    assert events.outcome.tolist() == [1, 0, 1, 0]  # 21 min, -16, 30, 20: later than 20 minutes is late
    assert events.dropped == 1  # the one without an arrival
    names = [events.features[i] for i in events.indices[:6]]
    assert names == ["departure", "arrival", "distance", "origin=PHX", "destination=SLC", "hour=05"]
    departure = events.data.reshape(4, 6)[:, 0]
    minutes = np.array([355, 865, 360, 355])
    assert departure == pytest.approx((minutes - minutes.mean()) / minutes.std())
    assert events.data.reshape(4, 6)[3, 2] == 0  # a missing distance is taken to be average
    assert len(datasets.load_flights(path, airline="AA")) == 1
    quoted = tmp_path / "quoted.csv"
    quoted.write_text("\n".join([",".join(f'"{c}"' for c in HEADER.split(",")), *ROWS, ""]))
    assert len(datasets.load_flights(quoted)) == 4


@pytest.mark.slow
def test_nycflights_are_uniteds_57782() -> None:
    events = datasets.load_flights()
    assert (len(events), events.dropped) == (57_782, 883)
    assert events.outcome.mean() == pytest.approx(0.1847, abs=1e-4)
    shuffled = events.shuffled(1)
    assert shuffled.outcome.sum() == events.outcome.sum()
    assert sorted(shuffled.data.tolist()) == sorted(events.data.tolist())
    some = events.take(np.array([5, 3]))
    assert np.array_equal(some.indices[:6], events.indices[30:36])


def test_southwests_year_is_read_from_the_folder_of_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MAKEWHOLE_DATA", raising=False)
    with pytest.raises(
        ValueError, match="set MAKEWHOLE_DATA to a folder that holds flights_wn_2015_year.csv.gz"
    ):
        datasets.load_flights(datasets.SOUTHWEST)
    monkeypatch.setenv("MAKEWHOLE_DATA", str(tmp_path))
    with pytest.raises(ValueError, match="flights_wn_2015_year.csv.gz does not exist"):
        datasets.load_flights("southwest-2015")
    rows = "\n".join([HEADER, *ROWS, ""]).encode()
    (tmp_path / "flights_wn_2015_year.csv.gz").write_bytes(gzip.compress(rows))
    assert datasets.load_flights("southwest-2015").name == "2015 WN"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "flights.csv",
            b"a,b,c\n1,2,3\n",
            "has neither the columns of .* nor those of 2015; .* it lacks: AIRLINE",
        ),
        ("flights.csv", b"", "must begin with a header line"),
        ("flights.csv", HEADER.encode() + b"\n", "must have at least one flight; it has only a header"),
        (
            "flights.csv",
            f"{HEADER}\n{ROWS[5]}\n".encode(),
            "has no arrival delay for any of the 1 flights of WN",
        ),
        (
            "flights.csv",
            f"{HEADER}\n{ROWS[0]}\n{ROWS[1].replace('-16', 'late')}\n".encode(),
            "that is not a number",
        ),
        ("flights.csv.gz", b"not gzip", "is damaged or not what its name says"),
        ("flights.csv.gz", gzip.compress(b"x" * 9999, mtime=0)[:-20], "is damaged or not what its name"),
        ("flights.zip", b"PK nonsense", "is damaged or not what its name says"),
        (
            "flights.csv",
            "\n".join([HEADER, "2015,x,2,WN,SFO,DEN,0600,0925,967,30,1,2,3", ""]).encode(),
            "flights.csv",
        ),
    ],
)
def test_wrong_files_are_named(name: str, content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message):
        datasets.load_flights(path)


# --- the files that are downloaded: a small MNIST and Adult of our own, served on loopback -----------------


def small_files() -> dict[str, bytes]:
    draw = np.random.default_rng(0)
    pixels = draw.integers(0, 256, (20, 784)) * (draw.random((20, 784)) < 0.2)
    images = struct.pack(">iiii", 2051, 20, 28, 28) + pixels.astype(np.uint8).tobytes()
    labels = struct.pack(">ii", 2049, 20) + bytes(k % 10 for k in range(20))
    line = (
        "{}, Private, 77516, Bachelors, 13, Never-married, Sales, Husband, White, Male, {}, 0, 40, Cuba, {}"
    )
    adult = (
        "\n".join(line.format(20 + k, 100 * k, ">50K" if k % 3 == 0 else "<=50K") for k in range(30)) + "\n"
    )
    test = "|1x3 Cross validator\n" + "\n".join(f"{row}." for row in adult.splitlines()[:10]) + "\n"
    played = ["2020-01-02,A,B,0.6,1", "2020-01-01,A,B,0.4,0", "2020-01-03,A,B,0.5,0.5"]
    games = "\n".join(["date,team1,team2,prob1,prob1_outcome", *played, ""])
    return {
        "train-images-idx3-ubyte.gz": gzip.compress(images),
        "train-labels-idx1-ubyte.gz": gzip.compress(labels),
        "adult.data": adult.encode(),
        "adult.test": test.encode(),
        "538_mlb_games.csv": games.encode(),
        "538_nba_games.csv": games.encode(),
    }


def sha(name: str, content: bytes) -> str:
    return hashlib.sha256(gzip.decompress(content) if name.endswith("gz") else content).hexdigest()


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A web server that has the files, and an empty cache."""
    folder = tmp_path / "served"
    folder.mkdir()
    files = small_files()
    for name, content in files.items():
        (folder / name.removeprefix("538_")).write_bytes(content)
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_address[1]}/"
        known = {name: (address, sha(name, content)) for name, content in files.items()}
        monkeypatch.setattr(datasets, "FILES", known)
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        monkeypatch.delenv("MAKEWHOLE_DATA", raising=False)
        yield folder
        server.shutdown()


def test_files_are_downloaded_once_and_checked(served: Path, capfd: Any) -> None:
    events = datasets.load_mnist()
    assert (len(events), events.inputs) == (20, 784)
    assert events.probability is not None
    assert events.probability[:3] == pytest.approx([1 / 11, 2 / 11, 3 / 11])
    for path in served.iterdir():
        path.unlink()
    assert len(datasets.load_mnist()) == 20  # from the cache
    with pytest.raises(OSError, match="adult.data could not be downloaded .*; set MAKEWHOLE_DATA"):
        datasets.load_adult()


def test_a_download_that_is_not_the_file_is_refused_and_not_kept(served: Path) -> None:
    (served / "adult.data").write_bytes(b"something else")
    with pytest.raises(ValueError, match="is damaged: its sha256 must be"):
        datasets.load_adult()
    (served / "adult.data").write_bytes(small_files()["adult.data"])
    assert len(datasets.load_adult()) == 40


def test_adult_as_a_table_is_adult_as_events(served: Path) -> None:
    table, events = datasets.load_adult_table(), datasets.load_adult()
    assert table["over_50k"].to_list() == events.outcome.tolist()
    assert table["test"].to_list() == [False] * 30 + [True] * 10
    assert table["age"].dtype.is_integer()
    shown = {f"sex={value}" for value in table["sex"].unique()}
    assert shown == {name for name in events.features if name.startswith("sex=")}


def test_a_folder_of_ones_own_comes_first(
    served: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "own"
    own.mkdir()
    for name, content in small_files().items():
        (own / name).write_bytes(content)
    for path in served.iterdir():
        path.unlink()
    monkeypatch.setenv("MAKEWHOLE_DATA", str(own))
    adult = datasets.load_adult()
    assert adult.outcome[:4].tolist() == [1, 0, 0, 1]
    assert adult.outcome[30:34].tolist() == [1, 0, 0, 1]  # the test file's labels end in a full stop
    assert set(adult.z.tolist()) == set(range(10))
    games = datasets.load_538("mlb")
    assert games["date"].to_list() == ["2020-01-01", "2020-01-02"]  # oldest first, the tie dropped
    assert games["y"].to_list() == [0, 1]
    with pytest.raises(ValueError, match="league must be 'mlb' or 'nba'; got 'nhl'"):
        datasets.load_538("nhl")  # type: ignore[arg-type]  # bad on purpose


def test_the_games_example_runs(served: Path, capsys: Any) -> None:
    example = runpy.run_path(str(Path(__file__).parent.parent / "examples" / "games.py"))
    example["main"]()
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1 + 2 * 2 * 4
    assert lines[1].split()[:3] == ["mlb", "fans", "NoCorrection"]


@pytest.mark.slow
def test_the_benchmark_runs_on_what_is_served(served: Path, tmp_path: Path) -> None:
    from makewhole import studies

    for name in ("adult",):
        corrections = ("swap", "none", "standard 1")
        outcome = studies.run(name, seeds=2, corrections=corrections, jobs=1, out=tmp_path / "out")
        assert outcome.judged
        assert set(outcome.files) == {
            f"{part}_{name}" for part in ("betting_loss", "loss_by_group", "interval_size", "stability")
        }
