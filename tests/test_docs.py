"""Docs cannot rot: their code runs (as doctests), their commands exist, their links lead somewhere."""

import importlib.util
import re
import shlex
from pathlib import Path

import pytest

from makewhole.cli import _parser
from makewhole.corrections import REGISTRY

ROOT = Path(__file__).parent.parent
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_lead_to_files_that_exist(page: Path) -> None:
    targets = re.findall(r"\]\((?!https?:)([^)#\s]+)", page.read_text(encoding="utf-8"))
    assert [t for t in targets if not (page.parent / t).exists()] == []


def test_the_readme_begins_with_the_two_commands() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    first = re.search(r"```sh\n(.*?)```", text, re.DOTALL)
    assert first is not None
    assert [line.split("#")[0].strip() for line in first[1].splitlines()] == ["make demo", "make test"]
    assert text.index("```sh") < text.index("```python")


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_commands_shown_are_commands_that_parse(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL):
        for line in block.splitlines():
            words = shlex.split(re.split(r" [<>] ", line)[0], comments=True)
            if words and words[0] == "makewhole":
                _parser().parse_args(words[1:])


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_make_targets_shown_exist(page: Path) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    shown = r"(?:^|`)make (?:\w+=\S+ )?([\w-]+(?:\.\d+)?)"
    for target in re.findall(shown, page.read_text(encoding="utf-8"), re.MULTILINE):
        assert re.search(rf"^{re.escape(target)}:", makefile, re.MULTILINE), f"make {target}"


def test_files_named_in_the_architecture_exist() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    source = ROOT / "src" / "makewhole"
    for name in re.findall(r"`((?:[a-z]+/)?[a-z_]+\.py)`", text):
        places = (source / name, ROOT / name, source / "corrections" / name)
        assert any(place.is_file() for place in places), name
    modules = {p.stem if p.is_file() else p.name for p in source.iterdir() if not p.name.startswith("__")}
    assert modules - {"py"} <= set(re.findall(r"`([a-z_]+)/?`", text)), "every module has its line"


def test_the_readmes_table_of_corrections_is_the_registrys() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    rows = [f"| `{kind.__name__}` | {kind.about} | {kind.against} |" for kind in REGISTRY]
    assert re.findall(r"^\| `\w+` \|.*\|$", text, re.MULTILINE) == rows


@pytest.mark.slow
def test_the_guide_is_what_its_code_prints() -> None:
    """The flights are installed with the extra; versions of libraries differ in digits, not in words."""
    spec = importlib.util.spec_from_file_location("build_guide", ROOT / "docs" / "build_guide.py")
    assert spec is not None
    assert spec.loader is not None
    guide = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(guide)
    written = (ROOT / "docs" / "stand-behind.md").read_text(encoding="utf-8")
    page, names = guide.run(written)
    digits = re.compile(r"[-+]?\d[\d,.e+-]*|\s+")
    assert digits.sub(" ", page) == digits.sub(" ", written)
    assert names["mended"].verdict_ == "certified"
    assert names["result"].peak_loss <= names["capital"]
