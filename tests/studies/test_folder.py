"""The folder of results: only files that makewhole wrote are replaced or removed."""

import json
import multiprocessing
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from makewhole import studies
from makewhole.cli import main
from makewhole.studies import adversaries, folder

SMALL: dict[str, Any] = {"rounds": 1000, "seeds": 1, "jobs": 1, "corrections": ["none"]}


def fill_with(**files: str) -> Any:
    def fill(draft: Path) -> None:
        for name, text in files.items():
            (draft / name).write_text(text)

    return fill


def contents(path: Path) -> dict[str, str]:
    return {p.name: p.read_text() for p in path.iterdir() if p.is_file() and p.name != folder.MANIFEST}


def test_a_second_write_replaces_ours_removes_what_is_gone_and_leaves_the_users(tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert folder.write(out, ["a", "b"], fill_with(a="1", b="2")) == []
    (out / "notes.png").write_text("mine")
    (out / "sub").mkdir()
    (out / "sub" / "a").write_text("mine, too")
    folder.check(out, ["a", "c"])
    assert folder.write(out, ["a", "c"], fill_with(a="3", c="4")) == []
    assert contents(out) == {"a": "3", "c": "4", "notes.png": "mine"}
    assert (out / "sub" / "a").read_text() == "mine, too"
    listed = json.loads((out / folder.MANIFEST).read_text())["files"]
    assert set(listed) == {"a", "c"}
    assert all(len(signatures) == 1 for signatures in listed.values())


def test_a_file_of_ours_that_was_changed_survives_and_a_note_says_so(tmp_path: Path) -> None:
    folder.write(tmp_path, ["a", "b"], fill_with(a="1", b="2"))
    (tmp_path / "b").write_text("2, and a word of mine")
    (note,) = folder.write(tmp_path, ["a"], fill_with(a="3"))
    assert note == f"{tmp_path / 'b'} was changed since makewhole wrote it, and was left alone"
    assert contents(tmp_path) == {"a": "3", "b": "2, and a word of mine"}
    folder.check(tmp_path, ["a"])
    with pytest.raises(FileExistsError, match="b exists, and makewhole did not write it"):
        folder.check(tmp_path, ["a", "b"])  # it is the user's now


def test_a_changed_file_in_the_way_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    folder.write(tmp_path, ["a", "b"], fill_with(a="1", b="2"))
    (tmp_path / "b").write_text("changed")
    with pytest.raises(FileExistsError, match="b was changed since makewhole wrote it: move it away, or"):
        folder.check(tmp_path, ["a", "b"])
    with pytest.raises(FileExistsError, match="b was changed since"):
        folder.write(tmp_path, ["a", "b"], fill_with(a="3", b="4"))
    assert contents(tmp_path) == {"a": "1", "b": "changed"}
    assert not [p for p in tmp_path.iterdir() if p.name.startswith(".")]


@pytest.mark.parametrize("link", [False, True])
def test_links_are_the_users(tmp_path: Path, link: bool) -> None:
    out, kept = tmp_path / "out", tmp_path / "kept"
    folder.write(out, ["a"], fill_with(a="1"))
    kept.write_text("1")
    (out / "a").unlink()
    (out / "a").symlink_to(kept if link else tmp_path / "nowhere")
    with pytest.raises(FileExistsError):
        folder.check(out, ["a"])
    (note,) = folder.write(out, ["b"], fill_with(b="2")) if link else ["no file, no note"]
    assert note
    assert (out / "a").is_symlink()
    assert kept.read_text() == "1"


@pytest.mark.parametrize(
    "text",
    ["", "[]", '{"files": 3}', '{"files": {"a": [[1, 2]]}}', "not json", '{"files": {"a": [{"size": 1}]}}'],
)
def test_a_manifest_that_is_not_ours_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / folder.MANIFEST).write_text(text)
    with pytest.raises(FileExistsError, match="is not makewhole's list of the files it wrote"):
        folder.check(tmp_path, ["a"])
    assert (tmp_path / folder.MANIFEST).read_text() == text


def test_a_manifest_cannot_reach_out_of_the_folder(tmp_path: Path) -> None:
    outside, out = tmp_path / "precious", tmp_path / "out"
    outside.write_text("1")
    folder.write(out, ["a"], fill_with(a="1"))
    manifest = json.loads((out / folder.MANIFEST).read_text())
    manifest["files"] = {"../precious": manifest["files"]["a"], str(outside): manifest["files"]["a"]}
    (out / folder.MANIFEST).write_text(json.dumps(manifest))
    assert folder.write(out, ["b"], fill_with(b="2")) == []  # not even a note
    assert outside.read_text() == "1"


def test_a_crash_half_way_leaves_files_that_are_known_again(tmp_path: Path, monkeypatch: Any) -> None:
    folder.write(tmp_path, ["a", "b"], fill_with(a="1", b="2"))
    replace, moved = Path.replace, []

    def crash(self: Path, target: Path) -> Path:
        moved.append(target.name)
        if moved.count("b"):
            raise KeyboardInterrupt
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", crash)
    with pytest.raises(KeyboardInterrupt):
        folder.write(tmp_path, ["a", "b"], fill_with(a="3", b="4"))
    monkeypatch.undo()
    assert contents(tmp_path) == {"a": "3", "b": "2"}
    folder.check(tmp_path, ["a", "b"])
    folder.write(tmp_path, ["a", "b"], fill_with(a="5", b="6"))
    assert contents(tmp_path) == {"a": "5", "b": "6"}


# --- through a study --------------------------------------------------------------------------------------


def never(*_: Any, **__: Any) -> Any:
    raise AssertionError("the study ran although it could not have been written")


@pytest.mark.slow
def test_a_study_run_again_leaves_the_users_files(tmp_path: Path) -> None:
    studies.run("adversaries", **SMALL, out=tmp_path)
    out = tmp_path / "adversaries"
    mine = ["notes.png", "own.svg", "own.parquet", "index.html", "own.json", "README"]
    for name in mine:
        (out / name).write_text(name)
    first = (out / "results.parquet").read_bytes()
    studies.run("adversaries", **SMALL | {"rounds": 2000}, out=tmp_path)
    assert [(out / name).read_text() for name in mine] == mine
    assert (out / "results.parquet").read_bytes() != first


@pytest.mark.slow
def test_a_figure_that_is_drawn_no_more_is_removed_unless_it_was_changed(tmp_path: Path) -> None:
    options: dict[str, Any] = {"rounds": 50, "seeds": 1, "shares": [0.5], "jobs": 1}
    studies.run("flights", corrections=["swap", "naive"], **options, out=tmp_path)
    changed, gone = (tmp_path / "flights" / f"airline_extension.{s}" for s in ("png", "svg"))
    changed.write_bytes(b"drawn over")
    again = studies.run("flights", corrections=["swap"], **options, out=tmp_path)
    assert not gone.exists()
    assert changed.read_bytes() == b"drawn over"
    assert again.notes == [f"{changed} was changed since makewhole wrote it, and was left alone"]


@pytest.mark.parametrize("blocked", ["results.parquet", "report.html", "adversaries.png", folder.MANIFEST])
@pytest.mark.parametrize("kind", ["file", "folder"])
def test_what_is_in_the_way_is_refused_before_anything_runs(
    tmp_path: Path, monkeypatch: Any, capsys: Any, blocked: str, kind: str
) -> None:
    monkeypatch.setattr(adversaries, "run", never)
    path = tmp_path / "adversaries" / blocked
    path.parent.mkdir()
    path.write_text("mine") if kind == "file" else path.mkdir()
    assert main(["study", "adversaries", "--rounds", "1000", "--jobs", "1", "--out", str(tmp_path)]) == 1
    message = capsys.readouterr().err
    assert str(path) in message
    assert "--out FOLDER" in message
    assert path.is_dir() if kind == "folder" else path.read_text() == "mine"


def interrupt(*_: Any, **__: Any) -> Any:
    raise KeyboardInterrupt


@pytest.mark.slow
def test_an_interrupt_before_the_first_result_leaves_the_earlier_ones(
    tmp_path: Path, monkeypatch: Any, capsys: Any
) -> None:
    studies.run("adversaries", **SMALL, out=tmp_path)
    before = {p: p.read_bytes() for p in (tmp_path / "adversaries").iterdir()}
    monkeypatch.setattr(adversaries, "run", interrupt)
    assert main(["study", "adversaries", "--jobs", "1", "--out", str(tmp_path)]) == 130
    assert {p: p.read_bytes() for p in (tmp_path / "adversaries").iterdir()} == before
    printed = capsys.readouterr().out
    assert "partial" in printed
    assert "report " not in printed  # none was written


def test_a_file_where_the_folder_should_be_is_refused_before_anything_runs(
    tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr(adversaries, "run", never)
    (tmp_path / "adversaries").write_text("mine")
    with pytest.raises(FileExistsError, match="adversaries exists and is not a folder: move it away"):
        studies.run("adversaries", **SMALL, out=tmp_path)


def _write_often(path: Path, text: str, start: Any) -> None:
    start.wait()
    for _ in range(40):
        names = {f"file{k}": text * 5000 for k in range(5)}
        folder.check(path, names)
        folder.write(path, names, fill_with(**names))


@pytest.mark.slow
def test_writers_in_several_processes_neither_fail_nor_tear_files(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    start = context.Event()
    writers = [context.Process(target=_write_often, args=(tmp_path, text, start)) for text in "abc"]
    for writer in writers:
        writer.start()
    start.set()
    for writer in writers:
        writer.join(60)
    assert [writer.exitcode for writer in writers] == [0, 0, 0]
    texts = set(contents(tmp_path).values())
    assert len(texts) == 1  # all five files are of one writer
    assert texts <= {"a" * 5000, "b" * 5000, "c" * 5000}
    folder.check(tmp_path, [f"file{k}" for k in range(5)])
    assert len(list(tmp_path.iterdir())) == 6  # with the manifest; no drafts are left


@pytest.mark.slow
def test_two_runs_of_a_study_into_one_folder_at_once(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "makewhole", "study", "adversaries", "--rounds", "3000", "--jobs", "1"]
    command += ["--seeds", "1", "--correction", "swap", "--out", str(tmp_path), "--json"]
    runs = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ)
        for _ in range(2)
    ]
    outputs = [run.communicate(timeout=120) for run in runs]
    assert [run.returncode for run in runs] == [0, 0], outputs
    assert outputs[0][0] == outputs[1][0]
    out = tmp_path / "adversaries"
    folder.check(out, studies.find("adversaries").plan(_options()).files())
    assert json.loads((out / "settings.json").read_text())["partial"] == ""
    assert (out / "report.html").read_text().endswith("</html>\n")


def _options() -> Any:
    from makewhole.studies.study import Options

    return Options(rounds=3000, corrections="swap")
