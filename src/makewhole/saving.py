"""Save plain data as a JSON file with a version; after a crash, the old file or the new one is there."""

from __future__ import annotations

import contextlib
import functools
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np


def write(path: str | os.PathLike[str], *, kind: str, version: int, content: Any) -> None:
    """Write the content to a new file beside `path`, force it to disk, and then rename it to `path`."""
    text = json.dumps({"kind": kind, "version": version, "content": content}, allow_nan=False)
    target = Path(path).resolve()  # if it is a link, replace the file, not the link
    mode = target.stat().st_mode & 0o777 if target.exists() else None
    draft = target.with_name(f".{os.urandom(8).hex()}.draft")
    try:
        # The draft has the permissions of the old file from the start.
        with open(
            draft, "x", encoding="utf-8", opener=functools.partial(os.open, mode=mode or 0o666)
        ) as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        if mode is not None:
            draft.chmod(mode)
        draft.replace(target)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            draft.unlink()
        raise
    if hasattr(os, "O_DIRECTORY"):  # the renaming, too, must survive a power cut
        folder = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def read(path: str | os.PathLike[str], *, kind: str, versions: Sequence[int]) -> tuple[int, Any]:
    """Return the version and the content of a file of this kind.

    Raises a ValueError if the file is of another kind or version, or is damaged.
    """
    try:
        document = json.loads(Path(path).read_text(encoding="utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"{path} is not a {kind} file: {error}") from None
    if not isinstance(document, dict) or document.get("kind") != kind:
        raise ValueError(f"{path} is not a {kind} file")
    version = document.get("version")
    if type(version) is not int or version not in versions:
        known = ", ".join(map(str, versions))
        raise ValueError(f"{path} has version {version!r} of {kind}; this release reads versions {known}")
    if "content" not in document:
        raise ValueError(f"{path} is damaged: it has no content")
    return version, document["content"]


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


def decode(value: Any, named: Mapping[str, Any]) -> Any:
    """Return the features that `encode` was given; `named` holds the named tuples by name."""
    if not isinstance(value, dict):
        return value
    if "float" in value:
        return float(value["float"])
    if "array" in value:
        items = [decode(v, named) for v in value["array"]]
        array = np.array(items, dtype=np.dtype(value["type"])).reshape(value["shape"])
        return array if value["shape"] else array[()]
    if "named" in value:
        return named[value["named"]](*(decode(v, named) for v in value["fields"]))
    if "dict" in value:
        return {decode(k, named): decode(v, named) for k, v in value["dict"]}
    kind, items = next(iter(value.items()), ("", []))
    if kind not in ("list", "tuple") or not isinstance(items, list):
        raise ValueError(f"features must be numbers, text, lists, tuples, dicts or arrays; got {value!r}")
    return (tuple if kind == "tuple" else list)(decode(v, named) for v in items)
