"""Save plain data as JSON with a version and a checksum; a crash leaves the old file or the new one."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
import sys
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

if sys.platform != "win32":  # Windows does not remove a file that is being written anyway
    import fcntl


def write(path: str | os.PathLike[str], *, kind: str, version: int, content: Any) -> None:
    """Write the content to a new file beside `path`, force it to disk, and then rename it to `path`.

    Raises a ValueError if something other than a regular file has that name.
    """
    seal = checksum(kind, version, content)
    document = {"kind": kind, "version": version, "checksum": seal, "content": content}
    text = json.dumps(document, allow_nan=False)
    target = Path(os.path.realpath(path))  # if it is a link, replace the file, not the link
    old = _mode(target)
    if not target.parent.is_dir():
        raise FileNotFoundError(f"path must lie in a folder that exists; got {str(path)!r}")
    with _draft(target, 0o666 if old is None else stat.S_IMODE(old)) as (draft, descriptor):
        with open(descriptor, "w", encoding="utf-8", closefd=False) as file:
            file.write(text)
            file.flush()
            os.fsync(descriptor)
        if old is not None:
            draft.chmod(stat.S_IMODE(old))
        draft.replace(target)
    if hasattr(os, "O_DIRECTORY"):  # the rename must also survive a power cut
        folder = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def checksum(kind: str, version: int, content: Any) -> str:
    """Return the SHA-256 of a file's content; in a damaged file it differs from the one stored there."""
    return hashlib.sha256(json.dumps([kind, version, content]).encode()).hexdigest()


def _mode(path: Path) -> int | None:
    """Return a file's mode, or None if there is none. Raises a ValueError if it is not a regular file."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(mode):
        kind = "a folder" if stat.S_ISDIR(mode) else "a pipe, a device or the like"
        raise ValueError(f"path must be a regular file; got {str(path)!r}, which is {kind}")
    return mode


@contextlib.contextmanager
def _draft(target: Path, mode: int) -> Iterator[tuple[Path, int]]:
    """Open a new file beside `target`; remove it afterwards if it still exists.

    A draft is locked while it is being written. An unlocked one was left by a process that was killed; the
    next process that saves to the same target removes it.
    """
    prefix = f".makewhole-{zlib.crc32(target.name.encode(errors='surrogateescape')):08x}-"
    _sweep(target.parent, prefix)
    while True:
        draft = target.with_name(f"{prefix}{os.urandom(8).hex()}.draft")
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        if sys.platform == "win32":
            break
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if draft.exists():  # else another process removed it as an old one before it was locked
            break
        os.close(descriptor)
    try:
        yield draft, descriptor
    finally:
        with contextlib.suppress(FileNotFoundError):
            draft.unlink()
        os.close(descriptor)


def _sweep(folder: Path, prefix: str) -> None:
    """Remove drafts that no process is writing."""
    if sys.platform == "win32":
        return
    for draft in folder.glob(f"{prefix}*.draft"):
        with contextlib.suppress(OSError):  # locked, or gone, or not ours to remove
            descriptor = os.open(draft, os.O_RDWR)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                draft.unlink()
            finally:
                os.close(descriptor)


def read(path: str | os.PathLike[str], *, kind: str, version: int) -> Any:
    """Return the content of a file of this kind and version.

    Raises a ValueError if the file is of another kind or version, is damaged, or is not a regular file.
    """
    if _mode(Path(path)) is None:
        raise FileNotFoundError(f"{path} does not exist")
    try:
        document = json.loads(Path(path).read_text(encoding="utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"{path} is damaged, or is not a {kind} file: {error}") from None
    if not isinstance(document, dict) or document.get("kind") != kind:
        raise ValueError(f"{path} is not a {kind} file")
    if document.get("version") != version:
        found = document.get("version")
        raise ValueError(f"{path} has version {found!r} of {kind}; this release reads version {version}")
    if "content" not in document:
        raise ValueError(f"{path} is damaged: it has no content")
    content = document["content"]
    if document.get("checksum") != checksum(kind, version, content):
        raise ValueError(f"{path} is damaged: its checksum is wrong. Use a copy of it from a backup")
    return content


def encode(name: str, value: Any, named: Mapping[str, Any]) -> Any:
    """Return features as plain data that JSON can hold; `decode` turns it back.

    `value` may be numbers, text, lists, tuples, dicts, NumPy arrays, and the named tuples in `named`. Raises
    a TypeError that names `name` for anything else.
    """
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return float(value) if np.isfinite(value) else {"float": repr(float(value))}
    if (
        isinstance(value, (np.ndarray, np.generic))
        and value.dtype.kind in "biufU"
        and value.dtype != np.longdouble
    ):
        return {
            "array": [encode(name, v, named) for v in np.ravel(value).tolist()],
            "shape": value.shape,
            "type": value.dtype.str,
        }
    if isinstance(value, tuple) and type(value).__name__ in named:
        return {"named": type(value).__name__, "fields": [encode(name, v, named) for v in value]}
    if type(value) in (list, tuple):
        return {type(value).__name__: [encode(name, v, named) for v in value]}
    if isinstance(value, Mapping):
        return {"dict": [[encode(name, k, named), encode(name, v, named)] for k, v in value.items()]}
    raise TypeError(
        f"{name} must be plain data to be saved (numbers, text, lists, tuples, dicts, NumPy arrays); "
        f"got {type(value).__name__}: settle or void the forecast first, or forecast from plain data"
    )


def _array_type(name: Any, items: list[Any]) -> np.dtype[Any]:
    """Return the type of an array in a file; strings get no more room than the longest of them needs."""
    try:
        dtype = np.dtype(name if isinstance(name, str) else object)
    except TypeError:
        dtype = np.dtype(object)
    if dtype.kind not in "biufU" or dtype == np.longdouble:
        raise ValueError(f"an array's type must be one of numbers or texts; got {name!r}")
    if dtype.kind == "U":
        longest = max(map(len, map(str, items)), default=1)
        return np.dtype(f"{dtype.byteorder}U{max(1, longest)}")
    return dtype


def decode(value: Any, named: Mapping[str, Any]) -> Any:
    """Return the features that `encode` was given; `named` holds the named tuples by name."""
    if not isinstance(value, dict):
        return value
    if "float" in value:
        return float(value["float"])
    if "array" in value:
        items = [decode(v, named) for v in value["array"]]
        array = np.array(items, dtype=_array_type(value["type"], items)).reshape(value["shape"])
        return array if value["shape"] else array[()]
    if "named" in value:
        return named[value["named"]](*(decode(v, named) for v in value["fields"]))
    if "dict" in value:
        return {decode(k, named): decode(v, named) for k, v in value["dict"]}
    kind, items = next(iter(value.items()), ("", []))
    if kind not in ("list", "tuple") or not isinstance(items, list):
        raise ValueError(f"features must be numbers, text, lists, tuples, dicts or arrays; got {value!r}")
    return (tuple if kind == "tuple" else list)(decode(v, named) for v in items)
