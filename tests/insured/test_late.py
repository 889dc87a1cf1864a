"""Outcomes, and stakes, that come late: nobody breaks a certificate by waiting."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import makewhole as mw
from makewhole.corrections import Proposal
from samples import replay, sealed

CORRECTIONS: Any = {
    "reserve": lambda: mw.Reserve(0.1),
    "over": lambda: mw.Reserve(0.1, over=mw.DeterministicSwap(5)),
    "grouped": lambda: mw.Grouped(mw.Reserve(0.1)),
    "overlapping": lambda: mw.OverlappingReserve(0.1),
}


def within(f: mw.InsuredForecaster) -> None:
    """The total, and every group's, is under what the statement says can be lost at most."""
    said = f.statement()
    for one in (said, *said.groups.values()):
        if one.certificate.bound is not None:
            assert one.total_loss <= one.certificate.bound + 1e-9, one.certificate


def forecaster(kind: str, **options: Any) -> mw.InsuredForecaster:
    return mw.InsuredForecaster(None, CORRECTIONS[kind](), max_stake=1, **{"mode": "sound"} | options)


def ask(f: mw.InsuredForecaster, mu: Any = 0.5) -> mw.Forecast:
    grouped = getattr(f.corrections[0], "grouped", False)
    mu = [mu, 1 - mu] if f.classes else mu
    return f.forecast(mu=mu, groups="a") if grouped else f.forecast(mu=mu)


def take(f: mw.InsuredForecaster, q: mw.Forecast, y: int, size: float = 1.0) -> None:
    """Stake on what happens, as far as it is taken, and settle."""
    sure = np.eye(2)[y] * 2 - 1 if f.classes else (1.0 if y else -1.0)
    stake: Any = np.abs(sure) * size * (sure > 0) if f.classes else sure * size
    if f.one_sided:
        stake = abs(stake)
    try:
        f.stake(q, stake)
    except mw.StakeRefused:
        f.void(q)
    else:
        f.settle(q, y)
    within(f)


@pytest.mark.parametrize("cap", [None, 1.0], ids=["uncapped", "capped"])
@pytest.mark.parametrize("classes", [None, 2])
@pytest.mark.parametrize("kind", CORRECTIONS)
def test_quotes_that_lie_around_and_are_staked_when_the_price_has_moved(
    kind: str, classes: int | None, cap: float | None
) -> None:
    f = forecaster(kind, classes=classes, max_exposure=cap)
    stale = [ask(f) for _ in range(100)]
    for q in stale:
        take(f, q, 1)
    said = f.statement()
    lines = classes or 1
    if cap is not None:
        assert said.certificate.bound == pytest.approx(lines * (5 + cap))
    else:
        assert said.certificate.bound == pytest.approx(lines * (5 + 100 * 0.5))
        assert said.total_loss == pytest.approx(50.0)


@pytest.mark.parametrize("cap", [None, 3.0], ids=["uncapped", "capped"])
@pytest.mark.parametrize("one_sided", [False, True])
def test_old_bets_made_at_the_bottom_are_settled_at_the_top(one_sided: bool, cap: float | None) -> None:
    c_range = (0.9, 0.9) if one_sided else (0.0, 0.0)
    f = mw.InsuredForecaster(
        None, mw.Reserve(0.01), max_stake=1, c_range=c_range, one_sided=one_sided, max_exposure=cap
    )
    for _ in range(1500):
        f.settle(f.forecast(mu=1.0), 0, stake=1.0)
    old = []
    for _ in range(10):
        q = f.forecast(mu=0.0)
        try:
            f.stake(q, 1.0)
        except mw.StakeRefused:
            f.void(q)
        else:
            old.append(q)
    for _ in range(1500):
        take(f, f.forecast(mu=0.0), 1)
    for q in old:
        f.settle(q, 1)
        within(f)
    if cap is None and not one_sided:  # the bound that the constants divided by 1 − ηD would have given
        assert f.statement().total_loss > 100 / (1 - 0.01 * 10)


@pytest.mark.slow
@pytest.mark.parametrize("cap", [None, 1.0], ids=["uncapped", "capped"])
def test_classes_that_hedge_each_other_are_settled_one_against_the_other(cap: float | None) -> None:
    f = mw.InsuredForecaster(None, mw.Reserve(0.01), mode="sound", max_stake=1, classes=2, max_exposure=cap)
    old = [f.forecast(mu=[0.5, 0.5]) for _ in range(100)]
    for q in old:  # together they can lose nothing, but each class on its own can
        try:
            f.stake(q, [1.0, 1.0])
        except mw.StakeRefused:
            assert cap is not None
    for k in (0, 1):
        drain(f, k)
    for q in old:
        f.settle(q, 0)
        within(f)
    drain(f, 1)


def drain(f: mw.InsuredForecaster, k: int) -> None:
    for _ in range(1500):
        q = f.forecast(mu=[0.5, 0.5])
        try:
            f.settle(q, k, stake=[float(k == 0), float(k == 1)])
        except mw.StakeRefused:
            f.void(q)
    within(f)


@pytest.mark.slow
@pytest.mark.parametrize("sound", [False, True])
@pytest.mark.parametrize("grouped", [False, True])
def test_a_correction_that_has_learned_elsewhere_begins_where_it_is(grouped: bool, sound: bool) -> None:
    log = pd.DataFrame(dict(mu=1.0, y=0, stake=1.0, g="a", w=0.5), index=range(3000))
    options: dict[str, Any] = dict(mode="sound" if sound else "exact", max_stake=1)
    reserve: Any = mw.Grouped(mw.Reserve(0.01)) if grouped else mw.Reserve(0.01)
    result = replay(log, reserve, c_hat="w", group="g" if grouped else None, **options)
    f = mw.InsuredForecaster(None, result.correction, c_range=(0.0, 0.5), **options)
    for _ in range(3000):
        f.settle(f.forecast(mu=0.0, groups="a" if grouped else None), 1, stake=1.0)
        within(f)
    assert f.statement().total_loss > 90
    again = replay(
        log.assign(mu=0.0, y=1, w=0.0),
        correction=result.correction,
        group="g" if grouped else None,
        **options,
    )
    assert again.certificate is not None
    assert again.total_loss <= (again.certificate.bound or np.inf) + 1e-9


steps = st.lists(
    st.tuples(st.sampled_from("qqsstvf"), st.floats(0, 1), st.integers(0, 20), st.integers(0, 1)),
    max_size=120,
)


@settings(max_examples=60)
@given(
    moves=steps,
    kind=st.sampled_from(list(CORRECTIONS)),
    cap=st.sampled_from([None, 0.7, 3.0]),
    classes=st.sampled_from([None, 2]),
    restart=st.booleans(),
)
def test_no_order_of_quotes_stakes_voids_and_settlements_breaks_a_certificate(
    moves: list[Any], kind: str, cap: float | None, classes: int | None, restart: bool, tmp_path_factory: Any
) -> None:
    f = forecaster(kind, max_exposure=cap, classes=classes)
    waiting: list[mw.Forecast] = []
    for move, number, at, y in moves:
        if move == "q" or not waiting:
            waiting.append(ask(f, number))
            continue
        q = waiting[at % len(waiting)]
        if move == "s":
            try:
                f.stake(q, [number, -number] if classes else (number if y else -number) / 3)
            except mw.StakeRefused:
                continue
        elif move == "v":
            f.void(waiting.pop(at % len(waiting)))
        elif move == "t":
            take(f, waiting.pop(at % len(waiting)), y, 0.3)
        else:
            f.settle(waiting.pop(at % len(waiting)), y)
        within(f)
    if restart:
        path: Path = tmp_path_factory.mktemp("late") / "book.json"
        f.save(path)
        f = mw.InsuredForecaster.load(path)
        within(f)
    for q in waiting:
        take(f, q, 1, 0.1)


@pytest.mark.slow
@pytest.mark.parametrize("classes", [None, 2])
@pytest.mark.parametrize("kind", CORRECTIONS)
def test_fresh_forecasts_are_never_refused_for_the_certificates_sake(kind: str, classes: int | None) -> None:
    f = forecaster(kind, max_exposure=1.0, classes=classes)
    hedged: list[mw.Forecast] = []
    for t in range(2000):  # a clairvoyant takes all there is, now of this class, now of that
        if classes and t % 100 == 0:
            hedged.append(ask(f))
            f.stake(hedged[-1], [0.4, 0.4])
            if len(hedged) > 2:
                f.settle(hedged.pop(0), 0)
        y = t // 500 % 2 if classes else 1
        stake: Any = [float(y == 0), float(y == 1)] if classes else 1.0
        q = ask(f)
        try:
            f.settle(q, y, stake=stake)
        except mw.StakeRefused as refused:  # the cap on exposure may be met, the certificate not
            assert "max_exposure is" in str(refused)  # noqa: PT017 - it is no error that is expected
            f.void(q)
        within(f)
    assert f.statement().total_loss > 0.5


def test_hedges_that_cost_nothing_cannot_shut_the_book() -> None:
    f = forecaster("reserve", classes=2, c_range=(0.0, 0.0), max_exposure=10.0)
    old = [ask(f) for _ in range(10)]
    for q in old:
        f.stake(q, [1.0, 1.0])
    for k in (0, 1):
        for _ in range(300):
            q = ask(f)
            try:
                f.settle(q, k, stake=[float(k == 0), float(k == 1)])
            except mw.StakeRefused:
                f.void(q)
    for q in old:
        f.settle(q, 0)
    for _ in range(100):
        f.settle(ask(f), 1, stake=[0.0, 1.0])  # none is refused
        within(f)


@pytest.mark.parametrize("start", [-3.0, -1.5, 0.0, 3.0])
@pytest.mark.parametrize("quotes", [9, 30])
def test_a_reserve_that_starts_out_of_its_range_is_bounded_all_the_same(start: float, quotes: int) -> None:
    f = mw.InsuredForecaster(None, mw.Reserve(0.01, start=start), max_stake=1, c_range=(0.0, 0.0))
    old = [f.forecast(mu=0.0) for _ in range(quotes)]
    for _ in range(3000):
        f.settle(f.forecast(mu=0.0), 1, stake=1.0)
    for q in old:
        f.settle(q, 1, stake=1.0)
        within(f)


def test_a_subclass_with_its_own_ways_has_no_certificate() -> None:
    class Bad(mw.Reserve):
        def propose(self) -> Proposal:
            return Proposal(-1.0)

    f = mw.InsuredForecaster(None, Bad(0.1), mode="sound", max_stake=1)
    assert str(f.statement().certificate) == "no bound: no bound is known for this correction"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(c_range=(-1e15, 0.0)), r"c_range must lie in \[-100, 100\]"),
        (dict(max_stake=5e-324), r"max_stake must lie in \[1e-100, 1e\+60\]"),
        (dict(max_stake=1e99), r"max_stake must lie in \[1e-100, 1e\+60\]; got 1e\+99"),
        (dict(max_stake=1e308), r"max_stake must lie in"),
        (dict(max_stake=1e15, capital=0.3), "a millionth of max_stake"),
        (dict(capital=True), r"capital must be one number; got True"),
        (dict(max_stake=True), r"max_stake must be one number above 0; got True"),
    ],
)
def test_numbers_that_rounding_would_eat_are_refused(options: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        mw.InsuredForecaster(None, mw.Reserve(0.1), **{"mode": "sound", "max_stake": 1} | options)
    with pytest.raises(ValueError, match=r"start must lie in \[-10000, 10000\]"):
        mw.Reserve(start=1e15)


@pytest.mark.parametrize("mu", [0.0, 0.1, 0.37])
def test_the_guard_is_never_passed_by_a_hair(mu: float) -> None:
    f = mw.InsuredForecaster(
        None, mw.NoCorrection(), mode="sound", max_stake=1, capital=0.3, max_exposure=50, stop=False
    )
    for _ in range(50):
        f.settle(f.forecast(mu=mu), 1, stake=1.0)
        assert f.statement().total_loss <= 0.3
    reserve = mw.InsuredForecaster(
        None, mw.Reserve(0.5), mode="sound", max_stake=1, capital=0.3, max_exposure=50, stop=False
    )
    reserve.stake(reserve.forecast(mu=mu), 1.0)


def test_what_a_refusal_says_is_still_taken_is_taken() -> None:
    f = mw.InsuredForecaster(None, mw.Reserve(0.1, start=-1.0), max_stake=10, max_exposure=1.0)
    q = f.forecast(mu=0.0)
    with pytest.raises(mw.StakeRefused) as refused:
        f.stake(q, 10.0)
    assert 0 < refused.value.limit < 1
    f.stake(q, refused.value.limit * (1 - 1e-9))


def test_a_floor_from_sound_mode_does_not_follow_into_exact_mode() -> None:
    sound = mw.InsuredForecaster(None, mw.Reserve(0.1), mode="sound", max_stake=1, c_range=(0.0, 0.0))
    f = mw.InsuredForecaster(None, sound.corrections[0], max_stake=1, c_range=(0.0, 0.0))
    for _ in range(1000):
        f.settle(f.forecast(mu=0.5), 0, stake=1.0)
    assert f.statement().total_loss > -10


def test_certificates_survive_a_restart_to_the_bit(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    made = mw.Grouped(mw.Reserve(0.1))
    for name in "abcdefg":
        one = made.member((name,))
        one.observe(one.propose(), float(draw.uniform(-1, 1)), 0.7)
    f = mw.InsuredForecaster(None, made, mode="sound", max_stake=1, max_exposure=2.0)
    for name in "abcdefg":
        q = f.forecast(mu=0.5, groups=name)
        if name in "cf":
            f.stake(q, 0.3)
        else:
            f.settle(q, 1, stake=0.5)
    f.save(tmp_path / "book.json")
    assert mw.InsuredForecaster.load(tmp_path / "book.json").statement() == f.statement()


def test_a_file_cannot_talk_open_forecasts_away(tmp_path: Path) -> None:
    f = forecaster("reserve")
    for _ in range(100):
        f.forecast(mu=0.5)
    f.save(tmp_path / "book.json")
    document = json.loads((tmp_path / "book.json").read_text())
    document["content"]["book"]["everyone"].update(late_open=0, late_potential=[0.0])
    (tmp_path / "book.json").write_text(json.dumps(sealed(document)))
    again = mw.InsuredForecaster.load(tmp_path / "book.json")
    assert again.statement().certificate.bound == f.statement().certificate.bound


def test_a_backtest_certifies_all_the_groups_there_will_be() -> None:
    log = pd.DataFrame({"mu": [0.5], "y": [1], "stake": [1.0], "g": ["a"]})
    grouped = mw.Grouped(mw.Reserve(0.1), groups=["a", "b", "c"])
    result = replay(log, group="g", correction=grouped, mode="sound", max_stake=1)
    f = mw.InsuredForecaster(None, grouped, mode="sound", max_stake=1)
    assert result.certificate is not None
    assert result.certificate.bound == f.statement().certificate.bound == pytest.approx(15.0)


@pytest.mark.slow
def test_a_clairvoyant_cannot_live_on_rounding() -> None:
    """If a step were lost in rounding, λ would stand still just below the top, and pay a little for ever."""
    for rate, start, c_range in ((1e-5, 100 - 3.5e-10, (-99.5, -99.5)), (1e-4, 0.5 - 1.3e-13, (0.0, 0.5))):
        f = mw.InsuredForecaster(
            None, mw.Reserve(rate, start=start), mode="sound", max_stake=1, c_range=c_range
        )
        for _ in range(20_000):
            f.settle(f.forecast(mu=0.0), 1, stake=1.0)
        rounding = 32 * max(1 - c_range[0], 1 + c_range[1], start) * 2**-53 / rate  # docs/theory.md
        assert f.statement().total_loss <= (f.statement().certificate.bound or 0) + rounding


def test_what_was_learned_far_out_is_refused_and_what_is_saved_can_be_loaded(tmp_path: Path) -> None:
    f = mw.InsuredForecaster(None, mw.Reserve(0.5), mode="sound", max_stake=1)
    for q in [f.forecast(mu=0.5) for _ in range(500)]:
        f.settle(q, 1, stake=1.0)
    g = mw.InsuredForecaster(None, f.corrections[0], mode="sound", max_stake=1)
    g.save(tmp_path / "book.json")
    assert mw.InsuredForecaster.load(tmp_path / "book.json").statement() == g.statement()
    wild = mw.InsuredForecaster(None, mw.Reserve(0.99), max_stake=1, c_range=(0.0, 0.0))
    for _ in range(10):
        for q in [wild.forecast(mu=0.0) for _ in range(50)]:
            wild.settle(q, 1, stake=1.0)
    with pytest.raises(ValueError, match="the correction's λ must lie in"):
        mw.InsuredForecaster(None, wild.corrections[0], max_stake=1, c_range=(0.0, 0.0))
