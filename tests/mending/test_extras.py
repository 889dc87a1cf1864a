"""Without an optional library, the error says which extra to install."""

import subprocess
import sys

import pytest


def error_without(library: str, code: str) -> str:
    """The last line that Python prints when `library` cannot be imported."""
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            f"import sys; sys.modules[{library!r}] = None; import makewhole as mw; {code}",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    return done.stderr.strip().splitlines()[-1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("library", "code", "message"),
    [
        ("sklearn", "mw.SoundClassifier", "scikit-learn is needed: pip install 'makewhole[sklearn]'"),
        (
            "sklearn",
            "import makewhole.mending.maps",
            "scikit-learn is needed: pip install 'makewhole[sklearn]'",
        ),
        (
            "matplotlib",
            "mw.plots.ReliabilityDisplay.from_predictions([0, 1], [0.2, 0.8])",
            "matplotlib is needed: pip install 'makewhole[cli]'",
        ),
        (
            "polars",
            "from makewhole.cli.files import need; need('polars')",
            "polars is needed: pip install 'makewhole[cli]'",
        ),
    ],
)
def test_a_missing_library_is_named_with_its_extra(library: str, code: str, message: str) -> None:
    assert error_without(library, code) == f"ModuleNotFoundError: {message}"
