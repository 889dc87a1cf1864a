"""Take the screenshots of the server for the documentation, from a running demo.

Flights and passengers are the same in every run; the time of day, keys and hashes are not.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from playwright.sync_api import Locator, Page, sync_playwright

ROOT = Path(__file__).parent.parent
BOOK = "/books/united-delays"
# The last flight that lands before the demo stops.
LAST = "no. 576"
CHOICES = "fly: 0, 9000\ntrain: 2500, 2500"


class Demo(NamedTuple):
    """The address of a demo, and its keys."""

    address: str
    passenger: str
    desk: str


@contextlib.contextmanager
def demonstration() -> Iterator[Demo]:
    """Run a demo so slow that nothing changes once its first flights have landed."""
    words = [sys.executable, "-m", "makewhole", "serve", "--demo", "--port", "0", "--pace", "0.01"]
    process = subprocess.Popen(
        words, stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONHASHSEED": "0"}
    )
    try:
        said = "".join(process.stdout.readline() for _ in range(3)) if process.stdout is not None else ""
        address = re.findall(r"http://\S+", said)
        passenger, desk = re.findall(r"with (mw_\S+)", said)
        yield Demo(address[0], passenger, desk)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(20)


def until(condition: Callable[[], Any]) -> None:
    """Wait for a condition, up to two minutes."""
    for _ in range(600):
        if condition():
            return
        time.sleep(0.2)
    raise TimeoutError("the demo did not reach the expected state within two minutes")


def sign_in(page: Page, key: str) -> None:
    """Sign in with a key."""
    page.goto("/sign-in")
    page.get_by_label("Your key").fill(key)
    page.get_by_role("button", name="Sign in").click()


def take(page: Page, first: Locator, last: Locator, path: Path) -> None:
    """Take a screenshot of the page from one of its parts to another, with a margin."""
    begin, end, main = first.bounding_box(), last.bounding_box(), page.locator("main").bounding_box()
    if begin is None or end is None or main is None:
        raise RuntimeError(f"{path.name}: the page does not show the part to be captured")
    top = max(0.0, begin["y"] - 16)
    clip: Any = {
        "x": main["x"],
        "y": top,
        "width": main["width"],
        "height": end["y"] + end["height"] + 16 - top,
    }
    page.screenshot(path=path, full_page=True, clip=clip)


def statement(page: Page, demo: Demo, path: Path) -> None:
    """The statement, down to the groups."""
    page.goto(BOOK)
    page.wait_for_selector("[data-chart=reliability] canvas")
    take(page, page.locator("h1"), page.get_by_role("region", name="By group"), path)


def quote_slip(page: Page, demo: Demo, path: Path) -> None:
    """The quote for a passenger who enters what each choice would cost her."""
    sign_in(page, demo.passenger)
    page.goto(f"{BOOK}/open?sort=name")
    page.get_by_role("region", name="Open events").get_by_role("link").first.click()
    page.get_by_label("One choice per line").fill(CHOICES)
    page.get_by_role("button", name="What does it cost?").click()
    page.get_by_role("status").wait_for()
    take(page, page.locator("h1"), page.locator(".slip"), path)


def desk(page: Page, demo: Demo, path: Path) -> None:
    """What another capital would have meant."""
    sign_in(page, demo.desk)
    page.goto(f"{BOOK}/desk")
    page.locator("[data-try-chart=worst] canvas").wait_for(timeout=120_000)
    page.get_by_role("region", name="Capitals tried").wait_for()
    take(page, page.get_by_role("heading", name="another capital"), page.locator("#try"), path)


PICTURES = {"statement": statement, "quote": quote_slip, "desk": desk}


def main() -> None:
    """Take all screenshots."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "figures", help="the folder for them")
    out: Path = parser.parse_args().out
    with demonstration() as demo, sync_playwright() as playwright:
        system = shutil.which("chromium") or shutil.which("chromium-browser")
        browser = playwright.chromium.launch(executable_path=system, args=["--no-sandbox"])
        for name, picture in PICTURES.items():
            context = browser.new_context(
                base_url=demo.address,
                viewport={"width": 1200, "height": 900},
                color_scheme="light",
                locale="en-GB",
                timezone_id="UTC",
            )
            page = context.new_page()
            until(lambda page=page: _has_landed(page))  # type: ignore[misc]  # a loop's value
            picture(page, demo, out / f"serve_{name}.png")
            context.close()
        browser.close()


def _has_landed(page: Page) -> bool:
    page.goto(BOOK)
    settled = page.locator("#settlements")
    return settled.count() > 0 and LAST in settled.inner_text()


if __name__ == "__main__":
    main()
