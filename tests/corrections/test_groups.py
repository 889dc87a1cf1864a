"""Groups: no group exploited, whether they overlap or not."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import makewhole as mw
from makewhole.backtesting.log import CHUNK
from makewhole.corrections import _kernels
from makewhole.corrections._kernels import HELPERS, members_observe, members_propose
from makewhole.jit import jit
from makewhole.rules import Publishing, balance, publish
from samples import log_of, overlapping, replay

NAMES = ("a", "b", 3)
subset = st.lists(st.sampled_from(NAMES), unique=True)
move = st.tuples(st.floats(0, 1), st.floats(0, 0.3), st.integers(0, 1), st.floats(-1, 1), subset)


# --- overlapping: every group, and all together -----------------------------------------------------------


@settings(max_examples=80)
@given(st.lists(move, max_size=60), st.sampled_from([0.1, 0.3, 0.5]), st.booleans())
def test_no_group_loses_more_than_the_certificate_nor_do_all(
    moves: list[Any], rate: float, composed: bool
) -> None:
    f = overlapping(rate, over=mw.DeterministicSwap(7) if composed else None)
    totals = dict.fromkeys(NAMES, 0.0)
    for mu, c_hat, y, b, names in moves:
        q = f.forecast(mu=mu, c_hat=c_hat, groups=names)
        assert 0 <= q.c <= 0.5
        (paid,) = f.settle(q, y, stake=b)
        for name in names:
            totals[name] += paid
            assert totals[name] <= 0.5 / rate + 1e-9
        assert f.statement().total_loss <= 0.5 / rate + 1e-9
    said = f.statement()
    assert said.certificate.bound == pytest.approx(0.5 / rate)
    for name, one in said.groups.items():
        assert one.total_loss == pytest.approx(totals[name], abs=1e-12)
        assert one.certificate.bound == pytest.approx(0.5 / rate)


@settings(max_examples=60)
@given(st.lists(st.tuples(move, st.integers(0, 5)), max_size=80))
def test_late_outcomes_add_no_more_than_the_exposure_to_any_group(moves: list[Any]) -> None:
    f = overlapping(0.2, max_exposure=3.0)
    open_: list[tuple[mw.Forecast, int]] = []
    for (mu, c_hat, y, b, names), wait in moves:
        q = f.forecast(mu=mu, c_hat=c_hat, groups=names)
        try:
            f.stake(q, b)
        except mw.StakeRefused:
            f.void(q)
            continue
        open_.append((q, y))
        while len(open_) > wait:
            q, y = open_.pop(wait % len(open_))
            f.settle(q, y)
            for one in (f.statement(), *f.statement().groups.values()):
                assert one.total_loss <= 0.5 / 0.2 + 3.0 + 1e-9
                assert one.certificate.bound == pytest.approx(0.5 / 0.2 + 3.0)


def make_siege() -> Callable[..., Any]:
    """An adversary who knows every weight chooses members, side and size; the most any group ever lost."""

    def siege(values: Any, marks: Any, totals: Any, kind: int, rounds: int) -> float:
        groups, most = len(totals) - 1, 0.0
        for t in range(rounds):
            noise = _kernels.scramble(t * 7919 + kind) / 4294967296.0
            marks[0], marks[2], size = 2, 1, 1
            for g in range(groups):  # which groups it belongs to
                joins = (t >> g) & 1 == 1 if kind == 0 else int(noise * 1024) >> g & 1 == 1
                if kind == 2:  # one at a time
                    joins = t % groups == g
                if joins:
                    marks[2 + size] = 4 + 3 * g
                    size += 1
            marks[1] = size
            proposal = members_propose(values, marks)
            c_hat = 0.0 if kind < 3 else 0.1 * noise
            mu, c, origin = publish(0.5, c_hat, proposal[0], Publishing(False, True, True), 0.0)
            gross = 1.0 if kind != 1 else noise
            wins = kind != 3 or proposal[0] < 0.3
            loss, target, weight = balance(mu, c, origin, 1.0, gross if wins else -gross, gross, 1.0)
            for k in range(size):
                member = (marks[2 + k] - 1) // 3
                totals[member] += loss
                most = max(most, totals[member])
            if weight > 0.0:
                members_observe(values, marks, proposal, target, weight, loss, 0.0)
        return most

    return siege


@functools.cache
def siege() -> Callable[..., Any]:
    return jit(make_siege(), *HELPERS, members_propose, members_observe)


@pytest.mark.slow
@pytest.mark.parametrize("kind", range(4))
def test_no_adversary_breaks_the_group_bound_in_ten_million_rounds(kind: int) -> None:
    rate, groups = 0.003, 5
    values = np.array([rate, *([0.0] * 3 * (groups + 1))])
    most = siege()(values, np.zeros(groups + 3, np.int64), np.zeros(groups + 1), kind, 10_000_000)
    assert most <= 0.5 / rate + 1e-6
    assert most > 0.2 / rate  # it is a siege


@pytest.mark.slow
def test_a_clairvoyant_in_one_group_takes_all_but_two_percent_of_its_certificate_and_others_stay_sharp() -> (
    None
):
    f = overlapping(0.001, c_range=(0.0, 0.0))
    for t in range(60_000):
        f.settle(f.forecast(mu=0.5, groups=["a"]), 1, stake=1.0)
        f.settle(f.forecast(mu=0.5, groups=["b"]), t % 2, stake=1.0)
    said = f.statement().groups
    assert 490 < said["a"].total_loss <= 500
    # everyone's weight falls back as b pays its spread, and a's own carries its price
    assert f.peek(mu=0.5, groups=["a"]).c > 0.49
    assert f.peek(mu=0.5, groups=["b"]).c < 0.1


# --- disjoint: each is a forecaster of its own ------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("classes", [None, 3])
@pytest.mark.parametrize("mode", ["exact", "sound"])
@pytest.mark.parametrize(
    "make",
    [
        lambda: mw.Reserve(0.1),
        lambda: mw.SwapRegret(5, seed=2),
        mw.NaiveBestResponse,
        lambda: mw.DeterministicSwap(9),
    ],
    ids=["reserve", "swap", "naive", "deterministic"],
)
def test_disjoint_groups_are_forecasters_of_their_own(make: Any, mode: Any, classes: int | None) -> None:
    draw = np.random.default_rng(0)
    options: dict[str, Any] = dict(mode=mode, max_stake=1.0, classes=classes)
    f = mw.InsuredForecaster(None, mw.Grouped(make()), **options)
    alone = {name: mw.InsuredForecaster(None, make(), **options) for name in NAMES}
    waiting: list[Any] = []
    for _ in range(300):
        name = NAMES[draw.integers(3)]
        mu = draw.dirichlet(np.ones(3)) if classes else float(draw.uniform())
        q, own = f.forecast(mu=mu, groups=name), alone[name].forecast(mu=mu)
        assert np.array_equal(q.c, own.c)
        stake = draw.uniform(-1, 1, 3) if classes else float(draw.uniform(-1, 1))
        f.stake(q, stake)
        alone[name].stake(own, stake)
        waiting.append((q, own, name, int(draw.integers(classes or 2))))
        while len(waiting) > 4:
            q, own, of, y = waiting.pop(draw.integers(len(waiting)))
            assert f.settle(q, y) == alone[of].settle(own, y)
    said = f.statement()
    for name, single in alone.items():
        one, other = said.groups[name], single.statement()
        assert (one.total_loss, one.rounds, one.open, one.bets) == (
            other.total_loss,
            other.rounds,
            other.open,
            other.bets,
        )
        assert one.certificate == other.certificate
        assert one.mean_loss_interval == other.mean_loss_interval
    assert said.total_loss == pytest.approx(sum(s.total_loss for s in said.groups.values()))
    bounds = [s.certificate.bound for s in said.groups.values()]
    if all(bounds):
        assert said.certificate.bound == pytest.approx(sum(b for b in bounds if b))
        assert "for each of 3 groups so far" in said.certificate.theorem


def test_named_beforehand_their_certificate_is_for_ever_and_others_are_refused() -> None:
    f = mw.InsuredForecaster(None, mw.Grouped(mw.Reserve(0.01), ["AA", "UA"]), mode="sound", max_stake=1)
    assert str(f.statement().certificate) == "100 (Theorem B for each of 2 groups)"
    with pytest.raises(ValueError, match="groups must be one of: AA, UA; got 'DL'"):
        f.forecast(mu=0.5, groups="DL")
    f.settle(f.forecast(mu=0.5, groups="AA"), 1, stake=1.0)
    assert f.statement().certificate.bound == 100
    assert "AA" in str(f.statement())


# --- a restart, bad input ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [
        lambda: mw.Grouped(mw.Reserve(0.1)),
        lambda: mw.Grouped(mw.Reserve(0.1, over=mw.SwapRegret(5, seed=3)), NAMES),
        lambda: mw.Grouped(mw.StandardRegret()),
        lambda: mw.OverlappingReserve(0.1),
        lambda: mw.OverlappingReserve(0.1, over=mw.DeterministicSwap(9)),
    ],
    ids=["grouped", "composed", "standard", "overlapping", "overlapping-over"],
)
def test_groups_survive_a_restart(make: Any, tmp_path: Path) -> None:
    f = mw.InsuredForecaster(None, make(), mode="sound", max_stake=1)
    for t in range(60):
        f.settle(f.forecast(mu=0.4, groups=NAMES[t % 3]), t % 2, stake=0.8)
    late = [f.forecast(mu=0.5, groups=name) for name in (*NAMES, "a")]
    for q in late:
        f.stake(q, 0.5)
    f.save(tmp_path / "book.json")
    again = mw.InsuredForecaster.load(tmp_path / "book.json")
    assert again.statement() == f.statement()
    assert again.corrections == f.corrections
    for q in late:
        assert again.settle(q, 1) == f.settle(q, 1)
    assert again.forecast(mu=0.3, groups="a") == f.forecast(mu=0.3, groups="a")
    assert again.statement() == f.statement()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: mw.Grouped(mw.Grouped(mw.Reserve())), "correction must be one of makewhole's"),  # type: ignore[arg-type]  # that is the point
        (lambda: mw.Grouped(mw.OverlappingReserve()), "makewhole's corrections without groups"),  # type: ignore[arg-type]  # idem
        (
            lambda: mw.OverlappingReserve(0.1, 0.2),  # type: ignore[arg-type]  # that is the point
            "over must be another of makewhole's corrections",
        ),
        (
            lambda: mw.InsuredForecaster(None, mw.OverlappingReserve(), max_stake=1),
            "OverlappingReserve needs mode='sound'",
        ),
        (lambda: overlapping(0.1, c_range=(-0.1, 0.5)), "c_hat >= 0"),
        (lambda: overlapping(0.6), "at most 0.5 in sound mode"),
        (lambda: overlapping(0.1).forecast(mu=0.5, groups=[0.5]), "text or whole numbers; got 0.5"),
        (
            lambda: overlapping(0.1).forecast(mu=0.5, groups=object()),
            "groups must be a name or a list of names",
        ),
        (
            lambda: mw.InsuredForecaster(max_stake=1).forecast(mu=0.5, groups="a"),
            "groups need a grouped correction",
        ),
        (
            lambda: mw.InsuredForecaster(None, mw.Grouped(mw.Reserve()), max_stake=1).forecast(mu=0.5),
            r"groups must name exactly one group with Grouped.*; got \[\]",
        ),
        (lambda: mw.Grouped(mw.Reserve()).propose(), r"member\(groups\).propose"),
    ],
)
def test_bad_groups_are_named(call: Any, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        call()


def test_a_bad_group_changes_nothing() -> None:
    f = mw.InsuredForecaster(None, mw.Grouped(mw.Reserve(), ["a"]), mode="sound", max_stake=1)
    before = f.statement()
    for bad in ("b", ["a", "b"], None, 1.5):
        with pytest.raises((ValueError, TypeError)):
            f.forecast(mu=0.5, groups=bad)
    with pytest.raises(ValueError, match="mu must lie in"):
        f.forecast(mu=1.5, groups="a")
    assert f.statement() == before
    f.peek(mu=0.5, groups="a")
    assert f.statement() == before


# --- backtests --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["exact", "sound"])
@pytest.mark.parametrize(
    "make",
    [lambda: mw.Reserve(0.05), lambda: mw.SwapRegret(7, seed=1), lambda: mw.DeterministicSwap(9)],
    ids=["reserve", "swap", "deterministic"],
)
def test_grouped_backtests_are_the_forecasters_bit_for_bit(make: Any, mode: Any) -> None:
    log = log_of()
    result = replay(log, mw.Grouped(make()), group="carrier", mode=mode, max_stake=1.0, trace=True)
    f = mw.InsuredForecaster(None, mw.Grouped(make()), mode=mode, max_stake=1.0)
    check_same(result, f, log, lambda row: row.carrier)


@pytest.mark.parametrize("over", [None, mw.DeterministicSwap(9)], ids=["alone", "over"])
def test_overlapping_backtests_are_the_forecasters_bit_for_bit(over: Any) -> None:
    log, reserve = log_of(), mw.OverlappingReserve(0.05, over=over)
    result = replay(
        log, group=["carrier", "month"], correction=reserve, mode="sound", max_stake=1.0, trace=True
    )
    f = mw.InsuredForecaster(None, reserve, mode="sound", max_stake=1.0)
    # names are registered in another order: the books are compared by name below
    check_same(result, f, log, lambda row: [f"carrier={row.carrier}", f"month={row.month}"], state=False)


@pytest.mark.parametrize(
    ("make", "mode"),
    [
        (lambda: mw.Reserve(0.05), "exact"),
        (mw.StandardRegret, "sound"),
        (lambda: mw.SwapRegret(7, seed=1), "exact"),
        (lambda: mw.Reserve(0.1, over=mw.DeterministicSwap(9)), "sound"),
    ],
    ids=["reserve", "standard", "swap", "over"],
)
def test_a_group_among_many_is_replayed_as_it_would_be_alone(make: Any, mode: Any) -> None:
    """Also if its rows lie in several of the blocks that the loop takes at a time."""
    draw, rows = np.random.default_rng(3), 2 * CHUNK + 100
    log = pd.DataFrame({"mu": draw.uniform(size=rows), "y": draw.integers(0, 2, rows)})
    log["stake"] = draw.uniform(-1, 1, rows)
    log["g"] = np.where(draw.random(rows) < 0.3, 5, draw.integers(0, 40, rows))
    options: Any = dict(mode=mode, max_stake=1.0, trace=True)
    result = replay(log, mw.Grouped(make()), group="g", **options)
    learned: Any = result.correction
    assert result.trace is not None
    for group in (5, 17):
        alone = replay(log[log["g"] == group], make(), **options)
        assert alone.trace is not None
        for name in ("mu", "c", "lam", "payment"):
            assert result.trace[name][log["g"] == group].tolist() == alone.trace[name].tolist()
        assert learned.of_group(group) == alone.correction
        assert result.groups[group].rounds == alone.rounds
    assert result.total_loss == pytest.approx(float(np.sum(result.trace["payment"])), abs=1e-9)


def check_same(result: Any, f: mw.InsuredForecaster, log: Any, groups: Any, *, state: bool = True) -> None:
    paid: list[float] = []
    for row in log.itertuples(index=False):
        q = f.forecast(mu=row.mu, groups=groups(row))
        paid += f.settle(q, int(row.y), stake=row.stake)
    assert result.trace["payment"].tolist() == paid
    said = f.statement()
    assert result.total_loss == said.total_loss
    assert set(result.groups) == set(said.groups)
    for name, found in result.groups.items():
        assert found.total_loss == pytest.approx(said.groups[name].total_loss, abs=1e-9)
        assert (found.rounds, found.turnover) == (
            said.groups[name].rounds,
            pytest.approx(said.groups[name].turnover),
        )
    learned, own = result.correction.state(), f.corrections[0].state()
    if state:
        assert learned == own
    else:
        sums = [dict(zip(["", *s["names"]], s["sums"], strict=True)) for s in (learned, own)]
        assert sums[0] == sums[1]


def test_rows_without_a_group_are_counted_and_events_have_one(tmp_path: Path) -> None:
    log = log_of(50)
    log["carrier"] = log["carrier"].where(log.index != 7, None)
    result = mw.backtest(log, group="carrier", correction=mw.NoCorrection())
    assert (result.missing, result.rounds) == (1, 49)
    assert "the largest loss is" in str(result)
    log = log_of(6).assign(event=[1, 1, 2, 2, 3, 3], mu=0.5, y=1, carrier=list("aabbcd"))
    with pytest.raises(ValueError, match="group='carrier' must be the same in all rows of an id"):
        mw.backtest(log, id="event", group="carrier")
    good = mw.backtest(log[:4], id="event", group="carrier", correction=mw.NoCorrection())
    assert {name: g.rounds for name, g in good.groups.items()} == {"a": 1, "b": 1}


def test_groups_of_any_kind_of_column_work() -> None:
    log = log_of(60).assign(
        day=pd.date_range("2026-01-01", periods=60).normalize() - pd.to_timedelta(np.arange(60) % 3, "D"),
        late=[True, False] * 30,
        kind=pd.Categorical(["x", "y", "z"] * 20),
    )
    for column in ("day", "late", "kind", "month"):
        result = replay(log, mw.Grouped(mw.Reserve()), group=column, mode="sound", max_stake=1.0)
        assert sum(g.rounds for g in result.groups.values()) == 60


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(group="nowhere"), "group='nowhere' is not a column"),
        (dict(group=["carrier", "month"]), "group must be one column, or the correction"),
        (dict(correction=mw.Grouped(mw.Reserve())), "group must name a column"),
        (
            dict(group="carrier", correction=mw.OverlappingReserve()),
            "OverlappingReserve needs mode='sound'",
        ),
    ],
)
def test_bad_group_columns_are_named(options: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        mw.backtest(log_of(10), **options)


def test_the_old_spelling_of_overlapping_groups_works_and_names_the_new_one() -> None:
    with pytest.warns(DeprecationWarning, match=r"write OverlappingReserve\(rate\)"):
        old = mw.Reserve(0.2, overlapping=True)
    assert old == mw.OverlappingReserve(0.2)
    with (
        pytest.warns(DeprecationWarning, match="is deprecated"),
        pytest.raises(ValueError, match="start must be 0 with overlapping"),
    ):
        mw.Reserve(0.2, 0.1, overlapping=True)


def test_grouped_corrections_are_equal_where_all_they_were_given_and_have_learned_is() -> None:
    def made(target: float = 0.5, rate: float = 0.1, groups: Any = ("a", "b"), name: str = "a") -> mw.Grouped:
        one = mw.Grouped(mw.StandardRegret(rate), groups)
        member = one.member((name,))
        member.observe(member.propose(), target, 1.0)
        return one

    assert made() == made()
    assert made() != made(target=0.25)
    assert made() != made(rate=0.2)
    assert made() != made(groups=None)
    assert made() != made(name="b")
    assert made() != mw.StandardRegret(0.1)
    assert made() != "a"
