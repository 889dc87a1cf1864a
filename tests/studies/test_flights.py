"""The flight study: the compiled season against a slow, obvious one, flight by flight."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import makewhole as mw
from makewhole import datasets, studies
from makewhole.forecasters import SparseRow, TwoLayerLearner
from makewhole.studies import _market, flights, honesty
from makewhole.studies.flights_claims import UNINSURED
from makewhole.studies.honesty_claims import CAPITAL
from makewhole.studies.lineup import make_correction

MASK = 0xFFFFFFFF


def hashed(i: int, first: int, second: int) -> float:
    """The season's random numbers in Python's own integers."""
    word = (i * 0x9E3779B9 + first) & MASK
    word ^= word >> 16
    word = (word * 0x846CA68B) & MASK
    word = ((word ^ (word >> 15)) + second) & MASK
    word ^= word >> 16
    word = (word * 0x21F0AAAD) & MASK
    word ^= word >> 15
    word = (word * 0x735A2D97) & MASK
    word ^= word >> 15
    return (word + 0.5) / 2**32


class Scaled:
    """A base learner that reports a multiple of the risk it believes in."""

    def __init__(self, learner: TwoLayerLearner, report: float) -> None:
        self.learner, self.report = learner, report

    def predict(self, x: Any) -> tuple[float, float]:
        mu, c_hat = self.learner.predict(x)
        return min(self.report * mu, 1.0), c_hat

    def learn(self, x: Any, y: Any, **bets: Any) -> None:
        self.learner.learn(x, y, **bets)


def slow_season(
    events: datasets.Events,
    share: float,
    correction: str,
    seed: int,
    settings: flights.FlightSettings,
    reporting: flights.Reporting = flights.Reporting(),  # noqa: B008 - it cannot be changed
) -> list[dict[str, float]]:
    """Algorithm 1 and the market in plain Python: objects, lists, `sorted` and `math.exp`."""
    insured = correction != UNINSURED
    learner: Any = TwoLayerLearner(
        events.inputs,
        settings.hidden,
        mu_rate=settings.mu_rate,
        c_rate=settings.c_rate,
        c_range=settings.c_range,
        seed=seed,
    )
    if settings.authors:
        rate = 4e-4
        optimizer: Any = "adam"
        learner = TwoLayerLearner(
            events.inputs, settings.hidden, mu_rate=rate, c_rate=rate, optimizer=optimizer,
            c_range=settings.c_range, seed=seed,
        )  # fmt: skip
    learner = Scaled(learner, reporting.reports[0])
    n, betting = settings.people, settings.people if settings.authors else settings.seats
    cap = betting * 0.2 * math.exp(9)
    base = None if settings.authors else learner  # theirs learns from dollars, so it is taught below
    terms: Any = {"max_stake": cap, "c_range": settings.c_range, "lines": None, "thaw": None}
    if math.isfinite(reporting.capital):
        chosen: Any = mw.Barrier(reporting.capital * cap, spread=0.02)
        terms |= {"mode": "sound", "capital": reporting.capital * cap}
    else:
        chosen = make_correction(correction if insured else "none", len(events), settings.c_range, seed)
    f = mw.InsuredForecaster(base, chosen, **terms)
    keys = np.random.default_rng(seed).integers(0, 2**32, (len(events), 2), dtype=np.uint32).tolist()
    cautious = round(share * n)
    naive = (
        (n - cautious) // 2 if reporting.trustful is None else n - cautious - round(reporting.trustful * n)
    )
    told = n - round(reporting.told * (n - cautious - naive))
    rows = []
    for t in range(len(events)):
        at = slice(events.indptr[t], events.indptr[t + 1])
        x = SparseRow(events.indices[at], events.data[at])
        mu, c_hat = learner.predict(x)
        q = f.forecast(mu=mu, c_hat=c_hat) if settings.authors else f.forecast(x)
        people = []
        for i in range(n):
            r_alt, r_trip = 200 * hashed(i, *keys[t]), 400 * hashed(i + n, *keys[t])
            r_trip = max(r_trip, r_alt)
            c_delay = 0.2 * math.exp(4 + 5 * hashed(i + 2 * n, *keys[t]))
            kind = "cautious" if i < cautious else "naive" if i < cautious + naive else "trustful"
            fear = {"cautious": q.mu + q.c if insured else 1.0, "naive": 0.0, "trustful": q.mu}[kind]
            if insured and i >= told:
                fear = q.mu + q.c
            people.append((r_trip - r_alt - fear * c_delay, kind, r_alt, r_trip, c_delay))
        ticket = sorted((p[0] for p in people), reverse=True)[settings.seats]
        y = int(events.outcome[t])
        row = {"mu": q.mu, "c": q.c, "price": ticket, "stake": 0.0, "revenue": 0.0, "bets": 0.0}
        row |= {"cautious": 0.0, "naive": 0.0, "trustful": 0.0, "flying": 0.0, "trusted": 0.0}
        for price, kind, r_alt, r_trip, c_delay in people:
            if kind == "cautious" and insured and (settings.authors or price > ticket):
                f.stake(q, c_delay)
                row["stake"] += c_delay
            if price <= ticket:
                row[kind] += r_alt
                continue
            row["revenue"] += ticket
            row["flying"] += kind == "cautious"
            row["trusted"] += c_delay if kind == "trustful" else 0.0
            row[kind] += r_trip - ticket - y * c_delay
        paid = sum(f.settle(q, y))
        if settings.authors:
            learner.learn(x, y, mu=mu, net=row["stake"], gross=row["stake"])
        row["cautious"] += paid
        row["bets"] = -paid
        row["utility"] = row["revenue"] + row["bets"] + row["cautious"] + row["naive"] + row["trustful"]
        rows.append(row)
    return rows


@pytest.fixture(scope="module")
def events() -> datasets.Events:
    return datasets.load_flights().take(np.arange(2000, 2040))


@pytest.mark.slow
@pytest.mark.parametrize("correction", [UNINSURED, "none", "swap", "deterministic swap", "standard 0.1"])
@pytest.mark.parametrize("share", [0.3, 0.9])
def test_the_compiled_season_is_the_slow_one_flight_by_flight(
    events: datasets.Events, correction: str, share: float
) -> None:
    settings = flights.FlightSettings(people=200, seats=60)
    fast = flights.simulate(events, share, correction, seed=3, settings=settings)
    slow = slow_season(events, share, correction, seed=3, settings=settings)
    for k, name in enumerate(_market.COLUMNS):
        if name in slow[0] and not (correction == UNINSURED and name == "c"):
            expected = np.array([row[name] for row in slow])
            assert np.allclose(fast[:, k], expected, rtol=1e-9, atol=1e-7), name


@pytest.mark.slow
@pytest.mark.parametrize(
    ("correction", "reporting"),
    [
        (UNINSURED, flights.Reporting((0.5,), trustful=0.6)),
        ("swap", flights.Reporting((0.25,), told=0.5)),
        ("deterministic swap", flights.Reporting((2.0,), told=1.0, trustful=0.1)),
        (CAPITAL, flights.Reporting((0.5,), capital=0.2)),
    ],
)
def test_a_season_of_false_reports_is_the_slow_one_flight_by_flight(
    events: datasets.Events, correction: str, reporting: flights.Reporting
) -> None:
    ways = honesty.make_way(correction, flights.FlightSettings(people=200, seats=60), reporting.capital)
    fast = flights.simulate(events, 0.3, correction, 3, ways.settings, ways.own, reporting)
    slow = slow_season(events, 0.3, correction, 3, ways.settings, reporting)
    for k, name in enumerate(_market.COLUMNS):
        if name in slow[0] and not (correction == UNINSURED and name == "c"):
            expected = np.array([row[name] for row in slow])
            assert np.allclose(fast[:, k], expected, rtol=1e-9, atol=1e-7), name


@pytest.mark.slow
@pytest.mark.parametrize("correction", ["swap ±0.1", "naive", UNINSURED])
def test_the_authors_season_is_the_slow_one_flight_by_flight(
    events: datasets.Events, correction: str
) -> None:
    settings = flights.FlightSettings(people=200, seats=60, authors=True)
    fast = flights.simulate(events, 0.5, correction, seed=3, settings=settings)
    slow = slow_season(events, 0.5, correction, seed=3, settings=settings)
    for k, name in enumerate(_market.COLUMNS):
        if name in slow[0] and not (correction == UNINSURED and name == "c"):
            expected = np.array([row[name] for row in slow])
            assert np.allclose(fast[:, k], expected, rtol=1e-8, atol=1e-6), name
    ours = flights.simulate(
        events, 0.5, correction, seed=3, settings=flights.FlightSettings(people=200, seats=60)
    )
    if correction != UNINSURED:  # they count the bets of those who stay at home
        stake = _market.COLUMNS.index("stake")
        assert (fast[:, stake] > ours[:, stake]).all()


@pytest.mark.slow
def test_to_the_cent_also_at_full_size(events: datasets.Events) -> None:
    few = events.take(np.arange(5))
    fast = flights.simulate(few, 0.5, "swap", seed=0, settings=flights.FlightSettings())
    slow = slow_season(few, 0.5, "swap", seed=0, settings=flights.FlightSettings())
    assert np.abs(fast[:, _market.COLUMNS.index("revenue")] - [r["revenue"] for r in slow]).max() < 0.01
    assert np.abs(fast[:, _market.COLUMNS.index("utility")] - [r["utility"] for r in slow]).max() < 0.01


@pytest.mark.slow
@pytest.mark.parametrize("guess", [-5000.0, 0.0, 130.0, 5000.0])
def test_the_price_is_the_301st_highest_from_any_guess(guess: float) -> None:
    draw = np.random.default_rng(0)
    scratch = np.empty(1001)
    for scale in (1.0, 100.0, 1e4):
        for prices in (
            draw.normal(130, scale, 1000),
            np.round(draw.normal(130, scale, 1000), -1),
            np.full(1000, 7.0),
        ):
            expected = np.sort(prices)[::-1][300]
            assert _market.select(prices, 300, guess, scratch) == expected


def test_the_random_numbers_are_uniform_and_fresh() -> None:
    draws = np.array([[hashed(i, a, b) for i in range(3000)] for a, b in ((1, 2), (3, 2), (1, 5), (99, 98))])
    flat = np.sort(draws.ravel())
    # Kolmogorov–Smirnov at a level of 0.1 %, on 12,000 fixed numbers
    assert np.abs(flat - (np.arange(12_000) + 0.5) / 12_000).max() < 1.95 / math.sqrt(12_000)
    assert np.abs(np.corrcoef(draws) - np.eye(4)).max() < 4 / math.sqrt(3000)
    assert len(set(draws.ravel().tolist())) > 11_990


def test_e_to_the_x_is_right_to_14_digits() -> None:
    xs = np.linspace(0, 19.9, 2001)
    errors = [abs(_market.exponential(x) / math.exp(x) - 1) for x in xs.tolist()]
    assert max(errors) < 1e-13


@pytest.mark.slow
def test_a_sweep_is_judged_and_insurance_pays(tmp_path: Path) -> None:
    outcome = studies.run(
        "flights", rounds=2000, seeds=2, shares=(0.3, 0.7), corrections=("swap", "none"), jobs=1, out=tmp_path
    )
    assert [c.verdict for c in outcome.judged[:2]] == ["holds", "holds"]
    names = {p.name for p in (tmp_path / "flights").iterdir()}
    assert names == {
        "results.parquet", "summary.parquet", "settings.json", "report.html", "airline.png", "airline.svg",
        "airline_corrections.png", "airline_corrections.svg", "airline_welfare.png", "airline_welfare.svg",
        "airline_extension.png", "airline_extension.svg", "airline_levels.png", "airline_levels.svg",
        "airline_levels_more.png", "airline_levels_more.svg",
        "makewhole-files.json",
    }  # fmt: skip
    page = (tmp_path / "flights" / "report.html").read_text()
    assert "data:image/png;base64," in page
    assert "http" not in page.replace("http://www.w3.org", "")  # nothing is loaded from elsewhere


@pytest.mark.slow
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda e: flights.simulate(e, 1.5, "swap", 0, flights.FlightSettings()),
            r"cautious share must lie in \[0, 1\]",
        ),
        (
            lambda e: flights.simulate(e, 0.5, "luck", 0, flights.FlightSettings()),
            "correction must be one of none,",
        ),
        (
            lambda e: flights.simulate(e, 0.5, "swap", 0, flights.FlightSettings(seats=1000)),
            "seats must be fewer than people",
        ),
        (
            lambda e: datasets.load_flights(airline="ZZ"),
            "airline must be one that is in flights.csv.zip: 9E, AA",
        ),
        (lambda e: datasets.load_flights("/no/such.csv"), "does not exist"),
    ],
)
def test_what_does_not_fit_is_named(events: datasets.Events, call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call(events)
