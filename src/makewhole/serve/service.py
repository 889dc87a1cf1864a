"""The service: a ledger, its keys, limits, and the state shared by all requests."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import time
import types
from collections.abc import AsyncIterator, Callable, Coroutine, Generator
from typing import Any
from urllib.parse import urlsplit

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from makewhole.ledger import Ledger, LedgerUnavailable
from makewhole.ledger.store import Store
from makewhole.serve.access import Access, Keys
from makewhole.serve.api import Asked, Endpoint, own_key
from makewhole.serve.capitals import Trials
from makewhole.serve.desk import Desk
from makewhole.serve.history import History
from makewhole.serve.problems import Stop

COOKIE = "makewhole_key"
MOST_BYTES, MOST_LINES = 65_536, 1_048_576
# A body must arrive within this many seconds of its headers: else a client could hold many requests open.
BODY_SECONDS = 10.0
_JSON_HEADERS = ((b"content-type", b"application/json"), (b"cache-control", b"no-store"))
# The seconds between live updates, no matter how much happens in between.
TICK = 0.5


class RequestLimits:
    """Allow each key, or without one each address, `rate` requests a second and a burst of as many.

    A request of many lines is admitted like any other, but each line counts: its sender then waits longer.
    """

    def __init__(self, rate: float) -> None:
        self._rate, self._left = rate, dict[str, tuple[float, float]]()

    def allow(self, who: str) -> bool:
        """Whether this caller may send a request now."""
        return not self._rate or self.wait(who) == 0.0

    def wait(self, who: str) -> float:
        """Admit a request and return 0, or return how many seconds the caller must wait."""
        if not self._rate:
            return 0.0
        now = time.monotonic()
        if len(self._left) > 100_000:
            self._left.clear()
        most = max(self._rate, 1.0)  # at a rate below 1, a single request must still be admitted
        left, last = self._left.get(who, (most, now))
        left = min(most, left + (now - last) * self._rate)
        allowed = left >= 1.0
        self._left[who] = (left - allowed, now)  # refused requests are not charged
        return 0.0 if allowed else (1.0 - left) / self._rate

    def count(self, who: str, more: int) -> None:
        """Charge further requests that came with an admitted one."""
        if self._rate and more > 0:
            left, last = self._left.get(who, (max(self._rate, 1.0), time.monotonic()))
            self._left[who] = (left - more, last)


class Service:
    """A ledger served over HTTP: the state shared by all requests."""

    def __init__(
        self, ledger: Ledger, past: Store | None = None, *, rate: float = 50.0, settles: bool = True
    ) -> None:
        self.ledger, self.desk = ledger, Desk(ledger)
        self._past, self._histories = past or ledger.store, dict[str, History]()
        self.keys, self.limits = Keys(ledger.store), RequestLimits(rate)
        self.settles, self.trials = settles, Trials()
        self.answers: dict[tuple[str, int], int] = {}
        self.listeners = 0
        self.stopping, self.started = asyncio.Event(), False
        self.heads: dict[str, int] = {}
        self.beat, self.news = asyncio.Event(), dict[str, tuple[int, str]]()
        self.failures, self._told = 0, ""
        self.notes: dict[str, str] = {}  # the first words on a book's page

    @contextlib.asynccontextmanager
    async def running(self, _: Any = None) -> AsyncIterator[None]:
        """Run the background work while the application runs."""
        self.keys.refresh()
        self.desk.start()
        self.stopping = asyncio.Event()
        tasks = [asyncio.create_task(self._tick()), asyncio.create_task(self._tell())]
        self.started = True
        try:
            yield
        finally:
            self.stopping.set()
            await asyncio.gather(*tasks)
            await self.trials.stop()
            self.desk.stop()

    async def _tick(self) -> None:
        """Twice a second: settle final outcomes, follow what other processes wrote, and refresh the keys."""
        while not self.stopping.is_set():
            wait, names = TICK, list[str]()
            try:
                await asyncio.to_thread(self.keys.refresh)
                names = await asyncio.to_thread(self.ledger.books)
            except Exception as error:  # noqa: BLE001 - the database may be unavailable; the next tick tries again
                self._failed("the ledger", error)
            for name in names:
                try:
                    if await self._look(name):
                        wait = 0.0
                except Exception as error:  # noqa: BLE001 - a damaged book must not block the others
                    self._failed(f"book {name!r}", error)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.stopping.wait(), wait)

    async def _tell(self) -> None:
        """Twice a second: wake all listeners. Their messages are built once for all of them."""
        while not self.stopping.is_set():
            for name, head in self.heads.items():
                if self.news.get(name, (0, ""))[0] != head:
                    data = msgspec.json.encode({"book": name, "head": head}).decode()
                    self.news[name] = (head, f"id: {head}\nevent: changed\ndata: {data}\n\n")
            self._wake()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.stopping.wait(), TICK)
        self._wake()

    def _wake(self) -> None:
        beat, self.beat = self.beat, asyncio.Event()
        beat.set()

    def _failed(self, what: str, error: Exception) -> None:
        """Count a failure between requests, and log it once, for the operator.

        An unavailable database is only counted: it comes back, or `/ready` reports it.
        """
        self.failures += 1
        text = f"{what}: {error!r}"
        if text != self._told and not isinstance(error, LedgerUnavailable):
            self._told = text
            logging.getLogger("makewhole.serve").warning(text)

    async def _look(self, name: str) -> bool:
        """Settle final outcomes in a book, and follow its log; returns whether there may be more of it."""
        if self.settles and await self.desk.read(name, lambda book: book.due_ids()):
            await self.desk.write(name, {"do": "settle"})
        self.heads[name] = await self.desk.read(name, lambda book: book.head()[0])
        return await asyncio.to_thread(self.history(name).follow, self._past)

    def history(self, book: str) -> History:
        """Return the past of a book, as far as it was read."""
        return self._histories.setdefault(book, History(book))

    # --- one request --------------------------------------------------------------------------------------

    def access(self, request: Request) -> Access | None:
        """Return the caller's access, by the key in the header or cookie; raise a Stop if it is invalid."""
        given = header(request, b"authorization")
        if given is not None:
            scheme, _, text = given.partition(" ")
            access = self.keys.find(text.strip()) if scheme.lower() == "bearer" else None
            if access is None:
                raise Stop(401, "the key is unknown or was revoked")
            return access
        cookie = request.cookies.get(COOKIE)
        if cookie is None:
            return None
        if request.method not in ("GET", "HEAD") and not same_site(request):
            raise Stop(403, "a page of another site cannot ask for this")
        return self.keys.find(cookie)

    def admit(self, request: Request) -> Access | None:
        """Return the caller's access; raise a Stop if she sends too many requests."""
        access = self.access(request)
        seconds = self.limits.wait(_address(request) if access is None else access.id)
        if seconds:
            raise Stop(429, "too many requests", wait=math.ceil(seconds))
        return access

    def endpoint(self, endpoint: Endpoint) -> Callable[[Request], Any]:
        """Return the function that answers requests to a route."""
        decoder = None if endpoint.body is None else msgspec.json.Decoder(endpoint.body)
        encode = msgspec.json.Encoder().encode

        async def respond(request: Request) -> Response:
            access = self.admit(request)
            if endpoint.roles is not None:
                if access is None:
                    raise Stop(401, f"a key is needed, for the role {' or '.join(endpoint.roles)}")
                if access.role not in endpoint.roles:
                    raise Stop(
                        403, f"this is for the role {' or '.join(endpoint.roles)}; yours is {access.role}"
                    )
            body: Any = None
            if endpoint.lines and endpoint.method == "POST":
                body = await read_body(request, MOST_LINES)
                self.limits.count("" if access is None else access.id, _count_lines(body) - 1)
            elif decoder is not None:
                body = decoder.decode(await read_body(request))
            key = header(request, b"idempotency-key") if endpoint.keyed else None
            key = None if access is None else own_key(access, key)
            query = {name: _number(request, name, *rest) for name, *rest in endpoint.query}
            path = request.path_params
            asked = Asked(self.desk, access, path.get("book", ""), body, key, path, query)
            answer = await endpoint.handler(asked)
            if endpoint.lines:
                headers = {"cache-control": "no-store"}
                return StreamingResponse(answer, headers=headers, media_type="application/x-ndjson")
            return _Json(encode(answer))

        return respond


class _Json(Response):
    """A JSON response with prebuilt headers: Starlette takes as long for them as for the JSON itself."""

    def __init__(self, body: bytes) -> None:
        self.status_code, self.body, self.background = 200, body, None
        self.raw_headers = [(b"content-length", b"%d" % len(body)), *_JSON_HEADERS]


def same_site(request: Request) -> bool:
    """Whether a request comes from a page of this server, and not from another site in the same browser."""
    origin = request.headers.get("origin")
    return origin is not None and urlsplit(origin).netloc == request.headers.get("host")


def header(request: Request, name: bytes) -> str | None:
    """Return the first header with this lower-case name; None if there is none.

    Starlette's own lookup takes three times as long, and raises an exception if there is none.
    """
    for key, value in request.scope["headers"]:
        if key == name:
            text: str = value.decode("latin-1")
            return text
    return None


def _address(request: Request) -> str:
    """Return the address that a request comes from."""
    return "" if request.client is None else request.client.host


async def read_body(request: Request, most: int = MOST_BYTES) -> bytes:
    """Return the body, up to a limit.

    Nearly always it has already arrived. It is then read without a timer, which would cost more than reading.
    """
    reading = _read_body(request, most)
    try:
        awaited = reading.send(None)
    except StopIteration as ended:
        whole: bytes = ended.value
        return whole
    try:
        async with asyncio.timeout(BODY_SECONDS):
            return await _rest(reading, awaited)
    except TimeoutError:
        raise Stop(408, f"the body must come within {BODY_SECONDS:g} seconds") from None


@types.coroutine
def _rest(begun: Coroutine[Any, Any, bytes], awaited: Any) -> Generator[Any, Any, bytes]:
    """Finish a coroutine that has started and waits for `awaited`; return its result."""
    try:
        yield awaited
    except BaseException as error:  # noqa: BLE001 - a cancellation must reach the coroutine
        yield begun.throw(error)
    whole: bytes = yield from begun
    return whole


async def _read_body(request: Request, most: int) -> bytes:
    parts, size, more = list[bytes](), 0, True
    while more:
        message = await request.receive()
        if message["type"] == "http.disconnect":  # the client is gone, but nothing failed
            raise Stop(400, "the body ended before its end")
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        more = message.get("more_body", False)
        if size > most:
            raise Stop(413, f"the body must have at most {most:,} bytes", limit=most)
    return b"".join(parts)


def _count_lines(body: bytes) -> int:
    """Return an upper bound on the number of requests in a body of lines: blank lines count as well."""
    return body.count(b"\n") + 1


def _number(request: Request, name: str, default: int, least: int, most: int) -> int:
    text = request.query_params.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit()) or len(text) > 16 or not least <= int(text) <= most:
        raise Stop(422, f"{name} must be a whole number from {least} to {most}; got {text[:40]!r}")
    return int(text)
