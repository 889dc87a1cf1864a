"""Run every study and write docs/studies.md beside its figures: `make figures`.

`python docs/build_studies.py flights adult` makes only these sections anew.

Every number on that page comes from a run. The words about the numbers come from the `Study` objects, and the
opening of the page from `INTRO`.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from makewhole import studies
from makewhole.studies.claims import Claim
from makewhole.studies.study import StudyResult

DOCS = Path(__file__).parent
INTRO = """\
# The studies

The figures and claims of Zhao & Ermon (2021), on real data. This page is written by
`make figures`. Each row links the figure that shows it and the function that judged it, and has its numbers.
A claim that does not hold is reported as not holding; what the paper does not claim is marked so.

**How a verdict is reached.** Brackets are 95 % intervals (Student's t) over seeds. A claim *holds* if every
comparison that it consists of has an interval above 0. It *fails* if one has an interval below 0, with the 5
% shared among the comparisons. Else it is *undecided*. Each row is judged by itself, with no allowance for
their number. What a seed draws is said with each study; where the data are the same for all seeds, an
interval says nothing about other data, and the same claims are judged again on other data. The paper's own
alternatives to its Algorithm 3 (swap) are no correction and follow-the-leader (naive): its "standard regret"
is follow-the-leader, too, by its Lemma 3 and in the authors' code. Gradient descent (standard), deterministic
swap and reserve are ours, and are judged in rows of their own. Words such as "small" have numbers in
[`claims.py`](../src/makewhole/studies/claims.py), which the rows repeat; what is judged with a threshold of
one study alone has it beside the function. Terms such as *cap*, *correction*, *target*, *line* and *thaw* are
in the [glossary](glossary.md). Two remarks of the paper have no measure in it and are not examined: that
negative c "improves the stability" (Appendix C.1), and that a poor base learner could hurt for a while
(§4.1).

To run a study with other settings: `makewhole study --help`. From Python, `studies.run` returns frames:

```python
>>> from makewhole import studies
>>> got = studies.run("flights", rounds=200, seeds=2, shares=[0.3], corrections=["swap"], jobs=1)
>>> got.claims.columns
['text', 'where', 'verdict', 'numbers', 'figure', 'judge']
>>> got.columns["results"]["bets"]  # what a column means
'what the airline won from the bets'
>>> figure = got.figures["airline"]  # a matplotlib figure, drawn when it is asked for

```

## Your own corrections, agents and data

A correction of your own needs four methods. Give the study a function that makes a fresh one for each run; it
is told the number of rounds, the range of ĉ (the base learner's c) and the seed:

```python
>>> import makewhole as mw
>>> from makewhole.corrections import Proposal
>>> class Halfway:
...     \"\"\"Moves λ half of the way to the last target.\"\"\"
...     def __init__(self, lam=0.0):
...         self.lam = lam
...     def propose(self):
...         return Proposal(self.lam)
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


# Where else the claims of a study are judged: a heading, and the options of the run.
ELSEWHERE: dict[str, dict[str, dict[str, Any]]] = {
    "flights": {
        "JetBlue, New York, 2013": {"airline": "B6"},
        "Southwest, 2015, a part": {"data": "flights_wn_2015.csv.gz"},
        "United, 2013, the authors' settings": {"authors": True},
        "Southwest, 2015, a part, the authors' settings": {"data": "flights_wn_2015.csv.gz", "authors": True},
    },
    "honesty": {
        "Southwest, 2015, twelve airports, 10/45/45": {
            "data": "flights_wn_2015_year.csv.gz",
            "shares": [0.1],
            "corrections": ["swap"],
        }
    },
}


def claim_row(claim: Claim) -> str:
    """A claim as a row of a Markdown table."""
    module, _, function = claim.judge.rpartition(".")
    source = f"../src/{module.replace('.', '/')}.py"
    shown = f"[figure](figures/{claim.figure}.png)" if claim.figure else ""
    cells = (claim.text, claim.where, f"**{claim.verdict}**", claim.numbers, shown, f"[{function}]({source})")
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def section(result: StudyResult, elsewhere: dict[str, StudyResult]) -> str:
    """A study as Markdown: why, the claims, here and elsewhere, and each figure with its command."""
    study = result.study
    lines = [f"## {study.title}", "", study.why, ""]
    lines += ["| claim | where | verdict | numbers | shown in | judged by |", "|---|---|---|---|---|---|"]
    lines += [claim_row(claim) for claim in result.judged]
    lines += compared(result, elsewhere) if elsewhere else []
    command = f"makewhole study {study.name} --seeds {study.seeds}"
    for label in result.files:
        caption = result.captions[label]
        lines += ["", f"### {caption}", "", f"![{caption}](figures/{label}.png)", ""]
        lines += [f"Rebuild it with `{command}`."]
    return "\n".join(lines) + "\n"


def compared(result: StudyResult, elsewhere: dict[str, StudyResult]) -> list[str]:
    """The same claims on other data and with other settings: verdicts side by side, numbers below."""
    lines = ["", "### The same claims elsewhere", "", f"| claim | here | {' | '.join(elsewhere)} |"]
    lines += ["|---|" + "---|" * (1 + len(elsewhere))]
    for claim in result.judged:
        verdicts = [
            next((c.verdict for c in found.judged if same_claim(c, claim)), "–")
            for found in elsewhere.values()
        ]
        lines.append(f"| {claim.text.replace('|', '&#124;')} | {claim.verdict} | {' | '.join(verdicts)} |")
    for name, found in elsewhere.items():
        lines += ["", f"<details><summary>Numbers: {name}</summary>", ""]
        lines += ["| claim | where | verdict | numbers | shown in | judged by |", "|---|---|---|---|---|---|"]
        lines += [claim_row(claim._replace(figure="")) for claim in found.judged]
        lines += ["", "</details>"]
    return lines


def same_claim(one: Claim, other: Claim) -> bool:
    """Whether two runs judged the same claim, though the authors' swap has another name."""
    return one.text.replace("swap ±0.1", "swap") == other.text


def run_elsewhere(name: str) -> dict[str, StudyResult]:
    """The study on its other data; files are in the folder that MAKEWHOLE_DATA names."""
    found: dict[str, StudyResult] = {}
    for heading, options in ELSEWHERE.get(name, {}).items():
        file = options.get("data")
        if file is not None:
            folder = os.environ.get("MAKEWHOLE_DATA")
            if folder is None:
                sys.exit(f"MAKEWHOLE_DATA must name the folder with {file}, for the claims on {heading}")
            options = options | {"data": Path(folder) / file}
        found[heading] = studies.run(name, out=Path("out") / "elsewhere" / str(len(found)), **options)
    return found


def main(names: Sequence[str]) -> None:
    """Run the studies, copy the figures, write the page; with names, only those sections are made anew."""
    (DOCS / "figures").mkdir(exist_ok=True)
    page = DOCS / "studies.md"
    kept = (
        dict(re.findall(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", page.read_text("utf-8"), re.M | re.S))
        if names
        else {}
    )
    parts = [INTRO]
    for name in studies.STUDIES:
        title = studies.find(name).title
        if names and name not in names:
            parts.append(f"## {title}\n{kept[title]}".rstrip() + "\n")
            continue
        result = studies.run(name, out=Path("out"))
        for label, (png, _) in result.files.items():
            shutil.copyfile(png, DOCS / "figures" / f"{label}.png")
        parts.append(section(result, run_elsewhere(name)))
    page.write_text("\n".join(parts), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
