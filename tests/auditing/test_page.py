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


def groups_of(sizes: dict[str, tuple[int, int]]) -> pd.DataFrame:
    """Forecasts of 0.5, by group: how many rows, and in how many it happened."""
    parts = [(name, int(k < ones)) for name, (rows, ones) in sizes.items() for k in range(rows)]
    return pd.DataFrame(parts, columns=["g", "y"]).assign(mu=0.5)


def test_the_worst_groups_come_first(tmp_path: Path) -> None:
    """By the c they need; of those that need none, by their p-value; of those without evidence, by size."""
    sizes = {"calm few": (2, 1), "wide": (400, 350), "calm many": (400, 200), "odd": (100, 63)}
    sizes |= {"narrow": (400, 270), "widest": (400, 10)}
    report = mw.audit(groups_of(sizes), groups="g", bins=1)
    found = report.groups["g"]
    assert found["odd"].smallest_c == found["calm few"].smallest_c == 0.0 < found["narrow"].smallest_c
    assert found["odd"].p_value < found["calm many"].p_value == found["calm few"].p_value == 1.0
    expected = ["widest", "wide", "narrow", "odd", "calm many", "calm few"]
    report.to_html(tmp_path / "report.html")
    for shown in (str(report), (tmp_path / "report.html").read_text(), report._repr_html_()):
        after = shown[shown.index("happened", shown.index("log loss")) :]
        assert re.findall(r"\b(widest|wide|narrow|odd|calm many|calm few)\b", after)[-6:] == expected


def test_a_bet_is_said_in_words(tmp_path: Path) -> None:
    table = pd.DataFrame({"mu": [0.15] * 500 + [0.75] * 500, "y": [0] * 500 + [1] * 500, "old": [0, 1] * 500})
    report = mw.audit(table, groups="old", bins=10)
    report.to_html(tmp_path / "report.html")
    text = " ".join(Nesting((tmp_path / "report.html").read_text()).text)
    assert "no on forecasts from 0.1 to 0.2" in text
    assert "yes on forecasts from 0.7 to 0.8" in text
    assert "yes on all forecasts" in text
    assert "REFUTED: whoever bets that it happens on forecasts from 0.7 to 0.8" in text
    bets = {report.bet(k) for k in report.rows_of("old", "1")}
    assert "yes on old=1, forecasts from 0.7 to 0.8" in bets
    assert "yes on old=1" in bets
    assert len(bets) == 3


def test_a_page_marks_what_is_refuted_and_nothing_else(tmp_path: Path) -> None:
    table = groups_of({"bad": (500, 400), "<good>": (500, 250)}).assign(mu=[0.25] * 500 + [0.5] * 500)
    mw.audit(table, groups="g", bins=2).to_html(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    marked = re.findall(r"<tr class='refuted'><td>(.*?)</td>", page)
    assert marked == ["yes on forecasts from 0 to 0.5", "yes on all forecasts", "bad"]
    unmarked = re.findall(r"<tr><td>(.*?)</td>", page)
    assert unmarked[0] == "largest gap (MCE)"
    assert unmarked[-2:] == ["no on forecasts from 0.5 to 1", "&lt;good&gt;"]


def test_pages_and_notebooks_have_the_notes(tmp_path: Path) -> None:
    table = table_of(200, 0)
    table.loc[:2, "mu"] = float("nan")
    table.loc[3, "y"] = None
    report = mw.audit(table)
    report.to_html(tmp_path / "report.html")
    for shown in (str(report), (tmp_path / "report.html").read_text(), report._repr_html_()):
        text = " ".join(Nesting(shown).text)
        assert "note: 3 rows without mu" in text
        assert re.search(r"note: 1 row without y\b", text)


def test_every_bin_is_printed(tmp_path: Path) -> None:
    table = pd.DataFrame({"mu": [0.15] * 500 + [0.75] * 500, "y": [0] * 500 + [1] * 385 + [0] * 115})
    lines = [line.split() for line in str(mw.audit(table, bins=10)).splitlines()]
    (low,) = [line for line in lines if line[:3] == ["0.1", "-", "0.2"]]
    assert low[3:7] == ["500", "0.1500", "0.0000", "-0.1500"]
    assert low[-5:] == ["no", "0.1500", "<-", "not", "luck"]
    (high,) = [line for line in lines if line[:3] == ["0.7", "-", "0.8"]]
    assert high[3:7] == ["500", "0.7500", "0.7700", "+0.0200"]
    assert high[-2:] == ["yes", "0.0200"]
    (total,) = [line for line in lines if line[:1] == ["all"]]
    assert total[1:5] == ["1,000", "0.4500", "0.3850", "-0.0650"]
    report = mw.audit(classes_of(500, 0), mu=["p0", "p1", "p2"], bins=2)
    report.to_html(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    for class_ in range(3):
        assert len(re.findall(rf"^{class_}: (?:0 - 0.5|0.5 - 1|all) ", str(report), re.MULTILINE)) == 3
        assert len(re.findall(rf"(?:yes|no) on class {class_}\b", page)) >= 3


@pytest.mark.parametrize("groups", [10, 11, 50, 51])
def test_as_many_groups_are_shown_as_there_is_room_for(groups: int, tmp_path: Path) -> None:
    report = mw.audit(groups_of({f"<{k:02}>": (4, 2) for k in range(groups)}), groups="g", bins=1)
    report.to_html(tmp_path / "report.html")
    text, page, fragment = str(report), (tmp_path / "report.html").read_text(), report._repr_html_()
    assert len(re.findall(r"^<\d\d>", text, re.MULTILINE)) == 10
    assert ("more, which" in text) == (groups > 10)
    assert groups == 10 or f"and {groups - 10} more, which need no wider c" in text
    assert len(re.findall(r"<t[dh][^>]*>&lt;\d\d&gt;", page)) == min(groups, 50)
    assert ("more, which" in page) == (groups > 50)
    assert groups < 51 or "<p>and 1 more, which need no wider c</p>" in page
    assert len(re.findall(r"&lt;\d\d&gt;", fragment)) == 10
    assert ("the worst" in fragment) == (groups > 10)


def test_a_reports_repr_leaves_its_tables_out() -> None:
    report = mw.audit(table_of(500, 0), groups="g")
    assert not re.search(r"GroupFinding|groups={|by_class=|table=|backend=", repr(report))
    assert repr(report).startswith("AuditReport(rows=500, missing=")


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
