"""The three protocols, and the record they leave."""

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import makewhole as mw
from makewhole.protocol import Chance, Replay


def test_protocol_1_agents_stake_nothing_and_bear_their_own_loss() -> None:
    f = mw.InsuredForecaster(lambda x: 0.5, max_stake=1)
    record = mw.play(
        Chance(0.3, seed=1), f, mw.agents.Trustful({"go": (0, 1), "stay": (0.4, 0.4)}), rounds=50
    )
    assert (record["stake"] == 0).all()
    assert (record["payment"] == 0).all()
    assert np.array_equal(record["agent_loss"], record["decision_loss"])


def test_protocol_2_the_insured_agents_loss_is_what_the_forecast_said() -> None:
    table = {"use": (2.0, -10.0), "skip": (0.0, 0.0)}
    f = mw.InsuredForecaster(lambda x: 0.5, mw.DeterministicSwap(11), max_stake=12)
    record = mw.play(Chance(0.1, seed=0), f, mw.agents.Insured(table), rounds=300)
    hedged = record["stake"] != 0
    high = [mw.loss_bounds(table["use"], mu, c).high for mu, c in zip(record["mu"], record["c"], strict=True)]
    assert hedged.any()
    assert np.allclose(record["agent_loss"][hedged], np.array(high)[hedged], atol=1e-12)
    assert record.total_loss == pytest.approx(f.statement().total_loss)
    assert record.mean_loss == pytest.approx(f.statement().mean_loss)


def test_protocol_3_the_insured_agents_loss_is_certain_in_every_class() -> None:
    draw = np.random.default_rng(0)
    f = mw.InsuredForecaster(lambda x: np.array([0.2, 0.3, 0.5]), max_stake=10, classes=3)
    agent = mw.agents.Insured(lambda: draw.normal(size=(2, 3)))
    nature = Chance([0.6, 0.3, 0.1], seed=0)
    for _ in range(200):
        x = nature.reveal()
        q = f.forecast(x)
        decision = agent.act(q)
        (paid,) = f.settle(q, nature.outcome(), stake=decision.stake)
        if np.any(decision.stake):
            apart = np.abs(mw.multiclass.centred(decision.losses)).sum()
            high = q.mu @ decision.losses + q.c[0] * apart
            assert decision.losses[nature.outcome()] - paid == pytest.approx(high, abs=1e-12)


def test_a_record_of_classes_has_a_column_per_class() -> None:
    f = mw.InsuredForecaster(lambda x: np.array([0.2, 0.3, 0.5]), max_stake=1, classes=3)
    record = mw.play(Chance([0.6, 0.3, 0.1], seed=0), f, mw.agents.Random(seed=0), rounds=5)
    frame = record.to_frame("pandas")
    assert [c for c in frame.columns if c.startswith(("mu", "c_", "stake"))] == [
        f"{name}_{k}" for name in ("mu", "c", "stake") for k in range(3)
    ]


@pytest.mark.parametrize(
    ("backend", "kind"),
    [("pandas", pd.DataFrame), ("polars", pl.DataFrame), ("pyarrow", pa.Table), (None, pl.DataFrame)],
)
def test_a_record_turns_into_any_frame(backend: str | None, kind: type[Any]) -> None:
    f = mw.InsuredForecaster(lambda x: 0.5, max_stake=12)
    agent = mw.agents.Insured({"use": (2, -10), "skip": (0, 0)})
    frame = mw.play(Chance(0.5, seed=0), f, agent, rounds=4).to_frame(backend)
    assert isinstance(frame, kind)
    columns = frame.column_names if isinstance(frame, pa.Table) else list(frame.columns)
    assert columns[:7] == ["mu", "c", "action", "stake", "outcome", "payment", "loss"]


def test_a_recorded_game_backtests_to_the_same_loss() -> None:
    f = mw.InsuredForecaster(lambda x: x, mw.DeterministicSwap(31), max_stake=1)
    draw = np.random.default_rng(3)
    nature = Chance(0.7, x=lambda: float(draw.uniform()), seed=4)
    record = mw.play(nature, f, mw.agents.Random(seed=5), rounds=500)
    result = mw.backtest(
        record.to_frame(), outcome="outcome", correction=mw.DeterministicSwap(31), max_stake=1
    )
    assert result.total_loss == record.total_loss


def test_chance_draws_what_it_says() -> None:
    nature = Chance([0.2, 0.3, 0.5], seed=0)
    counts = np.zeros(3)
    for _ in range(20_000):
        nature.reveal()
        assert nature.outcome() == nature.outcome()
        counts[nature.outcome()] += 1
    # 5 standard deviations of the largest of the three shares, fixed seed
    assert np.abs(counts / 20_000 - [0.2, 0.3, 0.5]).max() < 5 * 0.5 / np.sqrt(20_000)
    sure = Chance(1.0)
    sure.reveal()
    assert sure.outcome() == 1


def test_chance_may_change_its_mind_every_round() -> None:
    probabilities = iter([0.0, 1.0])
    nature = Chance(lambda: next(probabilities), seed=0)
    seen = []
    for _ in range(2):
        nature.reveal()
        seen.append((nature.probability(), nature.outcome()))
    assert seen == [(0.0, 0), (1.0, 1)]


def test_replay_ends_where_the_data_end() -> None:
    f = mw.InsuredForecaster(lambda x: x, max_stake=1)
    nature = Replay([1, 0, 1], xs=[0.2, 0.4, 0.6])
    record = mw.play(nature, f, mw.agents.Random(seed=0), rounds=3)
    assert record["mu"].tolist() == [0.2, 0.4, 0.6]
    assert record["outcome"].tolist() == [1, 0, 1]
    with pytest.raises(ValueError, match="rounds must be at most 3, as many as were recorded"):
        nature.reveal()
    with pytest.raises(ValueError, match="xs must have as many rows as outcomes, 3; got 1"):
        Replay([1, 0, 1], xs=[0.2])


def test_an_empty_record_is_still_a_record() -> None:
    record = mw.play(
        Chance(0.5), mw.InsuredForecaster(lambda x: 0.5, max_stake=1), mw.agents.Random(), rounds=0
    )
    assert (len(record), record.mean_loss) == (0, 0.0)
    with pytest.raises(KeyError, match="'lam' is not a column"):
        record["lam"]


def test_nature_must_begin_a_round_first() -> None:
    with pytest.raises(RuntimeError, match="call reveal"):
        Chance(0.5).outcome()
    with pytest.raises(RuntimeError, match="call reveal"):
        Replay([1]).outcome()
    with pytest.raises(ValueError, match=r"probability must lie in \[0, 1\]"):
        Chance(1.5)
