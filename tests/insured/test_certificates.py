"""Certificates: the theorems' constants written out, for a book, for groups, late, capped and guarded."""

import contextlib
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

import makewhole as mw

M = 8.0


def sound(correction: Any, **options: Any) -> mw.InsuredForecaster:
    return mw.InsuredForecaster(None, correction, mode="sound", max_stake=M, **options)


@pytest.mark.parametrize("classes", [None, 3])
def test_before_anything_is_late_the_bound_is_the_theorems(classes: int | None) -> None:
    lines = classes or 1
    low, high, rate, start = -0.125, 0.25, 0.1, 0.05
    options: dict[str, Any] = {"c_range": (low, high), "classes": classes}
    b = sound(mw.Reserve(rate, start=start), **options).certificate()
    assert b.bound == pytest.approx(lines * (0.5 - low - start) * M / rate)
    assert b.theorem == "Theorem B"
    a = mw.InsuredForecaster(None, mw.Reserve(rate, start=start), max_stake=M, **options).certificate()
    assert a.bound == pytest.approx(lines * (1 - low - start) * M / rate)
    assert a.theorem == "Theorem A"
    for one in (a, b):
        assert (one.rate, one.max_stake, one.c_range, one.exposure) == (rate, M, (low, high), 0.0)
    over = sound(mw.Reserve(rate, over=mw.StandardRegret()), **options).certificate()
    assert over.bound == pytest.approx(lines * 0.5 * M / rate)
    assert over.c_range == (0.0, 0.5)  # what the correction below makes of the base's


def test_in_exact_mode_late_outcomes_add_what_the_correction_can_have_moved_by() -> None:
    """M·D·R/(1 − ηD), with D forecasts open at once, until ηD is 1; what was open once counts for ever."""
    rate, low, high = 0.25, -0.125, 0.25
    for classes in (None, 2):
        f = mw.InsuredForecaster(None, mw.Reserve(rate), max_stake=M, c_range=(low, high), classes=classes)
        lines, base = classes or 1, (classes or 1) * (1 - low) * M / rate
        mu: Any = 0.5 if classes is None else [0.5, 0.5]
        assert f.certificate().bound == pytest.approx(base)
        opened = []
        for count in range(1, 5):
            opened.append(f.forecast(mu=mu))
            reach = 2 + high - low
            late = (
                0.0 if count == 1 else lines * M * count * reach / (1 - rate * count) if count < 4 else None
            )
            said = f.certificate()
            if late is None:
                assert said.bound is None
                assert said.theorem == "too many forecasts were open at once: rate × 4 >= 1"
            else:
                assert said.bound == pytest.approx(base + late)
                assert said.exposure == pytest.approx(late)
        for q in opened:
            f.settle(q, 1)
        assert f.certificate().bound is None


def test_groups_add_their_bounds_and_one_without_a_bound_leaves_none() -> None:
    f = mw.InsuredForecaster(None, mw.Grouped(mw.Reserve(0.5)), max_stake=M, c_range=(0.0, 0.0))
    assert f.certificate().bound == 0.0
    assert f.certificate().theorem == "no group has begun; each adds its own bound"
    for name in "ab":
        f.settle(f.forecast(mu=0.5, groups=name), 1)
    assert f.certificate().bound == pytest.approx(2 * M / 0.5)
    assert f.certificate().theorem == "Theorem A for each of 2 groups so far"
    f.forecast(mu=0.5, groups="a")
    f.forecast(mu=0.5, groups="a")  # ηD = 1
    f.forecast(mu=0.5, groups="b")
    assert f.certificate("a").bound is None
    assert f.certificate("b").bound == pytest.approx(M / 0.5)
    assert f.certificate().bound is None
    assert f.certificate().theorem == "too many forecasts of 1 groups were open at once"
    f.forecast(mu=0.5, groups="b")
    assert f.certificate().theorem == "too many forecasts of 2 groups were open at once"
    done = sound(mw.Grouped(mw.Reserve(0.1, start=0.5)))  # c is 1/2 from the start: there is nothing to lose
    done.forecast(mu=0.5, groups="a")
    assert done.certificate().bound == 0.0
    capped = mw.InsuredForecaster(
        None, mw.Grouped(mw.Reserve(0.5), groups=["a", "b"]), max_stake=M, c_range=(0.0, 0.0), max_exposure=3
    )
    for _ in range(4):
        capped.forecast(mu=0.5, groups="a")
    assert capped.certificate().bound == pytest.approx(2 * (M / 0.5 + 3))
    assert capped.certificate().exposure == 6.0
    assert capped.certificate().theorem == "Theorem A for each of 2 groups"


def test_the_guard_is_the_certificate_where_it_is_the_smaller() -> None:
    for capital, bound, theorem in [(39.0, 39.0, "the solvency guard"), (40.0, 40.0, "Theorem B")]:
        said = sound(mw.Reserve(0.1), capital=capital).certificate()
        assert said.bound == pytest.approx(bound)
        assert said.theorem == theorem
    assert sound(mw.Reserve(0.1), capital=500.0).certificate().bound == pytest.approx(40.0)
    without = sound(mw.NoCorrection(), capital=17.0)
    assert str(without.certificate()) == "17 (the solvency guard)"
    grouped = sound(mw.Grouped(mw.Reserve(0.1)), capital=17.0)
    grouped.forecast(mu=0.5, groups="a")
    assert grouped.certificate().bound == 17.0
    assert grouped.certificate("a").bound == pytest.approx(40.0)  # the guard is everyone's


@pytest.mark.parametrize(
    ("settings", "lost"),
    [
        ({"max_stake": 1_000}, "50000"),
        ({"max_stake": 100, "one_sided": True}, "10000"),
        ({"max_stake": 100, "mode": "exact"}, "10000"),
        ({"max_stake": 100, "classes": 3, "mode": "sound"}, "15000"),
    ],
    ids=["another cap", "one-sided", "exact", "classes"],
)
def test_a_group_is_not_certified_more_than_it_was_made_for(settings: dict[str, Any], lost: str) -> None:
    made = mw.Reserve.for_capital(5_000, max_stake=100)
    with pytest.raises(ValueError, match=f"each group could lose {lost} .* made for 5000: use Reserve"):
        mw.InsuredForecaster(None, mw.Grouped(made), **settings)
    f = mw.InsuredForecaster(None, mw.Grouped(made), max_stake=100)
    f.forecast(mu=0.5, groups="AA")
    assert f.statement().groups["AA"].certificate.bound == 5_000


STEPS = ["open", "open", "stake", "stake", "settle"]
MADE_FOR_20: dict[str, Any] = {
    "reserve": lambda: mw.Reserve.for_capital(20.0, max_stake=M),
    "barrier": lambda: mw.Barrier(20.0, spread=0.02),
    "guard": lambda: mw.Barrier(20.0, "guard"),
    "no gains": lambda: mw.Barrier(20.0, keep_gains=False),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MADE_FOR_20)
@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from(["open", "open", "stake", "stake", "settle"]), st.floats(0, 1), st.integers(0, 99)
        ),
        max_size=80,
    ),
    classes=st.sampled_from([None, 3]),
)
def test_a_group_never_loses_more_than_its_capital_however_late(
    name: str, steps: list[Any], classes: int | None
) -> None:
    """Whoever bets knows that everything happens, and picks from many open forecasts."""
    if name == "reserve" and classes:
        reject()  # it is made for one line
    f = mw.InsuredForecaster(None, mw.Grouped(MADE_FOR_20[name]()), max_stake=M, classes=classes)
    open_: list[Any] = []
    stake: Any = M if classes is None else [M, 0.0, 0.0]
    for what, mu, place in steps:
        if what == "open" or not open_:
            said: Any = mu if classes is None else [mu, 1.0 - mu, 0.0]
            open_.append(f.forecast(mu=said, groups="AB"[place % 2]))
        elif what == "settle":
            f.settle(open_.pop(place % len(open_)), 1 if classes is None else 0)
        else:
            with contextlib.suppress(mw.StakeRefused):
                f.stake(open_[place % len(open_)], stake)
        told = f.statement()
        for group in told.groups.values():
            assert group.certificate.bound == pytest.approx(20.0, rel=1e-12)
            assert group.total_loss <= 20.0 + 1e-9
        assert told.certificate.bound == pytest.approx(20.0 * len(told.groups), rel=1e-12)


def test_a_thousand_open_forecasts_of_a_group_do_not_widen_its_certificate() -> None:
    f = mw.InsuredForecaster(None, mw.Grouped(mw.Barrier(5_000)), max_stake=100)
    waiting = [f.forecast(mu=0.5, groups="AA") for _ in range(1_000)]
    for q in waiting:
        with contextlib.suppress(mw.StakeRefused):
            f.stake(q, 100.0)
    assert f.forecast(mu=0.5, groups="AA").c == pytest.approx(0.5, abs=1e-9)  # nothing is left
    assert f.forecast(mu=0.5, groups="UA").c < 0.01
    for q in waiting:
        f.settle(q, 1)
    told = f.statement().groups["AA"]
    assert told.certificate.bound == 5_000
    assert 4_900 < told.total_loss <= 5_000


# --- a certificate is never below what was lost -------------------------------------------------------------


def test_a_withdrawal_leaves_no_certificate_below_what_was_lost() -> None:
    """The correction's capital is then less than it has lost: what it has lost is the most it can lose."""
    f = mw.InsuredForecaster(None, mw.Barrier(3.0), max_stake=1.0, capital=10.0, lines=None, stop=False)
    while f.statement().total_loss < 2.99:
        f.settle(f.forecast(mu=0.5), 1, stake=1.0)
    assert f.certificate().bound == 3.0
    f.change_capital(8.0)
    told = f.statement()
    assert told.certificate.bound is not None
    assert told.certificate.bound == pytest.approx(told.total_loss)
    assert told.certificate.bound >= told.total_loss
    while f.statement().total_loss > 0.5:  # customers lose some of it again
        f.settle(f.forecast(mu=0.5), 0, stake=1.0)
    for _ in range(200):
        f.settle(f.forecast(mu=0.5), 1, stake=1.0)
    assert 0.9 < f.statement().total_loss <= 1.0  # which is all that the correction has now


def test_a_withdrawal_counts_bets_that_were_open_at_the_old_price() -> None:
    f = mw.InsuredForecaster(None, mw.Barrier(30.0), max_stake=1.0, capital=40.0, lines=None, stop=False)
    f.settle(f.forecast(mu=0.1), 1, stake=1.0)
    old = f.forecast(mu=0.5)  # cheap: most of 30 is left
    f.change_capital(11.0)
    bound, lost = f.certificate().bound, f.statement().total_loss
    assert bound is not None
    assert lost < 1.0 < bound < 11.0
    f.settle(old, 1, stake=1.0)
    assert 1.0 < f.statement().total_loss <= bound
    for _ in range(50):
        f.settle(f.forecast(mu=0.5), 1, stake=1.0)
    assert f.statement().total_loss <= bound


def _changed(f: mw.InsuredForecaster, draw: Any) -> mw.InsuredForecaster:
    """Change a book in one of the ways there are; a refusal leaves it as it was."""
    choice = draw(st.integers(0, 9))
    opened = f.open_forecasts
    with contextlib.suppress(mw.Refusal, ValueError):
        if choice == 0 and f.capital is not None:
            f.change_capital(f.capital * draw(st.floats(0.05, 2.0)))
        elif choice == 1 and opened:
            f.void(draw(st.sampled_from(opened)))
        elif choice == 2:
            f = mw.InsuredForecaster.from_state(f.to_state())
        elif choice <= 4:
            _published(f, draw)
        elif opened:
            q = draw(st.sampled_from(opened))
            y = draw(st.integers(0, (f.classes or 2) - 1))
            _staked(f, q, y, draw)
            f.settle(q, y)
        else:
            q = _published(f, draw)
            y = draw(st.integers(0, (f.classes or 2) - 1))
            _staked(f, q, y, draw)
            f.settle(q, y)
    return f


def _published(f: mw.InsuredForecaster, draw: Any) -> mw.Forecast:
    mu: Any = draw(st.sampled_from([0.0, 0.2, 0.5, 0.9]))
    if f.classes is not None:
        mu = [mu, 1 - mu, *[0.0] * (f.classes - 2)]
    groups = draw(st.sampled_from("ab")) if f.book.grouped else None
    return f.forecast(mu=mu, groups=groups)


def _staked(f: mw.InsuredForecaster, q: mw.Forecast, y: int, draw: Any) -> None:
    """The customer mostly knows the outcome."""
    size = draw(st.sampled_from([0.0, 0.3, 1.0])) * f.max_stake
    with contextlib.suppress(mw.StakeRefused):
        if f.classes is not None:
            f.stake(q, [size if k == y else 0.0 for k in range(f.classes)])
        else:
            f.stake(q, size if y or f.one_sided else -size, by=draw(st.sampled_from([None, "ann"])))


BOOKS: dict[str, Callable[[], mw.InsuredForecaster]] = {
    "default": lambda: mw.InsuredForecaster(max_stake=1.0, capital=10.0),
    "less": lambda: mw.InsuredForecaster(None, mw.Barrier(3.0), max_stake=1.0, capital=10.0),
    "forgetful": lambda: mw.InsuredForecaster(
        None, mw.Barrier(3.0, keep_gains=False), max_stake=1.0, capital=5.0, lines=None
    ),
    "one-sided": lambda: mw.InsuredForecaster(max_stake=1.0, capital=4.0, one_sided=True),
    "classes": lambda: mw.InsuredForecaster(max_stake=1.0, capital=6.0, classes=3),
    "less, classes": lambda: mw.InsuredForecaster(
        None, mw.Barrier(3.0), max_stake=1.0, capital=6.0, classes=2
    ),
    "reserve": lambda: sound(mw.Reserve(0.5)),
    "guarded reserve": lambda: sound(mw.Reserve(0.1), capital=20.0),
    "capped barrier": lambda: mw.InsuredForecaster(
        None, mw.Barrier(3.0), max_stake=1.0, capital=10.0, max_exposure=0.5
    ),
    "capped reserve": lambda: sound(mw.Reserve(0.2), max_exposure=M),
    "exact reserve": lambda: mw.InsuredForecaster(None, mw.Reserve(0.05), max_stake=1.0),
    "exact classes": lambda: mw.InsuredForecaster(None, mw.Reserve(0.05), max_stake=1.0, classes=3),
    "groups": lambda: sound(mw.Grouped(mw.Barrier(9.0))),
    "overlapping": lambda: sound(mw.OverlappingReserve(0.2)),
    "thaw": lambda: sound(mw.Reserve(0.2), thaw=mw.Thaw(budget=3.0)),
    "swap": lambda: mw.InsuredForecaster(None, mw.DeterministicSwap(cells=20), max_stake=1.0),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", BOOKS)
@given(data=st.data())
def test_a_certificate_is_never_below_the_total_loss(kind: str, data: Any) -> None:
    f = BOOKS[kind]()
    for _ in range(data.draw(st.integers(1, 25))):
        f = _changed(f, data.draw)
        told = f.statement()
        scopes = [told, *told.groups.values()]
        assert all(s.certificate.bound is None or s.total_loss <= s.certificate.bound for s in scopes)
