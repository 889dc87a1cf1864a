"""Build HTML: whole pages, tables, pictures, and fragments for notebooks.

Everything a page needs is inside it: the style, and the pictures as data. Nothing is loaded from elsewhere.
This module knows only HTML; the text of a report is in the report's own module.
"""

from __future__ import annotations

import base64
import html
import re
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
.claims td { overflow-wrap: anywhere; }
@media (max-width: 40rem) {
  .claims thead { display: none; }
  .claims tr { display: block; border-bottom: 1px solid #ddd; padding: 0.5rem 0; }
  .claims td { display: block; border: 0; padding: 0.1rem 0; }
}
.refuted td { color: #a03c00; font-weight: 600; }
.verdict { font-size: 1.1rem; border-left: 4px solid #0072b2; padding-left: 1rem; }
.verdict.refuted { border-color: #d55e00; }
.verdict.certified { border-color: #00694f; }
"""
_HEAD = "<meta charset='utf-8'><meta name='viewport' content='width=device-width, initial-scale=1'>"
_COLUMNS = ("claim", "where", "verdict", "numbers (in brackets: 95 % over seeds)")

# A notebook has its own style, light or dark: a fragment sets only what it needs, on each element.
_BLOCK = "style='max-width: 60rem; line-height: 1.4; overflow-x: auto'"
_TABLE = "style='border-collapse: collapse; margin: 0.4rem 0'"
_TEXT = "style='text-align: left; vertical-align: top; padding: 0.15rem 0.8rem 0.15rem 0'"
_NUMBER = "style='text-align: right; padding: 0.15rem 0.8rem 0.15rem 0; font-variant-numeric: tabular-nums'"


def shown(name: Any) -> str:
    r"""Return a name from the data as it may be printed: line breaks and control characters are escaped.

    Otherwise a group could be named so that a terminal, or a reader, mistakes its name for a line of the
    report.

    Examples
    --------
    >>> from makewhole.pages import shown
    >>> print(shown("JFK"), shown("AA\nverdict: all is well"))
    JFK AA\nverdict: all is well
    """
    text = str(name)
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def escape(text: str) -> str:
    """Return text as HTML shows it, with control characters escaped as in `shown`."""
    return html.escape(shown(text))


class Finding(NamedTuple):
    """A row of a study's table: what was claimed, where, the verdict, and the numbers.

    `figure` is the name of the picture that shows it, `judge` the function that reached the verdict.
    """

    text: str
    where: str
    verdict: str
    numbers: str
    figure: str = ""
    judge: str = ""


class Picture(NamedTuple):
    """A PNG for a page: its name (the link to it), its caption and its bytes."""

    name: str
    caption: str
    png: bytes


class Table(NamedTuple):
    """A table for a fragment, all of it plain text: a caption, the heads of its columns, and its rows."""

    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]


def render(
    title: str,
    words: str,
    findings: Sequence[Finding],
    figures: Mapping[str, tuple[str, Path]],
    *,
    partial: str = "",
    last: str = "",
) -> str:
    """Build a study's page; `figures` gives, by name, a caption and the PNG file to embed.

    `words`, in Markdown, come first. If results are partial, `partial` says what is missing. `last` is the
    last line.
    """
    e = escape

    def cells(f: Finding) -> str:
        shown = f" <a href='#{e(f.figure)}'>figure</a>" if f.figure in figures else ""
        judge = f"<br><small>judged by <code>{e(f.judge)}</code></small>" if f.judge else ""
        return (
            f"<tr><td>{e(f.text)}</td><td>{e(f.where)}</td><td class='{e(f.verdict)}'>{e(f.verdict)}</td>"
            f"<td>{e(f.numbers)}{shown}{judge}</td></tr>"
        )

    return page(
        title,
        f"<p class='partial'>Partial results: {e(partial)}</p>" if partial else "",
        paragraphs(words),
        table(_COLUMNS, [cells(f) for f in findings], "claims"),
        *(picture(name, caption, path.read_bytes()) for name, (caption, path) in figures.items()),
        f"<p><small>{e(last)}</small></p>" if last else "",
    )


def plain(words: str) -> str:
    """Convert Markdown to plain text: links become their words, the lines of a paragraph become one."""
    text = re.sub(r"\[([^]]+)\]\([^)]+\)", r"\1", words)
    return "\n\n".join(" ".join(part.split()) for part in text.split("\n\n") if part.strip())


def paragraphs(words: str) -> str:
    """Convert the simplest Markdown, paragraphs and *emphasis*, to HTML."""
    parts = [re.sub(r"\*([^*]+)\*", r"<em>\1</em>", escape(part)) for part in plain(words).split("\n\n")]
    return "\n".join(f"<p>{part}</p>" for part in parts if part)


def fragment(
    title: str,
    rows: Sequence[tuple[str, str]],
    notes: Sequence[str] = (),
    tables: Sequence[Table] = (),
) -> str:
    """Build a piece of HTML for a notebook: what an object's `_repr_html_` returns.

    Parameters
    ----------
    title
        The first line, in bold.
    rows
        Pairs (label, value), shown as a table with two columns.
    notes
        Sentences under the tables.
    tables
        Further tables, each with a caption. Their first column is text, the others are numbers.

    All arguments are plain text, and are escaped.

    Examples
    --------
    >>> from makewhole import pages
    >>> "<b>a &lt; b</b>" in pages.fragment("a < b", [("rows", "100")], notes=["two rows were left out"])
    True
    """
    e = escape
    lines = [f"<tr><th {_TEXT}>{e(label)}</th><td {_TEXT}>{e(value)}</td></tr>" for label, value in rows]
    parts = [f"<p><b>{e(title)}</b></p>"]
    parts += [f"<table {_TABLE}><tbody>{''.join(lines)}</tbody></table>"] if lines else []
    for caption, head, body in tables:
        heads = "".join(f"<th {_style_of(k)}>{e(name)}</th>" for k, name in enumerate(head))
        lines = [
            "<tr>" + "".join(f"<td {_style_of(k)}>{e(cell)}</td>" for k, cell in enumerate(row)) + "</tr>"
            for row in body
        ]
        parts.append(
            f"<p>{e(caption)}</p><table {_TABLE}><thead><tr>{heads}</tr></thead>"
            f"<tbody>{''.join(lines)}</tbody></table>"
        )
    parts += [f"<p>{e(note)}</p>" for note in notes]
    return f"<div {_BLOCK}>\n" + "\n".join(parts) + "\n</div>"


def _style_of(column: int) -> str:
    return _NUMBER if column else _TEXT


def numbers(head: Sequence[str], rows: Sequence[tuple[Sequence[str], bool]]) -> str:
    """Build a table of numbers from pairs (cells, marked); marked rows stand out."""
    lines = [
        ("<tr class='refuted'>" if marked else "<tr>")
        + "".join(f"<td>{escape(cell)}</td>" for cell in row)
        + "</tr>"
        for row, marked in rows
    ]
    return table(head, lines, "numbers")


def table(head: Sequence[str], rows: Sequence[str], kind: str = "") -> str:
    """Build a table with these column heads; `rows` are HTML already, `kind` is its CSS class."""
    header = "".join(f"<th>{escape(column)}</th>" for column in head)
    body = "\n".join(rows)
    table = f"<table class='{kind}'><thead><tr>{header}</tr></thead>\n<tbody>{body}</tbody></table>"
    return f"<div class='wide'>{table}</div>"


def picture(name: str, caption: str, png: bytes) -> str:
    """Build a heading with the caption, and the PNG under it, as data inside the page."""
    e, data = escape, base64.b64encode(png).decode()
    return f"<h2 id='{e(name)}'>{e(caption)}</h2><img alt='{e(caption)}' src='data:image/png;base64,{data}'>"


def page(title: str, *parts: str) -> str:
    """Build a whole page from these parts, which are HTML already; empty ones are left out."""
    body, e = "\n".join(part for part in parts if part), escape
    return f"""<!doctype html>
<html lang="en"><head>{_HEAD}
<title>{e(title)}</title><style>{_STYLE}</style></head><body>
<h1>{e(title)}</h1>
{body}
</body></html>
"""


def check_path(path: str | Path, name: str = "path") -> Path:
    """Return the path if a page can be written there; `name` is what the caller calls it.

    Raises
    ------
    ValueError
        If the path does not end in .html (or .htm), or its folder does not exist.
    """
    file = Path(path)
    if file.suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"{name} must end in .html; got {str(path)!r}")
    if not file.parent.is_dir():
        raise ValueError(f"{name} must lie in a folder that exists; got {str(path)!r}")
    return file


def write(path: str | Path, html: str) -> None:
    """Write a page to a file, after `check_path`; an existing file is replaced."""
    check_path(path).write_text(html, encoding="utf-8")
