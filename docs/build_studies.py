"""Run every study and write docs/studies.md beside its figures: `make figures`.

Every number on that page comes from a run. The words about the numbers come from the `Study` objects, and the
opening of the page from `INTRO`.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from makewhole import studies
from makewhole.studies.study import StudyResult

DOCS = Path(__file__).parent
INTRO = """\
# The studies

Every figure and claim of Zhao & Ermon (2021), on real data. This page is written by `make figures`; each
claim is a function over the results, and brackets are 95 % intervals over seeds. A claim that does not hold
is reported as not holding.

To run a study with other settings: `makewhole study --help`. From Python, `studies.run` returns frames:

```python
>>> from makewhole import studies
>>> got = studies.run("flights", rounds=200, seeds=2, shares=[0.3], corrections=["swap"], jobs=1)
>>> got.claims.columns
['text', 'where', 'verdict', 'numbers', 'figure']
>>> got.columns["results"]["bets"]  # what a column means
'what the airline won from the bets'
>>> figure = got.figures["airline"]  # a matplotlib figure, drawn when it is asked for

```

## Your own corrections, agents and data

A correction of your own needs four methods. Give the study a function that makes a fresh one for each run; it
is told the number of rounds, the range of ĉ (the base learner's c) and the seed:

```python
>>> import makewhole as mw
>>> class Halfway:
...     \"\"\"Moves λ half of the way to the last target.\"\"\"
...     def __init__(self, lam=0.0):
...         self.lam = lam
...     def propose(self):
...         return mw.Proposal(self.lam)
...     def observe(self, proposal, target, weight):
...         self.lam += 0.5 * weight * (target - proposal.lam)
...     def state(self):
...         return {"lam": self.lam}
...     @classmethod
...     def from_state(cls, state):
...         return cls(state["lam"])
>>> mine = {"halfway": lambda rounds, c_range, seed: Halfway()}
>>> got = studies.run("flights", rounds=200, seeds=1, shares=[0.3], corrections=mine, jobs=1)
>>> got.summary["correction"].to_list()
['no insurance', 'halfway']

```

To compare it with ours, put ours into the same dict: `mine | {"swap": studies.LINEUP["swap"]}`. Ours run
compiled. Yours runs as plain Python in the same loop, some hundred times slower, so begin with few rounds.
The same dict works in every study. In "frontier" it names what the reserves are compared with.

Data of your own are `Events`, made from a matrix of features and the outcomes, 0 or 1. "flights" takes them
as flights; "mnist" and "adult" take them for the decision tasks, with a whole number `z` from 0 to 9 per row
on which the losses depend. "frontier" and "market" take logs, frames with the columns mu, y, stake and
(optional) c_hat:

```python
>>> import numpy as np
>>> draw = np.random.default_rng(0)
>>> X, y, z = draw.normal(size=(300, 4)), draw.integers(0, 2, 300), draw.integers(0, 10, 300)
>>> events = studies.make_events(X, y, z=z)
>>> got = studies.run("flights", data=events, seeds=1, shares=[0.5], corrections=["swap"], jobs=1)
>>> got = studies.run("adult", data=events, seeds=1, corrections=mine, jobs=1)
>>> log = {"mu": np.full(300, 0.5), "y": y, "stake": draw.uniform(-1, 1, 300)}
>>> import polars as pl
>>> got = studies.run("frontier", data={"coins": pl.DataFrame(log)}, seeds=1, corrections=mine, jobs=1)

```

An agent of your own plays in "adversaries". It has the method `act`, which sees the forecast and returns a
`Decision`. Its maker is told nature, whose `outcome()` tells the round's outcome (a fair coin), the number of
rounds, and the seed:

```python
>>> class Contrarian:
...     \"\"\"Bets on the outcome where c is 0 or more, and against it elsewhere.\"\"\"
...     def __init__(self, nature):
...         self.nature = nature
...     def act(self, forecast):
...         up = (self.nature.outcome() == 1) == (forecast.c >= 0)
...         return mw.agents.Decision(None, 1.0 if up else -1.0)
>>> agents = {"contrarian": lambda nature, rounds, seed: Contrarian(nature)}
>>> got = studies.run("adversaries", rounds=500, seeds=1, agents=agents, corrections=mine, jobs=1)
>>> got.results["agent"].to_list()
['contrarian']

```

`mw.checks.check_correction` and `mw.checks.check_agent` test what you wrote more strictly than a study needs.
With `out="folder"` the results are written to disk, as the command line does.
"""


def section(result: StudyResult) -> str:
    """A study as Markdown: why, the claims, and each figure with the command that rebuilds it."""
    study = result.study
    lines = [f"## {study.title}", "", study.why, ""]
    lines += ["| claim | where | verdict | numbers |", "|---|---|---|---|"]
    for claim in result.judged:
        cells = (claim.text, claim.where, f"**{claim.verdict}**", claim.numbers)
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    command = f"makewhole study {study.name} --seeds {study.seeds}"
    for label in result.files:
        about = [f"“{c.text}” ({c.verdict})" for c in result.judged if c.figure == label]
        shown = f"*Bears on {'; '.join(about)}.* " if about else ""
        caption = result.captions[label]
        lines += ["", f"### {caption}", "", f"![{caption}](figures/{label}.png)", ""]
        lines += [f"{shown}Rebuild it with `{command}`."]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run the studies, copy the figures, write the page."""
    (DOCS / "figures").mkdir(exist_ok=True)
    parts = [INTRO]
    for name in studies.STUDIES:
        result = studies.run(name, out=Path("out"))
        for label, (png, _) in result.files.items():
            shutil.copyfile(png, DOCS / "figures" / f"{label}.png")
        parts.append(section(result))
    (DOCS / "studies.md").write_text("\n".join(parts), encoding="utf-8")


if __name__ == "__main__":
    main()
