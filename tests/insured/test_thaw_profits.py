"""A thaw from past profits: the certificate does not grow by it, or says by how much."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, target
from hypothesis import strategies as st

import makewhole as mw
from makewhole.insured.refusals import StakeRefused
from samples import state

pytestmark = pytest.mark.slow

# A customer knows the outcome, or bets against it (and loses), or nobody stakes; and for how many forecasts.
MOVES = st.lists(
    st.tuples(
        st.sampled_from([0.0, 0.5, 1.0]) | st.floats(0, 1),
        st.sampled_from([1.0, 1.0, -1.0, -1.0, 0.0, 0.0, 0.3, 0.005]),
        st.integers(1, 30),
        st.sampled_from([0.0, 0.0, 0.5]),
    ),
    max_size=14,
)


def book(*given: Any, **settings: Any) -> mw.InsuredForecaster:
    """A forecaster that sells at any price."""
    return mw.InsuredForecaster(*given, **({"stop": False} | settings))


class Witness:
    """Adds up payments by itself, and so knows the total loss and the largest profit."""

    def __init__(self, f: mw.InsuredForecaster) -> None:
        self.f, self.payments = f, [0.0]
        self.profit = self.worst = 0.0

    def settle(self, q: Any, y: Any) -> None:
        self.payments += self.f.settle(q, y)
        loss = math.fsum(self.payments)
        self.profit, self.worst = max(self.profit, -loss), max(self.worst, loss)
        thaw: Any = self.f.thaw
        assert self.f.statement().conceded <= thaw.budget + thaw.share * self.profit + 1e-9


def play(f: mw.InsuredForecaster, moves: list[Any], widest: float = 0.5) -> Witness:
    """Every outcome comes before the next forecast. `moves` as above; the last number of each is ĉ."""
    seen = Witness(f)
    for mu, b, times, c_hat in [*moves, *moves[1:] * 3]:  # she comes back; so it is found sooner
        for _ in range(times):
            q = f.forecast(mu=mu, c_hat=min(c_hat, widest))
            y = int(mu < 0.5)  # the outcome that pays most
            sign = 1.0 if y else -1.0
            if b and not (f.one_sided and sign * b < 0):
                f.stake(q, sign * b)
            seen.settle(q, y)
    return seen


def earned(f: mw.InsuredForecaster, rounds: int, c_hat: float = 0.0) -> None:
    """Customers who are wrong each time."""
    for _ in range(rounds):
        f.settle(f.forecast(mu=0.5, c_hat=c_hat), 0, stake=1.0)


def attacked(f: mw.InsuredForecaster, rounds: int) -> None:
    for _ in range(rounds):
        f.settle(f.forecast(mu=0.5), 1, stake=1.0)


def idle(f: mw.InsuredForecaster, rounds: int) -> None:
    for _ in range(rounds):
        f.settle(f.forecast(mu=0.5), 1)


NARROW: dict[str, Any] = {"c_range": (0.0, 0.0)}
MAKERS: dict[str, Any] = {
    "exponential": lambda: mw.Barrier(5.0, keep_gains=False),
    "guard": lambda: mw.Barrier(5.0, "guard", keep_gains=False),
    "linear": lambda: mw.Barrier(5.0, "linear", keep_gains=False),
    "reserve": lambda: mw.Reserve(0.1),
}


@pytest.mark.parametrize("name", MAKERS)
@settings(max_examples=60)
@given(MOVES, st.sampled_from([0.25, 0.5, 1.0]), st.sampled_from([0.0, 1.5]))
def test_the_certificate_does_not_grow(name: str, moves: list[Any], share: float, budget: float) -> None:
    """What the correction is told is at most 5 over every stretch of time: so the real loss is, too."""
    thaw = mw.Thaw(budget=budget, share=share, above=0.0)
    f = book(None, MAKERS[name](), mode="sound", max_stake=1, capital=1e3, thaw=thaw, **NARROW)
    assert f.certificate().bound == pytest.approx(5.0 + budget)
    seen = play(f, moves, 0.0)
    target(math.fsum(seen.payments))
    assert math.fsum(seen.payments) <= 5.0 + budget - (1.0 - share) * seen.profit + 1e-9
    assert f.certificate().bound == pytest.approx(5.0 + budget)


def test_a_share_of_all_profits_is_given_back_to_who_waits_and_no_more() -> None:
    """Without the theorem's 'at most the largest profit' the last of these would pass the capital."""
    for share, lost in ((0.5, -15.0), (1.0, 5.0)):
        thaw = mw.Thaw(share=share, above=0.0)
        f = book(None, mw.Barrier(5.0, keep_gains=False), capital=1e3, max_stake=1, thaw=thaw)
        earned(f, 80)
        assert f.statement().total_loss == pytest.approx(-40.0, abs=1.0)
        for _ in range(60):
            attacked(f, 40)
            idle(f, 40)
        assert f.statement().total_loss == pytest.approx(lost, abs=1.0)
        assert f.certificate().bound == 5.0


def test_without_profits_nothing_thaws() -> None:
    f = book(None, mw.Reserve(0.1), mode="sound", max_stake=1, thaw=mw.Thaw(share=1.0))
    attacked(f, 100)
    before = f.peek(mu=0.5).c
    idle(f, 500)
    assert f.peek(mu=0.5).c == before
    assert f.statement().conceded == 0.0


def test_a_reserve_with_room_below_0_certifies_every_stretch() -> None:
    """λ falls to −½ while ĉ is ½, so what was won can be lost again, and a share of it once more."""
    thaw = mw.Thaw(share=0.8, above=0.0)
    f = book(None, mw.Reserve(0.1), mode="sound", max_stake=1, thaw=thaw)
    plain = book(None, mw.Reserve(0.1), mode="sound", max_stake=1)
    assert (plain.certificate().bound, f.certificate().bound) == (5.0, 10.0)
    for _ in range(60):
        f.settle(f.forecast(mu=0.5, c_hat=0.5), 0, stake=1.0)
    assert f.statement().total_loss < -30.0  # it goes on winning at λ = −½, and that is forgotten
    f = book(None, mw.Reserve(0.1), mode="sound", max_stake=1, thaw=thaw)
    for _ in range(6):
        f.settle(f.forecast(mu=0.5, c_hat=0.5), 0, stake=1.0)
    profit = -f.statement().total_loss
    for _ in range(60):
        attacked(f, 40)
        idle(f, 40)
    assert 5.0 + 0.7 * profit < f.statement().total_loss <= min(10.0 - 0.2 * profit, 5.0 + 0.8 * profit)


@settings(max_examples=60)
@given(MOVES, st.sampled_from([0.5, 1.0]))
def test_a_reserve_keeps_to_what_it_certifies(moves: list[Any], share: float) -> None:
    f = book(None, mw.Reserve(0.2), mode="sound", max_stake=1, thaw=mw.Thaw(share=share, above=0.0))
    assert f.certificate().bound == 5.0
    seen = play(f, moves)
    target(math.fsum(seen.payments))
    assert math.fsum(seen.payments) <= 5.0 - (1.0 - share) * seen.profit + 1e-9


@pytest.mark.parametrize("one_sided", [False, True])
@pytest.mark.parametrize(
    "make",
    [
        lambda: None,
        lambda: mw.Barrier(5.0),
        lambda: mw.Reserve(0.1),
        lambda: mw.StandardRegret(0.5),
        lambda: mw.DeterministicSwap(8),
        lambda: mw.SwapRegret(8, seed=1),
        mw.NoCorrection,
    ],
)
@settings(max_examples=20)
@given(moves=MOVES, share=st.sampled_from([0.5, 1.0]))
def test_with_a_capital_it_holds_under_any_correction(
    make: Any, one_sided: bool, moves: list[Any], share: float
) -> None:
    thaw = mw.Thaw(share=share, above=0.0)
    f = book(None, make(), capital=6.0, max_stake=1, one_sided=one_sided, thaw=thaw)
    bound = f.certificate().bound
    assert bound is not None
    assert bound <= 6.0
    seen = play(f, moves)
    assert seen.worst <= bound + 1e-9
    assert f.certificate().bound == bound  # a share of profits must not make it larger later


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(st.sampled_from([-1.0, 0.0, 1.0, 1.0]), st.integers(0, 3), st.booleans()), max_size=120
    ),
    st.sampled_from(["reserve", "exponential"]),
    st.sampled_from([None, 2.0]),
)
def test_with_late_outcomes_it_grows_by_what_is_open_at_once(
    moves: list[Any], name: str, max_exposure: float | None
) -> None:
    thaw, made = mw.Thaw(share=1.0, above=0.0), MAKERS[name]()
    limits: Any = dict(capital=1e3, max_exposure=max_exposure, **NARROW)
    f = book(None, made, mode="sound", max_stake=1, thaw=thaw, **limits)
    seen, waiting = Witness(f), []
    for b, place, settles in moves:
        q = f.forecast(mu=0.5)
        try:
            if b:
                f.stake(q, b)
        except StakeRefused:
            pass
        waiting.append(q)
        while waiting and (settles or len(waiting) > 4):
            seen.settle(waiting.pop(min(place, len(waiting) - 1)), 1)
        bound = f.certificate().bound
        assert bound is not None
        assert math.fsum(seen.payments) <= bound + 1e-9


def test_classes_in_sound_mode_have_one_profit_for_all() -> None:
    thaw = mw.Thaw(share=1.0, above=0.0)
    f = book(None, mw.Barrier(9.0, keep_gains=False), max_stake=1, classes=3, capital=1e3, thaw=thaw)
    assert f.certificate().bound == pytest.approx(9.0)
    draw, seen = np.random.default_rng(0), Witness(f)
    for t in range(3000):
        q, y = f.forecast(mu=[0.2, 0.3, 0.5]), int(draw.integers(3))
        sign = -1.0 if t < 60 else 1.0
        if t < 60 or t % 100 < 50:
            f.stake(q, sign * (2.0 * (np.arange(3) == y) - 1.0))
        seen.settle(q, y)
        assert math.fsum(seen.payments) <= 9.0 + 1e-9
    assert f.statement().conceded > 1.0


@pytest.mark.parametrize("mode", ["exact", "sound"])
def test_the_mean_loss_of_gradient_descent_still_vanishes(mode: Any) -> None:
    """What it is told over a stretch is at most twice R·M·√steps/rate."""
    f = book(None, mw.StandardRegret(0.5), mode=mode, max_stake=1, thaw=mw.Thaw(share=1.0), **NARROW)
    assert f.certificate().bound is None
    earned(f, 300)
    profit = -f.statement().total_loss
    for _ in range(40):
        idle(f, 100)
        attacked(f, 100)
        statement = f.statement()
        assert statement.total_loss <= 2 * 2.0 * math.sqrt(statement.rounds) / 0.5
    assert 0.0 < f.statement().conceded <= profit


def test_a_file_keeps_the_largest_profit(tmp_path: Any) -> None:
    f = book(max_stake=1, capital=10, thaw=mw.Thaw(share=0.5))
    earned(f, 20)
    attacked(f, 100)
    idle(f, 3)
    f.save(tmp_path / "book")
    g = mw.InsuredForecaster.load(tmp_path / "book")
    assert g.thaw == f.thaw == mw.Thaw(share=0.5)
    assert state(g) == state(f)
    for one in (f, g):
        idle(one, 50)
        attacked(one, 10)
    assert state(g) == state(f)


def test_a_file_with_a_profit_that_cannot_be_is_refused() -> None:
    f = book(max_stake=1, capital=10, thaw=mw.Thaw(share=0.5))
    earned(f, 20)
    for profit in (1.0, 1e6):
        plain = f.to_state()
        plain["book"]["thaw"].update(profit=profit)
        with pytest.raises(ValueError, match="profit must"):
            mw.InsuredForecaster.from_state(plain)


@pytest.mark.parametrize("options", [{}, {"classes": 2}])
def test_a_cap_on_exposure_that_is_never_met_changes_nothing(options: dict[str, Any]) -> None:
    made = [
        book(None, mw.StandardRegret(0.5), max_stake=1, thaw=mw.Thaw(share=0.5), max_exposure=most, **options)
        for most in (None, 1e9)
    ]
    for f in made:
        for t in range(400):
            mu: Any = [0.5, 0.5] if options else 0.5
            b = -1.0 if t < 50 else 1.0
            stake = None if t > 50 and t % 40 > 10 else np.array([0.0, b]) if options else b
            f.settle(f.forecast(mu=mu), 1, stake=stake)
    assert made[0].statement().conceded == made[1].statement().conceded > 0.0
    assert made[0].statement().total_loss == made[1].statement().total_loss


def test_many_at_once_are_as_one_by_one() -> None:
    one, many = (book(max_stake=1, thaw=mw.Thaw(share=0.5)) for _ in range(2))
    for f in (one, many):
        earned(f, 50)
        attacked(f, 300)
        f.forecast_many(mu=[0.5] * 200, ids=list(range(1000, 1200)))
    for id_ in range(1000, 1200):
        one.settle(id_, 1)
    many.settle_many(dict.fromkeys(range(1000, 1200), 1))
    assert state(one) == state(many)
    assert one.book.thawing.profit > 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: mw.Thaw(share=1.5), "share must"),
        (lambda: mw.Thaw(share=-0.1), "share must"),
        (
            lambda: book(None, mw.Reserve(0.1), max_stake=1, thaw=mw.Thaw(share=0.5)),
            "could be lost twice",
        ),
        (
            lambda: book(None, mw.Reserve(0.1), max_stake=1, one_sided=True, thaw=mw.Thaw(share=0.5)),
            "could be lost twice",
        ),
        (
            lambda: book(
                None, mw.OverlappingReserve(0.1), mode="sound", max_stake=1, thaw=mw.Thaw(share=0.5)
            ),
            "a group could lose what others have won",
        ),
        (
            lambda: book(max_stake=1, capital=5, thaw=mw.Thaw(root=1, share=0.5)),
            "a budget that does not grow",
        ),
    ],
)
def test_where_it_would_not_hold_it_is_refused(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
