"""Balance in sound mode, with a capital and with lines: no group loses more than the bound."""

import contextlib
import itertools
import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, target
from hypothesis import strategies as st

import makewhole as mw
from makewhole.insured.refusals import StakeRefused
from samples import replay, state

pytestmark = pytest.mark.slow

NAMES = ("a", "b", 3)
move = st.tuples(
    st.sampled_from([0.0, 0.5, 1.0]) | st.floats(0, 1),
    st.floats(0, 1),
    st.sampled_from([1.0, 1.0, -1.0, 0.3]),  # of the cap; above 0 she knows the outcome
    st.sampled_from([0.0, 0.0, 0.5]),  # the share of it that is staked against it
    st.lists(st.sampled_from(NAMES), unique=True),
    st.sampled_from([None, "ann", "bob"]),
    st.integers(1, 6),
)


class Witness:
    """What all (None) and every group have lost, by another count, and the weights that follow."""

    def __init__(self, rate: float, reach: float, cap: float) -> None:
        self.rate, self.reach, self.cap = rate, reach, cap
        self.lost: dict[Any, float] = {None: 0.0}
        self.theta: dict[Any, float] = {None: 0.0}
        self.weight = 0.0

    def lam(self, names: Any) -> float:
        return sum(self.theta.get(name, 0.0) for name in (None, *names))

    def add(self, names: Any, paid: float, gross: float, x: float, lam: float) -> None:
        self.weight += gross / self.cap
        step = self.rate * gross / self.cap * (x - lam)
        for name in (None, *names):
            self.lost[name] = self.lost.get(name, 0.0) + paid
            self.theta[name] = self.theta.get(name, 0.0) + step

    @property
    def ratio(self) -> float:
        """The largest loss of a group, or of all, divided by M·X·√(W/η)."""
        bound = self.cap * self.reach * math.sqrt(self.weight / self.rate)
        return max(self.lost.values()) / bound if self.weight else 0.0


def expected_target(
    q: Any, mu_hat: float, c_hat: float, lam: float, y: float, net: float, gross: float, one_sided: bool
) -> float:
    """The x that it must learn: that of the loss at ĉ + λ; where that is above ½, of what was published."""
    wanted = c_hat + lam
    if one_sided:
        return lam + net / gross * (y - min(max(mu_hat + wanted, 0.0), 1.0))
    z = net / gross * (y - float(q.mu))
    return z - c_hat if wanted <= 0.5 else z - 0.5 + lam


@settings(max_examples=120)
@given(
    st.lists(move, max_size=25),
    st.sampled_from([0.05, 0.25]),
    st.sampled_from([None, 1.0, 20.0, 1e4]),
    st.sampled_from([None, mw.Lines(each=3.0), mw.Lines(each=20.0, keep_gains=False)]),
    st.booleans(),
)
def test_no_group_loses_more_than_the_bound(
    moves: list[Any], rate: float, capital: Any, lines: Any, one_sided: bool
) -> None:
    cap, (low, high) = 2.0, (0.0, 0.4)
    f = mw.InsuredForecaster(
        None, mw.Balance(rate, 3), mode="sound", max_stake=cap, c_range=(low, high), capital=capital,
        lines=lines, one_sided=one_sided, thaw=None,
    )  # fmt: skip
    seen = Witness(rate, 1.0 + high, cap)
    for mu, at, b, opposite, names, who, times in [*moves, *moves]:
        for _ in range(times):
            c_hat, lam = at * high, seen.lam(names)
            q = f.forecast(mu=mu, c_hat=c_hat, groups=names)
            assert f.proposed(q)[0] == pytest.approx(lam, abs=1e-9)
            y = int(mu < 0.5)
            sign = 1.0 if y else -1.0
            taken = []
            for part in (cap * sign * b, -cap * sign * b * opposite * (1 - abs(b))):
                try:
                    f.stake(q, abs(part) if one_sided else part, by=who)
                    taken.append(abs(part) if one_sided else part)
                except StakeRefused:
                    pass
            net, gross, paid = sum(taken), sum(map(abs, taken)), sum(f.settle(q, y))
            if gross:
                x = expected_target(q, mu, c_hat, lam, y, net, gross, one_sided)
                seen.add(names, paid, gross, x, lam)
            assert seen.ratio <= 1 + 1e-9
            assert capital is None or seen.lost[None] <= capital + 1e-9
    target(seen.ratio)


def besiege(f: mw.InsuredForecaster, seen: Witness, rounds: int, wait: int = 0, seed: int = 0) -> float:
    """She fills up some groups with bets that lose, to lower λ, and takes what she can from another."""
    draw = np.random.default_rng(seed)
    sets = [names for k in range(3) for names in itertools.combinations(range(4), k)]
    largest, open_ = 0.0, list[Any]()
    for t in range(rounds):
        losing = t % 400 < draw.integers(100, 300)
        names = sets[draw.integers(len(sets))]
        if losing and 0 in names:
            names = tuple(name for name in names if name)
        elif not losing:
            names = (0,) if draw.random() < 0.7 else (0, *[name for name in names if name][:1])
        mu = float(draw.choice([0.0, 0.5, 1.0]))
        q = f.forecast(mu=mu, groups=names)
        (lam,) = f.proposed(q)
        y = int(mu < 0.5)
        b = (1.0 if y else -1.0) * (-1.0 if losing else 1.0)
        try:
            b = abs(b) if f.one_sided else b
            f.stake(q, b, by="one" if losing else "other")
        except StakeRefused:
            b = 0.0
        open_.append((q, names, y, b, mu, lam))
        if len(open_) > wait:
            q, names, y, b, mu, lam = open_.pop(0)
            paid = sum(f.settle(q, y))
            if b:
                seen.add(names, paid, 1.0, expected_target(q, mu, 0.0, lam, y, b, 1.0, f.one_sided), lam)
            largest = max(largest, seen.ratio)
    return largest


@pytest.mark.parametrize("limits", [{}, {"capital": 20.0}, {"capital": 1e4}, {"lines": mw.Lines(each=30.0)}])
@pytest.mark.parametrize("one_sided", [False, True])
def test_who_loses_in_some_groups_to_win_in_another_stays_within_the_bound(
    limits: Any, one_sided: bool
) -> None:
    f = mw.InsuredForecaster(
        None, mw.Balance(0.2, 3), mode="sound", max_stake=1, c_range=(0.0, 0.0), one_sided=one_sided, **limits
    )
    seen = Witness(0.2, 1.0, 1.0)
    assert besiege(f, seen, 4000) <= 1 + 1e-9
    assert f.statement().total_loss == pytest.approx(seen.lost[None])
    if not limits and not one_sided:
        assert min(seen.lost.values()) < -3 * math.sqrt(seen.weight / 0.2)  # the lower side does not hold


@pytest.mark.parametrize("wait", [1, 4])
def test_late_outcomes_keep_to_the_bound_if_the_rate_is_small(wait: int) -> None:
    rate = 1 / (3 * (1 + 2 * wait))
    f = mw.InsuredForecaster(
        None, mw.Balance(rate, 2), mode="sound", max_stake=1, c_range=(0.0, 0.0), capital=30.0
    )
    assert besiege(f, Witness(rate, 1.0, 1.0), 3000, wait) <= 1 + 1e-9


def test_with_classes_the_bound_is_that_of_all_their_caps() -> None:
    draw, lost, weight = np.random.default_rng(1), {None: 0.0, "a": 0.0, "b": 0.0}, 0.0
    f = mw.InsuredForecaster(
        None,
        mw.Balance(0.25, 2),
        max_stake=1,
        c_range=(0.0, 0.0),
        classes=3,
        capital=1e4,
        lines=None,
        stop=False,
    )
    for t in range(2000):
        names = ["a", "b"][: 1 + t % 2]
        q, y = f.forecast(mu=[0.2, 0.3, 0.5], groups=names), int(draw.integers(3))
        paid = sum(f.settle(q, y, stake=2.0 * (np.arange(3) == y) - 1.0))
        weight += 1.0
        for name in (None, *names):
            lost[name] += paid
        assert max(lost.values()) <= 3 * math.sqrt(weight / 0.25) + 1e-9


def test_had_it_learned_what_was_booked_another_group_would_pay_for_it(monkeypatch: Any) -> None:
    """In one group the forecaster wins for ever at c = 0; in the other it would give all of that back."""

    def lost(rounds: int) -> float:
        f = mw.InsuredForecaster(None, mw.Balance(0.25, 2), mode="sound", max_stake=1, c_range=(0.0, 0.0))
        for t in range(2 * rounds):
            name = "a" if t < rounds else "b"
            f.settle(f.forecast(mu=0.5, groups=[name]), int(name == "b"), stake=1.0)
        return f.statement().groups["b"].total_loss

    assert lost(300) <= math.sqrt(600 / 0.25)
    monkeypatch.setattr(mw.Balance, "integrates", True)
    assert lost(300) > 1.5 * math.sqrt(600 / 0.25)


def test_a_book_with_a_capital_and_lines_survives_a_restart(tmp_path: Any) -> None:
    f = mw.InsuredForecaster(None, mw.Balance(0.2, 3), max_stake=1, capital=20.0, lines=mw.Lines(each=5.0))
    seen = Witness(0.2, 1.5, 1.0)
    besiege(f, seen, 300, wait=3)
    f.save(tmp_path / "book")
    g = mw.InsuredForecaster.load(tmp_path / "book")
    assert state(g) == state(f)


def log_of(rows: int) -> pd.DataFrame:
    draw = np.random.default_rng(4)
    y = draw.integers(2, size=rows)
    columns = {"mu": draw.uniform(size=rows), "y": y, "stake": draw.uniform(-1, 1, rows)}
    columns["stake"] = np.where(draw.random(rows) < 0.3, 2.0 * y - 1.0, columns["stake"])
    kinds = {name: draw.choice(list(of), rows) for name, of in (("carrier", "abc"), ("month", "xy"))}
    return pd.DataFrame(columns | kinds | {"who": draw.integers(5, size=rows)})


@pytest.mark.parametrize("limits", [{}, {"capital": 15.0}, {"lines": mw.Lines(each=4.0)}])
@pytest.mark.parametrize("one_sided", [False, True])
def test_backtests_are_the_forecasters(limits: dict[str, Any], one_sided: bool) -> None:
    log = log_of(600)
    if one_sided:
        log["stake"] = log["stake"].abs()
    options: Any = dict(
        correction=mw.Balance(0.1), mode="sound", max_stake=1.0, one_sided=one_sided, **limits
    )
    groups = ["carrier", "month"]
    result = replay(log, group=groups, by="who" if limits else None, trace=True, **options)
    f, paid = mw.InsuredForecaster(None, **options), []
    for row in log.to_dict("records"):
        q = f.forecast(mu=row["mu"], groups=[f"{name}={row[name]}" for name in groups])
        with contextlib.suppress(StakeRefused):
            f.stake(q, row["stake"], by=row["who"])
        paid += f.settle(q, row["y"]) or [0.0]
    assert result.trace is not None
    assert result.trace["payment"].tolist() == paid
    assert result.total_loss == f.statement().total_loss
    assert result.certificate == f.certificate()
