"""Show an audit in HTML: a whole page for a file, and a fragment for a notebook."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from makewhole import pages

if TYPE_CHECKING:
    from makewhole.auditing.report import AuditReport

_SHOWN = 50  # groups in a table of the page
_SHOWN_IN_NOTEBOOK = 10
_GROUP_HEAD = ("rows", "said", "happened", "wins per forecast", "at least", "smallest c", "certified c")


def render_audit(title: str, report: AuditReport, pictures: Sequence[pages.Picture] = ()) -> str:
    """Build an audit's page: the verdict, the pictures if there are any, the scores, and all tables."""
    e = pages.escape
    verdict = "<br>".join(e(line) for line in report.sentences())
    parts = [f"<p class='verdict {report.verdict}'>{verdict}</p>"]
    parts += [pages.picture(*picture) for picture in pictures]
    parts += ["<h2>Scores</h2>", pages.numbers(("", "measured"), [(row, False) for row in _scores(report)])]
    parts += [*_bins(report), *_groups(report)]
    parts += [f"<p>{e(line)}</p>" for line in (*report.legend(), *report.origin())]
    parts += [f"<p>note: {e(note)}</p>" for note in report.all_notes()]
    return pages.page(title, *parts)


def render_fragment(report: AuditReport) -> str:
    """Build what a notebook shows of an audit: the verdict, the scores, and the worst groups."""
    first, *verdict = report.sentences()
    rows = [("verdict", " ".join(verdict)), *_scores(report)]
    tables = []
    for grouping, group_rows in _group_rows(report).items():
        shown = [row for row, _ in group_rows[:_SHOWN_IN_NOTEBOOK]]
        of = f", the worst {len(shown)} of {len(group_rows):,}" if len(shown) < len(group_rows) else ""
        tables.append(pages.Table(f"By {grouping}{of}", (grouping, *_GROUP_HEAD), shown))
    notes = [*report.legend(), *report.origin(), *(f"note: {note}" for note in report.all_notes())]
    return pages.fragment(f"Audit of {first}", rows, notes, tables)


def _scores(report: AuditReport) -> list[tuple[str, str]]:
    s = report.scores
    return [
        ("largest gap (MCE)", f"{s.mce.value:.4f} [{s.mce.low:.4f}, {s.mce.high:.4f}]"),
        ("mean gap (ECE)", f"{s.ece:.4f}"),
        ("Brier score", f"{s.brier:.5f}"),
        ("= reliability", f"{s.reliability:.5f}"),
        ("− resolution", f"{s.resolution:.5f}"),
        ("+ uncertainty", f"{s.uncertainty:.5f}"),
        ("+ within bins", f"{s.within:.5f}"),
        ("log loss", f"{s.log_loss:.5f}"),
    ]


def _bins(report: AuditReport) -> list[str]:
    t, rows = report.table, []
    for class_ in range(max(1, len(report.by_class))):
        for k in report.rows_of(class_=class_):
            numbers = (
                f"{t['rows'][k]:,}",
                f"{t['mu'][k]:.4f}",
                f"{t['outcome'][k]:.4f}",
                f"{t['gap'][k]:+.4f}",
                f"{t['wins'][k]:.4f} [{t['wins_low'][k]:.4f}, {t['wins_high'][k]:.4f}]",
            )
            rows.append(((report.bet(k), *numbers), bool(t["wins_low"][k] > 0)))
    head = ("bet", "rows", "said", "happened", "gap", f"wins per unit, {report.sure()} for all at once")
    return ["<h2>By forecast</h2>", pages.numbers(head, rows)]


def _groups(report: AuditReport) -> list[str]:
    parts = []
    for grouping, rows in _group_rows(report).items():
        parts += [
            f"<h2>By {pages.escape(grouping)}</h2>",
            pages.numbers((grouping, *_GROUP_HEAD), rows[:_SHOWN]),
        ]
        if len(rows) > _SHOWN:
            parts.append(f"<p>and {len(rows) - _SHOWN:,} more, which need no wider c</p>")
    return parts


def _group_rows(report: AuditReport) -> dict[str, list[tuple[tuple[str, ...], bool]]]:
    """Return, by grouping, a pair for each group, worst first: its row of text, and whether it is refuted."""
    tables = {}
    for grouping, findings in report.groups.items():
        rows: list[tuple[tuple[str, ...], bool]] = []
        for value, g in sorted(findings.items(), key=lambda item: item[1].urgency()):
            numbers = [f"{x:.4f}" for x in (g.mu, g.outcome, g.wins, g.wins_low, g.smallest_c, g.certified_c)]
            name = value if g.class_ is None else f"{value}, class {g.class_}"
            rows.append(((name, f"{g.rows:,}", *numbers), g.p_value <= 1 - report.confidence))
        tables[grouping] = rows
    return tables
