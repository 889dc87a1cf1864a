"""The list of everything that the paper states, and the table that docs/studies.md makes of it."""

import importlib.util
from pathlib import Path
from typing import Any

import pytest
from test_judges import benchmark
from test_studies import season

import makewhole
from makewhole import studies
from makewhole.studies import decisions_claims, flights_claims, paper
from makewhole.studies.claims import Claim

ROOT = Path(__file__).parents[2]
PACKAGE = Path(str(makewhole.__file__)).parent


@pytest.fixture(scope="module")
def builder() -> Any:
    spec = importlib.util.spec_from_file_location("build_studies", ROOT / "docs" / "build_studies.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_item_has_its_words_its_section_and_a_verdict_or_a_note() -> None:
    names = [item.name for item in paper.ITEMS]
    assert len(names) == len(set(names)) >= 85
    for item in paper.ITEMS:
        assert item.says, item.name
        assert item.section.startswith(("§", "Appendix", "caption of Figure")), item.name
        assert item.judged or item.note, item.name


def test_every_file_of_the_list_exists() -> None:
    missing = {file for item in paper.ITEMS for file in item.files if not (PACKAGE / file).is_file()}
    assert missing <= {"studies/honesty.py"}


def test_a_claim_is_quoted_by_the_item_that_is_about_it_alone() -> None:
    def quote(where: str, key: str = "") -> str:
        return paper.quoted(Claim("text", where, "holds", "numbers", key=key))

    assert quote("Proposition 2") == paper.says("Proposition 2")  # not Alice's bet, which it also judges
    assert quote("Lemma 4, mended") == paper.says("Lemma 4")
    assert quote("§7", key="small c") == paper.says("Observation 2: c is small")
    assert quote("Lemma 4", key="nearest") == paper.says(
        "Figures 2 and 5: better exactness"
    )  # the key counts
    assert quote("ours") == ""
    assert quote("Lemma 44") == ""


def test_the_judges_of_the_benchmark_and_the_flights_name_what_they_judge() -> None:
    flat = [0.1, 0.05, 0.02, 0.01]
    results = benchmark({"swap": flat, "none": flat, "naive": flat})
    for r in results:
        r["bases"] = benchmark({decisions_claims.NETWORK: flat, "shift": flat})[0]["corrections"]
    runs = [
        season(name, seed, 40.0)
        for seed in range(3)
        for name in (flights_claims.UNINSURED, "swap", "none", "naive", flights_claims.CLIPPED)
    ]
    claims = [c for judge in decisions_claims.JUDGES for c in judge(results, "MNIST", "mnist")]
    claims += [c for judge in flights_claims.JUDGES for c in judge(runs)]
    keyed = [claim for claim in claims if claim.key]
    assert len(keyed) > 20
    for claim in keyed:
        assert paper.quoted(claim), claim.key
        assert claim.measured.endswith("."), claim.key
        assert claim.change.endswith("."), claim.key
        assert claim.numbers.endswith("."), claim.key
    judged = {name for item in paper.ITEMS for name in item.judged}
    of_mnist = {"bounded", "forecast loss"}  # these need the test digits
    assert {claim.key for claim in keyed} | of_mnist <= judged
    assert not [
        claim for claim in claims if not claim.key and paper.quoted(claim)
    ]  # what is ours has no quote


def test_the_table_takes_its_verdicts_from_the_page(builder: Any) -> None:
    claim = Claim(
        "text", "§7", "fails", "1.", key="nearest", quote="“x” (§7)", setting="the paper's", seeds=10
    )
    ours = claim._replace(verdict="holds", setting="ours: ĉ is kept in [0, ½]")
    page = "\n".join(builder.box("mnist", claim, [ours], {}))
    table = builder.items_table(page)
    row = next(line for line in table.splitlines() if "better exactness" in line)
    assert "[MNIST, nearest](#mnist-nearest)<br>[MNIST, nearest, ours](#mnist-nearest)" in row
    assert row.endswith("| **fails**<br>**holds** |")
    other = next(line for line in table.splitlines() if "| Lemma 1 |" in line)
    assert other.endswith("| no run judges it yet |")


# Waiting for the runs that judge them.
OPEN = {
    *("The naive payment", "It can be exploited", "Footnote: budget balance"),
    *("Under-reporting", "Honesty, fairness, law", "Sound, so asymptotically sound"),
}


def test_the_page_has_every_item_and_a_verdict_wherever_a_run_decides(builder: Any) -> None:
    page = (ROOT / "docs" / "studies.md").read_text(encoding="utf-8")
    start = page.index(f"## {builder.ITEMS_TITLE}\n")
    table = page[start : page.index("\n## ", start)]
    assert table.strip() == builder.items_table(page).strip()  # the page's own verdicts, and no others
    for item in paper.ITEMS:
        (line,) = [line for line in table.splitlines() if f" | {item.name} | " in line]
        if line.endswith("no run judges it yet |"):
            assert item.name in OPEN
        elif item.judged:
            assert "**holds**" in line or "**fails**" in line or "**undecided**" in line


def test_every_study_has_ten_seeds_for_the_papers_claims() -> None:
    assert {studies.find(name).seeds for name in ("flights", "mnist", "adult", "adversaries")} == {10}
