"""Errors as problem+json (RFC 9457): which rule was broken, what the limit is, and no internals."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.responses import Response

from makewhole.insured.refusals import PriceRefused, Refusal, StakeRefused
from makewhole.ledger import refusals

# The status of each kind of error; the first match counts.
_STATUS: tuple[tuple[type[Exception], int], ...] = (
    (refusals.UnknownSubject, 404),
    (refusals.UnknownBook, 404),
    (LookupError, 404),
    (refusals.LedgerUnavailable, 503),
    (refusals.LogDamaged, 503),  # an operator must repair it
    (PriceRefused, 409),
    (StakeRefused, 409),
    (Refusal, 409),
    (msgspec.ValidationError, 422),
    (msgspec.DecodeError, 400),
    (UnicodeDecodeError, 400),
    (RecursionError, 422),  # JSON that is nested too deeply
    (ValueError, 422),
    (TypeError, 422),
)

_TITLES = {
    400: "not valid JSON",
    401: "a key is needed",
    403: "this key is not for that",
    404: "not found",
    405: "not this method",
    408: "too slow",
    409: "refused",
    413: "too large",
    422: "not valid",
    429: "too many requests",
    431: "headers too large",
    500: "an error of ours",
    503: "not available now",
}


class Problem(msgspec.Struct, omit_defaults=True):
    """An error: `type` is the rule, `detail` explains it, `limit` is what would be accepted."""

    title: str
    status: int
    type: str = "about:blank"
    detail: str = ""
    limit: float | list[float] | None = None


class Stop(Exception):  # noqa: N818 - ending a request this way is normal
    """Raised to answer a request with a problem."""

    def __init__(
        self,
        status: int,
        detail: str = "",
        kind: str = "about:blank",
        limit: Any = None,
        wait: int = 1,
    ) -> None:
        super().__init__(detail)
        self.problem = Problem(_TITLES[status], status, kind, detail, limit)
        self.wait = wait  # seconds until the next try, after a 429


def answer(problem: Problem, wait: int = 1) -> Response:
    """Return the problem as a response."""
    headers = {"www-authenticate": "Bearer"} if problem.status == 401 else {}
    if problem.status in (429, 503):
        headers["retry-after"] = str(wait)
    body = msgspec.json.encode(problem)
    return Response(body, problem.status, headers, media_type="application/problem+json")


def problem_of(error: Exception) -> Problem:
    """Return the problem for an error; an unexpected error reveals no details."""
    if isinstance(error, Stop):
        return error.problem
    for kind, status in _STATUS:
        if isinstance(error, kind):
            limit = getattr(error, "limit", None)
            if isinstance(limit, tuple):
                limit = list(limit)
            name = f"urn:makewhole:{type(error).__name__}"
            return Problem(_TITLES[status], status, name, str(error), limit)
    return Problem(_TITLES[500], 500)
