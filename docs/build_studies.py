"""Run every study and write docs/studies.md beside its figures: `make figures`.

`python docs/build_studies.py flights adult` makes only these sections anew, and the table of items.

Every number on that page comes from a run. The words about the numbers come from the `Study` objects, and the
opening of the page from `INTRO`.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from makewhole import studies
from makewhole.studies import paper
from makewhole.studies.claims import Claim
from makewhole.studies.study import StudyResult

DOCS = Path(__file__).parent
INTRO = """\
# The studies

The figures and claims of Zhao & Ermon (2021), on real data. This page is written by `make figures`, which
takes about a quarter of an hour on two cores. If you have only the paper at hand, start with
[the table of everything that it states](#the-paper-item-by-item): the table says where each item is judged.

**What a box says.** Above each verdict is the sentence of the paper that it judges, word for word, with its
section. Below it are what we measured, in which setting and with how many seeds, the numbers, and what would
change the verdict. The paper's setting comes first. Where a choice of ours changes the result, ours stands
beside it. What the paper does not claim is in a table at the end of each section, and is marked as ours.

**How a verdict is reached.** Brackets are 95 % intervals (Student's t) over seeds. A claim *holds* if every
comparison that it consists of has an interval above 0. It *fails* if one has an interval below 0, with the 5
% shared among the comparisons. Otherwise it is *undecided*. Each claim is judged by itself, with no allowance
for their number. Each study says what its seeds draw. Where the data are the same for all seeds, an interval
says nothing about other data, so the same claims are judged again on other data.

The paper's own alternatives to its Algorithm 3 (swap) are no correction (none) and follow-the-leader (naive).
Its "standard regret" is also follow-the-leader, by its Lemma 3 and in the authors' code. Gradient descent
(standard), deterministic swap and reserve are ours. Words such as "small" have numbers in
[`claims.py`](../src/makewhole/studies/claims.py), which the boxes repeat. Terms such as *cap*, *correction*,
*target*, *line* and *thaw* are in the [glossary](glossary.md).

To run a study with other settings: `makewhole study --help`. From Python, `studies.run` returns frames:

```python
>>> from makewhole import studies
>>> got = studies.run("flights", rounds=200, seeds=2, shares=[0.3], corrections=["swap"], jobs=1)
>>> got.claims.columns[:6]
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


# The data that a study's section shows, if not its own default, and the data and settings on which its claims
# are judged again: a heading, and the options of the run.
HERE: dict[str, dict[str, Any]] = {"flights": {"data": "southwest-2015"}}
_PAPERS = ["swap", "none", "naive"]
ELSEWHERE: dict[str, dict[str, dict[str, Any]]] = {
    "flights": {
        "Southwest 2015, the authors' code": {"data": "southwest-2015", "authors": True},
        "United 2013": {"corrections": _PAPERS},
        "United 2013, the authors' code": {"authors": True},
        "JetBlue 2013": {"airline": "B6", "corrections": _PAPERS},
    },
    "honesty": {
        "Southwest 2015, 10/45/45": {"data": "southwest-2015", "shares": [0.1], "corrections": ["swap"]},
    },
}
ITEMS_TITLE = "The paper, item by item"
_LABELS = {"mnist": "MNIST", "adult": "Adult", "flights": "Southwest 2015"}
_SOURCE = "../src/makewhole"


class Judged(NamedTuple):
    """A verdict as this page has it: the study, the claim's key or place in the paper, and the setting."""

    study: str
    name: str
    setting: str
    verdict: str


_NOTE = re.compile(r"<!-- judged ~ (.*?) ~ (.*?) ~ (.*?) ~ (.*?) -->")


def anchor(study: str, name: str) -> str:
    """The name of a claim's place on this page."""
    return f"{study}-{re.sub(r'[^a-z0-9]+', '-', name.lower()).strip('-')}"


def note(study: str, claim: Claim, *, beside: bool = False) -> str:
    """A claim's verdict for the table of items: invisible on the page."""
    name = paper.name_of(claim)
    setting = "ours" if beside else ""
    place = "" if beside else f'<a id="{anchor(study, name)}"></a>'
    return f"{place}<!-- judged ~ {study} ~ {name} ~ {setting} ~ {claim.verdict} -->"


def judge_link(claim: Claim) -> str:
    """A link to the function that judged a claim."""
    module, _, function = claim.judge.rpartition(".")
    return f"[{function}](../src/{module.replace('.', '/')}.py)"


def figure_link(claim: Claim) -> str:
    """A link to the figure that shows a claim."""
    return f"[figure](figures/{claim.figure}.png)" if claim.figure else ""


def row(*cells: str) -> str:
    """A row of a Markdown table."""
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def claim_row(study: str, claim: Claim) -> str:
    """A claim as a row of a Markdown table, with the paper's words below it."""
    text = f"{claim.text}<br>{claim.quote}" if claim.quote else claim.text
    verdict = f"**{claim.verdict}**{note(study, claim) if claim.quote else ''}"
    return row(text, claim.where, verdict, claim.numbers, figure_link(claim), judge_link(claim))


def box(study: str, claim: Claim, beside: Iterable[Claim], elsewhere: dict[str, Claim]) -> list[str]:
    """A claim of the paper: its words, what was measured, the numbers, the verdict, what would change it."""
    lines = ["", f"#### {claim.text[0].upper()}{claim.text[1:]}: {claim.verdict}", ""]
    lines += [f"> {claim.quote}{note(study, claim)}", ""]
    lines += [f"- *Measured:* {claim.measured}"]
    lines += [f"- *Setting:* {claim.setting}; {claim.seeds} seeds."]
    lines += [f"- *Numbers:* {claim.numbers}"]
    lines += [f"- *Verdict:* **{claim.verdict}**."]
    for other in beside:
        lines += [f"- *Beside it,* {other.setting}: **{other.verdict}**. {other.numbers}"]
        lines[-1] += note(study, other, beside=True)
    if elsewhere:
        verdicts = "; ".join(f"{name}: {other.verdict}" for name, other in elsewhere.items())
        lines += [f"- *Elsewhere:* {verdicts}."]
    lines += [f"- *What would change it:* {claim.change}"]
    lines += [f"- {' · '.join(filter(None, (figure_link(claim), f'judged by {judge_link(claim)}')))}"]
    return [line.replace("|", "&#124;") for line in lines]


def section(result: StudyResult, elsewhere: dict[str, StudyResult]) -> str:
    """A study as Markdown: why, a box per claim of the paper, a table of the others, and the figures."""
    study = result.study
    lines = [f"## {study.title}", "", study.why]
    first: dict[str, Claim] = {}
    for claim in result.judged:
        if claim.key:
            first.setdefault(claim.key, claim)
    for key, claim in first.items():
        beside = [c for c in result.judged if c.key == key and c is not claim]
        others = {
            name: other
            for name, got in elsewhere.items()
            for other in [c for c in got.judged if c.key == key][:1]
        }
        lines += box(study.name, claim, beside, others)
    rest = [claim for claim in result.judged if not claim.key]
    if rest:
        beyond = "### Beyond the paper" if first else "### The claims"
        lines += ["", beyond, "", f"{rest[0].seeds} seeds{_in_setting(rest)}.", ""]
        lines += ["| claim | where | verdict | numbers | shown in | judged by |", "|---|---|---|---|---|---|"]
        lines += [claim_row(study.name, claim) for claim in rest]
    lines += numbers_elsewhere(elsewhere)
    command = f"makewhole study {study.name} --seeds {study.seeds}"
    command += "".join(f" --{option} {value}" for option, value in HERE.get(study.name, {}).items())
    for label in result.files:
        picture = result.plan.pictures[label]
        lines += ["", f"### {picture.caption}", ""]
        lines += [f"> {picture.quote}", ""] if picture.quote else []
        lines += [f"![{picture.caption}](figures/{label}.png)", "", f"Rebuild it with `{command}`."]
    return "\n".join(lines) + "\n"


def _in_setting(claims: Sequence[Claim]) -> str:
    """The setting of all these claims, if they have the same one."""
    settings = {claim.setting for claim in claims}
    return f"; setting: {settings.pop()}" if len(settings) == 1 and "" not in settings else ""


def numbers_elsewhere(elsewhere: dict[str, StudyResult]) -> list[str]:
    """The same claims on other data and with other settings, folded."""
    lines = []
    for name, got in elsewhere.items():
        lines += ["", f"<details><summary>The same claims, {name}: all numbers</summary>", ""]
        lines += [f"{got.judged[0].seeds} seeds; setting: {got.judged[0].setting}.", ""]
        lines += ["| claim | verdict | numbers |", "|---|---|---|"]
        lines += [row(claim.text, claim.verdict, claim.numbers) for claim in got.judged]
        lines += ["", "</details>"]
    return lines


# --- the table of the paper's items -----------------------------------------------------------------------


def items_table(page: str) -> str:
    """Everything that the paper states, with the verdicts that the sections of this page have."""
    judged = [Judged(*found) for found in _NOTE.findall(page)]
    lines = [f"## {ITEMS_TITLE}", "", ITEMS_WORDS.format(number=len(paper.ITEMS)), ""]
    lines += ["| | item | section | in the paper's words | implemented in | judged in | verdict |"]
    lines += ["|---|---|---|---|---|---|---|"]
    for number, item in enumerate(paper.ITEMS, 1):
        places, verdicts = item_verdicts(item, judged)
        there = [file for file in item.files if (DOCS / _SOURCE / file).is_file()]
        files = "<br>".join(f"[{file}]({_SOURCE}/{file})" for file in there)
        lines.append(row(str(number), item.name, item.section, item.says, files, places, verdicts))
    return "\n".join(lines) + "\n"


ITEMS_WORDS = """\
All {number} statements, protocols, algorithms, propositions, lemmas, theorems, desiderata, figures, settings
and claims of the paper, in its order. A verdict comes from a run on this page: in the paper's setting first,
then with ĉ in [0, ½]. Where no run can decide, as for a definition, the last column says how we read it."""


def item_verdicts(item: paper.Item, judged: Sequence[Judged]) -> tuple[str, str]:
    """Where an item is judged, and with which verdicts: two cells with a line for each."""
    places, verdicts = [], []
    for name in item.judged:
        for one in (one for one in judged if paper.means(name, one.name)):
            labels = (_LABELS.get(one.study, ""), one.name, one.setting)
            link = f"[{', '.join(filter(None, labels))}](#{anchor(one.study, one.name)})"
            if link not in places:
                places.append(link)
                verdicts.append(f"**{one.verdict}**")
    if not places:
        return "", item.note or "no run judges it yet"
    return "<br>".join(places), "<br>".join(verdicts) + (f"<br>{item.note}" if item.note else "")


def run_elsewhere(name: str) -> dict[str, StudyResult]:
    """The study on its other data."""
    return {
        heading: studies.run(name, out=Path("out") / "elsewhere" / str(number), **options)
        for number, (heading, options) in enumerate(ELSEWHERE.get(name, {}).items())
    }


def main(names: Sequence[str]) -> None:
    """Run the studies, copy the figures, write the page; with names, only those sections are made anew."""
    (DOCS / "figures").mkdir(exist_ok=True)
    page = DOCS / "studies.md"
    kept = (
        dict(re.findall(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", page.read_text("utf-8"), re.M | re.S))
        if names
        else {}
    )
    parts = []
    for name in studies.STUDIES:
        title = studies.find(name).title
        if names and name not in names:
            parts.append(f"## {title}\n{kept[title]}".rstrip() + "\n")
            continue
        result = studies.run(name, out=Path("out"), **HERE.get(name, {}))
        for label, (png, _) in result.files.items():
            shutil.copyfile(png, DOCS / "figures" / f"{label}.png")
        parts.append(section(result, run_elsewhere(name)))
    parts = [INTRO, items_table("\n".join(parts)), *parts]
    page.write_text("\n".join(parts), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
