"""The proofs on the page are those of the documents, and the tests that it names exist."""

import re
from pathlib import Path

import pytest

from makewhole.serve.proofs import PROOFS, PromiseProof

ROOT = Path(__file__).parent.parent.parent


def plain(text: str) -> str:
    """A text without its marks."""
    return re.sub(r"\s+", " ", text.replace("*", ""))


@pytest.mark.parametrize("one", PROOFS, ids=lambda one: one.id)
def test_a_proof_has_the_words_of_its_document(one: PromiseProof) -> None:
    path, _, section = one.source.partition(", ")
    text = plain((ROOT / path).read_text(encoding="utf-8"))
    assert section.strip("“”") in text
    assert one.claim in text
    assert one.proof in text


@pytest.mark.parametrize("name", [test for one in PROOFS for test in one.tests])
def test_a_test_that_is_named_exists(name: str) -> None:
    path, function = name.split("::")
    assert f"\ndef {function}(" in (ROOT / path).read_text(encoding="utf-8")
