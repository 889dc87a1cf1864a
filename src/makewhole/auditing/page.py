"""An audit's page: the verdict, the pictures, and every table, in one HTML file."""

from __future__ import annotations

import html
from collections.abc import Mapping

from makewhole import pages
from makewhole.auditing.report import AuditReport

_SHOWN = 50  # rows of a table of groups


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
    parts += [pages.picture(name, caption, png) for name, (caption, png) in figures.items()]
    parts += [
        "<h2>Scores</h2>",
        pages.numbers(("", "measured"), [((name, v), False) for name, v in scores.items()]),
    ]
    parts += [*_bins(report), *_groups(report)]
    parts += [f"<p>note: {e(note)}</p>" for note in report.all_notes()]
    return pages.page(title, *parts)


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
    return ["<h2>By forecast</h2>", pages.numbers(head, rows)]


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
        parts += [f"<h2>By {html.escape(column)}</h2>", pages.numbers((column, *head), rows)]
        if len(worst) > _SHOWN:
            parts.append(f"<p>and {len(worst) - _SHOWN:,} more, which need no wider c</p>")
    return parts
