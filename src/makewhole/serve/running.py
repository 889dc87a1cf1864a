"""Run the server: for a ledger, or as a demonstration."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import tempfile
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from makewhole.extras import need
from makewhole.ledger import Ledger
from makewhole.ledger.store import open_store
from makewhole.serve.access import Keys
from makewhole.serve.app import make_app
from makewhole.serve.demo import Demo
from makewhole.serve.service import Service


def run(
    where: str, *, key: Path | None = None, host: str = "127.0.0.1", port: int = 8000, rate: float = 50.0
) -> None:
    """Serve a ledger until it is interrupted."""
    with Ledger.open(where, key=key) as ledger, contextlib.closing(open_store(where)) as past:
        service = Service(ledger, past, rate=rate)
        print(f"http://{host}:{port}", flush=True)  # noqa: T201 - the one line that says where it is
        asyncio.run(_serve(service, host, port))


def run_demo(*, host: str = "127.0.0.1", port: int = 8000, pace: float = 4.0) -> None:
    """Serve a book on real flights, sold to simulated passengers, until it is interrupted."""
    with tempfile.TemporaryDirectory(prefix="makewhole-") as folder:
        where = str(Path(folder) / "demo.db")
        with Ledger.open(where) as ledger, contextlib.closing(open_store(where)) as past:
            service = Service(ledger, past)
            demo = Demo(service, pace)
            passenger = Keys(ledger.store).add("customer", "you")
            desk = Keys(ledger.store).add("publisher", "the desk")
            print(f"http://{host}:{port}", flush=True)  # noqa: T201 - the one line that says where it is
            print(f"  sign in as a passenger with {passenger}\n  or as the desk with {desk}", flush=True)  # noqa: T201 - keys are shown once
            asyncio.run(_serve(service, host, port, demo.play))


async def _serve(
    service: Service, host: str, port: int, beside: Callable[[], Coroutine[Any, Any, None]] | None = None
) -> None:
    uvicorn = need("uvicorn", "serve")
    config = uvicorn.Config(
        make_app(service),
        host=host,
        port=port,
        log_level="warning",
        timeout_graceful_shutdown=5,
        access_log=False,
    )
    server = uvicorn.Server(config)

    def stop(*_: Any) -> None:
        service.stopping.set()  # an open stream must not hold up the end: it hears of it at once
        server.should_exit = True

    # Our own handlers: uvicorn's would raise the signal again after the end, which looks like an error.
    server.capture_signals = contextlib.nullcontext
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    task = None if beside is None else asyncio.create_task(_beside(service, beside))
    await server.serve()
    if task is not None:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def _beside(service: Service, play: Callable[[], Coroutine[Any, Any, None]]) -> None:
    while not service.started:
        await asyncio.sleep(0.05)
    await play()
