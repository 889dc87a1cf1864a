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
from makewhole.studies import adversaries, claims, decisions, flights, lineup, open_market
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
        alone = TwoLayerLearner(12, 4, mu_rate=0.02, c_rate=0.02, seed=1)
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
    nature = mw.Chance(1.0)
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


def test_bounds_are_kept_and_swap_loses_to_the_reader() -> None:
    settings = adversaries.AdversarySettings((1000, 10_000, 100_000))
    results = [adversaries.run(settings, name, 0) for name in LINEUP]
    for r in results:
        for agent in adversaries.AGENTS:
            for t, loss, kept in zip(r["rounds"], r["losses"][agent], r["bounds"], strict=True):
                promised = lineup.bound_of(make_correction(r["correction"], t), t)
                assert kept == (promised and promised.mean_loss)
                assert promised is None or abs(loss) <= promised.mean_loss
    verdicts = {c.text: c.verdict for c in adversaries.claims(results)}
    assert verdicts["Algorithm 3's mean loss vanishes against any agent"] == "fails"
    assert verdicts["deterministic swap keeps to its bound against everyone"] == "holds"


@pytest.mark.slow
def test_the_frontier_is_written_and_no_certificate_is_broken(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.delenv("MAKEWHOLE_DATA", raising=False)
    outcome = studies.run("frontier", rounds=3000, seeds=2, jobs=1, out=tmp_path)
    assert [c.verdict for c in outcome.judged[:2]] == ["holds", "holds"]
    assert set(outcome.files) == {"frontier"}
    table = pl.read_parquet(tmp_path / "frontier" / "results.parquet")
    assert set(table["log"]) == {"flights", "insider", "clairvoyant"}  # what needs no download
    certified = table.filter(pl.col("capital").is_not_null())
    assert (certified["worst"] <= certified["capital"]).all()
    assert certified.height == 2 * 3 * 12


@pytest.mark.slow
def test_the_market_is_open_with_a_barrier_and_closed_by_deterministic_swap(
    tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.delenv("MAKEWHOLE_DATA", raising=False)
    corrections = ["deterministic swap", "reserve 0.01"]
    monkeypatch.setattr(open_market, "available", lambda: ("coins",))
    outcome = studies.run("market", rounds=600, seeds=1, jobs=1, out=tmp_path, corrections=corrections)
    verdicts = {c.text.partition(":")[0]: c.verdict for c in outcome.judged}
    assert verdicts["no certificate was broken"] == "holds"
    assert verdicts["nobody took more than her line"] == "holds"
    assert verdicts["deterministic swap alone"] == "fails"
    assert verdicts["barrier with lines, thaw"] == "holds"
    table = pl.read_parquet(tmp_path / "market" / "results.parquet")
    assert table.height == 6 * 3 * 4
    assert set(outcome.files) == {"open_market", "open_market_taken"}
    honest = table.filter((pl.col("scene") == "honest customers only") & (pl.col("correction") == "barrier"))
    assert (honest["taken"] == 0).all()
    assert (honest["premium"] > 0.019).all()


def test_claims_are_judged_by_their_intervals() -> None:
    assert claims.positive([1.0, 1.1, 0.9])[0] == "holds"
    assert claims.positive([-1.0, -1.1, -0.9])[0] == "fails"
    assert claims.positive([1.0, -1.0, 0.2])[0] == "undecided"
    assert claims.positive([5.0])[0] == "undecided"  # one seed proves nothing
    assert claims.all_of(["holds", "undecided"]) == "undecided"
    assert claims.all_of(["holds", "fails", "undecided"]) == "fails"
    measured = claims.interval([1.0, 2.0, 3.0])
    assert measured.mean == 2.0
    assert measured.high == pytest.approx(2 + 4.303 / np.sqrt(3))


def test_a_claim_that_does_not_hold_is_said_not_to_hold() -> None:
    def season(correction: str, seed: int, revenue: float) -> dict[str, Any]:
        curve = np.array([revenue + 0.01 * seed])
        zero = np.zeros(1)
        return {
            "share": 0.3,
            "correction": correction,
            "seed": seed,
            "revenue": curve,
            "utility": zero - seed,
            "bets": zero,
        }

    worse = [
        season(c, s, r)
        for s in range(3)
        for c, r in ((flights.UNINSURED, 40.0), ("swap", 39.0), ("none", 39.5))
    ]
    verdicts = [c.verdict for c in flights.claims(worse)]
    assert verdicts[4] == "undecided"  # nobody's bets are nearer to balance than anybody's
    alone = [r for r in worse if r["correction"] != "none"]
    assert not any("balance" in c.text for c in flights.claims(alone))  # a race of one is no race
    assert verdicts[0] == "fails"  # revenue fell
    assert verdicts[1] == "undecided"  # utility is the same
    assert verdicts[2] == "fails"  # swap did worse than none


@pytest.mark.parametrize(
    ("tail", "verdict"),
    [
        (lambda c: np.exp(-30 * c), "holds"),
        (lambda c: np.maximum(c, 0.01) ** -3.0, "fails"),  # a power law is not exponentially rare
        (lambda c: np.exp(-(((c - 0.19) / 0.01) ** 2)) + 1e-6, "fails"),  # neither small nor fading from 0.1
    ],
)
def test_exponentially_rarer_is_told_from_merely_rarer(tail: Any, verdict: str) -> None:
    middle = np.abs((decisions.C_BINS[1:] + decisions.C_BINS[:-1]) / 2)
    draw = np.random.default_rng(0)
    results = [
        {
            "corrections": {
                "swap": {"c_counts": 1e6 * tail(middle) * draw.uniform(0.99, 1.01), "negative_c": 0.5}
            }
        }
        for _ in range(3)
    ]
    assert decisions._interval_size(results, "swap", "mnist").verdict == verdict


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
        process.send_signal(signal.SIGINT)  # ten thousand runs are far from done
        out, err = process.communicate(timeout=300)
    finally:
        process.kill()
    assert process.returncode == 130, err
    assert "partial" in out
    assert "Open " not in out  # the closing words are for a whole run
    assert "of 10,000 runs done" in err
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
    assert len(outcome.judged) == 3
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
        (["flights", "--data", "nowhere.csv"], "nowhere.csv is not there"),
        (["flights", "--rounds", "0"], "rounds must be a whole number of at least 1"),
        (["mnist", "--data", "/nowhere"], "is not there"),
        (["mnist", "--cautious", "0.3"], "--cautious is for the study of flights, not of mnist"),
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
