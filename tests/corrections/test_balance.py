"""Balance: every group's bets balance from both sides, within what is proven."""

import itertools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import makewhole as mw
from makewhole.corrections import Terms, _kernels
from makewhole.corrections._kernels import balanced_observe, balanced_propose
from makewhole.jit import jit
from makewhole.rules import Publishing, balance, publish
from samples import log_of, replay

NAMES = ("a", "b", 3)
subset = st.lists(st.sampled_from(NAMES), unique=True)
move = st.tuples(
    st.floats(0, 1), st.floats(0, 1), st.integers(0, 1), st.floats(-1, 1), st.floats(0, 1), subset
)


class Tally:
    """What every group, and all (None), has lost by somebody else's count, and the bound on it."""

    def __init__(self, rate: float, reach: float = 1.0, cap: float = 1.0) -> None:
        self.rate, self.reach, self.cap = rate, reach, cap
        self.lost: dict[Any, float] = {None: 0.0}
        self.weight = 0.0

    def add(self, names: Any, paid: float, gross: float) -> None:
        self.weight += gross / self.cap
        for name in (None, *names):
            self.lost[name] = self.lost.get(name, 0.0) + paid

    @property
    def bound(self) -> float:
        """M·X·√(W/η)."""
        return self.cap * self.reach * math.sqrt(self.weight / self.rate)

    @property
    def ratio(self) -> float:
        """All that was lost and won, as one distance from balance, divided by the bound."""
        return math.hypot(*self.lost.values()) / self.bound if self.weight else 0.0

    def lam(self, names: Any) -> float:
        """The λ of these groups, from what was lost."""
        return sum(self.lost.get(name, 0.0) for name in (None, *names)) * self.rate / self.cap


# --- nobody breaks the bound ------------------------------------------------------------------------------


@settings(max_examples=80)
@given(st.lists(move, max_size=60), st.sampled_from([0.05, 0.25]), st.sampled_from([(0.0, 0.5), (-0.7, 0.1)]))
def test_every_group_stays_within_the_bound_on_both_sides(
    moves: list[Any], rate: float, c_range: tuple[float, float]
) -> None:
    cap, (low, high) = 5.0, c_range
    f = mw.InsuredForecaster(None, mw.Balance(rate), max_stake=cap, c_range=c_range)
    tally = Tally(rate, max(1 + high, 1 - low), cap)
    for mu, at, y, b, opposite, names in moves:
        q = f.forecast(mu=mu, c_hat=low + at * (high - low), groups=names)
        f.stake(q, cap * b)
        f.stake(q, -cap * b * opposite * (1 - abs(b)))  # net and gross differ
        paid = sum(f.settle(q, y))
        tally.add(names, paid, cap * abs(b) * (1 + opposite * (1 - abs(b))))
        assert tally.ratio <= 1 + 1e-9
    said = f.statement()
    assert said.certificate.bound is None
    assert {name: s.total_loss for name, s in said.groups.items()} == pytest.approx(
        {name: lost for name, lost in tally.lost.items() if name is not None}, abs=1e-9
    )
    # λ is what was lost, scaled: Σw(x − λ)φ = θ/η
    for names in itertools.chain.from_iterable(itertools.combinations(NAMES, k) for k in range(4)):
        assert f.peek(mu=0.5, c_hat=low, groups=names).c == pytest.approx(low + tally.lam(names), abs=1e-9)


@settings(max_examples=60)
@given(st.lists(move, max_size=60), st.sampled_from(["exact", "sound"]))
def test_one_sided_forecasts_have_the_same_bound_though_they_are_clipped(moves: list[Any], mode: Any) -> None:
    f = mw.InsuredForecaster(None, mw.Balance(0.25), mode=mode, max_stake=1, one_sided=True)
    tally = Tally(0.25, 1.5)
    for mu, at, y, b, _, names in moves:
        (paid,) = f.settle(f.forecast(mu=mu, c_hat=at / 2, groups=names), y, stake=abs(b))
        tally.add(names, paid, abs(b))
        assert tally.ratio <= 1 + 1e-9


def besiege(
    f: mw.InsuredForecaster, tally: Tally, groups: int, most: int, rounds: int, wait: int = 0
) -> float:
    """A greedy adversary knows all weights: the largest ratio of what is out of balance to the bound.

    Each time she takes the members and the side that take the weights furthest from 0, and makes that
    happen, with outcomes known `wait` forecasts later.
    """
    sets = [s for k in range(most + 1) for s in itertools.combinations(range(groups), k)]
    open_: list[Any] = []
    largest = 0.0
    for t in range(rounds):

        def gain(names: tuple[int, ...], x: float) -> float:
            lam, step = tally.lam(names), tally.rate * (x - tally.lam(names))
            return 2 * step * lam + step * step * (len(names) + 1)

        sampled = [sets[(t * 7919 + k * 104729) % len(sets)] for k in range(min(12, len(sets)))]
        names, x = max(itertools.product(sampled, (-1.0, 1.0)), key=lambda choice: gain(*choice))
        # x = (B/A)(y − μ): a stake of 1 at μ = 0 if it happens; or at μ = 1 if it does not
        q = f.forecast(mu=0.0 if x > 0 else 1.0, groups=names)
        f.stake(q, 1.0)
        open_.append((q, names, int(x > 0)))
        if len(open_) > wait:
            q, names, y = open_.pop(0)
            tally.add(names, sum(f.settle(q, y)), 1.0)
            largest = max(largest, tally.ratio)
    return largest


@pytest.mark.parametrize(("groups", "most"), [(1, 1), (4, 2), (10, 3)])
def test_a_greedy_adversary_stays_within_the_bound(groups: int, most: int) -> None:
    rate = 1 / (most + 1)
    f = mw.InsuredForecaster(None, mw.Balance(rate, most), max_stake=1, c_range=(0.0, 0.0))
    largest = besiege(f, Tally(rate), groups, most, 1500)
    assert 0.5 < largest <= 1 + 1e-9  # it is a siege


def make_siege() -> Callable[..., float]:
    """The same adversary against the compiled steps: the largest ratio, and in `lost` what was lost."""

    def siege(values: Any, marks: Any, lost: Any, rounds: int, one_sided: bool) -> float:
        groups, largest, weights, best = len(lost) - 1, 0.0, 0.0, 0
        for t in range(rounds):
            most = -1.0
            side = 1.0
            for k in range(8):  # of a few sets of groups, the one that takes the weights furthest from 0
                chosen = _kernels.scramble(t * 8 + k) & ((1 << groups) - 1)
                lam, size = values[1], 1
                for g in range(groups):
                    if chosen >> g & 1:
                        lam, size = lam + values[2 + g], size + 1
                for x in (-1.0, 1.0):
                    step = values[0] * (x - lam)
                    gain = 2 * step * lam + step * step * size
                    if gain > most:
                        most, best, side = gain, chosen, x
            marks[0], marks[1], marks[2] = 2, 1, 1
            for g in range(groups):
                if best >> g & 1:
                    marks[2 + marks[1]] = 2 + g
                    marks[1] += 1
            proposal = balanced_propose(values, marks)
            mu_hat, y = (0.0, 1.0) if side > 0 else (1.0, 0.0)
            mu, c, origin = publish(mu_hat, 0.0, proposal[0], Publishing(one_sided, False, True), 0.0)
            loss, target, weight = balance(mu, c, origin, y, 1.0, 1.0, 1.0)
            weights, distance = weights + weight, 0.0
            for k in range(marks[1]):
                lost[marks[2 + k] - 1] += loss
            for k in range(groups + 1):
                distance += lost[k] * lost[k]
            largest = max(largest, math.sqrt(distance * values[0] / weights))
            balanced_observe(values, marks, proposal, target, weight, loss, 0.0)
        return largest

    return siege


@pytest.mark.slow
@pytest.mark.parametrize("one_sided", [False, True], ids=["both", "one-sided"])
@pytest.mark.parametrize("groups", [1, 3, 9])
def test_no_adversary_breaks_the_bound_in_two_million_rounds(groups: int, one_sided: bool) -> None:
    siege = jit(make_siege(), *_kernels.HELPERS, balanced_propose, balanced_observe)
    values, lost = np.array([1 / (groups + 1), *([0.0] * (groups + 1))]), np.zeros(groups + 1)
    largest = siege(values, np.zeros(groups + 3, np.int64), lost, 2_000_000, one_sided)
    assert 0.3 < largest <= 1 + 1e-9
    np.testing.assert_allclose(values[1:], lost * values[0], atol=1e-6)  # θ is the loss, scaled


# --- late outcomes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("wait", [1, 5])
def test_late_outcomes_keep_to_the_bound_with_a_small_rate_and_not_with_a_large_one(wait: int) -> None:
    most = 2
    ratios = []
    for rate in (1 / ((most + 1) * (1 + 2 * wait)), 1 / (most + 1)):
        f = mw.InsuredForecaster(None, mw.Balance(rate, most), max_stake=1, c_range=(0.0, 0.0))
        ratios.append(besiege(f, Tally(rate), 6, most, 600, wait))
    assert ratios[0] <= 1 + 1e-9
    assert ratios[1] > 1  # beyond the condition she breaks the bound


def test_far_beyond_the_condition_on_late_outcomes_c_runs_away() -> None:
    """Steps that are large for the delay overshoot, each time further, with no adversary at all."""
    f = mw.InsuredForecaster(None, mw.Balance(0.5, 1), max_stake=1, c_range=(0.0, 0.0))
    tally, open_ = Tally(0.5), list[Any]()
    for _ in range(300):
        open_.append(f.forecast(mu=0.5, groups="a"))
        if len(open_) > 5:
            tally.add("a", sum(f.settle(open_.pop(0), 1, stake=1.0)), 1.0)
    assert tally.ratio > 1e6


@settings(max_examples=60)
@given(st.lists(st.tuples(move, st.integers(0, 3)), max_size=80))
def test_outcomes_in_any_order_keep_to_the_bound_while_few_are_published_meanwhile(moves: list[Any]) -> None:
    most_meanwhile = 3
    rate = 1 / (4 * (1 + 2 * most_meanwhile))
    f = mw.InsuredForecaster(None, mw.Balance(rate, 3), max_stake=1, c_range=(0.0, 0.5))
    tally, open_ = Tally(rate, 1.5), list[Any]()

    def settle(place: int) -> None:
        q, names, y, b, _ = open_.pop(place)
        tally.add(names, sum(f.settle(q, y)), abs(b))
        assert tally.ratio <= 1 + 1e-9

    for t, ((mu, at, y, b, _, names), place) in enumerate(moves):
        while open_ and t - open_[0][4] > most_meanwhile:  # the oldest has seen as many as are allowed
            settle(0)
        q = f.forecast(mu=mu, c_hat=at / 2, groups=names)
        f.stake(q, b)
        open_.append((q, names, y, b, t))
        if place < len(open_):
            settle(place)


# --- on average -------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_every_groups_mean_tends_to_0_where_one_reserve_balances_only_the_whole() -> None:
    """Forecasts that are wrong by carrier and airport. The tolerance is the proven bound's."""
    draw = np.random.default_rng(0)
    wrong = {"AA": 0.1, "UA": -0.05, "JFK": 0.15, "BOS": -0.2}
    f = mw.InsuredForecaster(None, mw.Balance(1 / 3, 2), max_stake=1, c_range=(0.0, 0.0))
    whole = mw.InsuredForecaster(None, mw.Reserve(0.03), max_stake=1, c_range=(0.0, 0.0))
    other = dict.fromkeys(wrong, 0.0)
    means = []
    for rounds in (500, 8000):
        while f.statement().rounds < rounds:
            names = [("AA", "UA")[draw.integers(2)], ("JFK", "BOS")[draw.integers(2)]]
            y = int(draw.uniform() < 0.5 + sum(wrong[name] for name in names) / 2)
            f.settle(f.forecast(mu=0.5, groups=names), y, stake=1.0)
            (paid,) = whole.settle(whole.forecast(mu=0.5), y, stake=1.0)
            for name in names:
                other[name] += paid
        said = f.statement().groups
        bound = mw.Balance(1 / 3, 2).mean_bound(rounds, Terms(1.0)) or 0.0
        for one in said.values():
            assert abs(one.total_loss) <= bound * rounds
        means.append(max(abs(one.total_loss) / one.rounds for one in said.values()))
    assert means[1] < means[0] / 4
    assert max(abs(lost) / 4000 for lost in other.values()) > 0.05


def test_the_bound_on_the_mean_loss_is_the_theorems() -> None:
    assert mw.Balance(0.25).mean_bound(100, Terms(2.0, (0.0, 0.5))) == pytest.approx(2 * 1.5 / 5)
    assert mw.Balance(0.25).mean_bound(100, Terms(1.0, (-0.7, 0.1))) == pytest.approx(1.7 / 5)


# --- books ------------------------------------------------------------------------------------------------


def test_a_balance_survives_a_restart(tmp_path: Path) -> None:
    f = mw.InsuredForecaster(None, mw.Balance(0.1, most_groups=3), max_stake=2)
    for t in range(40):
        f.settle(f.forecast(mu=0.4, groups=NAMES[: t % 4]), t % 2, stake=0.8)
    late = [f.forecast(mu=0.5, groups=NAMES[: k + 1], id=f"late {k}") for k in range(3)]
    for q in late:
        f.stake(q, 0.5, by="somebody")
    f.save(tmp_path / "book.json")
    again = mw.InsuredForecaster.load(tmp_path / "book.json")
    assert again.statement() == f.statement()
    assert again.corrections == f.corrections
    assert repr(again.corrections[0]) == "Balance(rate=0.1, most_groups=3)"
    for k in range(3):
        assert again.settle(f"late {k}", 1).by == f.settle(f"late {k}", 1).by
    assert again.forecast(mu=0.3, groups="a") == f.forecast(mu=0.3, groups="a")
    assert again.corrections == f.corrections != [mw.Balance(0.1, 3)]


def test_many_at_once_are_the_same_as_one_by_one() -> None:
    one, many = (mw.InsuredForecaster(None, mw.Balance(0.1), max_stake=1) for _ in range(2))
    for f in (one, many):
        f.settle(f.forecast(mu=0.4, groups=["a", "b"]), 1, stake=1.0)
    groups = [["a"], ["b", 3], []]
    quotes = [one.forecast(mu=mu, groups=g) for mu, g in zip((0.2, 0.5, 0.9), groups, strict=True)]
    assert many.forecast_many(mu=[0.2, 0.5, 0.9], groups=groups).c.tolist() == [q.c for q in quotes]
    assert many.statement() == one.statement()


def test_with_too_many_groups_nothing_changes() -> None:
    f = mw.InsuredForecaster(None, mw.Balance(0.1, most_groups=2), max_stake=1)
    f.settle(f.forecast(mu=0.4, groups=["a", "b"]), 1, stake=1.0)
    before = f.to_state()
    message = r"groups must be at most 2 with Balance\(rate=0.1, most_groups=2\); got 3: \['a', 'b', 'c'\]"
    for call in (f.forecast, f.peek):
        with pytest.raises(ValueError, match=message):
            call(mu=0.5, groups=["a", "b", "c"])
    with pytest.raises(ValueError, match=message):
        f.forecast_many(mu=[0.5, 0.5], groups=[["a"], ["a", "b", "c"]])
    assert f.to_state() == before
    assert f.forecast(mu=0.5, groups=["a", "b", "a"]).c == f.peek(mu=0.5, groups=["a", "b"]).c


def test_as_many_groups_as_the_rate_allows() -> None:
    assert [mw.Balance(rate).most_groups for rate in (0.5, 0.3, 0.1, 0.01, 1 / 49)] == [1, 2, 9, 99, 48]


GOOD = mw.Balance(0.1).state()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: mw.Balance(0.6), "rate must be at most 0.5"),
        (lambda: mw.Balance(0.0), "rate must be"),
        (lambda: mw.Balance(0.1, 0), "most_groups must be"),
        (lambda: mw.Balance(0.1, 10), r"rate must be at most 1/\(most_groups \+ 1\), 0.0909091; got 0.1"),
        (
            lambda: mw.backtest(log_of(9), group=["carrier", "month"], correction=mw.Balance(0.5)),
            r"group must be at most 1 columns with Balance.*; got \['carrier', 'month'\]",
        ),
        (lambda: mw.backtest(log_of(9), correction=mw.Balance()), "group must name a column"),
        (lambda: mw.Balance.from_state(GOOD | {"weights": []}), "weights must be one for all"),
        (lambda: mw.Balance.from_state(GOOD | {"weights": [[1e13]]}), "weight must lie in"),
        (lambda: mw.Balance.from_state(GOOD | {"weights": [0.1]}), "weight must be a list of one number"),
    ],
)
def test_what_does_not_fit_is_named(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


# --- backtests --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("columns", [["carrier"], ["carrier", "month"]], ids=["one", "two"])
@pytest.mark.parametrize("one_sided", [False, True], ids=["both", "one-sided"])
def test_backtests_are_the_forecasters_bit_for_bit(columns: list[str], one_sided: bool) -> None:
    log = log_of()
    log["c_hat"] = np.random.default_rng(2).uniform(0, 0.3, len(log))
    if one_sided:
        log["stake"] = log["stake"].abs()
    options: Any = dict(correction=mw.Balance(0.05), max_stake=2.0, one_sided=one_sided)
    result = replay(log, group=columns, c_hat="c_hat", trace=True, **options)
    f = mw.InsuredForecaster(None, **options)
    paid: list[float] = []
    for row in log.itertuples(index=False):
        names = [f"{name}={getattr(row, name)}" if len(columns) > 1 else row.carrier for name in columns]
        paid += f.settle(f.forecast(mu=row.mu, c_hat=row.c_hat, groups=names), int(row.y), stake=row.stake)
    said = f.statement()
    assert result.trace is not None
    assert result.trace["payment"].tolist() == paid
    assert result.total_loss == said.total_loss
    assert result.certificate == said.certificate
    assert {name: group.total_loss for name, group in result.groups.items()} == pytest.approx(
        {name: group.total_loss for name, group in said.groups.items()}, abs=1e-9
    )
    learned, own = (
        {"": s["weights"][0]} | dict(zip(s["names"], s["weights"][1:], strict=True))
        for s in (result.correction.state(), f.corrections[0].state())
    )
    assert learned == own


def test_late_backtests_are_the_forecasters() -> None:
    log = log_of(300)
    log["made"], log["known"] = range(300), range(4, 304)
    options: Any = dict(correction=mw.Balance(0.05), max_stake=1.0)
    result = replay(log, group=["carrier", "month"], time="made", known="known", trace=True, **options)
    f, open_, paid = mw.InsuredForecaster(None, **options), list[Any](), list[float]()
    for row in log.itertuples(index=False):
        if len(open_) == 4:
            paid += f.settle(*open_.pop(0))
        q = f.forecast(mu=row.mu, groups=[f"carrier={row.carrier}", f"month={row.month}"])
        f.stake(q, row.stake)
        open_.append((q, int(row.y)))
    for q, y in open_:
        paid += f.settle(q, y)
    assert result.trace is not None
    assert result.trace["payment"].tolist() == paid
