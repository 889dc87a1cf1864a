"""Algorithm 2 for many decision tasks in one pass, compiled: one network for μ, and one for c per task.

Stakes depend on μ̂ alone and no network on λ, so one pass over the data serves every task and every
correction. The tasks' c-networks lie side by side in one single-precision matrix (a row of all tasks'
hidden weights per input), so that a sparse row of features streams through all of them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from makewhole.forecasters import _kernels as learners
from makewhole.jit import jit


def spread(W: Any, indices: Any, values: Any, active: Any) -> None:
    """Compute the hidden activations of all tasks, before the leak: biases plus the row's features."""
    units = W.shape[1]
    for h in range(units):
        active[h] = W[W.shape[0] - 1, h]
    for j in range(len(indices)):
        row = W[indices[j]]
        x = np.float32(values[j])
        for h in range(units):
            active[h] += x * row[h]


def gather(W: Any, indices: Any, values: Any, change: Any) -> None:
    """Take the step of every hidden weight that the row touches."""
    units = W.shape[1]
    for h in range(units):
        W[W.shape[0] - 1, h] -= change[h]
    for j in range(len(indices)):
        row = W[indices[j]]
        x = np.float32(values[j])
        for h in range(units):
            row[h] -= x * change[h]


def task_outputs(v: Any, active: Any, slope: float, out: Any) -> None:
    """Compute each task's ĉ; leave the leaked activations in `active`."""
    tasks, hidden = v.shape[0], v.shape[1] - 1
    leak = np.float32(slope)
    for k in range(tasks):
        total = v[k, hidden]
        for h in range(hidden):
            at = k * hidden + h
            if active[at] < 0:
                active[at] *= leak
            total += v[k, h] * active[at]
        out[k] = total


def task_steps(v: Any, active: Any, slope: float, gradients: Any, rate: float) -> None:
    """Step each task's output weights; leave the steps of its hidden units in `active`."""
    tasks, hidden = v.shape[0], v.shape[1] - 1
    leak, one = np.float32(slope), np.float32(1.0)
    for k in range(tasks):
        step = np.float32(rate * gradients[k])
        for h in range(hidden):
            at = k * hidden + h
            change = step * v[k, h] * (leak if active[at] < 0 else one)
            v[k, h] -= step * active[at]
            active[at] = change
        v[k, hidden] -= step


def choose(losses: Any, mu: float) -> tuple[float, int]:
    """Return the hedge of the trustful action under μ, and that action; losses are (action, outcome)."""
    best, action = np.inf, 0
    for a in range(losses.shape[0]):
        expected = (1.0 - mu) * losses[a, 0] + mu * losses[a, 1]
        if expected < best:
            best, action = expected, a
    return losses[action, 1] - losses[action, 0], action


def make_pass() -> Callable[..., None]:
    """Make the pass."""

    def one_pass(
        net: Any,
        settings: Any,
        W: Any,
        v: Any,
        rows: Any,
        outcome: Any,
        z: Any,
        tables: Any,
        caps: Any,
        work: Any,
        out: Any,
    ) -> None:
        starts, indices, values = rows
        mu_out, c_out, stake_out, action_out = out
        mu_active, active, outputs, gradients = work
        slope, mu_rate, c_rate, margin, c_low, c_high, _ = settings
        for t in range(len(outcome)):
            i, x, y = indices[starts[t] : starts[t + 1]], values[starts[t] : starts[t + 1]], outcome[t]
            raw = learners.forward(net[0], net[1], slope, i, x, mu_active)
            mu = min(max(raw, margin), 1.0 - margin)
            learners.descend(net[0], net[1], slope, i, x, mu_active, 2.0 * (raw - y), mu_rate)
            spread(W, i, x, active)
            task_outputs(v, active, slope, outputs)
            mu_out[t] = mu
            for k in range(len(caps)):
                stake, action = choose(tables[k, z[t]], mu)
                b = stake / caps[k]
                c_out[t, k] = min(max(outputs[k], c_low), c_high)
                stake_out[t, k], action_out[t, k] = stake, action
                gradients[k] = -2.0 * abs(b) * (b * (y - mu) - abs(b) * outputs[k])
            task_steps(v, active, slope, gradients, c_rate)
            gather(W, i, x, active)

    return one_pass


@functools.cache
def compiled_pass() -> Callable[..., None]:
    """Compile the pass over the data."""
    inner = (learners.forward, learners.descend, spread, gather, task_outputs, task_steps, choose)
    return jit(make_pass(), *inner)
