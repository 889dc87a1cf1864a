"""What an insured forecaster learns, and who teaches it: the base, the corrections, one per class."""

from typing import Any

import numpy as np
import pytest

import makewhole as mw
from makewhole.corrections import Proposal
from makewhole.insured import payments, totals
from samples import state


def test_one_sided_publishes_an_ask_and_balances() -> None:
    f = mw.InsuredForecaster(None, mw.DeterministicSwap(51), max_stake=1, one_sided=True)
    draw = np.random.default_rng(0)
    for _ in range(2500):
        q = f.forecast(mu=0.1)  # the truth is 0.7
        assert q.c == 0
        assert 0 <= q.mu <= 1
        f.settle(q, int(draw.random() < 0.7), stake=1.0)
    assert f.forecast(mu=0.1).mu == pytest.approx(0.7, abs=0.05)
    # Theorem C with R = 2.5 (c_range is 0 … 0.5), K = 51
    assert abs(f.statement().mean_loss) <= 2 * (1 / 51 + 51 / 2500) * 1.25
    with pytest.raises(mw.StakeRefused, match="must not be negative on a one-sided forecast; got -1.0"):
        f.stake(f.forecast(mu=0.1), -1.0)


def test_in_sound_mode_classes_are_binary_bets_of_their_own() -> None:
    draw = np.random.default_rng(0)
    mu = np.array([0.2, 0.3, 0.5])
    f = mw.InsuredForecaster(None, mw.NaiveBestResponse(), mode="sound", max_stake=1, classes=3)
    alone = [mw.InsuredForecaster(None, mw.NaiveBestResponse(), mode="sound", max_stake=1) for _ in range(3)]
    for _ in range(200):
        q = f.forecast(mu=mu, c_hat=0.4)
        y = int(draw.integers(3))
        g = draw.uniform(-1, 1, 3)
        (paid,) = f.settle(q, y, stake=g)
        apart: list[float] = []
        for k, one in enumerate(alone):
            qk = one.forecast(mu=mu[k], c_hat=0.4)
            assert (qk.mu, qk.c) == (q.mu[k], q.c[k])
            apart += one.settle(qk, int(y == k), stake=g[k])
        assert paid == pytest.approx(sum(apart))
        assert paid == pytest.approx(mw.multiclass.payment(g, y, q.mu, q.c, simplex=False))


def test_in_sound_mode_classes_never_publish_a_negative_c_and_lose_no_more_for_it() -> None:
    f = mw.InsuredForecaster(None, mw.DeterministicSwap(11), mode="sound", max_stake=1, classes=2)
    for _ in range(200):  # agents who are always wrong: exact mode would pay them to go on
        q = f.forecast(mu=[0.5, 0.5])
        assert np.all(q.c >= 0)
        f.settle(q, 0, stake=[-1.0, 1.0])
    assert f.statement().total_loss < 0


def test_classes_cap_each_class() -> None:
    f = mw.InsuredForecaster(max_stake=10, classes=3)
    q = f.forecast(mu=[0.2, 0.3, 0.5])
    f.stake(q, [10, -10, 0])
    with pytest.raises(
        mw.StakeRefused, match=r"stake 1.0 on class 0 is over the cap of 10.0 per forecast: 0.0 is left"
    ):
        f.stake(q, [1, 0, 0])
    f.stake(q, [0, 0, 3])
    with pytest.raises(ValueError, match=r"stake must have shape \(3,\); got \(\)"):
        f.stake(q, 1.0)
    with pytest.raises(ValueError, match="one of 0 … 2; got 3"):
        f.settle(q, 3)
    assert f.statement().open_exposure == pytest.approx(
        max(sum(mw.multiclass.payment(g, y, q.mu, q.c) for g in ([10, -10, 0], [0, 0, 3])) for y in range(3))
    )
    with pytest.raises(ValueError, match="sum of mu"):
        f.forecast(mu=[0.2, 0.3, 0.6])
    with pytest.raises(ValueError, match="must hold 3 classes"):
        f.forecast(mu=[0.5, 0.5])


def test_many_agents_on_one_forecast_learn_from_net_and_gross() -> None:
    together = mw.InsuredForecaster(None, mw.DeterministicSwap(21), max_stake=10)
    q = together.forecast(mu=0.5)
    for b in (3.0, -1.0, 2.0):
        together.stake(q, b)
    assert together.settle(q, 1) == [1.5, -0.5, 1.0]
    correction = mw.DeterministicSwap(21)
    correction.observe(correction.propose(), (4 / 6) * 0.5, 6 / 10)
    assert together.corrections[0] == correction


def test_late_outcomes_are_credited_to_the_lambda_they_were_made_with() -> None:
    f = mw.InsuredForecaster(None, mw.SwapRegret(9, seed=5), max_stake=1, c_range=(0.0, 0.0))
    twin = mw.SwapRegret(9, seed=5)
    queue = []
    draw = np.random.default_rng(0)
    for _ in range(300):
        queue.append((f.forecast(mu=0.5), twin.propose()))
        if len(queue) > 10:
            q, p = queue.pop(int(draw.integers(len(queue))))
            y, b = int(draw.integers(2)), float(draw.uniform(-1, 1))
            f.settle(q, y, stake=b)
            twin.observe(p, np.sign(b) * (y - 0.5), abs(b))
    assert f.corrections[0] == twin


@pytest.mark.parametrize("truth", [0, 1])
def test_one_sided_keeps_its_targets_in_range_also_where_the_ask_is_clipped(truth: int) -> None:
    f = mw.InsuredForecaster(None, mw.NaiveBestResponse(), max_stake=1, one_sided=True, c_range=(0.0, 0.5))
    for _ in range(50):
        f.settle(f.forecast(mu=0.5, c_hat=0.5), truth, stake=1.0)
    for _ in range(50):
        f.settle(f.forecast(mu=0.0 if truth else 1.0, c_hat=0.25), 1 - truth, stake=1.0)
    assert -1.5 <= f.corrections[0].propose().lam <= 1.0


class Listens:
    """A base that says 0.5 and writes down what it is taught."""

    def __init__(self) -> None:
        self.heard: list[Any] = []

    def predict(self, x: Any) -> tuple[float, float]:
        return 0.5, 0.125

    def learn(self, x: Any, outcome: Any, **taught: Any) -> None:
        self.heard.append((x, outcome, taught))


def test_the_base_is_taught_its_own_mu_and_stakes_divided_by_the_cap() -> None:
    base = Listens()
    f = mw.InsuredForecaster(base, mw.NaiveBestResponse(), max_stake=8, one_sided=True)
    q = f.forecast("monday")
    assert q.mu == 0.625  # what is published is not what the base said
    f.stake(q, 2.0)
    f.stake(q, 4.0)
    f.settle(q, 1)
    assert base.heard == [("monday", 1, {"mu": 0.5, "net": 0.75, "gross": 0.75})]


def test_one_sided_the_target_is_measured_from_the_ask_that_was_published() -> None:
    f = mw.InsuredForecaster(None, mw.NaiveBestResponse(), max_stake=1, one_sided=True)
    f.settle(f.forecast(mu=0.0), 1, stake=1.0)  # λ is now 1
    q = f.forecast(mu=0.75)
    assert q.mu == 1.0  # 0.75 + 1, clipped
    f.settle(q, 1, stake=1.0)  # no loss at an ask of 1: the target is λ itself, not 1 − 0.75
    assert f.corrections[0].propose().lam == 1.0


def test_standard_regret_takes_its_step_from_the_lambda_of_the_forecast() -> None:
    f = mw.InsuredForecaster(None, mw.StandardRegret(rate=0.5), max_stake=1)
    early = f.forecast(mu=0.5)
    f.settle(f.forecast(mu=0.5), 1, stake=1.0)  # λ: 0 + 0.5·(0.5 − 0) = 0.25
    f.settle(early, 1, stake=1.0)  # made at λ = 0: 0.25 + 0.5/√2·(0.5 − 0)
    assert f.corrections[0].propose().lam == pytest.approx(0.25 + 0.25 / np.sqrt(2))


@pytest.mark.parametrize("limits", [{}, {"max_exposure": 9.0}])
def test_money_that_does_not_add_up_is_raised_before_anything_is_booked(
    monkeypatch: pytest.MonkeyPatch, limits: dict[str, Any]
) -> None:
    f = mw.InsuredForecaster(None, mw.NaiveBestResponse(), max_stake=1, **limits)
    q = f.forecast(mu=0.5)
    f.stake(q, 0.5)
    real = totals.exact_sum
    before = state(f)
    monkeypatch.setattr(payments, "exact_sum", lambda paid: (real(paid)[0] + 0.01, 0.0))
    with pytest.raises(mw.ConservationError, match=r"payments add up to 0.51, the loss is 0.5"):
        f.settle(q, 1, stake=0.5)
    assert f.statement().rounds == 0
    assert f.corrections[0] == mw.NaiveBestResponse()
    assert state(f) == before


def test_tiny_stakes_settle_too() -> None:
    f = mw.InsuredForecaster(max_stake=1)
    q = f.forecast(mu=0.3)
    for _ in range(3):
        f.stake(q, 5e-324)
    assert len(f.settle(q, 1)) == 3
    assert abs(f.statement().total_loss) < 1e-300


@pytest.mark.parametrize("limits", [{}, {"max_exposure": 1e18}])
def test_huge_stakes_settle_too(limits: dict[str, Any]) -> None:
    """What rounding changes goes with the stakes: it must not be taken for money that does not add up."""
    f = mw.InsuredForecaster(None, mw.NaiveBestResponse(), max_stake=1e15, **limits)
    draw, paid = np.random.default_rng(0), 0.0
    for t in range(20):
        q = f.forecast(mu=0.3)
        for stake in draw.uniform(-1e14, 1e14, 10).tolist():
            f.stake(q, stake)
        paid += sum(f.settle(q, t % 2))
    assert f.statement().total_loss == pytest.approx(paid)


class Refuses:
    """Somebody else's correction that breaks down at its third lesson."""

    lessons = 0

    def __init__(self) -> None:
        self.inner = mw.NaiveBestResponse()

    def propose(self) -> Proposal:
        return self.inner.propose()

    def observe(self, proposal: Proposal, target: float, weight: float) -> None:
        Refuses.lessons += 1
        if Refuses.lessons == 3:
            raise OSError("no room")
        self.inner.observe(proposal, target, weight)

    def state(self) -> dict[str, Any]:
        return self.inner.state()

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> "Refuses":
        made = cls()
        made.inner = mw.NaiveBestResponse.from_state(state)
        return made


def test_if_one_correction_breaks_down_none_has_learned() -> None:
    f = mw.InsuredForecaster(None, Refuses(), mode="sound", max_stake=1, classes=3)
    q = f.forecast(mu=[0.2, 0.3, 0.5])
    with pytest.raises(OSError, match="no room"):
        f.settle(q, 0, stake=[1.0, 1.0, 1.0])
    assert [c.state() for c in f.corrections] == [mw.NaiveBestResponse().state()] * 3
    assert list(f.settle(q, 0, stake=[1.0, 1.0, 1.0])) == pytest.approx([0.0])
