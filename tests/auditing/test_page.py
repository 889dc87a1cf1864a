"""Reports in HTML: a page in a file, and a fragment in a notebook."""

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import makewhole as mw
from makewhole import pages
from samples import classes_of, table_of

VOID = {"meta", "img", "br"}


class Nesting(HTMLParser):
    """Checks that every tag is closed, in order, and collects the text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text: list[str] = []
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def test_a_report_writes_itself_to_a_page(tmp_path: Path) -> None:
    report = mw.audit(table_of(3000, 0, lambda t: -0.2 * (t["g"] == "c")), groups="g")
    path = tmp_path / "report.html"
    report.to_html(path)
    html = path.read_text(encoding="utf-8")
    text = " ".join(Nesting(html).text)
    assert "REFUTED: whoever bets that it does not happen on g=c" in text
    assert "By forecast" in text
    assert "By g" in text
    assert "p-value: at most the chance" in text
    assert "<img" not in html
    report.to_html(str(path), title="a & b", pictures=[pages.Picture("one", "a < b", b"png")])
    html = path.read_text(encoding="utf-8")
    assert "<title>a &amp; b</title>" in html
    assert html.count("data:image/png;base64,") == 1
    assert "a &lt; b" in html


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("report.pdf", "path must end in .html; got"),
        ("no/report.html", "path must lie in a folder that exists"),
    ],
)
def test_a_page_that_cannot_be_written_is_refused(name: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        mw.audit(table_of(50, 0)).to_html(tmp_path / name)
    with pytest.raises(ValueError, match=message):
        pages.write(tmp_path / name, "<p>")


def test_a_notebook_shows_the_verdict_the_scores_and_the_worst_groups() -> None:
    names = [f"<b>{k}</b>" for k in range(12)]
    table = pd.DataFrame({"mu": 0.5, "y": [0, 1, 1] * 400, "g": [names[k // 100] for k in range(1200)]})
    html = mw.audit(table, groups="g")._repr_html_()
    text = " ".join(Nesting(html).text)
    assert text.split("\n")[1].strip() == "Audit of 1,200 forecasts; c = 0"
    assert "REFUTED: whoever bets that it happens" in text
    assert "mean gap (ECE) 0.1667" in text
    assert "By g, the worst 10 of 12" in text
    assert html.count("&lt;b&gt;") == 10
    assert not re.search(
        r"<(script|style|link|html|body)|class=|src=", html
    )  # it must not restyle the notebook
    classes = mw.audit(classes_of(500, 0), mu=["p0", "p1", "p2"], groups="g")._repr_html_()
    assert re.search(r"[ab], class \d", classes)


def test_a_fragment_escapes_everything() -> None:
    table = pages.Table("<4>", ["<5>", "<6>"], [["<7>", "<8>"]])
    html = pages.fragment("<0>", [("<1>", "<2>")], notes=["<3>"], tables=[table])
    assert re.findall(r"&lt;(\d)&gt;", html) == ["0", "1", "2", "4", "5", "6", "7", "8", "3"]
    assert not re.search(r"<\d", html)
    assert "<table" not in pages.fragment("empty", [])
    Nesting(html)


@pytest.mark.parametrize("shift", [0.0, -0.4])
def test_every_verdict_says_what_it_assumes(shift: float, tmp_path: Path) -> None:
    """Where the p-value is read: in the printed report, the page and the notebook, before any table."""
    report = mw.audit(table_of(1000, 0, shift), groups="g")
    assert report.sound == (shift == 0.0)
    report.to_html(tmp_path / "report.html")
    for shown in (str(report), (tmp_path / "report.html").read_text(), report._repr_html_()):
        assert re.search(
            r"All bets together: p-value [\s\S]*Assumed: independent rows, and a model that has not learned "
            r"from these outcomes \(an online learner has\)\.[\s\S]*largest gap",
            shown,
        )
