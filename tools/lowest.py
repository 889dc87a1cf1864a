"""Print the lowest versions that pyproject.toml promises, as constraints for pip (`make test-lowest`)."""

import re
import sys
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent


def lowest(project: dict[str, Any]) -> list[str]:
    """Turn every `name>=version` of the core, the extras and the build into `name==version`.

    Their own dependencies are left to pip. Raises a ValueError for a requirement without a lowest version.
    """
    lists = [project["build-system"]["requires"], project["project"]["dependencies"]]
    lists += project["project"]["optional-dependencies"].values()
    pins = set()
    for requirement in (one for several in lists for one in several):
        bound = re.fullmatch(r"([\w.-]+)(?:\[[\w,-]+\])?(?:>=([\w.]+))?(?:; .*)?", requirement)
        if bound and bound[1] == project["project"]["name"]:  # an extra that includes another
            continue
        if not bound or not bound[2]:
            raise ValueError(f"{requirement!r} must look like name>=version")
        pins.add(f"{bound[1]}=={bound[2]}")
    return sorted(pins)


if __name__ == "__main__":
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    sys.stdout.write("\n".join(lowest(tomllib.loads(text))) + "\n")
