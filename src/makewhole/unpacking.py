"""Unpack .gz and .zip files piece by piece, up to a limit."""

from __future__ import annotations

import contextlib
import gzip
import lzma
import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

# A packed file may unpack to SMALL bytes plus MOST_TIMES its own size: numbers as text unpack to 3 to 20
# times their packed size. Anything beyond is an accident, or an attack on this machine's memory.
SMALL, MOST_TIMES = 10_000_000, 100

# What the standard library raises for damaged, encrypted and exotic archives.
_DAMAGED = (
    *(EOFError, OSError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error),
    *(RuntimeError, OverflowError, UnicodeDecodeError),
)


def pieces(path: Path) -> Iterator[bytes]:
    """Yield the content of a .gz file, or of the first file in a .zip archive.

    Raises a ValueError if the file is damaged, encrypted, or unpacks to more than 10 MB plus a hundred times
    its size.
    """
    limit = SMALL + MOST_TIMES * path.stat().st_size
    size = 0
    try:
        with _opened(path) as packed:
            while piece := packed.read(1 << 20):
                size += len(piece)
                if size > limit:
                    raise ValueError(
                        f"{str(path)!r} must not unpack to more than {limit / 1e6:,.0f} MB (10 MB plus "
                        f"{MOST_TIMES} times its size); if it should, unpack it first and pass the result"
                    )
                yield piece
    except PermissionError:
        raise
    except _DAMAGED as error:
        raise ValueError(f"{str(path)!r} is damaged or not what its name says: {error}") from None


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[gzip.GzipFile | IO[bytes]]:
    if path.suffix.lower() == ".gz":
        with gzip.open(path) as packed:
            yield packed
        return
    with zipfile.ZipFile(path) as archive:
        files = [info for info in archive.infolist() if not info.is_dir()]
        if not files:
            raise zipfile.BadZipFile("the archive contains no file")
        with archive.open(files[0]) as packed:
            yield packed
