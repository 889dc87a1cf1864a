"""The pages in a real browser: what a passenger does; every screen, light and dark, and the keyboard."""

import json
import re
import shutil
import signal
from collections.abc import Callable, Iterator
from importlib import resources, util
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

import makewhole as mw
from ledger.server import Server
from makewhole.ledger import Ledger
from makewhole.serve.capitals import TIMES
from serve.served import BOOK, Served, api, run, served, wait_for
from serve.test_api import Clients, Publish, ended, stake

pytestmark = pytest.mark.slow

SIZES = [375, 1440]
AXE = "axe_playwright_python"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A Chromium."""
    with sync_playwright() as playwright:
        own = Path(playwright.chromium.executable_path)
        system = shutil.which("chromium") or shutil.which("chromium-browser")
        if system is None and not own.exists():
            pytest.skip(
                "no Chromium: install one with `apt install chromium` or `playwright install chromium`"
            )
        made = playwright.chromium.launch(executable_path=system or own, args=["--no-sandbox"])
        yield made
        made.close()


class Watched:
    """A window of a browser; it keeps what must not be: errors, and requests to elsewhere."""

    def __init__(self, browser: Browser, server: Served, **given: Any) -> None:
        self.context: BrowserContext = browser.new_context(base_url=server.url, **given)
        self.page: Page = self.context.new_page()
        self.faults: list[str] = []
        self.page.on("console", lambda told: self._note(told.type, told.text))
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))
        self.page.on("request", lambda asked: self._asked(asked.url, server.url))

    def _note(self, kind: str, text: str) -> None:
        if kind in ("error", "warning"):
            self.faults.append(text)

    def _asked(self, url: str, ours: str) -> None:
        if not url.startswith(ours + "/"):
            self.faults.append(f"asked {url}")

    def sign_in(self, text: str) -> None:
        """Sign in with a key."""
        self.page.goto("/sign-in")
        self.page.get_by_label("Your key").fill(text)
        self.page.get_by_role("button", name="Sign in").click()


@pytest.fixture
def window(browser: Browser, server: Served) -> Iterator[Callable[..., Watched]]:
    """Open windows; at the end, none may have seen anything that must not be."""
    opened: list[Watched] = []

    def make(**given: Any) -> Watched:
        opened.append(Watched(browser, server, **given))
        return opened[-1]

    yield make
    for one in opened:
        one.context.close()
    assert [fault for one in opened for fault in one.faults] == []


def test_a_passenger_insures_is_paid_and_checks_her_receipt(
    server: Served, clients: Clients, publish: Publish, window: Callable[..., Watched]
) -> None:
    id_ = publish("UA 1 <tomorrow>", mu=0.2, closes="2100-01-01T12:00Z")
    ann = window()
    page = ann.page
    ann.sign_in(server.texts["ann"])
    page.goto(f"/books/{BOOK}")
    page.get_by_role("link", name="Open", exact=True).click()
    page.get_by_label("Begins with").fill("UA 1")
    page.get_by_role("button", name="Show").click()
    page.get_by_role("link", name=id_).click()
    page.get_by_label("One choice per line").fill("fly: 0, 9000\ntrain: 2500, 2500")
    page.get_by_role("button", name="What does it cost?").click()
    quote = page.get_by_role("status")
    expect(quote).to_contain_text("Choose fly")
    expect(quote).to_contain_text("1\u202f980")
    page.get_by_role("button", name="Buy for").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("It is yours")
    receipt = page.get_by_label("Your receipt").input_value()
    assert json.loads(json.loads(receipt)["body"])["stake"] == 9_000

    assert clients["oracle"].post(api("outcomes"), json={"id": id_, "outcome": 1}).status_code == 200
    ended(clients, id_)
    page.get_by_role("link", name="Mine").click()
    row = page.get_by_role("row").filter(has_text=id_)
    expect(row).to_contain_text("it happened")
    expect(row).to_contain_text("9\u202f000")

    page.get_by_role("link", name="Check a receipt").click()
    page.get_by_label("Your receipt").fill(receipt)
    page.get_by_role("button", name="Check it").click()
    expect(page.get_by_role("alert")).to_contain_text("It is genuine")
    page.get_by_label("Your receipt").fill(receipt.replace("9000", "9001"))
    page.get_by_role("button", name="Check it").click()
    expect(page.get_by_role("alert")).to_contain_text("was changed")

    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("link", name="Sign in")).to_be_visible()


def test_a_price_that_has_risen_is_refused_kindly(
    server: Served, publish: Publish, window: Callable[..., Watched]
) -> None:
    id_ = publish(mu=0.2)
    ann = window()
    ann.sign_in(server.texts["ann"])
    ann.page.goto(f"/books/{BOOK}/about?id={id_}")
    ann.page.get_by_label("Amount").fill("9 000")
    ann.page.get_by_role("button", name="What does it cost?").click()
    publish(id_, mu=0.6)
    ann.page.get_by_role("button", name="Buy for").click()
    expect(ann.page.get_by_role("alert")).to_contain_text("the price is 5580 now")
    # The browser itself notes that the answer was a refusal.
    ann.faults = [fault for fault in ann.faults if "409" not in fault]


def test_sent_twice_a_purchase_is_one(
    server: Served, clients: Clients, publish: Publish, window: Callable[..., Watched]
) -> None:
    id_ = publish()
    ann = window()
    ann.sign_in(server.texts["ann"])
    ann.page.goto(f"/books/{BOOK}/about?id={id_}")
    ann.page.get_by_label("Amount").fill("500")
    ann.page.get_by_role("button", name="What does it cost?").click()
    ann.page.get_by_role("button", name="Buy for").click()
    first = ann.page.get_by_label("Your receipt").input_value()
    ann.page.reload()
    assert json.loads(ann.page.get_by_label("Your receipt").input_value())["seq"] == json.loads(first)["seq"]
    assert [one["id"] for one in clients["customer"].get(api("positions")).json()].count(id_) == 1


def test_the_page_shows_what_changes(
    clients: Clients, publish: Publish, window: Callable[..., Watched]
) -> None:
    page = window().page
    page.goto(f"/books/{BOOK}")
    expect(page.locator("[data-chart=money] canvas")).to_be_visible()
    id_ = publish()
    clients["oracle"].post(api("outcomes"), json={"id": id_, "outcome": 1})
    expect(page.locator("#settlements")).to_contain_text(id_, timeout=20_000)


def test_the_desk_slides_over_capitals(
    server: Served, clients: Clients, publish: Publish, window: Callable[..., Watched]
) -> None:
    id_ = publish(mu=0.5)
    stake(clients["customer"], id_, 20_000)
    clients["oracle"].post(api("outcomes"), json={"id": id_, "outcome": 1})
    seq = ended(clients, id_)["seq"]
    desk = clients["publisher"]
    trial = wait_for(
        lambda: (told := desk.get(f"/books/{BOOK}/capitals.json").json())["seq"] >= seq and told, "the trial"
    )
    assert len(trial["points"]) == len(TIMES)
    assert trial["problem"] == ""
    own = trial["points"][TIMES.index(1.0)]
    assert own["capital"] == trial["capital"]
    assert own["taken"] == 1.0
    wide = window()
    wide.sign_in(server.texts["the desk"])
    page = wide.page
    page.goto(f"/books/{BOOK}/desk")
    slider = page.get_by_role("slider", name="Capital")
    expect(slider).to_have_attribute("aria-valuetext", re.compile("now"))
    expect(page.locator("[data-try-chart] canvas")).to_have_count(2)
    slider.press("Home")
    first = trial["points"][0]
    expect(page.locator(".slide output")).to_have_text(f"{first['capital']:,.0f}".replace(",", "\u202f"))
    expect(page.locator("[data-point=premium]")).to_have_text(f"{100 * first['premium']:.1f} %")
    expect(page.get_by_role("region", name="Capitals tried").get_by_role("row")).to_have_count(len(TIMES) + 1)
    plain = window(java_script_enabled=False)
    plain.sign_in(server.texts["the desk"])
    plain.page.goto(f"/books/{BOOK}/desk")
    expect(plain.page.get_by_role("region", name="Capitals tried").get_by_role("row")).to_have_count(
        len(TIMES) + 1
    )
    expect(plain.page.get_by_role("slider")).to_be_hidden()


def test_a_page_of_one_server_shows_what_another_has_stored(
    postgres: Server, browser: Browser, tmp_path: Path
) -> None:
    """Two servers on one PostgreSQL: a page that is open at the second, and its listeners, hear of it."""
    where, key = postgres.new_database(), tmp_path / "books.key"
    (tmp_path / "other").mkdir()
    with served(tmp_path, where, "--rate", "0", key=key) as one:
        other = Served(tmp_path / "other", where, "--rate", "0", key=key)
        try:
            watched = Watched(browser, other)
            watched.page.goto(f"/books/{BOOK}")
            expect(watched.page.locator("#settlements")).to_contain_text("Nothing is settled yet")
            with other.client() as client, client.stream("GET", "/live") as stream:
                heads = (json.loads(line[6:])["head"] for line in stream.iter_lines() if line[:5] == "data:")
                first = next(heads)
                with one.client("the desk") as desk, one.client("the airport") as airport:
                    assert desk.post(api("forecasts"), json={"id": "UA 1", "mu": 0.3}).status_code == 200
                    assert airport.post(api("outcomes"), json={"id": "UA 1", "outcome": 1}).status_code == 200
                assert next(heads) > first
            expect(watched.page.locator("#settlements")).to_contain_text("UA 1", timeout=20_000)
            expect(watched.page.locator("[data-chart=money] canvas")).to_be_visible()
            watched.context.close()
            assert watched.faults == []
            assert other.end() == 0
            assert other.says() == ""
        finally:
            other.end(signal.SIGKILL)


def test_every_promise_leads_to_its_proof_and_to_its_tests(window: Callable[..., Watched]) -> None:
    page = window().page
    page.goto(f"/books/{BOOK}")
    promises = page.get_by_role("region", name="What is promised").get_by_role("listitem")
    for number in range(promises.count()):
        words = promises.nth(number).locator("strong").inner_text()
        for link, shown in (("Proof", words), ("Tests", "tests/")):
            promises.nth(number).get_by_role("link", name=f"{link}: {words}").click()
            place = page.url.split("#")[1]
            expect(page.locator(f"[id='{place}']")).to_contain_text(shown)
            expect(page.locator(f"[id='{place}']")).to_be_in_viewport()
            page.go_back()
    assert promises.count() == 4


PAGES = {
    "statement": ("", None),
    "open": ("/open", None),
    "event": ("/about?id=shown", "ann"),
    "mine": ("/mine", "ann"),
    "desk": ("/desk", "the desk"),
    "check": ("/../../check", None),
    "sign in": ("/../../sign-in", None),
    "API": ("/../../docs", None),
    "proofs": ("/../../proofs", None),
    "not found": ("/about?id=none", None),
}


@pytest.fixture(scope="module")
def shown(clients: Clients, publish: Publish) -> None:
    """An event with a long life, so that pages have something on them."""
    publish("shown", closes="2100-01-01T12:00Z")
    long = publish("a very long name without any space: " + "x" * 200)
    for id_ in ("shown", long):
        stake(clients["customer"], id_, 12_345_678)


@pytest.mark.usefixtures("shown")
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", SIZES)
def test_every_page_fits_and_has_no_serious_fault(
    width: int, scheme: Any, server: Served, window: Callable[..., Watched]
) -> None:
    screen: Any = {"viewport": {"width": width, "height": 900}, "color_scheme": scheme}
    windows: dict[str | None, Watched] = {None: window(**screen)}
    for name in ("ann", "the desk"):
        windows[name] = window(**screen)
        windows[name].sign_in(server.texts[name])
    faults: dict[str, Any] = {}
    for what, (path, who) in PAGES.items():
        page = windows[who].page
        page.goto(f"/books/{BOOK}{path}")
        if what == "event":
            page.get_by_label("Amount").fill("500")
            page.get_by_role("button", name="What does it cost?").click()
        wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wide <= 0, f"{what} scrolls sideways by {wide} pixels"
        if util.find_spec(AXE) is not None:
            found = faults_by_axe(page)
            if found:
                faults[what] = found
    for one in windows.values():
        one.faults = [fault for fault in one.faults if "404" not in fault]
    assert faults == {}


def faults_by_axe(page: Page) -> list[str]:
    """What axe finds to be a serious or critical fault, and where."""
    page.evaluate((resources.files(AXE) / "axe.min.js").read_text(encoding="utf-8"))
    told = page.evaluate("axe.run({resultTypes: ['violations']})")
    return [
        f"{one['id']}: {node['html'][:120]}"
        for one in told["violations"]
        if one["impact"] in ("serious", "critical")
        for node in one["nodes"]
    ]


def test_axe_is_there() -> None:
    if util.find_spec(AXE) is None:
        pytest.skip("the pages were not tried with axe: pip install axe-playwright-python")


FOCUSED = """() => {
  const at = document.activeElement;
  if (at && at !== document.body && !at.dataset.tabbed) { at.dataset.tabbed = "1"; return true; }
  return false;
}"""
MISSED = """() => [...document.querySelectorAll("a[href], button, input, select, textarea")]
  .filter((one) => one.type !== "hidden").filter((one) => !one.dataset.tabbed).map((one) => one.outerHTML)"""


@pytest.mark.usefixtures("shown")
def test_every_control_is_reached_with_the_keyboard(server: Served, window: Callable[..., Watched]) -> None:
    ann = window()
    ann.sign_in(server.texts["ann"])
    for path in ("", "/open?search=shown", "/about?id=shown", "/mine", "/../../check", "/../../docs"):
        ann.page.goto(f"/books/{BOOK}{path}")
        for _ in range(300):
            ann.page.keyboard.press("Tab")
            if not ann.page.evaluate(FOCUSED):
                break
        assert ann.page.evaluate(MISSED) == [], path
        first = ann.page.locator(".skip")
        assert first.get_attribute("href") == "#main"


def test_without_scripts_everything_works(
    server: Served, publish: Publish, window: Callable[..., Watched]
) -> None:
    id_ = publish()
    ann = window(java_script_enabled=False)
    ann.sign_in(server.texts["ann"])
    ann.page.goto(f"/books/{BOOK}/about?id={id_}")
    ann.page.get_by_label("Amount").fill("500")
    ann.page.get_by_role("button", name="What does it cost?").click()
    ann.page.get_by_role("button", name="Buy for").click()
    expect(ann.page.get_by_role("heading", level=1)).to_have_text("It is yours")


def test_a_book_with_groups_shows_which_of_them_loses(browser: Browser, tmp_path: Path) -> None:
    """One group loses every bet, another is unlucky once, a third has won."""
    where = str(tmp_path / "books.db")
    with served(tmp_path, where) as made:
        with Ledger.open(where) as ledger:
            apart: Any = {"correction": mw.Grouped(mw.Barrier(5_000_000, spread=0.02))}
            apart["lines"] = mw.Lines(each=3_600_000, share=1.0)
            book = ledger.create("grouped", capital=90_000_000, max_stake=10_000, unit="cent", **apart)
            for group, count, stake in (("<losing>", 200, 9_000), ("unlucky", 1, 1_000), ("won", 20, -500)):
                for number in range(count):
                    id_ = f"{group} {number}"
                    book.forecast(id_, mu=0.5, groups=[group])
                    book.stake(id_, by=id_, stake=stake)
                    book.settle(id_, 1)
            told = book.inner_statement().groups
            lost = {name: one.total_loss for name, one in told.items()}
        one = Watched(browser, made)
        rows = one.page.get_by_role("region", name="By group").locator("tbody tr")

        def look() -> bool:
            one.page.goto("/books/grouped")
            return rows.count() == 3 and "%" in rows.first.inner_text()

        wait_for(look, "the groups")
        shown = [row.get_by_role("cell").all_inner_texts() for row in rows.all()]
        assert [row[0] for row in shown] == sorted(lost, key=lambda name: -lost[name])
        assert [row[-1].split(";")[0] for row in shown] == ["losing", "unlucky", "neither"]
        assert [row[1] for row in shown] == ["200", "1", "20"]
        assert shown[0][4] == f"{lost['<losing>']:,.0f}".replace(",", "\u202f")
        one.context.close()
        assert one.faults == []


def test_one_who_has_signed_in_is_told_when_her_key_was_revoked(
    server: Served, window: Callable[..., Watched]
) -> None:
    server.keys({"eve": "customer"})
    eve = window()
    eve.sign_in(server.texts["eve"])
    run("serve", "keys", "revoke", server.where, "--id", server.texts["eve"].split("_")[1])

    def look() -> bool:
        eve.page.goto(f"/books/{BOOK}/mine")
        return "sign in with your key first" in eve.page.content()

    wait_for(look, "the key to be revoked")
    eve.faults = [fault for fault in eve.faults if "401" not in fault]
