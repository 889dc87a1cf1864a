"""Books with any name: each is reached, by programs and by the links of its own pages."""

import contextlib
from pathlib import Path
from urllib.parse import quote

import pytest

from makewhole.serve.client import Client
from serve.served import BOOK, new_book, served, wait_for
from serve.test_hostile import EVIL, Reader

pytestmark = pytest.mark.slow

NAMED = ["a/b", "/", "a/open", "a%2Fb", "a%b", "a?b#c", "ünï–✈️ / مرحبا", "../x", "a//b/", "\u202eabc", EVIL]


def test_a_book_is_reached_whatever_it_is_called(tmp_path: Path) -> None:
    where = str(tmp_path / "books.db")
    with served(tmp_path, where, "--rate", "0") as made:
        for book in NAMED:
            new_book(where, book=book)
        with made.client("the desk") as desk, made.client("ann") as ann, made.client() as anybody:
            wait_for(lambda: all(name in desk.get("/metrics").text for name in ("a/b", "abc")), "the books")
            for book in NAMED:
                path = quote(book, safe="")
                told = desk.post(f"/api/books/{path}/forecasts", json={"id": "x", "mu": 0.2})
                assert told.status_code == 200, book
                assert told.json()["book"] == book
                assert anybody.get(f"/api/books/{path}/statement").json()["book"] == book
                with contextlib.closing(Client(made.url, book, key=made.texts["ann"])) as client:
                    assert client.stake("x", 5)["book"] == book
                for what in ("", "/open", "/about?id=x", "/charts.json", "/desk", "/mine"):
                    who = {"/desk": desk, "/mine": ann}.get(what, anybody)
                    assert who.get(f"/books/{path}{what}").status_code == 200, book + what
                # Every link of its pages leads to it, and not to another book.
                for page in (f"/books/{path}", f"/books/{path}/open"):
                    links = {one for one in Reader(anybody.get(page).text).links if one.startswith("/books")}
                    assert {one.split("/")[2].split("?")[0] for one in links} == {path}
            home = Reader(anybody.get("/").text)
            assert {f"/books/{quote(book, safe='')}" for book in [*NAMED, BOOK]} <= set(home.links)
            assert anybody.get("/books/a%2Fb/none").status_code == 404
            assert anybody.get("/books/a/b").status_code == 404
            assert anybody.get("/api/books/a%2fb/statement").json()["book"] == "a/b"
