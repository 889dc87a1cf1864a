"""Every kind of book beside an oracle: a slow, obvious transcription of the rules in exact fractions."""

import json
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import Bet, Oracle, Published, exact, without_common

import makewhole as mw
from makewhole.insured.refusals import Refusal
from samples import CORRECTIONS, Own


class Said:
    """A base that says what it is asked about, and keeps what it is taught."""

    def __init__(self) -> None:
        self.taught: list[Any] = []

    def predict(self, x: Any) -> tuple[Any, Any]:
        if np.ndim(x):
            return x, np.linspace(0.0, 0.1, len(x))
        return float(x), 0.01

    def learn(self, x: Any, outcome: Any, **more: Any) -> None:
        self.taught.append((x, outcome, more))


def lines(**settings: Any) -> mw.Lines:
    return mw.Lines(each=4.0, of={"ann": 1.5, 7: 2.5}, **({"share": 1.0} | settings))


BOOKS: dict[str, Callable[[], mw.InsuredForecaster]] = {
    "default": lambda: mw.InsuredForecaster(max_stake=1),
    "one-sided": lambda: mw.InsuredForecaster(None, mw.Reserve(0.1), max_stake=1, one_sided=True),
    "capital": lambda: mw.InsuredForecaster(max_stake=1, capital=6),
    "hardly any capital": lambda: mw.InsuredForecaster(max_stake=1, capital=0.5),
    "capital, one-sided": lambda: mw.InsuredForecaster(max_stake=1, capital=6, one_sided=True),
    "capital, no lines": lambda: mw.InsuredForecaster(max_stake=1, capital=3, lines=None, thaw=None),
    "capital, swap": lambda: mw.InsuredForecaster(None, mw.SwapRegret(5, seed=1), max_stake=1, capital=3),
    "capital, somebody's own": lambda: mw.InsuredForecaster(None, Own(), max_stake=1, capital=3),
    "capital, no correction": lambda: mw.InsuredForecaster(None, mw.NoCorrection(), max_stake=1, capital=3),
    "long lines": lambda: mw.InsuredForecaster(max_stake=1, capital=100),
    "long lines, one-sided": lambda: mw.InsuredForecaster(max_stake=1, capital=100, one_sided=True),
    "long lines, short of capital": lambda: mw.InsuredForecaster(
        max_stake=1, capital=2, lines=lines(scale=1.0)
    ),
    "lines of their own": lambda: mw.InsuredForecaster(max_stake=1, capital=9, lines=lines(scale=1.5)),
    "lines without gains": lambda: mw.InsuredForecaster(
        max_stake=1, capital=9, lines=lines(keep_gains=False)
    ),
    "lines, no capital": lambda: mw.InsuredForecaster(
        None, mw.StandardRegret(1.0), mode="sound", max_stake=1, lines=lines(), thaw=mw.Thaw(share=0.5)
    ),
    "lines, one-sided": lambda: mw.InsuredForecaster(
        None, mw.StandardRegret(1.0), max_stake=1, one_sided=True, lines=lines()
    ),
    "lines, exact": lambda: mw.InsuredForecaster(
        None, mw.StandardRegret(1.0), mode="exact", max_stake=1, lines=lines()
    ),
    "shares": lambda: mw.InsuredForecaster(
        max_stake=1, capital=9, lines=lines(share=0.3, shares={"agency": 0.5}, thaw=1.0)
    ),
    "no stop": lambda: mw.InsuredForecaster(max_stake=1, capital=9, lines=lines(), stop=False),
    "graded": lambda: mw.InsuredForecaster(max_stake=1, capital=6, graded=True),
    "a base": lambda: mw.InsuredForecaster(Said(), max_stake=1, capital=6),
}

CLASSES: dict[str, Callable[[int], mw.InsuredForecaster]] = {
    "default": lambda k: mw.InsuredForecaster(max_stake=1, classes=k),
    "reserve": lambda k: mw.InsuredForecaster(None, mw.Reserve(0.1), max_stake=1, classes=k),
    "swap": lambda k: mw.InsuredForecaster(None, mw.SwapRegret(5, seed=1), max_stake=1, classes=k),
    "somebody's own": lambda k: mw.InsuredForecaster(None, Own(), max_stake=1, classes=k),
    "thaw": lambda k: mw.InsuredForecaster(
        None, mw.StandardRegret(1.0), max_stake=1, classes=k, thaw=mw.Thaw(share=0.5, root=1)
    ),
    "a base": lambda k: mw.InsuredForecaster(Said(), max_stake=3.7, classes=k, c_range=(-0.1, 0.2)),
    "sound": lambda k: mw.InsuredForecaster(None, mw.Reserve(0.1), mode="sound", max_stake=1, classes=k),
    "sound, capital": lambda k: mw.InsuredForecaster(max_stake=1, capital=6, classes=k),
    "one-sided, capital": lambda k: mw.InsuredForecaster(
        max_stake=1, capital=6, classes=k, one_sided=True, lines=lines()
    ),
}

# What the refusal of each limit says.
MESSAGES = {
    "negative": "must not be negative",
    "cap": "over the cap",
    "price": "the price is",
    "capital": "the capital leaves",
    "line": "its line leaves",
    "share": "may hold",
    "stop": "selling has stopped",
}


# Numbers below this have fewer digits.
UNDERFLOW = Fraction(2) ** -1022


class Beside:
    """A forecaster, and an oracle that is told the same."""

    def __init__(self, f: mw.InsuredForecaster) -> None:
        self.f, self.paid = f, Fraction(0)
        one_price = f.classes is not None and f.mode == "exact" and not f.one_sided
        self.oracle = Oracle(
            f.max_stake, f.one_sided, f.mode == "sound", f.classes, one_price, f.capital, f.lines
        )
        self.oracle.spread, self.oracle.stop = f.book.spread, f.stop
        self.oracle.names = ("ann", "bob", 7, "eve")
        self.names: set[Any] = set()
        self.answers: set[str] = set()

    # --- the steps ----------------------------------------------------------------------------------------

    def play(self, step: tuple[Any, ...], *, checked: bool = True) -> None:
        """Take a step; the forecasts are named by their age."""
        verb, first, *rest = step
        waiting = list(self.oracle.open)
        if verb == "forecast":
            self.forecast(first, rest[0])
        elif waiting:
            id_ = waiting[first % len(waiting)]
            if verb == "stake":
                self.stake(id_, *rest)
            elif verb == "many":
                for _ in range(10 * first):
                    small = 0.01 if self.f.classes is None else [0.001 * k for k in range(self.f.classes)]
                    self.stake(id_, small, "ann", None)
            elif verb == "quote":
                self.quote(id_, rest[0])
            elif verb == "void":
                self.f.void(id_)
                self.oracle.void(id_)
            else:
                self.settle(id_, *rest)
        if checked:
            self.check()

    def forecast(self, mu: Any, id_: Any) -> None:
        least, before = self.oracle.least_price(), json.dumps(self.f.to_state())
        given_: Any = {"mu": mu} if self.f.base is None else {"x": mu}
        try:
            q = self.f.forecast(**given_, id=id_)
        except (Refusal, TypeError, ValueError):
            assert id_ in self.oracle.open or not valid_name(id_) or not valid_chances(mu, self.f.classes)
            assert json.dumps(self.f.to_state()) == before
            return
        mus, cs = np.atleast_1d(q.mu).tolist(), np.atleast_1d(q.c).tolist()
        assert id_ is None or q.id == id_
        assert q.id not in self.oracle.open
        if self.f.one_sided:
            assert set(cs) == {0.0}
            assert all(least - 1e-9 <= m <= 1.0 for m in mus)
        elif self.f.mode == "sound":
            assert all(max(0.0, least - 1e-9) <= c <= 0.5 for c in cs)
            assert all(c <= m <= 1.0 - c for m, c in zip(mus, cs, strict=True))
        else:
            assert mus == np.atleast_1d(mu).tolist()
        said = np.atleast_1d(np.asarray(mu, dtype=float)).tolist()
        widths = [0.0] * len(said)
        if self.f.base is not None:
            widths = [0.01] if self.f.classes is None else np.linspace(0.0, 0.1, self.f.classes).tolist()
        self.oracle.open[q.id] = Published(said, widths, exact(mus), exact(cs))

    def quote(self, id_: Any, by: Any) -> tuple[list[float], list[float]] | None:
        """The price of a customer; None if that is no name."""
        levels = levels_of(by)
        if levels is None:
            with pytest.raises((TypeError, ValueError)):
                self.f.quote(id_, by=by)
            return None
        q = self.f.quote(id_, by=by)
        mus, cs = np.atleast_1d(q.mu).tolist(), np.atleast_1d(q.c).tolist()
        wanted = self.oracle.own(id_, levels)
        assert mus == pytest.approx(wanted[0], abs=1e-9)
        assert cs == pytest.approx(wanted[1], abs=1e-9)
        return mus, cs

    def bet(self, id_: Any, stake: Any, by: Any) -> Bet | None:
        """A bet at the price of the customer; None if it makes no sense."""
        own, amounts = self.quote(id_, by), amounts_of(stake, self.f.classes)
        if own is None or amounts is None:
            return None
        kept = without_common(amounts) if self.oracle.one_price else amounts
        return Bet(kept, levels_of(by) or (), exact(own[0]), exact(own[1]))

    def stake(self, id_: Any, stake: Any, by: Any, price: Any) -> None:
        bet, before = self.bet(id_, stake, by), json.dumps(self.f.to_state())
        sensible = bet is not None and price != "dear"
        found = {} if bet is None else self.oracle.refusals(id_, bet, price if price != "dear" else None)
        made = self.oracle.open[id_]
        try:
            place = self.f.stake(id_, stake, by=by, price=price)
        except (Refusal, TypeError, ValueError) as error:
            self.explain(error, found, sensible)
            assert json.dumps(self.f.to_state()) == before
            if sensible and bet is not None and type(error) is mw.StakeRefused and self.f.classes is None:
                self.check_limit(id_, bet, error.limit)
            return
        assert sensible
        assert not any(found.values()), found
        assert bet is not None
        assert place == len(made.bets)
        made.bets.append(bet)
        self.names.update(bet.levels)

    def explain(self, error: Exception, found: dict[str, bool], sensible: bool) -> None:
        """A refusal must be one that the oracle has expected, and say so."""
        self.answers.update(found)
        if not sensible:
            return
        assert found, f"the oracle would take it: {error}"
        assert isinstance(error, Refusal)
        assert any(MESSAGES[limit] in str(error) for limit in found), (found, error)

    def check_limit(self, id_: Any, bet: Bet, limit: float) -> None:
        """A refused stake is told how much would be taken. So much is; a little more only if it fits."""
        if self.f.one_sided and bet.amounts[0] < 0:
            return
        for factor in (1.0, 1.0 + 1e-6, 1.005):
            amount = math.copysign(limit * factor, bet.amounts[0])
            part = Bet(exact([amount]), bet.levels, bet.mus, bet.cs)
            found = self.oracle.refusals(id_, part, None)
            if factor == 1.0:
                assert not any(found.values()), (limit, found)
            elif any(found.values()):
                with pytest.raises(mw.StakeRefused):
                    self.f.stake(id_, amount, by=bet.levels or None)

    def settle(self, id_: Any, outcome: Any, stake: Any, by: Any) -> None:
        y = outcome_of(outcome, self.f.classes, graded=self.f.graded)
        bet, before = (
            (None, "") if stake is None else (self.bet(id_, stake, by), json.dumps(self.f.to_state()))
        )
        found = {} if bet is None else self.oracle.refusals(id_, bet, None)
        sensible = y is not None and (stake is None or bet is not None)
        made = self.oracle.open[id_]
        try:
            payments = self.f.settle(id_, outcome, stake=stake, by=by)
        except (Refusal, TypeError, ValueError) as error:
            self.explain(error, found, sensible)
            assert not before or json.dumps(self.f.to_state()) == before
            return
        assert sensible
        assert not any(found.values()), found
        if bet is not None:
            made.bets.append(bet)
            self.names.update(bet.levels)
        self.paid += sum(map(Fraction, payments), Fraction(0))
        expected = self.oracle.settle(id_, y)
        assert len(payments) == len(expected)
        by_name: dict[Any, Fraction] = {}
        for paid, wanted, one in zip(payments, expected, made.bets, strict=True):
            size = sum(map(abs, one.amounts), Fraction(0))
            assert abs(Fraction(paid) - wanted) <= Fraction(1, 10**12) * (abs(wanted) + size) + UNDERFLOW
            if one.name is not None:
                by_name[one.name] = by_name.get(one.name, Fraction(0)) + wanted
        assert dict(payments.by) == pytest.approx({n: float(p) for n, p in by_name.items()}, abs=1e-12)

    # --- what must be so ----------------------------------------------------------------------------------

    def check(self) -> None:
        """The same accounts and totals; and not a farthing more was paid than was booked."""
        f, oracle, statement = self.f, self.oracle, self.f.statement()
        totals, at_risk = f.book.everyone.totals, oracle.at_risk()
        counts = (statement.rounds, statement.voided, statement.bets, statement.negative_c, statement.open)
        assert counts == (oracle.rounds, oracle.voided, oracle.bets, oracle.negative, len(oracle.open))
        assert totals.idle == oracle.idle
        assert statement.turnover == pytest.approx(float(oracle.turnover), rel=1e-12, abs=1e-12)
        assert statement.total_loss == pytest.approx(float(oracle.lost), rel=1e-12, abs=1e-12)
        assert statement.open_exposure == pytest.approx(float(at_risk), rel=1e-12, abs=1e-12)
        booked = Fraction(totals.total) + Fraction(totals.low)
        assert abs(booked - self.paid) <= Fraction(2) ** -90
        if f.capital is not None:
            assert oracle.lost + at_risk <= Fraction(f.capital) * (1 + Fraction(1, 10**9))
        if f.lines is not None:
            for name in self.names:
                wanted = oracle.account(name)
                if name not in oracle.names:  # a group without a line
                    assert f.account(name)[:2] == pytest.approx(tuple(map(float, wanted[:2])), abs=1e-12)
                    continue
                assert f.account(name) == pytest.approx(tuple(map(float, wanted)), rel=1e-12, abs=1e-12)
                assert wanted[3] >= -Fraction(1, 10**9)
        if f.thaw is not None:
            profit = f.book.thawing.profit
            assert statement.conceded <= f.thaw.allowed(statement.rounds, profit) * (1 + 1e-12)
        assert [q.id for q in f.open_forecasts] == list(oracle.open)

    def close(self) -> None:
        """Settle what is open, the latest first: then nothing is at risk."""
        for id_ in list(self.oracle.open)[::-1]:
            self.settle(id_, 0, None, None)
            self.check()
        assert self.f.statement().open_exposure == 0.0
        for name in self.names if self.f.lines is not None else ():
            assert self.f.account(name).at_risk == 0.0


# --- what a caller may say --------------------------------------------------------------------------------


def valid_name(name: Any) -> bool:
    whole = isinstance(name, (int, np.integer)) and not isinstance(name, bool)
    return name is None or isinstance(name, str) or (whole and abs(int(name)) < 2**63)


def levels_of(by: Any) -> tuple[Any, ...] | None:
    """The names of a customer; None if they are none."""
    if by is None:
        return ()
    names = tuple(by) if isinstance(by, (tuple, list)) else (by,)
    if not names or not all(map(valid_name, names)):
        return None
    return tuple(int(name) if isinstance(name, np.integer) else name for name in names)


def amounts_of(stake: Any, classes: int | None) -> list[Fraction] | None:
    """A stake as fractions; None if it is no stake."""
    try:
        numbers = np.asarray(stake, dtype=float)
    except (TypeError, ValueError):
        return None
    text = isinstance(stake, str) or stake is None
    if text or numbers.shape != (() if classes is None else (classes,)) or not np.isfinite(numbers).all():
        return None
    return exact(np.atleast_1d(numbers))


def outcome_of(outcome: Any, classes: int | None, *, graded: bool) -> Any:
    """An outcome as a number; None if it is none."""
    if isinstance(outcome, (str, bool)):
        return None
    if classes is not None:
        return int(outcome) if outcome in range(classes) else None
    if graded:
        return float(outcome) if 0 <= outcome <= 1 else None
    return int(outcome) if outcome in (0, 1) else None


def valid_chances(mu: Any, classes: int | None) -> bool:
    amounts = amounts_of(mu, classes)
    if amounts is None or min(amounts) < 0 or max(amounts) > 1:
        return False
    return classes is None or abs(sum(amounts, Fraction(-1))) < Fraction(1, 10**6)


# --- scripts ----------------------------------------------------------------------------------------------

NAMES = st.sampled_from(
    [None, None, "ann", "bob", 7, np.int64(7), ("agency", "ann"), ["bob"], True, (), 2**70]
)
STAKES = st.one_of(
    st.sampled_from([0.0, -0.0, 1.0, -1.0, 1, 2.0, 1e-300, float("nan"), np.float64(0.25), "x", [0.5]]),
    st.floats(-1.0, 1.0),
    st.floats(0.0, 0.02),
)
STEPS = st.one_of(
    st.tuples(st.just("forecast"), st.floats(0.0, 1.0), st.sampled_from([None, None, None, "mine", 3, 1.5])),
    st.tuples(
        st.just("stake"),
        st.integers(0, 3),
        STAKES,
        NAMES,
        st.one_of(st.none(), st.sampled_from([0.02, 0.3, 1.0, "dear"])),
    ),
    st.tuples(st.just("stake"), st.integers(0, 3), st.floats(-0.3, 0.3), NAMES, st.none()),
    st.tuples(st.just("settle"), st.integers(0, 3), st.sampled_from([0, 1, 1.0, 0.5, 2]), STAKES, NAMES),
    st.tuples(st.just("settle"), st.integers(0, 3), st.sampled_from([0, 1]), st.none(), st.none()),
    st.tuples(st.just("quote"), st.integers(0, 3), NAMES),
    st.tuples(st.just("void"), st.integers(0, 3)),
    st.tuples(st.just("many"), st.integers(1, 3)),
)

NUMBERS = st.one_of(
    st.floats(-1.0, 1.0), st.sampled_from([0.0, -0.0, 1e-300, 1.0, -1.0, 0.25, 1.0 - 1e-10, 5e-324])
)
ODD = st.sampled_from(
    [0.5, 2.0, "x", None, [0.1], [1, 0], [float("nan")] * 3, [1e308, -1e308, 1e308], [float("inf"), 0.0, 0.0]]
)


@st.composite
def scripts_of_classes(draw: st.DrawFn) -> tuple[int, list[tuple[Any, ...]]]:
    """How many classes, and what happens."""
    classes = draw(st.sampled_from([2, 3, 4, 5, 7, 10]))
    row = st.lists(NUMBERS, min_size=classes, max_size=classes)
    shifted, without_last = row.map(lambda b: [x + 3.0 for x in b]), row.map(lambda b: [*b[:-1], math.nan])
    positive = row.map(lambda b: [0.2 * abs(x) for x in b])
    stakes = st.one_of(
        row, row.map(np.array), row.map(tuple), shifted, without_last, ODD, row.map(small), positive
    )
    chances = st.one_of(row.map(np.abs).map(shares), row.map(shares), ODD, row)
    outcomes = st.sampled_from([0, 1, classes - 1, classes, -1, 1.0, 0.5, "1"])
    forecast = st.tuples(st.just("forecast"), chances, st.sampled_from([None, None, None, "mine", 3, 1.5]))
    prices = st.sampled_from([None, None, None, 0.02, 0.3, "dear"])
    stake = st.tuples(st.just("stake"), st.integers(0, 3), stakes, NAMES, prices)
    settle = st.tuples(st.just("settle"), st.integers(0, 3), outcomes, st.one_of(st.none(), stakes), NAMES)
    others = st.tuples(st.sampled_from(["void", "many"]), st.integers(0, 3))
    kinds = st.one_of(forecast, stake, stake, settle, settle, others)
    return classes, draw(st.lists(kinds, min_size=1, max_size=40))


def shares(row: Any) -> list[float]:
    """The same numbers as shares of their sum, if it has any."""
    total = sum(row)
    return [x / total for x in row] if total else [1.0, *[0.0] * (len(row) - 1)]


def small(row: list[float]) -> list[float]:
    return [0.01 * x for x in row]


# --- the tests --------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("kind", BOOKS)
@given(st.lists(STEPS, min_size=1, max_size=40))
def test_a_book_does_what_the_oracle_says(kind: str, steps: list[tuple[Any, ...]]) -> None:
    both = Beside(BOOKS[kind]())
    for step in [("forecast", 0.4, None), *steps]:
        both.play(step)
    both.close()


@pytest.mark.parametrize("kind", BOOKS)
@settings(max_examples=8)
@given(st.lists(STEPS, min_size=10, max_size=30))
def test_a_book_does_what_the_oracle_says_in_a_few_scripts(kind: str, steps: list[tuple[Any, ...]]) -> None:
    both = Beside(BOOKS[kind]())
    for step in [("forecast", 0.4, None), *steps]:
        both.play(step)
    both.close()


_LONGEST = "one-sided, capital"  # which takes half a minute
_LONG_CASE = pytest.param(_LONGEST, marks=pytest.mark.long)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [kind for kind in CLASSES if kind != _LONGEST] + [_LONG_CASE])
@given(scripts_of_classes())
def test_a_book_of_classes_does_what_the_oracle_says(
    kind: str, drawn: tuple[int, list[tuple[Any, ...]]]
) -> None:
    classes, steps = drawn
    both = Beside(CLASSES[kind](classes))
    for step in [("forecast", [1.0 / classes] * classes, None), *steps]:
        both.play(step)
    both.close()


@pytest.mark.slow
@pytest.mark.parametrize("rounds", [60, pytest.param(300, marks=pytest.mark.long)])
@pytest.mark.parametrize("kind", BOOKS)
def test_in_a_long_run_too(kind: str, rounds: int) -> None:
    both, draw = Beside(BOOKS[kind]()), np.random.default_rng(4)
    for _ in range(rounds):
        mu, b, y = float(draw.uniform()), float(draw.uniform(-0.6, 0.6)), int(draw.integers(2))
        who = ["ann", "bob", 7, "eve", None][int(draw.integers(5))]
        steps: list[tuple[Any, ...]] = [("forecast", mu, None), ("stake", 0, b, who, None)]
        steps[1:2] = [("quote", 0, who), steps[1]] * int(draw.integers(3))
        for step in [*steps, ("settle", 0, y, 1.0, "eve")]:
            both.play(step, checked=False)
        both.check()
    both.close()


@pytest.mark.parametrize("kind", BOOKS)
def test_nobody_stakes_at_the_price_that_somebody_else_was_told(kind: str) -> None:
    both = Beside(BOOKS[kind]())
    steps: list[tuple[Any, ...]] = [
        ("forecast", 0.4, None),
        ("quote", 0, "ann"),
        ("stake", 0, 0.3, "bob", None),
        ("quote", 0, "eve"),
        ("stake", 0, 0.2, "ann", None),
        ("settle", 0, 1, None, None),
    ]
    for step in steps:
        both.play(step)


@pytest.mark.parametrize("kind", BOOKS)
def test_where_old_quotes_are_too_cheap_the_oracle_refuses_the_same(kind: str) -> None:
    both, draw = Beside(BOOKS[kind]()), np.random.default_rng(5)
    for t in range(60):
        b = float(draw.choice([-0.9, 0.9, 0.3])) if not both.f.one_sided else 0.9
        steps: list[tuple[Any, ...]] = [("forecast", float(draw.uniform(0.1, 0.9)), None)] * (1 + (t < 8))
        steps += [("stake", t % 5, b / 2, [None, "ann", 7, "eve"][t % 4], None)] * 2
        steps.append(("settle", t % 5, int(b > 0), None, None))  # the customer knew the outcome
        for step in steps:
            both.play(step)
    assert "capital" in both.answers or kind != "capital, no lines"


@pytest.mark.slow
@pytest.mark.parametrize("kind", BOOKS)
def test_where_somebody_has_many_open_bets_the_oracle_counts_the_same(kind: str) -> None:
    both = Beside(BOOKS[kind]())
    for _ in range(40):
        both.forecast(0.2, None)
    for k in range(40):
        first = [0.9, 0.9, 0.9, -0.0, -0.3][k % 5]
        for b in (2.0, first, 0.05):
            both.stake(k, b, "bob", None)
    both.check()


@pytest.mark.slow
@pytest.mark.parametrize("classes", [2, 3, 10])
@pytest.mark.parametrize("make", [*CORRECTIONS, None])
def test_classes_in_a_long_run_and_with_many_stakes_too(make: Any, classes: int) -> None:
    both = Beside(mw.InsuredForecaster(None, make and make(), max_stake=1.0, classes=classes))
    draw = np.random.default_rng(classes)
    for t in range(60):
        mu, y = draw.dirichlet([1.0] * classes), int(draw.integers(classes))
        both.forecast(mu, t)
        for b in draw.uniform(-0.4, 0.4, (int(draw.integers(3)), classes)).tolist():
            both.stake(t, b, t % 3 or None, None)
        if t % 4:
            both.settle(t, y, None, None)
        both.check()
    both.forecast([1.0 / classes] * classes, "busy")
    for k in range(40):
        both.stake("busy", [0.01 * (k % 3), *[0.0] * (classes - 2), -0.01], k % 2, None)
    both.settle("busy", 1, [0.1] * classes, "last")
    both.close()
