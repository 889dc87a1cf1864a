"""Receipts that are signed together: each proves its own event, and nothing about the others."""

import hashlib
import itertools
import json
import random
from typing import Any

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.places import Place, new_book
from makewhole.ledger import Receipt
from makewhole.ledger.events import ORIGIN, Event, chained
from makewhole.ledger.receipts import Signer, sign_together

BOOK, TOGETHER = "bücher", 32


class Counting(Signer):
    """A key that counts its signatures."""

    def __init__(self) -> None:
        super().__init__(Ed25519PrivateKey.generate())
        self.count = 0

    def sign(self, message: bytes) -> str:
        """Sign."""
        self.count += 1
        return super().sign(message)


def log(count: int) -> list[tuple[Event, bytes]]:
    """So many events of a log, each with the hash before it."""
    made, before = [], ORIGIN
    for seq in range(1, count + 1):
        words = (BOOK, seq, 5, "staked", "UA-1", '{"by":"ann"}')
        made.append((Event(*words, chained(before, *words)), before))
        before = made[-1][0].hash
    return made


def receipts(count: int, signer: Signer) -> list[Receipt]:
    """Receipts for so many events that were stored together."""
    made = [Receipt(*pair) for pair in log(count)]
    sign_together(made, (count, made[-1].event.hash), signer)
    return made


def sha(*parts: bytes) -> bytes:
    return hashlib.sha256(b"".join(parts)).digest()


def top_of(leaves: list[bytes]) -> bytes:
    """The top of a tree, from above: on the left as many leaves as a whole tree has, then the rest."""
    if len(leaves) == 1:
        return leaves[0]
    left = 1
    while 2 * left < len(leaves):
        left *= 2
    return sha(b"\1", *sorted([top_of(leaves[:left]), top_of(leaves[left:])]))


def holds(document: dict[str, Any]) -> bool:
    """Whether a key has signed for an event, as somebody would find out who has read how it is done."""
    top = sha(b"\0", bytes.fromhex(document["salt"]), bytes.fromhex(document["hash"]))
    for other in document["beside"]:
        top = sha(b"\1", *sorted([top, bytes.fromhex(other)]))
    last, head = document["head"]
    said = f"makewhole receipts 1\n{document['book']}\n{last}\n".encode() + bytes.fromhex(head) + top
    try:
        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(document["key"]))
        key.verify(bytes.fromhex(document["signature"]), said)
    except InvalidSignature:
        return False
    return True


@settings(max_examples=40)
@given(st.integers(1, 70), st.integers(0, 2**32))
def test_each_of_many_proves_its_own_event(count: int, seed: int) -> None:
    signer = Counting()
    made = receipts(count, signer)
    assert signer.count == 0  # nobody has looked yet
    looked = random.Random(seed).sample(made, count)  # noqa: S311 - in any order
    documents = [json.loads(one.to_json()) for one in looked]
    assert signer.count == -(-count // TOGETHER)
    assert all(map(holds, documents))
    for one, document in zip(looked, documents, strict=True):
        read = Receipt.from_json(json.dumps(document))  # which checks it
        assert (read.event, read.head, read.proof) == (one.event, one.head, one.proof)
    for start in range(0, count, TOGETHER):
        part = made[start : start + TOGETHER]
        (signature,) = {one.signed[1] for one in part}
        top = top_of([sha(b"\0", one.proof.salt, one.event.hash) for one in part])
        head = part[0].head
        said = f"makewhole receipts 1\n{BOOK}\n{head[0]}\n".encode() + head[1] + top
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(signer.public)).verify(
            bytes.fromhex(signature), said
        )


@settings(max_examples=60)
@given(st.integers(2, 40), st.data())
def test_the_proof_of_one_is_none_for_another(count: int, data: st.DataObject) -> None:
    documents = [json.loads(one.to_json()) for one in receipts(count, Counting())]
    one, other = data.draw(st.permutations(range(count)))[:2]
    named = data.draw(st.sampled_from([("salt",), ("beside",), ("salt", "beside")]))
    changed = documents[one] | {name: documents[other][name] for name in named}
    if changed == documents[one]:
        return  # the rest of a sheet of one
    assert not holds(changed)
    with pytest.raises(ValueError, match="signature"):
        Receipt.from_json(json.dumps(changed))


@pytest.mark.parametrize("count", [1, 2, 3, 33])
def test_a_signature_for_an_event_holds_with_no_other_head(count: int) -> None:
    document = json.loads(receipts(count, Counting())[0].to_json())
    for head in ([count + 1, document["head"][1]], [count, "00" * 32]):
        assert not holds(document | {"head": head})
        with pytest.raises(ValueError, match="signature"):
            Receipt.from_json(json.dumps(document | {"head": head}))


def test_a_receipt_tells_nothing_of_those_beside_it() -> None:
    """Whoever guesses the event after hers knows its hash, but not its salt: she cannot test it."""
    signer, other = Counting(), Counting()
    made = receipts(TOGETHER, signer)
    salts = {one.proof.salt for one in made}
    assert len(salts) == TOGETHER
    assert {len(salt) for salt in salts} == {16}
    assert salts == {one.proof.salt for one in receipts(TOGETHER, signer)}  # asked again, the same
    assert not salts & {one.proof.salt for one in receipts(TOGETHER, other)}  # without the key, another
    for one, next_ in itertools.pairwise(made):
        guessed = {next_.event.hash, sha(b"\0", next_.event.hash)}
        guessed |= {sha(b"\0", salt, next_.event.hash) for salt in (one.proof.salt, bytes(16))}
        assert not guessed & set(one.proof.beside)


def test_a_group_with_refusals_and_repeats_has_a_receipt_for_each(file: Place) -> None:
    with file.open() as ledger:
        book = new_book(ledger)
        book.forecast("a", mu=0.5)
        asked = [{"do": "stake", "id": "a", "by": "ann", "stake": 1, "key": f"k {n % 30}"} for n in range(70)]
        asked[7] = asked[7] | {"id": "b"}
        asked[40] = {"do": "report", "id": "none", "outcome": 1}
        asked[69] = {"do": "settle", "key": "nothing is due"}
        done = book.do_many(asked)
        found: dict[str, str] = {}
        for request, one in zip(asked, done, strict=True):
            if one.error is None and request["do"] == "stake":
                (receipt,) = one.answer()
                receipt.check()
                assert holds(json.loads(receipt.to_json()))
                assert found.setdefault(str(request["key"]), receipt.hash) == receipt.hash
        assert len(found) == 30
        assert done[69].answer() == []
        ledger.verify(
            [Receipt.from_json(r.to_json()) for one in done if one.error is None for r in one.answer()]
        )
