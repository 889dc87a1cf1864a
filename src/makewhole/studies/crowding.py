"""A market that is hard to block: who is still served when informed or hostile customers come first.

In every round attackers stake before the honest customers, as much as they may. Honest customers stake their
share on either side, and leave if the price is above what they would pay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from makewhole.insured.forecaster import InsuredForecaster
from makewhole.insured.refusals import StakeRefused
from makewhole.studies.trading import WOULD_PAY

ROUNDS = 8_000
REGULARS = 50
COMING = 5  # honest customers who come to one forecast
SPREAD = 0.1  # how far the true probability lies from the forecast, where informed customers know it


class Offer(NamedTuple):
    """One forecast: its probabilities, those that are true, and the outcome."""

    round: int
    mu: np.ndarray
    true: np.ndarray
    y: int


class Attack(NamedTuple):
    """Attackers: how many names they have, and which stake each of them wants, in shares of the cap.

    `wants` is given the round, a name's number and the forecast; None if it does not stake. `after` is the
    round from which honest customers are counted: after the attack has had its effect.
    """

    names: int
    wants: Callable[[Offer, int], np.ndarray | None]
    after: int = 0


def _right(offer: Offer, name: int) -> np.ndarray:
    """Stake on what will happen."""
    return _on(offer, offer.y)


def _on(offer: Offer, k: int) -> np.ndarray:
    stake = np.zeros(len(offer.mu))
    stake[k] = 1.0
    return stake


def _informed(offer: Offer, name: int) -> np.ndarray | None:
    """Stake on the class that is most underestimated."""
    return _on(offer, int(np.argmax(offer.true - offer.mu)))


def _trickle(offer: Offer, name: int) -> np.ndarray:
    return 0.1 * _right(offer, name)


def _returning(offer: Offer, name: int) -> np.ndarray | None:
    return _right(offer, name) if offer.round % 2_000 < 200 else None


def _denier(offer: Offer, name: int) -> np.ndarray:
    """Win the line first; then stake a hundredth, so that a thaw finds no forecast without a stake."""
    return _right(offer, name) * (1.0 if offer.round < 1_000 else 0.1)


def _filler(offer: Offer, name: int) -> np.ndarray:
    """Ten names, half of them on the one side and half on the other: together they neither win nor lose."""
    return _on(offer, (name + offer.round) % len(offer.mu))


def _invented(offer: Offer, name: int) -> np.ndarray | None:
    """One clairvoyant with many names, of which ten stake at a time."""
    return _right(offer, name) if (name - offer.round) % 30 < 10 else None


ATTACKS = {
    "none": Attack(0, _right),
    "1 clairvoyant": Attack(1, _right),
    "3 clairvoyants": Attack(3, _right),
    "10 clairvoyants": Attack(10, _right, after=2_000),
    "20 clairvoyants": Attack(20, _right, after=2_000),
    "10 informed": Attack(10, _informed, after=2_000),
    "a trickle": Attack(3, _trickle),
    "returning": Attack(3, _returning),
    "thaw-denier": Attack(10, _denier, after=2_000),
    "cap-filler": Attack(10, _filler),
    "30 invented names": Attack(30, _invented, after=2_000),
}


def offers(rounds: int, classes: int, *, informed: bool, seed: int) -> Iterator[Offer]:
    """Draw forecasts and outcomes; the forecasts are right, except where some customers know better."""
    draw = np.random.default_rng(seed)
    for t in range(rounds):
        true = draw.dirichlet(np.ones(classes)) if classes > 2 else _pair(draw.uniform(0.05, 0.95))
        mu = true
        if informed:
            gap = draw.choice([-SPREAD, SPREAD])
            mu = _pair(min(max(true[1] + gap, 0.02), 0.98)) if classes == 2 else _moved(true, abs(gap))
        yield Offer(t, mu, true, int(draw.choice(classes, p=true)))


def _pair(p: float) -> np.ndarray:
    return np.array([1.0 - p, p])


def _moved(true: np.ndarray, part: float) -> np.ndarray:
    return (1.0 - part) * true + part / len(true)


def play(attack: str, caps: float, classes: int, seed: int, *, named: bool = True) -> dict[str, float]:
    """Play one book of this many caps of capital against an attack; returns how honest customers fared.

    `served` is their share that staked, and `dearest` the highest price that one of them was asked;
    `taken` is what the attackers won, in caps.
    """
    who = ATTACKS[attack]
    f = InsuredForecaster(max_stake=1.0, capital=caps, classes=None if classes == 2 else classes)
    share = 0.1 if f.lines is None else f.lines.share
    draw, asked, served, taken, dearest = np.random.default_rng([seed, 1]), 0, 0, 0.0, 0.0
    for offer in offers(ROUNDS, classes, informed=attack == "10 informed", seed=seed):
        q = f.forecast(mu=offer.mu if classes > 2 else float(offer.mu[1]))
        places = []
        for name in range(who.names):
            wanted = who.wants(offer, name)
            if wanted is not None:
                places.append(_take(f, q, share * wanted, f"attacker {name}" if named else None))
        for name in draw.choice(REGULARS, COMING, replace=False):
            k, sign = int(draw.integers(classes)), float(draw.choice([-1.0, 1.0]))
            by = f"customer {name}" if named else None
            if offer.round >= who.after:
                asked += 1
                dearest = max(dearest, float(np.max(f.quote(q, by=by).c)))
                served += _take(f, q, sign * share * _on(offer, k), by, WOULD_PAY) is not None
            else:
                _take(f, q, sign * share * _on(offer, k), by, WOULD_PAY)
        payments = f.settle(q, offer.y)
        taken += sum(payments[place] for place in places if place is not None)
    return {"served": served / asked, "dearest": dearest, "taken": taken, "lost": f.statement().total_loss}


def _take(f: Any, q: Any, stake: np.ndarray, by: str | None, most: float | None = None) -> int | None:
    """Place a stake on the classes, or on a binary event; returns its place, None if it was refused."""
    amount = stake if f.classes is not None else float(stake[1] - stake[0])
    try:
        place: int = f.stake(q, amount, by=by, price=most)
    except StakeRefused:
        return None
    return place
