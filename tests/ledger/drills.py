"""Faults that operators meet, on real PostgreSQL servers and with real processes; each is counted.

`make test-faults` does every drill ten times and prints a table. A drill is good if nothing that was
acknowledged is lost, and nothing is done twice.
"""

from __future__ import annotations

import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg

from ledger import host
from ledger.places import Place, new_book
from ledger.server import Server, binaries
from ledger.test_processors import OLD_PROCESSOR
from makewhole.ledger import Receipt
from makewhole.ledger.events import Event

# How long a part of a drill may take.
_PATIENCE = 60.0


@dataclass
class Tally:
    """What came of a drill: events acknowledged, lost and doubled, and the longest wait in seconds."""

    acknowledged: int = 0
    lost: int = 0
    doubled: int = 0
    longest: float = 0.0

    def add(self, other: Tally) -> None:
        """Count another run of the drill, too."""
        self.acknowledged += other.acknowledged
        self.lost += other.lost
        self.doubled += other.doubled
        self.longest = max(self.longest, other.longest)


class Host:
    """A process that serves a book (`host.py`)."""

    def __init__(self, place: Place, name: str, folder: Path, *play: str, **environment: str) -> None:
        self.name, self._folder = name, folder
        given = [place.address, str(place.key), "book", name, str(folder), *play]
        self._process = subprocess.Popen(
            [sys.executable, host.__file__, *given], env=os.environ | environment
        )

    def lines(self, kind: str) -> list[list[str]]:
        """The complete lines of one of its files."""
        path = self._folder / f"{self.name}.{kind}"
        text = path.read_text() if path.exists() else ""
        return [line.split("\t") for line in text[: text.rfind("\n") + 1].splitlines()]

    def acknowledged(self) -> dict[tuple[int, str], str]:
        """The key of every event that it has acknowledged, by number and hash."""
        return {(int(seq), hash_): key for key, seq, hash_, _ in self.lines("notes")}

    def receipts(self) -> list[Receipt]:
        """The receipts that it has handed out."""
        return [Receipt.from_json("\t".join(line)) for line in self.lines("ndjson")]

    def wait_for(self, more: int = 40, *, refusals: str | None = None) -> None:
        """Wait until it has acknowledged some more, or has refused with this error."""
        kind = "notes" if refusals is None else "refused"
        before = len(self.lines("notes")) if refusals is None else 0
        wait_until(
            lambda: sum(refusals in (None, line[0]) for line in self.lines(kind)) >= before + more,
            self._process,
        )

    def kill(self, how: signal.Signals = signal.SIGTERM) -> None:
        """End it; by default it ends after the request that it is doing."""
        self._process.send_signal(how)
        self._process.wait(_PATIENCE)

    def longest(self) -> float:
        """The longest that a caller has waited for an answer."""
        waits = [*self.lines("notes"), *self.lines("refused")]
        return max((float(line[-1]) for line in waits), default=0.0)


def wait_until(condition: Callable[[], bool], process: subprocess.Popen[bytes] | None = None) -> None:
    """Wait for something that will happen; a RuntimeError if it does not."""
    until = time.monotonic() + _PATIENCE
    while not condition():
        if process is not None and process.poll() is not None:
            raise RuntimeError(f"the host has ended, with {process.returncode}")
        if time.monotonic() > until:
            raise RuntimeError("the drill does not go on")
        time.sleep(0.01)


@contextmanager
def serving(place: Place, folder: Path, *names: str, play: bool = False) -> Iterator[list[Host]]:
    """Some hosts of one book, which end with the block."""
    hosts = [Host(place, name, folder, *["play"] * play) for name in names]
    try:
        yield hosts
    finally:
        for one in hosts:
            one.kill()


def prepared(server: Server, folder: Path) -> Place:
    """A new database with a book, in which many small stakes can be placed on one id."""
    place = Place(server.new_database(), folder / "key")
    with place.open() as ledger:
        new_book(ledger, capital=10**9, max_stake=10**6).forecast("open", mu=0.5)
    return place


def counted(place: Place, hosts: list[Host]) -> Tally:
    """Verify the ledger, and look for everything that was acknowledged, in the book or taken over from it.

    A host does one request after the other, and each of them makes one event. So a host with more events than
    requests has done one twice.
    """
    with place.open() as ledger:
        ledger.verify()
        events = [event for name in ledger.books() for event in ledger.book(name).events()]
    known = {(event.seq, event.hash.hex()) for event in events if event.book == "book"}
    made = Counter(_whose(event) for event in events)
    for event in events:
        if event.kind == "staked" and "receipt" in event.data():
            old = event.data()["receipt"]
            known.add((old["seq"], old["hash"]))
    tally = Tally(longest=max(one.longest() for one in hosts))
    for one in hosts:
        told = one.acknowledged()
        tally.acknowledged += len(told)
        tally.lost += len(told.keys() - known)
        tally.doubled += max(0, made[one.name] - len(set(told.values())))
    return tally


def _whose(event: Event) -> str:
    """The host whose request an event was: it is in the id, or it is the customer."""
    if event.kind not in ("forecast", "staked", "settled") or event.about is None:
        return ""
    name = event.about.split()[0]
    return str(event.data()["by"]) if name == "open" and event.kind == "staked" else name


# --- the drills ---------------------------------------------------------------------------------------------


def kill(server: Server, folder: Path, run: int) -> Tally:
    """A host is killed while it writes; it starts again and asks again, with the same keys."""
    place = prepared(server, folder)
    first = Host(place, "ann", folder)
    first.wait_for(20 + 37 * (run % 5))
    first.kill(signal.SIGKILL)
    told = first.acknowledged()
    with serving(place, folder, "ann") as (again,):
        again.wait_for(len(told) + 40)
    return counted(place, [again])


def _restored(place: Place, folder: Path, between: Callable[[], None]) -> Place:
    """Dump a database, let time pass, and put the dump in its place; returns the former database."""
    name = place.address.split("/")[3].split("?")[0]
    dump, others = folder / "dump.sql", place.address.replace(f"/{name}?", "/postgres?")
    run = [str(binaries() / "pg_dump"), "--file", str(dump), place.address]
    subprocess.run(run, check=True, stdout=subprocess.DEVNULL)
    between()
    with psycopg.connect(others, autocommit=True) as connection:
        connection.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
        end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s"
        wait_until(lambda: not connection.execute(end, (name,)).fetchall())
        connection.execute(f"ALTER DATABASE {name} RENAME TO {name}_former")
        connection.execute(f"ALTER DATABASE {name}_former ALLOW_CONNECTIONS true")
        connection.execute(f"CREATE DATABASE {name}_restored")
        restored = place.address.replace(f"/{name}?", f"/{name}_restored?")
        load = [str(binaries() / "psql"), "-q", "-v", "ON_ERROR_STOP=1", "-f", str(dump), restored]
        subprocess.run(load, check=True, stdout=subprocess.DEVNULL)
        connection.execute(f"ALTER DATABASE {name}_restored RENAME TO {name}")
    return place._replace(address=place.address.replace(f"/{name}?", f"/{name}_former?"))


def restore(server: Server, folder: Path, run: int) -> Tally:
    """A database is restored from a dump under a host that runs; the former one has the events."""
    place = prepared(server, folder)
    with serving(place, folder, "ann") as (one,):
        one.wait_for()
        former = _restored(place, folder, one.wait_for)
        one.wait_for(3, refusals="LogForked")
        with place.open() as ledger:
            (found,) = ledger.repair(copy=former.address)
            assert found.added
            assert found.whole
        one.wait_for()  # the same process goes on
    return counted(place, [one])


def failover(server: Server, folder: Path, run: int) -> Tally:
    """The primary fails, and its replica lags; events come back from the former primary, or from receipts."""
    with ExitStack() as stack:
        primary = Server()
        stack.callback(primary.remove)
        place = prepared(primary, folder)
        replica = Server(primary)
        stack.callback(replica.remove)
        both = f"{primary.folder},{replica.folder}&target_session_attrs=read-write"
        with serving(
            place._replace(address=place.address.replace(str(primary.folder), both)), folder, "ann"
        ) as (one,):
            one.wait_for()
            replica.fall_behind()
            one.wait_for()
            primary.stop()
            replica.promote()
            now = place._replace(address=place.address.replace(str(primary.folder), str(replica.folder)))
            one.wait_for(3, refusals="LogForked")
            with now.open() as ledger:
                if run % 2:
                    (found,) = ledger.repair(one.receipts())
                else:
                    primary.start()
                    (found,) = ledger.repair(copy=place.address)
                    primary.stop()
                assert found.added
                assert found.whole
            one.wait_for()
        return counted(now, [one])


def hang(server: Server, folder: Path, run: int) -> Tally:
    """The database stops for some seconds, all of it or only what serves connections, and then goes on."""
    place = prepared(server, folder)
    with serving(place, folder, "ann", "bob") as hosts:
        for one in hosts:
            one.wait_for(20)
        with server.stopped(listens=bool(run % 2)):
            for one in hosts:
                one.wait_for(2, refusals="StoreUnavailable")
        for one in hosts:
            one.wait_for(20)
    return counted(place, hosts)


def fork(server: Server, folder: Path, run: int) -> Tally:
    """After a restore another host writes on; the promises of the first go on in another book."""
    place = prepared(server, folder)
    with serving(place, folder, "ann") as (one,):
        one.wait_for()
        _restored(place, folder, one.wait_for)
        with serving(place, folder, "bob") as (other,):
            other.wait_for()
            one.wait_for(3, refusals="LogForked")
    with place.open() as ledger:
        for _ in range(2):  # asked twice, and done once
            found = ledger.repair([*one.receipts(), *other.receipts()], into="run-off", book="book")[0]
        assert found.taken
        ledger.verify(found.taken)
    return counted(place, [one, other])


def other_processor(server: Server, folder: Path, run: int) -> Tally:
    """Two hosts share a book, one of them on a processor without fused multiply-add; prices move."""
    place = Place(server.new_database(), folder / "key")
    with place.open() as ledger:
        new_book(ledger, capital=300_000, max_stake=20_000)
    hosts = [Host(place, "new", folder, "play"), Host(place, "old", folder, "play", **OLD_PROCESSOR)]
    try:
        for one in hosts:
            one.wait_for(150)
    finally:
        for one in hosts:
            one.kill()
    command = [sys.executable, "-m", "makewhole", "ledger", "verify", place.address]
    for environment in ({}, OLD_PROCESSOR):
        subprocess.run(command, env=os.environ | environment, check=True, stdout=subprocess.DEVNULL)
    return counted(place, hosts)


def rekey(server: Server, folder: Path, run: int) -> Tally:
    """The key is changed three times while two hosts write; all receipts stay valid."""
    place = prepared(server, folder)
    with serving(place, folder, "ann", "bob") as hosts:
        for _ in range(3):
            for one in hosts:
                one.wait_for(15)
            with place.open() as ledger:
                ledger.rekey()
        for one in hosts:
            one.wait_for(15)
    with place.open() as ledger:
        ledger.verify([receipt for one in hosts for receipt in one.receipts()])
        assert len(ledger.book("book").public_keys()) == 4
    return counted(place, hosts)


DRILLS: dict[str, Callable[[Server, Path, int], Tally]] = {
    "kill": kill,
    "restore": restore,
    "failover": failover,
    "hang": hang,
    "fork": fork,
    "other processor": other_processor,
    "rekey": rekey,
}
if platform.libc_ver()[0] != "glibc":
    del DRILLS["other processor"]  # only the GNU C library can be told to do without these instructions


def main(times: int) -> int:
    """Do every drill so many times, and print the table; returns 1 if anything was lost or done twice."""
    server, bad = Server(), False
    print(f"{'fault':<16} {'times':>5} {'acknowledged':>13} {'lost':>5} {'doubled':>8} {'longest wait':>13}")  # noqa: T201 - the table
    try:
        for name, drill in DRILLS.items():
            total = Tally()
            for run in range(times):
                with tempfile.TemporaryDirectory(prefix="makewhole-drill-") as folder:
                    total.add(drill(server, Path(folder), run))
            counts = f"{total.acknowledged:>13,} {total.lost:>5} {total.doubled:>8}"
            print(f"{name:<16} {times:>5} {counts} {total.longest:>11.1f} s", flush=True)  # noqa: T201 - the table
            bad |= bool(total.lost or total.doubled or total.longest > 5)
    finally:
        server.remove()
    return int(bad)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 10))
