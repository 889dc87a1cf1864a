"""Peak and drawdown are those of every settlement, however the run is cut into pieces."""

from typing import Any

import numpy as np
import pandas as pd
from hypothesis import given
from hypothesis import strategies as st

import makewhole as mw
from makewhole.backtesting.path import CURVE_POINTS, Path


@given(st.lists(st.lists(st.integers(-5, 5), max_size=12), max_size=8))
def test_peak_and_drawdown_are_the_largest_there_are(pieces: list[list[int]]) -> None:
    """Multiples of a small number, for ties: then the first peak counts, and the first end of a rise."""
    path, losses, at = Path(sum(map(len, pieces))), [0.0], 0
    for piece in pieces:
        totals = losses[-1] + np.cumsum(np.array(piece) * 2.0**-14)
        rows = np.arange(at, at + len(piece)) * 10
        path.extend(totals, totals / 2, lambda k, rows=rows: int(rows[k]))  # type: ignore[misc]  # rows is bound
        losses += totals.tolist()
        at += len(piece)
    assert path.peak.total == max(losses)
    assert path.peak.settled == losses.index(max(losses))
    rises = [losses[t] - min(losses[: t + 1]) for t in range(len(losses))]
    assert path.drawdown == max(rises)
    if path.drawdown:
        assert path.crest.settled == rises.index(max(rises))
        assert losses[path.trough.settled] == min(losses[: path.crest.settled + 1])
        assert path.trough.settled < path.crest.settled
    for point in (path.peak, path.trough, path.crest, path.last):
        assert point.total == losses[point.settled]
        assert point.lam == point.total / 2
        assert point.row == (None if point.settled == 0 else 10 * (point.settled - 1))
    settled, total, lam = path.curve()
    assert settled.tolist() == list(range(1, len(losses)))
    assert total.tolist() == losses[1:]
    assert lam.tolist() == [loss / 2 for loss in losses[1:]]


def test_a_thinned_curve_keeps_the_peak_and_the_ends_of_the_drawdown() -> None:
    draw = np.random.default_rng(0)
    total: Any = np.cumsum(draw.normal(size=50_000))
    path = Path(50_000)
    for piece in np.split(total, [100, 20_000, 20_001, 49_000]):
        path.extend(piece, piece, lambda at: at)
    settled, thinned, _ = path.curve()
    assert CURVE_POINTS - 1 <= len(settled) <= CURVE_POINTS + 3
    assert (np.diff(settled) > 0).all()
    assert thinned.max() == total.max() == path.peak.total
    assert thinned.tolist() == total[settled - 1].tolist()
    assert {path.peak.settled, path.trough.settled, path.crest.settled, 50_000} <= set(settled.tolist())
    shown = np.concatenate([[0.0], thinned])
    assert (shown - np.minimum.accumulate(shown)).max() == path.drawdown


def test_a_run_that_never_loses_has_neither_peak_nor_drawdown() -> None:
    log = pd.DataFrame({"mu": [0.5] * 5, "y": [0] * 5, "stake": [1.0] * 5})
    result = mw.backtest(log, correction=mw.NoCorrection())
    assert (result.peak_loss, result.peak_at, result.drawdown, result.total_loss) == (0.0, 0, 0.0, -2.5)
    assert "peak loss           0, at the start" in str(result)
    assert "worst drawdown      0" in str(result)
