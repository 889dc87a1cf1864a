"""Draw the figure of docs/watch.md from the page's own code. `make figures` runs this."""

from __future__ import annotations

import doctest
from pathlib import Path
from typing import Any

import makewhole as mw

DOCS = Path(__file__).parent


def main() -> None:
    """Run the page's code, and draw the watch that it made."""
    page = (DOCS / "watch.md").read_text(encoding="utf-8")
    names: dict[str, Any] = {}
    for example in doctest.DocTestParser().get_examples(page):
        exec(compile(example.source, "watch.md", "single"), names)  # noqa: S102 - the project's own page
    figure = mw.plots.WatchDisplay.from_watch(names["watch"]).figure_
    figure.savefig(DOCS / "figures" / "watch.png", dpi=110, metadata={"Software": None})


if __name__ == "__main__":
    main()
