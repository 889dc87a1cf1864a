"""Published win probabilities and fans who bet on them: what standing behind each would have cost.

Takes FiveThirtyEight's forecasts of MLB and NBA games from MAKEWHOLE_DATA, or downloads them once.
"""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

import makewhole as mw
from makewhole import datasets

SEASON_TICKET = 100.0  # the most that a fan's mood is worth, in dollars
FANS = 50


def fans_of(games: int, seed: int) -> NDArray[np.float64]:
    """Each game has fans of both teams; a fan insures against her own team's defeat, at her own price."""
    draw = np.random.default_rng(seed)
    size = draw.uniform(0, SEASON_TICKET, (games, FANS))
    stakes: NDArray[np.float64] = size * draw.choice([-1.0, 1.0], (games, FANS))
    return stakes


def main() -> None:
    """Replay both leagues under several corrections, against plain fans and against a tipster."""
    columns = f"{'games':>7}{'turnover':>14}{'total loss':>12}{'% of it':>9}{'mean c':>9}"
    print(f"{'league':<7}{'who bets':<11}{'correction':<22}{columns}")
    for league in ("mlb", "nba"):
        games = datasets.load_538(league)
        mu, y = games["mu"].to_numpy(), games["y"].to_numpy()
        crowd = fans_of(len(games), seed=0)
        # A tipster who is right two times in three, and everybody follows him.
        right = np.random.default_rng(1).random(len(games)) < 2 / 3
        tips = np.where(right == (y == 1), 1.0, -1.0)[:, None] * np.abs(crowd)
        for who, stakes in (("fans", crowd), ("followers", tips)):
            log = pl.DataFrame(
                {
                    "game": np.repeat(np.arange(len(games)), FANS),
                    "mu": np.repeat(mu, FANS),
                    "y": np.repeat(y, FANS),
                    "stake": stakes.ravel(),
                }
            )
            corrections: list[mw.Correction] = [
                mw.NoCorrection(),
                mw.StandardRegret(rate=1.0),
                mw.SwapRegret.for_horizon(len(games), seed=0),
                mw.DeterministicSwap.for_horizon(len(games)),
            ]
            for correction in corrections:
                r = mw.backtest(log, id="game", correction=correction, max_stake=FANS * SEASON_TICKET)
                share = 100 * r.total_loss / r.turnover
                name = type(correction).__name__
                print(
                    f"{league:<7}{who:<11}{name:<22}{r.rounds:>7,}{r.turnover:>14,.0f}"
                    f"{r.total_loss:>12,.0f}{share:>9.2f}{r.mean_c:>9.4f}"
                )


if __name__ == "__main__":
    main()
