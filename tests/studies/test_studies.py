"""The benchmark, the adversaries, the claims and the sweeps, each against something independent."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import makewhole as mw
from makewhole import datasets, studies
from makewhole.forecasters import SparseRow, TwoLayerLearner
from makewhole.protocol import Chance
from makewhole.studies import (
    adversaries,
    claims,
    decisions,
    decisions_claims,
    flights,
    flights_claims,
    lineup,
    logs,
)
from makewhole.studies.lineup import LINEUP, make_correction
from makewhole.studies.sweep import sweep


def small_events(rows: int = 300) -> datasets.Events:
    """A few events in the shape of the benchmark's, with a known probability."""
    draw = np.random.default_rng(0)
    z = draw.integers(0, 10, rows)
    probability = (z + 1) / 11
    return datasets.Events(
        name="small",
        inputs=12,
        indptr=np.arange(rows + 1) * 2,
        indices=np.stack([z, np.full(rows, 11)], axis=1).ravel(),
        data=draw.uniform(0.5, 1, 2 * rows),
        outcome=(draw.random(rows) < probability).astype(float),
        z=z,
        probability=probability,
    )


@pytest.mark.slow
def test_the_batched_networks_are_twenty_learners_of_their_own() -> None:
    events, settings = small_events(), decisions.DecisionSettings(hidden=4, mu_rate=0.02, c_rate=0.02)
    made = decisions.predict_and_stake(events, settings, seed=1)
    weights = np.random.default_rng(1).normal(size=(13, 80)) / np.sqrt(12)
    for k in (0, 8, 19):
        alone = TwoLayerLearner(12, 4, mu_rate=0.02, c_rate=0.02, c_range=settings.c_range, seed=1)
        alone.internals[0][1][0][:-1] = weights[
            :-1, 4 * k : 4 * k + 4
        ]  # the same first weights of c's network
        alone.internals[0][1][0][-1] = 0
        for t in range(len(events)):
            row = SparseRow(events.indices[2 * t : 2 * t + 2], events.data[2 * t : 2 * t + 2])
            mu, c = alone.predict(row)
            assert mu == pytest.approx(made.mu[t], abs=1e-12)
            assert c == pytest.approx(made.c_hat[t, k], abs=2e-4)  # single precision, after 300 steps
            table = made.tables[k, events.z[t]]
            plan = mw.decide(mw.Forecast(mu), table, rule="trustful")
            assert plan.action == made.action[t, k]
            stake = mw.hedge(table[plan.action])
            assert stake == made.stake[t, k]
            b = stake / made.caps[k]
            alone.learn(row, events.outcome[t], mu=mu, net=b, gross=abs(b))


def test_the_tasks_are_what_the_paper_says() -> None:
    tables = decisions.draw_tables(0)
    assert tables.shape == (20, 10, 2, 2)
    right, wrong = tables[:7, :, [0, 1], [0, 1]], tables[:7, :, [1, 0], [0, 1]]
    assert right.min() >= 0
    assert right.max() <= 1
    assert wrong.max() <= 10
    assert (tables[7:14, 0] == 0).all()  # z = 0: nothing is at stake
    assert np.abs(tables[14:]).max() == 10


@pytest.mark.parametrize("correction", ["none", "naive", "swap", "deterministic swap", "standard 0.1"])
@pytest.mark.parametrize("agent", ["clairvoyant", "phase doubling", "draw reading", "pushing"])
def test_compiled_games_are_those_of_the_agents(agent: str, correction: str) -> None:
    rounds = 600
    nature = Chance(1.0)
    chosen = make_correction(correction, rounds, (0.0, 0.0), seed=4)
    f = mw.InsuredForecaster(lambda x: 0.5, chosen, max_stake=1, c_range=(0.0, 0.0))
    players: dict[str, Callable[[], Any]] = {
        "clairvoyant": lambda: mw.agents.Clairvoyant(nature.outcome),
        "phase doubling": lambda: mw.agents.PhaseDoubling(nature.outcome),
        "draw reading": lambda: mw.agents.DrawReader(chosen, rounds, nature.outcome),
        "pushing": lambda: mw.agents.Pusher(nature.outcome),
    }
    player = players[agent]()
    expected = mw.play(nature, f, player, rounds).mean_loss
    assert adversaries.mean_loss(agent, correction, rounds, seed=4) == pytest.approx(expected, abs=1e-12)


def test_an_insider_wins_what_he_knows_until_c_stops_him() -> None:
    assert adversaries.mean_loss("insider", "none", 100_000, 0) == pytest.approx(
        0.2, abs=0.01
    )  # 6 deviations
    assert abs(adversaries.mean_loss("insider", "deterministic swap", 100_000, 0)) < 0.001


@pytest.mark.slow
def test_bounds_are_kept_and_swap_loses_to_the_reader() -> None:
    settings = adversaries.AdversarySettings((1000, 10_000, 100_000, 1_000_000))
    results = [adversaries.run(settings, name, 0) for name in LINEUP]
    for r in results:
        for agent in adversaries.AGENTS:
            for t, loss, kept in zip(r["rounds"], r["losses"][agent], r["bounds"], strict=True):
                promised = lineup.bound_of(make_correction(r["correction"], t), t)
                assert kept == (promised and promised.mean_loss)
                assert promised is None or abs(loss) <= promised.mean_loss
    verdicts = {c.text: c.verdict for judge in adversaries.JUDGES for c in judge(results)}
    assert verdicts["Algorithm 3's mean loss vanishes against any agent"] == "fails"
    exists = "an algorithm exists whose mean loss goes to 0 against any agent"
    assert verdicts[f"{exists}, with c in (0, 1)"] == "fails"
    assert verdicts[f"{exists}, if c may be negative"] == "holds"
    assert verdicts["deterministic swap keeps to its bound, which vanishes, against everyone"] == "holds"
    leader = (
        "follow-the-leader, the paper's minimiser of standard regret, does not guarantee a vanishing loss"
    )
    assert verdicts[leader] == "holds"
    needed = "an algorithm has to minimise swap regret for its loss to vanish against any agent"
    assert verdicts[needed] == "fails"


def test_one_yardstick_tells_what_falls_from_what_stays() -> None:
    sizes = {"halves": [0.4, 0.3, 0.2, 0.1], "stays": [0.17] * 4, "swings": [0.1, 0.02, 0.1, 0.03]}
    sizes["trifle"] = [1e-4, 1e-4, 1e-4, 9e-4]
    assert set(adversaries._staying(sizes)) == {"stays", "swings"}
    short = [{"correction": "swap", "rounds": [10, 100, 1000], "losses": {"clairvoyant": [0.1] * 3}}]
    assert adversaries._judge_fall(short, "swap") == (
        "undecided",
        "it takes games of four lengths to see what falls",
    )
    assert adversaries._judge_fall(short, "naive") is None


@pytest.mark.slow
def test_the_frontier_is_written_and_no_certificate_is_broken(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.delenv("MAKEWHOLE_DATA", raising=False)
    outcome = studies.run("frontier", rounds=600, seeds=2, jobs=1, out=tmp_path)
    verdicts = {c.text: c.verdict for c in outcome.judged}
    assert verdicts["no book was ever down by more than its certificate"] == "holds"
    assert (
        verdicts["the guard charges at most one cap more than any policy with its certificate must, above ĉ"]
        == "holds"
    )
    assert verdicts["the noise in a reserve's λ is what the formula says"] == "holds"
    assert set(outcome.files) == {"frontier", "nearness"}
    table = pl.read_parquet(tmp_path / "frontier" / "results.parquet")
    assert set(table["log"]) == {"coins", "flights"}  # what needs no download
    certified = table.filter(pl.col("capital").is_not_null())
    assert (certified["worst"] <= certified["capital"]).all()
    assert certified.height == 2 * 2 * 2 * 4 * 5  # seeds, logs, scenes, corrections, capitals
    # Whoever keeps to a capital D must charge what all bets would have won at most, less D.
    assert (certified["charged"] >= certified["most_won"] - certified["capital"] - 1e-9).all()


@pytest.mark.slow
def test_the_market_is_open_with_a_barrier_and_closed_by_deterministic_swap(
    tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.delenv("MAKEWHOLE_DATA", raising=False)
    corrections = ["deterministic swap", "reserve 0.01"]
    monkeypatch.setattr(logs, "available", lambda: ("coins",))
    outcome = studies.run("market", rounds=600, seeds=1, jobs=1, out=tmp_path, corrections=corrections)
    verdicts = {c.text.partition(":")[0]: c.verdict for c in outcome.judged}
    assert verdicts["no certificate was broken"] == "holds"
    assert verdicts["nobody took more than her line, whether she knew better or was lucky"] == "holds"
    assert verdicts["deterministic swap alone"] == "fails"
    assert verdicts["barrier with lines, thaw"] == "holds"
    table = pl.read_parquet(tmp_path / "market" / "results.parquet")
    assert table.height == 6 * 5 * 4
    assert set(outcome.files) == {
        "open_market",
        "open_market_taken",
        "open_market_premium",
        "open_market_worst",
    }
    honest = table.filter((pl.col("scene") == "honest customers only") & (pl.col("correction") == "barrier"))
    assert (honest["taken"] == 0).all()
    assert (honest["premium"] > 0.019).all()


def test_claims_are_judged_by_their_intervals() -> None:
    assert claims.positive([1.0, 1.1, 0.9])[0] == "holds"
    assert claims.positive([-1.0, -1.1, -0.9])[0] == "fails"
    assert claims.positive([1.0, -1.0, 0.2])[0] == "undecided"
    assert claims.positive([5.0])[0] == "undecided"  # one seed proves nothing
    measured = claims.interval([1.0, 2.0, 3.0])
    assert measured.mean == 2.0
    assert measured.high == pytest.approx(2 + 4.303 / np.sqrt(3), abs=1e-3)


def test_students_quantiles_are_scipys() -> None:
    from scipy.stats import t

    for freedom in (1, 2, 3, 4, 5, 9, 10, 31):
        for risk in (0.2, 0.05, 0.01, 0.05 / 20):
            expected = float(t.ppf(1 - risk / 2, freedom))
            assert claims.student(freedom, risk) == pytest.approx(expected, rel=1e-9)


@pytest.mark.slow
def test_of_many_comparisons_one_below_zero_by_chance_is_not_called_a_failure() -> None:
    draw = np.random.default_rng(0)
    called = 0
    for _ in range(400):
        # Twenty differences of mean 0: the claim that all are above 0 is true of none and false of none.
        called += claims.all_positive({k: draw.normal(size=5).tolist() for k in range(20)}) == "fails"
    # At most 2.5 % (one side); 400 draws: the mean is 10, and 3.3 standard deviations above it 20.
    assert called <= 20
    one_bad = {k: [1.0, 1.1, 0.9] for k in range(20)} | {0: [-5.0, -5.01, -4.99]}
    assert claims.all_positive(one_bad) == "fails"
    assert claims.all_positive(one_bad | {0: [0.1, -0.2, 0.05]}) == "undecided"


def season(correction: str, seed: int, revenue: float, **columns: float) -> dict[str, Any]:
    """A season of four moments, with the same numbers at each."""
    values = {"utility": -float(seed), "bets": 0.0, "cautious": 0.0, "naive": 0.0, "trustful": 0.0} | columns
    made = {name: np.full(4, value) for name, value in values.items()}
    made["revenue"] = np.full(4, revenue + 0.01 * seed)
    run = {"share": 0.3, "correction": correction, "seed": seed, "rounds": np.array([1, 10, 100, 1000])}
    run |= {"turnover": 10.0, "mean_flying": 100.0, "mean_price": 130.0, "mean_size_of_c": 0.05}
    return run | made


NEARER = "at the end, in the mean over shares, swap's bets are nearer to balance than those of"


def judged_flights(results: list[dict[str, Any]]) -> dict[str, str]:
    return {c.text: c.verdict for judge in flights_claims.JUDGES for c in judge(results)}


def test_a_claim_that_does_not_hold_is_said_not_to_hold() -> None:
    worse = [
        season(c, s, r)
        for s in range(3)
        for c, r in ((flights_claims.UNINSURED, 40.0), ("swap", 39.0), ("none", 39.5))
    ]
    verdicts = judged_flights(worse)
    start, share = "insurance (swap) raises", "at every share of cautious passengers"
    assert verdicts[f"{start} the airline's revenue {share}"] == "fails"
    assert verdicts[f"{start} total utility {share}"] == "undecided"  # it is the same
    for when in ("with fewer flights", "after the whole season"):
        assert (
            verdicts[f"{when}, revenue is better with Algorithm 3 (swap) than without it (none)"] == "fails"
        )
    assert (
        verdicts[f"{NEARER} the paper's alternatives (none, follow-the-leader)"] == "undecided"
    )  # nobody's are nearer
    assert verdicts["no type of passenger is worse off, at any share"] == "undecided"  # all as before
    free = "insurance (swap) costs the airline nothing, at any share of cautious passengers"
    assert verdicts[free] == "fails"  # revenue is down
    assert verdicts["the airline does not lose on the insurance (swap) in the long run"] == "holds"
    losing = [r | {"bets": np.full(4, -0.5)} for r in worse]  # a twentieth of what is insured
    assert (
        judged_flights(losing)["the airline does not lose on the insurance (swap) in the long run"] == "fails"
    )
    alone = [r for r in worse if r["correction"] != "none"]
    assert not any("balance" in text for text in judged_flights(alone))  # a race of one is no race


def test_who_gains_and_who_converges_is_judged_by_the_right_columns() -> None:
    def run(correction: str, seed: int) -> dict[str, Any]:
        made = season(correction, seed, 40.0, cautious=5.0 + seed / 10, naive=1.0, trustful=1.0)
        made["bets"] = np.array([4.0, 2.0, 1.0, {"swap": 0.1, "none": 0.5}.get(correction, 0.0) + seed / 100])
        late = {"swap": 2.0, "none": -1.0}.get(correction, 0.0)  # none is short of its end on the way
        made["utility"] = np.array([9.0, 3.0 + late, 3.0 + late, 3.0]) + seed
        if correction == flights_claims.UNINSURED:
            made["cautious"] = made["cautious"] - 1.0
            made["naive"] = made["naive"] + 0.5 + seed / 100
        return made

    names = (flights_claims.UNINSURED, "swap", "none")
    verdicts = judged_flights([run(c, s) for s in range(3) for c in names])
    short = "on the way, total utility falls less short of its end under swap than under none"
    assert verdicts[short] == "holds"  # above the end is no shortfall
    assert (
        verdicts[f"{NEARER} the paper's alternatives (none, follow-the-leader)"] == "holds"
    )  # by 0.4 in every seed
    assert verdicts["no type of passenger is worse off, at any share"] == "fails"  # the naive lose
    assert verdicts["its passengers gain in sum, at every share"] == "holds"  # by a half


@pytest.mark.parametrize(
    ("tail", "verdict"),
    [
        (lambda c: np.exp(-30 * c), "holds"),
        (lambda c: np.maximum(c, 0.01) ** -3.0, "fails"),  # a power law is not exponentially rare
        (lambda c: np.exp(-(((c - 0.19) / 0.01) ** 2)) + 1e-6, "fails"),  # neither small nor fading from 0.1
    ],
)
def test_exponentially_rarer_is_told_from_merely_rarer(tail: Any, verdict: str) -> None:
    middle = np.abs((decisions_claims.C_BINS[1:] + decisions_claims.C_BINS[:-1]) / 2)
    draw = np.random.default_rng(0)
    results = [
        {
            "corrections": {
                "swap": {"c_counts": 1e6 * tail(middle) * draw.uniform(0.99, 1.01), "negative_c": 0.5}
            }
        }
        for _ in range(3)
    ]
    small, fading = decisions_claims.c_is_small(results, "MNIST", "mnist")
    said = {small.verdict, fading.verdict}
    assert ("holds" if said == {"holds"} else "fails" if "fails" in said else "undecided") == verdict


@pytest.mark.slow
def test_another_file_of_the_same_name_is_not_taken_for_the_first(tmp_path: Path) -> None:
    events = pl.DataFrame(
        {
            "YEAR": 2015, "MONTH": 1, "DAY": np.arange(60) % 28 + 1, "AIRLINE": "WN", "ORIGIN_AIRPORT": "SFO",
            "DESTINATION_AIRPORT": "DEN", "SCHEDULED_DEPARTURE": 600 + np.arange(60),
            "SCHEDULED_ARRIVAL": 900, "DISTANCE": 967, "ARRIVAL_DELAY": np.arange(60) % 50,
        }
    )  # fmt: skip
    path = tmp_path / "mine.csv"
    options: dict[str, Any] = {"seeds": 1, "shares": (0.3,), "corrections": "swap", "jobs": 1}
    revenues = []
    for late in (0, 60):
        events.with_columns(pl.col("ARRIVAL_DELAY") + late).write_csv(path)
        flights.load.cache_clear()
        studies.run("flights", data=path, **options, out=tmp_path / "out")
        revenues.append(pl.read_parquet(tmp_path / "out" / "flights" / "results.parquet")["utility"][-1])
    assert revenues[0] != revenues[1]


@pytest.mark.slow
def test_sweeps_on_a_dask_cluster_are_the_serial_ones_bit_for_bit(tmp_path: Path) -> None:
    from distributed import LocalCluster

    settings = flights.FlightSettings(rounds=300)
    cases = [{"settings": settings, **c} for c in flights.cases((0.3,), ("swap", "naive"), 2)]
    serial, _ = sweep(flights.run, cases, jobs=1)
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, host="127.0.0.1") as cluster:
        spread, complete = sweep(flights.run, cases, scheduler=cluster.scheduler_address, cache=tmp_path)
    processes, _ = sweep(flights.run, cases, jobs=2)
    assert complete
    for one in (spread, processes):
        for a, b in zip(serial, one, strict=True):
            assert a.keys() == b.keys()
            assert all(np.array_equal(a[k], b[k]) for k in a)


def counted(folder: Path, n: int) -> int:
    """Leaves a mark each time it is really run."""
    (folder / f"{n}-{time.monotonic_ns()}").touch()
    return n * n


def test_what_a_stopped_sweep_has_done_is_not_done_again(tmp_path: Path) -> None:
    marks, cache = tmp_path / "marks", tmp_path / "cache"
    marks.mkdir()

    def stop(results: list[Any], total: int) -> None:
        if len(results) == 2:
            raise KeyboardInterrupt

    cases = [{"folder": marks, "n": n} for n in range(4)]
    results, complete = sweep(counted, cases, jobs=1, cache=cache, watch=stop)
    assert (results, complete) == ([0, 1], False)
    done = len(list(marks.iterdir()))
    results, complete = sweep(counted, cases, jobs=1, cache=cache)
    assert (results, complete) == ([0, 1, 4, 9], True)
    assert len(list(marks.iterdir())) == 4 >= done


# A shell without job control starts its children with Ctrl-C ignored; then Python would not see it either.
_WITH_CONTROL_C = (
    "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
    "from makewhole.cli import main; sys.exit(main(sys.argv[1:]))"
)


@pytest.mark.slow
def test_an_interrupted_study_keeps_and_marks_what_it_has(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _WITH_CONTROL_C, "study", "flights", "--seeds", "5000", "--jobs", "1"]
    command += ["--rounds", "2000", "--cautious", "0.3", "--correction", "swap", "--out", str(tmp_path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        while len(list((tmp_path / ".cache").rglob("output.pkl"))) < 6:
            assert process.poll() is None, process.communicate()
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)  # fifteen thousand runs are far from done
        out, err = process.communicate(timeout=300)
    finally:
        process.kill()
    assert process.returncode == 130, err
    assert "partial" in out
    assert "Open " not in out  # the closing words are for a whole run
    assert "of 15,000 runs done" in err
    settings = json.loads((tmp_path / "flights" / "settings.json").read_text())
    assert "stopped after" in settings["partial"]
    assert "Partial results" in (tmp_path / "flights" / "report.html").read_text()


@pytest.mark.slow
def test_a_study_of_adversaries_writes_its_folder(tmp_path: Path) -> None:
    corrections = ("swap", "deterministic swap", "naive")
    options: dict[str, Any] = {"rounds": 10_000, "seeds": 1, "corrections": corrections, "jobs": 1}
    outcome = studies.run("adversaries", **options, out=tmp_path)
    table = pl.read_parquet(tmp_path / "adversaries" / "results.parquet")
    assert table.columns == ["seed", "correction", "agent", "rounds", "mean_loss"]
    assert table.height == 3 * 5 * 2
    assert len(outcome.judged) == 5
    again = studies.run("adversaries", **options, out=tmp_path / "again")
    assert list(outcome.files) == ["adversaries"]
    for label, paths in outcome.files.items():
        for one, two in zip(paths, again.files[label], strict=True):
            assert one.read_bytes() == two.read_bytes(), "the same results must give the same picture"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["flights", "--cautious", "1.5"], "cautious share must lie in [0, 1]; got 1.5"),
        (["flights", "--airline", "ZZ"], "airline must be one that is in flights.csv.zip"),
        (["flights", "--data", "nowhere.csv"], "nowhere.csv does not exist"),
        (["flights", "--rounds", "0"], "rounds must be a whole number of at least 1"),
        (["mnist", "--data", "/nowhere"], "does not exist"),
        (
            ["market", "--data", __file__],
            "must be the folder with MNIST and Adult, except for flights and honesty",
        ),
        (["mnist", "--cautious", "0.3"], "--cautious is for the study of flights, honesty, not of mnist"),
        (["all", "--data", "/dev/null"], "must be the folder with MNIST and Adult"),
        (["adversaries", "--out", "/dev/null/x"], "Not a directory"),
    ],
)
def test_bad_studies_exit_1_with_a_message(
    arguments: list[str], message: str, capsys: Any, monkeypatch: Any
) -> None:
    monkeypatch.delenv("MAKEWHOLE_DATA", raising=False)
    assert mw_main(["study", *arguments]) == 1
    assert message in capsys.readouterr().err


def mw_main(arguments: list[str]) -> int:
    from makewhole.cli import main

    return main(arguments)
