"""Corrections against slow, obvious versions of themselves, and against their theorems."""

import json
import math
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import makewhole as mw
from makewhole.corrections import REGISTRY, Proposal, Terms, _kernels
from samples import memory_of

target = st.floats(-1, 1)
weight = st.one_of(st.just(1.0), st.floats(0, 1))
sequences = st.lists(st.tuples(target, weight), max_size=80)

OURS: list[Callable[[], Any]] = [
    mw.NoCorrection,
    mw.NaiveBestResponse,
    lambda: mw.StandardRegret(rate=0.5),
    lambda: mw.SwapRegret(cells=7, seed=3),
    lambda: mw.DeterministicSwap(cells=7),
]


class TranscribedSwap:
    """Algorithm 3 as printed, with its sets D_k: O(t) per step. Only the draw is told from outside."""

    def __init__(self, cells: int, low: float, high: float) -> None:
        width = (high - low) / cells
        self.edges = [low + width * k for k in range(cells)]
        self.high = high
        self.sets: list[list[tuple[float, float]]] = [[] for _ in range(cells)]
        self.current = self.holding(0.0)

    def holding(self, x: float) -> int:
        return max((k for k, edge in enumerate(self.edges) if edge <= x), default=0)

    def best_response(self, k: int) -> float:
        """Argmin over λ of the mean of w(x − λ)² over D_k."""
        if not self.sets[k]:
            if k == self.holding(0.0):
                return 0.0
            upper = self.edges[k + 1] if k + 1 < len(self.edges) else self.high
            return (self.edges[k] + upper) / 2
        numerator = denominator = 0.0
        for x, w in self.sets[k]:
            numerator += w * x
            denominator += w
        return numerator / denominator

    def cycle(self) -> list[int]:
        visited: list[int] = []
        at = self.current
        while at not in visited:
            visited.append(at)
            at = self.holding(self.best_response(at))
        return visited[visited.index(at) :]


@given(sequences, st.integers(2, 9), st.integers(0, 2**40))
def test_swap_regret_is_algorithm_3(sequence: list[tuple[float, float]], cells: int, seed: int) -> None:
    ours, theirs = mw.SwapRegret(cells=cells, seed=seed), TranscribedSwap(cells, -1.0, 1.0)
    for x, w in sequence:
        cycle = theirs.cycle()
        assert ours.cycle() == cycle
        proposal = ours.propose()
        assert proposal.cell in cycle
        assert proposal.lam == theirs.best_response(proposal.cell)
        theirs.current = proposal.cell
        ours.observe(proposal, x, w)
        if w:
            theirs.sets[proposal.cell].append((x, w))


def credited(cells: int, given: dict[int, float], current: int) -> mw.SwapRegret:
    """A SwapRegret over [-1, 1] in which each cell's best response is as told."""
    state = mw.SwapRegret(cells=cells, seed=0).state()
    for k, best in given.items():
        state["sums"][k], state["weights"][k] = best * 10, 10.0
    return mw.SwapRegret.from_state(state | {"current": current})


# Five cells of width 0.4; a best response of -0.5 lies in cell 1, of 0.5 in cell 3, of 0.9 in cell 4.
@pytest.mark.parametrize(
    ("given", "start", "cycle"),
    [
        pytest.param({3: 0.9, 4: -0.5, 1: 0.9}, 3, [4, 1], id="3 leads into 4 -> 1 -> 4"),
        pytest.param({0: 0.5, 3: 0.9, 4: -0.5, 1: 0.5}, 0, [3, 4, 1], id="0 leads into 3 -> 4 -> 1 -> 3"),
    ],
)
def test_only_cells_of_the_cycle_are_drawn_and_evenly(
    given: dict[int, float], start: int, cycle: list[int]
) -> None:
    correction = credited(5, given, current=start)
    assert correction.cycle() == cycle
    draws = Counter(correction.propose().cell for _ in range(30_000))
    assert set(draws) == set(cycle)
    expected = 30_000 / len(cycle)
    # 5 standard deviations of a binomial count, fixed seed
    tolerance = 5 * math.sqrt(expected * (1 - 1 / len(cycle)))
    assert all(abs(count - expected) < tolerance for count in draws.values())


@given(st.lists(st.integers(0, 11), min_size=12, max_size=12), st.integers(0, 11))
def test_the_cycle_is_found_from_everywhere(points: list[int], start: int) -> None:
    path = [start]
    while points[path[-1]] not in path:
        path.append(points[path[-1]])
    first = points[path[-1]]
    assert _kernels.find_cycle(points, start) == (first, len(path) - path.index(first))


@given(st.floats(-3, 3), st.integers(2, 1000), st.floats(-2, -0.1), st.floats(0.1, 2))
def test_the_cell_that_holds_x_is_between_its_edges(x: float, cells: int, low: float, high: float) -> None:
    correction = mw.DeterministicSwap(cells=cells, low=low, high=high)
    k, edges = correction.cell_of(x), correction.edges
    assert k == 0 or edges[k] <= x
    assert k == cells - 1 or x < edges[k + 1]


@given(st.integers(2, 60), st.floats(-2, -0.1), st.floats(0.1, 2))
def test_an_edge_belongs_to_the_cell_above_it(cells: int, low: float, high: float) -> None:
    correction = mw.DeterministicSwap(cells=cells, low=low, high=high)
    assert [correction.cell_of(e) for e in correction.edges[:-1]] == list(range(cells))


@given(sequences)
def test_naive_best_response_is_the_best_constant_in_hindsight(sequence: list[tuple[float, float]]) -> None:
    correction = mw.NaiveBestResponse()
    for x, w in sequence:
        correction.observe(correction.propose(), x, w)
    lam = correction.propose().lam
    cost = sum(w * (x - lam) ** 2 for x, w in sequence)
    for other in np.linspace(-1, 1, 201):
        assert cost <= sum(w * (x - other) ** 2 for x, w in sequence) + 1e-9


def best_responses(correction: Any) -> list[float]:
    """What each cell would answer."""
    return list(correction._values[2 * correction.cells : 3 * correction.cells])


@given(sequences, st.integers(2, 9))
def test_a_cells_best_response_is_the_best_constant_for_what_it_was_credited(
    sequence: list[tuple[float, float]], cells: int
) -> None:
    correction = mw.DeterministicSwap(cells=cells)
    given: list[list[tuple[float, float]]] = [[] for _ in range(cells)]
    for x, w in sequence:
        p = correction.propose()
        correction.observe(p, x, w)
        given[p.cell + (p.split and x >= p.lam)].append((x, w))
    grid = np.linspace(-1, 1, 401)
    for best, pairs in zip(best_responses(correction), given, strict=True):
        cost = sum(w * (x - best) ** 2 for x, w in pairs)
        assert all(cost <= sum(w * (x - other) ** 2 for x, w in pairs) + 1e-9 for other in grid)


def test_standard_regret_takes_steps_of_rate_over_root_t() -> None:
    correction, lam = mw.StandardRegret(rate=0.3), 0.0
    for t, (x, w) in enumerate([(0.5, 1.0), (-1.0, 0.25), (0.1, 0.0), (0.7, 0.5)], start=1):
        p = correction.propose()
        assert p.lam == pytest.approx(lam)
        correction.observe(p, x, w)
        steps = t - (t > 3)  # the weightless third outcome is no step
        lam += (0.3 / math.sqrt(steps)) * w * (x - lam) if w else 0.0
    assert correction.propose().lam == pytest.approx(lam)


@given(st.lists(st.tuples(target, st.floats(0.01, 1)), min_size=1, max_size=60), st.integers(0, 4))
def test_regret_against_all_shifts_is_the_squared_loss_over_the_weight(
    sequence: list[tuple[float, float]], which: int
) -> None:
    """Section 7's identity: R = (Σ w(x−λ))² / Σw, for every sequence and every correction."""
    correction = OURS[which]()
    lams = []
    for x, w in sequence:
        p = correction.propose()
        lams.append(p.lam)
        correction.observe(p, x, w)
    xs, ws, played = np.array([x for x, _ in sequence]), np.array([w for _, w in sequence]), np.array(lams)

    def cost(shift: float) -> float:
        return float((ws * (xs - played - shift) ** 2).sum())

    best = float((ws * (xs - played)).sum() / ws.sum())
    regret = cost(0.0) - cost(best)
    assert regret == pytest.approx((ws * (xs - played)).sum() ** 2 / ws.sum(), abs=1e-9)
    assert all(cost(0.0) - cost(shift) <= regret + 1e-9 for shift in np.linspace(-2, 2, 41))


# --- Theorem C --------------------------------------------------------------------------------------------


class Book:
    """Deterministic swap's losses, total and per cell, checked against Theorem C at every step (M = 1)."""

    def __init__(self, cells: int, low: float = -1.0, high: float = 1.0) -> None:
        self.correction = mw.DeterministicSwap(cells=cells, low=low, high=high)
        self.cells, self.range = cells, high - low
        self.loss, self.mass = np.zeros(cells), np.zeros(cells)

    def step(self, choose: Callable[[Proposal], tuple[float, float]]) -> None:
        p = self.correction.propose()
        x, w = choose(p)
        cell = p.cell + (p.split and x >= p.lam)
        self.loss[cell] += w * (x - p.lam)
        self.mass[cell] += w
        self.correction.observe(p, x, w)
        per_cell = self.range / self.cells * self.mass[cell] + self.range
        assert abs(self.loss[cell]) <= per_cell + 1e-9
        bound = self.range * (self.mass.sum() / self.cells + self.cells)
        assert abs(self.loss.sum()) <= bound + 1e-9


@settings(max_examples=50)
@given(st.lists(st.tuples(target, weight), max_size=300), st.integers(2, 12))
def test_theorem_c_against_sequences_that_hypothesis_searches(
    sequence: list[tuple[float, float]], cells: int
) -> None:
    book = Book(cells)
    for pair in sequence:
        book.step(lambda _, pair=pair: pair)  # type: ignore[misc]  # the default binds the loop's pair


def adversaries() -> Iterator[tuple[str, Callable[[Book], Callable[[Proposal], tuple[float, float]]]]]:
    yield "pushes away from λ", lambda book: lambda p: (-1.0 if p.lam > 0 else 1.0, 1.0)
    yield "always up", lambda book: lambda p: (1.0, 1.0)
    yield "just over the edge", lambda book: lambda p: (p.lam + 1e-9, 1.0)
    yield "just under the edge", lambda book: lambda p: (p.lam - 1e-9, 1.0)

    def worst_cell(book: Book) -> Callable[[Proposal], tuple[float, float]]:
        def choose(p: Proposal) -> tuple[float, float]:  # drives each cell's loss on, in its direction
            return (1.0 if book.loss[p.cell] >= 0 else -1.0), 1.0

        return choose

    yield "drives each cell's loss on", worst_cell

    def kicks_out(book: Book) -> Callable[[Proposal], tuple[float, float]]:
        """Keeps a mean just inside its cell with small weights, then kicks it out with a large one."""

        def choose(p: Proposal) -> tuple[float, float]:
            return (1.0, 1.0) if book.mass[p.cell] > 3 and not p.split else (max(-1.0, p.lam - 0.01), 0.3)

        return choose

    yield "kicks means out of their cells", kicks_out


@pytest.mark.slow
@pytest.mark.parametrize("cells", [2, 3, 10, 71])
@pytest.mark.parametrize("adversary", [pytest.param(make, id=name) for name, make in adversaries()])
def test_theorem_c_against_adversaries_that_see_everything(adversary: Any, cells: int) -> None:
    book = Book(cells)
    choose = adversary(book)
    for _ in range(5000):
        book.step(choose)


@pytest.mark.slow
def test_theorem_c_against_a_greedy_search_for_the_largest_loss() -> None:
    """At each step the adversary tries many targets, on copies, and keeps the one that does most harm."""
    book = Book(5)
    options = [(x, w) for x in np.linspace(-1, 1, 21) for w in (0.2, 1.0)]

    def choose(p: Proposal) -> tuple[float, float]:
        def harm(option: tuple[float, float]) -> float:
            x, w = option
            after = type(book.correction).from_state(book.correction.state())
            after.observe(p, x, w)
            return w * (x - p.lam) - 0.5 * after.propose().lam

        return max(options, key=harm)

    for _ in range(1500):
        book.step(choose)


@pytest.mark.parametrize("rounds", [100, 10_000])
def test_with_root_t_cells_the_mean_loss_is_at_most_2r_over_root_t(rounds: int) -> None:
    book = Book(mw.DeterministicSwap.for_horizon(rounds).cells)
    draw = np.random.default_rng(0)
    for _ in range(rounds):
        book.step(lambda p: (1.0 if p.lam < draw.normal(0, 0.3) else -1.0, 1.0))
    assert abs(book.loss.sum()) / rounds <= 2 * book.range / math.sqrt(rounds)


# --- what all of them do ----------------------------------------------------------------------------------


@pytest.mark.parametrize("make", OURS)
def test_state_goes_through_json_and_comes_back_equal(make: Callable[[], Any]) -> None:
    correction = make()
    draw = np.random.default_rng(0)
    for _ in range(300):
        correction.observe(correction.propose(), float(draw.uniform(-1, 1)), float(draw.uniform()))
    again = type(correction).from_state(json.loads(json.dumps(correction.state())))
    assert again == correction
    assert again.state() == correction.state()


@pytest.mark.parametrize("make", OURS)
def test_what_has_seen_nothing_changes_nothing(make: Callable[[], Any]) -> None:
    assert make().propose().lam == 0.0


def test_a_state_with_little_weight_is_read_and_one_with_less_than_none_is_refused() -> None:
    correction = mw.NaiveBestResponse()
    correction.observe(correction.propose(), 0.5, 0.25)
    again = mw.NaiveBestResponse.from_state(correction.state())
    assert (again, again.propose().lam) == (correction, 0.5)
    assert mw.NaiveBestResponse.from_state({"sum": 0.0, "weight": 0.0}) == mw.NaiveBestResponse()
    with pytest.raises(ValueError, match=r"weight in the state must not be negative; got -0.25"):
        mw.NaiveBestResponse.from_state({"sum": 0.125, "weight": -0.25})
    standard = mw.StandardRegret(0.5)
    assert mw.StandardRegret.from_state(standard.state()) == standard
    with pytest.raises(ValueError, match=r"steps in the state must not be negative; got -1"):
        mw.StandardRegret.from_state(standard.state() | {"steps": -1})


def test_the_same_seed_gives_the_same_draws_and_another_seed_others() -> None:
    def draws(seed: int) -> list[int]:
        state = credited(5, {3: 0.9, 4: 0.5}, current=3).state()
        correction = mw.SwapRegret.from_state(state | {"draws": mw.SwapRegret(5, seed=seed).state()["draws"]})
        return [correction.propose().cell for _ in range(64)]

    assert draws(1) == draws(1)
    assert len({tuple(draws(seed)) for seed in range(100)}) == 100
    assert mw.SwapRegret(5).state()["draws"] != mw.SwapRegret(5).state()["draws"]  # fresh where none is given


def test_an_observer_without_the_seed_keeps_track_of_every_draw() -> None:
    ours, observer = mw.SwapRegret(cells=5, seed=1), mw.SwapRegret(cells=5, seed=2)
    lengths = set()
    for t in range(300):
        proposal = ours.propose()
        lengths.add(len(observer.cycle()))
        assert observer.seen(proposal.lam) == proposal
        target = math.sin(t) - proposal.lam  # answers that point elsewhere, so that there are cycles
        for one in (ours, observer):
            one.observe(proposal, target, 1.0)
        assert ours.state() | {"draws": 0} == observer.state() | {"draws": 0}
    assert max(lengths) > 1


def test_a_target_on_the_boundary_goes_to_the_cell_above_it() -> None:
    correction = mw.DeterministicSwap(cells=2)
    for x in (-0.5, 0.5):
        correction.observe(correction.propose(), x, 1.0)
    proposal = correction.propose()
    assert proposal == (0.0, 0, True)
    correction.observe(proposal, 0.0, 1.0)
    assert correction.state()["weights"] == [1.0, 2.0]


def test_extreme_ranges_and_targets_stay_in_their_cells() -> None:
    for low, high in ((-1e-19, 1e-19), (-1.0, 1.0)):
        correction = mw.DeterministicSwap(cells=10, low=low, high=high)
        assert [correction.cell_of(x) for x in (-1e300, 1e300, low, high)] == [0, 9, 0, 9]
    with pytest.raises(ValueError, match="must lie between 1e-300 and 1e300"):
        mw.DeterministicSwap(2, -5e-324, 5e-324)


def test_horizons_give_the_cells_they_should() -> None:
    for rounds in range(2, 3000):
        assert mw.SwapRegret.for_horizon(rounds).cells == max(
            2, math.ceil((rounds / math.log(rounds)) ** 0.25)
        )
    assert mw.SwapRegret.for_horizon(1).cells == 2
    assert [mw.DeterministicSwap.for_horizon(t).cells for t in (1, 4, 5, 9, 10_000, 10_001)] == [
        2,
        2,
        3,
        3,
        100,
        101,
    ]
    wide = mw.DeterministicSwap.for_horizon(100, c_range=(0.1, 0.5))
    assert (wide.low, wide.high) == (-1.5, 0.9)
    assert wide.covers((0.1, 0.5))
    assert not wide.covers((0.0, 0.5))


@pytest.mark.parametrize("kind", [mw.SwapRegret, mw.DeterministicSwap])
def test_without_a_range_of_c_horizons_take_the_narrowest_that_holds_all_targets(kind: Any) -> None:
    """With ĉ = 0 all targets lie in [−1, 1]; a wider range would have wider cells, and a larger bound."""
    for made in (kind.for_horizon(10_000), kind.fitted(10_000), kind.fitted(10_000, seed=3)):
        assert (made.low, made.high) == (-1.0, 1.0)
        assert made.cells == kind.for_horizon(10_000).cells
    wide = kind.fitted(10_000, (0.1, 0.5))
    assert (wide.low, wide.high, wide.cells) == (-1.5, 0.9, made.cells)
    own = kind.fitted(10_000, (0.1, 0.5), cells=7, high=0.5)
    assert (own.low, own.high, own.cells) == (-1.5, 0.5, 7)


def test_an_empty_cell_answers_zero_if_it_holds_it_else_its_midpoint() -> None:
    assert best_responses(mw.SwapRegret(cells=4, seed=0)) == [-0.75, -0.25, 0.0, 0.75]
    assert best_responses(mw.SwapRegret(5, seed=0)) == pytest.approx([-0.8, -0.4, 0.0, 0.4, 0.8])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: mw.SwapRegret(cells=1), "cells must be a whole number of at least 2; got 1"),
        (lambda: mw.SwapRegret(cells=2.5), "cells must be a whole number"),  # type: ignore[arg-type]  # bad on purpose
        (lambda: mw.SwapRegret(low=0.1, high=1.0), r"\[low, high\] must contain 0"),
        (lambda: mw.SwapRegret(low=1.0, high=-1.0), "low <= high"),
        (lambda: mw.SwapRegret(seed=-1), "seed must be a whole number of at least 0; got -1"),
        (lambda: mw.StandardRegret(rate=0.0), "rate must be one number above 0; got 0.0"),
        (lambda: mw.StandardRegret(rate=math.nan), "rate must be finite"),
        (lambda: mw.DeterministicSwap.for_horizon(0), "rounds must be a whole number of at least 1"),
        (lambda: mw.SwapRegret.from_state(mw.SwapRegret(3).state() | {"sums": [1.0]}), "3 sums"),
        (
            lambda: mw.SwapRegret.from_state(mw.SwapRegret(3).state() | {"current": 3}),
            "one of 3 cells; got 3",
        ),
    ],
)
def test_bad_settings_are_named(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_a_proposal_from_elsewhere_is_refused() -> None:
    small, large = mw.DeterministicSwap(cells=3), mw.DeterministicSwap(cells=9)
    with pytest.raises(ValueError, match="proposal must come from this correction; got cell 4 of 3"):
        small.observe(large.propose(), 0.0, 1.0)


@pytest.mark.parametrize("ends", [(-1.0, 0.0), (0.0, 1.0), (-1.0, 1.0)])
def test_a_range_may_end_at_zero_but_must_hold_more(ends: tuple[float, float]) -> None:
    for made in (mw.DeterministicSwap(4, *ends), mw.SwapRegret(4, *ends, seed=0)):
        assert made.propose().lam == 0.0
        assert made.edges == np.linspace(*ends, 5).tolist()
    for low, high in [(0.0, 0.0), (0.1, 1.0), (-1.0, -0.1)]:
        with pytest.raises(ValueError, match=r"\[low, high\] must contain 0, with low < high"):
            mw.DeterministicSwap(4, low, high)


@pytest.mark.parametrize("kind", REGISTRY)
def test_bounds_on_the_mean_are_in_money_and_fall_with_the_rounds(kind: Any) -> None:
    correction = kind()
    found = [correction.mean_bound(rounds, Terms(cap)) for rounds in (100, 10_000) for cap in (1.0, 3.0)]
    if found[0] is None:
        assert found == [None] * 4
        return
    assert found[1] == pytest.approx(3 * found[0])
    assert found[3] == pytest.approx(3 * found[2])
    assert found[2] <= found[0]


def test_deterministic_swaps_bound_is_theorem_cs() -> None:
    """R·(1/N + N/T)·M, with R the width of the range of λ (docs/theory.md)."""
    bound = mw.DeterministicSwap(10).mean_bound(1000, Terms(2.0, (0.0, 0.0)))
    assert bound == pytest.approx(2.0 * 2.0 * (1 / 10 + 10 / 1000))


@pytest.mark.parametrize("rate", [0.1, 1.0, 3.0])
def test_standard_regrets_bound_is_zinkevichs(rate: float) -> None:
    """R·M/(rate·√T), and for a rate above 1 the first rate² forecasts, R·M·rate²/T (docs/theory.md)."""
    bound = mw.StandardRegret(rate).mean_bound(400, Terms(2.0, (0.1, 0.4)))
    reach, early = 2.0 + 0.4 - 0.1, rate**2 / 400 if rate > 1 else 0.0
    assert bound == pytest.approx(2.0 * reach * (1 / (rate * 20) + early))
    bound = mw.StandardRegret(rate).mean_bound(400, Terms(2.0))  # ĉ = 0
    assert bound == pytest.approx(2.0 * 2.0 * (1 / (rate * 20) + early))


def test_in_a_book_standard_regret_stays_within_the_range_of_its_targets() -> None:
    """[−1 − c₊, 1 − c₋]: with so large a rate it is at one end or the other after every outcome."""
    f = mw.InsuredForecaster(None, mw.StandardRegret(rate=1000.0), max_stake=1, c_range=(0.1, 0.4))
    for outcome, end in ((1, 0.9), (0, -1.4), (1, 0.9)):
        f.settle(f.forecast(mu=0.5, c_hat=0.2), outcome, stake=1.0)
        assert f.corrections[0].propose().lam == pytest.approx(end)
        state = f.to_state()
        memory_of(state)["lam"] *= 3
        assert mw.InsuredForecaster.from_state(state).corrections[0].propose().lam == pytest.approx(end)


@pytest.mark.parametrize("make", OURS)
def test_a_correction_with_its_own_ways_equals_none_of_ours(make: Callable[[], Any]) -> None:
    ours = make()
    kind: Any = type(f"Own{type(ours).__name__}", (type(ours),), {})
    own = kind.from_state(ours.state())
    assert own.state() == ours.state()
    assert ours == make() != own != ours
    assert all(ours != other() for other in OURS if other is not make)


def test_terms_are_by_default_those_of_an_exact_book_on_both_sides_without_a_width() -> None:
    reserve = mw.Reserve(0.1)
    assert reserve.line_bound(Terms(2.0)) == reserve.line_bound(Terms(2.0, (0.0, 0.0), False, False))
    others = [Terms(2.0, (-1.0, 0.0)), Terms(2.0, sound=True)]
    assert reserve.line_bound(Terms(2.0)) not in [reserve.line_bound(one) for one in others]
    assert not Terms(2.0).one_sided
    none = mw.InsuredForecaster(None, mw.NoCorrection(), max_stake=1).statement().certificate
    assert (none.bound, none.exposure) == (None, 0.0)


@pytest.mark.parametrize("make", OURS)
@pytest.mark.parametrize(
    ("target", "weight", "message"),
    [
        (math.inf, 1.0, "target must be finite; got inf"),
        (-math.inf, 1.0, "target must be finite; got -inf"),
        (math.nan, 1.0, "target must be finite; got nan"),
        (0.5, 1.1, r"weight must lie in \[0, 1\]; got 1.1"),
        (0.5, -0.1, r"weight must lie in \[0, 1\]; got -0.1"),
        (0.5, math.nan, r"weight must lie in \[0, 1\]; got nan"),
    ],
)
def test_a_lesson_that_cannot_be_is_refused_and_changes_nothing(
    make: Callable[[], Any], target: float, weight: float, message: str
) -> None:
    correction = make()
    with pytest.raises(ValueError, match=message):
        correction.observe(correction.propose(), target, weight)
    assert correction.state() == make().state()


@pytest.mark.parametrize(
    ("low", "high", "covers"), [(-1.5, 0.9, True), (-1.4, 0.9, False), (-1.5, 0.8, False)]
)
def test_a_range_covers_the_targets_only_if_both_its_ends_do(low: float, high: float, covers: bool) -> None:
    assert mw.DeterministicSwap(10, low, high).covers((0.1, 0.5)) == covers
