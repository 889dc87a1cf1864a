"""What is in deploy/: checked as far as can be without Docker."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

DEPLOY = Path(__file__).parents[1] / "deploy"
APP = Path(__file__).parents[1] / "src" / "makewhole" / "serve" / "app.py"


def test_the_dashboard_asks_only_for_metrics_that_there_are() -> None:
    board = json.loads((DEPLOY / "grafana.json").read_text())
    text = APP.read_text()
    fields = re.search(r"for field in \((.*?)\)", text, re.DOTALL)
    assert fields is not None
    known = {f"makewhole_book_{name}" for name in re.findall(r'"(\w+)"', fields[1])}
    known |= set(re.findall(r"makewhole_\w+(?=[ {])", text))
    asked = {
        name
        for panel in board["panels"]
        for target in panel["targets"]
        for name in re.findall(r"makewhole_\w+", target["expr"])
    }
    assert asked
    assert asked <= known
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])


def test_the_container_runs_what_exists_as_nobody_special() -> None:
    text = (DEPLOY / "Dockerfile").read_text()
    lines = [line for line in text.splitlines() if line and not line.startswith(("#", " "))]
    known = {
        "FROM",
        "WORKDIR",
        "COPY",
        "RUN",
        "ENV",
        "USER",
        "VOLUME",
        "EXPOSE",
        "HEALTHCHECK",
        "ENTRYPOINT",
        "CMD",
    }
    assert {line.split()[0] for line in lines} <= known
    assert lines.index("USER makewhole") < lines.index('ENTRYPOINT ["makewhole", "serve"]')
    for line in lines:
        if line.startswith("COPY") and "--from" not in line:
            for name in line.split()[1:-1]:
                assert (DEPLOY.parent / name).exists(), name


@pytest.mark.skipif(shutil.which("docker") is None, reason="Docker is not at hand")
def test_compose_understands_its_file(tmp_path: Path) -> None:
    copy = tmp_path / "deploy"
    shutil.copytree(DEPLOY, copy)
    for name in ("password.txt", "pgpass.txt"):
        (copy / name).write_text("x")
    command = ["docker", "compose", "-f", str(copy / "compose.yaml"), "config", "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "unknown" in done.stderr or "not a docker command" in done.stderr:
        pytest.skip("this Docker has no compose")
    assert done.returncode == 0, done.stderr
