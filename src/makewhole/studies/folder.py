"""The folder of a study's results: only files that makewhole wrote are ever replaced or removed.

`makewhole-files.json` in the folder lists them, with size and checksum. A file that is not listed, or that
has changed since, belongs to the user.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

MANIFEST = "makewhole-files.json"
_WAY_OUT = "move it away, or choose another folder (--out FOLDER; in Python, out=FOLDER)"


class Signature(NamedTuple):
    """A file's size and checksum: whether it is still as we wrote it."""

    size: int
    crc32: int


Listed = dict[str, list[Signature]]


def check(folder: Path, wanted: Iterable[str]) -> None:
    """Raise a FileExistsError if a file that is not ours is in the way.

    `wanted` are the names of all files that a run may write. Creates the folder if it does not exist.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise FileExistsError(f"{folder} exists and is not a folder: {_WAY_OUT}") from None
    with _locked(folder):
        _refuse_strangers(folder, wanted, _read_manifest(folder))


def write(folder: Path, wanted: Iterable[str], fill: Callable[[Path], None]) -> list[str]:
    """Let `fill` write files into a fresh folder, then move them into this one, each in one step.

    Files of an earlier run that `fill` did not write are removed. Returns a note for each file of ours that
    was left alone because it was changed since. Raises a FileExistsError, and writes nothing, if a file that
    is not ours has one of the names `wanted`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=".makewhole-draft-", dir=folder))
    try:
        fill(draft)
        with _locked(folder):
            return _publish(folder, draft, wanted)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _publish(folder: Path, draft: Path, wanted: Iterable[str]) -> list[str]:
    """Move the draft's files into the folder; only one process does this at a time."""
    before = _read_manifest(folder)
    _refuse_strangers(folder, wanted, before)
    fresh: Listed = {path.name: [_sign(path)] for path in sorted(draft.iterdir())}
    # Both lists together, so that a crash half-way leaves no file of ours unlisted.
    _write_manifest(
        folder, draft, {name: before.get(name, []) + fresh.get(name, []) for name in before | fresh}
    )
    for name in fresh:
        (draft / name).replace(folder / name)
    notes = []
    for name in before.keys() - fresh.keys():
        old = folder / name
        if _is_ours(old, before):
            old.unlink()
        elif old.exists():
            notes.append(f"{old} was changed since makewhole wrote it, and was left alone")
    _write_manifest(folder, draft, fresh)
    return sorted(notes)


def _refuse_strangers(folder: Path, wanted: Iterable[str], listed: Listed) -> None:
    for name in wanted:
        path = folder / name
        if path.is_dir():
            raise FileExistsError(f"{path} is a folder; a file must be written there: {_WAY_OUT}")
        if not os.path.lexists(path) or _is_ours(path, listed):
            continue
        if name in listed:
            raise FileExistsError(f"{path} was changed since makewhole wrote it: {_WAY_OUT}")
        raise FileExistsError(f"{path} exists, and makewhole did not write it: {_WAY_OUT}")


def _is_ours(path: Path, listed: Listed) -> bool:
    """Whether a regular file is still as we wrote it."""
    return (
        path.name in listed and path.is_file() and not path.is_symlink() and _sign(path) in listed[path.name]
    )


def _sign(path: Path) -> Signature:
    content = path.read_bytes()
    return Signature(len(content), zlib.crc32(content))


def _read_manifest(folder: Path) -> Listed:
    """Return the files that we have written into the folder; none if there is no manifest."""
    path = folder / MANIFEST
    try:
        files: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))["files"]
        listed = {name: [Signature(**signature) for signature in files[name]] for name in files}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise FileExistsError(f"{path} is not makewhole's list of the files it wrote: {_WAY_OUT}") from None
    return {name: signatures for name, signatures in listed.items() if name == Path(name).name}


def _write_manifest(folder: Path, draft: Path, listed: Listed) -> None:
    about = "Files that makewhole wrote, with size and CRC-32; it replaces and removes no others."
    files = {name: [signature._asdict() for signature in listed[name]] for name in sorted(listed)}
    text = json.dumps({"about": about, "files": files}, indent=1) + "\n"
    (draft / MANIFEST).write_text(text, encoding="utf-8")
    (draft / MANIFEST).replace(folder / MANIFEST)


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Make other processes that write into the folder wait, if the system can lock folders."""
    try:
        import fcntl
    except ModuleNotFoundError:  # Windows: files are still replaced in one step each
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
