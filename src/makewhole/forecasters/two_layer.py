"""Algorithm 2: two two-layer networks, one for μ and one for c, trained online."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, Self

import numpy as np

from makewhole import arguments
from makewhole.arguments import Floats
from makewhole.jit import call


class SparseRow(NamedTuple):
    """One row of features, as the indices of those that are not zero, and their values."""

    indices: Any
    values: Any


class TwoLayerLearner:
    """The paper's base learner: one two-layer network for μ and one for c, trained on every outcome.

    The networks μ_θ and c_φ have leaky ReLUs. After every outcome y, μ_θ takes a gradient step on
    (μ_θ(x) − y)². If b was staked, c_φ takes one on (b(y − μ̂) − |b|·c_φ(x))², with b divided by the cap. The
    default rates are for features of about size 1: standardise numbers first, or lower the rates. It is for
    binary events only.

    A row x is a sequence of `inputs` numbers, or a `SparseRow` if most of them are zero (one-hot).

    Parameters
    ----------
    inputs
        The number of features.
    hidden
        The number of hidden units in each network.
    mu_rate, c_rate
        The step sizes of the two networks.
    optimizer
        "gradient", as in the paper: plain gradient steps; their cost is proportional to the number of
        features that are not zero. "adam": every weight changes at every step.
    edge
        μ̂ is clipped to [edge, 1 − edge].
    c_range
        ĉ is clipped to this range.
    slope
        The slope of the leaky ReLU below zero.
    seed
        The seed of the initial weights.

    Examples
    --------
    >>> import makewhole as mw
    >>> from makewhole.forecasters import SparseRow, TwoLayerLearner
    >>> learner = TwoLayerLearner(inputs=4, hidden=8, mu_rate=0.05, seed=0)
    >>> for _ in range(200):
    ...     learner.learn(SparseRow([0], [1.0]), outcome=1)
    ...     learner.learn(SparseRow([1], [1.0]), outcome=0)
    >>> mu, c = learner.predict(SparseRow([0], [1.0]))
    >>> round(mu, 2)
    0.99

    References
    ----------
    Zhao & Ermon (2021), "Right Decisions from Wrong Predictions", Algorithm 2.
    """

    def __init__(
        self,
        inputs: int,
        hidden: int = 16,
        *,
        mu_rate: float = 0.003,
        c_rate: float = 0.01,
        optimizer: Literal["gradient", "adam"] = "gradient",
        edge: float = 0.01,
        c_range: tuple[float, float] = (0.0, 0.5),
        slope: float = 0.01,
        seed: int | None = None,
    ) -> None:
        self.inputs = arguments.whole("inputs", inputs, least=1)
        self.hidden = arguments.whole("hidden", hidden, least=1)
        if optimizer not in ("gradient", "adam"):
            raise ValueError(f"optimizer must be 'gradient' or 'adam'; got {optimizer!r}")
        if not 0 <= edge < 0.5:
            raise ValueError(f"edge must lie in [0, 0.5); got {edge!r}")
        if not 0 <= slope <= 1:
            raise ValueError(f"slope must lie in [0, 1]; got {slope!r}")
        self.optimizer = optimizer
        rates = arguments.positive("mu_rate", mu_rate), arguments.positive("c_rate", c_rate)
        low, high = arguments.interval("c_range", c_range)
        self._settings = (float(slope), *rates, float(edge), low, high, optimizer == "adam")
        draw = np.random.default_rng(seed)
        self._nets = tuple(self._network(draw, bias) for bias in (0.5, 0.0))
        self._active = np.empty(self.hidden)
        self._every = np.arange(self.inputs)

    def _network(self, draw: np.random.Generator, bias: float) -> tuple[Any, ...]:
        """Return a new network; its output weights are 0, so that at first its output is `bias`."""
        W = draw.normal(0.0, 1.0 / np.sqrt(self.inputs), (self.inputs + 1, self.hidden))
        v = np.zeros(self.hidden + 1)
        W[-1], v[-1] = 0.0, bias
        # Plain steps need no moments, but the compiled code needs arrays of the same number of axes.
        like = (W, v) if self.optimizer == "adam" else (np.zeros((0, 0)), np.zeros(0))
        moments = (
            *(np.zeros_like(like[0]) for _ in "ms"),
            *(np.zeros_like(like[1]) for _ in "ms"),
            np.zeros(1),
        )
        return W, v, moments

    def predict(self, x: Any) -> tuple[float, float]:
        """Return μ̂ and ĉ for one row."""
        from makewhole.forecasters._kernels import compiled

        mu, c = call(compiled().predict, self._nets, self._settings, *self._row(x), self._active)
        self._still_finite(mu, c)
        return mu, c

    def learn(
        self, x: Any, outcome: float, *, mu: float | None = None, net: float = 0.0, gross: float = 0.0
    ) -> None:
        """Take one step after an outcome.

        `mu` is the μ̂ that was predicted. `net` and `gross` are the sums of the stakes and of their absolute
        values, divided by the cap. Raises a ValueError if one of them is not valid.
        """
        from makewhole.forecasters._kernels import compiled

        row = self._row(x)
        if outcome not in (0, 1):
            raise ValueError(f"outcome must be 0 or 1; got {outcome!r}")
        if not (np.isfinite(net) and np.isfinite(gross) and gross >= 0):
            raise ValueError(f"net and gross must be finite, and gross at least 0; got {net!r}, {gross!r}")
        mu_hat = self.predict(x)[0] if mu is None else float(mu)
        call(
            compiled().learn,
            self._nets,
            self._settings,
            *row,
            self._active,
            (float(outcome), mu_hat, float(net), float(gross)),
        )

    def run(self, rows: Any, outcome: Any, net: Any = 0.0, gross: Any = None) -> tuple[Floats, Floats]:
        """Predict and then learn each row, in order, at compiled speed; return every μ̂ and ĉ.

        `rows` is a matrix, or a sparse matrix by rows: anything with `indptr`, `indices` and `data`, such as
        SciPy's CSR. `gross` is |net| by default.
        """
        from makewhole.forecasters._kernels import compiled

        y = np.atleast_1d(arguments.binary_outcomes("outcome", outcome))
        B = np.broadcast_to(arguments.numbers("net", net), y.shape)
        A = np.broadcast_to(np.abs(B) if gross is None else arguments.numbers("gross", gross), y.shape)
        table = self._rows(rows, len(y))
        mu, c = np.empty(len(y)), np.empty(len(y))
        columns = (y, np.ascontiguousarray(B), np.ascontiguousarray(A))
        call(compiled().run, self._nets, self._settings, table, columns, self._active, mu, c)
        if len(y):
            self._still_finite(mu[-1], c[-1])
        return mu, c

    @property
    def internals(self) -> tuple[Any, Any]:
        """The networks and settings that the compiled functions take; the networks change as they learn."""
        return self._nets, self._settings

    def _row(self, x: Any) -> tuple[Any, Any]:
        if isinstance(x, SparseRow):
            indices, values = np.asarray(x.indices, dtype=np.int64), arguments.numbers("x.values", x.values)
            if indices.ndim != 1 or indices.shape != values.shape:
                raise ValueError(
                    f"x must have as many indices as values; got {indices.shape}, {values.shape}"
                )
            if indices.size and not (indices.min() >= 0 and indices.max() < self.inputs):
                raise ValueError(f"x.indices must lie in 0 … {self.inputs - 1}; got {x.indices!r}")
            return indices, values
        values = arguments.numbers("x", x)
        if values.shape != (self.inputs,):
            raise ValueError(f"x must be {self.inputs} numbers or a SparseRow; got shape {values.shape}")
        return self._every, values

    def _rows(self, rows: Any, count: int) -> tuple[Any, Any, Any]:
        if hasattr(rows, "indptr"):
            starts, indices = np.asarray(rows.indptr, np.int64), np.asarray(rows.indices, np.int64)
            values = arguments.numbers("rows", rows.data)
        else:
            matrix = arguments.numbers("rows", rows)
            if matrix.ndim != 2 or matrix.shape[1] != self.inputs:
                raise ValueError(f"rows must have shape (n, {self.inputs}); got {matrix.shape}")
            starts = np.arange(len(matrix) + 1, dtype=np.int64) * self.inputs
            indices, values = np.tile(self._every, len(matrix)), matrix.ravel()
        if len(starts) != count + 1:
            raise ValueError(f"rows must be as many as outcomes, {count}; got {len(starts) - 1}")
        if indices.size and not (indices.min() >= 0 and indices.max() < self.inputs):
            raise ValueError(f"rows must have {self.inputs} columns; got column {int(indices.max())}")
        return starts, indices, values

    def _still_finite(self, mu: float, c: float) -> None:
        if not (np.isfinite(mu) and np.isfinite(c)):
            raise ArithmeticError(
                "the learner has diverged: lower mu_rate and c_rate, or standardise the features"
            )

    def state(self) -> dict[str, Any]:
        """Return settings and weights as plain data."""
        slope, mu_rate, c_rate, edge, low, high, _ = self._settings
        settings: dict[str, Any] = {
            "inputs": self.inputs,
            "hidden": self.hidden,
            "mu_rate": mu_rate,
            "c_rate": c_rate,
        }
        settings |= {"optimizer": self.optimizer, "edge": edge, "c_range": [low, high], "slope": slope}
        nets = [[W.tolist(), v.tolist(), [m.tolist() for m in moments]] for W, v, moments in self._nets]
        return {"settings": settings, "nets": nets}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """Return a learner with the state that `state()` returned."""
        made = cls(**state["settings"])
        for (W, v, moments), saved in zip(made._nets, state["nets"], strict=True):
            for array, values in zip((W, v, *moments), (saved[0], saved[1], *saved[2]), strict=True):
                array[...] = np.reshape(values, array.shape)
        return made
