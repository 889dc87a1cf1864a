"""A disk that forgets what was not synced, or is full at times: a file system for SQLite (an apsw VFS)."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw

# Disks write sectors of this size whole or not at all.
SECTOR = 512


class Stopped(apsw.IOError):
    """The power is gone: nothing can be written any more."""


class Disk(apsw.VFS):
    """Passes everything on to the real file system, and notes what would be left after a power cut.

    Every write, sync, truncation and deletion is counted. At the number `stop_at` the power goes, and stays
    away. At the numbers in `fail_at` (`failure` says how), only that one fails.
    """

    def __init__(
        self, name: str, *, stop_at: int = 0, fail_at: range = range(0), failure: Any = None
    ) -> None:
        super().__init__(name, "")
        self.name, self.count, self.failures = name, 0, 0
        self.stop_at, self.fail_at, self.failure = stop_at, fail_at, failure
        self.synced: dict[str, bytearray] = {}
        self.pending: dict[str, list[tuple[int, bytes | None]]] = {}

    def step(self) -> None:
        """Count; raise if it fails."""
        self.count += 1
        if self.stop_at and self.count >= self.stop_at:
            raise Stopped("no power")
        if self.count in self.fail_at:
            self.failures += 1
            raise self.failure("the disk does not take it")

    def xOpen(self, name: Any, flags: list[int]) -> "File":  # noqa: N802 - apsw's name
        """Open a file."""
        return File(self, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802 - apsw's name
        """Delete a file, for good."""
        self.step()
        super().xDelete(filename, syncdir)
        self.synced.pop(filename, None)
        self.pending.pop(filename, None)

    def left(self, draw: random.Random | None) -> Iterator[tuple[str, bytes]]:
        """The files after a power cut: what was synced and, with `draw`, some of what was only written."""
        for name in {**self.synced, **self.pending}:
            content = bytearray(self.synced.get(name, b""))
            kept = [change for change in self.pending.get(name, ()) if draw and draw.random() < 0.5]
            for at, data in kept:
                if data is not None and draw is not None and draw.random() < 0.3:
                    data = data[: SECTOR * draw.randrange(len(data) // SECTOR + 1)]
                apply(content, at, data)
            if name in self.synced or kept:
                yield Path(name).name, bytes(content)


class File(apsw.VFSFile):
    """One open file."""

    def __init__(self, disk: Disk, name: Any, flags: list[int]) -> None:
        super().__init__("", name, flags)
        self._disk = disk
        self._name: str = name.filename() if isinstance(name, apsw.URIFilename) else name

    def _note(self, at: int, data: bytes | None) -> None:
        self._disk.pending.setdefault(self._name, []).append((at, data))

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802 - apsw's name
        """Write; for the moment, nothing is certain."""
        self._disk.step()
        super().xWrite(data, offset)
        self._note(offset, bytes(data))

    def xTruncate(self, newsize: int) -> None:  # noqa: N802 - apsw's name
        """Cut; for the moment, nothing is certain."""
        self._disk.step()
        super().xTruncate(newsize)
        self._note(newsize, None)

    def xSync(self, flags: int) -> None:  # noqa: N802 - apsw's name
        """Make it certain; the real disk need not be bothered."""
        self._disk.step()
        content = self._disk.synced.setdefault(self._name, bytearray())
        for at, data in self._disk.pending.pop(self._name, ()):
            apply(content, at, data)


def apply(content: bytearray, at: int, data: bytes | None) -> None:
    """Change the content of a file: cut it, or write."""
    if data is None:
        del content[at:]
        return
    if len(content) < at:
        content.extend(bytes(at - len(content)))
    content[at : at + len(data)] = data
