"""What importing loads, and that compiled code works where nothing can be written."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import makewhole as mw

HEAVY = [
    "numba",
    "scipy",
    "river",
    "sklearn",
    "matplotlib",
    "pandas",
    "polars",
    "pyarrow",
    "narwhals",
    "rich",
    "torch",
]


def python(code: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | environment,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_importing_makewhole_loads_none_of_the_heavy_libraries() -> None:
    code = f"import sys, makewhole; print([m for m in {HEAVY!r} if m in sys.modules])"
    assert python(code) == "[]"


def test_the_interpreted_parts_run_without_numba() -> None:
    code = (
        "import sys, makewhole as mw; from makewhole.protocol import Chance; "
        "f = mw.InsuredForecaster(lambda x: 0.5, mw.SwapRegret(5, seed=0), max_stake=1); "
        "mw.play(Chance(0.5, seed=0), f, mw.agents.Random(seed=0), 100); print('numba' in sys.modules)"
    )
    assert python(code) == "False"


_COMPILED = """
import sys
sys.path.insert(0, INSTALL)
import pandas as pd, makewhole as mw
from makewhole.forecasters import TwoLayerLearner
log = pd.DataFrame({"mu": [0.5, 0.5], "y": [1, 1], "stake": [1.0, 1.0]})
print(mw.__file__)
total = mw.backtest(log, correction=mw.NaiveBestResponse()).total_loss
print(total, TwoLayerLearner(2, seed=0).predict([0, 0]))
"""


@pytest.mark.slow
def test_compiled_paths_work_from_a_read_only_install_and_home(tmp_path: Path) -> None:
    """A file where a folder is needed cannot be written into, not even by root."""
    install = tmp_path / "site"
    shutil.copytree(
        Path(mw.__file__).parent, install / "makewhole", ignore=shutil.ignore_patterns("__pycache__")
    )
    for folder in [install / "makewhole", *(p for p in (install / "makewhole").rglob("*") if p.is_dir())]:
        (folder / "__pycache__").write_text("not a folder")
    home = tmp_path / "home"
    home.write_text("not a folder")
    code = _COMPILED.replace("INSTALL", repr(str(install)))
    where, numbers = python(
        code, HOME=str(home), XDG_CACHE_HOME=str(home), PYTHONDONTWRITEBYTECODE="1"
    ).splitlines()
    assert where.startswith(str(install))
    assert numbers == "0.5 (0.5, 0.0)"


@pytest.mark.slow
def test_compiled_paths_work_where_the_cache_cannot_be_written(tmp_path: Path) -> None:
    code = (
        "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
        "resource.setrlimit(resource.RLIMIT_FSIZE, (512, 512)); "
        "import pandas as pd, makewhole as mw; "
        "log = pd.DataFrame({'mu': [0.5], 'y': [1], 'stake': [1.0]}); "
        "print(mw.backtest(log, correction=mw.NaiveBestResponse()).total_loss)"
    )
    assert python(code, NUMBA_CACHE_DIR=str(tmp_path / "cache"), PYTHONDONTWRITEBYTECODE="1") == "0.5"


_WITHOUT = """
import sys
sys.modules |= dict.fromkeys(["matplotlib", "pandas", "polars", "pooch", "pyarrow", "river", "sklearn"])
import makewhole as mw
from makewhole import datasets
from makewhole.cli import files
for call in sys.stdin.read().splitlines():
    try:
        eval(call)
        print("nothing")
    except ModuleNotFoundError as error:
        print(error)
"""


def test_a_missing_library_names_the_extra_that_installs_it() -> None:
    needs = {
        "mw.SoundClassifier": "sklearn",
        "__import__('makewhole.river')": "river",
        "datasets.load_flights()": "studies",
        "datasets.load_mnist()": "studies",
        "datasets.load_adult()": "studies",
        "datasets.load_adult_table()": "studies",
        "datasets.load_538('mlb')": "studies",
        "mw.plots.LossDisplay.from_results({})": "cli",
        "mw.plots.ReliabilityDisplay.from_predictions([0, 1], [0.5, 0.5])": "cli",
        "files.need('polars')": "cli",
    }
    environment = {key: value for key, value in os.environ.items() if key != "MAKEWHOLE_DATA"}
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT],
        input="\n".join(needs),
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    for call, extra, said in zip(needs, needs.values(), done.stdout.splitlines(), strict=True):
        assert f"pip install 'makewhole[{extra}]'" in said, call


def test_every_public_name_is_there_and_documented_with_an_example() -> None:
    for name in mw.__all__:
        thing = getattr(mw, name)
        assert thing.__doc__, name
    examples = [n for n in mw.__all__ if callable(getattr(mw, n)) and ">>>" in (getattr(mw, n).__doc__ or "")]
    refusals = {n for n in mw.__all__ if isinstance(t := getattr(mw, n), type) and issubclass(t, Exception)}
    functions = {n for n in mw.__all__ if callable(getattr(mw, n))}
    assert functions - set(examples) - refusals == {"Correction"}  # a protocol


@pytest.mark.slow
def test_public_modules_are_there_after_import_makewhole() -> None:
    said = python(
        "import makewhole as mw; print(mw.studies.run, mw.datasets.load_flights, mw.river.InsuredClassifier)"
    )
    assert "InsuredClassifier" in said
