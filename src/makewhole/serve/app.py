"""The application: routes, keys, limits, live updates, metrics."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

import makewhole as mw
from makewhole.insured.refusals import Refusal
from makewhole.ledger import LogDamaged
from makewhole.serve.api import ENDPOINTS, Endpoint
from makewhole.serve.metrics import numbers, of_books
from makewhole.serve.openapi import document
from makewhole.serve.pages import page_routes
from makewhole.serve.problems import Problem, Stop, answer, problem_of
from makewhole.serve.routing import BookRoute, api_path
from makewhole.serve.service import Service

# Pages load nothing from other sites, and have no inline code.
_HEADERS = [
    (
        b"content-security-policy",
        b"default-src 'self'; base-uri 'none'; frame-ancestors 'none'; form-action 'self'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"same-origin"),  # without a referrer, forms would send "Origin: null"
]
# A refusal takes this long: a caller who immediately asks again would keep the server busy with refusals.
_REFUSAL_SECONDS = 0.1
# Not limited: whoever runs the server must always be told how it is.
_FREE = ("/health", "/ready")


# --- what is not about a book -----------------------------------------------------------------------------


class _Stream(StreamingResponse):
    """A stream that counts as a listener from its headers to its end, however it ends."""

    def __init__(self, service: Service, who: str) -> None:
        super().__init__(
            _changes(service), media_type="text/event-stream", headers={"cache-control": "no-store"}
        )
        self._listening = service.listener(who)
        self._listening.__enter__()  # here: a problem must be raised before the headers are sent

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with contextlib.ExitStack() as stack:
            stack.push(self._listening)
            await super().__call__(scope, receive, send)


async def _changes(service: Service) -> AsyncIterator[str]:
    seen: dict[str, int] = {}
    yield "retry: 2000\n\n"
    while not service.stopping.is_set():
        beat = service.beat
        for name, (head, text) in list(service.news.items()):
            if seen.get(name) != head:
                seen[name] = head
                yield text
        await beat.wait()


def _live(service: Service) -> Callable[[Request], Any]:
    async def live(request: Request) -> Response:
        """Stream which books have changed, twice a second; `Last-Event-ID` is the number of events."""
        return _Stream(service, service.who(request))

    return live


def _metrics(service: Service) -> Callable[[Request], Any]:
    async def metrics(request: Request) -> Response:
        """Return the metrics that a Prometheus server reads, also while the database hangs."""
        desk, known = service.desk, list(service.statements.items())
        counts = {"failures_total": service.failures, "groups_total": desk.groups}
        gauges = {
            "listeners": service.listeners,
            "queue": len(desk),
            "unavailable": int(service.unavailable or desk.hangs),
        }
        lines = [
            *service.metrics.lines(),
            *numbers("counter", counts),
            *numbers("gauge", gauges),
            *of_books(known, service.ledger.forked),
        ]
        return PlainTextResponse("\n".join(lines) + "\n", media_type="text/plain; version=0.0.4")

    return metrics


def _ready(service: Service) -> Callable[[Request], Any]:
    async def ready(request: Request) -> Response:
        """Whether every book can be used; if not, a 503 that says why."""
        wrong = await service.what_is_wrong()
        if wrong:
            raise Stop(503, wrong)
        ready = {"ready": True, "books": list(service.statements)}
        return Response(msgspec.json.encode(ready), media_type="application/json")

    return ready


async def _health(request: Request) -> Response:
    """Whether the process answers."""
    return Response(b'{"healthy":true}', media_type="application/json")


# --- the application --------------------------------------------------------------------------------------


class _Wrapped:
    """Adds the headers that every answer has, and counts answers.

    The API's requests are answered here: through Starlette's middleware and routes they would take half as
    long again. They go there only if the API has no such route or method.
    """

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app, self._service = app, service
        self._routes = {(route.method, route.path): service.endpoint(route) for route in ENDPOINTS}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        path, parameters = api_path(scope)
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        respond = self._routes.get((method, path))
        if respond is not None:
            scope["path_params"] = parameters
            await self._answer(path, respond, Request(scope, receive), send, began)
            return
        request = Request(scope, receive)
        if path not in _FREE and (stop := self._service.too_many(request)) is not None:
            await self._answer("other", _raises(stop), request, send, began)
            return

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                route = scope.get("route")
                where = getattr(route, "path", "other")
                noted = self._note(where, message["status"], began)
                message["headers"] = [*message.get("headers", ()), *noted]
            await send(message)

        await self._app(scope, receive, sending)

    async def _answer(
        self, path: str, respond: Callable[[Request], Any], request: Request, send: Send, began: float
    ) -> None:
        failed: Exception | None = None
        try:
            response: Response = await respond(request)
        except Exception as error:  # noqa: BLE001 - each becomes a problem; a bug of ours is raised again, for the log
            response, failed = await _problem(request, error), error
        if response.status_code == 429:
            await asyncio.sleep(_REFUSAL_SECONDS)
        response.raw_headers += self._note(path, response.status_code, began)
        await response(request.scope, request.receive, send)
        if failed is not None and response.status_code == 500:
            raise failed

    def _note(self, path: str, status: int, began: float) -> list[tuple[bytes, bytes]]:
        """Count an answer, and how long it took to begin; returns the headers that every answer has."""
        self._service.metrics.note(path, status, time.perf_counter() - began)
        # The rest of a body that was too slow may never come: close its connection.
        return [*_HEADERS, (b"connection", b"close")] if status == 408 else _HEADERS


def _raises(error: Exception) -> Callable[[Request], Any]:
    async def respond(_: Request) -> Response:
        raise error

    return respond


async def _problem(request: Request, error: Exception) -> Response:
    if isinstance(error, HTTPException):
        title = "not found" if error.status_code == 404 else "not this method"
        detail = f"there is no {request.method} {request.url.path}"
        response = answer(Problem(title, error.status_code, detail=detail))
        response.headers.update(error.headers or {})  # a 405 lists the methods that exist
        return response
    return answer(problem_of(error), error.wait if isinstance(error, Stop) else 1)


def _by_method(service: Service, endpoints: list[Endpoint]) -> Callable[[Request], Any]:
    """Return one handler for all methods of a path, so that a 405 names them all."""
    respond = {endpoint.method: service.endpoint(endpoint) for endpoint in endpoints}

    async def choose(request: Request) -> Response:
        method = "GET" if request.method == "HEAD" else request.method
        answered: Response = await respond[method](request)
        return answered

    return choose


def routes_of(service: Service) -> Iterator[BaseRoute]:
    """Yield the routes of the API."""
    by_path: dict[str, list[Endpoint]] = {}
    for endpoint in ENDPOINTS:
        by_path.setdefault(endpoint.path, []).append(endpoint)
    for path, endpoints in by_path.items():
        methods = [endpoint.method for endpoint in endpoints]
        yield BookRoute(path, _by_method(service, endpoints), methods=methods)
    text = msgspec.json.encode(document(mw.__version__))

    async def openapi(request: Request) -> Response:
        return Response(text, media_type="application/json")

    yield Route("/openapi.json", openapi)
    yield Route("/health", _health)
    yield Route("/ready", _ready(service))
    yield Route("/metrics", _metrics(service))
    yield Route("/live", _live(service))


def make_app(service: Service) -> ASGIApp:
    """Return the application for a web server."""
    kinds = (
        HTTPException,
        Stop,
        Refusal,
        LogDamaged,
        ValueError,
        TypeError,
        LookupError,
        RecursionError,
        msgspec.MsgspecError,
        Exception,
    )
    handlers: Any = dict.fromkeys(kinds, _problem)
    routes = [*routes_of(service), *page_routes(service)]
    app = Starlette(routes=routes, lifespan=service.running, exception_handlers=handlers)
    app.router.redirect_slashes = False  # such a redirect would go to whatever host the request names
    return _Wrapped(app, service)
