"""The study of honesty: false reports in the market, the search for the best one, claims and title."""

from typing import Any

import numpy as np
import pytest

from makewhole import datasets, studies
from makewhole.studies import _market, flights, honesty, honesty_claims, honesty_figures
from makewhole.studies.flights import FlightSettings, Reporting
from makewhole.studies.flights_claims import UNINSURED
from makewhole.studies.honesty_claims import CAPITAL, HALF_TOLD, PRICE_SHOWN, Seasons

SMALL = FlightSettings(people=200, seats=60)
COLUMN = {name: k for k, name in enumerate(_market.COLUMNS)}
WAYS = (UNINSURED, "swap", CAPITAL, f"swap{HALF_TOLD}", f"swap{PRICE_SHOWN}")
REPORTS = (0.0, 0.5, 1.0, 2.0)


@pytest.fixture(scope="module")
def events() -> datasets.Events:
    return datasets.load_flights().take(np.arange(2000, 2400))


def made_up(slopes: dict[str, float], **columns: Any) -> list[dict[str, Any]]:
    """Return results in which a report of 0 earns `slope` dollars more than honesty; others in proportion.

    A report of r has a mean and a widest gap of 0.2·|1 − r|, and 10 dollars are trusted.
    """
    return [
        {
            "mix": mix,
            "way": way,
            "seed": seed,
            "seasons": [
                {
                    "how": "given",
                    "report": report,
                    "income": 40 + seed / 100 + (slopes.get(way, 0.0) + seed / 50) * (1 - report),
                    "bets": 0.0,
                    "turnover": 20.0,
                    "trustful": report * (1 + seed / 100),
                    "cautious": 0.0,
                    "trusted": 10.0,
                    "oftener": 0.5,
                    "mean_gap": 0.2 * abs(1 - report),
                    "worst_gap": 0.2 * abs(1 - report),
                }
                | {name: value(report) for name, value in columns.items()}
                for report in REPORTS
            ],
        }
        for seed in range(3)
        for mix in ("10/45/45", "90/5/5")
        for way in WAYS
    ]


def verdicts(claims: list[Any]) -> list[str]:
    return [claim.verdict for claim in claims]


# --- claims -----------------------------------------------------------------------------------------------


def test_a_lie_that_pays_is_called_so_and_one_that_does_not_too() -> None:
    pays = made_up({UNINSURED: 2.0, "swap": 1.0, CAPITAL: -1.0})
    assert verdicts(honesty_claims.half_the_risk_pays(pays)) == ["holds", "fails", "holds"]
    assert verdicts(honesty_claims.best_response_is_honest(pays)) == ["holds", "fails", "fails"]
    assert verdicts(honesty_claims.insurance_makes_lies_pay_less(pays)) == ["holds"]
    honest = made_up({UNINSURED: -2.0, "swap": -2.0, CAPITAL: 0.1})
    assert verdicts(honesty_claims.half_the_risk_pays(honest)) == ["fails", "holds", "fails"]
    assert honesty_claims.best_response_is_honest(honest)[2].verdict == "holds"  # 0.1 is under 1 % of 40


def test_the_best_report_is_named_with_its_gain() -> None:
    claim = honesty_claims.best_response_is_honest(made_up({UNINSURED: 2.0}))[0]
    assert "10/45/45: 0.00, 2.02 [1.97, 2.07]" in claim.numbers
    assert "each flight" not in claim.numbers  # no such season was flown


def test_a_shown_price_is_judged_by_itself() -> None:
    results = made_up({"swap": 3.0, f"swap{HALF_TOLD}": 1.0, f"swap{PRICE_SHOWN}": -0.3})
    half, _, everyone, _ = honesty_claims.shown_prices_make_honesty_pay(results)
    assert (half.verdict, everyone.verdict) == ("fails", "holds")
    assert everyone.where.startswith("§8, “Future work")


def test_a_bond_works_from_the_multiple_that_is_named() -> None:
    # A report of 0 gains 3 (a little more by seed); a gap of 0.2 on 10 dollars costs 2: enough from 1.5.
    once, twice, *_ = honesty_claims.bonds_make_honesty_pay(made_up({"swap": 3.0}))
    assert (once.verdict, twice.verdict) == ("fails", "holds")
    assert "enough from 10/45/45: 1.51 [" in once.numbers
    unseen = honesty_claims.bonds_make_honesty_pay(made_up({"swap": 3.0}, mean_gap=lambda report: 0.1))
    assert unseen[1].verdict == "fails"  # an audit that sees no difference deters nobody
    assert "no multiple" in unseen[1].numbers


@pytest.mark.parametrize(
    ("won", "expected"), [(0.0, ["holds", "holds"]), (1.0, ["fails", "holds"]), (-1.0, ["holds", "fails"])]
)
def test_both_sides_of_the_insurance_are_watched(won: float, expected: list[str]) -> None:
    results = made_up({}, bets=lambda report: won * (1 - report))
    assert verdicts(honesty_claims.insured_are_safe(results))[:2] == expected


def test_the_trustful_pay_only_if_they_lose() -> None:
    assert honesty_claims.trustful_pay(made_up({}))[0].verdict == "holds"
    assert honesty_claims.trustful_pay(made_up({}, trustful=lambda report: -report))[0].verdict == "fails"


# --- the figure -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("slopes", "words"),
    [
        ({UNINSURED: 2.0, "swap": 1.0, f"swap{PRICE_SHOWN}": -1.0}, ("all 2", "all 2", "none", "none")),
        ({UNINSURED: 2.0, "swap": 9.0, f"swap{PRICE_SHOWN}": 1.0}, ("all 2", "all 2", "all 2", "all 2")),
        ({UNINSURED: 2.0, "swap": -1.0, f"swap{PRICE_SHOWN}": -1.0}, ("all 2", "none", "none", "none")),
        ({UNINSURED: -2.0, "swap": 9.0, f"swap{PRICE_SHOWN}": -1.0}, ("none", "all 2", "none", "all 2")),
    ],
)
def test_the_title_follows_the_data(slopes: dict[str, float], words: tuple[str, ...]) -> None:
    plain, insured, shown, bond = words
    assert honesty_figures.title(Seasons(made_up(slopes))) == (
        "An airline that reports half of its risk earns more: "
        f"at {plain} mixes of passengers without insurance, at {insured} with it;\n"
        f"at {shown} if all see the insurance's price, and at {bond} with a bond on the audited gap"
    )


# --- seasons ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("peak", np.linspace(-0.1, 2.1, 45).tolist())
def test_the_search_comes_near_the_best_report(peak: float) -> None:
    def measure(report: float) -> dict[str, Any]:
        return {"report": report, "income": -((report - peak) ** 2)}

    given = [measure(report) for report in honesty.REPORTS]
    left, right, third = (season["report"] for season in honesty._search(given, measure))
    at = int(np.argmin(np.abs(np.array(honesty.REPORTS) - peak)))
    low, high = honesty.REPORTS[max(at - 1, 0)], honesty.REPORTS[min(at + 1, len(honesty.REPORTS) - 1)]
    assert low < left < right < high
    if abs(left - peak) <= abs(right - peak):
        assert low < third < left
    else:
        assert right < third < high
    # The five points and the given one are at most 0.382 of the bracket apart.
    nearest = min(abs(one - min(max(peak, 0), 2)) for one in (low, left, right, third, high))
    assert nearest <= 0.192 * (high - low)


@pytest.mark.slow
def test_each_flight_gets_the_report_with_the_highest_expected_income(events: datasets.Events) -> None:
    picked = set()
    for at in range(0, 60, 3):
        one = events.take(np.array([at]))
        both = Reporting((0.25, 1.0, 1.75))
        chosen = flights.simulate(one, 0.9, "none", at, SMALL, reporting=both)[0]
        expected = {}
        for report in both.reports:
            row = flights.simulate(one, 0.9, "none", at, SMALL, reporting=Reporting((report,)))[0]
            believed = row[COLUMN["mu"]] / report
            asked = row[COLUMN["mu"]] + row[COLUMN["c"]]
            expected[report] = row[COLUMN["revenue"]] + row[COLUMN["stake"]] * (asked - believed)
        best = max(expected, key=lambda report: float(expected[report]))
        assert chosen[COLUMN["report"]] == best
        picked.add(best)
    assert len(picked) > 1  # or it would be no test


@pytest.mark.slow
def test_a_liar_with_a_capital_never_loses_more(events: datasets.Events) -> None:
    caps = 3.0
    way = honesty.make_way(CAPITAL, SMALL, caps)
    reporting = Reporting((0.0,), capital=caps)
    out = flights.simulate(events, 0.9, CAPITAL, 0, way.settings, way.own, reporting)
    cap = SMALL.seats * 0.2 * np.exp(9)
    lost = -np.cumsum(out[:, COLUMN["bets"]])
    assert 0.5 * caps * cap < lost.max() <= caps * cap


@pytest.mark.slow
def test_a_lie_brings_more_of_the_trustful_on_board_and_leaves_the_naive_alone(
    events: datasets.Events,
) -> None:
    def fly(report: float, trustful: float) -> Any:
        return flights.simulate(
            events, 0.0, UNINSURED, 0, SMALL, reporting=Reporting((report,), trustful=trustful)
        )

    trusted, price = COLUMN["trusted"], COLUMN["price"]
    assert fly(0.25, 0.5)[:, trusted].sum() > 1.2 * fly(1.0, 0.5)[:, trusted].sum()
    assert (fly(0.25, 0.0)[:, price] == fly(1.0, 0.0)[:, price]).all()


@pytest.mark.slow
def test_an_audit_sees_a_false_report_and_not_an_honest_one() -> None:
    draw = np.random.default_rng(1)
    mu = draw.uniform(0.1, 0.5, 4000)
    coins = studies.make_events(np.ones((4000, 1)), (draw.random(4000) < mu).astype(float))
    out = np.zeros((4000, len(_market.COLUMNS)))
    out[:, 0] = mu
    assert honesty._gaps(out, coins) == (0.0, 0.0)
    out[:, 0] = mu / 2
    mean, widest = honesty._gaps(out, coins)
    assert 0.05 < mean < 0.16  # the true mean gap is 0.15, and the widest 0.25
    assert mean < widest < 0.26


# --- the study --------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_study_runs_and_reports_what_it_measured(tmp_path: Any) -> None:
    got = studies.run(
        "honesty", rounds=150, seeds=2, shares=[0.3], corrections=["swap"], jobs=1, out=tmp_path
    )
    table = got.results
    ways = [UNINSURED, "swap", CAPITAL, f"swap{HALF_TOLD}", f"swap{PRICE_SHOWN}", f"{CAPITAL}{PRICE_SHOWN}"]
    assert table["way"].unique(maintain_order=True).to_list() == ways
    assert set(table["how"]) == {"given", "searched", "per flight"}
    income = table["revenue"] + table["bets"]
    assert np.allclose(income, table["income"])
    best = got.summary["best_gain"].to_numpy()
    assert (best >= 0).all()  # the honest report is one of those that were tried
    assert got.judged[0].verdict == "holds"  # without insurance, a lie pays
    assert (tmp_path / "honesty" / "honesty.png").exists()


@pytest.mark.slow
def test_names_that_the_study_uses_itself_are_refused() -> None:
    mine = {CAPITAL: studies.LINEUP["swap"]}
    with pytest.raises(ValueError, match="corrections must not be called 'capital'"):
        studies.run("honesty", corrections=mine, rounds=50, seeds=1)
