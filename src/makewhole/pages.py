"""One self-contained HTML page, of a study or an audit: nothing to load, nothing to click away."""

from __future__ import annotations

import base64
import html
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #1a1a1a; max-width: 72rem; margin: 2rem auto; }
body { padding: 0 1rem; }
h1 { font-size: 1.6rem; }
h2 { font-size: 1.2rem; margin-top: 2.2rem; }
table { border-collapse: collapse; width: 100%; font-size: 0.92rem; }
th, td { text-align: left; vertical-align: top; padding: 0.45rem 0.7rem; border-bottom: 1px solid #ddd; }
.holds { color: #00694f; font-weight: 600; }
.fails { color: #a03c00; font-weight: 600; }
.undecided { color: #555; font-weight: 600; }
img { max-width: 100%; height: auto; }
.partial { background: #fff3cd; padding: 0.6rem 1rem; }
pre { background: #f6f6f6; padding: 0.8rem; overflow-x: auto; }
.numbers td { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.numbers th { text-align: right; }
.numbers td:first-child, .numbers th:first-child { text-align: left; white-space: normal; }
.wide { overflow-x: auto; }
.refuted td { color: #a03c00; font-weight: 600; }
.verdict { font-size: 1.1rem; border-left: 4px solid #0072b2; padding-left: 1rem; }
.unsound { border-color: #d55e00; }
"""
_HEAD = "<meta charset='utf-8'><meta name='viewport' content='width=device-width, initial-scale=1'>"
_COLUMNS = ("claim", "where", "verdict", "numbers (in brackets: 95 % over seeds)")


class Finding(NamedTuple):
    """A row of the table: what was claimed, where, the verdict, and the numbers."""

    text: str
    where: str
    verdict: str
    numbers: str


def render(
    title: str,
    findings: Sequence[Finding],
    figures: Mapping[str, tuple[str, Path]],
    settings: Mapping[str, Any],
    *,
    partial: str = "",
) -> str:
    """A study's page; `figures` gives, by name, a caption and a PNG to embed."""
    e = html.escape
    rows = [
        f"<tr><td>{e(f.text)}</td><td>{e(f.where)}</td><td class='{e(f.verdict)}'>{e(f.verdict)}</td>"
        f"<td>{e(f.numbers)}</td></tr>"
        for f in findings
    ]
    return page(
        title,
        f"<p class='partial'>Partial results: {e(partial)}</p>" if partial else "",
        table(_COLUMNS, rows),
        *(picture(name, caption, path.read_bytes()) for name, (caption, path) in figures.items()),
        f"<h2>Settings</h2><pre>{e(json.dumps(settings, indent=1, default=str))}</pre>",
    )


def numbers(head: Sequence[str], rows: Sequence[tuple[Sequence[str], bool]]) -> str:
    """A table of numbers; the rows that are marked stand out."""
    lines = [
        ("<tr class='refuted'>" if marked else "<tr>")
        + "".join(f"<td>{html.escape(cell)}</td>" for cell in row)
        + "</tr>"
        for row, marked in rows
    ]
    return table(head, lines, "numbers")


def table(head: Sequence[str], rows: Sequence[str], kind: str = "") -> str:
    """A table with these column heads; `rows` are HTML already, `kind` is its CSS class."""
    header = "".join(f"<th>{html.escape(column)}</th>" for column in head)
    body = "\n".join(rows)
    table = f"<table class='{kind}'><thead><tr>{header}</tr></thead>\n<tbody>{body}</tbody></table>"
    return f"<div class='wide'>{table}</div>"


def picture(name: str, caption: str, png: bytes) -> str:
    """A PNG inside the page, under its caption."""
    e, data = html.escape, base64.b64encode(png).decode()
    return f"<h2 id='{e(name)}'>{e(caption)}</h2><img alt='{e(caption)}' src='data:image/png;base64,{data}'>"


def page(title: str, *parts: str) -> str:
    """A whole page of these parts, which are HTML already."""
    body, e = "\n".join(part for part in parts if part), html.escape
    return f"""<!doctype html>
<html lang="en"><head>{_HEAD}
<title>{e(title)}</title><style>{_STYLE}</style></head><body>
<h1>{e(title)}</h1>
{body}
</body></html>
"""
