"""Who wins against whom: the counterexample to Theorem 1, and what follow-the-leader cannot bear."""

import math
import runpy
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import makewhole as mw
from makewhole.protocol import Chance, Record


def attack(
    agent: Callable[[Chance], mw.agents.DrawReader | mw.agents.PhaseDoubling | mw.agents.Clairvoyant],
    correction: mw.Correction,
    rounds: int,
) -> Record:
    nature = Chance(1.0, seed=0)
    forecaster = mw.InsuredForecaster(lambda x: 0.5, correction, max_stake=1.0, c_range=(0.0, 0.0))
    return mw.play(nature, forecaster, agent(nature), rounds)


# ln 4 / 8, give or take the first rounds and the randomness of the draws: their standard deviation is below
# 0.2/√T, so 0.01 is 5 of them at T = 10⁴.
@pytest.mark.slow
@pytest.mark.parametrize("rounds", [10_000, 40_000])
@pytest.mark.parametrize("cells", [4, 11, None])
def test_the_draw_reader_takes_017_from_the_papers_swap_for_every_horizon_and_cells(
    rounds: int, cells: int | None
) -> None:
    swap = mw.SwapRegret.for_horizon(rounds, seed=7) if cells is None else mw.SwapRegret(cells, seed=7)
    knows_all_but_the_seed = mw.SwapRegret(swap.cells, swap.low, swap.high, seed=999)
    record = attack(lambda n: mw.agents.DrawReader(knows_all_but_the_seed, rounds, n.outcome), swap, rounds)
    assert record.mean_loss == pytest.approx(math.log(4) / 8, abs=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("rounds", [10_000, 40_000])
def test_deterministic_swap_has_no_draw_to_read(rounds: int) -> None:
    correction = mw.DeterministicSwap.for_horizon(rounds)
    record = attack(lambda n: mw.agents.DrawReader(correction, rounds, n.outcome), correction, rounds)
    assert abs(record.mean_loss) < 0.001


@pytest.mark.slow
def test_the_example_of_attacks_says_who_falls(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(Path(__file__).parents[2] / "examples" / "attacks.py"), run_name="__main__")
    out = capsys.readouterr().out
    assert "you gain 4" in out
    verdicts = [line.split("  ")[-1] for line in out.splitlines() if "falls" in line or "not fall" in line]
    assert verdicts == ["does not fall", "falls", "falls", "does not fall", "does not fall", "falls"]


@pytest.mark.slow
def test_phases_of_doubling_length_beat_follow_the_leader_for_ever() -> None:
    rounds = 2**15

    def worst(correction: mw.Correction) -> float:
        losses = attack(lambda n: mw.agents.PhaseDoubling(n.outcome), correction, rounds)["loss"]
        means = np.abs(np.cumsum(losses) / np.arange(1, rounds + 1))
        return float(means[rounds // 8 :].max())

    assert worst(mw.NaiveBestResponse()) > 0.08
    assert worst(mw.DeterministicSwap.for_horizon(rounds)) < 0.02


@pytest.mark.slow
def test_no_correction_loses_half_the_stake_to_a_clairvoyant_and_the_others_hardly_anything() -> None:
    rounds = 4000

    def mean_loss(correction: mw.Correction) -> float:
        return attack(lambda n: mw.agents.Clairvoyant(n.outcome), correction, rounds).mean_loss

    assert mean_loss(mw.NoCorrection()) == 0.5
    for correction in (mw.NaiveBestResponse(), mw.SwapRegret(11, seed=0), mw.DeterministicSwap(63)):
        assert abs(mean_loss(correction)) < 0.02
