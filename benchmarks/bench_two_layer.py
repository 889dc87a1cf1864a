"""One step of both networks, 8 hidden units, 3 numbers and 3 one-hot features over 200 columns."""

from __future__ import annotations

from typing import Literal

import numpy as np
from scipy import sparse

from makewhole.forecasters import TwoLayerLearner
from timing import Row, side_by_side

STEPS = 20_000


def rows() -> list[Row]:
    """Compare with our targets in microseconds, and with one forward pass of one network in NumPy."""
    draw = np.random.default_rng(0)
    columns = np.stack(
        [np.zeros(STEPS) + k for k in range(3)]
        + [draw.integers(3 + 66 * k, 69 + 66 * k, STEPS) for k in range(3)]
    )
    values = np.concatenate([draw.normal(size=(3, STEPS)), np.ones((3, STEPS))])
    indptr = np.arange(STEPS + 1) * 6
    table = sparse.csr_matrix((values.T.ravel(), columns.T.ravel().astype(int), indptr), shape=(STEPS, 203))
    outcome, stake = draw.integers(0, 2, STEPS), draw.uniform(-1, 1, STEPS)

    def learner(optimizer: Literal["gradient", "adam"]) -> TwoLayerLearner:
        made = TwoLayerLearner(203, hidden=8, optimizer=optimizer, seed=0)
        made.run(table[:10], outcome[:10], stake[:10])  # compile first
        return made

    plain, adam = learner("gradient"), learner("adam")
    W, v = draw.normal(size=(203, 8)), draw.normal(size=8)

    def one_forward_pass() -> None:
        for t in range(STEPS):
            h = values[:, t] @ W[columns[:, t].astype(int)]
            np.maximum(h, 0.01 * h) @ v

    peer, *ours = side_by_side(
        one_forward_pass, lambda: plain.run(table, outcome, stake), lambda: adam.run(table, outcome, stake)
    )
    micro = 1e6 / STEPS
    timed = []
    for name, seconds, limit in (("plain gradient", ours[0], 2.0), ("dense Adam", ours[1], 12.0)):
        timed.append(Row(f"two nets, {name}", seconds * micro, f"{limit:g} µs", limit, "µs/step", 1.0))
        peer_name = "NumPy, one forward pass of one net"
        timed.append(Row(f"two nets, {name}", seconds * micro, peer_name, peer * micro, "µs/step"))
    return timed
