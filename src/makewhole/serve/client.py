"""A thin client: every write has its own key, so that a retry after a failure does it only once."""

from __future__ import annotations

import http.client
import json
import secrets
import time
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

_TRIES = 5


class Refused(Exception):  # noqa: N818 - a refusal is expected, not an error
    """The server has refused: `status`, the rule (`type`), the message, and the `limit` if there is one."""

    def __init__(self, problem: Mapping[str, Any]) -> None:
        super().__init__(problem.get("detail") or problem.get("title", "refused"))
        self.status: int = int(problem.get("status", 0))
        self.type: str = str(problem.get("type", ""))
        self.limit: Any = problem.get("limit")


class Client:
    """A client of `makewhole serve`; use it in one thread at a time.

    Parameters
    ----------
    address
        Such as "http://127.0.0.1:8000".
    book
        The book.
    key
        Your key, as shown by `makewhole serve keys add`; None to see what everyone may see.
    """

    def __init__(self, address: str, book: str, key: str | None = None, *, timeout: float = 10.0) -> None:
        parts = urlsplit(address)
        if parts.scheme not in ("http", "https") or parts.hostname is None:
            raise ValueError(f"address must look like http://127.0.0.1:8000; got {address!r}")
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._connection = kind(parts.hostname, parts.port, timeout=timeout)
        self._book = f"/api/books/{quote(book, safe='')}"
        self._headers = {} if key is None else {"authorization": f"Bearer {key}"}

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    # --- the verbs ----------------------------------------------------------------------------------------

    def forecast(
        self,
        id: str,  # noqa: A002 - what callers call it
        *,
        mu: float,
        closes: str | None = None,
        c_hat: float | None = None,
        groups: list[str] | None = None,
        key: str | None = None,
    ) -> dict[str, Any]:
        """Publish a forecast (publisher); returns the receipt."""
        body = {"id": id, "mu": mu, "closes": closes, "c_hat": c_hat, "groups": groups}
        return self._write("forecasts", body, key)

    def quote(self, id: str, **given: Any) -> dict[str, Any]:  # noqa: A002 - what callers call it
        """Return the price of a bet for you; give `stake`, `payout` or `losses`."""
        answer: dict[str, Any] = self._ask("POST", f"{self._book}/quotes", {"id": id, **given}, None)
        return answer

    def stake(
        self,
        id: str,  # noqa: A002 - what callers call it
        stake: int,
        *,
        price: int | None = None,
        key: str | None = None,
    ) -> dict[str, Any]:
        """Place a bet (customer); returns the receipt: keep it."""
        return self._write("stakes", {"id": id, "stake": stake, "price": price}, key)

    def report(self, id: str, outcome: int, *, key: str | None = None) -> dict[str, Any]:  # noqa: A002 - what callers call it
        """Report an outcome (oracle)."""
        return self._write("outcomes", {"id": id, "outcome": outcome}, key)

    def void(self, id: str, reason: str, *, key: str | None = None) -> dict[str, Any]:  # noqa: A002 - what callers call it
        """Void an id (publisher)."""
        return self._write("voids", {"id": id, "reason": reason}, key)

    def statement(self) -> dict[str, Any]:
        """Return the statement of the book."""
        answer: dict[str, Any] = self._ask("GET", f"{self._book}/statement", None, None)
        return answer

    def open_forecasts(self) -> Iterator[dict[str, Any]]:
        """Read the open forecasts, the oldest first, page by page."""
        return self._pages("forecasts", "first", 0)

    def positions(self, limit: int = 100) -> list[dict[str, Any]]:
        """Return your bets (customer), the latest first."""
        answer: list[dict[str, Any]] = self._ask("GET", f"{self._book}/positions?limit={limit}", None, None)
        return answer

    def events(self, since: int = 0) -> Iterator[dict[str, Any]]:
        """Read the log (auditor), page by page."""
        return self._pages("events", "seq", since)

    # --- asking -------------------------------------------------------------------------------------------

    def _pages(self, what: str, number: str, since: int) -> Iterator[dict[str, Any]]:
        """Read pages of what has a number, each after the last number of the one before."""
        while True:
            query = urlencode({"since": since, "limit": 1_000})
            page = self._ask("GET", f"{self._book}/{what}?{query}", None, None)
            yield from page
            if len(page) < 1_000:
                return
            since = page[-1][number]

    def _write(self, what: str, body: dict[str, Any], key: str | None) -> dict[str, Any]:
        given = {name: value for name, value in body.items() if value is not None}
        key = secrets.token_urlsafe(16) if key is None else key
        answer: dict[str, Any] = self._ask("POST", f"{self._book}/{what}", given, key)
        return answer

    def _ask(self, method: str, path: str, body: Any, key: str | None) -> Any:
        """Send a request; retry if no answer came or the server was busy: the key makes it happen once."""
        headers = dict(self._headers) | {"content-type": "application/json"}
        if key is not None:
            headers["idempotency-key"] = key
        data = None if body is None else json.dumps(body).encode()
        safe = method == "GET" or key is not None or path.endswith("/quotes")
        for turn in range(_TRIES):
            last = turn == _TRIES - 1 or not safe
            try:
                self._connection.request(method, path, data, headers)
                response = self._connection.getresponse()
                status, text = response.status, response.read()
            except (OSError, http.client.HTTPException):
                self._connection.close()
                if last:
                    raise
            else:
                if status == 200:
                    return json.loads(text)
                if last or status not in (429, 503):
                    raise Refused(_problem(status, text))
            time.sleep(0.1 * 2**turn)
        raise OSError("the server did not answer")


def _problem(status: int, text: bytes) -> dict[str, Any]:
    try:
        read = json.loads(text)
    except ValueError:
        read = None
    return read if isinstance(read, dict) else {"status": status, "title": f"status {status}"}
