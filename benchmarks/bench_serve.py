"""The server against a bare Starlette echo: the same web server, 64 connections, the client included."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import uvloop

from makewhole.ledger import Ledger
from makewhole.serve.access import Keys
from makewhole.serve.bodies import MOST_LINES
from timing import Row

CONNECTIONS, LISTENERS = 64, 200
SECONDS, TURNS = 1.5, 3
BOOK, IDS = "bench", 20
LONG_IDS, LONG_STAKES = 1_000, 1_000  # a million settled stakes
# The greedy: four keys that send the largest bodies, or sixteen connections without a key that ask for pages.
GREEDY, STRANGERS = 4, 16
SINGLE_SECONDS, SINGLE_PAUSE = 8.0, 0.025
WIDE_IDS, POPULAR_STAKES = 20_000, 20_000


class Measured(NamedTuple):
    """The time per request, and the 99th percentile of their latencies, in microseconds."""

    each: float
    p99: float


# --- the peer ---------------------------------------------------------------------------------------------


def echo(port: int) -> None:
    """Serve every posted body back unchanged."""
    import msgspec
    import uvicorn
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

    async def answer(request: Request) -> Response:
        read = msgspec.json.decode(await request.body())
        return Response(msgspec.json.encode(read), media_type="application/json")

    async def ready(request: Request) -> Response:
        return Response()

    app = Starlette(routes=[Route("/echo", answer, methods=["POST"]), Route("/ready", ready)])
    uvicorn.run(app, port=port, log_level="warning", access_log=False)


# --- the client, in a separate process --------------------------------------------------------------------


def request(path: str, key: str, body: dict[str, Any], once: str) -> bytes:
    """Return a POST request as bytes."""
    text = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
    head += f"content-length: {len(text)}\r\n"
    head += f"authorization: Bearer {key}\r\n" if key else ""
    return (head + (f"idempotency-key: {once}\r\n" if once else "") + "\r\n").encode() + text


async def ask(port: int, kind: str, key: str, number: int, until: float, taken: list[float]) -> None:
    """Send requests on one connection, one after the other, and record how long each answer took."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    count, run = 0, time.time_ns()
    while time.perf_counter() < until:
        body = {"id": f"flight {(number + count) % IDS}", "stake": 1}
        path = "/echo" if kind == "echo" else f"/api/books/{BOOK}/{kind}"
        once = f"{run} {number} {count}" if kind == "stakes" else ""
        began = time.perf_counter()
        writer.write(request(path, key, body, once))
        head = await reader.readuntil(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(head.decode())
        size = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        await reader.readexactly(size)
        taken.append(time.perf_counter() - began)
        count += 1
    writer.close()


async def load(port: int, kind: str, key: str) -> None:
    """Print the microseconds per request, and the 99th percentile of their times."""
    taken: list[float] = []
    began = time.perf_counter()
    asking = [ask(port, kind, key, number, began + SECONDS, taken) for number in range(CONNECTIONS)]
    await asyncio.gather(*asking)
    whole = time.perf_counter() - began
    print(json.dumps([1e6 * whole / len(taken), 1e6 * sorted(taken)[int(0.99 * len(taken))]]))


async def listen(port: int) -> None:
    """Listen for live updates on many connections from several addresses, until terminated."""
    hosts = [f"127.0.0.{2 + number % 8}" for number in range(LISTENERS)]
    lines = [await asyncio.open_connection("127.0.0.1", port, local_addr=(host, 0)) for host in hosts]
    for _, writer in lines:
        writer.write(b"GET /live HTTP/1.1\r\nhost: x\r\n\r\n")
    for reader, _ in lines:
        await reader.readuntil(b"retry")
    print("listening", flush=True)

    async def hear(reader: asyncio.StreamReader) -> None:
        while await reader.read(65_536):
            pass

    await asyncio.gather(*(hear(reader) for reader, _ in lines))


async def single(port: int, key: str) -> None:
    """Stake once every few milliseconds on one connection; print the median and the 99th percentile."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    taken: list[float] = []
    began = time.perf_counter()
    while time.perf_counter() < began + SINGLE_SECONDS or len(taken) < 100:
        sent = time.perf_counter()
        writer.write(request(f"/api/books/{BOOK}/stakes", key, {"id": "flight 0", "stake": 1}, ""))
        head, _ = await answered(reader)
        if not head.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(head.decode())
        taken.append(time.perf_counter() - sent)
        await asyncio.sleep(SINGLE_PAUSE)
    taken.sort()
    print(json.dumps([1e6 * taken[len(taken) // 2], 1e6 * taken[int(0.99 * len(taken))]]))


async def answered(reader: asyncio.StreamReader) -> tuple[bytes, int]:
    """Read an answer with a known length or in chunks; returns its head, and how many bytes its body has."""
    head = await reader.readuntil(b"\r\n\r\n")
    if b"content-length: " in head.lower():
        size = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        await reader.readexactly(size)
        return head, size
    size = 0
    while chunk := int(await reader.readuntil(b"\r\n"), 16):
        size += len(await reader.readexactly(chunk + 2)) - 2
    await reader.readexactly(2)
    return head, size


async def repeat(port: int, asked: bytes, host: str = "127.0.0.1") -> None:
    """Send the same request again and again, each after the answer to the one before."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(host, 0))
    while True:
        writer.write(asked)
        await answered(reader)


async def greedy(port: int, keys: list[str]) -> None:
    """Send the largest bodies of stakes that are allowed, one after the other with each key."""
    line = b'{"do":"stake","id":"flight 1","stake":1}\n'
    body = line * (MOST_LINES // len(line))
    path = f"/api/books/{BOOK}/requests"
    asked = [
        f"POST {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {key}\r\n"
        f"content-length: {len(body)}\r\n\r\n".encode()
        + body
        for key in keys
    ]
    print("greedy", flush=True)
    await asyncio.gather(*(repeat(port, one) for one in asked))


async def strangers(port: int) -> None:
    """Ask for public answers on many connections without a key, as fast as they come."""
    paths = (
        f"/api/books/{BOOK}/forecasts",
        f"/books/{BOOK}/open",
        f"/books/{BOOK}/about?id=flight%200",
        f"/books/{BOOK}",
    )
    asked = [f"GET {path} HTTP/1.1\r\nhost: x\r\n\r\n".encode() for path in paths]
    print("asking", flush=True)
    await asyncio.gather(*(repeat(port, asked[number % len(asked)]) for number in range(STRANGERS)))


# --- the whole --------------------------------------------------------------------------------------------


@contextlib.contextmanager
def process(*words: Any) -> Iterator[subprocess.Popen[str]]:
    """Run a process that is terminated at the end."""
    made = subprocess.Popen([sys.executable, *map(str, words)], stdout=subprocess.PIPE, text=True)
    try:
        yield made
    finally:
        made.terminate()
        made.wait(20)


def free_port() -> int:
    """Return a free port."""
    with socket.socket() as tried:
        tried.bind(("127.0.0.1", 0))
        port: int = tried.getsockname()[1]
        return port


def answers(port: int) -> None:
    """Wait until the server answers."""
    for _ in range(400):
        with contextlib.suppress(OSError):
            fetch(port, "/ready")
            return
        time.sleep(0.05)
    raise RuntimeError("the server does not answer")


def measure(port: int, kind: str, key: str = "") -> Measured:
    """Run the client once."""
    words = [sys.executable, __file__, "load", str(port), kind, key]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    return Measured(*json.loads(done.stdout))


def best(runs: list[Measured]) -> Measured:
    """Return the fastest run."""
    return min(runs)


def new_ledger(path: Path, customers: int = 1) -> list[str]:
    """Create a ledger with forecasts that take any number of small stakes; returns customers' keys."""
    with Ledger.open(path) as ledger:
        book = ledger.create(BOOK, capital=10**9, max_stake=10**8, unit="cent")
        book.do_many([{"do": "forecast", "id": f"flight {k}", "mu": 0.3} for k in range(IDS)])
        return [Keys(ledger.store).add("customer", f"customer {number}") for number in range(customers)]


def long_ledger(path: Path) -> None:
    """Create a ledger whose book has a million settled stakes."""
    with Ledger.open(path) as ledger:
        book = ledger.create(BOOK, capital=10**9, max_stake=10**8, unit="cent")
        for k in range(LONG_IDS):
            id_ = f"flight {k}"
            asked: list[dict[str, Any]] = [{"do": "forecast", "id": id_, "mu": 0.3}]
            asked += [
                {"do": "stake", "id": id_, "by": f"customer {n}", "stake": 100 if n % 3 else -40}
                for n in range(LONG_STAKES)
            ]
            book.do_many([*asked, {"do": "settle", "id": id_, "outcome": int(k % 3 == 0)}])


def fetch(port: int, path: str) -> int:
    """Return how many bytes an answer has."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as answer:
        return len(answer.read())


def page_rows() -> list[Row]:
    """Time the statement of a book with a million settled stakes: the page, its charts, and all they load."""
    parts = (f"/books/{BOOK}", f"/books/{BOOK}/charts.json")
    files = [
        f"/static/{name}" for name in ("uplot-1.6.32.min.js", "uplot-1.6.32.min.css", "page.css", "page.js")
    ]
    with contextlib.ExitStack() as stack:
        path = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "long.db"
        long_ledger(path)
        port = free_port()
        stack.enter_context(process("-m", "makewhole", "serve", path, "--port", port, "--rate", 0))
        answers(port)
        began = time.perf_counter()
        size = sum(fetch(port, part) for part in parts)
        first = time.perf_counter() - began
        again = float("inf")
        for _ in range(5):
            began = time.perf_counter()
            sum(fetch(port, part) for part in parts)
            again = min(again, time.perf_counter() - began)
        size += sum(fetch(port, file) for file in files)
    return [
        Row("the statement of 10⁶ settled stakes, first", first, "a second", 1.0, "s", 1.0),
        Row("the same, again", again, "a second", 1.0, "s", 1.0),
        Row("its size, with all that it loads", size / 1000, "300 kB", 300.0, "kB", 1.0),
    ]


def wide_ledger(path: Path) -> str:
    """Create a ledger with 20,000 open ids, one of which has 20,000 stakes; returns a customer's key."""
    with Ledger.open(path) as ledger:
        book = ledger.create(BOOK, capital=10**9, max_stake=10**8, unit="cent")
        book.do_many([{"do": "forecast", "id": f"flight {k}", "mu": 0.3} for k in range(WIDE_IDS)])
        book.do_many([{"do": "stake", "id": "flight 0", "by": "bob", "stake": 1}] * POPULAR_STAKES)
        return Keys(ledger.store).add("customer", "ann")


def one_stake(port: int, key: str, *beside: Any) -> Measured:
    """Measure single stakes of one key, while another process runs if there is one."""
    words = [sys.executable, __file__, "single", str(port), key]
    with contextlib.ExitStack() as stack:
        if beside:
            busy = stack.enter_context(process(__file__, *beside))
            if busy.stdout is not None:
                busy.stdout.readline()
            time.sleep(1.0)  # until the queues are full
        done = subprocess.run(words, capture_output=True, text=True, check=True)
    return Measured(*json.loads(done.stdout))


def fair_rows() -> list[Row]:
    """Time a single stake while others are greedy, against the same stake alone."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        *others, key = new_ledger(folder / "books.db", GREEDY + 1)
        port = free_port()
        stack.enter_context(
            process("-m", "makewhole", "serve", folder / "books.db", "--port", port, "--rate", 0)
        )
        answers(port)
        alone = one_stake(port, key)
        crowded = one_stake(port, key, "greedy", port, *others)
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        key, port = wide_ledger(folder / "wide.db"), free_port()
        stack.enter_context(process("-m", "makewhole", "serve", folder / "wide.db", "--port", port))
        answers(port)
        quiet = one_stake(port, key)
        watched = one_stake(port, key, "strangers", port)
    peer = "the same alone"
    return [
        Row("a stake, while 4 keys send the largest bodies, p99", crowded.p99, peer, alone.p99, "µs", 10.0),
        Row("the same, median", crowded.each, peer, alone.each, "µs"),
        Row("a stake, while 16 without a key ask, p99", watched.p99, peer, quiet.p99, "µs", 10.0),
        Row("the same, median", watched.each, peer, quiet.each, "µs"),
    ]


def rows() -> list[Row]:
    """Return all rows."""
    with contextlib.ExitStack() as stack:
        path = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "books.db"
        (key,), ours, theirs = new_ledger(path), free_port(), free_port()
        stack.enter_context(process("-m", "makewhole", "serve", path, "--port", ours, "--rate", 0))
        stack.enter_context(process(__file__, "echo", theirs))
        answers(ours)
        answers(theirs)
        runs: dict[str, list[Measured]] = {"echo": [], "stakes": [], "quotes": [], "alone": [], "heard": []}
        for _ in range(TURNS):  # in turns, so that noise affects all alike
            runs["echo"].append(measure(theirs, "echo"))
            runs["stakes"].append(measure(ours, "stakes", key))
            runs["quotes"].append(measure(ours, "quotes", key))
        for _ in range(TURNS):
            runs["alone"].append(measure(ours, "stakes", key))
            with process(__file__, "listen", ours) as listening:
                if listening.stdout is not None:
                    listening.stdout.readline()
                runs["heard"].append(measure(ours, "stakes", key))
    echoed, staked, quoted, alone, heard = (best(each) for each in runs.values())
    peer = "an echo of Starlette"
    return [
        Row("a durable stake, of 64 at once", staked.each, peer, echoed.each, "µs", 1 / 0.3),
        Row("the slowest hundredth of them", staked.p99, peer, echoed.p99, "µs"),
        Row("a quote, of 64 at once", quoted.each, peer, echoed.each, "µs", 1 / 0.5),
        Row("the slowest hundredth of them", quoted.p99, peer, echoed.p99, "µs"),
        Row(
            "a durable stake while 200 listen", heard.each, "while nobody listens", alone.each, "µs", 1 / 0.9
        ),
        *fair_rows(),
        *page_rows(),
    ]


if __name__ == "__main__":
    from timing import print_rows

    if sys.argv[1:2] == ["echo"]:
        echo(int(sys.argv[2]))
    elif sys.argv[1:2] == ["load"]:
        uvloop.run(load(int(sys.argv[2]), sys.argv[3], sys.argv[4]))
    elif sys.argv[1:2] == ["listen"]:
        uvloop.run(listen(int(sys.argv[2])))
    elif sys.argv[1:2] == ["single"]:
        uvloop.run(single(int(sys.argv[2]), sys.argv[3]))
    elif sys.argv[1:2] == ["greedy"]:
        uvloop.run(greedy(int(sys.argv[2]), sys.argv[3:]))
    elif sys.argv[1:2] == ["strangers"]:
        uvloop.run(strangers(int(sys.argv[2])))
    elif sys.argv[1:2] == ["fair"]:
        print_rows(fair_rows())
    else:
        print_rows(rows())
