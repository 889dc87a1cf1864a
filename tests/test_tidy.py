"""Style as a test: what a reader may rely on everywhere in the tree."""

import ast
import re
import subprocess
from pathlib import Path

import pytest

import makewhole as mw

ROOT = Path(__file__).parent.parent
SOURCES = sorted((ROOT / "src").rglob("*.py"))
FOLDERS = ("src", "tests", "benchmarks", "examples", "tools")
PYTHON = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
TESTS = sorted((ROOT / "tests").rglob("*.py"))
CLOCK = re.compile(r"\b(perf_counter|monotonic|process_time|timeit|time\.time|elapsed|seconds|duration)\w*\b")


def tracked() -> list[Path]:
    """Files git knows, or would add; outside a checkout, all that are not hidden."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],  # noqa: S607 - git is on the PATH
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode == 0:
        return [ROOT / name for name in listed.stdout.splitlines() if (ROOT / name).is_file()]
    return [
        p
        for p in ROOT.rglob("*")
        if p.is_file() and not any(q.startswith(".") for q in p.relative_to(ROOT).parts)
    ]


TEXTS = [p for p in tracked() if p.suffix in {".py", ".md", ".toml", ".txt", ""} and p.name != "LICENSE"]


def functions(path: Path) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", PYTHON, ids=relative)
def test_files_are_short_enough_to_read_at_once(path: Path) -> None:
    lines = len(path.read_text(encoding="utf-8").splitlines())
    assert lines <= 600, f"{lines} lines: would two files tell the story better?"


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_functions_are_short(path: Path) -> None:
    def length(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
        first = node.body[0]
        has_manual = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
        begins = node.body[1].lineno if has_manual and len(node.body) > 1 else first.lineno
        return (node.end_lineno or begins) - begins + 1

    long = [f"{node.name}: {length(node)}" for node in functions(path) if length(node) > 50]
    assert not long


@pytest.mark.parametrize("path", PYTHON, ids=relative)
def test_every_file_says_what_it_is_for(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))), "no module docstring"


def test_no_name_that_means_nothing() -> None:
    vague = re.compile(r"(^|_)(utils?|helpers?|common|core|manager|misc|base_class)(_|$)")
    named = [relative(p) for p in SOURCES if vague.search(p.stem)]
    for path in SOURCES:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        named += [
            n.name for n in ast.walk(tree) if isinstance(n, ast.ClassDef) and vague.search(n.name.lower())
        ]
    assert not named


def test_a_class_name_means_one_thing() -> None:
    homes: dict[str, list[str]] = {}
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                homes.setdefault(node.name, []).append(relative(path))
    twice = {name: files for name, files in homes.items() if len(files) > 1}
    assert twice == {}


@pytest.mark.parametrize("path", PYTHON, ids=relative)
def test_every_exemption_has_its_reason_beside_it(path: Path) -> None:
    bare = re.compile(r"#\s*(type:\s*ignore\[[\w, -]+\]|noqa:\s*[A-Z]+\d+(,\s*[A-Z]+\d+)*)\s*$")
    unexplained = re.compile(r"#\s*(type:\s*ignore\s*$|noqa\s*$)")
    lines = path.read_text(encoding="utf-8").splitlines()
    bad = [
        f"line {i}: {line.strip()}"
        for i, line in enumerate(lines, 1)
        if bare.search(line) or unexplained.search(line)
    ]
    assert not bad


@pytest.mark.parametrize("path", TEXTS, ids=relative)
def test_no_machine_paths_leftovers_or_stray_spaces(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"(^|[^\w.])/(home|root|work|Users)/[\w.]", text), "a path of one machine"
    assert not re.search(r"^(<<<<<<<|>>>>>>>)", text, re.MULTILINE), "a merge marker"
    if path != Path(__file__):
        assert not re.search(r"\b(TODO|FIXME|XXX)\b", text), "unfinished"
    assert not re.search(r"[ \t]+$", text, re.MULTILINE), "trailing spaces"
    assert not text or text.endswith("\n"), "no newline at the end"


def test_asserts_are_for_tests_only() -> None:
    """`python -O` strips them: what must hold in use is raised."""
    found = []
    for path in SOURCES:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        found += [f"{relative(path)}:{n.lineno}" for n in ast.walk(tree) if isinstance(n, ast.Assert)]
    assert not found


@pytest.mark.parametrize("path", TESTS, ids=relative)
def test_no_test_fails_because_the_machine_is_slow(path: Path) -> None:
    """Hypothesis' settings are in conftest.py, its deadline is off, and no assertion compares times."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg in {"deadline", "derandomize"}:
            assert path.name == "conftest.py", f"line {node.value.lineno}: {node.arg} is set in conftest.py"
        if isinstance(node, ast.Assert):
            assert not CLOCK.search(ast.unparse(node)), f"line {node.lineno} asserts how long something took"


def test_versions_in_the_constraints_are_versions_and_nothing_else() -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if not re.fullmatch(r"[\w.-]+==[\w.+!]+", line)] == []


def test_the_changelog_knows_this_version() -> None:
    assert f"## {mw.__version__}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_public_names_are_sorted_and_exist() -> None:
    assert list(mw.__all__) == sorted(mw.__all__)
    assert all(hasattr(mw, name) for name in mw.__all__)
