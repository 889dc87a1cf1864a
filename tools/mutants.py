"""Mutation testing: break one line of a module at a time, and see whether its tests notice.

    python tools/mutants.py --module src/makewhole/bets.py --sample 40 --seed 0 --jobs 2

A mutant is the module with one small mistake: `<` for `<=`, `+` for `-`, 0 for 1, `and` for `or`, a statement
`x += y` left out. It is put into a temporary copy of the project, never into the project itself. A test that
fails kills it; a mutant that no test notices survives, and is printed: either a test is missing, or the
mutant behaves like the original. The slow tests run only on mutants that survive the others.

Compiling a changed kernel takes longer than running its tests interpreted: set NUMBA_DISABLE_JIT=1 for those.
"""

from __future__ import annotations

import argparse
import ast
import copy
import itertools
import json
import multiprocessing
import os
import queue
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("src/makewhole/insured", "src/makewhole/corrections", "src/makewhole/auditing")
# Tests in other folders that also cover a module.
ALSO = {"src/makewhole/corrections/_kernels.py": ("tests/insured/test_learning.py",)}
# Imported by nearly every test: loaded once, then forked, because starting takes longer than most tests.
LOADED = ("numba", "numpy", "narwhals", "pandas", "polars", "pyarrow", "pytest", "unittest.mock")
COPIED = ("src", "tests", "docs", "examples", "benchmarks", "tools", "pyproject.toml", "README.md")

_OPERATORS: dict[type, type] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Div,
    ast.Pow: ast.Mult, ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip
_NAMES = {"min": "max", "minimum": "maximum", "any": "all", "floor": "ceil"}
_NAMES |= {there: here for here, there in _NAMES.items()}
_NUMBERS = {0: 1, 1: 0, 0.5: 0.25}


class Mutant(NamedTuple):
    """One mistake: the bytes `begin` … `end` of a module, replaced."""

    module: str
    line: int
    before: str
    after: str
    begin: int
    end: int

    def apply(self, source: bytes) -> bytes:
        """Return the module with the mistake in it."""
        return source[: self.begin] + self.after.encode() + source[self.end :]


def mutants(module: str, source: bytes) -> list[Mutant]:
    """Return all mutants of a module, in the order of its lines."""
    lines = source.splitlines(keepends=True)
    starts = [0]
    for text in lines:
        starts.append(starts[-1] + len(text))
    made = []
    for node, after in itertools.chain.from_iterable(map(_mistakes, _code(ast.parse(source)))):
        begin = starts[node.lineno - 1] + node.col_offset
        end = starts[node.end_lineno - 1] + node.end_col_offset
        made.append(Mutant(module, node.lineno, source[begin:end].decode(), after, begin, end))
    return sorted(made, key=lambda m: (m.begin, m.end, m.after))


def _code(node: ast.AST) -> Iterator[Any]:
    """Yield the statements and expressions that may be changed: no annotations, messages or decorators."""
    if isinstance(node, (ast.stmt, ast.expr)):
        yield node
    for name, child in ast.iter_fields(node):
        if name in {"annotation", "returns", "decorator_list", "bases"}:
            continue
        for one in child if isinstance(child, list) else [child]:
            # The parts of an f-string have no positions in Python 3.11.
            if isinstance(one, ast.AST) and not isinstance(one, (ast.JoinedStr, ast.Raise)):
                yield from _code(one)


def _mistakes(node: Any) -> Iterator[tuple[Any, str]]:
    """Yield possible mistakes in a node: the node or a part of it, and its replacement as source."""
    match node:
        case ast.Compare(ops=ops):
            for k, op in enumerate(ops):
                changed = [*ops[:k], _OPERATORS[type(op)](), *ops[k + 1 :]]
                yield node, f"({ast.unparse(_with(node, ops=changed))})"
        case ast.BinOp(op=op) | ast.BoolOp(op=op) if type(op) in _OPERATORS:
            yield node, f"({ast.unparse(_with(node, op=_OPERATORS[type(op)]()))})"
        case ast.UnaryOp(op=ast.Not() | ast.USub()):
            yield node, f"({ast.unparse(node.operand)})"
        case ast.AugAssign(op=op):
            yield node, "pass"
            yield node.value, f"0.25 * ({ast.unparse(node.value)})"
            if type(op) in _OPERATORS:
                yield node, ast.unparse(_with(node, op=_OPERATORS[type(op)]()))
        case ast.Constant(value=bool()):
            yield node, str(not node.value)
        case ast.Constant(value=int() | float() as value) if value in _NUMBERS:
            yield node, str(type(value)(_NUMBERS[value]))
        case ast.Name(id=name) if name in _NAMES:
            yield node, _NAMES[name]
        case ast.Attribute(attr=name) if name in _NAMES:
            yield node, ast.unparse(_with(node, attr=_NAMES[name]))
        case ast.If(test=ast.Name() | ast.Attribute() | ast.Call() as test):
            yield test, f"(not {ast.unparse(test)})"


def _with(node: Any, **fields: Any) -> Any:
    changed = copy.copy(node)
    for name, value in fields.items():
        setattr(changed, name, value)
    return changed


def _symbol(op: ast.operator) -> str:
    return ast.unparse(ast.AugAssign(ast.Name("x"), op, ast.Name("y"))).split()[1]


def tests_of(module: str) -> list[str]:
    """Return the tests of a module, its own first: those named like it, its folder's, its doctests."""
    path = Path(module)
    inside = path.relative_to("src/makewhole").parent
    folder = ROOT / "tests" / inside
    own = sorted(folder.glob(f"test_{path.stem.strip('_')}*.py"))
    others = [] if inside == Path() else [p for p in sorted(folder.glob("test_*.py")) if p not in own]
    return [module, *(str(p.relative_to(ROOT)) for p in [*own, *others]), *ALSO.get(module, ())]


class Tree:
    """A temporary copy of the project, in which one mutant at a time is tested."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in COPIED:
            here, there = ROOT / name, folder / name
            if here.is_dir():  # including numba's caches, which depend on a file's time
                shutil.copytree(here, there, ignore=shutil.ignore_patterns("*.pyc"))
            elif here.exists():
                shutil.copy2(here, there)

    def passes(self, tests: list[str], *, slow: bool, limit: float | None = None, skip: str = "") -> bool:
        """Whether the tests pass; a run that takes longer than `limit` counts as a failure."""
        marks = "slow" if slow else "not slow"
        command = ["-x", "-q", "--tb=no", "-p", "no:cacheprovider", "--no-cov", "-m", marks, *tests]
        if skip:
            command += ["-k", f"not ({skip})"]
        output = self.folder / "output.txt"
        process: Any = _processes().Process(target=_test, args=(str(self.folder), str(output), command))
        process.start()
        process.join(limit)
        if process.exitcode is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.join()
            return False
        if process.exitcode in (3, 4):  # an internal error of pytest, or a wrong call
            raise RuntimeError(output.read_text(encoding="utf-8"))
        return process.exitcode in (0, 5)  # 5: none of them is slow

    def survives(self, mutant: Mutant, tests: list[str], limit: float, *, slow: bool, skip: str) -> bool:
        """Whether no test notices the mutant."""
        target = self.folder / mutant.module
        original, stat = target.read_bytes(), target.stat()
        target.write_bytes(mutant.apply(original))
        try:
            quickly = self.passes(tests, slow=False, limit=limit, skip=skip)
            return quickly and (not slow or self.passes(tests, slow=True, limit=10 * limit, skip=skip))
        finally:
            target.write_bytes(original)
            os.utime(target, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def _processes() -> Any:
    """Return a context whose processes are forked from one that has already imported `LOADED`."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(LOADED))
    return context


def _test(folder: str, output: str, command: list[str]) -> None:
    """Run pytest in a copy of the project, in a separate process."""
    os.setsid()
    os.chdir(folder)
    written = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(written, 1)
    os.dup2(written, 2)
    path = [f"{folder}/src", f"{folder}/tests"]
    ours = {ROOT, *(ROOT / name for name in ("src", "tests", "tools"))}  # not the virtual environment in it
    sys.path[:] = [*path, *(p for p in sys.path if Path(p) not in ours)]
    # No bytecode: its timestamps are in whole seconds, and mutants come faster.
    sys.dont_write_bytecode = True
    os.environ |= {"PYTHONPATH": os.pathsep.join(path), "PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0"}
    import pytest

    os._exit(int(pytest.main(command, plugins=[_NoShrinking()])))


class _NoShrinking:
    """A pytest plugin that stops Hypothesis from shrinking failing examples, which takes long."""

    def pytest_sessionstart(self) -> None:
        from hypothesis import Phase, settings

        phases = (Phase.explicit, Phase.generate)
        settings.register_profile("mutants", parent=settings(), phases=phases)
        settings.load_profile("mutants")


def test_all(
    chosen: list[Mutant], tests: dict[str, list[str]], jobs: int, *, slow: bool, skip: str
) -> list[bool]:
    """Return the mutants that survive, in order; prints each result as it comes."""
    with tempfile.TemporaryDirectory() as temporary:
        trees: queue.Queue[Tree] = queue.Queue()
        for k in range(jobs):
            trees.put(Tree(Path(temporary) / str(k)))
        limits = {module: _limit(trees, module, tests[module], skip) for module in tests}

        def survives(mutant: Mutant) -> bool:
            tree = trees.get()
            try:
                limit = limits[mutant.module]
                alive = tree.survives(mutant, tests[mutant.module], limit, slow=slow, skip=skip)
            finally:
                trees.put(tree)
            print(f"{'SURVIVED' if alive else 'killed  '} {_shown(mutant)}", flush=True)
            return alive

        with ThreadPoolExecutor(jobs) as pool:
            return list(pool.map(survives, chosen))


def _limit(trees: queue.Queue[Tree], module: str, tests: list[str], skip: str) -> float:
    """Run the tests of the unchanged module: they must pass. A mutant may take three times as long."""
    tree = trees.get()
    began = time.monotonic()
    if not tree.passes(tests, slow=False, skip=skip):
        raise RuntimeError(f"the tests of the unchanged {module} fail; fix them first: {' '.join(tests)}")
    trees.put(tree)
    return 20 + 3 * (time.monotonic() - began)


def _shown(mutant: Mutant) -> str:
    before, after = (" ".join(text.split()) for text in (mutant.before, mutant.after))
    return f"{mutant.module}:{mutant.line}  {before}  ->  {after}"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    add = parser.add_argument
    add("--module", action="append", metavar="PATH", help="a module or a folder; may be repeated")
    add("--tests", nargs="+", metavar="PATH", help="the tests to run (default: those of the module's folder)")
    add("--skip", default="", metavar="EXPRESSION", help="leave out tests with such names (pytest -k)")
    add(
        "--sample",
        type=int,
        metavar="N",
        help="how many mutants of each module, drawn at random (default: all)",
    )
    add("--again", type=Path, metavar="REPORT", help="only the mutants that survived in this report")
    add("--seed", type=int, default=0, help="the seed of the draw (default 0)")
    add("--jobs", type=int, default=2, help="how many run in parallel (default 2)")
    add("--slow", action="store_true", help="also run the slow tests, on mutants that survive the others")
    add("--report", type=Path, default=Path("out/mutants.json"), help="the report (default out/mutants.json)")
    return parser.parse_args()


def main() -> int:
    """Test mutants, print those that survive, and write a report; exits 0 even if some survive."""
    arguments = _arguments()
    modules = []
    for name in arguments.module or FOLDERS:
        path = (ROOT / name).resolve()
        found = sorted(path.rglob("*.py")) if path.is_dir() else [path]
        modules += [str(one.relative_to(ROOT)) for one in found]
    chosen = []
    for name in modules:
        made = mutants(name, (ROOT / name).read_bytes())
        some = len(made) if arguments.sample is None else min(arguments.sample, len(made))
        drawn = random.Random(arguments.seed).sample(range(len(made)), some)  # noqa: S311 - no secret
        chosen += [made[k] for k in sorted(drawn)]
    if arguments.again is not None:
        rows = json.loads(arguments.again.read_text(encoding="utf-8"))["all"]
        chosen = [Mutant(*(row[name] for name in Mutant._fields)) for row in rows if row["survived"]]
    tests = {name: arguments.tests or tests_of(name) for name in dict.fromkeys(m.module for m in chosen)}
    alive = test_all(chosen, tests, arguments.jobs, slow=arguments.slow, skip=arguments.skip)
    killed = len(chosen) - sum(alive)
    print(f"\n{killed} of {len(chosen)} mutants killed ({killed / max(1, len(chosen)):.0%})")
    for mutant in (mutant for mutant, survived in zip(chosen, alive, strict=True) if survived):
        print(f"survived: {_shown(mutant)}")
    rows = [m._asdict() | {"survived": survived} for m, survived in zip(chosen, alive, strict=True)]
    arguments.report.parent.mkdir(parents=True, exist_ok=True)
    report = {"killed": killed, "mutants": len(chosen), "seed": arguments.seed, "tests": tests, "all": rows}
    arguments.report.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
