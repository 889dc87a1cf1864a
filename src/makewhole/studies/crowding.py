"""A market that is hard to block: who is still served when informed or hostile customers come first.

In every round attackers stake before the honest customers, as much as they may. Honest customers stake their
share on either side, and leave if the price is above what they would pay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from makewhole.arguments import Floats
from makewhole.insured.forecaster import InsuredForecaster
from makewhole.insured.refusals import StakeRefused
from makewhole.studies.claims import Claim, Verdict
from makewhole.studies.drawing import grid
from makewhole.studies.trading import WOULD_PAY

ROUNDS = 8_000
SEEDS = 10
SETTLED = 2_000  # by this round an attack by many names has had its effect
REGULARS, COMING = 50, 5  # honest customers, and how many of them come to one forecast
GAP = 0.1  # how far forecasts are off where informed customers know the true probability
SHARE = 0.1  # of the cap: what everybody stakes
ENOUGH = 0.9  # a market that serves a smaller share of its honest customers is not called open


class Moment(NamedTuple):
    """One forecast: its number, the probability of each class, what is true, and what will happen."""

    number: int
    mu: Floats
    true: Floats
    y: int


class Attack(NamedTuple):
    """Attackers: how many names they have, and on which class each of them stakes.

    `picks` is given the forecast and a name's number; it returns the class and the part of a share, 0 if that
    name does not stake. Honest customers are counted from round `after` on. `most` is the price above which
    attackers do not stake, if they mind.
    """

    names: int
    picks: Callable[[Moment, int], tuple[int, float]]
    after: int = 0
    most: float | None = None


def _right(moment: Moment, name: int) -> tuple[int, float]:
    """Stake on what will happen."""
    return moment.y, 1.0


def _informed(moment: Moment, name: int) -> tuple[int, float]:
    """Stake on the class that is most underestimated."""
    return int(np.argmax(moment.true - moment.mu)), 1.0


def _trickle(moment: Moment, name: int) -> tuple[int, float]:
    return moment.y, 0.1


def _returning(moment: Moment, name: int) -> tuple[int, float]:
    return moment.y, 1.0 if moment.number % 2_000 < 200 else 0.0


def _denier(moment: Moment, name: int) -> tuple[int, float]:
    """Win a line first; then stake a hundredth of the cap, so that no forecast is without a stake."""
    return moment.y, 1.0 if moment.number < 1_000 else 0.1


def _filler(moment: Moment, name: int) -> tuple[int, float]:
    """Ten names, spread over the classes: together they neither win nor lose, except for the price."""
    return (name + moment.number) % len(moment.mu), 1.0


def _invented(moment: Moment, name: int) -> tuple[int, float]:
    """One clairvoyant with many names, of which ten stake at a time."""
    return moment.y, 1.0 if (name - moment.number) % 30 < 10 else 0.0


ATTACKS = {
    "nobody": Attack(0, _right),
    "1 clairvoyant": Attack(1, _right),
    "3 clairvoyants": Attack(3, _right),
    "10 clairvoyants": Attack(10, _right, SETTLED),
    "20 clairvoyants": Attack(20, _right, SETTLED),
    "10 informed, by 0.1": Attack(10, _informed, SETTLED, GAP),
    "3 in a trickle": Attack(3, _trickle),
    "3 who return": Attack(3, _returning),
    "10 who deny a thaw": Attack(10, _denier, SETTLED),
    "10 who fill the cap": Attack(10, _filler),
    "30 invented names": Attack(30, _invented, SETTLED),
}


def moments(rounds: int, classes: int, *, informed: bool, seed: int) -> Iterator[Moment]:
    """Draw forecasts and outcomes; the forecasts are right, except where some customers know better."""
    draw = np.random.default_rng(seed)
    if classes == 2:
        p = draw.uniform(0.05, 0.95, rounds)
        true = np.column_stack([1.0 - p, p])
    else:
        true = draw.dirichlet(np.ones(classes), rounds)
    mu = true
    if informed:  # moved towards or away from one half, or towards the same chance for every class
        moved = np.clip(true[:, 1] + draw.choice([-GAP, GAP], rounds), 0.02, 0.98)
        mu = np.column_stack([1.0 - moved, moved]) if classes == 2 else (1.0 - GAP) * true + GAP / classes
    outcomes = (true.cumsum(axis=1) < draw.random((rounds, 1))).sum(axis=1)
    for t in range(rounds):
        yield Moment(t, mu[t], true[t], int(min(outcomes[t], classes - 1)))


def play(
    attack: str, caps: float, classes: int, seed: int, *, named: bool = True, rounds: int = ROUNDS
) -> dict[str, float]:
    """Play a book with this capital, in caps, against an attack; returns how honest customers fared.

    `served` is the share of them that staked, and `dearest` the highest price that one of them was asked.
    `taken` is what the attackers won and `lost` what the book lost, in caps.
    """
    who = ATTACKS[attack]
    f = InsuredForecaster(max_stake=1.0, capital=caps, classes=None if classes == 2 else classes)
    draw, asked, served, taken, dearest = np.random.default_rng([seed, 1]), 0, 0, 0.0, 0.0
    first = draw.integers(REGULARS, size=rounds)
    picks = draw.integers(classes, size=(rounds, COMING))
    signs = draw.choice([-SHARE, SHARE], size=(rounds, COMING))
    for moment in moments(rounds, classes, informed=who.picks is _informed, seed=seed):
        t = moment.number
        q = f.forecast(mu=moment.mu if classes > 2 else float(moment.mu[1]))
        places = []
        for name in range(who.names):
            k, part = who.picks(moment, name)
            if part:
                by = f"attacker {name}" if named else None
                places.append(_take(f, q, k, part * SHARE, by, who.most))
        for place in range(COMING):
            by = f"customer {(first[t] + 9 * place) % REGULARS}" if named else None
            done = _take(f, q, int(picks[t, place]), float(signs[t, place]), by, WOULD_PAY)
            if t >= min(who.after, rounds // 2):
                asked, served = asked + 1, served + (done is not None)
                if t % 20 == 0:
                    dearest = max(dearest, float(np.max(f.quote(q, by=by).c)))
        payments = f.settle(q, moment.y)
        taken += sum(payments[place] for place in places if place is not None)
    return {"served": served / asked, "dearest": dearest, "taken": taken, "lost": f.statement().total_loss}


def _take(f: Any, q: Any, k: int, amount: float, by: str | None, most: float | None) -> int | None:
    """Stake on a class, or on or against a binary event; returns the place, None if it was refused."""
    stake: Any = amount if k else -amount
    if f.classes is not None:
        stake = [0.0] * f.classes
        stake[k] = amount
    try:
        place: int = f.stake(q, stake, by=by, price=most)
    except StakeRefused:
        return None
    return place


# --- every case, for the study of the market --------------------------------------------------------------

NAME = "crowding"  # what the study calls these runs, beside its logs
SOME = ("nobody", "10 clairvoyants", "30 invented names")


class Siege(NamedTuple):
    """An attack on a book of this many caps and classes; `named` if customers give their names."""

    attack: str
    caps: int
    classes: int = 2
    named: bool = True


CASES = (
    *(Siege(attack, caps) for caps in (100, 150) for attack in ATTACKS),
    *(Siege(attack, 100, classes) for classes in (3, 10) for attack in SOME),
    *(Siege(attack, 100, named=False) for attack in ("nobody", "1 clairvoyant", "10 clairvoyants")),
)


def play_all(seed: int, rounds: int) -> dict[Siege, dict[str, float]]:
    """Play every case with one seed."""
    return {
        case: play(case.attack, case.caps, case.classes, seed, named=case.named, rounds=rounds)
        for case in CASES
    }


def judge(results: list[dict[Siege, dict[str, float]]]) -> list[Claim]:
    """Whether honest customers are served after each attack on a book of 100 or 150 caps."""
    made = []
    for attack in ATTACKS:
        served = {
            caps: [one[Siege(attack, caps)]["served"] for one in results if Siege(attack, caps) in one]
            for caps in (100, 150)
        }
        verdict: Verdict = "holds" if min(min(each) for each in served.values()) >= ENOUGH else "fails"
        numbers = "; ".join(
            f"{caps} caps: mean {np.mean(each):.3f}, least {min(each):.3f}" for caps, each in served.items()
        )
        text = f"against {attack}, nine in ten honest bets are served, with every seed"
        made.append(Claim(text, "ours", verdict, numbers, "crowding"))
    return made


def draw(results: list[dict[Siege, dict[str, float]]]) -> Any:
    """Draw the share of honest bets that are served after every attack; the title says which ones block."""
    least = {case: min(one[case]["served"] for one in results) for case in CASES}
    main = [case for case in CASES if case.classes == 2 and case.named]
    blocked = [a for a in ATTACKS if min(least[c] for c in main if c.attack == a) < ENOUGH]
    worst = min(least[case] for case in main if case.attack not in blocked)
    title = f"Honest customers are still served after an attack: {worst:.0%} of their bets or more"
    if blocked:
        title += f",\nbut not against {' and '.join(blocked)}"
    figure, axes = grid(1, 1, 9.0, 0.9 + 0.3 * len(CASES), title)
    ax = axes[0, 0]
    for y, case in enumerate(CASES):
        values = [one[case]["served"] for one in results]
        ax.plot([min(values), max(values)], [y, y], color="0.6", linewidth=2, zorder=1)
        ax.plot(np.mean(values), y, "o", color="C0" if min(values) >= ENOUGH else "C3", zorder=2)
        ax.text(1.02, y, f"{np.mean(values):.1%}", va="center", fontsize=8)
    ax.set_yticks(range(len(CASES)), [_label(case) for case in CASES], fontsize=8)
    ax.invert_yaxis()
    ax.set_xlim(-0.02, 1.12)
    ax.set_xlabel(f"share of honest bets served: mean and range over {len(results)} seeds")
    return figure


def _label(case: Siege) -> str:
    classes = f", {case.classes} classes" if case.classes > 2 else ""
    return f"{case.attack} ({case.caps} caps{classes}{'' if case.named else ', no names'})"
