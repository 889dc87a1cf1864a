"""Files of plain data: a crash leaves the old one or the new one, and what is not ours is named."""

import json
import os
import signal
import stat
import subprocess
import sys
import time
from collections import namedtuple
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import makewhole as mw
from makewhole import saving
from makewhole.forecasters import SparseRow
from samples import memory_of, open_of, sealed, state

plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: (
        st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(st.text() | st.integers(), inner)
    ),
)


@pytest.mark.slow
@given(plain)
def test_features_come_back_as_they_were(value: Any) -> None:
    assert saving.decode(json.loads(json.dumps(saving.encode("x", value, {}))), {}) == value


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6.0).reshape(2, 3),
        np.array([1, 2], dtype=np.int8),
        np.array([True, False]),
        np.array(["a", "bc"]),
        np.float32(0.1),
        np.array([np.nan, np.inf]),
    ],
)
def test_arrays_come_back_with_their_type(array: Any) -> None:
    again = saving.decode(json.loads(json.dumps(saving.encode("x", array, {}))), {})
    assert again.dtype == array.dtype
    assert np.array_equal(again, array, equal_nan=array.dtype.kind == "f")


def test_sparse_rows_come_back() -> None:
    row = SparseRow([1, 2], [0.5, 1.0])
    assert (
        saving.decode(
            json.loads(json.dumps(saving.encode("x", row, {"SparseRow": SparseRow}))),
            {"SparseRow": SparseRow},
        )
        == row
    )


def test_features_that_are_no_plain_data_are_named(tmp_path: Path) -> None:
    f = mw.InsuredForecaster(lambda x: 0.5, max_stake=1)
    f.forecast(object())
    with pytest.raises(TypeError, match="x of open forecast 0 must be plain data to be saved"):
        f.save(tmp_path / "book.json")
    assert list(tmp_path.iterdir()) == []


def test_a_write_that_fails_leaves_the_old_file_and_no_litter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    f = mw.InsuredForecaster(max_stake=1)
    path = tmp_path / "book.json"
    f.save(path)
    before = path.read_bytes()
    f.settle(f.forecast(mu=0.5), 1, stake=1.0)

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        f.save(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


_SAVES_FOR_EVER = """
import sys
import makewhole as mw
f = mw.InsuredForecaster(None, mw.DeterministicSwap(cells=20_000), max_stake=1)
n = 0
while True:
    f.settle(f.forecast(mu=0.5), n % 2, stake=1.0)
    f.save(sys.argv[1])
    n += 1
    print(n, flush=True)
"""


@pytest.mark.slow
def test_killed_in_the_middle_of_writing_it_keeps_what_was_acknowledged(tmp_path: Path) -> None:
    path = tmp_path / "book.json"
    draw = np.random.default_rng(0)
    for _ in range(4):
        process = subprocess.Popen(
            [sys.executable, "-c", _SAVES_FOR_EVER, str(path)], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        process.stdout.readline()  # it has begun
        time.sleep(float(draw.uniform(0.05, 0.4)))
        process.send_signal(signal.SIGKILL)
        acknowledged = int((process.stdout.read().split() or ["1"])[-1])
        process.wait()
        process.stdout.close()
        assert mw.InsuredForecaster.load(path).statement().rounds in (acknowledged, acknowledged + 1)
    mw.InsuredForecaster(max_stake=1).save(path)
    assert list(tmp_path.iterdir()) == [path]  # the drafts of the killed are gone


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is damaged, or is not a makewhole.insured file"),
        (b"\x89PNG\r\n", "is not a makewhole.insured file"),
        (b"[" * 100_000, "is not a makewhole.insured file"),
        (b'{"kind": "makewhole.insured", "version": 7}', "it has no content"),
        (b"[1, 2]", "is not a makewhole.insured file"),
        (b'{"kind": "something else"}', "is not a makewhole.insured file"),
        (
            b'{"kind": "makewhole.insured", "version": 99, "content": {}}',
            "has version 99 of makewhole.insured; this release reads version 7",
        ),
        (b'{"kind": "makewhole.insured", "version": 7, "content": {"corrections": []}}', "is damaged"),
    ],
)
def test_a_file_that_is_not_ours_is_named(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "book.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message):
        mw.InsuredForecaster.load(path)


def test_a_file_of_another_version_is_refused_with_both_versions_named(tmp_path: Path) -> None:
    path = tmp_path / "book.json"
    mw.InsuredForecaster(max_stake=1).save(path)
    document = json.loads(path.read_text())
    assert document["version"] == 7
    for version in (6, 8, "7", None):
        path.write_text(json.dumps(sealed(document | {"version": version})))
        message = f"book.json has version {version!r} of makewhole.insured; this release reads version 7"
        with pytest.raises(ValueError, match=message):
            mw.InsuredForecaster.load(path)


class Third(mw.NaiveBestResponse):
    """Somebody else's correction."""


def test_somebody_elses_correction_is_loaded_with_its_class(tmp_path: Path) -> None:
    f = mw.InsuredForecaster(None, Third(), max_stake=1)
    f.settle(f.forecast(mu=0.5), 1, stake=1.0)
    f.save(tmp_path / "book.json")
    with pytest.raises(ValueError, match="pass correction=, the class '.*Third'"):
        mw.InsuredForecaster.load(tmp_path / "book.json")
    again = mw.InsuredForecaster.load(tmp_path / "book.json", correction=Third)
    assert again.corrections == f.corrections


def test_a_saved_reserve_is_not_dropped_for_another_correction(tmp_path: Path) -> None:
    f = mw.InsuredForecaster(None, mw.Reserve(0.1), mode="sound", max_stake=1)
    f.save(tmp_path / "book.json")
    with pytest.raises(ValueError, match="correction must be Reserve, as in the file, or left out"):
        mw.InsuredForecaster.load(tmp_path / "book.json", correction=mw.NoCorrection)
    again = mw.InsuredForecaster.load(tmp_path / "book.json", correction=mw.Reserve)
    assert again.statement().certificate == f.statement().certificate


def test_a_forecaster_saved_with_a_base_is_not_loaded_without(tmp_path: Path) -> None:
    mw.InsuredForecaster(lambda x: 0.5, max_stake=1).save(tmp_path / "book.json")
    with pytest.raises(ValueError, match="pass base=, the model: this forecaster was saved with one"):
        mw.InsuredForecaster.load(tmp_path / "book.json")


class NaiveBestResponse(mw.NaiveBestResponse):
    """Somebody else's, by one of our names."""


def test_a_name_like_ours_does_not_pass_for_ours(tmp_path: Path) -> None:
    mw.InsuredForecaster(None, NaiveBestResponse(), max_stake=1).save(tmp_path / "book.json")
    with pytest.raises(ValueError, match=r"pass correction=, the class '.*test_saved.NaiveBestResponse'"):
        mw.InsuredForecaster.load(tmp_path / "book.json")


def test_what_could_not_be_loaded_is_not_saved(tmp_path: Path) -> None:
    point = namedtuple("point", "a b")
    f = mw.InsuredForecaster(lambda x: 0.5, max_stake=1)
    f.forecast(point(1, 2))
    with pytest.raises(TypeError, match="x of open forecast 0 must be plain data"):
        f.save(tmp_path / "book.json")


def change_file(path: Path, change: Any) -> None:
    """Change the content of a saved book."""
    document = json.loads(path.read_text())
    change(document["content"])
    path.write_text(json.dumps(sealed(document)))


def totals_of(content: Any) -> Any:
    return content["book"]["everyone"]["totals"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: totals_of(c).update(total="a"), "total must be a number"),
        (lambda c: totals_of(c).update(total=float("nan")), "total must be finite"),
        (lambda c: totals_of(c).update(total=10**400), "total must be finite"),
        (lambda c: totals_of(c).update(idle=1.5), "idle must be a whole number"),
        (lambda c: totals_of(c).update(surprises=-1.0), r"surprises must lie in \[0, 0\]"),
        (lambda c: totals_of(c).update(turnover=11.0), r"turnover must lie in \[0, 0\]"),
        (lambda c: totals_of(c).update(money=[0.5] * 3), "money must be"),
        (lambda c: c["book"].update(next_id=-5), "next_id must be a whole number"),
        (lambda c: c["book"].update(serial=-5), "serial must be a whole number"),
        (lambda c: c["book"].update(serial=0), r"number must lie in \[1, 0\]; got 1"),
        (lambda c: open_of(c).update(number=-1), "number must be a whole number"),
        (lambda c: open_of(c).update(id=1.5), "id must be text or a whole number"),
        (lambda c: memory_of(c).update(steps=-1), "steps in the state must not be negative"),
        (lambda c: memory_of(c).update(rate=0.7), "the state must be that of"),
        (lambda c: c["book"]["inner_memories"].append([0, None, {}]), "correction 0 is over no other"),
        (lambda c: c["book"]["memories"].append([0, "g", memory_of(c)]), "groups need a grouped correction"),
        (lambda c: c["book"]["groups"].append(["g", c["book"]["everyone"]]), "groups need a grouped correct"),
        (lambda c: open_of(c).update(groups=["g"]), "groups need a grouped correction"),
        (lambda c: c.update(corrections=[]), "there must be at least one correction; got none"),
        (lambda c: c["corrections"].append(c["corrections"][0]), "there must be 1 corrections; got 2"),
        (lambda c: c["book"].update(open=c["book"]["open"] * 2), "must have different ids; got 0 twice"),
        (lambda c: c["settings"].update(mode="x"), "mode must be 'exact' or 'sound'"),
        (lambda c: c["settings"].update(strange=1), "is damaged"),
        (lambda c: c["settings"].pop("max_stake"), "is damaged"),
        (lambda c: c.pop("book"), "is damaged: KeyError"),
    ],
)
def test_a_file_with_wrong_numbers_is_refused(change: Any, message: str, tmp_path: Path) -> None:
    path = tmp_path / "book.json"
    f = mw.InsuredForecaster(max_stake=10)
    f.stake(f.forecast(mu=0.5), 5.0)
    f.save(path)
    change_file(path, change)
    with pytest.raises(ValueError, match=message):
        mw.InsuredForecaster.load(path)


@pytest.mark.parametrize(
    "change",
    [
        lambda b: b["accounts"].append(["ann", b["accounts"][0][1] | {"total": 0.0, "low": 0.0}]),
        lambda b: b["memories"].append(b["memories"][0]),
        lambda b: b.update(strange=2),
    ],
    ids=["two accounts", "two memories", "an unknown record"],
)
def test_two_records_of_one_name_and_unknown_ones_are_refused(change: Any) -> None:
    f = mw.InsuredForecaster(max_stake=1, capital=20)
    f.settle(f.forecast(mu=0.5), 1, stake=0.1, by="ann")
    content = json.loads(json.dumps(f.to_state()))
    change(content["book"])
    with pytest.raises(ValueError, match="must"):
        mw.InsuredForecaster.from_state(content)


def test_saving_goes_through_links_and_takes_long_names(tmp_path: Path) -> None:
    real, link = tmp_path / "real.json", tmp_path / "link.json"
    f = mw.InsuredForecaster(max_stake=1)
    f.save(real)
    link.symlink_to(real)
    f.settle(f.forecast(mu=0.5), 1, stake=1.0)
    f.save(link)
    assert link.is_symlink()
    assert mw.InsuredForecaster.load(real).statement().rounds == 1
    f.save(tmp_path / ("n" * 240))


def test_the_new_name_is_forced_to_disk_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    forced, real = [], os.fsync

    def fsync(fd: int) -> None:
        forced.append(stat.S_ISDIR(os.fstat(fd).st_mode))
        real(fd)

    monkeypatch.setattr(os, "fsync", fsync)
    mw.InsuredForecaster(max_stake=1).save(tmp_path / "book.json")
    assert forced == [False, True]


def test_saving_keeps_a_files_permissions(tmp_path: Path) -> None:
    path = tmp_path / "book.json"
    f = mw.InsuredForecaster(max_stake=1)
    f.save(path)
    path.chmod(0o640)
    f.save(path)
    assert path.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("settings", [{"capital": 1e100}, {"lines": mw.Lines(each=1e100), "mode": "sound"}])
def test_with_the_largest_cap_a_book_that_was_saved_is_loaded(settings: Any, tmp_path: Path) -> None:
    f = mw.InsuredForecaster(None, mw.Barrier(1e60), max_stake=1e60, **settings)
    for _ in range(50):
        f.settle(f.forecast(mu=0.5), 0, stake=0.1 * f.max_stake, by="ann")
    f.save(tmp_path / "large.json")
    assert state(mw.InsuredForecaster.load(tmp_path / "large.json")) == state(f)
