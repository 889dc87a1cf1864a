"""One self-contained HTML page from claims, figures and settings: nothing to load, nothing to click away."""

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
    """The page; `figures` gives, by name, a caption and a PNG to embed."""
    e = html.escape
    rows = "\n".join(
        f"<tr><td>{e(f.text)}</td><td>{e(f.where)}</td><td class='{e(f.verdict)}'>{e(f.verdict)}</td>"
        f"<td>{e(f.numbers)}</td></tr>"
        for f in findings
    )
    pictures = "\n".join(
        f"<h2 id='{e(name)}'>{e(caption)}</h2><img alt='{e(caption)}' "
        f"src='data:image/png;base64,{base64.b64encode(path.read_bytes()).decode()}'>"
        for name, (caption, path) in figures.items()
    )
    warning = f"<p class='partial'>Partial results: {e(partial)}</p>" if partial else ""
    header = "".join(f"<th>{e(column)}</th>" for column in _COLUMNS)
    return f"""<!doctype html>
<html lang="en"><head>{_HEAD}
<title>{e(title)}</title><style>{_STYLE}</style></head><body>
<h1>{e(title)}</h1>{warning}
<table><thead><tr>{header}</tr></thead>
<tbody>{rows}</tbody></table>
{pictures}
<h2>Settings</h2><pre>{e(json.dumps(settings, indent=1, default=str))}</pre>
</body></html>
"""
