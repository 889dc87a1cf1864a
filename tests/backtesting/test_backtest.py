"""Backtests: the compiled loop, the plain loop and the one-step objects give the same bits."""

import copy
import tracemalloc
from collections.abc import Callable
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import makewhole as mw
from makewhole import frames
from makewhole.backtesting import log as logs
from makewhole.corrections import Proposal
from makewhole.corrections.base import Stepped
from samples import CORRECTIONS, Foreign, replay


def make_log(rows: int, seed: int = 0, *, negative: bool = True, adversarial: bool = False) -> dict[str, Any]:
    draw = np.random.default_rng(seed)
    mu = np.full(rows, 0.5) if adversarial else draw.uniform(size=rows)
    stake = draw.choice([-1.0, 1.0, 0.0], rows) if adversarial else draw.normal(size=rows)
    if not negative:
        stake = np.abs(stake)
    return {
        "mu": mu,
        "y": draw.integers(0, 2, rows).astype(float),
        "stake": stake,
        "c_hat": draw.uniform(0, 0.2, rows),
    }


def one_by_one(
    log: dict[str, Any], correction: Any, cap: float, one_sided: bool
) -> tuple[Any, Any, float, Any]:
    f = mw.InsuredForecaster(None, correction, max_stake=cap, c_range=(0.0, 0.2), one_sided=one_sided)
    cs: list[float] = []
    paid: list[float] = []
    for mu, y, b, c_hat in zip(*(log[k].tolist() for k in ("mu", "y", "stake", "c_hat")), strict=True):
        q = f.forecast(mu=mu, c_hat=c_hat)
        cs.append(q.c)
        paid += f.settle(q, y, stake=b)
    return cs, paid, f.statement().total_loss, f.corrections[0]


@pytest.mark.slow
@pytest.mark.parametrize("adversarial", [False, True])
@pytest.mark.parametrize("one_sided", [False, True])
@pytest.mark.parametrize("make", CORRECTIONS)
def test_compiled_plain_and_one_step_agree_bit_for_bit(
    make: Callable[[], Any], one_sided: bool, adversarial: bool
) -> None:
    log = make_log(3000, negative=not one_sided, adversarial=adversarial)
    cap = float(np.abs(log["stake"]).max())
    options: dict[str, Any] = dict(c_hat="c_hat", max_stake=cap, one_sided=one_sided, trace=True)
    compiled = replay(pd.DataFrame(log), correction=make(), **options)
    plain = replay(pd.DataFrame(log), correction=Foreign(make()), **options)
    cs, paid, total, learned = one_by_one(log, make(), cap, one_sided)
    assert compiled.trace is not None
    assert plain.trace is not None
    assert compiled.trace["payment"].tolist() == paid
    assert compiled.trace["c"].tolist() == cs
    assert compiled.total_loss == total
    assert compiled.correction == learned
    # A reserve adds up what was paid; behind the public methods it sees w·(x − λ), which is rounded.
    close = 1e-12 if isinstance(make(), mw.Reserve) else 0.0
    assert plain.trace["payment"].tolist() == pytest.approx(paid, rel=close, abs=close)
    assert plain.trace["c"].tolist() == pytest.approx(cs, rel=close, abs=close)
    assert plain.total_loss == pytest.approx(total, rel=close, abs=close)
    assert plain.curve.lam.tolist() == pytest.approx(compiled.curve.lam.tolist(), rel=close, abs=close)


@pytest.mark.slow
@settings(max_examples=40)
@given(
    st.lists(st.tuples(st.floats(0, 1), st.integers(0, 1), st.floats(-1, 1)), min_size=1, max_size=60),
    st.integers(0, len(CORRECTIONS) - 1),
)
def test_compiled_and_one_step_agree_on_what_hypothesis_finds(rows: list[Any], which: int) -> None:
    mu, y, b = (np.array(column, dtype=float) for column in zip(*rows, strict=True))
    log = {"mu": mu, "y": y, "stake": b, "c_hat": np.zeros(len(mu))}
    compiled = mw.backtest(pd.DataFrame(log), correction=CORRECTIONS[which](), max_stake=1.0, trace=True)
    _, paid, total, learned = one_by_one(log, CORRECTIONS[which](), 1.0, one_sided=False)
    assert compiled.trace is not None
    assert compiled.trace["payment"].tolist() == paid
    assert compiled.total_loss == total
    assert compiled.correction == learned


def test_a_subclass_with_its_own_ways_is_not_compiled() -> None:
    class Doubles(mw.NaiveBestResponse):
        def propose(self) -> Proposal:
            return Proposal(2 * super().propose().lam)

    log = pd.DataFrame(make_log(500))
    ours = mw.backtest(log, correction=mw.NaiveBestResponse())
    theirs = mw.backtest(log, correction=Doubles())
    assert ours.total_loss != theirs.total_loss
    assert theirs.total_loss == mw.backtest(log, correction=Foreign(Doubles())).total_loss


@pytest.mark.parametrize("make", CORRECTIONS)
def test_the_correction_is_not_changed_and_the_result_can_go_on(make: Callable[[], Any]) -> None:
    log = pd.DataFrame(make_log(2000))
    correction, untouched = make(), make()
    whole = mw.backtest(log, correction=correction, max_stake=5)
    assert correction == untouched
    first = mw.backtest(log.iloc[:700], correction=correction, max_stake=5)
    second = mw.backtest(log.iloc[700:], correction=first.correction, max_stake=5)
    assert second.correction == whole.correction
    assert first.total_loss + second.total_loss == pytest.approx(whole.total_loss)


def test_rows_of_an_event_are_stakes_on_one_forecast_wherever_they_stand() -> None:
    draw = np.random.default_rng(0)
    events = [f"flight {i}" for i in range(300)]
    mu, y = (
        dict(zip(events, draw.uniform(size=300), strict=True)),
        dict(zip(events, draw.integers(0, 2, 300), strict=True)),
    )
    rows = [(e, mu[e], y[e], float(draw.normal())) for e in events for _ in range(draw.integers(1, 5))]
    shuffled = [rows[i] for i in draw.permutation(len(rows))]
    log = pd.DataFrame(shuffled, columns=["event", "mu", "y", "stake"])
    result = mw.backtest(log, id="event", correction=mw.DeterministicSwap(9), max_stake=20, trace=True)

    f = mw.InsuredForecaster(None, mw.DeterministicSwap(9), max_stake=20, c_range=(0.0, 0.0))
    payments = np.full(len(log), np.nan)
    for event in log["event"].drop_duplicates():
        q = f.forecast(mu=float(mu[event]))
        at = np.flatnonzero(log["event"] == event)
        for b in log["stake"].to_numpy()[at]:
            f.stake(q, float(b))
        payments[at] = f.settle(q, int(y[event]))
    assert result.rounds == 300
    assert result.total_loss == f.statement().total_loss
    assert result.correction == f.corrections[0]
    assert result.trace is not None
    assert np.array_equal(result.trace["payment"], payments)


def test_events_longer_than_a_chunk_stay_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    log = pd.DataFrame(make_log(1000)).assign(mu=0.5, y=1.0, e=np.repeat([0, 1, 2, 3], 250))
    expected = mw.backtest(log, id="e", correction=mw.DeterministicSwap(9))
    monkeypatch.setattr(logs, "CHUNK", 64)
    result = mw.backtest(log, id="e", correction=mw.DeterministicSwap(9))
    assert (result.rounds, result.total_loss) == (4, expected.total_loss)


@pytest.mark.parametrize("chunk", [1, 7, 64, 5000])
def test_chunks_and_blocks_do_not_show(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    log = pd.DataFrame(make_log(1000))
    log.loc[::13, "mu"] = np.nan
    expected = mw.backtest(log, correction=mw.SwapRegret(7, seed=0), max_stake=5, trace=True)
    monkeypatch.setattr(logs, "CHUNK", chunk)
    monkeypatch.setattr(logs, "_BLOCK", 3 * chunk)
    result = mw.backtest(log, correction=mw.SwapRegret(7, seed=0), max_stake=5, trace=True)
    assert (result.total_loss, result.missing) == (expected.total_loss, expected.missing)
    assert all(np.array_equal(a, b) for a, b in zip(result.curve, expected.curve, strict=True))
    assert result.trace is not None
    assert expected.trace is not None
    assert np.array_equal(result.trace["payment"], expected.trace["payment"], equal_nan=True)


FRAMES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "pandas": pd.DataFrame,
    "pandas with nullable types": lambda d: pd.DataFrame(d).convert_dtypes(),
    "pandas on pyarrow": lambda d: pd.DataFrame(d).convert_dtypes(dtype_backend="pyarrow"),
    "polars": pl.DataFrame,
    "polars, lazy": lambda d: pl.DataFrame(d).lazy(),
    "polars in pieces": lambda d: pl.concat([pl.DataFrame(d)[:400], pl.DataFrame(d)[400:]], rechunk=False),
    "pyarrow": pa.table,
    "duckdb": lambda d: duckdb.from_arrow(pa.table(d)),
}


@pytest.mark.parametrize("kind", FRAMES)
def test_any_dataframe_gives_the_same_numbers(kind: str) -> None:
    log = make_log(1000) | {"y": np.arange(1000) % 3 == 0, "other": np.arange(1000)}
    expected = mw.backtest(pd.DataFrame(log), correction=mw.DeterministicSwap(9), max_stake=5)
    result = mw.backtest(FRAMES[kind](log), correction=mw.DeterministicSwap(9), max_stake=5)
    assert result.total_loss == expected.total_loss
    assert result.correction == expected.correction


@pytest.mark.parametrize("kind", FRAMES)
def test_missing_numbers_are_counted_and_left_out(kind: str) -> None:
    log = make_log(60)
    holes: dict[str, Any] = {k: v.tolist() for k, v in log.items()}
    holes["mu"][3] = holes["stake"][3] = holes["y"][7] = None
    kept = pd.DataFrame(log).drop([3, 7])
    make = FRAMES[kind] if kind != "polars in pieces" else pl.DataFrame
    result = mw.backtest(make(holes), correction=mw.DeterministicSwap(9), max_stake=5, trace=True)
    assert (result.rows, result.missing, result.rounds) == (60, 2, 58)
    assert result.total_loss == mw.backtest(kept, correction=mw.DeterministicSwap(9), max_stake=5).total_loss
    assert result.trace is not None
    assert np.flatnonzero(np.isnan(result.trace["payment"])).tolist() == [3, 7]
    assert "(2 left out for missing numbers)" in str(result)
    assert result.curve.round[-1] == 58


def test_a_log_of_nothing_but_holes_is_said_to_be_that() -> None:
    result = mw.backtest(pd.DataFrame({"mu": [np.nan] * 3, "y": [1.0] * 3, "stake": [1.0] * 3}))
    assert (result.rounds, result.missing, result.total_loss, result.mean_loss) == (0, 3, 0.0, 0.0)


def test_the_curve_is_thinned_and_ends_at_the_end() -> None:
    log = pd.DataFrame(make_log(50_000))
    result = mw.backtest(log, correction=mw.NaiveBestResponse(), trace=True)
    assert len(result.curve.round) <= 2003
    assert result.curve.round[-1] == 50_000
    assert result.curve.total_loss[-1] == result.total_loss
    assert result.trace is not None
    running = np.cumsum(result.trace["payment"])
    assert np.allclose(result.curve.total_loss, running[result.curve.round - 1])
    assert np.array_equal(result.curve.lam, result.trace["lam"][result.curve.round - 1])
    assert result.to_frame("pandas").shape == (50_000, 4)
    short = mw.backtest(log.head(5), correction=mw.NaiveBestResponse())
    assert short.curve.round.tolist() == [1, 2, 3, 4, 5]
    assert list(short.to_frame("polars").columns) == ["round", "total_loss", "mean_loss", "lam"]


def test_rows_left_out_do_not_decide_the_order_of_events() -> None:
    log = pd.DataFrame(
        {"e": list("abab"), "mu": [np.nan, 0.5, 0.5, 0.5], "y": [1, 0, 1, 0], "stake": [1.0] * 4}
    )
    options: dict[str, Any] = dict(id="e", correction=mw.NaiveBestResponse(), max_stake=2)
    whole, kept = mw.backtest(log, **options), mw.backtest(log.dropna(), **options)
    assert (whole.total_loss, whole.rounds, whole.missing) == (kept.total_loss, kept.rounds, 1)
    nothing = mw.backtest(log.assign(mu=np.nan), **options)
    assert (nothing.rounds, nothing.missing) == (0, 4)


def test_mean_c_and_negative_c_are_those_of_the_trace() -> None:
    result = mw.backtest(pd.DataFrame(make_log(500)), correction=mw.NaiveBestResponse(), trace=True)
    assert result.trace is not None
    assert result.mean_c == pytest.approx(result.trace["c"].mean())
    assert result.mean_size_of_c == pytest.approx(np.abs(result.trace["c"]).mean())
    assert result.mean_size_of_c > abs(result.mean_c)
    assert result.negative_c == (result.trace["c"] < 0).sum() > 0


def test_stakes_beyond_all_floats_are_named() -> None:
    log = pd.DataFrame({"e": [1, 1], "mu": [0.5] * 2, "y": [1] * 2, "stake": [1.5e308] * 2})
    with pytest.raises(ValueError, match=r"the sum of \|stake\| on a forecast must be finite; got inf"):
        mw.backtest(log, id="e")


def test_totals_are_what_they_say() -> None:
    log = pd.DataFrame(make_log(500))
    result = mw.backtest(log, correction=mw.NoCorrection())
    assert result.turnover == pytest.approx(log["stake"].abs().sum())
    assert result.max_stake == log["stake"].abs().max()
    assert result.total_loss == pytest.approx(mw.payment(log["stake"], log["y"], log["mu"], 0.0).sum())
    assert result.mean_loss == result.total_loss / 500


def test_without_a_correction_it_is_the_forecasters_own() -> None:
    log = make_log(400)
    cap = float(np.abs(log["stake"]).max())
    result = replay(pd.DataFrame(log), c_hat="c_hat", c_range=(0.0, 0.5), max_stake=cap)
    f = mw.InsuredForecaster(max_stake=cap)
    for mu, y, b, c_hat in zip(*(log[k].tolist() for k in ("mu", "y", "stake", "c_hat")), strict=True):
        f.settle(f.forecast(mu=mu, c_hat=c_hat), y, stake=b)
    assert result.correction == f.corrections[0]
    assert result.total_loss == f.statement().total_loss
    assert repr(result.correction) == "StandardRegret(rate=0.1)"


@pytest.mark.parametrize(
    ("change", "options", "error", "message"),
    [
        (dict(mu=1.5), {}, ValueError, r"mu='mu' must lie in \[0, 1\]; got 1.5 at row 5 \(a percentage\?"),
        (dict(mu=-0.1), {}, ValueError, r"mu='mu' must lie in \[0, 1\]; got -0.1 at row 5$"),
        (dict(y=2.0), {}, ValueError, "outcome='y' must be 0 or 1; got 2.0 at row 5"),
        (dict(stake=np.inf), {}, ValueError, "stake='stake' must be finite; got inf at row 5"),
        (
            dict(stake=-3.0),
            dict(one_sided=True, max_stake=3),
            ValueError,
            "must not be negative when one-sided; got -3.0 at row 5",
        ),
        (dict(stake=7.0), dict(max_stake=6), ValueError, r"max_stake must cover .*; got 6.0 < 7.0 at row 5"),
        ({}, dict(mu="p"), ValueError, "mu='p' is not a column; the frame has: mu, y, stake"),
        ({}, dict(c_hat="width"), ValueError, "c_hat='width' is not a column"),
        ({}, dict(mode="loose", max_stake=1), ValueError, "mode must be 'exact' or 'sound'"),
        ({}, dict(max_stake=0), ValueError, "max_stake must be one number above 0"),
        ({}, dict(correction="swap"), TypeError, "correction must be an object, such as mw.Reserve"),
    ],
)
def test_bad_rows_and_arguments_are_named(
    change: dict[str, float], options: dict[str, Any], error: type[Exception], message: str
) -> None:
    log = pd.DataFrame({"mu": [0.5] * 9, "y": [1.0] * 9, "stake": [1.0] * 9})
    for column, value in change.items():
        log.loc[5, column] = value
    with pytest.raises(error, match=message):
        replay(log, **options)


def test_frames_that_are_none_are_named() -> None:
    with pytest.raises(TypeError, match=r"frame must be a dataframe \(pandas, polars, .*; got list"):
        mw.backtest([1, 2])
    with pytest.raises(ValueError, match="frame must have at least one row; got 0"):
        mw.backtest(pd.DataFrame({"mu": [], "y": [], "stake": []}))
    with pytest.raises(TypeError, match="mu='mu' must be a column of numbers; got String"):
        mw.backtest(pl.DataFrame({"mu": ["0.5"], "y": [1], "stake": [1.0]}))


def test_an_id_must_have_one_forecast_and_one_outcome() -> None:
    log = pd.DataFrame(
        {"e": ["a", "b", "a"], "mu": [0.5, 0.5, 0.6], "y": [1, 1, 1], "stake": [1.0, 1.0, 1.0]}
    )
    with pytest.raises(ValueError, match="mu='mu' must be the same in all rows of an id; got 0.6 at row 2"):
        mw.backtest(log, id="e")
    with pytest.raises(ValueError, match="id='e' must not have missing values; got 1"):
        mw.backtest(log.assign(e=["a", None, "a"]), id="e")
    with pytest.raises(ValueError, match="id='e' must not have missing values; got 1"):
        mw.backtest(pl.DataFrame(log.assign(e=[1.0, float("nan"), 1.0])), id="e")
    with pytest.raises(ValueError, match=r"got 1.5 < 2.0 at row 0"):
        mw.backtest(log.assign(mu=0.5), id="e", max_stake=1.5)


@pytest.mark.slow
def test_memory_stays_flat_in_the_rows() -> None:
    def peak(rows: int) -> int:
        log = pl.DataFrame(make_log(rows))
        mw.backtest(log[:100], correction=mw.DeterministicSwap(100), max_stake=10)  # compile first
        tracemalloc.start()
        mw.backtest(log, correction=mw.DeterministicSwap(100), max_stake=10)
        top = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return top

    assert peak(4_000_000) < peak(1_000_000) + 2_000_000  # 96 MB more of input, under 2 MB more in use


@pytest.mark.slow
def test_progress_is_reported_to_the_end() -> None:
    seen: list[tuple[int, int]] = []
    mw.backtest(
        pd.DataFrame(make_log(50_000)), max_stake=10, progress=lambda done, total: seen.append((done, total))
    )
    assert seen[-1] == (50_000, 50_000)
    assert seen == sorted(seen)


def test_ours_are_compiled() -> None:
    assert all(isinstance(make(), Stepped) for make in CORRECTIONS)
    assert copy.deepcopy(CORRECTIONS[4]()) == CORRECTIONS[4]()


@pytest.mark.parametrize("backend", ["pandas", "polars", "pyarrow"])
def test_what_goes_in_as_one_kind_of_frame_comes_out_as_the_same(backend: str) -> None:
    log = frames.make_frame({"mu": [0.5, 0.5], "y": [1, 0], "stake": [1.0, 1.0]}, backend)
    for trace in (False, True):
        out = mw.backtest(log, correction=mw.NoCorrection(), trace=trace).to_frame()
        assert type(out) is type(log)
    assert type(mw.backtest(log, correction=mw.NoCorrection()).to_frame("polars")).__module__.startswith(
        "polars"
    )


@pytest.mark.parametrize("width", [1e15, 100.5, -101.0, np.inf])
def test_widths_have_the_forecasters_limits(width: float) -> None:
    """ĉ = 1e15 broke a certificate by 2.6 caps: what is learned is lost in rounding there."""
    rows = 50
    log = pd.DataFrame({"mu": [0.5] * rows, "y": [1] * rows, "stake": [1.0] * rows, "w": [0.0] * rows})
    log.loc[7, "w"] = width
    with pytest.raises(ValueError, match=r"c_hat='w' must lie in \[-100, 100\]; got .* at row 7"):
        mw.backtest(log, c_hat="w", correction=mw.Reserve(0.1))
    with pytest.raises(ValueError, match=r"c_range"):
        mw.InsuredForecaster(max_stake=1, c_range=(min(0.0, width), max(0.0, width)))
    log.loc[7, "w"] = 100.0
    assert mw.backtest(log, c_hat="w", correction=mw.Reserve(0.1)).rounds == rows


def test_widths_are_kept_in_the_range_that_is_given() -> None:
    log = make_log(50)
    frame = pd.DataFrame(log)
    with pytest.raises(ValueError, match=r"c_hat='c_hat' must lie in \[0, 0.05\]; got .* at row"):
        replay(frame, c_hat="c_hat", c_range=(0.0, 0.05), max_stake=9.0)
    with pytest.raises(ValueError, match=r"c_range must be a pair \(low, high\)"):
        replay(frame, c_range=(0.5, 0.0), max_stake=9.0)
    result = replay(frame, c_range=(0.1, 0.3), max_stake=9.0, trace=True)
    f = mw.InsuredForecaster(max_stake=9.0, c_range=(0.1, 0.3))  # without a ĉ it is the nearest to 0
    for mu, y, b in zip(*(log[k].tolist() for k in ("mu", "y", "stake")), strict=True):
        f.settle(f.forecast(mu=mu), y, stake=b)
    assert result.total_loss == f.statement().total_loss
    assert result.trace is not None
    assert result.trace["c"][0] == 0.1


@pytest.mark.parametrize("cap", [1e-101, 1e101, 0.0, -1.0, np.nan])
def test_caps_have_the_forecasters_limits(cap: float) -> None:
    log = pd.DataFrame({"mu": [0.5], "y": [1], "stake": [0.0]})
    with pytest.raises(ValueError, match="max_stake must"):
        mw.backtest(log, max_stake=cap)
    with pytest.raises(ValueError, match="max_stake must"):
        mw.InsuredForecaster(max_stake=cap)


def test_groups_whose_rows_were_all_left_out_are_not_in_the_certificate() -> None:
    log = pd.DataFrame({"mu": [0.5, np.nan, 0.5], "y": [1, 1, np.nan], "stake": [1.0] * 3, "g": list("abc")})
    log.loc[3] = [0.5, 0, -1.0, "d"]
    result = replay(log, mw.Grouped(mw.Reserve(0.1)), group="g", mode="sound", max_stake=1.0)
    alone = replay(log[:1], mw.Reserve(0.1), mode="sound", max_stake=1.0)
    assert result.certificate is not None
    assert alone.certificate is not None
    assert result.certificate.bound == 2 * (alone.certificate.bound or 0.0) > 0
    assert "for each of 2 groups" in result.certificate.theorem


@pytest.mark.slow
def test_square_roots_have_the_same_bits_compiled_and_not() -> None:
    """Powers of ½ do not: numba's differ from Python's at 891 whole numbers below a million."""
    log = make_log(20_000)
    compiled = mw.backtest(
        pd.DataFrame(log), c_hat="c_hat", correction=mw.StandardRegret(0.3), max_stake=9.0, trace=True
    )
    assert compiled.trace is not None
    cs, paid, _, _ = one_by_one(log, mw.StandardRegret(0.3), 9.0, one_sided=False)
    assert compiled.trace["c"].tolist() == cs
    assert compiled.trace["payment"].tolist() == paid
