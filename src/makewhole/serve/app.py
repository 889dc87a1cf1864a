"""The application: routes, keys, limits, live updates, metrics."""

from __future__ import annotations

import asyncio
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
from makewhole.serve.api import ENDPOINTS, Endpoint
from makewhole.serve.openapi import document
from makewhole.serve.pages import page_routes
from makewhole.serve.problems import Problem, Stop, answer, problem_of
from makewhole.serve.routing import BookRoute, api_path
from makewhole.serve.service import Service

_MOST_LISTENERS = 1_000
# Pages load nothing from other sites, and have no inline code.
_HEADERS = [
    (
        b"content-security-policy",
        b"default-src 'self'; base-uri 'none'; frame-ancestors 'none'; form-action 'self'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"same-origin"),  # without a referrer, forms would send "Origin: null"
]


# --- what is not about a book -----------------------------------------------------------------------------


def _live(service: Service) -> Callable[[Request], Any]:
    async def live(request: Request) -> Response:
        """Stream which books have changed, twice a second; `Last-Event-ID` is the number of events."""
        if service.listeners >= _MOST_LISTENERS:
            raise Stop(503, f"there are {_MOST_LISTENERS} listeners")

        async def lines() -> AsyncIterator[str]:
            service.listeners += 1
            try:
                seen: dict[str, int] = {}
                yield "retry: 2000\n\n"
                while not service.stopping.is_set():
                    beat = service.beat
                    for name, (head, text) in list(service.news.items()):
                        if seen.get(name) != head:
                            seen[name] = head
                            yield text
                    await beat.wait()
            finally:
                service.listeners -= 1

        return StreamingResponse(
            lines(), media_type="text/event-stream", headers={"cache-control": "no-store"}
        )

    return live


def _metrics(service: Service) -> Callable[[Request], Any]:
    async def metrics(request: Request) -> Response:
        """Return the metrics that a Prometheus server reads; no customer is named."""
        lines = ["# TYPE makewhole_answers_total counter"]
        for (path, status), count in sorted(service.answers.items()):
            lines.append(f'makewhole_answers_total{{path="{path}",status="{status}"}} {count}')
        lines += ["# TYPE makewhole_failures_total counter", f"makewhole_failures_total {service.failures}"]
        lines += ["# TYPE makewhole_listeners gauge", f"makewhole_listeners {service.listeners}"]
        lines += ["# TYPE makewhole_groups_total counter", f"makewhole_groups_total {service.desk.groups}"]
        read = service.desk.read
        # A list: a book may be added while another is read.
        books = [(name, await read(name, lambda book: book.statement())) for name in list(service.heads)]
        for field in ("capital", "lost", "left", "at_risk", "cash", "open", "events", "compensated"):
            lines.append(f"# TYPE makewhole_book_{field} gauge")
            lines += [
                f"makewhole_book_{field}{{book={_quoted(name)}}} {getattr(s, field)}" for name, s in books
            ]
        return PlainTextResponse("\n".join(lines) + "\n", media_type="text/plain; version=0.0.4")

    return metrics


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _ready(service: Service) -> Callable[[Request], Any]:
    async def ready(request: Request) -> Response:
        """Whether the ledger answers."""
        names = await asyncio.to_thread(service.ledger.books)
        return Response(msgspec.json.encode({"ready": True, "books": names}), media_type="application/json")

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
        path, parameters = api_path(scope)
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        respond = self._routes.get((method, path))
        if respond is not None:
            scope["path_params"] = parameters
            await self._answer(path, respond, Request(scope, receive), send)
            return

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                route = scope.get("route")
                where = getattr(route, "path", "other")
                message["headers"] = [*message.get("headers", ()), *self._note(where, message["status"])]
            await send(message)

        await self._app(scope, receive, sending)

    async def _answer(
        self, path: str, respond: Callable[[Request], Any], request: Request, send: Send
    ) -> None:
        failed: Exception | None = None
        try:
            response: Response = await respond(request)
        except Exception as error:  # noqa: BLE001 - each becomes a problem; a bug of ours is raised again, for the log
            response, failed = await _problem(request, error), error
        response.raw_headers += self._note(path, response.status_code)
        await response(request.scope, request.receive, send)
        if failed is not None and response.status_code == 500:
            raise failed

    def _note(self, path: str, status: int) -> list[tuple[bytes, bytes]]:
        """Count an answer; returns the headers that every answer has."""
        where = (path, status)
        self._service.answers[where] = self._service.answers.get(where, 0) + 1
        # The rest of a body that was too slow may never come: close its connection.
        return [*_HEADERS, (b"connection", b"close")] if status == 408 else _HEADERS


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
    return _Wrapped(app, service)
