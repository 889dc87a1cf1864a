"""Run every block of docs/stand-behind.md, and put what it prints under it. `make figures` runs this."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

import makewhole as mw

DOCS = Path(__file__).parent
PAGE = DOCS / "stand-behind.md"
_BLOCK = re.compile(r"```python\n(?P<code>.*?)```(?P<between>\s*)(```text\n.*?```)?", re.DOTALL)


def run(page: str) -> tuple[str, dict[str, Any]]:
    """Return the page with the output of each block in the text block after it, and the names they define."""
    names: dict[str, Any] = {}

    def filled(match: re.Match[str]) -> str:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(match["code"], names)  # noqa: S102 - our own page
        shown = f"```text\n{printed.getvalue().rstrip()}\n```" if match[3] else ""
        return f"```python\n{match['code']}```{match['between']}{shown}"

    return _BLOCK.sub(filled, page), names


def main() -> None:
    """Rewrite the page, and draw its figures."""
    page, names = run(PAGE.read_text())
    PAGE.write_text(page)
    figure = Figure(figsize=(11, 6.0), layout="constrained")
    rows, days = figure.subplots(1, 2)
    mw.plots.ReliabilityDisplay.from_report(names["rows"], ax=rows)
    mw.plots.ReliabilityDisplay.from_report(names["report"], ax=days)
    title = (
        "More flights were late than was said, by more than chance; less surely so by days than by flights"
    )
    figure.suptitle(title, fontsize=12, x=0.01, ha="left", fontweight="bold")
    rows.set_title("flights treated as independent", fontsize=10)
    days.set_title("flights of one day may depend on each other", fontsize=10)
    figure.savefig(DOCS / "figures" / "guide_raw.png", dpi=110, metadata={"Software": None})
    drawn = mw.plots.LossDisplay.from_results({"the book": names["result"]})
    lost = names["result"].total_loss
    title = f"From September to December the forecaster lost {lost:,.0f} of a capital of 100,000"
    drawn.figure_.suptitle(title, fontsize=12, x=0.01, ha="left", fontweight="bold")
    drawn.figure_.savefig(DOCS / "figures" / "guide_later.png", dpi=110, metadata={"Software": None})


if __name__ == "__main__":
    main()
