"""Saved files: a damaged one is known, none takes more memory than it holds, nothing else is replaced."""

import contextlib
import json
import os
import stat
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import makewhole as mw
from makewhole import saving
from samples import KINDS, insured, memory_of, open_of, played, sealed


@pytest.mark.slow
def test_no_flipped_bit_goes_unnoticed(tmp_path: Path) -> None:
    """Of 6,504 flips in a file without a checksum, 533 loaded, and 39 changed what was certified."""
    path = tmp_path / "book.json"
    f = mw.InsuredForecaster(None, mw.Reserve(0.1), mode="sound", max_stake=10.0)
    f.settle(f.forecast(mu=0.5), 1, stake=1.5)
    f.stake(f.forecast(mu=0.25), 2.5, by="customer-7")
    f.save(path)
    whole, said = path.read_bytes(), f.to_state()
    silent = 0
    for at in range(len(whole)):
        for bit in range(8):
            path.write_bytes(whole[:at] + bytes([whole[at] ^ (1 << bit)]) + whole[at + 1 :])
            try:
                again = mw.InsuredForecaster.load(path)
            except ValueError:
                continue
            silent += 1
            assert again.to_state() == said
    assert silent < 8  # another way to write the same, such as 1E5 for 1e5


def test_the_way_to_write_numbers_does_not_matter_for_the_checksum(tmp_path: Path) -> None:
    path = tmp_path / "book.json"
    mw.InsuredForecaster(max_stake=1.5).save(path)
    path.write_text(json.dumps(json.loads(path.read_text()), indent=3))
    assert mw.InsuredForecaster.load(path).max_stake == 1.5


def test_an_edited_file_is_refused_with_the_way_out(tmp_path: Path) -> None:
    path = tmp_path / "book.json"
    mw.InsuredForecaster(max_stake=1.5).save(path)
    path.write_text(path.read_text().replace("1.5", "2.5"))
    with pytest.raises(ValueError, match=r"its checksum is wrong. Use a copy of it from a backup"):
        mw.InsuredForecaster.load(path)


# --- what a file may ask for ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        lambda c: c["corrections"][0]["state"].update(cells=200_000_000),
        lambda c: c["settings"].update(classes=200_000_000),
        lambda c: open_of(c).update(x={"array": [], "shape": [2**40], "type": "<f8"}),
    ],
)
def test_a_small_file_takes_little_memory(change: Any, tmp_path: Path) -> None:
    path = tmp_path / "book.json"
    f = mw.InsuredForecaster(lambda x: 0.5, mw.SwapRegret(3), max_stake=1)
    f.forecast(7.0)
    f.save(path)
    document = json.loads(path.read_text())
    change(document["content"])
    path.write_text(json.dumps(sealed(document)))
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="book.json"):
            mw.InsuredForecaster.load(path, base=lambda x: 0.5)
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", ["V400000000", "O", "S9", "M8[s]", "nonsense", None, 7])
def test_types_that_no_features_have_are_refused(name: Any) -> None:
    with pytest.raises(ValueError, match="an array's type must be one of numbers or texts"):
        saving.decode({"array": [1], "shape": [1], "type": name}, {})


def test_texts_get_no_more_room_than_the_longest_of_them_needs() -> None:
    array = saving.decode({"array": ["ab", "c"], "shape": [2], "type": "<U400000000"}, {})
    assert array.tolist() == ["ab", "c"]
    assert array.nbytes == 16
    kept = saving.decode(saving.encode("x", np.array([["a"], ["bcd"]]), {}), {})
    assert kept.tolist() == [["a"], ["bcd"]]


# --- what is replaced, and what is left behind ------------------------------------------------------------


def test_only_regular_files_are_replaced_or_read(tmp_path: Path) -> None:
    f, pipe = mw.InsuredForecaster(max_stake=1), tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (pipe, Path(os.devnull), tmp_path):
        before = path.stat().st_mode
        with pytest.raises(ValueError, match="path must be a regular file; got .*, which is a"):
            f.save(path)
        with pytest.raises(ValueError, match="path must be a regular file; got .*, which is a"):
            mw.InsuredForecaster.load(path)
        assert path.stat().st_mode == before
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert list(tmp_path.iterdir()) == [pipe]


def test_links_in_a_circle_are_an_operating_system_error(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    with pytest.raises(OSError, match="symbolic links"):
        mw.InsuredForecaster(max_stake=1).save(tmp_path / "a")
    with pytest.raises(OSError, match="symbolic links"):
        mw.InsuredForecaster.load(tmp_path / "a")
    with pytest.raises(FileNotFoundError, match="path must lie in a folder that exists; got '.*book.json'"):
        mw.InsuredForecaster(max_stake=1).save(tmp_path / "no" / "book.json")
    with pytest.raises(FileNotFoundError, match="does not exist"):
        mw.InsuredForecaster.load(tmp_path / "c")


def test_old_drafts_go_and_one_that_is_being_written_stays(tmp_path: Path) -> None:
    path = tmp_path / "book.json"
    with saving._draft(path, 0o666) as (draft, _):
        left = draft.with_name(draft.name.replace(".draft", "0.draft"))
        left.write_text("by a process that was killed")
        other = tmp_path / ".makewhole-00000000-0.draft"
        other.write_text("of another file")
        mw.InsuredForecaster(max_stake=1).save(path)
        assert not left.exists()
        assert draft.exists()
        assert other.exists()
    assert not draft.exists()


# --- edited files, checksum and all -----------------------------------------------------------------------

STRANGE: list[Any] = [None, True, -1, 0, 7, 10**400, -(10**30), 1e308, -1e308, 5e-324]
STRANGE += ["", "x", [], {}, [None], {"a": 1}, [1e308]]


def places(value: Any, at: tuple[Any, ...] = ()) -> Any:
    """The way to everything in plain data."""
    yield at
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inside:
        yield from places(item, (*at, key))


@pytest.mark.slow
@pytest.mark.fuzz
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "own"])
def test_an_edited_file_is_refused_or_works(kind: str, tmp_path: Path, fuzzing: int) -> None:
    """A ValueError, or a forecaster that can state, publish, settle and save; never anything else."""
    path, draw = tmp_path / "book.json", np.random.default_rng(fuzzing)
    f = played(insured(kind), 12, seed=0)
    f.save(path)
    text = path.read_text()
    content = json.loads(text)["content"]
    ways = [way for way in places(content) if way]
    chosen = draw.integers(len(ways), size=60 * fuzzing)
    for k in chosen:
        document = json.loads(text)
        inside = document["content"]
        for key in ways[k][:-1]:
            inside = inside[key]
        inside[ways[k][-1]] = STRANGE[int(draw.integers(len(STRANGE)))]
        path.write_text(json.dumps(sealed(document)))
        try:
            again = mw.InsuredForecaster.load(path, base=f.base)
        except ValueError:
            continue
        use(again, path)


def use(f: mw.InsuredForecaster, path: Path) -> None:
    """Everything that one may do with a forecaster; what it refuses, it refuses with an error of ours."""
    statement = f.statement()
    assert str(statement)
    assert repr(f)
    assert statement._repr_html_()
    assert len(f.corrections) in (1, f.classes)
    assert len(dict(statement.groups)) == len(statement.groups)
    for q in f.open_forecasts:
        with contextlib.suppress(mw.StakeRefused):
            f.stake(q, np.full(f.classes, 0.01) if f.classes else 0.01)
        f.settle(q, 1)
    f.save(path)
    mw.InsuredForecaster.load(path, base=f.base)


def edited(kind: str, change: Any) -> dict[str, Any]:
    f = played(insured(kind), 12, seed=0)
    state: dict[str, Any] = json.loads(json.dumps(f.to_state()))
    change(state)
    return state


def exposure_of(content: Any) -> Any:
    return content["book"]["everyone"]


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("reserve", lambda c: exposure_of(c).update(late_open=10**400)),
        ("reserve", lambda c: exposure_of(c).update(late_potential=[1.7e308])),
        ("reserve", lambda c: exposure_of(c).update(late_potential=[-0.1])),
        ("reserve", lambda c: exposure_of(c)["legs"].update(lost=[0.0, 0.0])),
        (
            "reserve",
            lambda c: c["book"]["everyone"]["totals"].update(total=1.7e308, low=1.7e308, surprises=None),
        ),
        ("reserve", lambda c: memory_of(c).update(scale=1e-300, losses=1e300)),
        ("reserve", lambda c: memory_of(c).update(origin=-1e308)),
        ("reserve", lambda c: memory_of(c).update(low=-1e300)),
        ("overlapping", lambda c: c["book"]["memories"].append([0, None, None]) or memory_of(c, "a").clear()),
        ("overlapping", lambda c: memory_of(c, "a").clear()),
        ("overlapping", lambda c: c["book"]["memories"].append([0, None, None])),
        ("swap", lambda c: memory_of(c)["sums"].__setitem__(4, 1e308)),
        ("swap", lambda c: memory_of(c)["weights"].__setitem__(2, 1e-320)),
        ("default", lambda c: open_of(c)["legs"][0].update(c=1e308)),
        ("one-sided", lambda c: open_of(c)["legs"][0].update(c=-5.0)),
        ("reserve", lambda c: open_of(c)["legs"][0].update(mu=1.0, c=0.5)),
    ],
)
def test_numbers_that_no_book_can_have_are_refused_before_they_do_harm(kind: str, change: Any) -> None:
    with pytest.raises(ValueError, match=r"must|damaged"):
        mw.InsuredForecaster.from_state(edited(kind, change))


def test_numbers_of_more_than_64_bits_are_no_features() -> None:
    with pytest.raises(ValueError, match="an array's type must be one of numbers or texts"):
        saving.decode({"array": [1.0], "shape": [1], "type": np.dtype(np.longdouble).str}, {})
