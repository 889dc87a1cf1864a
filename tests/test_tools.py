"""The project's own tools: the lowest versions, and mutants that differ from what they were made of."""

import ast
from pathlib import Path

import pytest

import lowest
import mutants

SOURCE = b"""
def total(values, scale=1, \xce\xbc=0.5):
    found = 0
    for value in values:
        if value > \xce\xbc and not value == 1:
            found += value * scale
    return min(found, -scale)
"""


def test_every_lowest_version_is_one_that_the_project_promises() -> None:
    project = {
        "build-system": {"requires": ["hatchling>=1.27"]},
        "project": {
            "name": "makewhole",
            "dependencies": ["numpy>=2.0"],
            "optional-dependencies": {
                "cli": ["rich>=13; sys_platform != 'win32'"],
                "dev": ["makewhole[cli]", "dask[dataframe]>=2025.1"],
            },
        },
    }
    assert lowest.lowest(project) == ["dask==2025.1", "hatchling==1.27", "numpy==2.0", "rich==13"]
    with pytest.raises(ValueError, match="'numpy' must look like name>=version"):
        lowest.lowest(project | {"build-system": {"requires": ["numpy"]}})


def test_a_mutant_is_one_mistake() -> None:
    made = mutants.mutants("total.py", SOURCE)
    changes = {(m.before, m.after) for m in made}
    assert {
        ("value > μ", "(value >= μ)"),
        ("value == 1", "(value != 1)"),
        ("not value == 1", "(value == 1)"),
        ("value > μ and not value == 1", "(value > μ or not value == 1)"),
        ("found += value * scale", "pass"),
        ("found += value * scale", "found -= value * scale"),
        ("value * scale", "0.25 * (value * scale)"),
        ("value * scale", "(value / scale)"),
        ("min", "max"),
        ("-scale", "(scale)"),
        ("0", "1"),
        ("1", "0"),
        ("0.5", "0.25"),
    } <= changes
    trees = {ast.dump(ast.parse(m.apply(SOURCE))) for m in made}
    assert len(trees) == len(made), "no two are the same"
    assert ast.dump(ast.parse(SOURCE)) not in trees


@pytest.mark.slow
@pytest.mark.parametrize("every", [8, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize("path", sorted((mutants.ROOT / "src").rglob("*.py")), ids=lambda p: p.name)
def test_the_mutants_of_this_project_are_programs(path: Path, every: int) -> None:
    source = path.read_bytes()
    for mutant in mutants.mutants(path.name, source)[::every]:
        ast.parse(mutant.apply(source))
