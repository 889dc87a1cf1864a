"""A forecaster that is calibrated against every nature that cannot see its draw."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import makewhole as mw
from makewhole.forecasters import CalibratedForecaster

Nature = Callable[[CalibratedForecaster, int], int]


def opposite(f: CalibratedForecaster, t: int) -> int:
    """Knows everything but the draw, and makes happen what is forecast as the less likely."""
    return int(f.expected(None) < 0.5)


def phases(f: CalibratedForecaster, t: int) -> int:
    return (t + 1).bit_length() % 2


def chance(f: CalibratedForecaster, t: int) -> int:
    return int((t * 0.618) % 1 < 0.37)


def play(f: CalibratedForecaster, nature: Nature, rounds: int) -> tuple[np.ndarray, np.ndarray]:
    said, happened = np.empty(rounds), np.empty(rounds)
    for t in range(rounds):
        happened[t] = nature(f, t)
        said[t] = f.predict(None)[0]
        f.learn(None, happened[t], mu=said[t])
    return said, happened


def error(said: np.ndarray, happened: np.ndarray) -> float:
    """Σ over levels of |Σ(y − μ)|: what the best bets on μ alone would have won at c = 0."""
    return float(sum(abs((happened - said)[said == level].sum()) for level in np.unique(said)))


@pytest.mark.slow
@pytest.mark.parametrize("nature", [opposite, phases, chance])
def test_frequencies_come_out_right_against_every_nature_that_is_blind_to_the_draw(nature: Nature) -> None:
    rounds = 1000
    errors = [
        error(*play(CalibratedForecaster.for_horizon(rounds, seed=seed), nature, rounds)) for seed in range(8)
    ]
    assert np.mean(errors) <= 1.5 * rounds ** (2 / 3)
    assert CalibratedForecaster.for_horizon(rounds).levels == 10


@given(st.integers(2, 8), st.lists(st.booleans(), max_size=60), st.integers(0, 100))
def test_the_proof_step_by_step(levels: int, outcomes: list[bool], seed: int) -> None:
    """Given the past, neither outcome raises the expected sum of squared distances by more than 1."""
    f = CalibratedForecaster(levels=levels, seed=seed)

    def distances() -> float:
        return sum(max(0.0, *f._off(0, k)) ** 2 for k in range(levels))

    for y in outcomes:
        lower, p = f._choose(0)
        before, grown = distances(), 0.0
        for cell, probability in ((lower, p), (lower + 1, 1 - p)):
            if probability == 0:
                continue
            f._counts[0][cell] += 1
            f._ones[0][cell] += y
            grown += probability * (distances() - before)
            f._counts[0][cell] -= 1
            f._ones[0][cell] -= y
        assert grown <= 1 + 1e-9
        f.learn(None, y, mu=f.predict(None)[0])


def test_a_nature_that_sees_the_draw_is_not_held() -> None:
    """Why the draw must be hidden (Oakes 1985): here nature always does what was forecast as less likely."""
    f = CalibratedForecaster(levels=10, seed=0)
    said, happened = play(f, lambda f, t: int(f.predict(None)[0] < 0.5), 1000)
    assert error(said, happened) > 0.3 * 1000


def test_with_a_base_each_bin_is_calibrated_and_forecasts_stay_sharp() -> None:
    """The base is 0.2 too low in one half and 0.2 too high in the other."""
    draw = np.random.default_rng(0)
    f = CalibratedForecaster(lambda x: 0.1 + 0.2 * x, levels=10, seed=0)
    said, group = np.empty(4000), draw.integers(0, 2, 4000) * 3
    for t, x in enumerate(group.tolist()):
        said[t] = f.predict(x)[0]
        f.learn(x, draw.random() < (0.3 if x == 0 else 0.5), mu=said[t])
    late = np.arange(4000) > 2000
    assert abs(said[late & (group == 0)].mean() - 0.3) < 0.06
    assert abs(said[late & (group == 3)].mean() - 0.5) < 0.06


def test_bets_on_mu_alone_need_no_c_while_bets_that_know_more_do() -> None:
    rounds, draw = 3000, np.random.default_rng(1)
    f = CalibratedForecaster.for_horizon(rounds, seed=1)
    known = draw.integers(0, 2, rounds)  # half of the events are certain, one way or the other
    said, happened = play(f, lambda f, t: int(known[t]), rounds)
    assert error(said, happened) / rounds < 1.5 * rounds ** (-1 / 3)
    assert np.abs(known - said).mean() > 0.3  # what a bettor who knows them wins


def test_it_is_a_base_learner_like_any_other() -> None:
    mw.checks.check_forecaster(lambda: CalibratedForecaster(levels=5, seed=0))
    mw.checks.check_forecaster(lambda: CalibratedForecaster(lambda x: 0.3, levels=5, seed=0))


def test_the_levels_are_the_middles_of_equal_cells_and_their_number_is_the_cube_root() -> None:
    said, _ = play(CalibratedForecaster(levels=4, seed=0), opposite, 200)
    assert set(said) <= {0.125, 0.375, 0.625, 0.875}
    assert [CalibratedForecaster.for_horizon(n).levels for n in (1, 8, 1000, 1001)] == [2, 2, 10, 11]
    assert math.isclose(CalibratedForecaster(levels=4, seed=0).predict(None)[0], 0.625)


def test_without_a_base_there_are_no_bins() -> None:
    with pytest.raises(ValueError, match="bins must be 1 without a base; got 3"):
        CalibratedForecaster(bins=3)
    with pytest.raises(ValueError, match="levels must be"):
        CalibratedForecaster(levels=1)
