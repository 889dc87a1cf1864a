"""The book, beside an accountant who keeps only a list of forecasts and adds everything up anew each time."""

import json
import pickle
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import makewhole as mw
from samples import open_of

SOUND: dict[str, Any] = {"mode": "sound", "max_stake": 2.0}
ANY: dict[str, Any] = {"lines": None, "stop": False}  # customers pay one price, however high
# How each kind of book is made, and which groups its forecasts may belong to.
BOOKS: Any = {
    "exact": (lambda: mw.InsuredForecaster(max_stake=2, c_range=(-0.25, 0.25)), [()]),
    "plain": (lambda: mw.InsuredForecaster(None, mw.Reserve(0.1), **SOUND), [()]),
    "one-sided": (lambda: mw.InsuredForecaster(None, mw.Reserve(0.1), max_stake=2, one_sided=True), [()]),
    "one-sided classes": (
        lambda: mw.InsuredForecaster(
            None, mw.Reserve(0.1), max_stake=2, one_sided=True, classes=3, capital=30.0, **ANY
        ),
        [()],
    ),
    "capped": (lambda: mw.InsuredForecaster(None, mw.Reserve(0.1), **SOUND, max_exposure=0.5), [()]),
    "capped, no bound": (
        lambda: mw.InsuredForecaster(None, mw.NoCorrection(), **SOUND, max_exposure=0.5),
        [()],
    ),
    "guarded": (
        lambda: mw.InsuredForecaster(None, mw.NoCorrection(), **SOUND, capital=20.0, **ANY),
        [()],
    ),
    "classes": (
        lambda: mw.InsuredForecaster(None, mw.Reserve(0.1), **SOUND, classes=3, max_exposure=1.0),
        [()],
    ),
    "guarded classes": (
        lambda: mw.InsuredForecaster(None, mw.StandardRegret(), **SOUND, classes=3, capital=15.0, **ANY),
        [()],
    ),
    "apart": (
        lambda: mw.InsuredForecaster(None, mw.Grouped(mw.Reserve(0.1)), **SOUND, max_exposure=0.5),
        [("a",), ("b",)],
    ),
    "apart, named": (
        lambda: mw.InsuredForecaster(None, mw.Grouped(mw.Reserve(0.1), groups=["a", "b", "c"]), **SOUND),
        [("a",), ("b",)],
    ),
    "over": (
        lambda: mw.InsuredForecaster(None, mw.Reserve(0.1, over=mw.DeterministicSwap(5)), **SOUND),
        [()],
    ),
    "apart, over": (
        lambda: mw.InsuredForecaster(None, mw.Grouped(mw.Reserve(0.1, over=mw.StandardRegret())), **SOUND),
        [("a",), ("b",)],
    ),
    "overlapping": (
        lambda: mw.InsuredForecaster(
            None, mw.OverlappingReserve(0.1), **SOUND, max_exposure=0.5, capital=60.0, **ANY
        ),
        [(), ("a",), ("a", "b"), ("b", "c")],
    ),
}


@dataclass
class Entry:
    """A forecast, and all that ever happened to it."""

    forecast: mw.Forecast
    groups: tuple[str, ...]
    stakes: list[tuple[Any, str | None]] = field(default_factory=list)
    outcome: int | None = None
    voided: bool = False
    lost: Any = None  # on each line, once it is settled

    @property
    def open(self) -> bool:
        return self.outcome is None and not self.voided

    def lines(self) -> list[tuple[float, float]]:
        q = self.forecast
        return list(zip(np.atleast_1d(q.mu).tolist(), np.atleast_1d(q.c).tolist(), strict=True))

    def paid(self, amounts: Any, outcome: int) -> list[float]:
        """To one stake, on each line."""
        happened = [outcome] if self.forecast.classes is None else range(self.forecast.classes)
        ys = [y if self.forecast.classes is None else int(y == outcome) for y in happened]
        parts = zip(np.atleast_1d(amounts).tolist(), ys, self.lines(), strict=True)
        return [mw.payment(b, y, mu, c) for b, y, (mu, c) in parts]

    def gross(self) -> float:
        return float(sum(np.abs(amounts).sum() for amounts, _ in self.stakes))

    def at_risk(self) -> float:
        outcomes = range(self.forecast.classes or 2)
        return max(0.0, *(sum(sum(self.paid(b, y)) for b, _ in self.stakes) for y in outcomes))

    def exposed(self, more: Any = None) -> list[float]:
        """What each line can lose by itself."""
        stakes = [np.atleast_1d(b) for b, _ in self.stakes] + ([] if more is None else [np.atleast_1d(more)])
        return [
            max(0.0, *(sum(mw.payment(float(b[k]), y, mu, c) for b in stakes) for y in (0, 1)))
            for k, (mu, c) in enumerate(self.lines())
        ]

    def room(self, cap: float) -> list[float]:
        """What each line could lose, whatever is staked on it."""
        sides = (cap,) if self.forecast.one_sided else (cap, -cap)
        return [max(0.0, *(mw.payment(b, y, mu, c) for b in sides for y in (0, 1))) for mu, c in self.lines()]


class Accountant:
    """Plays with a book at random, and writes everything down."""

    def __init__(self, kind: str, seed: int) -> None:
        make, self.groups = BOOKS[kind]
        self.f: mw.InsuredForecaster = make()
        self.draw = np.random.default_rng(seed)
        self.entries: list[Entry] = []
        self.finished: list[Entry] = []  # in the order in which they were settled
        self.count_late: dict[Any, int] = {}
        self.late: dict[Any, Any] = {}
        self.refused = 0
        self.fresh = self.f.certificate()

    @property
    def waiting(self) -> list[Entry]:
        return [entry for entry in self.entries if entry.open]

    def inside(self, group: Any, entries: list[Entry]) -> list[Entry]:
        return [entry for entry in entries if group is None or group in entry.groups]

    def one_of(self, entries: list[Entry]) -> Entry:
        return entries[int(self.draw.integers(len(entries)))]

    def some_mu(self) -> Any:
        return float(self.draw.uniform()) if self.f.classes is None else self.draw.dirichlet(np.ones(3))

    def some_stake(self) -> Any:
        low = 0.0 if self.f.one_sided else -0.7
        return (
            float(self.draw.uniform(low, 0.7)) if self.f.classes is None else self.draw.uniform(low, 0.7, 3)
        )

    # --- what may happen ----------------------------------------------------------------------------------

    def opened(self, forecast: mw.Forecast, groups: tuple[str, ...]) -> None:
        self.entries.append(Entry(forecast, groups))
        for group in (None, *groups):
            mine = self.inside(group, self.waiting)
            if len(mine) > 1:
                potential = np.sum([entry.room(self.f.max_stake) for entry in mine], axis=0)
                self.late[group] = np.maximum(self.late.get(group, 0.0), potential)
                self.count_late[group] = max(self.count_late.get(group, 0), len(mine))

    def forecast(self) -> None:
        groups = self.groups[int(self.draw.integers(len(self.groups)))]
        named = {"groups": groups} if len(self.groups) > 1 else {}
        self.opened(self.f.forecast(mu=self.some_mu(), **named), groups)

    def forecast_many(self) -> None:
        mus = [self.some_mu() for _ in range(3)]
        chosen = [self.groups[int(self.draw.integers(len(self.groups)))] for _ in mus]
        named: Any = {"groups": chosen} if len(self.groups) > 1 else {}
        for q, groups in zip(self.f.forecast_many(mu=mus, **named), chosen, strict=True):
            self.opened(q, groups)

    def stake(self) -> None:
        entry, amounts = self.one_of(self.waiting), self.some_stake()
        by = "ann" if self.draw.random() < 0.5 else None
        if self.takes(entry, amounts):
            assert self.f.stake(entry.forecast, amounts, by=by) == len(entry.stakes)
            entry.stakes.append((amounts, by))
        else:
            before = json.dumps(self.f.to_state())
            with pytest.raises(mw.StakeRefused):
                self.f.stake(entry.forecast, amounts, by=by)
            assert json.dumps(self.f.to_state()) == before
            self.refused += 1

    def settle(self) -> None:
        entry, outcome = self.one_of(self.waiting), int(self.draw.integers(self.f.classes or 2))
        amounts = self.some_stake() if self.draw.random() < 0.5 else None
        if amounts is not None and not self.takes(entry, amounts):
            with pytest.raises(mw.StakeRefused):
                self.f.settle(entry.forecast, outcome, stake=amounts)
            self.refused += 1
            return
        payments = self.f.settle(
            entry.forecast, outcome, stake=amounts, by=None if amounts is None else "bob"
        )
        if amounts is not None:
            entry.stakes.append((amounts, "bob"))
        self.settled(entry, outcome, payments)

    def settle_many(self) -> None:
        chosen = [entry for entry in self.waiting if self.draw.random() < 0.5]
        outcomes = {entry.forecast.id: int(self.draw.integers(self.f.classes or 2)) for entry in chosen}
        paid: dict[Any, Any] = dict(self.f.settle_many(outcomes))
        for entry in chosen:
            self.settled(entry, outcomes[entry.forecast.id], paid[entry.forecast.id])

    def settled(self, entry: Entry, outcome: int, payments: Any) -> None:
        entry.outcome = outcome
        by_stake = [entry.paid(amounts, outcome) for amounts, _ in entry.stakes]
        assert payments == pytest.approx([sum(parts) for parts in by_stake], abs=1e-12)
        names = {by for _, by in entry.stakes if by is not None}
        sums = {
            name: sum(p for p, (_, by) in zip(payments, entry.stakes, strict=True) if by == name)
            for name in names
        }
        assert payments.by == pytest.approx(sums)
        entry.lost = np.sum(by_stake, axis=0) if by_stake else np.zeros(len(entry.lines()))
        self.finished.append(entry)

    def void(self) -> None:
        entry = self.one_of(self.waiting)
        self.f.void(entry.forecast)
        entry.voided = True

    def restart(self) -> None:
        before = self.f.to_state()
        self.f = mw.InsuredForecaster.from_state(json.loads(json.dumps(before)))
        assert json.dumps(self.f.to_state()) == json.dumps(before)

    def peek(self) -> None:
        """Look at a forecast that will not be made."""
        named = {"groups": self.groups[0]} if len(self.groups) > 1 else {}
        before = json.dumps(self.f.to_state())
        self.f.peek(mu=self.some_mu(), **named)
        assert json.dumps(self.f.to_state()) == before

    def undo(self) -> None:
        """Take a step, and take it back."""
        if not self.waiting:
            return
        before, book = json.dumps(self.f.to_state()), self.f.book
        entry = book.find_to_change(self.one_of(self.waiting).forecast)
        mark = len(book.journal)
        try:
            book.take(entry, self.some_stake(), "eve")
        except mw.StakeRefused:
            book.journal.undo(mark)
        book.close(entry, 1)
        book.journal.undo()
        assert json.dumps(self.f.to_state()) == before

    # --- what must be so ----------------------------------------------------------------------------------

    def takes(self, entry: Entry, amounts: Any) -> bool:
        """Whether a stake fits under the cap of its forecast, the cap on exposure, and every bound."""
        placed = np.sum([np.abs(b) for b, _ in entry.stakes], axis=0) if entry.stakes else 0.0
        if np.any(placed + np.abs(amounts) > self.f.max_stake):
            return False
        if self.f.capital is not None:
            after = Entry(entry.forecast, entry.groups, [*entry.stakes, (amounts, None)])
            open_now = sum(other.at_risk() for other in self.waiting if other is not entry)
            left = self.f.capital - self.f.statement().total_loss - open_now
            if after.at_risk() > max(left, entry.at_risk()):
                return False
        most = self.f.max_exposure
        if most is None:
            return True
        now, then = np.array(entry.exposed()), np.array(entry.exposed(amounts))
        others = [other for other in self.waiting if other is not entry]
        if sum(sum(other.exposed()) for other in others) + then.sum() > most and then.sum() > now.sum():
            return False
        alone = getattr(self.f.corrections[0], "apart", False)
        for group in (None, *entry.groups) if not alone else entry.groups:
            bound = self.f.certificate(group).bound if self.f.capital is None else None
            if bound is None:
                continue  # a guarded book's certificate may be the guard's
            lines = len(now)
            lost = sum((e.lost for e in self.inside(group, self.finished)), np.zeros(lines))
            open_ = sum((np.array(e.exposed()) for e in self.inside(group, others)), np.zeros(lines))
            if np.any((lost + open_ + then > bound / lines + 1e-9) & (then > now)):
                return False
        return True

    def check(self) -> None:
        book = self.f.to_state()["book"]
        names = list(dict.fromkeys(name for entry in self.entries for name in entry.groups))
        assert [name for name, _ in book["groups"]] == names
        for group, scope in [(None, book["everyone"]), *book["groups"]]:
            self.check_totals(group, scope["totals"])
            mine = self.inside(group, self.waiting)
            assert self.f.book.scope(group).open == len(mine)
            assert scope["at_risk"] == pytest.approx(sum(e.at_risk() for e in mine), abs=1e-9)
            self.check_exposure(group, scope | scope["legs"])
        kept = [
            (one["id"], [(stake["amounts"], stake["by"]) for stake in one["stakes"]]) for one in book["open"]
        ]
        assert kept == [
            (entry.forecast.id, [(np.atleast_1d(amounts).tolist(), by) for amounts, by in entry.stakes])
            for entry in self.waiting
        ]
        numbers = [one["number"] for one in book["open"]]
        assert numbers == sorted(set(numbers))
        assert self.f.open_forecasts == [entry.forecast for entry in self.waiting]
        assert not self.f.book.journal
        self.check_capital()
        self.check_certificates(names)

    def check_totals(self, group: Any, totals: dict[str, Any]) -> None:
        mine = self.inside(group, self.finished)
        losses = [float(np.sum(entry.lost)) for entry in mine]
        staked = [entry.gross() > 0 for entry in mine]
        assert totals["rounds"] == len(mine)
        assert totals["voided"] == sum(entry.voided for entry in self.inside(group, self.entries))
        assert totals["bets"] == sum(len(entry.stakes) for entry in mine)
        assert totals["negative"] == sum(entry.lines()[0][1] < 0 for entry in mine)
        assert totals["idle"] == len(mine) - max((k + 1 for k, any_ in enumerate(staked) if any_), default=0)
        assert totals["turnover"] == pytest.approx(sum(entry.gross() for entry in mine))
        assert totals["total"] == pytest.approx(sum(losses), abs=1e-9)
        x = np.array(losses)
        surprises = [x[k] - x[:k].mean() if k else x[0] for k in range(len(x))]
        assert totals["surprises"] == pytest.approx(np.square(surprises).sum(), abs=1e-9)

    def check_exposure(self, group: Any, exposure: dict[str, Any]) -> None:
        mine = self.inside(group, self.waiting)
        zero = np.zeros(self.f.classes or 1)
        if self.f.max_exposure is not None:
            staked = sum((np.array(e.exposed()) for e in mine), zero)
            lost = sum((e.lost for e in self.inside(group, self.finished)), zero)
            assert exposure["staked"] == pytest.approx(staked.tolist(), abs=1e-9)
            assert exposure["lost"] == pytest.approx(lost.tolist(), abs=1e-9)
        if self.f.capital is not None or self.f.certificate(group).bound is not None:
            potential = sum((np.array(e.room(self.f.max_stake)) for e in mine), zero)
            late = self.late.get(group, zero)
            assert exposure["potential"] == pytest.approx(potential.tolist(), abs=1e-9)
            assert exposure["late_potential"] == pytest.approx(late.tolist(), abs=1e-9)
            assert exposure["late_open"] == self.count_late.get(group, 0)
        if not mine:
            assert exposure["staked"] == exposure["potential"] == zero.tolist()  # and no rounding left over

    def check_certificates(self, groups: list[Any]) -> None:
        """What is lost at worst is what it was before anything was late, and what late outcomes may add."""
        if self.f.capital is not None or self.fresh.bound is None:
            return
        lines = self.f.classes or 1
        most = self.f.max_exposure
        if not getattr(self.f.corrections[0], "apart", False):
            late = float(np.sum(self.late.get(None, 0.0))) if most is None else lines * most
            assert self.f.certificate().bound == pytest.approx(self.fresh.bound + late - self.fresh.exposure)
            assert self.f.certificate().exposure == pytest.approx(late)
            return
        every = 0.0
        for group in groups:
            late = float(np.sum(self.late.get(group, 0.0))) if most is None else lines * most
            bound = self.f.max_stake * 0.5 / 0.1 + late  # Theorem B: M/2η for each group
            assert self.f.certificate(group).bound == pytest.approx(bound)
            every += bound
        named = self.f.corrections[0].all_groups
        every += self.f.max_stake * 0.5 / 0.1 * (len(named) - len(groups) if named is not None else 0)
        assert self.f.certificate().bound == pytest.approx(every)

    def check_capital(self) -> None:
        """Whatever happens to what is open, the capital is enough."""
        if self.f.capital is not None:
            at_risk = sum(entry.at_risk() for entry in self.waiting)
            assert self.f.statement().total_loss + at_risk <= self.f.capital + 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("kind", BOOKS)
def test_after_every_step_the_book_is_what_an_accountant_adds_up_from_a_list(kind: str) -> None:
    played = Accountant(kind, seed=0)
    moves: dict[str, int] = {}
    for _ in range(100):
        choices = ["forecast", "forecast_many"]
        if played.waiting:
            choices += ["stake"] * 4 + ["settle"] * 3 + ["void", "settle_many", "restart"]
        if len(played.waiting) > 8:
            choices = ["settle", "settle_many"]
        move = choices[int(played.draw.integers(len(choices)))]
        played.peek()
        played.undo()
        getattr(played, move)()
        played.check()
        moves[move] = moves.get(move, 0) + 1
    assert len(moves) == 7
    if played.f.max_exposure is not None:
        assert played.refused
    while played.waiting:  # and to the end
        played.settle()
        played.check()


@pytest.mark.slow
@pytest.mark.parametrize("groups", [False, True])
@pytest.mark.parametrize("classes", [None, 3])
def test_a_guarded_book_that_is_never_empty_stays_open(classes: int | None, groups: bool) -> None:
    """What is settled gives back the room it took: else c would widen for good, though nothing was lost."""
    correction = mw.OverlappingReserve(0.1) if groups else mw.NoCorrection()
    f = mw.InsuredForecaster(None, correction, mode="sound", max_stake=1, capital=20.0, classes=classes)
    mu: Any = 0.5 if classes is None else [0.2, 0.3, 0.5]
    named: dict[str, Any] = {"groups": ["a"]} if groups else {}
    waiting = f.forecast(mu=mu, **named)
    for t in range(3000):
        q = f.forecast(mu=mu, **named)
        assert np.all(q.c == 0.0)
        if t % 5:
            f.settle(waiting, t % (classes or 2))
        else:
            f.void(waiting)
        waiting = q
    assert f.statement().open == 1
    assert f.statement().total_loss == 0


def test_a_refused_stake_says_how_much_more_would_be_taken_on_top_of_what_is_there() -> None:
    f = mw.InsuredForecaster(None, mw.NoCorrection(), mode="sound", max_stake=10, max_exposure=3)
    q, other = f.forecast(mu=0.5), f.forecast(mu=0.25)
    f.stake(q, 3.0)  # can lose 1.5
    f.stake(other, -2.0)  # can lose 0.5
    with pytest.raises(mw.StakeRefused, match="open bets could lose 5; max_exposure is 3") as refused:
        f.stake(q, 6.0)  # would lose 3 more, where 1 is left
    assert refused.value.limit == pytest.approx(2.0)
    with pytest.raises(mw.StakeRefused) as refused:
        f.settle(q, 1, stake=6.0)
    assert refused.value.limit == pytest.approx(2.0)
    f.stake(q, 2.0)
    with pytest.raises(mw.StakeRefused) as refused:
        f.stake(other, -1.0)
    assert refused.value.limit == 0.0
    f.stake(q, -5.0)  # what makes less of a risk is always taken
    assert f.statement().open_exposure == pytest.approx(0.5)


@pytest.mark.parametrize("cap", [1e-6, 1e6])
def test_rounding_never_refuses_a_fresh_forecast_for_the_certificates_sake(cap: float) -> None:
    f = mw.InsuredForecaster(None, mw.Reserve(0.1), mode="sound", max_stake=cap, max_exposure=cap)
    for _ in range(1000):  # a clairvoyant takes all there is
        f.settle(f.forecast(mu=0.3), 1, stake=cap)
    bound = f.statement().certificate.bound or 0.0
    assert bound == pytest.approx(6 * cap)
    assert f.statement().total_loss <= bound * (1 + 1e-9)


def test_what_was_settled_leaves_nothing_behind_in_memory() -> None:
    f = mw.InsuredForecaster(None, mw.Reserve(0.1), mode="sound", max_stake=1)
    for t in range(5000):
        q = f.forecast(mu=0.5)
        f.stake(q, 0.5)
        if t % 7:
            f.settle(q, t % 2)
        else:
            f.void(q)
    book = f.to_state()["book"]
    assert [book[name] for name in ("open", "groups", "accounts", "inner_memories")] == [[]] * 4
    assert len(book["memories"]) == 1
    assert not f.book.opens
    assert not f.book.journal
    assert len(pickle.dumps(f)) < 10_000


@pytest.mark.parametrize("classes", [None, 3])
def test_a_fresh_book_has_the_corrections_it_was_given(classes: int | None) -> None:
    over = mw.NaiveBestResponse()
    over.observe(over.propose(), 0.125, 0.5)
    given = mw.Reserve(0.1, over=over)
    made = mw.InsuredForecaster(None, given, mode="sound", max_stake=1, classes=classes)
    for one in made.corrections:
        assert one.over == over
        assert one.propose() == given.propose()
    assert len(made.corrections) == (classes or 1)
    kept = [(k, part) for k, part, _ in made.to_state()["book"]["inner_memories"]]
    assert kept == [(k, None) for k in range(classes or 1)]


@pytest.mark.parametrize("options", [{}, {"max_exposure": 1e9}])
def test_a_thousand_stakes_on_one_forecast_are_kept_in_order(options: dict[str, Any]) -> None:
    f = mw.InsuredForecaster(None, mw.Reserve(0.1), mode="sound", max_stake=10.0, **options)
    q = f.forecast(mu=0.25, id="UA-1")
    sizes = [(-1.0) ** k * (k % 7) / 1000 for k in range(1000)]
    for k, size in enumerate(sizes):
        assert f.stake("UA-1", size, by=k % 3) == k
    again = mw.InsuredForecaster.from_state(json.loads(json.dumps(f.to_state())))
    batch = mw.InsuredForecaster.from_state(json.loads(json.dumps(f.to_state())))
    for one in (f, again, batch):
        payments = one.settle_many({"UA-1": 1})["UA-1"] if one is batch else one.settle("UA-1", 1)
        assert list(payments) == [size * 0.75 - abs(size) * q.c for size in sizes]
        assert payments.by[1] == pytest.approx(sum(payments[1::3]))
        assert one.to_state()["book"]["open"] == []


def test_a_stake_on_a_busy_forecast_keeps_few_old_values() -> None:
    """The journal of a stake must not grow with the stakes that came before."""
    f = mw.InsuredForecaster(max_stake=1000.0, capital=1e6)
    f.forecast(mu=0.5, id="UA-1")
    lengths = []
    for k in range(300):
        f.book.take(f.book.find_to_change("UA-1"), 0.1, k % 3)
        lengths.append(len(f.book.journal))
        f.book.journal.clear()
    assert len(set(lengths[10:])) == 1
    assert lengths[-1] < 15


@pytest.mark.parametrize("part", [slice(1, None), slice(0, 0)])
def test_a_file_from_which_stakes_were_taken_out_is_refused(part: slice) -> None:
    f = mw.InsuredForecaster(max_stake=10.0)
    f.forecast(mu=0.5, id="UA-1")
    for _ in range(40):
        f.stake("UA-1", 0.1)
    state = json.loads(json.dumps(f.to_state()))
    entry = open_of(state)
    entry["stakes"] = entry["stakes"][part]
    with pytest.raises(ValueError, match="at_risk must be what the open forecasts add up to"):
        mw.InsuredForecaster.from_state(state)


@pytest.mark.parametrize(
    "options",
    [
        {"correction": mw.Reserve(0.5), "mode": "sound"},
        {"correction": mw.Reserve(1.0)},
        {"correction": mw.NoCorrection(), "mode": "sound", "capital": 1.0},
        {"correction": mw.Reserve(0.5), "mode": "sound", "max_exposure": 9.0},
    ],
)
def test_stakes_that_are_too_small_to_change_a_sum_do_not_pass_the_cap(options: dict[str, Any]) -> None:
    """1 + 2⁻⁵³ is 1: any number of such stakes used to be accepted on top of a full one."""
    f = mw.InsuredForecaster(None, max_stake=1.0, c_range=(0.0, 0.0), **options)
    q = f.forecast(mu=0.0)
    f.stake(q, 1.0)
    taken = 0
    for _ in range(100):
        try:
            f.stake(q, 2.0**-53)
        except mw.StakeRefused as error:
            assert error.limit == 0.0  # noqa: PT017 - some fit
        else:
            taken += 1
    assert taken <= 8
    with pytest.raises(mw.StakeRefused, match="over the cap"):
        f.settle(q, 1, stake=2.0**-50)
    bound = f.statement().certificate.bound or 0.0
    assert sum(f.settle(q, 1)) <= bound + 32 * 2**-53 / min(1.0, f.corrections[0].rate or 1.0)


def test_ten_tenths_fit_a_cap_of_one() -> None:
    for parts in (3, 7, 10, 49, 1000):
        f = mw.InsuredForecaster(max_stake=1.0)
        q = f.forecast(mu=0.5)
        for _ in range(parts):
            f.stake(q, 1 / parts)
        with pytest.raises(mw.StakeRefused):
            f.stake(q, 1e-9)
        assert f.statement().open == 1


def test_with_classes_what_rounding_changes_is_booked_where_there_is_a_stake() -> None:
    f = mw.InsuredForecaster(None, mw.Reserve(0.5), max_stake=1, classes=3, c_range=(0.0, 0.0))
    draw, total = np.random.default_rng(0), Fraction(0)
    for _ in range(300):
        q = f.forecast(mu=[0.2, 0.3, 0.5])
        f.stake(q, [0.0, *draw.uniform(-1, 1, 2)])  # nothing on the first class
        total += sum(map(Fraction, f.settle(q, int(draw.integers(3)))))
    booked = sum(Fraction(one.state()["losses"]) + Fraction(one.state()["low"]) for one in f.corrections)
    assert abs(booked - total) < Fraction(2) ** -80


def test_own_numbers_among_the_next_ones_are_stepped_over_at_once() -> None:
    f = mw.InsuredForecaster(max_stake=1)
    for id_ in (3, 4000, 9999):
        f.forecast(mu=0.5, id=id_)
    assert f.forecast_many(mu=[0.5] * 5000).ids == list(range(4001, 9001))
    assert f.forecast_many(mu=[0.5] * 2).ids == [9001, 9002]
    with pytest.raises(ValueError, match="id must be at most 9,223,372,036,854,775,807 as a number"):
        f.forecast(mu=0.5, id=10**5000)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2)])
def test_nothing_is_at_risk_when_nothing_is_open(order: tuple[int, ...]) -> None:
    f = mw.InsuredForecaster(max_stake=1)
    open_ = [f.forecast(mu=0.3) for _ in range(3)]
    for q, stake in zip(open_, (0.1, 0.2, 0.7), strict=True):
        f.stake(q, stake)
    for k in order:
        assert f.statement().open_exposure > 0
        f.settle(open_[k], 0)
    assert f.statement().open_exposure == 0.0


def test_negative_prices_are_counted_also_where_only_one_of_two_batches_has_them() -> None:
    f = mw.InsuredForecaster(None, mw.NoCorrection(), max_stake=1, c_range=(-0.5, 0.5))
    ids = [
        *f.forecast_many(mu=[0.5, 0.5], c_hat=[0.1, 0.2]).ids,
        *f.forecast_many(mu=[0.5], c_hat=[-0.1]).ids,
    ]
    f.settle_many(dict.fromkeys(ids, 1))
    assert f.statement().negative_c == 1
    f.settle_many(dict.fromkeys(f.forecast_many(mu=[0.5] * 3, c_hat=[-0.1, 0.1, -0.2]).ids, 1))
    assert f.statement().negative_c == 3
