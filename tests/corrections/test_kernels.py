"""The steps that run both interpreted and compiled, one by one, against what they are for."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from makewhole import rules
from makewhole.corrections import _kernels
from makewhole.rules import Publishing

unit = st.floats(0, 1)
lams = st.floats(-1.5, 1.5)
widths = st.floats(-0.5, 0.5)


# --- what is published ------------------------------------------------------------------------------------


@given(unit, widths, lams, st.floats(-1, 1), st.booleans())
def test_one_sided_everything_goes_into_the_ask(
    mu_hat: float, c_hat: float, lam: float, least: float, integrates: bool
) -> None:
    ask, c, origin = rules.publish(mu_hat, c_hat, lam, Publishing(True, True, integrates), least)
    wanted = mu_hat + (c_hat + lam)
    assert c == 0.0
    assert origin == -lam
    assert ask == sorted([max(0.0, least), wanted, 1.0])[1]


@given(unit, widths, lams, st.floats(-1, 1), st.booleans())
def test_exact_mode_publishes_what_the_base_and_the_correction_say(
    mu_hat: float, c_hat: float, lam: float, least: float, integrates: bool
) -> None:
    assert rules.publish(mu_hat, c_hat, lam, Publishing(False, False, integrates), least) == (
        mu_hat,
        c_hat + lam,
        c_hat,
    )


@given(unit, widths, lams, st.floats(-1, 0.5), st.booleans())
def test_sound_mode_publishes_the_nearest_interval_inside_the_unit_interval(
    mu_hat: float, c_hat: float, lam: float, least: float, integrates: bool
) -> None:
    mu, c, origin = rules.publish(mu_hat, c_hat, lam, Publishing(False, True, integrates), least)
    wanted = c_hat + lam
    nearest = sorted([max(0.0, least), wanted, 0.5])[1]
    assert c == nearest
    assert mu - c >= 0
    assert mu + c <= 1
    # μ moves no further than it must: to the nearest number that leaves room for c on both sides.
    assert abs(mu - mu_hat) == pytest.approx(max(0.0, c - mu_hat, mu_hat - (1 - c)), abs=1e-15)
    raised = c > wanted and not integrates
    assert origin == (c_hat if c == wanted or raised else c - lam)


@given(unit, widths, lams, st.booleans(), st.integers(0, 2), st.integers(0, 1), st.floats(-1, 1), unit)
def test_what_a_forecast_loses_is_what_its_correction_is_off_by(
    mu_hat: float, c_hat: float, lam: float, integrates: bool, mode: int, y: int, side: float, size: float
) -> None:
    """ℓ/M = w·(x − λ) in effect; where c was raised for a correction that averages, no more than that."""
    how = Publishing(mode == 1, mode == 2, integrates)
    mu, c, origin = rules.publish(mu_hat, c_hat, lam, how, 0.0)
    cap, gross = 7.0, 7.0 * size
    net = gross if mode == 1 else side * gross
    loss, target, weight = rules.balance(mu, c, origin, float(y), net, gross, cap)
    assert loss == pytest.approx(net * (y - mu) - gross * c, abs=1e-12)
    assert weight == pytest.approx(size)
    credited = weight * (target - lam) * cap
    if mode == 2 and not integrates and c > c_hat + lam:
        assert loss <= credited + 1e-9
        assert -1 - 0.5 - 1e-9 <= target <= 1 + 0.5 + 1e-9
    else:
        assert credited == pytest.approx(loss, abs=1e-9)


def test_a_forecast_without_stakes_loses_nothing_and_teaches_nothing() -> None:
    assert rules.balance(0.25, 0.125, 0.5, 1.0, 0.0, 0.0, 10.0) == (0.0, -0.5, 0.0)
    assert rules.balance(0.25, 0.125, 0.5, 1.0, 1.0, 1.0, 10.0) == (0.625, 0.25, 0.1)


@given(widths, lams)
def test_a_refined_width_is_an_honest_one(c_hat: float, lam: float) -> None:
    assert rules.refine(c_hat, lam) == sorted([0.0, c_hat + lam, 0.5])[1]


# --- cells ------------------------------------------------------------------------------------------------


@given(st.integers(1, 12), st.floats(-3, 3), st.floats(0.01, 2), st.floats(-5, 5), st.booleans())
def test_a_number_is_in_the_cell_whose_edges_enclose_it(
    cells: int, low: float, step: float, x: float, at_edge: bool
) -> None:
    if at_edge:  # an edge belongs to the cell above it
        x = _kernels.edge(low, step, int(abs(x) * 2) % (cells + 1))
    found = _kernels.cell_of(low, step, 1 / step, cells, x)
    inner_edges = [low + step * k for k in range(1, cells)]
    assert found == sum(x >= edge for edge in inner_edges)


def test_rounding_moves_no_number_across_an_edge() -> None:
    draw = np.random.default_rng(1)
    crossed = 0
    for _ in range(5000):
        low, step, cells = float(draw.uniform(-3, 3)), float(draw.uniform(0.01, 2)), int(draw.integers(2, 9))
        k = int(draw.integers(1, cells))
        at = low + step * k
        below = math.nextafter(at, -math.inf)
        assert _kernels.cell_of(low, step, 1 / step, cells, at) == k
        assert _kernels.cell_of(low, step, 1 / step, cells, below) == k - 1
        crossed += int((below - low) * (1 / step)) >= k or int((at - low) * (1 / step)) < k
    assert crossed > 100  # so often the multiplication alone is wrong


def test_credit_keeps_each_cells_sums_its_best_response_and_where_that_lies() -> None:
    cells, low, step = 4, -1.0, 0.5
    values = [0.0] * 12 + [low, step, 1 / step]
    marks = [0, 1, 2, 3, 0, 0]
    credited: list[list[tuple[float, float]]] = [[] for _ in range(cells)]
    draw = np.random.default_rng(0)
    for _ in range(200):
        cell, x, w = int(draw.integers(cells)), float(draw.uniform(-1, 1)), float(draw.uniform(0.1, 1))
        _kernels.credit(values, marks, cell, x, w)
        credited[cell].append((x, w))
        mine = np.array(credited[cell])
        mean = np.average(mine[:, 0], weights=mine[:, 1])
        assert values[cell] == pytest.approx((mine[:, 0] * mine[:, 1]).sum())
        assert values[cells + cell] == pytest.approx(mine[:, 1].sum())
        assert values[2 * cells + cell] == pytest.approx(mean)
        assert marks[cell] == math.floor((mean - low) / step)
    assert marks[4:] == [0, 0]


# --- swap regret ------------------------------------------------------------------------------------------


def test_from_every_cell_of_every_map_the_first_cell_that_repeats_is_found() -> None:
    for points in itertools.product(range(5), repeat=5):
        for start in range(5):
            path = [start]
            while points[path[-1]] not in path:
                path.append(points[path[-1]])
            first = points[path[-1]]
            length = len(path) - path.index(first)
            assert _kernels.find_cycle(points, start) == (first, length)


def test_every_cell_of_a_cycle_is_drawn_as_often_as_the_others() -> None:
    marks = [1, 2, 3, 1, 0, 12345]  # 0 leads into the cycle 1 → 2 → 3 → 1
    drawn = []
    for _ in range(30_000):
        _kernels.draw_from_cycle(marks)
        drawn.append(marks[4])
    counts = np.bincount(drawn, minlength=4)
    assert counts[0] == 0
    assert np.abs(counts[1:] - 10_000).max() < 5 * math.sqrt(30_000 * (1 / 3) * (2 / 3))
    # And no draw tells of the next.
    pairs = np.bincount([3 * (a - 1) + b - 1 for a, b in itertools.pairwise(drawn)], minlength=9)
    assert np.abs(pairs - 29_999 / 9).max() < 5 * math.sqrt(30_000 / 9)


def test_where_a_cell_points_to_itself_nothing_is_drawn() -> None:
    marks = [1, 1, 2, 0, 77]
    _kernels.draw_from_cycle(marks)
    assert marks == [1, 1, 2, 1, 77]


def test_scrambled_bits_are_those_of_32_bit_words() -> None:
    words = np.arange(0, 2**32, 104_729, dtype=np.uint64)
    x = words.astype(np.uint32)
    x = (x ^ (x >> np.uint32(16))) * np.uint32(0x21F0AAAD)
    x = (x ^ (x >> np.uint32(15))) * np.uint32(0x735A2D97)
    x = x ^ (x >> np.uint32(15))
    assert [_kernels.scramble(int(word)) for word in words[:2000]] == x[:2000].tolist()
    assert _kernels.scramble(2**32 + 5) == _kernels.scramble(5)


# --- deterministic swap -----------------------------------------------------------------------------------


def test_of_every_map_a_fixed_cell_is_found_or_two_that_point_at_each_other() -> None:
    cells = 5
    for points in itertools.product(range(cells), repeat=cells):
        for start in range(cells):
            marks = [*points, start, 0]
            between = _kernels.search(marks)
            at = marks[cells]
            if between:
                assert points[at] > at
                assert points[at + 1] <= at
            else:
                assert points[at] == at
            assert marks[:cells] == list(points)
            assert marks[cells + 1] == 0


def test_an_outcome_at_a_boundary_is_credited_to_the_side_it_lies_on() -> None:
    cells = 2
    for target, cell in [(-0.25, 0), (0.25, 1), (0.0, 1)]:
        values: Any = [0.0] * 6 + [-1.0, 1.0, 1.0]
        marks = [1, 0, 0, 0]
        lam, where, split = _kernels.deterministic_propose(values, marks)
        assert (lam, where, split) == (0.0, 0, True)
        _kernels.deterministic_observe(values, marks, (lam, where, split), target, 0.5, 0.0, 0.0)
        assert values[cells + cell] == 0.5
        assert values[cells + 1 - cell] == 0.0
    _kernels.deterministic_observe(
        values, marks, (0.9, 0, False), 0.95, 0.5, 0.0, 0.0
    )  # within a cell, that cell
    assert values[cells] == 0.5


# --- groups that overlap ----------------------------------------------------------------------------------


def test_members_add_up_and_move_together_but_none_below_nothing() -> None:
    starts = [0.1, 0.3, 0.0, 0.2]  # everyone's weight, three groups'
    values = [0.5, *(number for start in starts for number in (start, 0.0, 0.0))]  # η/M comes first
    marks = [2, 3, 1, 4, 10, 1, 7, 10, 1, 4, 7]  # three forecasts with three members each
    proposals = [_kernels.members_propose(values, marks) for _ in range(4)]
    assert [lam for lam, _, _ in proposals] == pytest.approx([0.6, 0.3, 0.4, 0.6])
    assert [(at, split) for _, at, split in proposals] == [(2, False), (5, False), (8, False), (2, False)]
    assert marks == [5, 3, 1, 4, 10, 1, 7, 10, 1, 4, 7]

    def weights() -> list[float]:
        return [values[at] + values[0] * values[at + 1] for at in (1, 4, 7, 10)]

    _kernels.members_observe(values, marks, proposals[0], 1.1, 0.5, 0.25, 0.0)  # (η/M)·ℓ = 0.125
    assert weights() == pytest.approx([0.225, 0.425, 0.0, 0.325])
    _kernels.members_observe(values, marks, proposals[2], -0.4, 1.0, -0.8, 0.0)  # −0.4
    assert weights() == pytest.approx([0.0, 0.025, 0.0, 0.325])
    _kernels.members_observe(values, marks, proposals[2], -0.4, 1.0, 1.0, 2**-70)
    assert values[1:4] == [
        0.0,
        1.0,
        2**-70,
    ]  # what was below nothing is forgotten, what rounding cut off is not


# --- the simple ones --------------------------------------------------------------------------------------


def test_the_simple_corrections_learn_what_their_formulas_say() -> None:
    draw = np.random.default_rng(4)
    mean, gradient, reserve, none = (
        [0.0, 0.0, 0.0],
        [0.2, 0.0, 0.3, -0.5, 0.6],
        [0.25, -0.1, 0.2, 0.0, 0.0],
        [5.0],
    )
    sums, lam, low = [0.0, 0.0], 0.2, 0.2
    for t in range(1, 200):
        target, weight = float(draw.uniform(-1, 1)), float(draw.uniform(0.1, 1))
        made = float(draw.uniform(-1, 1))  # the λ of the forecast, which may be an old one
        sums = [sums[0] + weight * target, sums[1] + weight]
        lam = min(max(lam + 0.3 / math.sqrt(t) * weight * (target - made), -0.5), 0.6)
        loss = weight * (target - made)
        low = max(-0.1, low + 0.25 * weight * (target - made))
        lesson = ((made, 0, False), target, weight, loss, 0.0)
        _kernels.mean_observe(mean, [], *lesson)
        _kernels.gradient_observe(gradient, [], *lesson)
        _kernels.reserve_observe(reserve, [], *lesson)
        _kernels.none_observe(none, [], *lesson)
        assert _kernels.mean_propose(mean, [])[0] == pytest.approx(sums[0] / sums[1])
        assert _kernels.gradient_propose(gradient, [])[0] == pytest.approx(lam)
        assert _kernels.reserve_propose(reserve, [])[0] == pytest.approx(low)
        assert _kernels.none_propose(none, []) == (0.0, 0, False)
    for proposal in (
        _kernels.mean_propose(mean, []),
        _kernels.gradient_propose(gradient, []),
        _kernels.reserve_propose(reserve, []),
    ):
        assert proposal[1:] == (0, False)


# --- a whole log ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize("composed", [False, True])
@pytest.mark.parametrize(
    "how", [Publishing(True, False, True), Publishing(False, False, True), Publishing(False, True, True)]
)
def test_a_replay_is_a_loop_over_the_steps(how: Publishing, composed: bool, traced: bool) -> None:
    """The reserve's λ is a sum of losses: an oracle that needs no targets."""
    draw, rows, cap, rate = np.random.default_rng(5), 300, 4.0, 0.3
    mu_hat, c_hat, outcome = draw.uniform(size=rows), draw.uniform(-0.2, 0.2, rows), draw.integers(0, 2, rows)
    gross = draw.uniform(0, cap, rows) * (draw.uniform(size=rows) < 0.8)
    net = gross if how.one_sided else gross * draw.uniform(-1, 1, rows)
    below = (_kernels.mean_propose, _kernels.mean_observe, True)
    inner: Any = below if composed else ()
    replay = _kernels.make_replay(_kernels.reserve_propose, _kernels.reserve_observe, *inner)
    out = [np.zeros(rows) for _ in range(3)] + [np.zeros(rows if traced else 0) for _ in range(2)]
    totals = [10.0, 0.0, 20.0, 30.0, 40.0]
    memory = ([rate / cap, -math.inf, 0.0, 0.0, 0.0], [0], [0.0, 0.0, 0.0], [0])
    replay(memory, (mu_hat, c_hat, outcome.astype(float), net, gross), how, cap, totals, out)
    c, lams_, sums, mu, lost = out
    lam, total = 0.0, 10.0
    xs: list[float] = []
    ws: list[float] = []
    for t in range(rows):
        assert lams_[t] == pytest.approx(lam)
        learned = np.average(xs, weights=ws) if composed and xs else 0.0
        width = min(max(c_hat[t] + learned, 0.0), 0.5) if composed else c_hat[t]
        wanted_mu, wanted_c, _ = rules.publish(mu_hat[t], width, lams_[t], how, 0.0)
        assert c[t] == pytest.approx(wanted_c)
        loss = net[t] * (outcome[t] - wanted_mu) - gross[t] * c[t]
        total += loss
        assert sums[t] == pytest.approx(total)
        lam += rate * loss / cap
        if gross[t]:
            xs.append(net[t] / gross[t] * (outcome[t] - wanted_mu) - c_hat[t])
            ws.append(gross[t] / cap)
        if traced:
            assert mu[t] == pytest.approx(wanted_mu)
            assert lost[t] == pytest.approx(loss)
    assert _kernels.reserve_propose(*memory[:2])[0] == pytest.approx(lam)
    assert totals[1] != 0.0  # what rounding cut off
    fair = 40.0 + (net * (outcome - mu_hat)).sum()
    assert totals == pytest.approx([total, 0.0, 20.0 + c.sum(), 30.0 + (c < 0).sum(), fair])
