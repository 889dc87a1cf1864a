"""The two-layer learner against a plain transcription: same predictions, same gradients, same Adam."""

from typing import Any, Literal

import numpy as np
import pytest
from scipy import sparse

import makewhole as mw
from makewhole.forecasters import SparseRow, TwoLayerLearner

pytestmark = pytest.mark.slow  # the learner takes seconds to compile


class Plain:
    """The same two networks with dense NumPy, gradients by central differences."""

    def __init__(self, learner: TwoLayerLearner) -> None:
        state = learner.state()
        self.settings = state["settings"]
        self.nets = [[np.array(W), np.array(v)] for W, v, _ in state["nets"]]
        self.moments: list[Any] = [None, None]
        self.time = [0, 0]

    def output(self, which: int, parameters: Any, x: Any) -> float:
        W, v = parameters
        before = W[:-1].T @ x + W[-1]
        active = np.where(before < 0, self.settings["slope"] * before, before)
        return float(v[:-1] @ active + v[-1])

    def gradient(self, which: int, x: Any, loss: Any) -> list[Any]:
        gradients = []
        for part in self.nets[which]:
            g = np.zeros_like(part)
            for i in np.ndindex(part.shape):
                kept, h = part[i], 1e-6
                part[i] = kept + h
                up = loss(self.output(which, self.nets[which], x))
                part[i] = kept - h
                down = loss(self.output(which, self.nets[which], x))
                part[i] = kept
                g[i] = (up - down) / (2 * h)
            gradients.append(g)
        return gradients

    def step(self, which: int, x: Any, loss: Any, rate: float) -> None:
        gradients = self.gradient(which, x, loss)
        if self.settings["optimizer"] == "gradient":
            for part, g in zip(self.nets[which], gradients, strict=True):
                part -= rate * g
            return
        self.time[which] += 1
        t = self.time[which]
        if self.moments[which] is None:
            self.moments[which] = [[np.zeros_like(g), np.zeros_like(g)] for g in gradients]
        for part, g, moment in zip(self.nets[which], gradients, self.moments[which], strict=True):
            moment[0] = 0.9 * moment[0] + 0.1 * g
            moment[1] = 0.999 * moment[1] + 0.001 * g**2
            # epsilon beside the uncorrected root, as in Kingma & Ba's efficient form
            scale = rate * np.sqrt(1 - 0.999**t) / (1 - 0.9**t)
            part -= scale * moment[0] / (np.sqrt(moment[1]) + 1e-8)

    def predict(self, x: Any) -> tuple[float, float]:
        mu, c = (self.output(k, self.nets[k], x) for k in (0, 1))
        edge, (low, high) = self.settings["edge"], self.settings["c_range"]
        return float(np.clip(mu, edge, 1 - edge)), float(np.clip(c, low, high))

    def learn(self, x: Any, y: float, mu: float, net: float, gross: float) -> None:
        self.step(0, x, lambda out: (out - y) ** 2, self.settings["mu_rate"])
        if gross:
            self.step(1, x, lambda out: (net * (y - mu) - gross * out) ** 2, self.settings["c_rate"])


@pytest.mark.parametrize("optimizer", ["gradient", "adam"])
def test_every_step_is_that_of_a_plain_transcription(optimizer: Literal["gradient", "adam"]) -> None:
    learner = TwoLayerLearner(
        5, hidden=3, mu_rate=0.05, c_rate=0.03, optimizer=optimizer, slope=0.1, c_range=(-1.0, 1.0), seed=0
    )
    plain = Plain(learner)
    draw = np.random.default_rng(1)
    for _ in range(60):
        x, y = draw.normal(size=5), float(draw.integers(2))
        net = float(draw.choice([0.0, -0.5, 0.7]))
        mu, c = learner.predict(x)
        assert (mu, c) == pytest.approx(plain.predict(x), abs=1e-6)
        learner.learn(x, y, mu=mu, net=net, gross=abs(net) * 1.3)
        plain.learn(x, y, mu, net, abs(net) * 1.3)


@pytest.mark.parametrize("optimizer", ["gradient", "adam"])
def test_sparse_dense_and_bulk_agree_bit_for_bit(optimizer: Literal["gradient", "adam"]) -> None:
    draw = np.random.default_rng(2)
    rows = draw.normal(size=(300, 12)) * (draw.random((300, 12)) < 0.3)
    y, b = draw.integers(0, 2, 300).astype(float), draw.uniform(-1, 1, 300)

    def fresh() -> TwoLayerLearner:
        return TwoLayerLearner(12, hidden=4, mu_rate=0.02, c_rate=0.02, optimizer=optimizer, seed=0)

    csr = sparse.csr_matrix(rows)
    bulk, dense_bulk, single = fresh(), fresh(), fresh()
    mu, c = bulk.run(csr, y, b)
    dense_mu, dense_c = dense_bulk.run(rows, y, b)
    one = []
    for t in range(300):
        at = np.flatnonzero(rows[t])
        row = SparseRow(at, rows[t, at])
        one.append(single.predict(row))
        single.learn(row, y[t], mu=one[-1][0], net=b[t], gross=abs(b[t]))
    assert np.array_equal(np.array(one), np.stack([mu, c], axis=1))
    assert single.state() == bulk.state()
    # a zero adds nothing but changes the order of nothing: dense rows give the same bits
    assert np.array_equal(mu, dense_mu)
    assert np.array_equal(c, dense_c)


def test_it_learns_a_probability_and_a_width() -> None:
    draw = np.random.default_rng(0)
    group = draw.integers(0, 2, 20_000)
    rows = np.eye(2)[group]
    y = (draw.random(20_000) < np.where(group == 0, 0.2, 0.8)).astype(float)
    learner = TwoLayerLearner(2, hidden=8, mu_rate=0.01, c_rate=0.02, c_range=(-1.0, 1.0), seed=0)
    # in group 1 the agents know the outcome: only c = |y − μ| on average can balance that
    b = np.where(group == 1, np.where(y == 1, 1.0, -1.0), draw.choice([-1.0, 1.0], 20_000))
    mu, c = learner.run(rows, y, b)
    late = np.arange(20_000) >= 10_000

    def average(values: Any, which: int) -> float:
        return float(values[late & (group == which)].mean())

    # averages of about 5000 outcomes of standard deviation 0.4 and more: 0.03 is over 4 of their own
    assert average(mu, 0) == pytest.approx(0.2, abs=0.03)
    assert average(mu, 1) == pytest.approx(0.8, abs=0.03)
    assert average(c, 0) == pytest.approx(0.0, abs=0.03)
    assert average(c, 1) == pytest.approx(2 * 0.8 * 0.2, abs=0.03)


def test_state_comes_back_and_goes_on() -> None:
    import json

    draw = np.random.default_rng(3)
    rows, y, b = draw.normal(size=(100, 4)), draw.integers(0, 2, 100), draw.uniform(-1, 1, 100)
    for optimizer in ("gradient", "adam"):
        learner = TwoLayerLearner(4, hidden=3, optimizer=optimizer, seed=0)
        learner.run(rows[:50], y[:50], b[:50])
        again = TwoLayerLearner.from_state(json.loads(json.dumps(learner.state())))
        assert np.array_equal(learner.run(rows[50:], y[50:], b[50:]), again.run(rows[50:], y[50:], b[50:]))


def test_the_same_seed_gives_the_same_weights() -> None:
    assert TwoLayerLearner(3, seed=5).state() == TwoLayerLearner(3, seed=5).state()
    assert TwoLayerLearner(3, seed=5).state() != TwoLayerLearner(3, seed=6).state()


def test_it_is_a_base_for_an_insured_forecaster() -> None:
    draw = np.random.default_rng(0)
    f = mw.InsuredForecaster(TwoLayerLearner(3, hidden=4, seed=0), max_stake=10)
    mw.checks.check_forecaster(lambda: TwoLayerLearner(3, hidden=4, seed=0), xs=draw.normal(size=(20, 3)))
    for _ in range(50):
        q = f.forecast(draw.normal(size=3))
        f.settle(q, int(draw.integers(2)), stake=3.0)
    assert f.statement().rounds == 50


def test_a_learner_that_diverges_says_so() -> None:
    learner = TwoLayerLearner(2, hidden=4, mu_rate=10.0, seed=0)
    with pytest.raises(ArithmeticError, match="diverged: lower mu_rate"):
        learner.run(np.full((500, 2), 100.0), np.arange(500) % 2)


_learner: Any = TwoLayerLearner  # to call it with what it does not take


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: m.predict([1.0, 2.0]), r"x must be 3 numbers or a SparseRow; got shape \(2,\)"),
        (lambda m: m.predict([1.0, 2.0, np.nan]), "x must be finite; got nan at index 2"),
        (lambda m: m.predict(SparseRow([3], [1.0])), "x.indices must lie in 0 … 2"),
        (lambda m: m.predict(SparseRow([0, 1], [1.0])), "as many indices as values"),
        (lambda m: m.learn([1.0, 2.0, 3.0], 2), "outcome must be 0 or 1; got 2"),
        (lambda m: m.run(np.zeros((4, 3)), [0, 1]), "rows must be as many as outcomes, 2; got 4"),
        (lambda m: m.run(np.zeros((2, 5)), [0, 1]), r"rows must have shape \(n, 3\)"),
        (
            lambda m: m.run(sparse.csr_matrix(np.ones((2, 5))), [0, 1]),
            "rows must have 3 columns; got column 4",
        ),
        (lambda m: TwoLayerLearner(0), "inputs must be a whole number of at least 1"),
        (lambda m: _learner(3, optimizer="sgd"), "optimizer must be 'gradient' or 'adam'"),
        (lambda m: TwoLayerLearner(3, edge=0.5), r"edge must lie in \[0, 0.5\)"),
        (lambda m: TwoLayerLearner(3, slope=2), r"slope must lie in \[0, 1\]"),
        (lambda m: TwoLayerLearner(3, mu_rate=-1), "mu_rate must be one number above 0"),
    ],
)
def test_bad_rows_and_settings_are_named(call: Any, message: str) -> None:
    learner = TwoLayerLearner(3, hidden=2, seed=0)
    before = learner.state()
    with pytest.raises(ValueError, match=message):
        call(learner)
    assert learner.state() == before
