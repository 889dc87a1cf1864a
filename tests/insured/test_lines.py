"""Lines: nobody takes more than her line, whatever she and the others do; prices of one's own."""

import contextlib
import copy
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import makewhole as mw
from makewhole.corrections import Terms
from makewhole.insured.lines import LineBook
from makewhole.insured.records import Stake, worst_loss
from samples import lessons, state, trial

NAMES = [None, "one", "two", ("club", "three"), ("club", "four")]
LEVELS = ["one", "two", "three", "four", "club"]


def book(kind: str, **other: Any) -> mw.InsuredForecaster:
    """A book of this kind, with lines that differ."""
    own: dict[str, Any] = {"each": 1.5, "of": {"club": 2.0}, "share": 1.0}
    given: dict[str, Any] = {"capital": 6.0, "lines": mw.Lines(**own), "max_stake": 1.0, "stop": False}
    if kind == "one-sided":
        given["one_sided"] = True
    elif kind == "classes":
        given["classes"] = 3
    elif kind == "swap":
        given["correction"] = mw.DeterministicSwap(20)
    elif kind == "window":
        given["lines"] = mw.Lines(**own, keep_gains=False)
    elif kind == "share":
        given |= {"lines": mw.Lines(**(own | {"share": 0.4, "thaw": 1.0})), "stop": True}
    return mw.InsuredForecaster(**(given | other))


def worst_outcome(f: mw.InsuredForecaster, q: mw.Forecast, draw: np.random.Generator) -> Any:
    """The outcome that costs the forecaster most now; or any, now and then."""
    outcomes = list(range(f.classes or 2))
    if draw.uniform() < 0.3:
        return int(draw.choice(outcomes))
    return max(outcomes, key=lambda y: sum(trial(f, q, y)))


def can_take(f: mw.InsuredForecaster) -> dict[str, float]:
    """What the open bets of every name can take at most: the dearest outcome of each forecast, by trying."""
    most = dict.fromkeys(LEVELS, 0.0)
    for q in f.open_forecasts:
        paid = [dict(trial(f, q, y).by) for y in range(f.classes or 2)]
        for by in paid:
            by["club"] = by.get("three", 0.0) + by.get("four", 0.0)
        for name in LEVELS:
            most[name] += max(0.0, *(by.get(name, 0.0) for by in paid))
    return most


def check(f: mw.InsuredForecaster) -> None:
    """Nobody has taken more than her line, nor can with what is open."""
    most = can_take(f)
    for name in LEVELS:
        taken, at_risk, line, left = f.account(name)
        assert at_risk == pytest.approx(most[name], abs=1e-12)
        assert taken + at_risk <= line + 1e-12
        assert left >= -1e-12
    assert f.statement().total_loss + f.statement().open_exposure <= 6.0 + 1e-12


@settings(max_examples=120)
@given(
    st.sampled_from(["sound", "one-sided", "classes", "swap", "window", "share"]),
    st.integers(0, 2**32),
    st.lists(st.sampled_from(["open", "stake", "stake", "stake", "settle", "settle", "void"]), max_size=120),
)
def test_nobody_takes_more_than_her_line(kind: str, seed: int, moves: list[str]) -> None:
    """Late outcomes, stale prices, voids, several names and levels; each outcome is the worst that can be."""
    f, draw = book(kind), np.random.default_rng(seed)
    paid = dict.fromkeys(LEVELS, 0.0)
    for move in moves:
        still = f.open_forecasts
        if move == "open" or not still:
            mu: Any = float(draw.uniform()) if f.classes is None else draw.dirichlet(np.ones(3))
            f.forecast(mu=mu)
            continue
        q = still[int(draw.integers(len(still)))]
        by = NAMES[int(draw.integers(len(NAMES)))]
        if move == "stake":
            low = 0.0 if f.one_sided else -1.0
            size: Any = draw.choice([low, 1.0, draw.uniform(low, 1.0)], 3 if f.classes else None)
            before = state(f)
            try:
                f.stake(q, size if f.classes else float(size), by=by)
            except mw.StakeRefused:
                assert state(f) == before
        elif move == "settle":
            payments = f.settle(q, worst_outcome(f, q, draw))
            for name, amount in payments.by.items():
                paid[str(name)] += amount
                if name in ("three", "four"):
                    paid["club"] += amount
        else:
            f.void(q)
        check(f)
    for name in LEVELS:
        if kind == "window":
            assert f.account(name).taken >= paid[name] - 1e-9
        else:
            assert f.account(name).taken == pytest.approx(paid[name], abs=1e-9)


@pytest.mark.parametrize("kind", ["sound", "one-sided", "classes", "swap"])
def test_her_price_is_never_below_the_common_one_and_is_what_she_pays(kind: str) -> None:
    f, draw = book(kind, capital=600.0, lines=mw.Lines(each=3.0, share=1.0)), np.random.default_rng(3)
    dearer = 0
    for _ in range(300):
        mu: Any = float(draw.uniform(0.1, 0.9)) if f.classes is None else draw.dirichlet(np.ones(3))
        q, y = f.forecast(mu=mu), int(draw.integers(f.classes or 2))
        if f.one_sided:
            y = int(draw.uniform() < 0.9)
        own = f.quote(q, by="she")
        assert own.id == q.id
        if f.classes is None:  # she guesses right more often than not
            b: Any = float(draw.uniform(-0.3, 1)) * (1 if y else -1)
            b = abs(b) if f.one_sided else b
        else:
            b = np.where(np.arange(3) == y, 1.0, -1.0) * draw.uniform(-0.3, 1, 3)
        hit = y if f.classes is None else np.arange(3) == y
        assert np.all(np.asarray(own.mu) + own.c >= np.asarray(q.mu) + q.c - 1e-15)
        assert np.all(np.asarray(own.mu) - own.c <= np.asarray(q.mu) - q.c + 1e-15) or f.one_sided
        expected = float(np.sum(b * (hit - np.asarray(own.mu)) - np.abs(b) * own.c))
        try:
            f.stake(q, b, by="she")
        except mw.StakeRefused:
            f.void(q)
            continue
        payments = f.settle(q, y)
        assert payments[0] == pytest.approx(expected, abs=1e-12)
        dearer += bool(np.any(np.asarray(own.c) + own.mu > np.asarray(q.c) + q.mu))
    assert dearer > 20 or kind == "swap"  # which charges everybody


def test_her_price_is_that_of_what_is_left_of_her_line() -> None:
    f = mw.InsuredForecaster(max_stake=1, capital=1000, lines=mw.Lines(10.0, share=1.0, thaw=0.0), stop=False)
    for _ in range(30):
        q = f.forecast(mu=0.5)
        left = f.account("she").left
        assert left == pytest.approx(10.0 - f.account("she").taken)
        assert f.quote(q, by="she").c == pytest.approx(
            max(0.02, 0.5 * np.exp(-left), 0.5 - left / 2), rel=1e-9
        )
        f.settle(q, 1, stake=1.0, by="she")


def test_two_levels_the_dearer_one_asks() -> None:
    f = mw.InsuredForecaster(max_stake=1, capital=1000, lines=mw.Lines(50.0, {"club": 4.0}, 1.0), stop=False)
    for k in range(20):
        f.settle(f.forecast(mu=0.5), 1, stake=1.0, by=("club", f"member {k}"))
    q = f.forecast(mu=0.5)
    assert f.account("club").taken == pytest.approx(4.0, abs=0.5)
    assert f.account("member 3").taken < 0.5
    assert f.quote(q, by="member 3").c == q.c  # on her own
    assert f.quote(q, by=("club", "member 99")).c > 0.2


def test_what_others_took_is_not_charged_to_her() -> None:
    f = mw.InsuredForecaster(max_stake=1, capital=150, stop=False)
    for _ in range(400):
        f.settle(f.forecast(mu=0.5), 1, stake=0.1, by="clairvoyant")
    q = f.forecast(mu=0.5)
    assert f.quote(q, by="clairvoyant").c > 0.4
    assert f.quote(q, by="she").c == pytest.approx(0.02)


def test_a_dearer_price_than_hers_is_refused_and_said() -> None:
    f = mw.InsuredForecaster(max_stake=1, capital=20, lines=mw.Lines(each=2.0, share=1.0), stop=False)
    q = f.forecast(mu=0.5, id="UA-1")
    quoted = f.quote("UA-1", by="she")
    for _ in range(4):
        f.settle(f.forecast(mu=0.5), 1, stake=1.0, by="she")
    before = state(f)
    with pytest.raises(mw.PriceRefused, match=f"above price={quoted.c:g}") as refused:
        f.stake("UA-1", 1.0, by="she", price=float(quoted.c))
    assert state(f) == before
    assert refused.value.limit == f.quote(q, by="she").c
    f.stake("UA-1", 0.1, by="she", price=refused.value.limit)
    with pytest.raises(mw.PriceRefused, match=r"the price is 0.02 now, above price=0.01"):
        f.stake("UA-1", 0.1, price=0.01)  # without a name, the common price


def test_a_price_may_be_negative_and_of_the_class_that_is_staked_on() -> None:
    f = mw.InsuredForecaster(max_stake=1)
    for _ in range(50):
        f.settle(f.forecast(mu=0.5), 0, stake=1.0)
    q = f.forecast(mu=0.5)
    assert q.c < 0
    f.stake(q, 1.0, price=float(q.c))
    g = mw.InsuredForecaster(None, mw.NoCorrection(), mode="sound", max_stake=1, classes=3)
    q = g.forecast(mu=[0.2, 0.3, 0.5], c_hat=[0.04, 0.04, 0.42])
    g.stake(q, [1.0, 0.0, 0.0], price=0.1)
    with pytest.raises(mw.PriceRefused, match=r"the price is 0.42 now, above price=0.1"):
        g.stake(q, [0.0, 0.0, 1.0], price=0.1)


def test_stakes_that_fit_but_for_rounding_are_saved_and_loaded(tmp_path: Any) -> None:
    f = mw.InsuredForecaster(max_stake=1, capital=50)
    q = f.forecast(mu=0.5)
    for part in (0.04, 0.67, 0.05, 0.01, 0.23):
        f.stake(q, part)
    f.save(tmp_path / "book")
    assert state(mw.InsuredForecaster.load(tmp_path / "book")) == state(f)


def test_a_state_beyond_a_line_or_the_capital_is_refused() -> None:
    f = book("sound")
    f.settle(f.forecast(mu=0.5), 1, stake=1.0, by="one")
    changes: list[tuple[Any, str]] = [
        (lambda b: dict(b["accounts"])["one"].update(total=9e200), "line must"),
        (lambda b: dict(b["accounts"])["one"].update(thawed=1.0), "thawed must"),
        (lambda b: dict(b["accounts"])["one"].update(since=2), "since must"),
        (lambda b: b["everyone"]["totals"].update(total=7.0, rounds=9), "total and at_risk must"),
        (lambda b: b["thaw"].update(conceded=99.0), "conceded must"),
    ]
    for change, message in changes:
        plain = f.to_state()
        change(plain["book"])
        with pytest.raises(ValueError, match=message):
            mw.InsuredForecaster.from_state(plain)


def test_a_stale_quote_takes_no_more_than_the_line() -> None:
    """Fifty open forecasts, all staked at last, each at the price of that moment."""
    f = mw.InsuredForecaster(max_stake=1, capital=100, lines=mw.Lines(each=5.0, share=1.0, thaw=0.0))
    many = [f.forecast(mu=0.5) for _ in range(50)]
    for q in many:
        with contextlib.suppress(mw.StakeRefused):
            f.stake(q, 1.0, by="she")
    for q in many:
        f.settle(q, 1)
    assert 4.5 < f.account("she").taken <= 5.0


def test_a_file_keeps_lines_and_positions_to_the_bit(tmp_path: Any) -> None:
    f, draw = book("sound"), np.random.default_rng(5)
    for t in range(60):
        q = f.forecast(mu=float(draw.uniform()))
        for _ in range(int(draw.integers(20)) if t > 56 else 2):
            with contextlib.suppress(mw.StakeRefused):
                f.stake(q, float(draw.uniform(-0.05, 0.05)), by=NAMES[int(draw.integers(5))])
        if t < 55:
            f.settle(q, int(draw.integers(2)))
    f.save(tmp_path / "book")
    g = mw.InsuredForecaster.load(tmp_path / "book")
    assert g.lines == f.lines
    assert json.loads(json.dumps(g.to_state()["settings"])) == json.loads(
        json.dumps(f.to_state()["settings"])
    )
    for q in f.open_forecasts:
        id_: Any = q.id
        assert g.settle(id_, 1) == f.settle(id_, 1)
    assert [g.account(name) for name in LEVELS] == [f.account(name) for name in LEVELS]
    assert state(g) == state(f)


def test_undone_is_as_if_it_had_never_been() -> None:
    f = book("sound")
    q = f.forecast(mu=0.5)
    f.stake(q, 0.5, by="one")
    before, account = state(f), f.account("one")
    steps, journal = f.book, f.book.journal
    steps.take(steps.find_to_change(q), 0.2, "one")
    mark = len(journal)
    steps.close(steps.find_to_change(q), 1)
    assert steps.lines is not None
    assert steps.lines.customer("one", 0).taken > 0
    journal.undo(mark)
    assert steps.lines.customer("one", 0).taken == 0
    assert steps.lines.customer("one", 0).at_risk > account.at_risk
    journal.undo()
    assert state(f) == before
    assert f.account("one") == account


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: mw.Lines(each=0), ValueError, "each must"),
        (lambda: mw.Lines(each=1, of={"a": -1.0}), ValueError, "of must"),
        (lambda: mw.Lines(each=1, of=[1]), TypeError, "of must be a mapping"),  # type: ignore[arg-type]  # that is the point
        (lambda: mw.Lines(each=1, spread=0.6), ValueError, "spread must"),
        (lambda: mw.Lines(each=1, share=0), ValueError, "share must"),
        (lambda: mw.Lines(each=1, shares={"a": 2}), ValueError, "share of 'a' must"),
        (lambda: mw.Lines(each=1, share=2, shares={"share": 0.5}), ValueError, "share must"),
        (lambda: mw.Lines(each=1, thaw=1.5), ValueError, "thaw must"),
        (lambda: mw.InsuredForecaster(max_stake=1, stop=1), TypeError, "stop must be True or False"),  # type: ignore[arg-type]  # that is the point
        (
            lambda: mw.InsuredForecaster(
                max_stake=1, capital=9, one_sided=True, lines=mw.Lines(1, spread=0.1)
            ),
            ValueError,
            "spread of lines must be 0 in a one-sided book; got 0.1",
        ),
        (lambda: mw.Lines(each=1, keep_gains="no"), TypeError, "keep_gains"),  # type: ignore[arg-type]  # that is the point
        (
            lambda: mw.InsuredForecaster(max_stake=1, classes=3, lines=mw.Lines(each=1)),
            ValueError,
            "lines must be in sound mode with classes",
        ),
        (lambda: mw.InsuredForecaster(max_stake=1, capital=9, lines=3), TypeError, "makewhole.Lines"),  # type: ignore[arg-type]  # that is the point
        (
            lambda: book("sound", lines=mw.Lines(each=9, scale=0.3, share=0.5)),
            ValueError,
            "at least a share of max_stake, 0.5; got 0.3",
        ),
        (lambda: mw.InsuredForecaster(max_stake=1).account("she"), ValueError, r"account\(\) needs lines"),
    ],
)
def test_what_cannot_be_is_refused(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize("by", [(), ("a", "a"), tuple(range(17)), 1.5, b"a", ("a", None)])
def test_names_must_be_names(by: Any) -> None:
    f = book("sound")
    q = f.forecast(mu=0.5)
    before = state(f)
    with pytest.raises((ValueError, TypeError), match="by must be"):
        f.stake(q, 0.1, by=by)
    assert state(f) == before


def test_a_stake_at_an_old_price_is_refused_by_the_line_itself() -> None:
    """Repricing alone keeps new stakes within a line; the check must not depend on it."""
    f = mw.InsuredForecaster(None, mw.NoCorrection(), mode="sound", max_stake=1.0)
    f.forecast(mu=0.5, id="UA-1")  # at c = 0
    entry, journal = f.book.find("UA-1"), f.book.journal
    accounts = LineBook(mw.Lines(each=0.3), Terms(1.0, (0.0, 0.5), sound=True), journal)

    def take(b: float) -> None:
        """Take a stake at the published price, whatever her own is."""
        stake = Stake((b,), "she", ("she",))
        entry.legs[0].add(journal, b, 0.0)
        journal.keep(entry)
        entry.at_risk = worst_loss(entry.legs)
        accounts.enter(entry, stake, accounts.limits(("she",)), 0)
        entry.stakes.append(stake)

    take(0.5)
    mark, before = len(journal), accounts.customer("she", 0)
    assert before.at_risk == 0.25
    with pytest.raises(mw.StakeRefused, match="'she' could take 0.25 more; its line leaves 0.05") as refused:
        take(0.5)
    assert refused.value.limit == pytest.approx(0.5 * 0.05 / 0.25)
    journal.undo(mark)
    assert accounts.customer("she", 0) == before
    take(-0.5)  # takes risk away
    assert accounts.customer("she", 0).at_risk == 0.0


def test_in_sound_mode_a_correction_learns_what_was_booked() -> None:
    f = mw.InsuredForecaster(
        None,
        mw.StandardRegret(0.1),
        mode="sound",
        max_stake=2.0,
        lines=mw.Lines(each=3.0, share=1.0),
        stop=False,
    )
    dearer = 0
    for _ in range(20):
        q = f.forecast(mu=0.5, id="UA-1")
        (lam,) = f.proposed(q)
        dearer += bool(f.quote(q, by="she").c > q.c)
        f.stake("UA-1", 1.5, by="she")
        with lessons(mw.StandardRegret) as heard:
            (paid,) = f.settle("UA-1", 1)
        (lesson,) = heard
        assert lesson["lam"] == lam
        assert lesson["loss"] == pytest.approx(2.0 * lesson["weight"] * (lesson["target"] - lam))
        assert lesson["loss"] == pytest.approx(paid)
    assert dearer > 3


def test_the_spread_of_lines_is_the_least_price_of_everybody_with_a_name() -> None:
    f = mw.InsuredForecaster(
        None, mw.NoCorrection(), max_stake=1, capital=100, lines=mw.Lines(50, share=1.0, spread=0.1)
    )
    q = f.forecast(mu=0.5)
    assert (q.c, f.quote(q, by="ann").c, f.quote(q).c) == (0.0, 0.1, 0.0)
    assert sum(f.settle(q, 1, stake=1.0, by="ann")) == pytest.approx(0.4)
    again = mw.InsuredForecaster.from_state(f.to_state())
    assert again.lines == f.lines


def test_the_lines_that_a_capital_brings_have_a_spread_where_the_correction_has_none() -> None:
    def lines(correction: Any, **settings: Any) -> Any:
        return mw.InsuredForecaster(None, correction, max_stake=1, capital=100, **settings).lines

    assert lines(None).spread == lines(mw.Barrier(100, spread=0.01)).spread == 0.0
    assert lines(mw.Barrier(100)).spread == lines(mw.NoCorrection()).spread == 0.02
    assert lines(mw.NoCorrection(), one_sided=True).spread == 0.0  # there the price is in μ


@pytest.mark.parametrize("spread", [0, 0.005])
def test_a_spread_that_was_given_is_what_named_customers_pay(spread: float) -> None:
    """0 means none, also for a copy, and after a change of capital."""
    rule = mw.Barrier(100, spread=spread)
    for made in (rule, mw.Barrier.from_state(rule.state()), copy.deepcopy(rule)):
        f = mw.InsuredForecaster(None, made, max_stake=1)
        f.change_capital(200.0)
        assert f.quote(f.forecast(mu=0.5), by="ann").c == pytest.approx(spread, abs=1e-6)
    assert repr(rule) == f"Barrier(100.0, spread={float(spread)!r})"
