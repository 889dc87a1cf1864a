"""Balance with features: the sums of losses times values stay within the bound."""

import copy
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, target
from hypothesis import strategies as st

import makewhole as mw
from makewhole.corrections.features import Features
from samples import open_of, state

pytestmark = pytest.mark.slow

NAMES = ("fog", "JFK", 3)
WHOLE = st.dictionaries(st.sampled_from(NAMES), st.sampled_from([-1.0, 1.0, 0.5, 0.0]) | st.floats(-1, 1))
move = st.tuples(
    st.floats(0, 1), st.floats(0, 1), st.integers(0, 1), st.floats(-1, 1), st.floats(0, 1), WHOLE
)


class Witness:
    """Σ loss·value of every feature and of all (None), by another count, and the bound M·X·√(W/η)."""

    def __init__(self, rate: float, reach: float, cap: float = 1.0) -> None:
        self.rate, self.reach, self.cap = rate, reach, cap
        self.lost: dict[Any, float] = {None: 0.0}
        self.weight = 0.0

    def add(self, features: dict[Any, float], paid: float, gross: float) -> None:
        self.weight += gross / self.cap
        for name, value in {None: 1.0, **features}.items():
            self.lost[name] = self.lost.get(name, 0.0) + value * paid

    def lam(self, features: dict[Any, float]) -> float:
        """In exact mode the weights are what was lost, scaled."""
        everything = {None: 1.0, **features}.items()
        return sum(self.lost.get(name, 0.0) * value for name, value in everything) * self.rate / self.cap

    @property
    def bound(self) -> float:
        return self.cap * self.reach * math.sqrt(self.weight / self.rate)

    @property
    def ratio(self) -> float:
        return math.hypot(*self.lost.values()) / self.bound if self.weight else 0.0

    @property
    def upper(self) -> float:
        return max(self.lost.values()) / self.bound if self.weight else 0.0


@settings(max_examples=100)
@given(st.lists(move, max_size=50), st.sampled_from([0.05, 0.25]), st.sampled_from([None, 3]))
def test_every_feature_is_balanced_from_both_sides(moves: list[Any], rate: float, classes: Any) -> None:
    cap, high, count = 5.0, 0.5, classes or 1
    f = mw.InsuredForecaster(None, mw.Balance(rate, 3), max_stake=cap, c_range=(0.0, high), classes=classes)
    seen = Witness(rate, 1 + high, count * cap)
    for mu, at, y, b, opposite, features in moves:
        said: Any = mu if classes is None else [mu / 2, mu / 2, 1 - mu]
        c_hat: Any = at * high if classes is None else [at * high] * 3
        assert float(np.max(f.peek(mu=said, c_hat=c_hat, groups=features).c)) == pytest.approx(
            at * high + seen.lam(features), abs=1e-9
        )
        q = f.forecast(mu=said, c_hat=c_hat, groups=features)
        gross = f.statement().turnover
        for part in (cap * b, -cap * b * opposite * (1 - abs(b))):
            f.stake(q, part if classes is None else np.array([0.0, part, 0.0]))
        paid = sum(f.settle(q, y))
        seen.add(features, paid, f.statement().turnover - gross)
        assert seen.ratio <= 1 + 1e-9
    target(seen.ratio)
    said = f.statement()
    assert said.certificate.bound is None
    assert {name: s.total_loss for name, s in said.groups.items()} == pytest.approx(
        {name: lost for name, lost in seen.lost.items() if name is not None}, abs=1e-9
    )


def besiege(f: mw.InsuredForecaster, seen: Witness, rounds: int, size: float, wait: int, seed: int) -> float:
    """She knows the weights, and takes of some random features those that lead furthest from balance."""
    draw, largest, open_ = np.random.default_rng(seed), 0.0, list[Any]()
    for _ in range(rounds):
        options = []
        for _ in range(12):
            values = draw.normal(size=6) * (draw.random(6) < 0.6)
            values = np.clip(values * math.sqrt(size) / (np.linalg.norm(values) + 1e-9), -1, 1)
            if f.mode == "sound":
                values = abs(values)
            features = {k: float(v) for k, v in enumerate(values) if v}
            lam = seen.lam(features)
            norm = 1.0 + sum(v * v for v in features.values())
            for x in (-1.0, 1.0):
                step = seen.rate * (x - lam)
                options.append((2 * step * lam + step * step * norm, x, features))
        _, x, features = max(options, key=lambda option: option[0])
        q = f.forecast(mu=0.0 if x > 0 else 1.0, groups=features)
        f.stake(q, 1.0)
        open_.append((q, features, int(x > 0)))
        if len(open_) > wait:
            q, features, y = open_.pop(0)
            seen.add(features, sum(f.settle(q, y)), 1.0)
            largest = max(largest, seen.upper if f.mode == "sound" else seen.ratio)
    return largest


@pytest.mark.parametrize("wait", [0, 2])
def test_a_greedy_adversary_stays_within_the_bound(wait: int) -> None:
    rate = 1 / (3 * (1 + 2 * wait))
    f = mw.InsuredForecaster(None, mw.Balance(rate, 2), max_stake=1, c_range=(0.0, 0.0))
    assert 0.3 < besiege(f, Witness(rate, 1.0), 1500, 1.999, wait, 0) <= 1 + 1e-9


@pytest.mark.parametrize(
    "limits", [{}, {"capital": 30.0, "stop": False}, {"lines": mw.Lines(each=9.0), "stop": False}]
)
def test_with_a_capital_no_feature_loses_more_than_the_bound(limits: Any) -> None:
    f = mw.InsuredForecaster(
        None, mw.Balance(1 / 3, 2), mode="sound", max_stake=1, c_range=(0.0, 0.0), **limits
    )
    assert besiege(f, Witness(1 / 3, 1.0), 1500, 1.999, 0, 1) <= 1 + 1e-9
    f = mw.InsuredForecaster(
        None, mw.Balance(1 / 3, 2), mode="sound", max_stake=1, c_range=(0.0, 0.0), **limits
    )
    seen = Witness(1 / 3, 1.0)
    for t in range(2000):  # she loses where a feature is weak, and wins where it is strong
        features = {"fog": 0.1, "sun": 1.0} if t % 300 < 200 else {"fog": 1.0}
        q = f.forecast(mu=0.5, groups=features)
        seen.add(features, sum(f.settle(q, int(t % 300 >= 200), stake=1.0)), 1.0)
        assert seen.upper <= 1 + 1e-9


def test_groups_are_features_with_the_value_1() -> None:
    names, values = (mw.InsuredForecaster(None, mw.Balance(0.1), max_stake=1) for _ in range(2))
    draw = np.random.default_rng(2)
    for _ in range(300):
        chosen = [name for name in NAMES if draw.random() < 0.5]
        mu, y, b = draw.random(), int(draw.integers(2)), draw.uniform(-1, 1)
        names.settle(names.forecast(mu=mu, groups=chosen), y, stake=b)
        values.settle(values.forecast(mu=mu, groups=dict.fromkeys(chosen, 1.0)), y, stake=b)
    assert state(names) == state(values)


def test_a_weak_feature_is_learned_where_groups_cannot_say_it() -> None:
    """Forecasts are wrong in proportion to the fog: λ follows it, and no group does."""
    draw = np.random.default_rng(0)
    f = mw.InsuredForecaster(None, mw.Balance(0.02), max_stake=1)
    for _ in range(6000):
        fog = float(draw.random())
        q = f.forecast(mu=0.5, groups={"fog": fog})
        f.settle(q, int(draw.random() < 0.5 + 0.4 * fog), stake=1.0)
    thick, thin = (f.peek(mu=0.5, groups={"fog": fog}).c for fog in (1.0, 0.0))
    assert thick > 0.25
    assert abs(thin) < 0.15


def test_open_forecasts_with_features_survive_a_restart(tmp_path: Path) -> None:
    f = mw.InsuredForecaster(None, mw.Balance(0.1), max_stake=1, thaw=mw.Thaw(budget=5.0))
    waiting: list[Any] = []
    for t in range(40):
        q = f.forecast(mu=0.5, groups={"fog": t / 40, "JFK": -0.5} if t % 3 else ["JFK"])
        if t % 4:
            f.stake(q, 1.0)
        waiting.append(q.id)
        if t > 10:
            f.settle(waiting.pop(0), 1)
    f.save(tmp_path / "book")
    g = mw.InsuredForecaster.load(tmp_path / "book")
    assert state(g) == state(f)
    for id_ in waiting:
        for one in (f, g):
            one.settle(id_, 1)
    assert state(g) == state(f)
    assert f.statement().groups["fog"].total_loss != 0.0


def test_a_file_with_features_that_cannot_be_is_refused() -> None:
    f = mw.InsuredForecaster(None, mw.Balance(0.1), max_stake=1)
    f.forecast(mu=0.5, groups={"fog": 0.5})
    for features, message in (([2.0], "must"), ([0.5, 0.5], "zip"), ([math.nan], "groups")):
        plain = f.to_state()
        open_of(plain)["features"] = features
        with pytest.raises(ValueError, match=message):
            mw.InsuredForecaster.from_state(plain)


def test_many_at_once_are_the_same_as_one_by_one() -> None:
    one, many = (mw.InsuredForecaster(None, mw.Balance(0.1), max_stake=1) for _ in range(2))
    features = [{"fog": k / 10} for k in range(10)]
    for k, values in enumerate(features):
        one.forecast(mu=0.5, groups=values, id=k)
    many.forecast_many(mu=[0.5] * 10, groups=features, ids=list(range(10)))
    for f in (one, many):
        f.settle_many(dict.fromkeys(range(10), 1))
    assert state(one) == state(many)


def test_a_copy_keeps_the_values() -> None:
    made = Features(("a", 3), (0.5, -1.0))
    twin = copy.deepcopy(made)
    assert (twin, twin.values, twin.size) == (("a", 3), (0.5, -1.0), 1.25)


GROUPED: Any = lambda: mw.InsuredForecaster(None, mw.Grouped(mw.Reserve(0.1)), max_stake=1)  # noqa: E731 - short


@pytest.mark.parametrize(
    ("make", "groups", "error", "message"),
    [
        (GROUPED, {"a": 1.0}, TypeError, "only Balance takes values"),
        (lambda: mw.InsuredForecaster(max_stake=1), {"a": 1.0}, TypeError, "only Balance takes values"),
        (
            lambda: mw.InsuredForecaster(None, mw.OverlappingReserve(0.1), mode="sound", max_stake=1),
            {"a": 0.5},
            TypeError,
            "only Balance takes values",
        ),
        (
            lambda: mw.InsuredForecaster(None, mw.Balance(0.1), max_stake=1),
            {"a": 1.5},
            ValueError,
            r"groups\['a'\] must",
        ),
        (
            lambda: mw.InsuredForecaster(None, mw.Balance(0.1), max_stake=1),
            {"a": "thick"},
            TypeError,
            r"groups\['a'\] must",
        ),
        (
            lambda: mw.InsuredForecaster(None, mw.Balance(0.1), max_stake=1),
            {1.5: 1.0},
            TypeError,
            "groups must be text",
        ),
        (
            lambda: mw.InsuredForecaster(None, mw.Balance(0.5, 1), max_stake=1),
            {"a": 0.8, "b": 0.7},
            ValueError,
            "squares of features must add up to at most 1",
        ),
        (
            lambda: mw.InsuredForecaster(None, mw.Balance(0.1), max_stake=1, capital=9, one_sided=True),
            {"a": -0.1},
            ValueError,
            "must not be negative",
        ),
        (
            lambda: mw.InsuredForecaster(None, mw.Balance(0.1), mode="sound", max_stake=1),
            {"a": -0.1},
            ValueError,
            "must not be negative",
        ),
    ],
)
def test_what_does_not_fit_is_refused(make: Any, groups: Any, error: type[Exception], message: str) -> None:
    f = make()
    before = state(f)
    with pytest.raises(error, match=message):
        f.forecast(mu=0.5, groups=groups)
    assert state(f) == before
