"""Packed files: damaged, encrypted and exotic ones are named, and none takes more memory than it may."""

import gzip
import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from makewhole import datasets, unpacking

TEXT = b"mu,y\n" + b"0.5,1\n" * 300


def zipped(files: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", method) as archive:
        for name, content in files.items():
            # At a fixed time: the bytes are names of tests, which all workers must find alike.
            archive.writestr(zipfile.ZipInfo(name), content, method)
    return held.getvalue()


def flagged(content: bytes, at: int, value: int) -> bytes:
    """A zip with two bytes changed in both of its headers, those at `at` after the version field."""
    for mark, skip in ((b"PK\x03\x04", 4), (b"PK\x01\x02", 6)):
        place = content.index(mark) + skip + 2 + at
        content = content[:place] + value.to_bytes(2, "little") + content[place + 2 :]
    return content


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.gz", gzip.compress(TEXT, mtime=0)),
        ("a.GZ", gzip.compress(TEXT[:9], mtime=0) + gzip.compress(TEXT[9:], mtime=0)),
        ("a.zip", zipped({"folder/": b"", "folder/a.csv": TEXT, "b.csv": b"other"})),
        ("a.zip", zipped({"a.csv": TEXT}, zipfile.ZIP_LZMA)),
    ],
)
def test_the_first_file_is_unpacked(name: str, content: bytes, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    assert b"".join(unpacking.pieces(tmp_path / name)) == TEXT


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.gz", b"nonsense"),
        ("a.gz", gzip.compress(TEXT, mtime=0)[:-9]),
        ("a.gz", gzip.compress(TEXT, mtime=0)[:30] + b"?" * 40),
        ("a.zip", b"nonsense"),
        ("a.zip", zipped({})),
        ("a.zip", zipped({"folder/": b""})),
        ("a.zip", flagged(zipped({"a.csv": TEXT}), 0, 1)),  # encrypted
        ("a.zip", flagged(zipped({"a.csv": TEXT}), 2, 99)),  # a method that nobody has
        ("a.zip", zipped({"a.csv": TEXT})[:60] + b"?" * 9 + zipped({"a.csv": TEXT})[69:]),
    ],
)
def test_what_cannot_be_unpacked_is_named(name: str, content: bytes, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match="is damaged or not what its name says"):
        list(unpacking.pieces(tmp_path / name))


@pytest.mark.fuzz
@pytest.mark.parametrize("kind", ["gz", "zip"])
def test_damaged_files_are_never_anything_but_a_value_error(kind: str, tmp_path: Path, fuzzing: int) -> None:
    whole = gzip.compress(TEXT, mtime=0) if kind == "gz" else zipped({"a.csv": TEXT})
    draw, path = np.random.default_rng(fuzzing), tmp_path / f"a.{kind}"
    for _ in range(300 * fuzzing):
        content = bytearray(whole)
        for at in draw.integers(len(whole), size=int(draw.integers(1, 4))):
            content[at] = int(draw.integers(256))
        path.write_bytes(content[: int(draw.integers(1, len(whole) + 1))] if draw.random() < 0.3 else content)
        try:
            list(unpacking.pieces(path))
        except ValueError as error:
            assert str(path) in str(error)  # noqa: PT017 - it may also go well


@pytest.mark.parametrize("kind", ["gz", "zip"])
def test_a_bomb_is_refused_before_it_is_in_memory(kind: str, tmp_path: Path) -> None:
    path, content = tmp_path / f"a.{kind}", bytes(60_000_000)
    path.write_bytes(gzip.compress(content, mtime=0) if kind == "gz" else zipped({"a": content}))
    assert path.stat().st_size < 100_000
    sizes: list[int] = []
    with pytest.raises(
        ValueError, match=r"must not unpack to more than 1\d MB \(10 MB plus 100 times its size\)"
    ):
        sizes.extend(map(len, unpacking.pieces(path)))
    assert sum(sizes) < 20_000_000


def test_flights_with_a_delay_that_is_not_a_number_are_left_out(tmp_path: Path) -> None:
    header = "year,month,day,carrier,origin,dest,sched_dep_time,sched_arr_time,distance,arr_delay"
    rows: list[Any] = [
        f"2013,1,{day},UA,EWR,IAH,515,819,1400,{delay}" for day, delay in ((1, 30.5), (2, "nan"))
    ]
    (tmp_path / "flights.csv").write_text(
        "\n".join([header, *rows, "2013,1,3,UA,EWR,IAH,515,819,1400,NaN", ""])
    )
    events = datasets.load_flights(tmp_path / "flights.csv")
    assert events.outcome.tolist() == [1.0]  # the others are not on time
    assert events.dropped == 2
