"""What docs/theory.md says: its order, the paper's lemmas, lower bounds, and Theorem C one-sided."""

import math
import re
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar, Self

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

import makewhole as mw
from makewhole.protocol import Chance

pytestmark = pytest.mark.slow  # together they take seconds
ROOT = Path(__file__).parent.parent.parent

# --- the page ---------------------------------------------------------------------------------------------


def test_the_theorems_are_in_order_and_each_has_its_statement_proof_and_runs() -> None:
    page = (ROOT / "docs" / "theory.md").read_text(encoding="utf-8")
    parts = re.split(r"^\*\*Theorem ([A-Z]) \(", page, flags=re.M)[1:]
    letters, texts = parts[::2], parts[1::2]
    assert letters == list("ABCDEFGHIJW")  # W is that of `Watch`
    for letter, text in zip(letters, texts, strict=True):
        own = re.split(r"^## ", text, flags=re.M)[0]
        for part in ("*For ", "*Statement.*", "*Proof.*", "∎", "*Held by*"):
            assert part in own, f"Theorem {letter} lacks {part}"


def test_the_runs_that_the_page_names_exist() -> None:
    page = (ROOT / "docs" / "theory.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(tests/[a-z_/]+\.py)(?:::(\w+))?`", page))
    assert len(named) > 25
    for path, function in named:
        text = (ROOT / path).read_text(encoding="utf-8")
        assert not function or f"\ndef {function}(" in text, f"{path} has no {function}"


# --- the paper's Lemma 4 ----------------------------------------------------------------------------------


def gained_by(psi: np.ndarray, x: np.ndarray, w: np.ndarray) -> float:
    """How much less Σw(x−ψ)² is than Σw(x−λ*)² with the best constant λ*."""
    best = np.average(x, weights=w)
    return float(np.sum(w * (x - best) ** 2) - np.sum(w * (x - psi) ** 2))


@given(
    st.lists(
        st.tuples(st.floats(-1, 1), st.floats(0, 1), st.floats(0.01, 1), st.floats(-1, 1)),
        min_size=1,
        max_size=30,
    ),
    st.floats(0.01, 1),
)
def test_within_a_cell_a_lipschitz_function_gains_at_most_its_width(
    rows: list[tuple[float, float, float, float]], width: float
) -> None:
    """Lemma 4 with δ: targets in [−1, 1], and any ψ that varies by at most δ over the cell."""
    x, place, w, shift = (np.array(column) for column in zip(*rows, strict=True))
    for psi in (shift[0] + width * place, shift[0] - width * place, shift[0] + width * (x > x.mean())):
        assert gained_by(psi, x, w) <= width * w.sum() + 1e-9


@pytest.mark.parametrize("width", [Fraction(1, 100), Fraction(1, 10), Fraction(39, 100)])
def test_the_square_of_the_width_is_not_enough(width: Fraction) -> None:
    """Lemma 4's proof ends with δ². λ at both ends of a cell, in turn, with the targets −½ and +½."""
    gained = Fraction(1, 4) - (Fraction(1, 2) - width / 2) ** 2
    assert gained == width / 2 - width**2 / 4
    assert width**2 < gained <= width


# --- the agent who sees the draw --------------------------------------------------------------------------


def proven(cells: int) -> float:
    lower = min(0.25, -1 + 2 / cells * (3 * cells // 4))  # the lower end of the cell that contains +½
    return math.log(7 - (1 + 2 * lower) / (1 - 2 * lower)) / 8


def test_only_two_and_five_cells_lose_more_than_others() -> None:
    assert [k for k in range(2, 2000) if not math.isclose(proven(k), math.log(4) / 8)] == [2, 5]


@pytest.mark.parametrize("cells", [2, 3, 4, 5, 6, 8, 21])
def test_the_draw_reader_wins_what_is_proven(cells: int) -> None:
    nature, rounds, correction = Chance(1.0), 6000, mw.SwapRegret(cells, seed=1)
    f = mw.InsuredForecaster(lambda x: 0.5, correction, max_stake=1, c_range=(0.0, 0.0))
    agent = mw.agents.DrawReader(correction, rounds, nature.outcome)
    assert abs(mw.play(nature, f, agent, rounds).mean_loss - proven(cells)) < 0.01


# --- lower bounds -----------------------------------------------------------------------------------------


STRETCHES = [
    (mw.Barrier(2, shape="guard", keep_gains=False), 2.0),
    (mw.Barrier(2, keep_gains=False), 2.0),
    (mw.Reserve(0.25), 2.0),
    (mw.Reserve(0.5), 1.0),
]


@pytest.mark.parametrize(("correction", "bound"), STRETCHES, ids=repr)
def test_a_bound_for_every_stretch_costs_honest_customers(correction: Any, bound: float) -> None:
    f = mw.InsuredForecaster(None, correction, mode="sound", max_stake=1, c_range=(0.0, 0.0))
    outcomes, asked, since_low = np.random.default_rng(0).integers(0, 2, 3000), [], 0.0
    for y in outcomes.tolist():
        q = f.forecast(mu=0.5)
        asked.append(q.c)
        since_low = max(0.0, since_low + sum(f.settle(q, y, stake=1.0)))
        assert since_low <= bound + 1e-9
    assert np.mean(asked) >= 1 / (8 * bound + 4) - bound / (2 * len(asked))


@pytest.mark.parametrize("correction", [mw.Reserve(0.1), mw.DeterministicSwap(40), mw.StandardRegret(0.1)])
def test_whoever_loses_on_purpose_cannot_be_paid_back_at_c_of_at_least_0(correction: Any) -> None:
    f = mw.InsuredForecaster(None, correction, mode="sound", max_stake=1, c_range=(0.0, 0.0))
    mean = 0.5
    for t, y in enumerate(np.random.default_rng(1).integers(0, 2, 3000).tolist(), start=1):
        f.settle(f.forecast(mu=mean), y, stake=1.0 - 2.0 * y)
        mean += (y - mean) / t  # even where μ follows the outcomes
    assert f.statement().mean_loss < -0.45


# --- Theorem C, one-sided ---------------------------------------------------------------------------------


class Watched:
    """A deterministic swap that keeps the last λ it proposed, and what it was told of it.

    They are the class's, and not the object's, because a forecaster works with copies.
    """

    told: ClassVar[tuple[float, float, float]]

    def __init__(self, inner: mw.DeterministicSwap) -> None:
        self.inner = inner

    def propose(self) -> Any:
        return self.inner.propose()

    def observe(self, proposal: Any, target: float, weight: float) -> None:
        Watched.told = proposal.lam, target, weight
        self.inner.observe(proposal, target, weight)

    def state(self) -> dict[str, Any]:
        return self.inner.state()

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        return cls(mw.DeterministicSwap.from_state(state))


@given(
    st.integers(2, 9),
    st.floats(0, 0.5),
    st.lists(st.tuples(st.floats(0, 1), st.sampled_from("01+-"), st.floats(0.05, 1)), max_size=60),
)
def test_theorem_c_holds_one_sided(cells: int, c_hat: float, rounds: list[tuple[float, str, float]]) -> None:
    """All that its proof needs: ℓ/M = w(x−λ) with x in [−1−c₊, 1−c₋], though μ is clipped to [0, 1]."""
    watched = Watched(mw.DeterministicSwap(cells, low=-1.5, high=1.0))
    f = mw.InsuredForecaster(None, watched, one_sided=True, max_stake=1, c_range=(0.0, 0.5))
    total = staked = 0.0
    for mu, choice, stake in rounds:
        q = f.forecast(mu=mu, c_hat=c_hat)
        y = (
            int(choice) if choice in "01" else int((q.mu <= 0.5) == (choice == "+"))
        )  # what costs or wins most
        loss = sum(f.settle(q, y, stake=stake))
        lam, target, weight = Watched.told
        assert loss == pytest.approx(weight * (target - lam), abs=1e-12)
        assert -1.5 - 1e-12 <= target <= 1.0 + 1e-12
        total, staked = total + loss, staked + stake
        assert abs(total) <= 2.5 * (staked / cells + cells) + 1e-9
