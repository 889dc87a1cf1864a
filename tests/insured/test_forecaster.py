"""The insured forecaster: money is conserved, errors change nothing, late outcomes go where they belong."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

import makewhole as mw
from makewhole.forecasters import TwoLayerLearner


def bits(f: mw.InsuredForecaster, path: Path) -> str:
    """Every bit of a forecaster's state."""
    f.save(path)
    return path.read_text()


class Ledger(RuleBasedStateMachine):
    """Forecasts, stakes, settlements and voids in any order, beside a ledger that only adds up payments."""

    folder: Path  # where it saves; set by the test

    def __init__(self) -> None:
        super().__init__()
        self.f = mw.InsuredForecaster(None, mw.DeterministicSwap(9), max_stake=10, c_range=(0.0, 0.0))
        self.open: dict[int, tuple[mw.Forecast, list[float]]] = {}
        self.paid = self.staked = 0.0
        self.rounds = self.voided = self.bets = 0

    @rule(mu=st.floats(0, 1))
    def forecast(self, mu: float) -> None:
        q = self.f.forecast(mu=mu)
        assert isinstance(q.id, int)
        self.open[q.id] = (q, [])

    @precondition(lambda self: self.open)
    @rule(data=st.data(), b=st.floats(-12, 12))
    def stake(self, data: st.DataObject, b: float) -> None:
        q, stakes = self.open[data.draw(st.sampled_from(sorted(self.open)))]
        if sum(map(abs, stakes)) + abs(b) > 10:
            with pytest.raises(mw.StakeRefused):
                self.f.stake(q, b)
        else:
            assert self.f.stake(q, b) == len(stakes)
            stakes.append(b)

    @precondition(lambda self: self.open)
    @rule(data=st.data(), outcome=st.integers(0, 1))
    def settle(self, data: st.DataObject, outcome: int) -> None:
        number = data.draw(st.sampled_from(sorted(self.open)))
        q, stakes = self.open.pop(number)
        payments = self.f.settle(q, outcome)
        assert payments == [mw.payment(b, outcome, q.mu, q.c) for b in stakes]
        self.paid += sum(payments)
        self.staked += sum(map(abs, stakes))
        self.rounds += 1
        self.bets += len(stakes)
        with pytest.raises(mw.ForecastClosed, match="settled or voided before"):
            self.f.settle(q, outcome)

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def void(self, data: st.DataObject) -> None:
        q, _ = self.open.pop(data.draw(st.sampled_from(sorted(self.open))))
        self.f.void(q)
        self.voided += 1

    @rule()
    def save_and_load(self) -> None:
        path = self.folder / "book.json"
        self.f.save(path)
        self.f = mw.InsuredForecaster.load(path)

    @invariant()
    def the_statement_is_the_ledger(self) -> None:
        s = self.f.statement()
        assert s.total_loss == pytest.approx(self.paid, abs=1e-9)
        assert s.turnover == pytest.approx(self.staked, abs=1e-9)
        assert (s.rounds, s.voided, s.bets, s.open) == (self.rounds, self.voided, self.bets, len(self.open))
        worst = 0.0
        for q, stakes in self.open.values():
            worst += max(0.0, *(sum(mw.payment(b, y, q.mu, q.c) for b in stakes) for y in (0, 1)))
        assert s.open_exposure == pytest.approx(worst, abs=1e-9)


@pytest.mark.slow
def test_any_order_of_calls_leaves_the_ledger_right(tmp_path: Path) -> None:
    Ledger.folder = tmp_path
    from hypothesis.stateful import run_state_machine_as_test

    run_state_machine_as_test(Ledger, settings=settings(max_examples=60, stateful_step_count=40))


BAD_CALLS: list[tuple[str, Callable[[mw.InsuredForecaster, mw.Forecast], Any], type[Exception], str]] = [
    ("nan stake", lambda f, q: f.stake(q, float("nan")), ValueError, "stake must be finite; got nan"),
    ("infinite stake", lambda f, q: f.stake(q, np.inf), ValueError, "stake must be finite; got inf"),
    ("text stake", lambda f, q: f.stake(q, "5"), TypeError, "stake must be a number"),
    ("shape", lambda f, q: f.stake(q, [1, 2]), ValueError, r"stake must have shape \(\); got \(2,\)"),
    (
        "over cap",
        lambda f, q: f.stake(q, 8.5),
        mw.StakeRefused,
        "over the cap of 10.0 per forecast: 7.0 is left",
    ),
    ("over cap at once", lambda f, q: f.settle(q, 1, stake=8), mw.StakeRefused, "over the cap"),
    ("bad outcome", lambda f, q: f.settle(q, 2), ValueError, "outcome must be 0 or 1; got 2"),
    ("half outcome", lambda f, q: f.settle(q, 0.5), ValueError, "outcome must be 0 or 1"),
    ("no outcome", lambda f, q: f.settle(q, None), TypeError, "outcome must be a number"),
    ("bad outcome, good stake", lambda f, q: f.settle(q, 3, stake=1), ValueError, "outcome must be 0 or 1"),
    ("unknown id", lambda f, q: f.settle(99, 1), mw.UnknownForecast, "no open forecast has the id 99"),
    ("negative id", lambda f, q: f.settle(-1, 1), mw.UnknownForecast, "no open forecast has the id -1"),
    (
        "someone else's",
        lambda f, q: f.stake(mw.Forecast(0.9, 0.0, id=q.id), 1),
        mw.UnknownForecast,
        "no such",
    ),
    ("a forecast without id", lambda f, q: f.void(mw.Forecast(0.5)), mw.UnknownForecast, "no such forecast"),
    ("mu over 1", lambda f, q: f.forecast(mu=1.1), ValueError, r"mu must lie in \[0, 1\]; got 1.1"),
    ("percent", lambda f, q: f.forecast(mu=30), ValueError, "a percentage"),
    ("no mu", lambda f, q: f.forecast(), TypeError, "there is no base"),
    (
        "c_hat",
        lambda f, q: f.forecast(mu=0.5, c_hat=0.6),
        ValueError,
        r"c_hat must lie in c_range \[0.0, 0.5\]; got 0.6",
    ),
]


@pytest.mark.parametrize(("call", "error", "message"), [pytest.param(*c[1:], id=c[0]) for c in BAD_CALLS])
def test_a_call_that_fails_changes_nothing(call: Any, error: Any, message: str, tmp_path: Path) -> None:
    f = mw.InsuredForecaster(None, mw.SwapRegret(5, seed=1), max_stake=10)
    for t in range(30):
        f.settle(f.forecast(mu=0.4), t % 2, stake=float(t % 7) - 3)
    q = f.forecast(mu=0.5)
    f.stake(q, 3.0)
    before = bits(f, tmp_path / "before")
    with pytest.raises(error, match=message):
        call(f, q)
    assert bits(f, tmp_path / "after") == before


def test_a_refused_stake_tells_how_much_is_left() -> None:
    f = mw.InsuredForecaster(max_stake=10)
    q = f.forecast(mu=0.5)
    f.stake(q, -4)
    with pytest.raises(mw.StakeRefused) as refused:
        f.stake(q, 7)
    assert refused.value.limit == 6.0
    assert f.stake(q, 6) == 1


def test_a_base_that_fails_to_learn_leaves_the_forecast_settled_once_and_says_what_to_pay() -> None:
    class Breaks:
        def predict(self, x: Any) -> tuple[float, float]:
            return 0.5, 0.0

        def learn(self, x: Any, outcome: Any, **_: Any) -> None:
            raise OSError("disk full")

    f = mw.InsuredForecaster(Breaks(), max_stake=1)
    q = f.forecast(None)
    with pytest.raises(mw.TeachingError, match=r"0 was settled, but the base failed .*disk full") as caught:
        f.settle(q, 1, stake=1.0)
    assert caught.value.payments == [0.5]
    assert isinstance(caught.value.__cause__, OSError)
    assert f.statement().total_loss == 0.5
    with pytest.raises(mw.ForecastClosed):
        f.settle(q, 1)


def test_voiding_pays_nobody_and_teaches_nothing() -> None:
    f = mw.InsuredForecaster(None, mw.NaiveBestResponse(), max_stake=1)
    q = f.forecast(mu=0.5)
    f.stake(q, 1)
    f.void(q)
    assert f.corrections[0] == mw.NaiveBestResponse()
    assert f.statement().voided == 1
    with pytest.raises(mw.ForecastClosed):
        f.settle(q, 1)


def test_opposite_stakes_on_a_negative_c_earn_money_and_the_statement_says_so() -> None:
    f = mw.InsuredForecaster(None, mw.NaiveBestResponse(), max_stake=2)
    f.settle(f.forecast(mu=0.5), 0, stake=1.0)
    q = f.forecast(mu=0.5)
    assert q.c == -0.5
    assert not q.is_interval
    f.stake(q, 1.0)
    f.stake(q, -1.0)
    assert sum(f.settle(q, 1)) == 1.0
    assert f.statement().negative_c == 1
    assert "c < 0" in str(f.statement())


def test_a_narrow_range_is_allowed_and_said() -> None:
    f = mw.InsuredForecaster(None, mw.SwapRegret(40, -0.1, 0.1), max_stake=1, c_range=(0.0, 0.0))
    assert f.statement().notes == ("the correction's range is narrower than [-1, 1]: no guarantee",)
    assert mw.InsuredForecaster(max_stake=1).statement().notes == ()


def test_a_book_that_nobody_trades_on_says_so() -> None:
    f = mw.InsuredForecaster(None, mw.NaiveBestResponse(), max_stake=12)
    table = {"use": (2, -10), "skip": (0, 0)}
    for t in range(200):  # one unlucky bet, and c is 1/2: cover costs more than it is worth to her
        q = f.forecast(mu=0.5)
        f.settle(q, t % 2, stake=mw.insure(q, table).stake)
    assert "nobody has staked on the last 199 forecasts" in str(f.statement())
    by_default = mw.InsuredForecaster(max_stake=12)
    for t in range(200):
        q = by_default.forecast(mu=0.5)
        by_default.settle(q, t % 2, stake=mw.insure(q, table).stake)
    assert by_default.statement().turnover == 200 * 12
    assert by_default.statement().notes == () or "nobody" not in str(by_default.statement())


def test_peeking_opens_nothing_and_changes_nothing(tmp_path: Path) -> None:
    f = mw.InsuredForecaster(None, mw.SwapRegret(5, seed=0), max_stake=1)
    for t in range(20):
        f.settle(f.forecast(mu=0.5), t % 2, stake=1.0)
    before = bits(f, tmp_path / "before")
    peeked = f.peek(mu=0.5)
    assert bits(f, tmp_path / "after") == before
    q = f.forecast(mu=0.5)
    assert (peeked.mu, peeked.c, peeked.id) == (q.mu, q.c, None)
    with pytest.raises(mw.UnknownForecast):
        f.stake(peeked, 1.0)


def test_the_correction_is_copied_not_shared() -> None:
    correction = mw.NaiveBestResponse()
    f = mw.InsuredForecaster(None, correction, max_stake=1)
    f.settle(f.forecast(mu=0.5), 1, stake=1.0)
    assert correction == mw.NaiveBestResponse()


def test_it_goes_on_after_a_restart_as_if_nothing_had_happened(tmp_path: Path) -> None:
    def learner() -> TwoLayerLearner:
        return TwoLayerLearner(3, hidden=4, seed=0)

    def rounds(f: mw.InsuredForecaster, start: int, stop: int) -> list[float]:
        paid: list[float] = []
        for t in range(start, stop):
            x = np.random.default_rng(t).normal(size=3)
            q = f.forecast(x)
            f.stake(q, 0.5)
            if t > 2:
                paid += f.settle(t - 2, t % 2)
        return paid

    straight = mw.InsuredForecaster(learner(), mw.SwapRegret(5, seed=1), max_stake=1)
    expected = rounds(straight, 0, 60)
    f = mw.InsuredForecaster(learner(), mw.SwapRegret(5, seed=1), max_stake=1)
    paid = rounds(f, 0, 30)
    f.save(tmp_path / "book.json")
    base_state = json.loads(json.dumps(f.base.state()))  # type: ignore[union-attr]  # the base is a learner
    again = mw.InsuredForecaster.load(tmp_path / "book.json", base=TwoLayerLearner.from_state(base_state))
    assert paid + rounds(again, 30, 60) == expected
    assert again.statement() == straight.statement()


@pytest.mark.parametrize(
    ("settings_", "message"),
    [
        (dict(max_stake=0), "max_stake must be one number above 0; got 0"),
        (dict(max_stake=float("nan")), "max_stake must be finite"),
        (dict(max_stake=1, mode="loose"), "mode must be 'exact' or 'sound'; got 'loose'"),
        (dict(max_stake=1, c_range=(0.5, 0.0)), "c_range must be a pair"),
        (dict(max_stake=1, classes=1), "classes must be a whole number of at least 2; got 1"),
        (dict(max_stake=1, capital=5, mode="exact"), "capital can be guarded in sound mode only"),
    ],
)
def test_bad_settings_are_named(settings_: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        mw.InsuredForecaster(**settings_)


@pytest.mark.parametrize("settings_", [dict(one_sided=True), dict(mode="sound")])
def test_capital_is_guarded_one_sided_and_in_sound_mode(settings_: dict[str, Any]) -> None:
    f = mw.InsuredForecaster(None, mw.NoCorrection(), max_stake=2, capital=5, stop=False, **settings_)
    for _ in range(20):
        f.settle(f.forecast(mu=0.5), 1, stake=2.0)
    assert 4.9 < f.statement().total_loss <= 5.0


def test_what_is_no_correction_or_base_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="correction must have propose, observe"):
        mw.InsuredForecaster(None, 0.5, max_stake=1)  # type: ignore[arg-type]  # bad on purpose
    with pytest.raises(TypeError, match="base must be a base learner"):
        mw.InsuredForecaster(0.5, max_stake=1)
    with pytest.raises(TypeError, match="there is a base"):
        mw.InsuredForecaster(lambda x: 0.5, max_stake=1).forecast(mu=0.5)


def test_a_base_that_says_nonsense_is_named_and_nothing_is_opened() -> None:
    f = mw.InsuredForecaster(lambda x: x, max_stake=1)
    with pytest.raises(ValueError, match=r"mu must lie in \[0, 1\]; got 1.5"):
        f.forecast(1.5)
    with pytest.raises(ValueError, match="mu must be finite; got nan"):
        f.forecast(float("nan"))
    assert f.statement().open == 0
    wide = mw.InsuredForecaster(lambda x: (0.5, 9.0), max_stake=1, c_range=(0.0, 0.25))
    assert wide.forecast(None).c == 0.25


def test_the_statement_reads_as_a_table() -> None:
    f = mw.InsuredForecaster(max_stake=1000)
    f.settle(f.forecast(mu=0.5), 1, stake=100.0)
    text = str(f.statement())
    assert "forecasts settled   1" in text
    assert "total loss          50" in text
    assert f.open_forecasts == []
    assert repr(f) == "InsuredForecaster(StandardRegret(rate=0.1), max_stake=1000.0, rounds=1)"
    assert f.forecast(mu=0.5).id == 1
    assert f.settle(np.int64(1), 0) == []


def test_a_class_or_a_name_in_place_of_an_object_is_named() -> None:
    class Model:
        def predict(self, x: object) -> tuple[float, float]:
            return 0.5, 0.0

        def learn(self, *given: object, **named: object) -> None:
            pass

    with pytest.raises(
        TypeError, match=r"base must be an object, not a class: write Model\(...\) instead of Model"
    ):
        mw.InsuredForecaster(Model, max_stake=1)
    with pytest.raises(
        TypeError, match=r"correction must be an object, such as mw.Reserve\(\); got the text 'res"
    ):
        mw.InsuredForecaster(None, "reserve", max_stake=1)  # type: ignore[arg-type]  # what it is about
