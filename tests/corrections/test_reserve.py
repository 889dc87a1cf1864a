"""Reserve, sound mode, certificates: adversaries who know everything search for a violation."""

import contextlib
import functools
import math
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import makewhole as mw
from makewhole.corrections import Terms, _kernels
from makewhole.corrections._kernels import HELPERS, reserve_observe, reserve_propose
from makewhole.jit import jit
from makewhole.rules import Publishing, balance, publish
from samples import replay, rounds_of, step


@settings(max_examples=80)
@given(st.lists(step, max_size=60), st.sampled_from([0.1, 0.5, 1.0]), st.floats(0, 0.3), st.floats(0, 0.3))
def test_theorem_a_in_exact_mode_the_total_is_bounded_on_both_sides(
    moves: list[Any], rate: float, low: float, width: float
) -> None:
    c_range = (low, low + width)
    f = mw.InsuredForecaster(None, mw.Reserve(rate), max_stake=1, c_range=c_range)
    bound = (-(1 + c_range[1]) / rate, (1 - c_range[0]) / rate)
    assert f.statement().certificate.bound == pytest.approx(bound[1])
    rounds_of(f, moves, c_range, bound)


@settings(max_examples=80)
@given(st.lists(step, max_size=60), st.sampled_from([0.1, 0.3, 0.5]), st.floats(-0.2, 0.3), st.floats(0, 0.5))
def test_theorem_b_in_sound_mode_the_total_stays_under_the_certificate(
    moves: list[Any], rate: float, low: float, width: float
) -> None:
    c_range = (low, low + width)
    f = mw.InsuredForecaster(None, mw.Reserve(rate), mode="sound", max_stake=1, c_range=c_range)
    start = f.corrections[0].propose().lam  # raised to the floor where that is above 0
    bound = (0.5 - c_range[0] - start) / rate
    if start == 0:
        assert f.statement().certificate.bound == pytest.approx(bound)
    rounds_of(f, moves, c_range, (-math.inf, max(bound, 0.0)))


@settings(max_examples=40)
@given(st.lists(step, max_size=60), st.sampled_from([0.2, 1.0]))
def test_one_sided_the_total_is_bounded_as_in_theorem_a(moves: list[Any], rate: float) -> None:
    f = mw.InsuredForecaster(
        None, mw.Reserve(rate), mode="sound", max_stake=1, c_range=(0.0, 0.2), one_sided=True
    )
    assert f.statement().certificate.bound == pytest.approx(1 / rate)
    rounds_of(f, moves, (0.0, 0.2), (-1.2 / rate, 1 / rate))


@settings(max_examples=60)
@given(st.lists(step, max_size=80), st.sampled_from([0.1, 0.5, 1.0]), st.floats(0, 0.3))
def test_with_falling_steps_the_total_grows_no_faster_than_the_root_of_their_number(
    moves: list[Any], rate: float, width: float
) -> None:
    f = mw.InsuredForecaster(None, mw.StandardRegret(rate), max_stake=1, c_range=(0.0, width))
    for t, move in enumerate(moves, 1):
        bound = (2 + width) * math.sqrt(t) / rate
        rounds_of(f, [move], (0.0, width), (-bound, bound))
    assert f.statement().certificate.bound is None
    assert "grows like √T" in f.statement().certificate.theorem


@given(st.floats(0, 1), st.floats(-0.5, 0.7), st.floats(-2, 2), st.booleans())
def test_sound_mode_publishes_honest_intervals_and_the_target_is_the_loss(
    mu_hat: float, c_hat: float, lam: float, integrates: bool
) -> None:
    mu, c, origin = publish(mu_hat, c_hat, lam, Publishing(False, True, integrates), 0.0)
    assert 0 <= c <= 0.5
    assert mu - c >= -1e-15
    assert mu + c <= 1 + 1e-15
    for y, b in ((0, 1.0), (1, 1.0), (0, -1.0), (1, -1.0)):
        loss, target, weight = balance(mu, c, origin, float(y), b, abs(b), 1.0)
        assert loss <= 1 - 2 * c + 1e-12
        if integrates:  # exactly what was lost
            assert weight * (target - lam) == pytest.approx(loss, abs=1e-12)
        else:  # never less than was lost, and in range
            assert weight * (target - lam) >= loss - 1e-12


def test_a_clairvoyant_takes_all_but_two_percent_of_the_certificate() -> None:
    f = mw.InsuredForecaster(None, mw.Reserve(0.001), mode="sound", max_stake=1)
    for _ in range(30_000):
        q = f.forecast(mu=0.5)
        f.settle(q, 1, stake=1.0)
    assert f.statement().certificate.bound == 500.0
    assert 490.0 < f.statement().total_loss <= 500.0
    assert f.statement().capital_used == pytest.approx(1.0, abs=0.02)


# --- ten million rounds against compiled adversaries ------------------------------------------------------


def make_siege(sources: int) -> Callable[..., Any]:
    """A game in which outcome, sign, size and ĉ are chosen knowing λ; returns the largest total ever."""

    def siege(
        values: Any, marks: Any, kind: int, rounds: int, rules: Any, c_low: float, c_high: float
    ) -> Any:
        total, most, least = 0.0, 0.0, 0.0
        if sources < 0:
            return most, least, total
        for t in range(rounds):
            noise = _kernels.scramble(t * 7919 + kind) / 4294967296.0
            proposal = reserve_propose(values, marks)
            c_hat = c_low if kind % 2 == 0 else c_low + noise * (c_high - c_low)
            mu_hat = 0.5 if kind < 4 else noise
            mu, c, origin = publish(mu_hat, c_hat, proposal[0], rules, 0.0)
            gross = 1.0 if kind % 3 != 1 else noise
            up = (
                kind in (0, 1, 4) or (kind == 2 and proposal[0] < 0.1) or (kind == 3 and (t // 1000) % 2 == 0)
            )
            if kind == 5:
                up = noise < 0.5
            y = 1.0 if mu < 0.5 else 0.0
            net = gross if (y == 1.0) == up else -gross
            loss, target, weight = balance(mu, c, origin, y, net, gross, 1.0)
            total += loss
            most, least = max(most, total), min(least, total)
            if weight > 0.0:
                reserve_observe(values, marks, proposal, target, weight, loss, 0.0)
        return most, least, total

    return siege


@functools.cache
def siege() -> Callable[..., Any]:
    return jit(make_siege(0), *HELPERS, reserve_propose, reserve_observe)


@pytest.mark.slow
@pytest.mark.parametrize("kind", range(6))
@pytest.mark.parametrize("c_range", [(0.0, 0.0), (0.0, 0.3)])
def test_no_adversary_breaks_the_bounds_in_ten_million_rounds(
    kind: int, c_range: tuple[float, float]
) -> None:
    rate = 0.003
    sound = mw.Reserve(rate).in_mode(Terms(1.0, c_range, sound=True))
    most, _, _ = siege()(*sound.arrays(), kind, 10_000_000, Publishing(False, True, True), *c_range)
    assert most <= 0.5 / rate + 1e-6
    exact = mw.Reserve(rate)
    most, least, _ = siege()(*exact.arrays(), kind, 10_000_000, Publishing(False, False, True), *c_range)
    assert -(1 + c_range[1]) / rate - 1e-6 <= least
    assert most <= 1 / rate + 1e-6


# --- capital, exposure, the guard -------------------------------------------------------------------------


@given(st.floats(1, 1e6), st.floats(0.01, 1e4))
def test_for_capital_round_trips(times: float, cap: float) -> None:
    capital = times * cap
    f = mw.InsuredForecaster(None, mw.Reserve.for_capital(capital, cap), mode="sound", max_stake=cap)
    assert f.statement().certificate.bound == pytest.approx(capital)
    assert f.statement().certificate.theorem == "Theorem B"


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.floats(0, 1), st.integers(0, 1), st.floats(-1, 1), st.integers(0, 5)), max_size=80)
)
def test_late_outcomes_add_no_more_than_the_exposure(moves: list[Any]) -> None:
    f = mw.InsuredForecaster(None, mw.Reserve(0.2), mode="sound", max_stake=1, max_exposure=3.0)
    open_: list[tuple[mw.Forecast, int]] = []
    for mu, y, b, wait in moves:
        q = f.forecast(mu=mu)
        with contextlib.suppress(mw.StakeRefused):
            f.stake(q, b)
        open_.append((q, y))
        assert f.statement().open_exposure <= 3.0 + 1e-9
        while len(open_) > wait:
            q, y = open_.pop(wait % len(open_))
            f.settle(q, y)
            assert f.statement().certificate.bound == pytest.approx(0.5 / 0.2 + 3.0)
            assert f.statement().total_loss <= 0.5 / 0.2 + 3.0 + 1e-9


def test_a_stake_beyond_the_exposure_is_refused_and_changes_nothing() -> None:
    f = mw.InsuredForecaster(None, mw.Reserve(0.1), mode="sound", max_stake=10, max_exposure=7.0)
    one, two = f.forecast(mu=0.5), f.forecast(mu=0.5)
    f.stake(one, 10.0)  # may lose 5
    with pytest.raises(mw.StakeRefused, match="open bets could lose 10; max_exposure is 7") as refused:
        f.stake(two, 10.0)
    assert refused.value.limit == pytest.approx(4.0)
    with pytest.raises(mw.StakeRefused):
        f.settle(two, 1, stake=10.0)
    f.stake(two, 4.0)
    f.stake(two, -4.0)  # this one takes risk away
    assert f.statement().open_exposure == pytest.approx(5.0)


@pytest.mark.parametrize("classes", [None, 3])
@pytest.mark.parametrize("make", [mw.NoCorrection, lambda: mw.SwapRegret(5, seed=0), lambda: mw.Reserve(0.5)])
def test_the_solvency_guard_makes_ruin_impossible_over_any_correction(make: Any, classes: int | None) -> None:
    draw = np.random.default_rng(0)
    f = mw.InsuredForecaster(
        None, make(), mode="sound", max_stake=10, capital=25.0, classes=classes, stop=False
    )
    open_: list[mw.Forecast] = []
    for t in range(400):
        q = f.forecast(mu=float(draw.uniform()) if classes is None else draw.dirichlet(np.ones(3)))
        open_.append(q)
        if t % 7 < 3:
            continue  # let several be open before anybody stakes
        for one in open_:
            y = int(draw.integers(classes or 2))
            certain: Any = y if classes is None else np.arange(3) == y
            worst = np.where(certain > one.mu, 10.0, -10.0)
            try:
                f.stake(one, arguments_of(worst))
            except mw.StakeRefused as refused:  # its price is no longer right: as much as is taken
                f.stake(one, arguments_of(worst * (0.999999 * refused.limit / np.abs(worst).sum())))
            f.settle(one, y)
        open_ = []
        assert f.statement().total_loss <= 25.0
    assert (f.statement().certificate.bound or math.inf) <= 25.0
    if make is mw.NoCorrection:
        assert f.statement().total_loss > 24.0  # it bites only at the end
        assert f.statement().certificate.theorem == "the solvency guard"


def arguments_of(stake: Any) -> Any:
    return float(stake) if np.ndim(stake) == 0 else stake


def test_the_guard_needs_honest_intervals() -> None:
    with pytest.raises(ValueError, match="capital can be guarded in sound mode only"):
        mw.InsuredForecaster(mode="exact", max_stake=1, capital=5)
    f = mw.InsuredForecaster(None, mw.NoCorrection(), max_stake=1, capital=2.5, one_sided=True, stop=False)
    for _ in range(50):
        f.settle(f.forecast(mu=0.1), 1, stake=1.0)
    assert 2.4 < f.statement().total_loss <= 2.5


# --- and the rest of a correction's life ------------------------------------------------------------------


@pytest.mark.parametrize("one_sided", [False, True])
@pytest.mark.parametrize(
    "make",
    [lambda: mw.Reserve(0.05), lambda: mw.SwapRegret(7, seed=1), mw.NaiveBestResponse, mw.StandardRegret],
)
def test_sound_backtests_are_the_forecasters_bit_for_bit(make: Any, one_sided: bool) -> None:
    draw = np.random.default_rng(0)
    log = pd.DataFrame(
        {"mu": draw.uniform(size=2000), "y": draw.integers(0, 2, 2000), "w": draw.uniform(0, 0.3, 2000)}
    )
    log["stake"] = np.abs(draw.normal(size=2000)) if one_sided else draw.normal(size=2000)
    options: dict[str, Any] = dict(
        mode="sound", max_stake=float(log["stake"].abs().max()), one_sided=one_sided
    )
    result = replay(log, c_hat="w", correction=make(), trace=True, **options)
    f = mw.InsuredForecaster(None, make(), **options)
    paid: list[float] = []
    for mu, y, w, b in log[["mu", "y", "w", "stake"]].itertuples(index=False):
        paid += f.settle(f.forecast(mu=mu, c_hat=w), int(y), stake=b)
    assert result.trace is not None
    assert result.trace["payment"].tolist() == paid
    assert result.correction == f.corrections[0]
    assert result.negative_c == 0


def test_a_reserve_is_a_correction_and_survives_a_restart(tmp_path: Path) -> None:
    mw.checks.check_correction(lambda: mw.Reserve(0.1))
    mw.checks.check_correction(lambda: mw.Reserve(0.1, start=0.2).in_mode(Terms(1.0, (0.0, 0.5), sound=True)))
    f = mw.InsuredForecaster(None, mw.Reserve(0.1), mode="sound", max_stake=2, max_exposure=9, capital=50)
    for t in range(30):
        f.settle(f.forecast(mu=0.4), t % 2, stake=1.0)
    f.stake(f.forecast(mu=0.5), 1.5)
    f.stake(f.forecast(mu=0.5), -1.0)
    f.save(tmp_path / "book.json")
    again = mw.InsuredForecaster.load(tmp_path / "book.json")
    assert again.statement() == f.statement()
    assert again.forecast(mu=0.3) == f.forecast(mu=0.3)


def make_march() -> Callable[..., Any]:
    """Random bets of all sizes; what was lost, added up without rounding errors (Neumaier), and naively."""

    def march(values: Any, marks: Any, rounds: int) -> Any:
        exact, lost_bits, naive = 0.0, 0.0, 0.0
        for t in range(rounds):
            noise = _kernels.scramble(t) / 4294967296.0
            proposal = reserve_propose(values, marks)
            mu, c, origin = publish(0.3, 0.0, proposal[0], Publishing(False, False, True), 0.0)
            size = _kernels.scramble(t + 7919) / 4294967296.0
            loss, target, weight = balance(mu, c, origin, 1.0 if noise < 0.6 else 0.0, size, size, 1.0)
            naive += loss
            together = exact + loss
            if abs(exact) >= abs(loss):
                lost_bits += (exact - together) + loss
            else:
                lost_bits += (loss - together) + exact
            exact = together
            reserve_observe(values, marks, proposal, target, weight, loss, 0.0)
        return exact + lost_bits, naive

    return march


@pytest.mark.slow
def test_over_a_hundred_million_steps_the_sum_of_losses_does_not_drift() -> None:
    values, marks = mw.Reserve(0.003).arrays()
    march = jit(make_march(), *HELPERS, reserve_propose, reserve_observe)
    exact, naive = march(values, marks, 100_000_000)
    assert 1 < abs(exact) < 1 / 0.003
    assert abs(exact - (values[3] + values[4])) < 1e-12  # two compensated sums of the same losses
    assert abs(exact - naive) > 1e-12  # a plain sum has drifted


def allowed(f: mw.InsuredForecaster, rate: float, start: float = 0.0) -> Fraction:
    """The bound, and what rounding may add to it (docs/theory.md)."""
    bound = Fraction(f.statement().certificate.bound or 0.0)
    largest = Fraction(max(1 - f.c_range[0], 1 + f.c_range[1], abs(start)))
    return bound + 32 * largest * Fraction(f.max_stake) / Fraction(rate) / 2**53


def paid_exactly(f: mw.InsuredForecaster, moves: Iterable[tuple[float, int, list[float]]]) -> Fraction:
    """The most that was ever paid in all, without any rounding; moves are (μ, y, stakes)."""
    total = most = Fraction(0)
    for mu, y, stakes in moves:
        q = f.forecast(mu=mu)
        for stake in stakes:
            f.stake(q, stake)
        total += sum(map(Fraction, f.settle(q, y)))
        most = max(most, total)
    said = f.statement().total_loss
    assert abs(Fraction(said) - total) <= math.ulp(said)  # what the statement says is what was paid
    return most


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rate", "start", "rounds"),
    [(0.003, 0.0, 40_000), (1.0, 0.0, 2_000), (0.3, -2.0, 5_000)],
)
def test_payments_added_up_without_rounding_stay_below_what_the_theory_page_allows(
    rate: float, start: float, rounds: int
) -> None:
    """A clairvoyant bets in full: near the end every step is far below what λ alone could hold."""
    f = mw.InsuredForecaster(None, mw.Reserve(rate, start), max_stake=1, c_range=(0.0, 0.0))
    most = paid_exactly(f, ((0.0, 1, [1.0]) for _ in range(rounds)))
    assert most <= allowed(f, rate, start)
    assert most > 0.5 * Fraction(f.statement().certificate.bound or 0.0)  # it was an attack


@pytest.mark.slow
def test_a_backtest_keeps_to_it_where_every_step_is_below_half_a_rounding_of_the_price() -> None:
    """η·ℓ/M is at most 5e-17 here, and λ nearly 1: added to λ itself, no step would have counted."""
    rate, start, rows = 1e-6, 1 - 5e-11, 4_000_000
    log = pd.DataFrame({"mu": np.zeros(rows), "y": np.ones(rows), "stake": np.ones(rows)})
    result = mw.backtest(log, correction=mw.Reserve(rate, start), max_stake=1.0, trace=True)
    assert result.trace is not None
    assert result.certificate is not None
    paid, bound = math.fsum(result.trace["payment"].tolist()), result.certificate.bound or 0.0
    assert bound == pytest.approx(5e-5, rel=1e-6)
    assert 0.9 * bound < paid <= bound + 32 * 2**-53 / rate
    assert result.total_loss == pytest.approx(paid, rel=1e-15)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["exact", "sound"])
@pytest.mark.parametrize("cap", [1.0, 0.7, 1e-100, 3e59])
def test_neither_many_stakes_nor_odd_caps_nor_tiny_bets_pass_it(mode: Any, cap: float) -> None:
    rate = 0.4
    f = mw.InsuredForecaster(None, mw.Reserve(rate), mode=mode, max_stake=cap, c_range=(0.0, 0.0))
    draw = np.random.default_rng(0)

    def moves() -> Iterator[tuple[float, int, list[float]]]:
        for t in range(3000):
            sizes = draw.dirichlet(np.full(9, 0.3)) * cap * 0.999 * (1.0 if t % 3 else 1e-17)
            yield float(draw.choice([0.0, 1e-20, 0.1, 0.5])), 1, sizes.tolist()

    assert paid_exactly(f, moves()) <= allowed(f, rate)


def test_with_classes_the_lines_lose_what_was_paid_to_the_last_digit() -> None:
    """A payment on classes is a rounded sum; what rounding changes must be in the books of some line."""
    f = mw.InsuredForecaster(None, mw.Reserve(0.2), max_stake=1, classes=3, c_range=(0.0, 0.0))
    draw, total = np.random.default_rng(1), Fraction(0)
    for _ in range(500):
        q = f.forecast(mu=draw.dirichlet([1.0, 1.0, 1.0]))
        for _ in range(3):
            f.stake(q, draw.uniform(-0.3, 0.3, 3))
        total += sum(map(Fraction, f.settle(q, int(draw.integers(3)))))
    booked = sum(Fraction(one.state()["losses"]) + Fraction(one.state()["low"]) for one in f.corrections)
    assert abs(booked - total) < Fraction(2) ** -90
    assert abs(Fraction(f.statement().total_loss) - total) < Fraction(2) ** -50


def test_stakes_below_half_a_rounding_are_counted_too() -> None:
    """300 million bets of 2⁻⁵⁴ caps once lost 2.8e-4 caps that no book knew of."""

    def drops(values: Any, marks: Any, rounds: int, stake: float) -> float:
        total = 0.0
        for _ in range(rounds):
            proposal = reserve_propose(values, marks)
            mu, c, origin = publish(0.5, 0.0, proposal[0], Publishing(False, True, True), 0.0)
            loss, target, weight = balance(mu, c, origin, 1.0, stake, stake, 1.0)
            total += loss * 2.0**60
            reserve_observe(values, marks, proposal, target, weight, loss, 0.0)
        return total * 2.0**-60

    values, marks = mw.Reserve(0.5, start=0.25).in_mode(Terms(1.0, (0.0, 0.0), True, False)).arrays()
    lost = jit(drops, *HELPERS, reserve_propose, reserve_observe)(values, marks, 20_000_000, 2.0**-54)
    assert lost > 1e-10
    assert values[3] + values[4] == pytest.approx(lost, rel=1e-12)


@pytest.mark.parametrize("capital", [None, 2.0], ids=["free", "guarded"])
@pytest.mark.parametrize(
    "make",
    [lambda: mw.Reserve(0.2), lambda: mw.Reserve(0.2, over=mw.StandardRegret())],
    ids=["alone", "over"],
)
def test_in_sound_mode_every_step_is_the_loss_also_where_c_was_raised_or_lowered(
    make: Callable[[], mw.Reserve], capital: float | None
) -> None:
    given: Any = {"mode": "sound", "max_stake": 4, "c_range": (0.0, 0.25), "capital": capital}
    f = mw.InsuredForecaster(None, make(), stop=False, **given)
    floor = -0.25 if f.corrections[0].over is None else -0.5
    draw, lam, total = np.random.default_rng(2), 0.0, 0.0
    raised = 0
    for _ in range(400):
        c_hat = float(draw.uniform(0, 0.25))
        q = f.forecast(mu=float(draw.uniform()), c_hat=c_hat)
        raised += bool(q.c > c_hat + lam + 1e-9)
        f.settle(q, int(draw.integers(2)), stake=float(draw.uniform(-4, 4)))
        loss = f.statement().total_loss - total
        total += loss
        lam = max(floor, lam + 0.2 * loss / 4)
        assert f.corrections[0].propose().lam == pytest.approx(lam, abs=1e-9)
    assert raised > 20


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: mw.Reserve(0.0), "rate must be one number above 0"),
        (lambda: mw.Reserve(1.5), "rate must be at most 1; got 1.5"),
        (lambda: mw.Reserve.for_capital(5, 10), "capital must be at least max_stake, 10; got 5"),
        (
            lambda: mw.InsuredForecaster(None, mw.Reserve(0.8), mode="sound", max_stake=1),
            "at most 0.5 in sound mode",
        ),
        (
            lambda: mw.InsuredForecaster(max_stake=1, max_exposure=-1),
            "max_exposure must be one number above 0",
        ),
    ],
)
def test_bad_settings_are_named(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_a_reserve_by_itself_moves_by_its_rate_times_what_was_lost() -> None:
    reserve = mw.Reserve(0.1)
    for target, weight, lam in ((0.5, 1.0, 0.05), (0.25, 0.5, 0.06), (-0.5, 1.0, 0.004)):
        reserve.observe(reserve.propose(), target, weight)  # λ + η·w·(x − λ)
        assert reserve.propose().lam == pytest.approx(lam)


def test_what_late_outcomes_add_is_as_in_the_theorem() -> None:
    """M·D·R/(1 − ηD), where R is the width of the range of λ; none where ηD is 1 or more."""
    terms = Terms(2.0, (0.1, 0.4))
    assert mw.Reserve(0.1).late_loss(terms, 3) == pytest.approx(2.0 * 3 * (0.9 + 1.4) / (1 - 0.3))
    assert mw.Reserve(0.5).late_loss(terms, 1) == pytest.approx(2.0 * 1 * (0.9 + 1.4) / (1 - 0.5))
    assert mw.Reserve(0.5).late_loss(terms, 2) is None
    assert mw.Reserve(0.5).late_loss(terms, 3) is None


def test_reserves_are_equal_where_all_they_were_given_and_have_learned_is() -> None:
    moved = mw.Reserve(0.1)
    moved.observe(moved.propose(), 0.5, 1.0)
    assert mw.Reserve(0.1) == mw.Reserve(0.1)
    over = mw.Reserve(0.1, over=mw.NaiveBestResponse())
    for other in (mw.Reserve(0.2), moved, over, mw.StandardRegret(0.1), mw.OverlappingReserve(0.1), "a"):
        assert mw.Reserve(0.1) != other
    assert mw.OverlappingReserve(0.1) == mw.OverlappingReserve(0.1)
    for another in (mw.OverlappingReserve(0.2), mw.Reserve(0.1), mw.NaiveBestResponse(), "a"):
        assert mw.OverlappingReserve(0.1) != another
