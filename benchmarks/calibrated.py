"""Whether c vanishes in the paper's benchmark if μ is calibrated: `python benchmarks/calibrated.py`.

MNIST and Adult come from MAKEWHOLE_DATA. The paper's network says μ; it is published as it is, or a
`CalibratedForecaster` mends it first. The decision makers of twenty tasks hedge, and deterministic swap
chooses c, with ĉ = 0. Each line has means over seeds, with standard errors: the Brier score; the c that the
best bets on μ alone need; the mean |c| in the last fifth of the forecasts; and |mean loss| in caps. The last
line is the cost: the time that calibrating takes, over that of the network.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from makewhole.forecasters import TwoLayerLearner
from makewhole.studies.calibrated import FORECASTERS, in_the_benchmark, recalibrated
from makewhole.studies.decisions import DecisionSettings


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=None)
    options = parser.parse_args()
    for dataset in ("mnist", "adult"):
        settings = DecisionSettings(dataset, options.rounds)
        runs = [in_the_benchmark(settings, seed) for seed in range(options.seeds)]
        for k, name in enumerate(FORECASTERS):
            numbers = np.array([run[k][1:] for run in runs])
            mean, error = numbers.mean(axis=0), numbers.std(axis=0, ddof=1) / np.sqrt(len(runs))
            cells = "  ".join(f"{m:.4f} ± {e:.4f}" for m, e in zip(mean, error, strict=True))
            print(f"{dataset:6} {name:11} {cells}")
    print(f"calibrating takes {cost():.2f} of the network's time")


def cost(rounds: int = 5_000, inputs: int = 100) -> float:
    """Return the time to calibrate a forecast over that of the network to forecast and learn one row."""
    draw = np.random.default_rng(0)
    rows = draw.normal(size=(rounds, inputs))
    net = TwoLayerLearner(inputs, seed=0)
    net.learn(rows[0], 1, mu=net.predict(rows[0])[0])  # compiled here
    start, said = time.perf_counter(), np.empty(rounds)
    for t, x in enumerate(rows):
        said[t] = net.predict(x)[0]
        net.learn(x, t % 2, mu=said[t])
    middle = time.perf_counter()
    recalibrated(said, np.arange(rounds) % 2, 0)
    return (time.perf_counter() - middle) / (middle - start)


if __name__ == "__main__":
    main()
