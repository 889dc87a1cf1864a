"""Many forecasts at once: the same numbers as one by one, all or nothing."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import makewhole as mw
from makewhole.corrections import Proposal
from samples import KINDS, bet, given_to, insured, played, state


def several(f: mw.InsuredForecaster, draw: np.random.Generator, count: int) -> Iterator[dict[str, Any]]:
    return (given_to(f, draw) for _ in range(count))


@pytest.mark.parametrize("kind", KINDS)
def test_many_at_once_are_the_same_as_one_by_one(kind: str) -> None:
    one, many = played(insured(kind), 15, 8), played(insured(kind), 15, 8)
    draw = np.random.default_rng(3)
    for turn in range(3):
        rows = list(several(one, draw, 6))
        ids = [f"{turn}-{k}" for k in range(6)] if turn else None
        singles = [one.forecast(**row, id=None if ids is None else ids[k]) for k, row in enumerate(rows)]
        groups = [row["groups"] for row in rows] if "groups" in rows[0] else None
        batch = many.forecast_many(mu=[row["mu"] for row in rows], groups=groups, ids=ids)
        assert list(batch) == singles
        assert batch[1:3] == singles[1:3]
        assert np.array_equal(batch.mu, [q.mu for q in singles])
        assert np.array_equal(batch.c, [q.c for q in singles])
        for q in singles[::2]:
            b = bet(one, draw)
            assert one.stake(q, b) == many.stake(q, b)
        outcomes = {q.id: int(draw.integers(one.classes or 2)) for q in reversed(singles[:5])}
        paid = {id_: one.settle(id_, y) for id_, y in outcomes.items()}  # type: ignore[arg-type]  # an id
        assert many.settle_many(outcomes) == paid
        assert state(one) == state(many)


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.floats(0, 1), st.floats(-0.4, 0.9)), min_size=1, max_size=20),
    st.floats(-2, 2),
    st.sampled_from([(a, b, c) for a in (0, 1) for b in (0, 1) for c in (0, 1)]),
)
def test_a_published_column_has_the_bits_of_its_rows(rows: Any, lam: float, rules: Any) -> None:
    one_sided, sound, integrates = map(bool, rules)
    options: dict[str, Any] = {"one_sided": one_sided, "mode": "sound" if sound else "exact"}
    made: Any = mw.Reserve(0.1) if integrates else mw.NaiveBestResponse()
    one, many = (
        mw.InsuredForecaster(None, made, max_stake=3.0, c_range=(-0.4, 0.9), thaw=None, **options)
        for _ in range(2)
    )
    mu, width = (np.array(column) for column in zip(*rows, strict=True))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(type(made), "proposed", lambda _, memory: (Proposal(lam), memory))
        batch = many.forecast_many(mu=mu, c_hat=width)
        singles = [one.forecast(mu=m, c_hat=w) for m, w in rows]
    assert batch.mu.tolist() == [q.mu for q in singles]
    assert batch.c.tolist() == [q.c for q in singles]
    ids = [q.id for q in singles]
    entries = [[f.book.find(id_) for id_ in ids] for f in (one, many)]
    apart, together = ([(e.legs[0].origin, e.legs[0].room) for e in found] for found in entries)
    assert together == apart
    assert all(f.proposed(id_) == [lam] for f in (one, many) for id_ in ids)  # type: ignore[arg-type]  # an id
    assert state(one) == state(many)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda f: f.forecast_many(mu=[0.5, 1.5]), ValueError),
        (lambda f: f.forecast_many(mu=0.5), ValueError),
        (lambda f: f.forecast_many(), TypeError),
        (lambda f: f.forecast_many(mu=[0.5], ids=["x", "y"]), ValueError),
        (lambda f: f.forecast_many(mu=[0.5, 0.5], ids=["x", "x"]), ValueError),
        (lambda f: f.forecast_many(mu=[0.5, 0.5], ids=["x", 0]), mw.ForecastOpen),
        (lambda f: f.forecast_many(mu=[0.5, 0.5], ids="xy"), TypeError),
        (lambda f: f.forecast_many(mu=[0.5, 0.5], c_hat=[0.1, 0.2, 0.3]), ValueError),
        (lambda f: f.forecast_many(mu=[0.5], groups=["a"]), TypeError),
        (lambda f: f.settle_many({0: 1, 1: 7}), ValueError),
        (lambda f: f.settle_many({0: 1, 99: 1}), mw.UnknownForecast),
        (lambda f: f.settle_many({0: 1, "x": 1}), mw.UnknownForecast),
        (lambda f: f.settle_many([(0, 1)]), TypeError),
    ],
)
def test_a_batch_that_does_not_fit_changes_nothing(call: Any, error: Any) -> None:
    f = mw.InsuredForecaster(max_stake=1)
    f.forecast(mu=0.5)
    f.forecast_many(mu=[0.5, 0.6])
    before = state(f)
    with pytest.raises(error):
        call(f)
    assert state(f) == before


def test_outcomes_may_come_in_a_frame() -> None:
    import pandas as pd
    import polars as pl

    for make in (pd.DataFrame, pl.DataFrame):
        f = mw.InsuredForecaster(max_stake=1)
        f.forecast_many(mu=[0.5, 0.5], ids=["a", "b"])
        f.stake("b", 1.0)
        paid = f.settle_many(make({"flight": ["b", "a"], "late": [1, 0]}), id="flight", outcome="late")
        assert paid == {"b": [0.5], "a": []}
        with pytest.raises(ValueError, match="id='flight' must name every forecast once"):
            f.settle_many(make({"flight": ["b", "b"], "late": [1, 0]}), id="flight", outcome="late")


def test_a_base_is_asked_once_for_a_batch_and_rows_may_have_names() -> None:
    import pandas as pd
    from sklearn.linear_model import LogisticRegression

    class Counting(LogisticRegression):  # type: ignore[misc]  # scikit-learn is not typed
        asked = 0

        def predict_proba(self, X: Any) -> Any:
            type(self).asked += 1
            return super().predict_proba(X)

    draw = np.random.default_rng(0)
    table = pd.DataFrame({"a": draw.normal(size=200), "b": draw.normal(size=200)})
    model = Counting().fit(table, draw.integers(0, 2, 200))
    f = mw.InsuredForecaster(model, max_stake=1)
    batch = f.forecast_many(table[:50])
    assert Counting.asked == 1
    row = table.iloc[3]
    expected = batch[3].mu
    for x in (row, row.to_dict(), table[3:4], {"b": row["b"], "a": row["a"]}):
        assert f.peek(x).mu == pytest.approx(expected, abs=1e-12)
    with pytest.raises(ValueError, match="x must have the feature 'b' of the model"):
        f.peek({"a": 1.0})
    assert len(f.settle_many(dict.fromkeys(batch.ids, 1))) == 50
    assert f.statement().rounds == 50


@pytest.mark.parametrize("sizes", [[1], [2], [1, 1], [1, 2], [2, 1], [3, 1, 1]])
@pytest.mark.parametrize("limits", [{}, {"max_exposure": 1e6}])
def test_small_batches_make_as_many_late_as_the_same_forecasts_one_by_one(
    sizes: list[int], limits: dict[str, Any]
) -> None:
    """A forecast that is open alone is not late; the second one that is open at the same time is."""
    one, many = (mw.InsuredForecaster(None, mw.Reserve(0.1), max_stake=2, **limits) for _ in range(2))
    for round_ in range(2):
        for size in sizes:
            many.forecast_many(mu=[0.3] * size)
            for _ in range(size):
                one.forecast(mu=0.3)
            assert many.statement() == one.statement()
        ids = [q.id for q in one.open_forecasts]
        many.settle_many(dict.fromkeys(ids, round_))
        one.settle_many(dict.fromkeys(ids, round_))
    alone = mw.InsuredForecaster(None, mw.Reserve(0.1), max_stake=2, **limits).statement().certificate
    late = many.statement().certificate.exposure > alone.exposure
    assert late == (sum(sizes) > 1 and not limits)
