"""Corrections, agents and data of one's own run in every study; plain loops give the compiled numbers."""

import subprocess
import sys
from pathlib import Path
from typing import Any, Self

import numpy as np
import polars as pl
import pytest

import makewhole as mw
from makewhole import datasets, studies
from makewhole.corrections import Proposal, for_book
from makewhole.protocol import Chance
from makewhole.studies import adversaries, decisions, flights, frontier
from makewhole.studies.lineup import LINEUP, compiled, make_correction
from makewhole.studies.own import Own, plain_steps

pytestmark = pytest.mark.slow


class Halfway:
    """A user's correction with the four methods and nothing else: half of the way to the last target."""

    def __init__(self, lam: float = 0.0) -> None:
        self.lam = lam

    def propose(self) -> Proposal:
        return Proposal(self.lam)

    def observe(self, proposal: Proposal, target: float, weight: float) -> None:
        assert type(target) is float
        assert 0.0 < weight <= 1.0
        self.lam += 0.5 * weight * (target - proposal.lam)

    def state(self) -> dict[str, Any]:
        return {"lam": self.lam}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        return cls(state["lam"])


class Foreign:
    """One of ours that the studies cannot recognise: only its four methods are visible."""

    def __init__(self, inner: mw.Correction) -> None:
        self._inner = inner

    def propose(self) -> Proposal:
        return self._inner.propose()

    def observe(self, proposal: Proposal, target: float, weight: float) -> None:
        self._inner.observe(proposal, target, weight)

    def state(self) -> dict[str, Any]:
        return {"inner": self._inner.state(), "type": type(self._inner)}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        return cls(state["type"].from_state(state["inner"]))


def foreign(name: str) -> Own:
    return Own(corrections={"foreign": lambda rounds, c, s: Foreign(make_correction(name, rounds, c, s))})


def own_events(rows: int = 120) -> datasets.Events:
    draw = np.random.default_rng(0)
    p = draw.uniform(size=rows)
    y = (draw.random(rows) < p).astype(int)
    z = draw.integers(0, 10, rows)
    return studies.make_events(np.stack([p, 1 - p, np.zeros(rows)], axis=1), y, z=z, probability=p)


MINE: dict[str, Any] = {"halfway": lambda rounds, c_range, seed: Halfway()}
LOG = {"coins": pl.DataFrame({"mu": [0.5, 0.4] * 40, "y": [1, 0, 0, 1] * 20, "stake": [2.0, -4.0] * 40})}


# --- the plain loops are the compiled ones ----------------------------------------------------------------


@pytest.fixture(scope="module")
def some_flights() -> datasets.Events:
    return datasets.load_flights().take(np.arange(2000, 2060))


def same(name: str, compiled: Any, plain: Any) -> bool:
    """To the bit; a reserve in the loop adds up what was paid, one by itself w·(x − λ), which is rounded."""
    return np.allclose(compiled, plain, rtol=1e-9) if "reserve" in name else np.array_equal(compiled, plain)


@pytest.mark.parametrize("name", list(LINEUP))
def test_the_plain_season_is_the_compiled_one_to_the_bit(name: str, some_flights: datasets.Events) -> None:
    settings = flights.FlightSettings(people=200, seats=60)
    compiled = flights.simulate(some_flights, 0.6, name, 3, settings)
    plain = flights.simulate(some_flights, 0.6, "foreign", 3, settings, foreign(name))
    assert same(name, compiled, plain)
    assert name == "none" or compiled[:, 2].any()  # λ moved


@pytest.mark.parametrize("agent", adversaries.AGENTS)
@pytest.mark.parametrize("name", list(LINEUP))
def test_the_plain_game_is_the_compiled_one_to_the_bit(name: str, agent: str) -> None:
    expected = adversaries.mean_loss(agent, name, 400, seed=4)
    correction = make_correction(name, 400, (0.0, 0.0), seed=4)
    beta, which = for_book(correction).cell_of(0.5), adversaries.AGENTS.index(agent)
    assert adversaries.plain_game(correction, which, 400, beta, seed=4) / 400 == expected
    if agent != "draw reading":  # he needs to see the cells, which a user's correction does not have
        assert adversaries.mean_loss(agent, "foreign", 400, 4, foreign(name)) == expected


def test_the_plain_replay_of_the_tasks_is_the_compiled_one_to_the_bit() -> None:
    names = ("swap", "standard 0.1", "reserve 0.01", "deterministic swap")
    own = Own({f"my {n}": foreign(n).corrections["foreign"] for n in names}, data=own_events())
    settings = decisions.DecisionSettings("adult", corrections=(*names, *own.corrections))
    result = decisions.run(settings, 1, own)["corrections"]
    for name in names:
        for what in ("curves", "c_counts", "by_z"):
            assert same(name, result[name][what], result[f"my {name}"][what])


def test_the_plain_replay_of_a_log_is_the_compiled_one_to_the_bit() -> None:
    settings = frontier.FrontierSettings(("coins",), 200, others=("swap", "foreign"))
    result = frontier.run(settings, "coins", 0, foreign("swap"))["seen"]
    for scene in frontier.SCENES:
        assert result[scene, "swap", None] == result[scene, "foreign", None]


# --- own parts in every study -----------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "options"),
    [
        pytest.param("flights", {"rounds": 60, "shares": [0.5]}, marks=pytest.mark.long),
        ("flights", {"data": own_events(), "shares": [0.5]}),
        ("mnist", {"data": own_events()}),
        ("adult", {"data": own_events(), "rounds": 100}),
        ("adversaries", {"rounds": 300}),
        ("frontier", {"data": LOG}),
        pytest.param("frontier", {"rounds": 300}, marks=pytest.mark.long),
    ],
)
def test_a_correction_with_only_the_four_methods_runs_in_every_study(
    name: str, options: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MAKEWHOLE_DATA", raising=False)
    corrections = {**MINE, "swap": LINEUP["swap"]}
    got = studies.run(name, corrections=corrections, seeds=1, jobs=1, out=tmp_path, **options)
    assert {"halfway", "swap"} <= set(got.results["correction"])
    assert got.results["correction"].value_counts().filter(pl.col("correction") == "halfway")["count"][0] > 0
    assert got.judged
    assert set(got.files) == set(got.figures)
    assert all(path.is_file() for paths in got.files.values() for path in paths)
    # Not every correction has a capital, and not every one serves somebody who pays.
    numbers = got.results.select(pl.col(pl.Float64)).drop("capital", "premium", strict=False)
    assert numbers.to_numpy().size
    assert np.isfinite(numbers.to_numpy()).all()


def test_a_certified_correction_of_ones_own_is_held_to_its_certificate() -> None:
    corrections: Any = {"mine": lambda *_: mw.Reserve(0.02, over=mw.SwapRegret(5, seed=0))}
    got = studies.run("frontier", data=LOG, corrections=corrections, seeds=1, jobs=1)
    assert got.results.filter(correction="mine")["capital"].to_list() == [25.0, 25.0]  # one for each scene
    kept = got.judged[0]
    assert (kept.where, kept.verdict) == ("our Theorems B and D", "holds")
    assert "in 42 runs" in kept.numbers  # two scenes, four corrections with five capitals, and mine


def test_own_data_are_not_called_mnist() -> None:
    got = studies.run("mnist", data=own_events(), corrections=["swap", "none"], seeds=1, jobs=1)
    assert not any("MNIST" in caption or "paper" in caption for caption in got.captions.values())
    assert not any("MNIST" in claim.text for claim in got.judged)
    assert "oracle" in set(got.results["correction"])  # the data have the true probability


def test_own_data_change_the_numbers_and_rounds_cut_them() -> None:
    options: dict[str, Any] = {"corrections": "swap", "seeds": 1, "shares": [0.5], "jobs": 1}
    whole = studies.run("flights", data=own_events(), **options)
    part = studies.run("flights", data=own_events(), rounds=50, **options)
    assert whole.results["rounds"].max() == 120
    assert part.results["rounds"].max() == 50
    direct = flights.simulate(own_events(), 0.5, "swap", 0, flights.FlightSettings())
    assert whole.results.filter(correction="swap")["revenue"][-1] == pytest.approx(
        direct[:, 5].mean() / 1000, abs=1e-12
    )


class Steady:
    """A user's agent: bets on the outcome, with half of the cap."""

    def __init__(self, nature: Chance) -> None:
        self.nature = nature

    def act(self, forecast: mw.Forecast) -> mw.agents.Decision:
        return mw.agents.Decision(None, 0.5 if self.nature.outcome() else -0.5)


def test_an_agent_of_ones_own_plays_against_ours_and_own_corrections() -> None:
    agents: Any = {"steady": lambda nature, rounds, seed: Steady(nature), "pushing": None}
    corrections = {**MINE, "none": LINEUP["none"]}
    got = studies.run("adversaries", rounds=200, seeds=1, agents=agents, corrections=corrections, jobs=1)
    assert list(dict.fromkeys(got.results["agent"])) == ["steady", "pushing"]
    losses = {(r["correction"], r["agent"]): r["mean_loss"] for r in got.results.to_dicts()}
    assert losses["none", "steady"] == 0.25  # ½ of the cap at even odds, won every time
    assert losses["halfway", "steady"] < 0.01
    assert losses["none", "pushing"] == adversaries.mean_loss("pushing", "none", 200, 0)


def test_own_games_are_short_unless_asked_for() -> None:
    study = studies.find("adversaries")
    from makewhole.studies.study import Options

    assert study.plan(Options(corrections=MINE)).settings.rounds[-1] == 100_000
    assert study.plan(Options(corrections="swap")).settings.rounds[-1] == 10_000_000
    assert study.plan(Options(corrections=MINE, rounds=2000)).settings.rounds == (1000, 2000)


@pytest.mark.slow
def test_own_parts_run_in_other_processes_and_are_never_taken_from_the_cache(tmp_path: Path) -> None:
    losses = []
    for step in (0.1, 0.9):

        class Mine(Halfway):
            def observe(self, proposal: Proposal, target: float, weight: float) -> None:
                self.lam += step * weight * (target - proposal.lam)  # noqa: B023 - used within this turn

        options: dict[str, Any] = {"rounds": 500, "seeds": 2, "agents": "phase doubling", "jobs": 2}
        mine: Any = {"mine": lambda rounds, c_range, seed: Mine()}
        losses.append(studies.run("adversaries", corrections=mine, **options, out=tmp_path).results)
    assert losses[0]["mean_loss"][0] != losses[1]["mean_loss"][0]


def test_a_subclass_of_ours_with_its_own_way_is_not_run_as_ours() -> None:
    class Lazy(mw.StandardRegret):
        def observe(self, proposal: Proposal, target: float, weight: float) -> None:
            pass

    assert compiled(Lazy()) is None
    own = Own(corrections={"lazy": lambda rounds, c_range, seed: Lazy()})
    assert adversaries.mean_loss("clairvoyant", "lazy", 100, 0, own) == 0.5
    assert adversaries.run(adversaries.AdversarySettings((100,)), "lazy", 0, own)["theorem"] is None


def test_a_plain_step_tells_the_cell_only_where_asked() -> None:
    assert plain_steps(make_correction("swap", 100)).propose()[1] == 0
    assert plain_steps(make_correction("swap", 100), cells=True).propose()[1] > 0


# --- what does not fit ------------------------------------------------------------------------------------

_EVENTS = own_events()


@pytest.mark.parametrize(
    ("name", "options", "error", "message"),
    [
        ("flights", {"corrections": "luck"}, ValueError, "correction must be one of none, naive"),
        ("flights", {"corrections": ["swap", "luck"]}, ValueError, "got 'luck'. For your own, pass corr"),
        ("flights", {"corrections": []}, ValueError, "corrections must name at least one"),
        ("flights", {"corrections": {"m": mw.NoCorrection}}, TypeError, r"corrections\['m'\] must be a func"),
        ("flights", {"corrections": {"m": 3}}, TypeError, r"corrections\['m'\] must be a function of \(rou"),
        ("flights", {"corrections": {3: None}}, TypeError, "corrections must have text for names; got 3"),
        ("flights", {"corrections": {"swap": MINE["halfway"]}}, ValueError, "give yours another name"),
        ("flights", {"corrections": {"m": lambda *_: 3}, "data": _EVENTS}, TypeError, "must return a cor"),
        ("adult", {"corrections": {"m": lambda *_: 3}, "data": _EVENTS}, TypeError, r"corrections\['m'\]"),
        ("adversaries", {"corrections": {"m": lambda *_: 3}}, TypeError, r"corrections\['m'\] must return"),
        ("frontier", {"corrections": {"m": lambda *_: 3}}, TypeError, r"corrections\['m'\] must return a"),
        (
            "flights",
            {"corrections": {"m": lambda *_: mw.Grouped(mw.Reserve(0.1))}, "data": _EVENTS},
            TypeError,
            "a correction without groups",
        ),
        (
            "flights",
            {"corrections": {"m": lambda *_: mw.Reserve(0.1, over=mw.SwapRegret())}, "data": _EVENTS},
            ValueError,
            "needs sound mode",
        ),
        (
            "flights",
            {"corrections": {"no insurance": MINE["halfway"]}, "data": _EVENTS},
            ValueError,
            "must not be called",
        ),
        ("adult", {"corrections": {"oracle": MINE["halfway"]}, "data": _EVENTS}, ValueError, "must not be"),
        ("flights", {"data": 3}, TypeError, "data must be makewhole.datasets.Events"),
        ("flights", {"data": _EVENTS, "airline": "UA"}, ValueError, "airline is for a file of flights"),
        ("adult", {"data": "folder"}, TypeError, "environment variable MAKEWHOLE_DATA"),
        ("adult", {"data": studies.make_events([[1.0]], [1])}, ValueError, "data.z must be a whole number"),
        ("frontier", {"data": _EVENTS}, TypeError, "data must be a dict from a log's name to a frame"),
        ("frontier", {"data": {}}, ValueError, "at least one log"),
        ("frontier", {"data": {"a": pl.DataFrame({"mu": [0.5]})}}, ValueError, "'y' is not a column"),
        (
            "frontier",
            {"data": {"a": pl.DataFrame({"mu": [1.5], "y": [1], "stake": [1.0]})}},
            ValueError,
            r"data\['a'\]\['mu'\] must lie in \[0, 1\]",
        ),
        (
            "frontier",
            {"data": {"a": pl.DataFrame({"mu": [0.5], "y": [1], "stake": [0.0]})}},
            ValueError,
            "must have a stake other than 0",
        ),
        (
            "frontier",
            {"data": {"a": pl.DataFrame({"mu": [0.5], "y": [1], "stake": [1.0], "c_hat": [-0.1]})}},
            ValueError,
            r"data\['a'\]\['c_hat'\] must lie in \[0, 0.5\]",
        ),
        ("adversaries", {"data": _EVENTS}, ValueError, "adversaries does not take data; it takes rounds"),
        ("adversaries", {"data": pl.DataFrame({"a": [1]})}, ValueError, "adversaries does not take data"),
        ("flights", {"shares": []}, ValueError, "shares must name at least one share of cautious passengers"),
        ("flights", {"agents": ["insider"]}, ValueError, "the study of flights does not take agents"),
        ("mnist", {"shares": [0.3]}, ValueError, "the study of mnist does not take shares"),
        ("adversaries", {"agents": "nobody"}, ValueError, "agent must be one of clairvoyant, insider"),
        ("adversaries", {"agents": {"m": lambda *_: 3}}, TypeError, r"agents\['m'\] must return an agent"),
        ("adversaries", {"agents": {"m": mw.agents.Random}}, TypeError, r"agents\['m'\] must be a function"),
        ("flights", {"backend": "spark"}, ValueError, "backend must be one of polars, pandas, pyarrow"),
        ("weather", {}, ValueError, "study must be one of statements, flights, "),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_named_before_anything_runs(
    name: str, options: dict[str, Any], error: type[Exception], message: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=message):
        studies.run(name, **options, seeds=1, jobs=1, out=tmp_path)
    assert not list(tmp_path.rglob("*.json"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"outcome": np.full(120, 2.0)}, "data.outcome must be 0 or 1"),
        ({"outcome": np.zeros(7)}, "as many rows as outcomes, 7; got 120"),
        ({"indices": np.full(240, 3)}, "data.indices must lie in 0 … 2"),
        ({"data": np.full(240, np.nan)}, "data.data must be"),
        ({"data": np.ones(3)}, "data.indptr must rise"),
        ({"indptr": np.zeros(121, int)}, "data.indptr must rise"),
        ({"z": np.full(120, 10)}, "data.z must be"),
        ({"z": np.zeros(3, int)}, "data.z must have a number per row, 120"),
        ({"probability": np.full(120, 1.5)}, r"data.probability must lie in \[0, 1\]"),
    ],
)
def test_data_that_do_not_fit_are_named(change: dict[str, Any], message: str) -> None:
    from dataclasses import replace

    with pytest.raises(ValueError, match=message):
        studies.run("adult", data=replace(own_events(), **change), seeds=1, jobs=1)


def test_make_events_wants_a_matrix() -> None:
    with pytest.raises(ValueError, match="rows must be a matrix with a row per event"):
        studies.make_events([1.0, 2.0], [0, 1])


def test_importing_the_studies_stays_light() -> None:
    code = (
        "import sys, makewhole.cli, makewhole.studies; "
        "print([m for m in sys.modules if m.startswith('makewhole.studies.')], 'joblib' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[] False"
