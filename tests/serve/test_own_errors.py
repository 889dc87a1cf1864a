"""An error of ours: it is answered as a problem that says nothing, and raised for the log."""

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest

from makewhole.ledger import Ledger
from makewhole.serve import Service, make_app
from serve.test_api import problem


def ask(service: Service, path: str, *, raises: bool) -> httpx.Response:
    """What the application answers, without a web server."""
    transport = httpx.ASGITransport(make_app(service), raise_app_exceptions=raises)

    async def get() -> httpx.Response:
        async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
            return await client.get(path)

    return asyncio.run(get())


@pytest.mark.parametrize("path", ["/api/books/b/statement", "/api/books/a%2Fb/statement"])
def test_an_error_of_ours_is_a_problem_and_is_logged(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Ledger.open(tmp_path / "books.db") as ledger:
        service = Service(ledger)

        async def fail(*_: Any) -> None:
            raise RuntimeError("a secret")

        monkeypatch.setattr(service.desk, "read", fail)
        answer = ask(service, path, raises=False)
        problem(answer, 500)
        assert "secret" not in answer.text
        assert "default-src 'self'" in answer.headers["content-security-policy"]
        with pytest.raises(RuntimeError, match="a secret"):
            ask(service, path, raises=True)
        (where,) = service.metrics.answers
        assert where == (path.replace("a%2Fb", "b").replace("/b/", "/{book}/"), 500)
        assert service.metrics.answers[where] == 2


def test_below_another_application_the_api_answers_too(tmp_path: Path) -> None:
    """Its paths then begin with that of the other, and find their routes in Starlette."""
    from starlette.applications import Starlette
    from starlette.routing import Mount

    with Ledger.open(tmp_path / "books.db") as ledger:
        ledger.create("b", capital=1_000, max_stake=10, unit="cent")
        service = Service(ledger)
        whole = Starlette(routes=[Mount("/below", app=make_app(service))])

        async def get() -> list[int]:
            transport = httpx.ASGITransport(whole)
            async with (
                service.running(),
                httpx.AsyncClient(transport=transport, base_url="http://x") as client,
            ):
                paths = (
                    "/below/api/books/b/statement",
                    "/below/api/books/none/statement",
                    "/below/api/books/b/no",
                )
                return [(await client.get(path)).status_code for path in paths]

        assert asyncio.run(get()) == [200, 404, 404]
