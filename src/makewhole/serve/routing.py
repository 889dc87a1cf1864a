"""Routes to books of any name: a slash in a name is %2F in a path."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import unquote

from starlette.routing import Match, Route
from starlette.types import Scope

# Stands for a slash in a name while a path is matched. No path decodes to it: a surrogate is not UTF-8.
_SLASH = "\udc2f"
_ESCAPED = re.compile(r"%2f", re.IGNORECASE)


class BookRoute(Route):
    """A route whose parameters may have slashes in them."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Match the path as it was sent: the server also gives it decoded, but there %2F is a slash."""
        raw: bytes = scope.get("raw_path") or b""
        if scope["type"] != "http" or b"%2" not in raw:
            return super().matches(scope)
        sent = raw.decode("ascii", errors="replace")
        path = _SLASH.join(unquote(part) for part in _ESCAPED.split(sent))
        match, child = super().matches({**scope, "path": path})
        parameters: dict[str, Any] = child.get("path_params", {})
        for name, value in parameters.items():
            if isinstance(value, str):
                parameters[name] = value.replace(_SLASH, "/")
        return match, child


def api_path(scope: Scope) -> tuple[str, dict[str, str]]:
    """Return a path's template, such as /api/books/{book}/quotes, and the values of its parameters.

    The API need not have such a route. A path of another form is returned unchanged.
    """
    path: str = scope["path"]
    if not path.startswith("/api/"):
        return path, {}
    raw: bytes = scope.get("raw_path") or b""
    sent = raw.decode("ascii", errors="replace") if b"%2" in raw else ""
    parts = [unquote(part) for part in sent.split("/")] if sent else path.split("/")
    if len(parts) == 5 and parts[2] == "books" and parts[3]:
        return f"/api/books/{{book}}/{parts[4]}", {"book": parts[3]}
    if len(parts) == 6 and parts[2] == "books" and parts[3] and parts[4] == "receipts" and parts[5]:
        return "/api/books/{book}/receipts/{seq}", {"book": parts[3], "seq": parts[5]}
    return path, {}
