"""Totals: what is counted, when the statement speaks up, and a watch that ends with the first wild loss."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import makewhole as mw
from makewhole import rules
from makewhole.insured.journal import Journal
from makewhole.insured.totals import Totals, read_totals


def totals_of(**fields: Any) -> Totals:
    """Totals with these fields; the others as at the start."""
    made = Totals()
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def fields_of(totals: Totals) -> dict[str, Any]:
    """All fields by name."""
    return dict(zip(Totals.changing, Totals.values(totals), strict=True))


def test_every_settled_forecast_is_counted_once_and_can_be_undone() -> None:
    journal, totals = Journal(), Totals()
    start = Totals.values(totals)
    assert start[:7] == (0, 0, 0, 0, 0, 0.0, 0.0)
    journal.keep(totals)
    totals.settle(Journal(), loss=0.5, rest=0.0, turnover=2.0, bets=3, c=-0.25, loss_range=4.0)
    one = Totals.values(totals)
    assert one[:7] == (1, 0, 3, 1, 0, 2.0, 0.5)
    journal.keep(totals)
    totals.settle(Journal(), loss=-1.5, rest=0.0, turnover=0.25, bets=1, c=0.125, loss_range=4.0)
    assert Totals.values(totals)[:7] == (2, 0, 4, 1, 0, 2.25, -1.0)
    journal.undo(1)
    assert Totals.values(totals) == one
    journal.undo()
    assert Totals.values(totals) == start


def test_voided_forecasts_are_counted_and_change_nothing_else() -> None:
    f = mw.InsuredForecaster(max_stake=1)
    f.settle(f.forecast(mu=0.5), 1, stake=1.0)
    before = fields_of(f.book.everyone.totals)
    for _ in range(2):
        q = f.forecast(mu=0.5)
        f.stake(q, 0.5)
        f.void(q)
    assert fields_of(f.book.everyone.totals) == before | {"voided": 2}


def test_forecasts_without_a_stake_are_idle_until_the_next_with_one() -> None:
    totals = Totals()
    for turnover, idle in [(0.0, 1), (0.0, 2), (1e-300, 0), (0.0, 1), (3.0, 0)]:
        totals.settle(Journal(), 0.0, 0.0, turnover, int(turnover > 0), c=0.125, loss_range=1.0)
        assert totals.idle == idle


@pytest.mark.slow
def test_the_total_is_the_exact_sum_of_all_losses_but_for_a_rounding() -> None:
    draw = np.random.default_rng(0)
    totals, exact, naive, peak = Totals(), Fraction(0), 0.0, Fraction(0)
    for t in range(1, 20_000):
        loss = float(draw.choice([1e6, -1e6, 0.1, -0.3, 2**-60]))
        rest = float(draw.choice([0.0, 2**-75]))
        totals.settle(Journal(), loss, rest, 1.0, 1, c=0.125, loss_range=1e6)
        exact += Fraction(loss) + Fraction(rest)
        naive += loss + rest
        peak = max(peak, abs(exact), Fraction(10**6))
        error = abs(Fraction(totals.total) + Fraction(totals.low) - exact)
        assert error <= 2 * t * Fraction(2) ** -104 * peak
        assert abs(totals.low) <= math.ulp(float(peak))
        assert abs(Fraction(totals.loss) - exact) <= Fraction(math.ulp(totals.loss))
    assert abs(Fraction(naive) - exact) > 1000 * error  # a plain sum is far off


def test_many_forecasts_without_a_stake_are_the_same_as_one_after_the_other() -> None:
    one, many = Totals(), Totals()
    for totals in (one, many):
        totals.settle(Journal(), 0.3, 0.0, 1.0, 1, c=0.125, loss_range=1.0)
    widths = np.random.default_rng(0).normal(0, 0.1, 50).tolist()
    for c in widths:
        one.settle(Journal(), 0.0, 0.0, 0.0, 0, c=c, loss_range=1.0)
    many.settle_unstaked(widths, None)
    assert fields_of(many) == fields_of(one)
    three = Totals()
    three.settle_unstaked([-0.25, 0.25, -0.25], None)
    wanted = totals_of(rounds=3, negative=2, idle=3, money=None, width=0.75)
    assert fields_of(three) == fields_of(wanted)


def test_a_book_says_how_wide_its_forecasts_were() -> None:
    f = mw.InsuredForecaster(None, mw.Reserve(0.5), max_stake=1, c_range=(0.0, 0.0))
    assert f.statement().mean_size_of_c is None
    seen = []
    for y in (1, 0, 0, 1, 1):
        q = f.forecast(mu=0.5)
        seen.append(abs(q.c))
        f.settle(q, y, stake=1.0)
    assert min(seen) < max(seen)
    assert f.statement().mean_size_of_c == pytest.approx(np.mean(seen))
    assert "mean |c|" in str(f.statement())
    state = f.to_state()
    again = mw.InsuredForecaster.from_state(state)
    assert again.statement().mean_size_of_c == f.statement().mean_size_of_c
    del state["book"]["everyone"]["totals"]["width"]
    with pytest.raises(ValueError, match="the state is damaged: KeyError"):
        mw.InsuredForecaster.from_state(state)


def test_with_classes_it_is_the_mean_over_them() -> None:
    f = mw.InsuredForecaster(None, mw.Reserve(0.1), max_stake=1, classes=3, mode="sound")
    widths = []
    for _ in range(4):
        q = f.forecast(mu=[0.2, 0.3, 0.5])
        widths.append(np.mean(q.c))
        f.settle(q, 2, stake=[-1.0, 0.0, 1.0])
    assert f.statement().mean_size_of_c == pytest.approx(np.mean(widths))


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_loss_beyond_the_range_ends_the_watch_and_one_at_its_end_does_not(sign: float) -> None:
    totals = Totals()
    totals.settle(Journal(), sign * 2.0, 0.0, 1.0, 1, c=0.125, loss_range=2.0)
    assert fields_of(totals)["surprises"] == 4.0
    totals.settle(Journal(), sign * 2.1, 0.0, 1.0, 1, c=0.125, loss_range=2.0)
    assert totals.surprises is None
    assert totals.mean_loss_interval(2.0) is None
    totals.settle(Journal(), 0.0, 0.0, 1.0, 1, c=0.125, loss_range=2.0)
    assert totals.surprises is None
    assert totals.total == pytest.approx(sign * 4.1)
    assert fields_of(read_totals(fields_of(totals), 1.0, 2.0)) == fields_of(totals)


@pytest.mark.parametrize(("idle", "bets", "said"), [(99, 1, False), (100, 1, True), (100, 0, False)])
def test_a_book_speaks_up_after_a_hundred_forecasts_without_a_stake_if_it_ever_had_one(
    idle: int, bets: int, said: bool
) -> None:
    notes = totals_of(bets=bets, idle=idle).notes()
    assert any("nobody has staked on the last" in note for note in notes) == said
    assert len(notes) == said


def test_negative_prices_are_noted() -> None:
    assert totals_of(negative=0).notes() == []
    (note,) = totals_of(negative=1200).notes()
    assert note.startswith("1,200 forecasts had c < 0")


def test_the_last_to_leave_takes_all_rounding_along() -> None:
    assert rules.released(0.1 + 0.2, 0.1, still_open=1) == pytest.approx(0.2)
    assert rules.released(0.1 + 0.2, 0.4, still_open=1) == 0.0  # never below nothing
    assert rules.released(0.1 + 0.2 - 0.1, 0.1, still_open=0) == 0.0


def test_totals_come_back_from_plain_data_and_wrong_numbers_are_refused() -> None:
    counts = totals_of(rounds=5, voided=1, bets=2, negative=3, idle=4, turnover=0.5)
    saved = fields_of(counts) | {"total": -0.25, "low": 2**-60, "surprises": 0.03}
    assert fields_of(read_totals(saved, 0.1, 0.05)) == saved  # five times as much is the most
    for name in ("rounds", "voided", "bets", "negative", "idle"):
        with pytest.raises(ValueError, match=f"{name} must be a whole number of at least 0; got -1"):
            read_totals(saved | {name: -1}, 0.1, 0.05)
        with pytest.raises(ValueError, match=f"{name} must be at most 9,007,199,254,740,992"):
            read_totals(saved | {name: 2**53 + 1}, 0.1, 0.05)
    for wrong in ({"surprises": -1e-9}, {"surprises": 0.2}, {"total": float("nan")}, {"low": [0.0, 1.0]}):
        with pytest.raises(ValueError, match="must"):
            read_totals(saved | wrong, 0.1, 0.05)
    for wrong in ({"turnover": 0.51}, {"turnover": -0.1}, {"total": 0.26}, {"total": -0.26}, {"low": 1e300}):
        with pytest.raises(ValueError, match="must lie in"):
            read_totals(saved | wrong, 0.1, 0.05)
    assert read_totals(saved | {"total": 1e9, "surprises": None}, 0.1, 0.05).total == 1e9


def test_what_one_forecast_can_lose_is_never_more_than_the_watch_allows_for() -> None:
    """The worst that can be played: c at one end of all it can be, and the target at the other."""
    for kind in (mw.NaiveBestResponse, lambda: mw.StandardRegret(1.0), lambda: mw.DeterministicSwap(3)):
        f = mw.InsuredForecaster(None, kind(), max_stake=3, c_range=(-0.5, 0.5))
        for t in range(200):
            y = int(t // 20 % 2 == 0)
            q = f.forecast(mu=1.0 - y, c_hat=0.5 if t % 40 < 20 else -0.5)
            f.settle(q, y, stake=3.0 if y else -3.0)
            f.settle(f.forecast(mu=float(y), c_hat=-0.5), y, stake=-3.0 if y else 3.0)
        assert f.statement().mean_loss_interval is not None
