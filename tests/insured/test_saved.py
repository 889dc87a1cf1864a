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
from samples import sealed

BOOKS = Path(__file__).parents[1] / "data" / "books"

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
        (b'{"kind": "makewhole.insured", "version": 2}', "it has no content"),
        (b"[1, 2]", "is not a makewhole.insured file"),
        (b'{"kind": "something else"}', "is not a makewhole.insured file"),
        (
            b'{"kind": "makewhole.insured", "version": 99, "content": {}}',
            "has version 99 of makewhole.insured",
        ),
        (b'{"kind": "makewhole.insured", "version": 2, "content": {"corrections": []}}', "is damaged"),
    ],
)
def test_a_file_that_is_not_ours_is_named(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "book.json"
    path.write_bytes(content)
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
    """Change a saved book: its content, and its items by key."""
    document = json.loads(path.read_text())
    content = document["content"]
    items = {tuple(key): value for key, value in content["items"]}
    change(content, items)
    if content["items"] != "twice":
        content["items"] = [[list(key), value] for key, value in items.items()]
    else:
        content["items"] = [[list(key), value] for key, value in items.items()] * 2
    path.write_text(json.dumps(sealed(document)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c, i: i["totals", None].update(total="a"), "total must be a number"),
        (lambda c, i: i["totals", None].update(total=float("nan")), "total must be finite"),
        (lambda c, i: i["totals", None].update(total=10**400), "total must be finite"),
        (lambda c, i: i["totals", None].update(idle=1.5), "idle must be a whole number"),
        (lambda c, i: i["totals", None].update(surprises=-1.0), r"surprises must lie in \[0, 0\]"),
        (lambda c, i: i["standing", None].update(next=-5), "next must be a whole number"),
        (lambda c, i: i["open", 0].update(number=-1), "number must be a whole number"),
        (lambda c, i: i.update({("open", 1.5): i["open", 0]}), "id must be text or a whole number"),
        (lambda c, i: i["memory", 0, None].update(steps=-1), "steps in the state must not be negative"),
        (lambda c, i: i["memory", 0, None].update(rate=0.7), "the state must be that of"),
        (lambda c, i: i.update({("over", 0, None): {}}), "the correction is over no other"),
        (
            lambda c, i: i.update({("memory", 0, "g"): i["memory", 0, None]}),
            "groups need a grouped correction",
        ),
        (lambda c, i: c.update(corrections=[]), "there must be 1 corrections; got 0"),
        (lambda c, i: c.update(items="twice"), "items must have keys of their own"),
        (lambda c, i: c["settings"].update(mode="x"), "mode must be 'exact' or 'sound'"),
        (lambda c, i: c["settings"].update(strange=1), "is damaged"),
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
    ("change", "message"),
    [
        ({"tally": {"sums": ["a", "b"]}}, "turnover must be a number"),
        ({"tally": {"sums": [0.0, float("nan")]}}, "total must be finite"),
        ({"tally": {"counts": [0, 0, 0, 0, 1.5]}}, "idle must be a whole number"),
        ({"next": -5}, "open forecasts must have numbers below -5"),
        ({"next": 0}, "open forecasts must have numbers below 0"),
        ({"corrections": []}, "there must be 1 corrections; got 0"),
        ({"open": "twice"}, "items must have keys of their own"),
        ({"late": [1, [0.0]]}, "is damaged|cannot be loaded"),
    ],
)
def test_a_file_of_version_2_with_wrong_numbers_is_refused(
    change: dict[str, Any], message: str, tmp_path: Path
) -> None:
    document = json.loads((BOOKS / "v2_default.json").read_text())
    content = document["content"]
    if "tally" in change:
        change = {"tally": content["tally"] | change["tally"]}
    content |= {"open": content["open"] * 2} if change == {"open": "twice"} else change
    (tmp_path / "book.json").write_text(json.dumps(document))
    with pytest.raises(ValueError, match=message):
        mw.InsuredForecaster.load(tmp_path / "book.json")


@pytest.mark.parametrize("name", [path.name for path in sorted(BOOKS.glob("v*_*.json"))])
def test_files_of_earlier_versions_go_on_where_they_were(name: str) -> None:
    """What each version's own program said of its file, and did next, is in expected.json."""
    expected = json.loads((BOOKS / "expected.json").read_text())[name]
    base = (lambda x: 0.3 + 0.1 * x[0]) if "features" in name else None
    f = mw.InsuredForecaster.load(BOOKS / name, base=base)
    statement = f.statement()
    for field in ("rounds", "open", "voided", "bets", "turnover", "total_loss", "open_exposure"):
        assert getattr(statement, field) == expected[field], field
    assert statement.certificate.bound == expected["bound"]
    # Since version 4 sums are exact, so what they lead to may differ in the last digit.
    assert list(statement.mean_loss_interval or ()) == pytest.approx(expected["interval"], rel=1e-14)
    assert [f.settle(q, 1) for q in f.open_forecasts] == expected["payments"]
    assert f.statement().total_loss == pytest.approx(expected["total_after"], rel=1e-14)
    groups = 1 if "grouped" in name else ["g1", "h0"] if "overlapping" in name else None
    mu = [0.2, 0.3, 0.5] if "classes" in name else 0.45
    q = f.forecast(mu=mu, groups=groups) if base is None else f.forecast(np.array([0.5, 1.0]))
    assert (q.mu, q.id) == (pytest.approx(expected["mu"], rel=1e-14), expected["id"])
    assert q.c == pytest.approx(expected["c"], rel=1e-14)


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
