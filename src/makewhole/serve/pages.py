"""The pages: they work without scripts; with scripts, they update live."""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Awaitable, Callable, Hashable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote

import jinja2
import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Mount
from starlette.staticfiles import StaticFiles

from makewhole.insured.refusals import Refusal
from makewhole.insured.statement import Statement
from makewhole.ledger import Book, Receipt
from makewhole.ledger.events import Event
from makewhole.ledger.listing import Place
from makewhole.ledger.page import shown_time
from makewhole.serve.access import Access
from makewhole.serve.api import ENDPOINTS, STRANGER, look_up
from makewhole.serve.bodies import read_body
from makewhole.serve.problems import Stop, problem_of
from makewhole.serve.proofs import PROOFS
from makewhole.serve.routing import BookRoute
from makewhole.serve.service import COOKIE, Service, read_number, same_site

_HERE = Path(__file__).parent
# How many groups the page shows: those that lost most.
_MOST_GROUPS = 50
# The orders in which the open events can be shown.
_SORTS = {"closes": "closing", "chance": "chance", "name": "name"}
# How many rows a page shows.
_ROWS = 50


def _money(units: float) -> str:
    return f"{units:,.0f}".replace(",", "\u202f")


class Pages:
    """Renders the pages of a service."""

    def __init__(self, service: Service) -> None:
        self._service = service
        loader = jinja2.FileSystemLoader(_HERE / "templates")
        self._templates = jinja2.Environment(loader=loader, autoescape=True, undefined=jinja2.StrictUndefined)
        self._templates.filters |= {
            "time": shown_time,
            "money": _money,
            "percent": lambda p: f"{100 * p:.1f} %",
            "urlencode": partial(quote, safe=""),  # Jinja's leaves slashes, which a book's name may have
        }

    def routes(self) -> Iterator[BaseRoute]:
        """Yield the routes of all pages."""
        book = "/books/{book}"
        for path, function, methods in (
            ("/", self._home, ["GET"]),
            (book, self._statement, ["GET"]),
            (f"{book}/charts.json", self._charts, ["GET"]),
            (f"{book}/open", self._open, ["GET"]),
            (f"{book}/about", self._subject, ["GET", "POST"]),
            (f"{book}/buy", self._buy, ["POST"]),
            (f"{book}/mine", self._mine, ["GET"]),
            (f"{book}/desk", self._desk, ["GET"]),
            (f"{book}/capitals.json", self._capitals, ["GET"]),
            ("/check", self._check, ["GET", "POST"]),
            ("/sign-in", self._sign_in, ["GET", "POST"]),
            ("/sign-out", self._sign_out, ["POST"]),
            ("/docs", self._docs, ["GET"]),
            ("/proofs", self._proofs, ["GET"]),
        ):
            yield BookRoute(path, self._guarded(function), methods=methods)
        yield Mount("/static", StaticFiles(directory=_HERE / "static"))

    def _guarded(self, function: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Any]:
        async def respond(request: Request) -> Response:
            try:
                return await function(request)
            except HTTPException:
                raise
            except Exception as error:
                problem = problem_of(error)
                if problem.status == 500:
                    raise
                page = self._page(request, "problem.html", status=problem.status, problem=problem)
                if problem.status in (429, 503):
                    page.headers["retry-after"] = str(error.wait if isinstance(error, Stop) else 1)
                return page

        return respond

    def _page(self, request: Request, name: str, *, status: int = 200, **known: Any) -> Response:
        access = None
        with contextlib.suppress(Stop):
            access = self._service.access(request)
        known = {"book": request.path_params.get("book"), "access": access, "path": request.url.path} | known
        text = self._templates.get_template(name).render(**known)
        return HTMLResponse(text, status, headers={"cache-control": "no-store"})

    def _who(self, request: Request, *roles: str) -> Access:
        access = self._service.access(request)
        if access is None:
            raise Stop(401, "sign in with your key first")
        if access.role not in roles:
            raise Stop(403, f"this page is for the role {' or '.join(roles)}; yours is {access.role}")
        return access

    async def _read(self, request: Request, function: Callable[[Book], Any]) -> Any:
        service = self._service
        return await service.desk.read(request.path_params["book"], function, service.who(request))

    async def _cached(self, request: Request, what: Hashable, function: Callable[[Book], Any]) -> Any:
        """Read from a book, unless the same was read since the book last changed."""
        return await self._read(request, lambda book: self._service.desk.cached(book, what, function))

    # --- for everyone -------------------------------------------------------------------------------------

    async def _home(self, request: Request) -> Response:
        names = list(self._service.statements)
        if len(names) == 1:
            return RedirectResponse(f"/books/{quote(names[0], safe='')}", 303)
        return self._page(request, "home.html", books=names)

    async def _statement(self, request: Request) -> Response:
        name = request.path_params["book"]

        def read(book: Book) -> Any:
            inner = book.inner_statement()
            return book.statement(), inner, _groups_of(inner)

        told, inner, all_groups = await self._cached(request, "page", read)
        past = self._service.history(name)
        groups = [row | {"c": past.prices_of.get(row["name"])} for row in all_groups[:_MOST_GROUPS]]
        known = {"told": told, "inner": inner, "past": past, "note": self._service.notes.get(name, "")}
        more = len(all_groups) - len(groups)
        return self._page(request, "statement.html", groups=groups, more_groups=more, **known)

    async def _charts(self, request: Request) -> Response:
        await self._read(request, lambda book: None)  # a 404 if there is no such book
        charts = self._service.history(request.path_params["book"]).charts()
        return Response(msgspec.json.encode(charts), media_type="application/json")

    async def _open(self, request: Request) -> Response:
        words, order = request.query_params.get("search", "")[:200], request.query_params.get("sort", "")
        order = "name" if words else order if order in _SORTS else "closes"
        after = _place(request, order)

        def read(book: Book) -> Any:
            return *book.listed(order, after, _ROWS, words), book.statement().open

        found, more, count = await self._cached(request, ("open", order, after, words), read)
        now = time.time_ns() // 1_000
        following = more and {"search": words, "sort": order, "after": msgspec.json.encode(more).decode()}
        known = {"found": found, "count": count, "search": words, "sort": order, "following": following}
        return self._page(request, "open.html", now=now, sorts=_SORTS, **known)

    async def _subject(self, request: Request) -> Response:
        id_ = _id(request)
        access = self._service.access(request)
        name = access.name if access is not None and access.role == "customer" else STRANGER
        before, now = read_number(request, "before", 2**53, 1, 2**53), time.time_ns() // 1_000

        def read(book: Book) -> Any:
            events = book.latest_about(id_, _ROWS + 1, before)
            return book.open_forecast(id_), events, book.statement().unit

        said, events, unit = await self._cached(request, ("about", id_, before), read)
        known: dict[str, Any] = {"id": id_, "said": said, "unit": unit, "now": now, "quote": None}
        known["timeline"] = _timeline(events[:_ROWS])
        known["earlier"] = events[_ROWS - 1].seq if len(events) > _ROWS else None
        known |= {"form": {"payout": "", "actions": ""}, "error": None, "uninsured": None, "beyond": []}
        if request.method == "POST":
            form = await self._form(request)
            known["form"] |= form
            try:
                asked = _read_quote(form)
                quote = await self._read(request, lambda book: book.quote(id_, by=name, **asked))
                known |= {"quote": quote, "token": secrets.token_urlsafe(16)}
                if "losses" in asked:
                    known["uninsured"] = asked["losses"]
                    known["beyond"] = [
                        (name, abs(quote.room[if_1 > if_0]))
                        for name, (if_0, if_1) in asked["losses"].items()
                        if not quote.room[0] <= if_1 - if_0 <= quote.room[1]
                    ]
            except (Refusal, ValueError, TypeError) as error:
                known["error"] = str(error)
        return self._page(request, "subject.html", **known)

    async def _check(self, request: Request) -> Response:
        known: dict[str, Any] = {"text": "", "result": None}
        if request.method == "POST":
            text = (await self._form(request)).get("receipt", "")
            known = {"text": text, "result": await self._checked(text, self._service.who(request))}
        return self._page(request, "check.html", **known)

    async def _checked(self, text: str, who: str) -> tuple[bool, str]:
        try:
            given = Receipt.from_json(text)
        except ValueError as error:
            return False, str(error)

        result = await look_up(self._service.desk, given, who)
        if not result.genuine:
            return False, f"It is not ours: {result.says}."
        if not result.in_the_log:
            return False, "It is genuine, but the log does not have this event: the log was changed or cut."
        return True, f"It is genuine, and event {given.seq} of book {given.event.book} says just that."

    async def _docs(self, request: Request) -> Response:
        return self._page(request, "docs.html", endpoints=ENDPOINTS)

    async def _proofs(self, request: Request) -> Response:
        return self._page(request, "proofs.html", proofs=PROOFS)

    # --- for those with a key -----------------------------------------------------------------------------

    async def _form(self, request: Request) -> dict[str, str]:
        if not same_site(request):
            raise Stop(403, "a page of another site cannot ask for this")
        text = (await read_body(request)).decode(errors="replace")
        return dict(parse_qsl(text, keep_blank_values=True, max_num_fields=100))

    async def _buy(self, request: Request) -> Response:
        access = self._who(request, "customer")
        form = await self._form(request)
        id_, book = _id(request), request.path_params["book"]
        try:
            stake, price = int(form["stake"]), int(form["price"])
        except (KeyError, ValueError):
            raise Stop(422, "the form was not filled in") from None
        key = f"{access.id} page {form.get('token', '')[:100]}"
        asked = {"do": "stake", "id": id_, "by": access.name, "stake": stake, "price": price, "key": key}
        (receipt,) = await self._service.desk.write(book, asked, access.id)
        return self._page(request, "receipt.html", receipt=receipt, text=receipt.to_json(), body=receipt.body)

    async def _mine(self, request: Request) -> Response:
        access = self._who(request, "customer")

        def read(book: Book) -> Any:
            return book.positions(access.name), book.account(access.name), book.statement().unit

        found, account, unit = await self._read(request, read)
        return self._page(request, "mine.html", found=found, account=account, unit=unit)

    async def _desk(self, request: Request) -> Response:
        self._who(request, "publisher")

        def read(book: Book) -> Any:
            return book.statement(), book.inner_statement(), book.most_used(_ROWS)

        told, inner, found = await self._read(request, read)
        past = self._service.history(request.path_params["book"])
        most = sorted(past.taken.items(), key=lambda item: -item[1])[:20]
        self._service.trials.start(past)
        trial = self._service.trials.latest.get(past.book)
        known = {"told": told, "inner": inner, "found": found, "most": most, "trial": trial}
        return self._page(request, "desk.html", **known)

    async def _capitals(self, request: Request) -> Response:
        self._who(request, "publisher")
        await self._read(request, lambda book: None)  # a 404 if there is no such book
        trial = await self._service.trials.of(self._service.history(request.path_params["book"]))
        headers = {"cache-control": "no-store"}
        return Response(msgspec.json.encode(trial), headers=headers, media_type="application/json")

    async def _sign_in(self, request: Request) -> Response:
        if request.method == "GET":
            return self._page(request, "sign-in.html", wrong=False)
        text = (await self._form(request)).get("key", "").strip()
        access = self._service.keys.find(text)
        if access is None:
            return self._page(request, "sign-in.html", status=401, wrong=True)
        answer = RedirectResponse("/", 303)
        secure = request.url.scheme == "https"
        answer.set_cookie(COOKIE, text, httponly=True, samesite="strict", secure=secure, path="/")
        return answer

    async def _sign_out(self, request: Request) -> Response:
        await self._form(request)
        answer = RedirectResponse("/", 303)
        answer.delete_cookie(COOKIE, path="/")
        return answer


def _groups_of(inner: Statement) -> list[dict[str, Any]]:
    """Return the groups of a book, those that lost most first."""
    rows = [_group(name, group) for name, group in inner.groups.items()]
    return sorted(rows, key=lambda row: -row["lost"])


def _group(name: str | int, own: Statement) -> dict[str, Any]:
    """Return a row of the table of groups, from the group's own statement."""
    verdict = "losing" if own.alarm else "unlucky" if own.total_loss > 0 else "neither"
    if own.refuted:
        verdict += "; the forecasts are refuted"
    sums = {"rounds": own.rounds, "bets": own.bets, "turnover": own.turnover, "lost": own.total_loss}
    return {"name": str(name), "verdict": verdict} | sums


def _id(request: Request) -> str:
    """Return the page's id, from the query: it may be any text, such as "..", which breaks in a path."""
    return request.query_params.get("id", "")


def _place(request: Request, order: str) -> Place | None:
    """Return the place in a list after which a page begins, as the page before has named it."""
    text = request.query_params.get("after")
    if text is None:
        return None
    kind: Any = tuple[str, str] if order == "name" else tuple[int | float, str]
    try:
        place: Place = msgspec.json.decode(text, type=kind)
    except msgspec.MsgspecError:
        raise Stop(422, f"after must be a place in the list; got {text[:100]!r}") from None
    return place


def _timeline(events: list[Event]) -> list[tuple[int, str]]:
    """Return what happened to an id, in words; no customer is named."""
    timeline = []
    for event in events:
        body = event.data()
        if event.kind == "forecast":
            mu, c = body["published"]
            words = f"forecast {body['version']}: {100 * mu:.1f} %, price {100 * c:.1f} %"
        elif event.kind == "staked":
            words = f"somebody paid {_money(body['price'])} for {_money(abs(body['stake']))}"
            words += " if it happens" if body["stake"] > 0 else " if it does not"
        elif event.kind == "reported":
            words = f"reported: it {'happened' if body['outcome'] else 'did not happen'}"
        elif event.kind == "settled":
            words = f"settled: {_money(body['payouts'])} paid for {_money(body['premiums'])} of premiums"
        elif event.kind == "voided":
            words = f"called off: {_money(body['refunds'])} returned"
        else:
            words = f"compensated outside the certificate: {_money(body['amount'])}"
        timeline.append((event.at, words))
    return timeline


def _is_amount(text: str) -> bool:
    """Whether a text is a whole number of reasonable length."""
    return text.isascii() and text.isdigit() and len(text) <= 20


def _read_quote(form: dict[str, str]) -> dict[str, Any]:
    """Return what the form asks for: a payout, or lines such as "fly: 0, 9000"."""
    if form.get("payout", "").strip():
        text = form["payout"].replace(" ", "").replace(",", "").replace("\u202f", "")
        if not _is_amount(text):
            raise ValueError(f"the payout must be a whole number of units; got {form['payout'][:100]!r}")
        return {"payout": int(text)}
    losses = {}
    for line in form.get("actions", "").splitlines():
        if line.strip():
            name, _, numbers = line.partition(":")
            parts = numbers.replace(" ", "").split(",")
            if len(parts) != 2 or not all(_is_amount(part.removeprefix("-")) for part in parts):
                raise ValueError(f"a line must look like 'fly: 0, 9000'; got {line[:100]!r}")
            losses[name.strip()] = (int(parts[0]), int(parts[1]))
    if not losses:
        raise ValueError("say what you want to be paid, or what each of your choices would cost you")
    return {"losses": losses}


def page_routes(service: Service) -> Iterator[BaseRoute]:
    """Yield the routes of the pages."""
    return Pages(service).routes()
