"""Reserves held against swap at the same mean |c|: the books, the choice of the rate, and the verdicts."""

from typing import Any

import numpy as np
import pytest

import makewhole as mw
from makewhole.studies import flights_claims, nearness
from makewhole.studies.lineup import make_correction
from makewhole.studies.nearness import RESERVES, SWAP, Seen


def results(widths: dict[str, float], losses: dict[str, float]) -> list[dict[str, Any]]:
    """Three seeds of one log with these mean |c| and |mean losses|; of the others both are far off."""
    return [
        {
            "log": "coins",
            "nearness": {
                (length, who, name): Seen(
                    losses.get(name, 1e-9) * (1 + seed / 50), widths.get(name, 10.0 + i)
                )
                for length in nearness.LENGTHS
                for who in nearness.KNOWN
                for i, name in enumerate((SWAP, *RESERVES))
            },
        }
        for seed in range(3)
    ]


def test_the_rate_is_chosen_by_c_and_not_by_the_loss() -> None:
    quick, *_, slow = RESERVES
    widths = {SWAP: 0.05, slow: 0.051, quick: 0.4}
    claims = nearness.reserve_is_nearer(results(widths, {SWAP: 0.01, slow: 0.02, quick: 1e-6}))
    assert {claim.verdict for claim in claims} == {"fails"}  # the quick one is nearer, but at another |c|
    assert all(f"0.5 [0.5, 0.5] ({slow}, mean |c| 0.051" in claim.numbers for claim in claims)
    nearer = nearness.reserve_is_nearer(results(widths, {SWAP: 0.01, slow: 0.005, quick: 1.0}))
    assert {claim.verdict for claim in nearer} == {"holds"}
    assert len(nearer) == len(nearness.LENGTHS) * len(nearness.KNOWN)


def test_rates_with_about_the_same_c_are_told_of() -> None:
    one, two, three, *_ = RESERVES
    widths = {SWAP: 0.05, one: 0.0501, two: 0.0499, three: 0.051}
    losses = {SWAP: 0.01, one: 0.001, two: 0.005, three: 0.002}
    assert "2 to 10 at rates within 5%" in nearness.reserve_is_nearer(results(widths, losses))[0].numbers


@pytest.mark.parametrize("name", [SWAP, "reserve 0.1"])
def test_a_book_is_what_a_forecaster_in_exact_mode_makes_of_it(name: str) -> None:
    draw = np.random.default_rng(5)
    log = {
        "mu": draw.uniform(0, 1, 300),
        "c_hat": draw.uniform(0, 0.2, 300),
        "y": (draw.random(300) < 0.5).astype(np.float64),
        "stake": draw.uniform(-1, 1, 300),
    }
    book = nearness._book(log, 200, 0.5, draw)
    known = book["stake"] == np.where(book["y"] == 1, 1.0, -1.0)
    assert 60 < known.sum() < 140
    c_range = (float(book["c_hat"].min()), float(book["c_hat"].max()))
    correction = mw.Reserve(0.1) if name != SWAP else make_correction(SWAP, 200, c_range, 3)
    terms: Any = {"mode": "exact", "max_stake": 1.0, "c_range": c_range, "lines": None, "thaw": None}
    f = mw.InsuredForecaster(None, correction, **terms)
    lost = width = 0.0
    for mu, c_hat, y, stake in zip(*(book[k].tolist() for k in ("mu", "c_hat", "y", "stake")), strict=True):
        q = f.forecast(mu=mu, c_hat=c_hat)
        width += abs(float(q.c))
        f.stake(q, stake)
        lost += sum(f.settle(q, int(y)))
    assert nearness._run(name, book, 3) == pytest.approx((abs(lost) / 200, width / 200))


def test_that_fewer_cautious_fly_would_be_seen() -> None:
    runs = [
        {"share": 0.5, "correction": name, "seed": seed, "rounds": np.array([1]), **means}
        for seed in range(3)
        for name, means in (
            ("swap", {"mean_flying": 90.0 + seed, "mean_price": 120.0 + 2 * seed}),
            (flights_claims.UNINSURED, {"mean_flying": 100.0, "mean_price": 100.0}),
        )
    ]
    fly, price = flights_claims.more_demand(runs)
    assert (fly.verdict, price.verdict) == ("fails", "holds")
