"""The web server's protocol, with limits on headers: their size, and how long they may take to come."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from makewhole.serve.metrics import Metrics
from makewhole.serve.problems import Stop

# The most bytes of a request line and its headers. More are answered with 431, and not kept.
MOST_HEADERS = 32_768
# Headers must be there this many seconds after the connection, or after their first byte.
HEADER_SECONDS = 10.0
# Headers are parsed in pieces of at most this many bytes, to notice in time that they are too large.
_PIECE = 4_096


class Guarded(HttpToolsProtocol):
    """uvicorn's protocol over httptools, which itself takes headers of any size, for as long as they come.

    uvicorn's other parser, h11, bounds their size but not their time, and takes three times as long for each
    request. uvicorn accepts any protocol class, so two limits need no other server.
    """

    metrics: Metrics  # set by `guarded`

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._size = self._most = 0  # of the headers that are coming: counted so far, and at most
        self._coming, self._trailers = True, False
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        """Begin to wait for headers."""
        super().connection_made(transport)
        self._timer = self.loop.call_later(HEADER_SECONDS, self._too_slow)

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse what has come. Headers go to the parser in small pieces, a body as it is."""
        begin, self._most = 0, self._size + len(data)
        while self._coming and len(data) - begin > _PIECE and not self.transport.is_closing():
            super().data_received(data[begin : begin + _PIECE])
            begin += _PIECE
            self._check(_PIECE)
        if not self.transport.is_closing():
            super().data_received(data[begin:] if begin else data)
            self._check(len(data) - begin)

    def _check(self, more: int) -> None:
        """Count bytes that have come while headers are incomplete, and make sure that they come in time."""
        if not self._coming or self.transport.is_closing():
            return
        self._size += more
        if self._size > MOST_HEADERS + _PIECE:  # some of the bytes may belong to the request before
            self._too_large()
        elif self._timer is None:
            self._timer = self.loop.call_later(HEADER_SECONDS, self._too_slow)

    # --- called by the parser -----------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """Begin to count."""
        self._coming, self._trailers, self._size = True, False, 0
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header; those after a body are not kept."""
        if not self._trailers:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Pass the request on, unless it is too large."""
        self._coming, self._trailers = False, True
        self._stop_timer()
        if self._most > MOST_HEADERS and self._kept() > MOST_HEADERS:
            self._too_large()
        else:
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Keep a part of a body, unless its headers were refused."""
        if not self.transport.is_closing():
            super().on_body(body)

    def on_message_complete(self) -> None:
        """End a request, unless its headers were refused."""
        if not self.transport.is_closing():
            super().on_message_complete()

    def _kept(self) -> int:
        return len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)

    # --- the answers --------------------------------------------------------------------------------------

    def _too_large(self) -> None:
        self._refuse(Stop(431, f"headers must have at most {MOST_HEADERS:,} bytes", limit=MOST_HEADERS))

    def _too_slow(self) -> None:
        self._timer = None
        self._refuse(Stop(408, f"headers must come within {HEADER_SECONDS:g} seconds"))

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _refuse(self, why: Stop) -> None:
        """Answer, unless an earlier request still waits for its answer; then close."""
        if self.transport.is_closing():
            return
        status = why.problem.status
        self._stop_timer()
        self.metrics.note("other", status, HEADER_SECONDS if status == 408 else 0.0)
        if self.cycle is None or self.cycle.response_complete:
            body = msgspec.json.encode(why.problem)
            head = b"content-type: application/problem+json\r\nconnection: close\r\n"
            self.transport.write(
                STATUS_LINE[status] + head + b"content-length: %d\r\n\r\n" % len(body) + body
            )
        self.transport.close()


def guarded(metrics: Metrics) -> type[Guarded]:
    """Return the protocol class that counts its refusals in these metrics."""
    return type("Guarded", (Guarded,), {"metrics": metrics})
