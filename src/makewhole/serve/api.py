"""The routes of the API: each says who may use it, what it takes and what it answers.

The same table defines the routes and the OpenAPI document, so that the document is complete and correct.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from msgspec import Meta, Struct

from makewhole.ledger import Book, BookStatement, Offer, Receipt
from makewhole.ledger.book import OpenForecast, Position
from makewhole.ledger.refusals import StoreUnavailable, UnknownBook
from makewhole.serve.access import Access
from makewhole.serve.bodies import check_names
from makewhole.serve.desk import Desk, forget
from makewhole.serve.problems import Stop, problem_of

Text = Annotated[str, Meta(min_length=1, max_length=500)]
Probability = Annotated[float, Meta(ge=0.0, le=1.0)]
# A whole number of units; JSON readers lose digits beyond this.
Units = Annotated[int, Meta(ge=-(2**50), le=2**50)]
Amount = Annotated[int, Meta(ge=0, le=2**50)]

# The longest Idempotency-Key.
LONGEST_KEY = 200

# Requests without a key are quoted the price of a new customer.
STRANGER = "somebody new"


class _In(Struct, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """The body of a request; an unknown field is an error.

    The garbage collector need not look at it: thousands of lines would make it stop everybody for long.
    """


class ForecastIn(_In):
    """A probability for an id; if the id has one, this is a new version."""

    id: Text
    mu: Probability
    c_hat: Probability | None = None
    closes: Annotated[str, Meta(max_length=40)] | None = None
    groups: Annotated[list[Text], Meta(max_length=16)] | None = None


class StakeIn(_In):
    """A stake above 0 pays `stake` if it happens; one below 0 pays its size if it does not."""

    id: Text
    stake: Units
    price: Amount | None = None


class QuoteIn(_In):
    """One of `stake`, `payout` (if it happens), or `losses`: {action: [loss if not, loss if it happens]}."""

    id: Text
    stake: Units | None = None
    payout: Amount | None = None
    losses: Annotated[dict[Text, tuple[Units, Units]], Meta(max_length=50)] | None = None


class OutcomeIn(_In):
    """What happened: 1 if it did, 0 if not."""

    id: Text
    outcome: Literal[0, 1]


class VoidIn(_In):
    """Void an id; every price paid is refunded."""

    id: Text
    reason: Text


class ReceiptOut(Struct):
    """An event of the log, signed; `makewhole ledger verify --receipts` and `/api/receipts/check` take it."""

    receipt: Literal[1]
    book: str
    seq: int
    at: int
    kind: str
    about: str | None
    body: str
    previous: str
    hash: str
    head: tuple[int, str]
    salt: str
    beside: list[str]
    key: str
    signature: str


class EventOut(Struct):
    """One line of the log."""

    seq: int
    at: int
    kind: str
    about: str | None
    body: str
    hash: str


class CheckOut(Struct):
    """Whether a receipt is genuine, and whether the log still has its event."""

    genuine: bool
    in_the_log: bool
    says: str


class Asked(NamedTuple):
    """What a handler needs: the desk, the caller's access, whose turn it is, and the request."""

    desk: Desk
    access: Access | None
    who: str
    book: str
    body: Any
    key: str | None
    path: dict[str, str]
    query: dict[str, int]

    @property
    def name(self) -> str:
        """The caller's name."""
        return STRANGER if self.access is None else self.access.name

    def read(self, function: Callable[[Book], Any]) -> Awaitable[Any]:
        """Call a function of the book, when it is the caller's turn."""
        return self.desk.read(self.book, function, self.who)

    def write(self, request: dict[str, Any]) -> asyncio.Future[list[Receipt]]:
        """Do a request to the book, when it is the caller's turn."""
        return self.desk.write(self.book, request, self.who)


class Endpoint(NamedTuple):
    """A route: for everyone if `roles` is None. `query` are whole numbers: (name, default, least, most)."""

    method: str
    path: str
    summary: str
    roles: tuple[str, ...] | None
    body: type[Struct] | None
    answer: Any
    handler: Callable[[Asked], Awaitable[Any]]
    keyed: bool = False
    query: tuple[tuple[str, int, int, int], ...] = ()
    lines: bool = False  # whether request and response are NDJSON


def _plain(receipt: Receipt) -> ReceiptOut:
    """Return the receipt as in `to_json`; it is signed here, not on the ledger's thread."""
    (book, seq, at, kind, about, body, hash_), (last, head) = receipt.event, receipt.head
    chain = (receipt.previous.hex(), hash_.hex(), (last, head.hex()))
    key, signature, salt, beside = receipt.proof
    others = [hash_.hex() for hash_ in beside]
    return ReceiptOut(1, book, seq, at, kind, about, body, *chain, salt.hex(), others, key, signature)


async def _write(asked: Asked, verb: str, **more: Any) -> ReceiptOut:
    given = msgspec.structs.asdict(asked.body)
    (receipt,) = await asked.write({"do": verb, "key": asked.key} | given | more)
    return _plain(receipt)


async def forecast(asked: Asked) -> Any:
    """Publish a forecast."""
    return await _write(asked, "forecast")


async def stake(asked: Asked) -> Any:
    """Take a stake from the key's owner."""
    return await _write(asked, "stake", by=asked.name)


async def report(asked: Asked) -> Any:
    """Record an outcome reported by the key's owner."""
    return await _write(asked, "report", by=asked.name)


async def void(asked: Asked) -> Any:
    """Void an id."""
    return await _write(asked, "void")


async def quote(asked: Asked) -> Any:
    """Return the price of a bet for the caller."""
    body: QuoteIn = asked.body
    given: Any = {"stake": body.stake, "payout": body.payout, "losses": body.losses}
    return await asked.read(lambda book: book.quote(body.id, by=asked.name, **given))


async def statement(asked: Asked) -> Any:
    """Return the book's statement."""
    return await asked.read(lambda book: asked.desk.cached(book, "statement", Book.statement))


async def open_forecasts(asked: Asked) -> Any:
    """List the open forecasts, page by page: those whose `first` event is after `since`."""
    since, limit = asked.query["since"], asked.query["limit"]

    def read(book: Book) -> msgspec.Raw:
        return msgspec.Raw(msgspec.json.encode(book.open_forecasts(since, limit)))

    return await asked.read(lambda book: asked.desk.cached(book, ("forecasts", since, limit), read))


async def positions(asked: Asked) -> Any:
    """List the stakes of the key's owner."""
    limit = asked.query["limit"]
    return await asked.read(lambda book: book.positions(asked.name, limit))


async def receipt(asked: Asked) -> Any:
    """Return a receipt again, to the auditor or to the customer who staked."""
    text = asked.path["seq"]
    if not (text.isascii() and text.isdigit()) or len(text) > 15:
        raise Stop(422, f"seq must be a whole number; got {text[:40]!r}")
    stored: Receipt = await asked.read(lambda book: book.receipt(int(text)))
    access = asked.access
    if access is None or (access.role != "auditor" and not _concerns(stored, access.name)):
        raise Stop(403, "this receipt is somebody else's")
    return _plain(stored)


def _concerns(stored: Receipt, name: str) -> bool:
    by = stored.body.get("by")
    return stored.event.kind == "staked" and name in (by if isinstance(by, list) else [by])


async def events(asked: Asked) -> Any:
    """Read the log, page by page."""
    since, limit = asked.query["since"], asked.query["limit"]

    def read(book: Book) -> list[dict[str, Any]]:
        lines = [event._asdict() | {"hash": event.hash.hex()} for event in book.events(since, limit)]
        for line in lines:
            del line["book"]
        return lines

    return await asked.read(read)


async def check(asked: Asked) -> Any:
    """Check a receipt: its hash, its signature, and whether the log still has its event."""
    try:
        given = Receipt.from_json(msgspec.json.encode(asked.body).decode())
    except ValueError as error:
        return CheckOut(False, False, str(error))
    return await look_up(asked.desk, given, asked.who)


async def look_up(desk: Desk, given: Receipt, who: str) -> CheckOut:
    """Look for a receipt in the log. One signed with a key that the log does not name is not genuine."""

    def look(book: Book) -> tuple[bool, bool]:
        last, ours = book.head()[0], given.signed[0] in book.public_keys()
        named = ((given.seq, given.event.hash), given.head)
        return ours, all(0 < seq <= last and book.receipt(seq).event.hash == hash_ for seq, hash_ in named)

    try:
        ours, kept = await desk.read(given.event.book, look, who)
    except UnknownBook as error:
        return CheckOut(False, False, str(error))
    if not ours:
        return CheckOut(False, False, "it was signed with a key that the log does not name")
    says = "the log has this event, unchanged"
    return CheckOut(True, kept, says if kept else "the log does not have this event: it was changed or cut")


# What each role may request as NDJSON; stakes and reports are in the caller's name.
_LINES: dict[str, dict[str, type[_In]]] = {
    "publisher": {"forecast": ForecastIn, "void": VoidIn},
    "oracle": {"report": OutcomeIn},
    "customer": {"stake": StakeIn},
}


class _Line(Struct, gc=False):
    """A line that was read: the verb, the key of the request, and its body."""

    verb: str
    key: str | None
    body: _In

    def request(self, name: str) -> dict[str, Any]:
        """Return it as the ledger takes it, for the customer or oracle of this name."""
        by = {"by": name} if self.verb in ("stake", "report") else {}
        return {"do": self.verb, "key": self.key} | msgspec.structs.asdict(self.body) | by


# Lines are read, done and answered in blocks, of which so many are under way at a time.
_BLOCK, _AHEAD = 64, 2


async def requests(asked: Asked) -> AsyncIterator[bytes]:
    """Do many requests; each is answered by a line with its receipt, or with a problem.

    All lines are read before the first is done: if one is not valid, nothing is done. They are then done and
    answered block by block, so that others have their turns.
    """
    wanted: list[_Line] = []
    for start in range(0, len(asked.body), _BLOCK):
        async with asked.desk.slices:
            wanted += [_read_line(asked, *line) for line in asked.body[start : start + _BLOCK]]
        await asyncio.sleep(0)
    return _do_lines(asked, wanted)


async def _do_lines(asked: Asked, wanted: list[_Line]) -> AsyncIterator[bytes]:
    under_way: deque[list[asyncio.Future[list[Receipt]]]] = deque()
    answered = 0
    try:
        for start in range(0, len(wanted) + _AHEAD * _BLOCK, _BLOCK):
            block = wanted[start : start + _BLOCK]
            under_way.append([asked.write(one.request(asked.name)) for one in block])
            if len(under_way) <= _AHEAD:
                continue
            answers = await asyncio.gather(*under_way.popleft(), return_exceptions=True)
            async with asked.desk.slices:
                text = b"".join(map(_line, answers))
            yield text
            answered += len(answers)
            if answers and isinstance(answers[-1], StoreUnavailable):  # the rest need not each wait as long
                yield _line(answers[-1]) * (len(wanted) - answered)
                return
            await asyncio.sleep(0)
    finally:  # the client may have gone away
        for future in (one for block in under_way for one in block):
            forget(future)


_decode_line = msgspec.json.Decoder(dict[str, Any]).decode


def _read_line(asked: Asked, number: int, line: bytes) -> _Line:
    """Return a line as a request, validated like a single request."""
    access = asked.access
    if access is None:
        raise Stop(401)
    try:
        given = _decode_line(line)
        check_names(line, len(given))
        verb, key = given.pop("do", None), given.pop("key", None)
        kinds = _LINES[access.role]
        if not isinstance(verb, str) or verb not in kinds:
            raise Stop(403, f"line {number}: as {access.role} you may do {', '.join(kinds)}")
        return _Line(verb, own_key(access, key), msgspec.convert(given, kinds[verb]))
    except (msgspec.MsgspecError, ValueError) as error:
        raise Stop(422, f"line {number}: {error}") from None


def own_key(access: Access, key: Any) -> str | None:
    """Return a request's key as the ledger stores it: two customers may choose the same key."""
    if key is None:
        return None
    if not isinstance(key, str) or not 0 < len(key) <= LONGEST_KEY:
        raise ValueError(f"the key of a request must be a text of 1 to {LONGEST_KEY} characters")
    return f"{access.id} {key}"


def _line(answer: Any) -> bytes:
    if isinstance(answer, Exception):
        return msgspec.json.encode(problem_of(answer)) + b"\n"
    return msgspec.json.encode(_plain(answer[0])) + b"\n"


async def log(asked: Asked) -> AsyncIterator[bytes]:
    """Send the whole log, line by line, as it stands when each page is read."""

    async def pages() -> AsyncIterator[bytes]:
        since = asked.query["since"]
        while True:
            page = await events(asked._replace(query={"since": since, "limit": 1_000}))
            yield b"".join(msgspec.json.encode(event) + b"\n" for event in page)
            if len(page) < 1_000:
                return
            since = page[-1]["seq"]

    await asked.read(Book.head)  # a problem must be raised before the first line is sent
    return pages()


_BOOK = "/api/books/{book}"
_PAGE = (("limit", 100, 1, 1_000),)
_SINCE = (("since", 0, 0, 2**53),)
ENDPOINTS = (
    Endpoint("GET", f"{_BOOK}/statement", "The sums of a book", None, None, BookStatement, statement),
    Endpoint(
        "GET",
        f"{_BOOK}/forecasts",
        "What can be bet on",
        None,
        None,
        list[OpenForecast],
        open_forecasts,
        query=(*_SINCE, *_PAGE),
    ),
    Endpoint("POST", f"{_BOOK}/quotes", "What a bet costs you", None, QuoteIn, Offer, quote),
    Endpoint("POST", f"{_BOOK}/stakes", "Place a bet", ("customer",), StakeIn, ReceiptOut, stake, keyed=True),
    Endpoint(
        "GET",
        f"{_BOOK}/positions",
        "Your bets",
        ("customer",),
        None,
        list[Position],
        positions,
        query=_PAGE,
    ),
    Endpoint(
        "POST",
        f"{_BOOK}/forecasts",
        "Publish a forecast",
        ("publisher",),
        ForecastIn,
        ReceiptOut,
        forecast,
        keyed=True,
    ),
    Endpoint(
        "POST", f"{_BOOK}/voids", "Call an id off", ("publisher",), VoidIn, ReceiptOut, void, keyed=True
    ),
    Endpoint(
        "POST",
        f"{_BOOK}/outcomes",
        "Report an outcome",
        ("oracle",),
        OutcomeIn,
        ReceiptOut,
        report,
        keyed=True,
    ),
    Endpoint(
        "GET",
        f"{_BOOK}/events",
        "The log",
        ("auditor",),
        None,
        list[EventOut],
        events,
        query=(*_SINCE, *_PAGE),
    ),
    Endpoint(
        "GET",
        f"{_BOOK}/receipts/{{seq}}",
        "A receipt again",
        ("customer", "auditor"),
        None,
        ReceiptOut,
        receipt,
    ),
    Endpoint(
        "GET", f"{_BOOK}/log", "The log as lines", ("auditor",), None, str, log, query=_SINCE, lines=True
    ),
    Endpoint(
        "POST",
        f"{_BOOK}/requests",
        "Many requests as lines",
        ("publisher", "oracle", "customer"),
        None,
        str,
        requests,
        lines=True,
    ),
    Endpoint("POST", "/api/receipts/check", "Check a receipt", None, ReceiptOut, CheckOut, check),
)
