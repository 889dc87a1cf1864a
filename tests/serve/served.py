"""A server in a process of its own, and clients with a key for each role."""

import contextlib
import io
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx

from makewhole.cli import main

BOOK = "delays"
ROLES = {"publisher": "the desk", "oracle": "the airport", "customer": "ann", "auditor": "the auditor"}


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as tried:
        tried.bind(("127.0.0.1", 0))
        port: int = tried.getsockname()[1]
        return port


def run(*words: Any) -> str:
    """What a command prints; it must go well."""
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        assert main([str(word) for word in words]) == 0
    return printed.getvalue().strip()


def new_book(where: str, key: Path | None = None, book: str = BOOK, **more: Any) -> None:
    """Begin a book."""
    given = {"capital": 1_000_000_000, "max_stake": 20_000_000, "unit": "cent"} | more
    options = [word for name, value in given.items() for word in (f"--{name.replace('_', '-')}", value)]
    keyed = [] if key is None else ["--key", key]
    run("ledger", "create", where, "--book", book, *options, *keyed)


def new_key(where: str, role: str, name: str) -> str:
    """The text of a new key."""
    return run("serve", "keys", "add", where, "--role", role, "--name", name)


def wait_for(condition: Any, what: str, tries: int = 600) -> Any:
    """Ask again and again until something is so; returns it."""
    for _ in range(tries):
        found = condition()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError(f"waited in vain: {what}")


class Process:
    """A `makewhole` in a process of its own; what it says goes to files."""

    def __init__(self, folder: Path, *words: Any, **environment: str) -> None:
        self.out, self.errors = folder / "stdout", folder / "stderr"
        with self.out.open("w") as out, self.errors.open("w") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "makewhole", *map(str, words)],
                stdout=out,
                stderr=errors,
                env=os.environ | environment,
                start_new_session=True,
            )

    def says(self) -> str:
        """What went to its error output, but for what the web server says of requests that are not HTTP."""
        lines = self.errors.read_text().splitlines()
        return "\n".join(line for line in lines if "Invalid HTTP request received" not in line)

    def end(self, number: int = signal.SIGTERM) -> int:
        """Send a signal, and return the exit code; whatever does not end within ten seconds fails here."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            return self.process.wait(10)
        finally:
            self.process.kill()
            self.process.wait()


class Served(Process):
    """A ledger, served."""

    def __init__(
        self, folder: Path, where: str, *words: Any, port: int | None = None, key: Path | None = None
    ) -> None:
        self.where, self.port, self.key = where, port or free_port(), key
        self.url = f"http://127.0.0.1:{self.port}"
        self.texts: dict[str, str] = {}
        keyed = [] if key is None else ["--key", key]
        super().__init__(folder, "serve", where, "--port", self.port, *keyed, *words)
        try:
            wait_for(self._ready, "the server")
        except BaseException:
            self.end(signal.SIGKILL)
            raise

    def _ready(self) -> bool:
        assert self.process.poll() is None, self.says()
        with contextlib.suppress(httpx.TransportError):
            return httpx.get(f"{self.url}/ready").status_code == 200
        return False

    def keys(self, names: dict[str, str]) -> None:
        """Make keys; the text of each is then in `texts`, by who it is for."""
        for name, role in names.items():
            self.texts[name] = new_key(self.where, role, name)
        self.heard_of(self.texts[name])

    def heard_of(self, text: str) -> None:
        """Wait until the server knows a key, and so all that are older."""
        with httpx.Client(base_url=self.url, headers={"authorization": f"Bearer {text}"}) as one:
            # While it is unknown, it counts for the address: the limit may come first.
            asked = "/api/books/none/statement"
            wait_for(lambda: one.get(asked).status_code not in (401, 429), "a new key")

    def client(self, name: str | None = None, **more: Any) -> httpx.Client:
        """A client with a key, or without one."""
        headers = {} if name is None else {"authorization": f"Bearer {self.texts[name]}"}
        return httpx.Client(base_url=self.url, headers=headers, timeout=30.0, **more)


@contextlib.contextmanager
def served(folder: Path, where: str, *words: Any, key: Path | None = None) -> Iterator[Served]:
    """A server with a book and one key for each role; at the end it must not have stumbled over anything."""
    new_book(where, key)
    made = Served(folder, where, *words, key=key)
    try:
        made.keys({name: role for role, name in ROLES.items()})
        yield made
        assert made.end() == 0
        said = made.says()
        assert said == "", said
    finally:
        made.end(signal.SIGKILL)


def api(what: str, book: str = BOOK) -> str:
    """The path of a route."""
    return f"/api/books/{book}/{what}"
