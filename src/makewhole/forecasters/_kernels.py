"""Two-layer networks on sparse rows, forward and backward; compiled on first use.

A network is (W, v). W has a row of hidden weights for each input, and a last row of biases. v has the output
weights, and as its last entry the output bias. A sparse row uses only its own rows of W, so the cost of a
plain gradient step is proportional to the number of features that are not zero.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

from makewhole.jit import jit


def forward(W: Any, v: Any, slope: float, indices: Any, values: Any, active: Any) -> float:
    """Return the output; write the hidden activations to `active`."""
    inputs, hidden = W.shape[0] - 1, W.shape[1]
    for h in range(hidden):
        active[h] = W[inputs, h]
    for j in range(len(indices)):
        row = W[indices[j]]
        for h in range(hidden):
            active[h] += values[j] * row[h]
    output = v[hidden]
    for h in range(hidden):
        if active[h] < 0.0:
            active[h] *= slope
        output += v[h] * active[h]
    return float(output)


def descend(
    W: Any, v: Any, slope: float, indices: Any, values: Any, active: Any, gradient: float, rate: float
) -> None:
    """Take one plain gradient step, given the derivative of the loss with respect to the output."""
    inputs, hidden = W.shape[0] - 1, W.shape[1]
    step = rate * gradient
    for h in range(hidden):
        at_hidden = step * v[h] * (slope if active[h] < 0.0 else 1.0)
        v[h] -= step * active[h]
        active[h] = at_hidden
    v[hidden] -= step
    for h in range(hidden):
        W[inputs, h] -= active[h]
    for j in range(len(indices)):
        row = W[indices[j]]
        for h in range(hidden):
            row[h] -= values[j] * active[h]


def adam(
    W: Any,
    v: Any,
    slope: float,
    indices: Any,
    values: Any,
    active: Any,
    gradient: float,
    rate: float,
    moments: Any,
) -> None:
    """Take one Adam step (Kingma & Ba 2015) on every weight, also where the input is zero."""
    inputs, hidden = W.shape[0] - 1, W.shape[1]
    mW, sW, mv, sv, time = moments
    time[0] += 1.0
    scale = rate * (1.0 - 0.999 ** time[0]) ** 0.5 / (1.0 - 0.9 ** time[0])
    for i in range(inputs + 1):
        for h in range(hidden):
            mW[i, h] *= 0.9
            sW[i, h] *= 0.999
    for h in range(hidden):
        at_hidden = gradient * v[h] * (slope if active[h] < 0.0 else 1.0)
        mv[h] = 0.9 * mv[h] + 0.1 * gradient * active[h]
        sv[h] = 0.999 * sv[h] + 0.001 * (gradient * active[h]) ** 2
        active[h] = at_hidden
        mW[inputs, h] += 0.1 * at_hidden
        sW[inputs, h] += 0.001 * at_hidden**2
    mv[hidden] = 0.9 * mv[hidden] + 0.1 * gradient
    sv[hidden] = 0.999 * sv[hidden] + 0.001 * gradient**2
    for j in range(len(indices)):
        i = indices[j]
        for h in range(hidden):
            mW[i, h] += 0.1 * values[j] * active[h]
            sW[i, h] += 0.001 * (values[j] * active[h]) ** 2
    for i in range(inputs + 1):
        for h in range(hidden):
            W[i, h] -= scale * mW[i, h] / (sW[i, h] ** 0.5 + 1e-8)
    for h in range(hidden + 1):
        v[h] -= scale * mv[h] / (sv[h] ** 0.5 + 1e-8)


def improve(
    net: Any, slope: float, indices: Any, values: Any, active: Any, gradient: float, rate: float, dense: bool
) -> None:
    """Take one step with the optimizer of the network."""
    W, v, moments = net
    if dense:
        adam(W, v, slope, indices, values, active, gradient, rate, moments)
    else:
        descend(W, v, slope, indices, values, active, gradient, rate)


def predict(nets: Any, settings: Any, indices: Any, values: Any, active: Any) -> tuple[float, float]:
    """Return μ̂ and ĉ for one row, clipped to their ranges."""
    slope, _, _, edge, c_low, c_high, _ = settings
    mu = forward(nets[0][0], nets[0][1], slope, indices, values, active)
    c = forward(nets[1][0], nets[1][1], slope, indices, values, active)
    return min(max(mu, edge), 1.0 - edge), min(max(c, c_low), c_high)


def learn(
    nets: Any, settings: Any, indices: Any, values: Any, active: Any, seen: tuple[float, float, float, float]
) -> None:
    """Take one step of Algorithm 2: on (μ_θ − y)², and if A > 0 on (B(y − μ̂) − A·c_φ)²."""
    slope, mu_rate, c_rate, _, _, _, dense = settings
    outcome, mu_hat, net, gross = seen
    output = forward(nets[0][0], nets[0][1], slope, indices, values, active)
    improve(nets[0], slope, indices, values, active, 2.0 * (output - outcome), mu_rate, dense)
    if gross > 0.0:
        output = forward(nets[1][0], nets[1][1], slope, indices, values, active)
        gradient = -2.0 * gross * (net * (outcome - mu_hat) - gross * output)
        improve(nets[1], slope, indices, values, active, gradient, c_rate, dense)


def run(nets: Any, settings: Any, rows: Any, columns: Any, active: Any, mu_out: Any, c_out: Any) -> None:
    """Predict and then learn each row, in order."""
    starts, indices, values = rows
    outcome, net, gross = columns
    for t in range(len(outcome)):
        i, x = indices[starts[t] : starts[t + 1]], values[starts[t] : starts[t + 1]]
        mu_out[t], c_out[t] = predict(nets, settings, i, x, active)
        learn(nets, settings, i, x, active, (outcome[t], mu_out[t], net[t], gross[t]))


class Compiled(NamedTuple):
    """The three entry points, compiled."""

    predict: Callable[..., Any]
    learn: Callable[..., Any]
    run: Callable[..., Any]


@functools.cache
def compiled() -> Compiled:
    """Return the compiled entry points, from numba's cache if they are in it."""
    inner = (forward, descend, adam, improve)
    return Compiled(jit(predict, *inner), jit(learn, *inner), jit(run, *inner, predict, learn))
