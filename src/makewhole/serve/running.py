"""Run the server: for a ledger, or as a demonstration."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import signal
import socket
import tempfile
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from makewhole.extras import need
from makewhole.ledger import Ledger
from makewhole.ledger.store import open_store
from makewhole.serve.access import Keys
from makewhole.serve.app import make_app
from makewhole.serve.demo import Demo, DemoClock
from makewhole.serve.service import Service

_log = logging.getLogger("makewhole.serve")


def run(
    where: str, *, key: Path | None = None, host: str = "127.0.0.1", port: int = 8000, rate: float = 50.0
) -> None:
    """Serve a ledger until interrupted."""
    with (
        _listening(host, port) as line,
        Ledger.open(where, key=key) as ledger,
        contextlib.closing(open_store(where)) as past,
    ):
        _run(_serve(Service(ledger, past, rate=rate), line))


def run_demo(*, host: str = "127.0.0.1", port: int = 8000, pace: float = 2.0) -> None:
    """Serve a book on real flights, sold to simulated passengers, until interrupted."""
    with _listening(host, port) as line, tempfile.TemporaryDirectory(prefix="makewhole-") as folder:
        where = str(Path(folder) / "demo.db")
        clock = DemoClock()
        with Ledger.open(where, clock=clock) as ledger, contextlib.closing(open_store(where)) as past:
            service = Service(ledger, past)
            demo = Demo(service, clock, pace)
            passenger = Keys(ledger.store).add("customer", "you")
            desk = Keys(ledger.store).add("publisher", "the desk")
            keys = f"\n  sign in as a passenger with {passenger}\n  or as the desk with {desk}"
            _run(_serve(service, line, demo.play, keys))


def _run(main: Coroutine[Any, Any, None]) -> None:
    """Run it in uvloop, which is faster, if that is installed."""
    try:
        import uvloop
    except ModuleNotFoundError:
        asyncio.run(main)
    else:
        uvloop.run(main)


def _listening(host: str, port: int) -> socket.socket:
    """Return a listening socket; raise an OSError if the port is taken, before the address is printed."""
    made = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    # Accepted connections inherit it. Without it an answer in two parts waits 40 ms for the client's ACK.
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made


async def _serve(
    service: Service,
    line: socket.socket,
    beside: Callable[[], Coroutine[Any, Any, None]] | None = None,
    more: str = "",
) -> None:
    uvicorn = need("uvicorn", "serve")
    from makewhole.serve.guard import guarded

    config = uvicorn.Config(
        make_app(service),
        http=guarded(service.metrics),
        log_level="warning",
        timeout_graceful_shutdown=5,
        access_log=False,
    )
    server = uvicorn.Server(config)

    def stop(*_: Any) -> None:
        service.stopping.set()  # tells open streams to end immediately, so that they do not delay the exit
        server.should_exit = True

    # Our own handlers: uvicorn's would raise the signal again at the end, which looks like an error.
    server.capture_signals = contextlib.nullcontext
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    host, port = line.getsockname()[:2]
    print(f"http://{f'[{host}]' if ':' in host else host}:{port}{more}", flush=True)  # noqa: T201 - the address
    task = None if beside is None else asyncio.create_task(_beside(service, beside))
    if task is not None:
        task.add_done_callback(lambda ended: None if ended.cancelled() or not ended.exception() else stop())
    gc.collect()
    gc.freeze()  # imported modules stay alive: scanning them repeatedly takes a fifth of a quote's time
    # Requests leave few cycles behind, but with hundreds open at a time the collector would run after every
    # few of them, and each time scan all the connections that only listen. The middle generation is kept
    # small, because everybody waits while it is scanned.
    gc.set_threshold(20_000, 2, 50)
    await server.serve(sockets=[line])
    if task is not None:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
    if service.stuck:  # Python would wait for its threads, and they wait for the database
        _log.warning("the database does not answer: ended without closing it; all acknowledged is stored")
        os._exit(1)


async def _beside(service: Service, play: Callable[[], Coroutine[Any, Any, None]]) -> None:
    while not service.started:
        await asyncio.sleep(0.05)
    await play()
