"""The service: a ledger, its keys, limits, and the state shared by all requests."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from makewhole.insured.refusals import Refusal
from makewhole.ledger import (
    Book,
    BookStatement,
    Ledger,
    LedgerUnavailable,
    LogDamaged,
    LogForked,
    SubjectFinal,
    SubjectOpen,
)
from makewhole.ledger.store import Store
from makewhole.serve.access import Access, Keys
from makewhole.serve.api import Asked, Endpoint, own_key
from makewhole.serve.bodies import MOST_LINES, check_names, count_members, read_body, split_lines
from makewhole.serve.capitals import Trials
from makewhole.serve.desk import Desk, forget
from makewhole.serve.history import History
from makewhole.serve.limits import RequestLimits, caller_at
from makewhole.serve.metrics import Metrics
from makewhole.serve.problems import Stop

COOKIE = "makewhole_key"
_JSON_HEADERS = ((b"content-type", b"application/json"), (b"cache-control", b"no-store"))
# The seconds between live updates, no matter how much happens in between.
TICK = 0.5
# How often the ledger's thread is looked after, in seconds.
_WATCH = 0.25
# How many seconds `/ready` waits for the database.
_READY_SECONDS = 2.0
# The most seconds that background work may take to end.
_STOP_SECONDS = 2.0
# The most ids that are settled before other work is looked at.
_MOST_DUE = 1_000
# The most that may listen to `/live`: in total, and with one key or from one address.
_MOST_LISTENERS, _MOST_OF_ONE = 1_000, 50


class Service:
    """A ledger served over HTTP: the state shared by all requests."""

    def __init__(
        self, ledger: Ledger, past: Store | None = None, *, rate: float = 50.0, settles: bool = True
    ) -> None:
        self.ledger, self.desk = ledger, Desk(ledger)
        self._past, self._histories = past or ledger.store, dict[str, History]()
        self.keys, self.limits = Keys(ledger.store), RequestLimits(rate)
        self.settles, self.trials = settles, Trials()
        self.metrics = Metrics()
        self.listening: dict[str, int] = {}  # by key or address: how many listen
        self.damaged: dict[str, str] = {}  # by book, what is wrong with its log
        self.unavailable = False  # whether the last tick could not read the ledger
        self.stuck = False  # whether something did not end in time
        self._probe: asyncio.Future[list[str]] | None = None
        self.stopping, self.started = asyncio.Event(), False
        self.statements: dict[str, BookStatement] = {}  # of the last tick
        self.beat, self.news = asyncio.Event(), dict[str, tuple[int, str]]()
        self.failures, self._told = 0, ""
        self.notes: dict[str, str] = {}  # the first words on a book's page

    @contextlib.asynccontextmanager
    async def running(self, _: Any = None) -> AsyncIterator[None]:
        """Run the background work while the application runs."""
        self.keys.refresh()
        for name in self.ledger.books():
            with contextlib.suppress(Refusal, LogDamaged):  # a damaged book must not block the others
                self.ledger.book(name)  # a long log takes seconds to read: here, and not in a request
        self.desk.start()
        self.stopping = asyncio.Event()
        tasks = [asyncio.create_task(self._tick()), asyncio.create_task(self._tell())]
        watching = asyncio.create_task(self._watch())
        self.started = True
        try:
            yield
        finally:
            self.stopping.set()
            _, late = await asyncio.wait(tasks, timeout=_STOP_SECONDS)
            await self.trials.stop()
            watching.cancel()
            self.stuck = not self.desk.stop() or bool(late)
            for task in late:
                task.cancel()

    async def _watch(self) -> None:
        """Four times a second: if the database hangs, answer all who wait for it."""
        while True:
            await asyncio.sleep(_WATCH)
            self.desk.look_after()

    async def _tick(self) -> None:
        """Twice a second: settle final outcomes, follow what other processes wrote, and refresh the keys."""
        while not self.stopping.is_set():
            wait, names = TICK, list[str]()
            try:
                await self.desk.call(self.keys.refresh)
                names = await self.desk.call(self.ledger.books)
                self.unavailable = False
            except Exception as error:  # noqa: BLE001 - the database may be unavailable; the next tick tries again
                self.unavailable = True
                self._failed("the ledger", error)
            for name in names:
                if self.stopping.is_set():
                    return
                try:
                    if await self._look(name):
                        wait = 0.0
                    self.damaged.pop(name, None)
                except Exception as error:  # noqa: BLE001 - a damaged book must not block the others
                    self._failed(f"book {name!r}", error)
                    if isinstance(error, LogDamaged):
                        self.damaged[name] = str(error)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.stopping.wait(), wait)

    async def _tell(self) -> None:
        """Twice a second: wake all listeners. Their messages are built once for all of them."""
        while not self.stopping.is_set():
            for name, head in ((name, told.events) for name, told in self.statements.items()):
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

        An unavailable database is only counted: it comes back, or `/ready` reports it. The ledger itself logs
        a log that was forked.
        """
        self.failures += 1
        text = f"{what}: {error!r}"
        if text != self._told and not isinstance(error, (LedgerUnavailable, LogForked)):
            self._told = text
            logging.getLogger("makewhole.serve").warning(text)

    async def _look(self, name: str) -> bool:
        """Settle final outcomes in a book, and follow its log; returns whether there may be more of it."""
        more = self.settles and await self._settle(name)
        told = await self.desk.read(name, lambda book: self.desk.cached(book, "statement", Book.statement))
        self.statements[name] = told
        return await asyncio.to_thread(self.history(name).follow, self._past) or more

    async def _settle(self, name: str) -> bool:
        """Settle what is due, id by id, so that others have their turns; returns whether more is due."""
        due: list[str] = await self.desk.read(name, lambda book: book.due_ids())
        asked = [self.desk.write(name, {"do": "settle", "id": id_}) for id_ in due[:_MOST_DUE]]
        for answer in await asyncio.gather(*asked, return_exceptions=True):
            # Another server may have settled it, or an oracle has replaced the outcome.
            if isinstance(answer, BaseException) and not isinstance(answer, (SubjectFinal, SubjectOpen)):
                raise answer
        return len(due) > _MOST_DUE

    def history(self, book: str) -> History:
        """Return the past of a book, as far as it was read."""
        return self._histories.setdefault(book, History(book))

    async def what_is_wrong(self) -> str:
        """Return why the ledger cannot be used now, in time even if the database hangs; "" if it can."""
        if self._probe is None or self._probe.done():
            self._probe = self.desk.call(self.ledger.books)
            self._probe.add_done_callback(forget)  # perhaps nobody waits for it any more
        try:
            await asyncio.wait_for(asyncio.shield(self._probe), _READY_SECONDS)
        except TimeoutError:
            return f"the database has not answered for {_READY_SECONDS:g} seconds"
        except LedgerUnavailable as error:
            return str(error)
        closed = self.damaged | self.ledger.forked
        return "; ".join(f"book {name!r} is closed for writing: {why}" for name, why in closed.items())

    @property
    def listeners(self) -> int:
        """How many listen to `/live`."""
        return sum(self.listening.values())

    @contextlib.contextmanager
    def listener(self, who: str) -> Iterator[None]:
        """Count a listener while she listens; raise a Stop if there are too many."""
        if self.listeners >= _MOST_LISTENERS:
            raise Stop(503, f"there are {_MOST_LISTENERS:,} listeners", limit=_MOST_LISTENERS)
        if self.listening.get(who, 0) >= _MOST_OF_ONE:
            raise Stop(429, f"a key or an address may listen {_MOST_OF_ONE} times", limit=_MOST_OF_ONE)
        self.listening[who] = self.listening.get(who, 0) + 1
        try:
            yield
        finally:
            self.listening[who] -= 1
            if not self.listening[who]:
                del self.listening[who]

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
        """Return the caller's access; raise a Stop if she sends too many requests, or her key is unknown.

        Unknown keys count for the address: else anyone could ask as often as she likes with invented ones.
        """
        try:
            access = self.access(request)
        except Stop:
            _stop_for(self.limits.wait(_address(request)))
            raise
        _stop_for(self.limits.wait(_address(request) if access is None else access.id))
        return access

    def too_many(self, request: Request) -> Stop | None:
        """Count a request, and return the problem if it is one too many; other problems come later."""
        try:
            self.admit(request)
        except Stop as stop:
            return stop if stop.problem.status == 429 else None
        except ValueError:  # an origin that is no address: the page says so
            return None
        return None

    def who(self, request: Request) -> str:
        """Return whose turn a request is: her key's, or her address's."""
        access = None
        with contextlib.suppress(Stop):
            access = self.access(request)
        return _address(request) if access is None else access.id

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
            who = _address(request) if access is None else access.id
            body: Any = None
            if endpoint.lines and endpoint.method == "POST":
                body = split_lines(await read_body(request, MOST_LINES))
                _stop_for(self.limits.count(who, len(body) - 1))
            elif decoder is not None:
                text = await read_body(request)
                body = decoder.decode(text)
                check_names(text, count_members(body))
            key = header(request, b"idempotency-key") if endpoint.keyed else None
            key = None if access is None else own_key(access, key)
            query = {name: read_number(request, name, *rest) for name, *rest in endpoint.query}
            path = request.path_params
            asked = Asked(self.desk, access, who, path.get("book", ""), body, key, path, query)
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


def _stop_for(seconds: float) -> None:
    """Raise a Stop if a caller must wait."""
    if seconds:
        raise Stop(429, "too many requests", wait=math.ceil(seconds))


def _address(request: Request) -> str:
    """Return the address that a request comes from, as it is counted."""
    return caller_at("" if request.client is None else request.client.host)


def read_number(request: Request, name: str, default: int, least: int, most: int) -> int:
    """Return a whole number from the query; raise a Stop that names the bounds."""
    text = request.query_params.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit()) or len(text) > 16 or not least <= int(text) <= most:
        raise Stop(422, f"{name} must be a whole number from {least} to {most}; got {text[:40]!r}")
    return int(text)
