"""`studies.run` from Python, the words around a study, and what the command line prints while it works."""

import importlib.util
import sys
import time
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest
from matplotlib.figure import Figure

from makewhole import studies
from makewhole.cli import main
from makewhole.cli import study as command
from makewhole.studies import paper as studies_paper
from makewhole.studies.claims import Claim
from makewhole.studies.study import Options, Study, StudyPicture, StudyPlan, StudyResult

ROOT = Path(__file__).parents[2]
SMALL: dict[str, Any] = {"seeds": 1, "jobs": 1, "corrections": ["swap", "none"]}


def small_data(rows: int = 60) -> Any:
    draw = np.random.default_rng(0)
    z = draw.integers(0, 10, rows)
    return studies.make_events(draw.uniform(size=(rows, 3)), draw.integers(0, 2, rows), z=z)


@pytest.fixture(scope="module")
def small_results() -> dict[str, StudyResult]:
    log = pl.DataFrame({"mu": [0.5] * 50, "y": [1, 0] * 25, "stake": [1.0] * 50})
    options: dict[str, dict[str, Any]] = {
        "statements": {"rounds": 300, "corrections": None},
        "flights": {"data": small_data(), "shares": [0.5]},
        "honesty": {"data": small_data(), "shares": [0.5]},
        "mnist": {"data": small_data()},
        "adult": {"data": small_data()},
        "adversaries": {"rounds": 1000},
        "frontier": {"data": {"coins": log}},
        "market": {"data": {"coins": log}},
    }
    return {name: studies.run(name, **SMALL | options[name]) for name in studies.STUDIES}


@pytest.mark.slow
@pytest.mark.parametrize("name", list(studies.STUDIES))
def test_every_column_of_every_frame_has_its_meaning(
    name: str, small_results: dict[str, StudyResult]
) -> None:
    result = small_results[name]
    for frame in ("results", "summary", "claims"):
        table = getattr(result, frame)
        assert list(result.columns[frame]) == table.columns
        assert all(result.columns[frame].values())
        assert table.height


@pytest.mark.slow
@pytest.mark.parametrize("name", list(studies.STUDIES))
def test_figures_are_drawn_when_asked_for(name: str, small_results: dict[str, StudyResult]) -> None:
    result = small_results[name]
    assert list(result.figures) == list(result.captions)
    assert not result.figures._drawn
    label = next(iter(result.figures))
    assert result.figures[label] is result.figures[label]
    assert result.figures[label].axes
    with pytest.raises(KeyError):
        result.figures["no such figure"]


@pytest.mark.slow
def test_nothing_is_written_without_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small_results: dict[str, StudyResult]
) -> None:
    monkeypatch.chdir(tmp_path)
    result = studies.run("adversaries", rounds=1000, **SMALL)
    assert result.figures["adversaries"]
    assert result.folder is None
    assert not list(tmp_path.iterdir())
    assert result.results.equals(small_results["adversaries"].results)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["polars", "pandas", "pyarrow"])
def test_frames_come_in_the_backend_asked_for(backend: str) -> None:
    result = studies.run("adversaries", rounds=1000, **SMALL, backend=backend)
    for frame in (result.results, result.summary, result.claims):
        assert type(frame).__module__.split(".")[0] == backend


@pytest.mark.slow
def test_claims_are_a_frame_and_tuples_alike(small_results: dict[str, StudyResult]) -> None:
    result = small_results["adversaries"]
    assert result.claims["verdict"].to_list() == [claim.verdict for claim in result.judged]
    assert result.claims["text"].to_list() == [claim.text for claim in result.judged]


@pytest.mark.slow
def test_a_result_says_in_a_line_what_it_is(small_results: dict[str, StudyResult]) -> None:
    assert (
        repr(small_results["adversaries"])
        == "StudyResult('adversaries', 2 of 2 runs, claims: {undecided: 1})"
    )


def test_a_missing_library_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "joblib", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'makewhole\[studies\]'"):
        studies.run("adversaries", rounds=1000, **SMALL)


def test_watch_is_told_at_the_start_and_after_each_run() -> None:
    seen = []
    studies.run(
        "adversaries", rounds=1000, **SMALL, watch=lambda claims, done, total: seen.append((done, total))
    )
    assert seen == [(0, 2), (1, 2), (2, 2)]


@pytest.mark.parametrize("name", list(studies.STUDIES))
def test_every_study_has_its_words(name: str) -> None:
    study = studies.find(name)
    assert study.name == name
    assert study.seeds >= 3
    closing = study.closing(Path("out/x/report.html"))
    assert len(closing) == 3
    assert all(sentence.endswith(".") for sentence in closing)
    assert "out/x/report.html" in closing[1]


def test_the_page_of_studies_has_the_words_of_the_studies() -> None:
    """Its numbers come with `make figures`; its words must not wait for that."""
    spec = importlib.util.spec_from_file_location("build_studies", ROOT / "docs" / "build_studies.py")
    assert spec is not None
    assert spec.loader is not None
    builder = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(builder)
    page = (ROOT / "docs" / "studies.md").read_text(encoding="utf-8")
    assert page.startswith(builder.INTRO)
    for name in studies.STUDIES:
        study = studies.find(name)
        assert f"## {study.title}\n\n{study.why}\n\n###" in page
        assert f"makewhole study {name} --seeds {study.seeds}" in page


@pytest.mark.slow
def test_a_section_of_the_page_is_made_from_the_result(tmp_path: Path) -> None:
    spec = importlib.util.spec_from_file_location("build_studies", ROOT / "docs" / "build_studies.py")
    assert spec is not None
    assert spec.loader is not None
    builder = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(builder)
    result = studies.run("adversaries", rounds=1000, **SMALL, out=tmp_path)
    text = builder.section(result, {"longer games": result})
    assert text.startswith("## Adversaries\n")
    claim = "Algorithm 3's mean loss vanishes against any agent"
    quote = studies_paper.says("Theorem 1, Algorithm 1 is one").replace("|", "\\|")
    assert f"| {claim}<br>{quote} | Theorem 1, second half | **undecided**<a id=" in text
    judge = "[algorithm_3_vanishes](../src/makewhole/studies/adversaries.py)"
    assert f"[figure](figures/adversaries.png) | {judge} |" in text
    assert "<summary>The same claims, longer games: all numbers</summary>" in text
    assert f"| {claim} | undecided |" in text
    assert "\n1 seeds" in text
    assert "![Mean loss against adversaries, for ever longer games](figures/adversaries.png)" in text


# --- what the command line prints -------------------------------------------------------------------------

_COMMAND = ["study", "adversaries", "--rounds", "1000", "--seeds", "1", "--jobs", "1", "--correction", "none"]


@pytest.mark.slow
def test_a_study_ends_with_three_sentences_and_shows_that_it_works(
    tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "SECONDS_BETWEEN_LINES", 3600.0)  # on a busy machine more lines would come
    assert main([*_COMMAND, "--out", str(tmp_path)]) == 0
    printed = capsys.readouterr()
    report = tmp_path / "adversaries" / "report.html"
    assert printed.out.splitlines()[-3:] == list(studies.find("adversaries").closing(report))
    lines = [
        "adversaries: reading the data",
        "adversaries: 0 of 1 runs done",
        "adversaries: 1 of 1 runs done",
    ]
    assert printed.err.splitlines() == lines


@pytest.mark.slow
def test_with_json_nothing_but_json_is_printed(tmp_path: Path, capsys: Any) -> None:
    assert main([*_COMMAND, "--json", "--out", str(tmp_path)]) == 0
    printed = capsys.readouterr()
    assert printed.out.startswith('{"adversaries": [')
    assert len(printed.out.splitlines()) == 1
    assert not printed.err


def test_lines_come_even_while_one_run_takes_long(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setattr(command, "SECONDS_BETWEEN_LINES", 0.01)
    with command._StudyProgress("flights", quiet=False) as watch:
        assert watch is not None
        watch([], 12, 105)
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline and "12 of 105" not in (shown := capsys.readouterr().err):
            time.sleep(0.01)
    assert "flights: 12 of 105 runs done\n" in shown


def test_a_terminal_gets_a_bar_and_the_claims_so_far(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    claims = studies.run("adversaries", rounds=1000, **SMALL).judged
    with command._StudyProgress("adversaries", quiet=False) as watch:
        assert watch is not None
        watch([], 0, 2)
        watch(claims, 1, 2)
    assert "runs done" not in capsys.readouterr().err


def toss(settings: Any, seed: int) -> dict[str, Any]:
    return {"seed": seed, "heads": int(np.random.default_rng(seed).integers(0, 2))}


@pytest.mark.slow
def test_a_new_study_is_one_module_and_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """The command line, the report and the page know of it without another change."""
    coin = ModuleType("makewhole.studies.coin")

    def plan(options: Options) -> StudyPlan:
        cases = [{"settings": None, "seed": seed} for seed in range(options.seeds or 3)]
        picture = StudyPicture("A coin", lambda results: Figure(figsize=(2, 2)))
        frame = lambda results: {"seed": [r["seed"] for r in results]}  # noqa: E731 - it is a column, no more
        claim = Claim("coins land", "nowhere", "holds", "3 of 3", "coin")
        return StudyPlan(
            toss, cases, SimpleNamespace(), [lambda results: [claim]], {"coin": picture}, frame, frame
        )

    columns = {"results": {"seed": "the seed"}, "summary": {"seed": "the seed"}}
    coin.STUDY = Study("coin", "Coins", "Why.", "Shown.", "Next.", 3, plan, columns)  # type: ignore[attr-defined]  # a module of the test's
    monkeypatch.setitem(sys.modules, "makewhole.studies.coin", coin)
    monkeypatch.setitem(studies.STUDIES, "coin", "coin:STUDY")
    assert main(["study", "coin", "--jobs", "1", "--out", str(tmp_path)]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "Next."
    assert "coins land" in (tmp_path / "coin" / "report.html").read_text()
    assert studies.run("coin", jobs=1, backend="pyarrow").results.column_names == ["seed"]


@pytest.mark.slow
def test_a_changed_file_is_mentioned_on_stderr(tmp_path: Path, capsys: Any) -> None:
    run = ["study", "flights", "--rounds", "40", "--seeds", "1", "--jobs", "1", "--cautious", "0.5"]
    run += ["--out", str(tmp_path), "--json", "--correction"]
    assert main([*run, "naive", "--correction", "none"]) == 0
    (tmp_path / "flights" / "airline_extension.svg").write_text("changed")
    assert main([*run, "swap"]) == 0
    assert "airline_extension.svg was changed since makewhole wrote it" in capsys.readouterr().err
