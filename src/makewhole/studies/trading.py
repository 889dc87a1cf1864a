"""One book against its customers: honest ones, who leave if the price is too high, and informed ones."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from makewhole.insured.forecaster import InsuredForecaster
from makewhole.insured.refusals import StakeRefused
from makewhole.studies.logs import Log

WOULD_PAY = 0.05  # an honest customer leaves if the price is above ĉ plus this
CUSTOMERS = 50


class Scene(NamedTuple):
    """The customers: a clairvoyant in the first `first` rounds, and in a share `later` of the others.

    Attackers use `names` names, and are right about the outcome with chance `right`. Honest customers come in
    a share `honest` of the other rounds.
    """

    first: int = 0
    later: float = 0.0
    names: int = 1
    right: float = 1.0
    honest: float = 1.0


def trade(f: InsuredForecaster, log: Log, scene: Scene, seed: int) -> dict[str, Any]:
    """Trade one book against these customers: who was served, what they paid, and what attackers took.

    `charged` is what all bets together cost above the model's own price, and `most_won` the most that they
    would have won at that price at any moment: a book that never loses more than D must charge at least
    most_won − D. `most_taken` is the most that one name had ever taken.
    """
    draw, served, asked = np.random.default_rng(seed), 0, 0
    total = peak = taken = premium = staked = fair = most_won = width = most_taken = 0.0
    won: dict[str, float] = {}
    rows = zip(*(log[k].tolist() for k in ("mu", "c_hat", "y", "stake")), strict=True)
    for t, (mu, c_hat, y, stake) in enumerate(rows):
        attacking = t < scene.first or draw.random() < scene.later
        q = f.forecast(mu=mu, c_hat=c_hat)
        width += abs(float(q.c))
        who = f"attacker {t % scene.names}" if attacking else f"customer {int(draw.integers(CUSTOMERS))}"
        own = f.quote(q, by=who)
        price, b = float(own.c), 0.0
        if attacking:
            hit = y if draw.random() < scene.right else 1.0 - y
            likely = scene.right if hit else 1.0 - scene.right  # her own probability of the event
            edge = (likely - float(own.mu)) * (1.0 if hit else -1.0) - price
            b = (1.0 if hit else -1.0) if edge > 1e-9 else 0.0
        elif stake and draw.random() < scene.honest:
            asked += 1
            b = stake if price <= WOULD_PAY + c_hat else 0.0
        if b:
            try:
                f.stake(q, b, by=who)
            except StakeRefused:
                b = 0.0
        paid = sum(f.settle(q, int(y)))
        own_mu = min(max(mu, c_hat), 1.0 - c_hat)  # what sound mode publishes if nothing is added to ĉ
        total, fair = total + paid, fair + b * (y - own_mu) - abs(b) * c_hat
        peak, most_won = max(peak, total), max(most_won, fair)
        won[who] = won.get(who, 0.0) + paid
        most_taken = max(most_taken, won[who])
        if attacking:
            taken += paid
        elif b:
            served += 1
            staked += abs(b)
            premium += b * (y - mu) - paid
    statement = f.statement()
    return {
        "served": served / asked if asked else float("nan"),
        "premium": premium / staked if staked else float("nan"),
        "taken": taken,
        "most_taken": most_taken,
        "worst": peak,
        "total_loss": total,
        "charged": fair - total,
        "most_won": most_won,
        "mean_size_of_c": width / len(log["y"]) if len(log["y"]) else float("nan"),
        "certified": statement.certificate.bound,
        "conceded": statement.conceded,
    }
