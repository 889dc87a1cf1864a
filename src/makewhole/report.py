"""One self-contained HTML page, of a study or an audit: nothing to load, nothing to click away."""

from __future__ import annotations

import base64
import html
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from makewhole.findings import AuditReport

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
_SHOWN = 50  # rows of a table of groups
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
    return _page(
        title,
        f"<p class='partial'>Partial results: {e(partial)}</p>" if partial else "",
        _table(_COLUMNS, rows),
        *(_picture(name, caption, path.read_bytes()) for name, (caption, path) in figures.items()),
        f"<h2>Settings</h2><pre>{e(json.dumps(settings, indent=1, default=str))}</pre>",
    )


def render_audit(title: str, report: AuditReport, figures: Mapping[str, tuple[str, bytes]]) -> str:
    """An audit's page: the verdict, the pictures, and every table; `figures` as PNG."""
    e, s = html.escape, report.scores
    verdict = "<br>".join(e(line) for line in report.verdict())
    scores = {
        "largest gap (MCE)": f"{s.mce.value:.4f} [{s.mce.low:.4f}, {s.mce.high:.4f}]",
        "mean gap (ECE)": f"{s.ece:.4f}",
        "Brier score": f"{s.brier:.5f}",
        "= reliability": f"{s.reliability:.5f}",
        "− resolution": f"{s.resolution:.5f}",
        "+ uncertainty": f"{s.uncertainty:.5f}",
        "+ within bins": f"{s.within:.5f}",
        "log loss": f"{s.log_loss:.5f}",
    }
    parts = [f"<p class='verdict {'' if report.sound else 'unsound'}'>{verdict}</p>"]
    parts += [_picture(name, caption, png) for name, (caption, png) in figures.items()]
    parts += [
        "<h2>Scores</h2>",
        _numbers(("", "measured"), [((name, v), False) for name, v in scores.items()]),
    ]
    parts += [*_bins(report), *_groups(report)]
    parts += [f"<p>note: {e(note)}</p>" for note in report.all_notes()]
    return _page(title, *parts)


def _bins(report: AuditReport) -> list[str]:
    t, rows = report.table, []
    for class_ in range(max(1, len(report.by_class))):
        for k in report.rows_of(class_=class_):
            wins = f"{t['wins'][k]:.4f} [{t['wins_low'][k]:.4f}, {t['wins_high'][k]:.4f}]"
            numbers = (
                f"{t['rows'][k]:,}",
                f"{t['mu'][k]:.4f}",
                f"{t['outcome'][k]:.4f}",
                f"{t['gap'][k]:+.4f}",
                wins,
            )
            rows.append(((report.bet(k), *numbers), bool(t["wins_low"][k] > 0)))
    head = (
        "bet",
        "rows",
        "said",
        "happened",
        "gap",
        f"wins per unit, {report.sure()} for all at once",
    )
    return ["<h2>By forecast</h2>", _numbers(head, rows)]


def _groups(report: AuditReport) -> list[str]:
    parts = []
    head = ("rows", "said", "happened", "wins per forecast", "at least", "smallest c")
    for column, found in report.groups.items():
        worst = sorted(found.items(), key=lambda item: item[1].urgency())
        rows = []
        for value, g in worst[:_SHOWN]:
            numbers = [f"{x:.4f}" for x in (g.mu, g.outcome, g.wins, g.wins_low, g.smallest_c)]
            name = value if g.class_ is None else f"{value}, class {g.class_}"
            rows.append(((name, f"{g.rows:,}", *numbers), g.p_value <= 1 - report.confidence))
        parts += [f"<h2>By {html.escape(column)}</h2>", _numbers((column, *head), rows)]
        if len(worst) > _SHOWN:
            parts.append(f"<p>and {len(worst) - _SHOWN:,} more, which need no wider c</p>")
    return parts


def _numbers(head: Sequence[str], rows: Sequence[tuple[Sequence[str], bool]]) -> str:
    """A table of numbers; the rows that are marked stand out."""
    lines = [
        ("<tr class='refuted'>" if marked else "<tr>")
        + "".join(f"<td>{html.escape(cell)}</td>" for cell in row)
        + "</tr>"
        for row, marked in rows
    ]
    return _table(head, lines, "numbers")


def _table(head: Sequence[str], rows: Sequence[str], kind: str = "") -> str:
    header = "".join(f"<th>{html.escape(column)}</th>" for column in head)
    body = "\n".join(rows)
    table = f"<table class='{kind}'><thead><tr>{header}</tr></thead>\n<tbody>{body}</tbody></table>"
    return f"<div class='wide'>{table}</div>"


def _picture(name: str, caption: str, png: bytes) -> str:
    e, data = html.escape, base64.b64encode(png).decode()
    return f"<h2 id='{e(name)}'>{e(caption)}</h2><img alt='{e(caption)}' src='data:image/png;base64,{data}'>"


def _page(title: str, *parts: str) -> str:
    body, e = "\n".join(part for part in parts if part), html.escape
    return f"""<!doctype html>
<html lang="en"><head>{_HEAD}
<title>{e(title)}</title><style>{_STYLE}</style></head><body>
<h1>{e(title)}</h1>
{body}
</body></html>
"""
