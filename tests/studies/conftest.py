"""Read the installed flights once per worker: to unpack and parse them takes a second."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from makewhole import datasets

_read = datasets._read_flights
_read_once = cache(_read)


@pytest.fixture(scope="package", autouse=True)
def _flights_are_read_once() -> Iterator[None]:
    installed = datasets._nycflights_path()

    def read(path: Path) -> tuple[str, Any]:
        return _read_once(path) if path == installed else _read(path)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(datasets, "_read_flights", read)
        yield
