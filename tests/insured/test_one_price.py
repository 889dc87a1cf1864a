"""Classes in exact mode: one price for all of them, and books that balance."""

import contextlib
import copy
import itertools
import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import makewhole as mw
from makewhole.rules import median_and_size, without_common
from samples import CORRECTIONS, lessons, open_of, played, state, trial


def forecaster(correction: Any = None, classes: int = 3, **options: Any) -> mw.InsuredForecaster:
    """In exact mode with ĉ = 0, unless said otherwise."""
    given: dict[str, Any] = {"max_stake": 1.0, "c_range": (0.0, 0.0), "thaw": None}
    return mw.InsuredForecaster(None, correction, classes=classes, **(given | options))


def cheapest(stake: Any) -> float:
    """The least Σ|b_k − m| over all m, by trying: a sum of sizes is least at one of the numbers."""
    return float(min(sum(abs(b - m) for b in stake) for m in stake))


classes_ = st.integers(2, 6)
stakes = classes_.flatmap(lambda k: st.lists(st.floats(-1, 1), min_size=k, max_size=k))


@given(stakes)
def test_a_stake_is_charged_for_at_the_centre_that_costs_least(stake: list[float]) -> None:
    median, size = median_and_size(stake)
    assert size == pytest.approx(cheapest(stake), abs=1e-15)
    centred = mw.multiclass.centred(stake)
    assert centred.tolist() == [b - median for b in stake]
    others = [max(abs(b - m) for b in stake) for m in stake if sum(abs(b - m) for b in stake) <= size + 1e-12]
    assert np.abs(centred).max() <= min(others) + 1e-12  # of all centres that cost as little
    kept = without_common(stake)
    assert min(kept) <= 0 <= max(kept)
    assert all(abs(b) <= abs(a) for a, b in zip(stake, kept, strict=True))
    assert sum(map(abs, kept)) >= size - 1e-12  # so that a cap on each class is one on all of them


@pytest.mark.slow
@given(st.lists(stakes.filter(lambda b: len(b) == 3), min_size=1, max_size=4), st.integers(0, 2), st.data())
def test_the_target_of_all_classes_lies_between_minus_one_and_one(
    many: list[list[float]], y: int, data: st.DataObject
) -> None:
    """Also where the probabilities do not quite add up to 1, as those of a softmax in single precision."""
    mu = np.array([data.draw(st.floats(0, 1)) + 1e-9 for _ in range(3)])
    mu = mu / mu.sum() * (1 - 9e-7)
    f = forecaster(max_stake=4.0)
    q = f.forecast(mu=mu)
    for stake in many:
        f.stake(q, stake)
    (lam,) = set(f.proposed(q))
    with lessons(mw.StandardRegret) as heard:
        payments = f.settle(q, y)
    size = sum(cheapest(stake) for stake in many)
    assert len(heard) == (size > 0)
    for lesson in heard:
        assert lesson["lam"] == lam
        assert abs(lesson["target"]) <= 1 + 1e-12
        assert 0 <= lesson["weight"] <= 1
        assert lesson["weight"] == pytest.approx(size / 12, abs=1e-12)
        assert sum(payments) == pytest.approx(size * (lesson["target"] - q.c[0]), abs=1e-12)
        assert lesson["loss"] == pytest.approx(sum(payments), abs=1e-12)
    paid = [(np.eye(3)[y] - mu) @ mw.multiclass.centred(stake) - q.c[0] * cheapest(stake) for stake in many]
    assert list(payments) == pytest.approx(paid, abs=1e-12)


@pytest.mark.parametrize("make", CORRECTIONS)
@pytest.mark.parametrize("late", [0, 3])
def test_two_classes_are_the_binary_book(make: Any, late: int) -> None:
    """A bet (a, b) on two classes is the bet b − a on the second; the cap is that of both classes."""
    pair = forecaster(make(), classes=2, c_range=(0.0, 0.3))
    one = mw.InsuredForecaster(None, make(), max_stake=2.0, c_range=(0.0, 0.3), thaw=None)
    draw = np.random.default_rng(0)
    waiting: list[Any] = []
    for _ in range(300):
        mu, width = float(draw.uniform()), float(draw.uniform(0, 0.3))
        p, q = pair.forecast(mu=[1 - mu, mu], c_hat=width), one.forecast(mu=mu, c_hat=width)
        assert p.c.tolist() == pytest.approx([q.c] * 2, abs=1e-12)
        for a, b in draw.uniform(-0.3, 0.3, (3, 2)).tolist():
            pair.stake(p, [a, b])
            one.stake(q, b - a)
        waiting.append((p, q, int(draw.integers(2))))
        if len(waiting) > late:
            p, q, y = waiting.pop(0)
            assert list(pair.settle(p, y)) == pytest.approx(list(one.settle(q, y)), abs=1e-12)
    assert pair.certificate().bound == one.certificate().bound
    assert pair.statement().total_loss == pytest.approx(one.statement().total_loss, abs=1e-9)
    assert pair.statement().turnover == pytest.approx(one.statement().turnover)
    assert pair.statement().negative_c == one.statement().negative_c


@pytest.mark.parametrize("limits", [{"thaw": mw.Thaw(budget=5.0)}, {"max_exposure": 0.7}])
def test_two_classes_thaw_and_refuse_as_the_binary_book_does(limits: Any) -> None:
    pair = forecaster(mw.Reserve(0.3, start=0.3), classes=2, **limits)
    one = mw.InsuredForecaster(
        None, mw.Reserve(0.3, start=0.3), max_stake=2.0, c_range=(0.0, 0.0), **({"thaw": None} | limits)
    )
    draw, waiting, refused = np.random.default_rng(0), [], 0
    for t in range(300):
        mu, b = float(draw.uniform()), float(draw.uniform(-1, 1)) * (t % 3 > 0)
        p, q = pair.forecast(mu=[1 - mu, mu]), one.forecast(mu=mu)
        assert p.c[0] == pytest.approx(q.c, abs=1e-9)
        answers = []
        for f, forecast, stake in ((pair, p, [-b, 0.0]), (one, q, b)):
            try:
                f.stake(forecast, stake)
                answers.append("taken")
            except mw.StakeRefused as error:
                answers.append(f"{error.limit:.6f} of {str(error)[:20]}")
        assert answers[0] == answers[1]
        refused += answers[0] != "taken"
        waiting.append((p, q, int(draw.integers(2))))
        if len(waiting) > 2:
            p, q, y = waiting.pop(0)
            pair.settle(p, y)
            one.settle(q, y)
    assert pair.statement().conceded == pytest.approx(one.statement().conceded)
    assert pair.statement().open_exposure == pytest.approx(one.statement().open_exposure)
    assert pair.certificate().bound == pytest.approx(one.certificate().bound)
    assert (refused > 0) == ("max_exposure" in limits)
    assert (pair.statement().conceded > 0) == ("thaw" in limits)


@pytest.mark.slow
@given(stakes.filter(lambda b: len(b) == 3), st.integers(0, 2), st.floats(-0.5, 0.5))
def test_no_forecast_loses_more_than_it_has_room_for(stake: list[float], y: int, c: float) -> None:
    f = forecaster(mw.Reserve(0.1), c_range=(-0.5, 0.5))
    q = f.forecast(mu=[0.1, 0.3, 0.6], c_hat=c)
    room = f.book.find(q).legs[0].room
    assert sum(trial(f, 0, y, stake=stake)) <= room + 1e-12
    f.stake(0, stake)
    assert (
        max(sum(trial(f, 0, k)) for k in range(3)) == pytest.approx(f.statement().open_exposure, abs=1e-12)
        or f.statement().open_exposure == 0.0
    )


@given(st.floats(-1, 1), st.integers(0, 2))
def test_the_same_stake_on_all_classes_neither_pays_nor_costs_nor_teaches(b: float, y: int) -> None:
    f = forecaster(mw.Reserve(0.5))
    f.settle(f.forecast(mu=[0.2, 0.3, 0.5]), 0, stake=[-1.0, 0.0, 0.0])  # they lose: c falls below 0
    before = f.corrections
    assert f.forecast(mu=[0.2, 0.3, 0.5]).c[0] < 0
    q = f.forecast(mu=[0.1, 0.3, 0.6])
    for _ in range(5):  # any number: it does not count towards the cap either
        f.stake(q, [b, b, b])
    assert f.statement().open_exposure == 0.0
    assert list(f.settle(q, y)) == [0.0] * 5
    assert f.corrections == before
    assert f.statement().turnover == pytest.approx(1.0)


def test_a_stake_and_what_is_the_same_on_all_classes_is_the_stake_alone() -> None:
    f = forecaster(mw.Reserve(0.5), max_stake=9.0)
    g = copy.deepcopy(f)
    for y in (0, 2, 1, 1):
        p, q = f.forecast(mu=[0.2, 0.3, 0.5]), g.forecast(mu=[0.2, 0.3, 0.5])
        f.stake(p, [0.5, -0.25, 0.0])
        g.stake(q, [2.5, 1.75, 2.0])
        assert f.statement().open_exposure == g.statement().open_exposure
        assert f.settle(p, y) == g.settle(q, y)
    assert f.corrections == g.corrections


# --- the bounds -------------------------------------------------------------------------------------------

moves = st.lists(
    st.tuples(st.lists(st.floats(0, 1), min_size=3, max_size=3), st.integers(0, 2), *[st.floats(-1, 1)] * 3),
    max_size=60,
)


def chances(given: list[float]) -> Any:
    mu = np.array(given) + 1e-6
    return mu / mu.sum()


@settings(max_examples=100)
@given(moves, st.sampled_from([0.05, 0.3, 1.0]))
def test_nobody_breaks_the_certificate_of_the_binary_book_with_the_cap_of_all_classes(
    played: list[Any], rate: float
) -> None:
    """Theorem A from both sides: |Σℓ| <= (1 + c₊)·K·M/η."""
    f = forecaster(mw.Reserve(rate), max_stake=2.0, c_range=(0.0, 0.25))
    assert f.certificate().bound == pytest.approx(3 * 2.0 / rate)
    assert f.certificate().max_stake == 2.0
    for given_, y, *stake in played:
        mu = chances(given_)
        q = f.forecast(mu=mu, c_hat=0.25 * given_[0])
        f.stake(q, stake)
        f.settle(q, y, stake=[-b for b in reversed(stake)])
        assert -1.25 * 6 / rate - 1e-9 <= f.statement().total_loss <= 6 / rate + 1e-9


def worst_stake(q: mw.Forecast, y: int) -> Any:
    """Of all stakes in {−1, 0, 1}ᴷ the one that takes most from the forecaster if y happens, by trying."""

    def paid(stake: Any) -> float:
        centred = mw.multiclass.centred(stake)
        return float(centred[y] - q.mu @ centred - q.c[0] * np.abs(centred).sum())

    return max(map(list, itertools.product([-1.0, 0.0, 1.0], repeat=3)), key=paid)


@pytest.mark.parametrize("side", [1, -1])
def test_a_greedy_adversary_comes_as_near_to_the_certificate_as_she_likes_and_not_beyond(side: int) -> None:
    """Whoever chooses forecasts, stakes and outcomes takes all of K·M/η, or loses as much."""
    f = forecaster(mw.Reserve(0.1))
    draw = np.random.default_rng(0)
    for t in range(400):
        mu = np.eye(3)[2] if t % 2 or side < 0 else draw.dirichlet([0.2] * 3)
        q = f.forecast(mu=mu)
        f.settle(q, 0, stake=worst_stake(q, 0) if side > 0 else [-1.0, 0.0, 1.0])
        assert abs(f.statement().total_loss) <= 30 + 1e-9
    assert side * f.statement().total_loss > 29.9


@pytest.mark.parametrize("rate", [0.05, 1.0])
@pytest.mark.parametrize("classes", [3, 6])
def test_rounding_adds_no_more_to_the_bound_than_the_theory_page_allows(rate: float, classes: int) -> None:
    """(5K + 40)·2⁻⁵³·K·M/η; payments are added up without rounding, near the bound and at all sizes."""
    f = forecaster(mw.Reserve(rate), classes=classes)
    draw, total, most = np.random.default_rng(0), Fraction(0), Fraction(0)
    for t in range(2000):
        mu = draw.dirichlet([0.1] * (classes - 1) + [9.0]) if t < 500 else np.eye(classes)[-1]
        stake = np.zeros(classes)
        stake[0], stake[-1] = draw.uniform(0, 1, 2) * [1.0, -1.0] * 10.0 ** draw.choice([0, 0, 0, -9, -17])
        total += sum(map(Fraction, f.settle(f.forecast(mu=mu), 0, stake=stake)))
        most = max(most, total)
    bound, roundings = Fraction(classes) / Fraction(rate), 5 * classes + 40
    assert most > bound * Fraction(999, 1000)
    assert most <= bound + roundings * bound / 2**53


@settings(max_examples=40)
@given(moves, st.integers(1, 4))
def test_late_outcomes_do_not_break_the_certificate_either(played: list[Any], late: int) -> None:
    f = forecaster(mw.Reserve(0.1))
    waiting: list[Any] = []
    for given_, y, *stake in played:
        waiting.append((f.forecast(mu=chances(given_)), y, stake))
        if len(waiting) > late:
            q, y, stake = waiting.pop(0)
            f.settle(q, y, stake=stake)
            assert f.statement().total_loss <= (f.certificate().bound or 0.0) + 1e-9


T = 4000
RANGE = 2.0  # of targets, with ĉ = 0
BOUNDS: dict[str, tuple[Any, float]] = {  # with the cap of three classes
    "reserve": (mw.Reserve(0.02), 3 / 0.02),
    "standard": (mw.StandardRegret(1.0), 3 * RANGE * T**0.5),
    "swap": (mw.DeterministicSwap(64, low=-1.0, high=1.0), 3 * RANGE * (T / 64 + 64)),
}


@pytest.mark.slow
@pytest.mark.parametrize("who", ["honest", "always wrong", "clairvoyant"])
@pytest.mark.parametrize("kind", BOUNDS)
def test_the_books_balance_from_both_sides(kind: str, who: str) -> None:
    """Once c was clipped at 0, and honest customers lost for ever. The bounds are those of the theorems."""
    correction, bound = BOUNDS[kind]
    f, draw = forecaster(correction), np.random.default_rng(1)
    for _ in range(T):
        mu = draw.dirichlet([4.5, 2.7, 2.8])
        y, k = int(draw.choice(3, p=mu)), int(draw.integers(3))
        if who != "honest":
            k = y if who == "clairvoyant" else (y + 1) % 3
        f.settle(f.forecast(mu=mu), y, stake=np.eye(3)[k])
    assert abs(f.statement().total_loss) <= bound
    assert f.statement().turnover == pytest.approx(T)
    if who == "always wrong":
        assert f.statement().negative_c > T / 2
        assert "had c < 0" in str(f.statement())


def test_no_group_is_out_of_balance_by_more_than_the_theorem_says() -> None:
    """Balance, with classes: √(Σ L_g²) <= K·M·X·√(W/η), from both sides."""
    f, draw, weight = forecaster(mw.Balance(0.25, most_groups=3)), np.random.default_rng(2), 0.0
    for _ in range(500):
        names = [name for name in "abc" if draw.integers(2)]
        stake = draw.uniform(-1, 1, 3)
        y = int(np.argmin(stake)) if "a" in names else int(draw.integers(3))  # the customers of a always lose
        f.settle(f.forecast(mu=draw.dirichlet([1.0] * 3), groups=names), y, stake=stake)
        weight += cheapest(stake) / 3
        said = f.statement()
        lost = [said.total_loss, *(s.total_loss for s in said.groups.values())]
        assert np.sqrt(np.square(lost).sum()) <= 3 * np.sqrt(weight / 0.25) + 1e-9


@settings(max_examples=60)
@given(moves, st.sampled_from([0.5, 2.0]), st.booleans())
def test_capped_exposure_is_kept_and_with_it_the_certificate(
    played: list[Any], most: float, restart: bool
) -> None:
    f = forecaster(mw.Reserve(0.2), max_exposure=most)
    assert f.certificate().bound == pytest.approx(3 / 0.2 + most)
    waiting = [f.forecast(mu=[0.2, 0.3, 0.5]) for _ in range(4)]
    for n, (given_, y, *stake) in enumerate(played):
        waiting.append(f.forecast(mu=chances(given_)))
        with contextlib.suppress(mw.StakeRefused):
            f.stake(waiting[n % len(waiting)], stake)
        assert f.statement().open_exposure <= most + 1e-9
        if n % 3 == 0:
            f.settle(waiting.pop(n % len(waiting)), y)
        if restart and n == 5:
            f = mw.InsuredForecaster.from_state(json.loads(json.dumps(f.to_state())))
        assert f.statement().total_loss <= (f.certificate().bound or 0.0) + 1e-9


def test_a_thaw_lowers_the_one_price_within_its_budget() -> None:
    f = forecaster(mw.StandardRegret(1.0), thaw=mw.Thaw(budget=29.0))
    for _ in range(50):  # these leave two thirds of the cap, so λ thaws a little here as well
        f.settle(f.forecast(mu=[0.5, 0.25, 0.25]), 1, stake=[0.0, 1.0, 0.0])
    wide = float(f.forecast(mu=[0.5, 0.25, 0.25]).c[0])
    assert 0.0 < f.statement().conceded < 29.0
    for _ in range(50):
        f.settle(f.forecast(mu=[0.5, 0.25, 0.25]), 1, stake=[0.5, 0.5, 0.5])  # that is none
    assert f.forecast(mu=[0.5, 0.25, 0.25]).c[0] < wide
    assert f.statement().conceded == pytest.approx(29.0)


# --- what it refuses, saves, and takes over from earlier versions -----------------------------------------


def test_the_largest_of_the_bases_widths_is_taken() -> None:
    f = forecaster(mw.NoCorrection(), c_range=(0.0, 0.3))
    q = f.forecast(mu=[0.2, 0.3, 0.5], c_hat=[0.1, 0.3, 0.0])
    assert q.c.tolist() == [0.3] * 3
    assert q.one_price
    assert f.peek(mu=[0.2, 0.3, 0.5], c_hat=0.1).c.tolist() == [0.1] * 3
    assert f.quote(q, by="anybody") == q


def amounts_of(f: mw.InsuredForecaster, stake: Any) -> Any:
    """What a stake on the only open forecast is kept as."""
    twin = copy.deepcopy(f)
    twin.stake(f.open_forecasts[0], stake)
    (kept,) = twin.book.find(f.open_forecasts[0]).stakes
    (amounts,) = kept.amounts
    return amounts


def test_the_cap_is_on_each_class_and_what_is_asked_may_be_seen() -> None:
    f = forecaster(max_stake=10.0)
    q = f.forecast(mu=[0.2, 0.3, 0.5])
    assert amounts_of(f, [10, -10, -10]) == (10.0, -10.0, -10.0)
    assert amounts_of(f, [13, 5, 3]) == (10.0, 2.0, 0.0)
    with pytest.raises(mw.StakeRefused, match="stake 11.0 on class 1 is over the cap of 10.0 per forecast"):
        f.stake(q, [0.0, 11.0, 0.0])
    with pytest.raises(ValueError, match="stake must be finite; got nan at index 1"):
        f.stake(q, [0.0, np.nan, 0.0])
    with pytest.raises(ValueError, match="stake must be finite; got inf at index 0"):
        f.stake(q, [np.inf, 0.0, 0.0])
    with pytest.raises(ValueError, match=r"stake must have shape \(3,\); got \(2,\)"):
        f.stake(q, [0.0, 1.0])
    for given_ in ((1, 2, 3), [1.0, 2, 3], np.array([1, 2, 3]), np.array([1.0, 2.0, 3.0], np.float32)):
        assert amounts_of(f, given_) == (0.0, 1.0, 2.0)


@pytest.mark.parametrize("options", [{"capital": 5.0}, {"lines": mw.Lines(each=5.0)}])
def test_what_exact_mode_refuses_it_refuses_with_classes_too(options: Any) -> None:
    with pytest.raises(ValueError, match="sound mode"):
        forecaster(mw.StandardRegret(), mode="exact", **options)


@pytest.mark.parametrize("kind", ["reserve", "swap", "grouped", "capped", "default"])
def test_saved_and_loaded_it_goes_on_to_the_bit(kind: str, tmp_path: Path) -> None:
    make: dict[str, Any] = {
        "reserve": lambda: forecaster(mw.Reserve(0.1)),
        "swap": lambda: forecaster(mw.SwapRegret(5, seed=1)),
        "grouped": lambda: forecaster(mw.Grouped(mw.Reserve(0.2))),
        "capped": lambda: forecaster(mw.Reserve(0.1), max_exposure=3.0),
        "default": lambda: mw.InsuredForecaster(max_stake=1, classes=3),
    }
    f = played(make[kind](), 40, 0)
    f.save(tmp_path / "book.json")
    again = mw.InsuredForecaster.load(tmp_path / "book.json")
    assert state(again) == state(f)
    assert again.open_forecasts == f.open_forecasts
    assert len(again.corrections) == 1
    assert again.certificate() == f.certificate()
    assert state(played(again, 40, 1)) == state(played(f, 40, 1))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c, e: e["legs"].append(e["legs"][0] | {"c": 0.3}), "forecast 0 must have 1 legs; got 2"),
        (lambda c, e: e["stakes"][0].update(amounts=[[0.1, 0.2, 0.3]]), "must not have one sign only"),
        (lambda c, e: e["stakes"][0].update(amounts=[0.1, 0.2, -0.3]), "stakes must be 3 numbers each"),
        (lambda c, e: e["legs"].pop(), "forecast 0 must have 1 legs; got 0"),
        (lambda c, e: e["legs"][0]["mus"].pop(), "mus must be 3 probabilities"),
        (lambda c, e: e["legs"][0].update(mus=[0.2, 0.3, 0.6]), "mu"),
        (lambda c, e: c["corrections"].append(c["corrections"][0]), "there must be 1 corrections; got 2"),
        (lambda c, e: c["settings"].update(mode="sound"), "there must be 3 corrections; got 1"),
        (lambda c, e: c["settings"].update(one_sided=True), "there must be 3 corrections; got 1"),
    ],
)
def test_a_state_that_no_such_book_can_have_left_is_refused(change: Any, message: str) -> None:
    f = forecaster(mw.Reserve(0.1))
    f.stake(f.forecast(mu=[0.2, 0.3, 0.5]), [0.5, 0.0, -0.5])
    content = json.loads(json.dumps(f.to_state()))
    change(content, open_of(content))
    with pytest.raises(ValueError, match=message):
        mw.InsuredForecaster.from_state(content)


def test_what_was_paid_is_booked_to_the_last_digit() -> None:
    f = forecaster(mw.Reserve(0.2), classes=4)
    draw, total = np.random.default_rng(1), Fraction(0)
    for _ in range(300):
        q = f.forecast(mu=draw.dirichlet([1.0] * 4))
        for _ in range(3):
            f.stake(q, draw.uniform(-0.3, 0.3, 4))
        total += sum(map(Fraction, f.settle(q, int(draw.integers(4)))))
    (one,) = f.corrections
    assert abs(Fraction(one.state()["losses"]) + Fraction(one.state()["low"]) - total) < Fraction(2) ** -90


class Learner:
    """A base that keeps what it is taught."""

    def __init__(self) -> None:
        self.taught: list[Any] = []

    def predict(self, x: Any) -> tuple[Any, Any]:
        return np.array([0.2, 0.3, 0.5]), np.zeros(3)

    def learn(self, x: Any, outcome: Any, *, mu: Any, net: Any, gross: Any) -> None:
        self.taught.append((x, outcome, mu.tolist(), net.tolist(), gross.tolist()))


def test_the_base_is_taught_what_was_asked_for_each_class() -> None:
    base = Learner()
    f = mw.InsuredForecaster(base, mw.NoCorrection(), max_stake=2.0, classes=3)
    q = f.forecast("x")
    f.stake(q, [3.0, 2.0, 2.0])
    f.settle(q, 1, stake=[-1.0, 0.0, 0.5])
    assert base.taught == [("x", 1, [0.2, 0.3, 0.5], [0.0, 0.0, 0.25], [1.0, 0.0, 0.25])]


def test_many_at_once_are_the_same_as_one_by_one() -> None:
    mus = np.random.default_rng(0).dirichlet([1.0] * 3, 20)
    f, g = forecaster(mw.SwapRegret(5, seed=0)), forecaster(mw.SwapRegret(5, seed=0))
    at_once = f.forecast_many(mu=mus)
    for n, mu in enumerate(mus):
        assert g.forecast(mu=mu) == at_once[n]
    assert at_once.c.shape == (20, 3)
    for h in (f, g):
        h.stake(7, [0.0, 1.0, 0.0])
    outcomes = {n: n % 3 for n in range(20)}
    assert f.settle_many(outcomes) == {n: g.settle(n, y) for n, y in outcomes.items()}
    assert state(f) == state(g)
