"""Receipts: a signed event of the log, in the hands of the person it concerns.

A chain of hashes alone proves nothing against its owner, who can compute a new one. A receipt does: the log
must have both the event and the head that it names, with their hashes.

A signature takes as long as a whole stake, so events that are stored together are signed together: their
hashes are leaves of a tree of hashes (Merkle), whose top is signed. A receipt has the hashes beside its own
on the way to the top, which say nothing about the other events: only an event's own receipt has its salt.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b, sha256
from pathlib import Path
from typing import Any, NamedTuple

from makewhole.extras import need
from makewhole.ledger.events import ORIGIN, Event, chained

_ALGORITHM = "cryptography.hazmat.primitives.asymmetric.ed25519"
# The most that are signed together. More would save little, and delay the first receipt that is read: 64
# hashes take about as long as the signature.
_SHEET = 32
_SALT = 16


class Signer:
    """A private key (Ed25519) in a file that only its owner can read."""

    def __init__(self, private: Any) -> None:
        self._private = private
        self.public: str = private.public_key().public_bytes_raw().hex()
        self._salts = blake2b(private.private_bytes_raw(), digest_size=32, person=b"makewhole salts").digest()

    @classmethod
    def at(cls, path: str | os.PathLike[str]) -> Signer:
        """The key in a file; a new one if there is no file."""
        try:
            return cls.of(path)
        except FileNotFoundError:
            with contextlib.suppress(FileExistsError):  # another process was faster
                return cls.new(path)
            return cls.of(path)

    @classmethod
    def of(cls, path: str | os.PathLike[str]) -> Signer:
        """The key in a file; a ValueError if the file has none, or if others can read it."""
        ed25519 = need(_ALGORITHM, "ledger")
        with Path(path).open(encoding="ascii", errors="replace") as file:
            if os.name == "posix" and os.fstat(file.fileno()).st_mode & 0o077:
                raise ValueError(f"others can read the key {str(path)!r}: chmod 600 it, or make a new one")
            text = file.read(1000).strip()
        try:
            return cls(ed25519.Ed25519PrivateKey.from_private_bytes(bytes.fromhex(text)))
        except ValueError:
            raise ValueError(f"{str(path)!r} is not a key: it must be 64 hexadecimal digits") from None

    @classmethod
    def new(cls, path: str | os.PathLike[str]) -> Signer:
        """A new key, stored; a FileExistsError if there is a file."""
        ed25519 = need(_ALGORITHM, "ledger")
        private = ed25519.Ed25519PrivateKey.generate()
        descriptor, name = tempfile.mkstemp(".draft", f"{Path(path).name}.", Path(path).parent)  # mode 600
        draft = Path(name)
        try:
            with os.fdopen(descriptor, "w", encoding="ascii") as file:
                file.write(private.private_bytes_raw().hex() + "\n")
                file.flush()
                os.fsync(descriptor)
            os.link(draft, path)  # all or nothing, and never overwrites a file
            _sync_folder(draft.parent)  # a book that names the key must not outlive it
        finally:
            draft.unlink()
        return cls(private)

    def sign(self, message: bytes) -> str:
        """The signature of a message, as hexadecimal digits."""
        signature: bytes = self._private.sign(message)
        return signature.hex()

    def salt(self, hash_: bytes) -> bytes:
        """The salt for an event: always the same one, which cannot be guessed without the key."""
        return blake2b(hash_, digest_size=_SALT, key=self._salts).digest()


class Proof(NamedTuple):
    """Proof that a key has signed an event: `salt` and `beside` lead from its hash to what was signed."""

    key: str
    signature: str
    salt: bytes
    beside: tuple[bytes, ...]


class Sheet:
    """Events of a book whose receipts are signed together, when the first of them is read."""

    __slots__ = ("_book", "_hashes", "_head", "_levels", "_salts", "_signature", "_signer")

    def __init__(self, signer: Signer, book: str, head: tuple[int, bytes], hashes: Sequence[bytes]) -> None:
        self._signer, self._book, self._head, self._hashes = signer, book, head, hashes
        self._salts: list[bytes] = []
        self._levels: list[list[bytes]] = []  # of the tree: the leaves first, the top last
        self._signature = ""

    def proof(self, hash_: bytes) -> Proof:
        """The proof for one of the events, by its hash."""
        if not self._signature:
            self._sign()
        place, beside = self._hashes.index(hash_), []
        salt = self._salts[place]
        for level in self._levels:
            if place ^ 1 < len(level):
                beside.append(level[place ^ 1])
            place >>= 1
        return Proof(self._signer.public, self._signature, salt, tuple(beside))

    def _sign(self) -> None:
        # Two threads that do this together get the same result; the signature is set last: then all is there.
        self._salts = list(map(self._signer.salt, self._hashes))
        self._levels = _levels(list(map(_leaf, self._salts, self._hashes)))
        self._signature = self._signer.sign(_message(self._book, self._head, self._levels[-1][0]))


def _levels(leaves: list[bytes]) -> list[list[bytes]]:
    """The levels of a tree: two neighbours are joined; one without a neighbour moves up unchanged."""
    levels = [leaves]
    while len(leaves) > 1:
        joined = [_joined(*leaves[k : k + 2]) for k in range(0, len(leaves) - 1, 2)]
        leaves = [*joined, leaves[-1]] if len(leaves) % 2 else joined
        levels.append(leaves)
    return levels


# Leaves and inner nodes are hashed with different first bytes: neither can be mistaken for the other.
def _leaf(salt: bytes, hash_: bytes) -> bytes:
    return sha256(b"\0" + salt + hash_).digest()


def _joined(one: bytes, other: bytes) -> bytes:
    # In sorted order, so that a receipt need not say on which side each of its hashes is.
    return sha256(b"\1" + one + other if one < other else b"\1" + other + one).digest()


def _message(book: str, head: tuple[int, bytes], top: bytes) -> bytes:
    """What is signed."""
    return f"makewhole receipts 1\n{book}\n{head[0]}\n".encode() + head[1] + top


def sign_together(receipts: Sequence[Receipt], head: tuple[int, bytes], signer: Signer) -> None:
    """Sign receipts for events of one book, whose log ends with `head`, sheet by sheet."""
    for start in range(0, len(receipts), _SHEET):
        part = receipts[start : start + _SHEET]
        sheet = Sheet(signer, part[0].event[0], head, [receipt.event[6] for receipt in part])
        for receipt in part:
            receipt.head, receipt.sheet = head, sheet


def _is(value: Any, kind: type) -> Any:
    """Return a value of exactly this type: "3" would be hashed like 3, but no event has it."""
    if type(value) is not kind:
        raise TypeError(f"{value!r} is not {kind.__name__}")
    return value


def _sync_folder(folder: Path) -> None:
    """Make the names in a folder durable; Windows does so by itself, and has no call for it."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@dataclass(eq=False)
class Receipt:
    """An event of the log with the hash before it, and the head of the chain when it was stored; signed.

    `to_json` is what to hand out, and `from_json` reads it again. `check` tests whether it is consistent in
    itself; `Ledger.verify(receipts=...)` tests whether the log still has it.
    """

    event: Event
    previous: bytes
    head: tuple[int, bytes] = (0, ORIGIN)
    sheet: Sheet | None = None
    known: Proof | None = None  # of a receipt read from JSON

    @property
    def seq(self) -> int:
        """The number of its event."""
        return self.event.seq

    @property
    def body(self) -> dict[str, Any]:
        """The body of the event: for a stake, its price, and the forecast that it was placed on."""
        return self.event.data()

    def __getitem__(self, name: str) -> Any:
        return self.body[name]

    @property
    def hash(self) -> str:
        """The hash of its event, as hexadecimal digits."""
        return self.event.hash.hex()

    @cached_property
    def proof(self) -> Proof:
        """The signature, and the path to it; made when it is first needed."""
        if self.sheet is not None:
            return self.sheet.proof(self.event.hash)
        if self.known is None:
            raise ValueError(f"the receipt for event {self.seq} is not signed")
        return self.known

    @property
    def signed(self) -> tuple[str, str]:
        """The public key and the signature."""
        return self.proof[:2]

    def check(self) -> None:
        """Raise a ValueError unless the hash and the signature match."""
        exceptions = need("cryptography.exceptions", "ledger")
        ed25519 = need(_ALGORITHM, "ledger")
        book, seq, at, kind, about, body, found = self.event
        if chained(self.previous, book, seq, at, kind, about, body) != found:
            raise ValueError(f"the receipt for event {seq} was changed: its hash does not fit")
        public, signature, salt, beside = self.proof
        top = _leaf(salt, found)
        for other in beside:
            top = _joined(top, other)
        try:
            key = ed25519.Ed25519PublicKey.from_public_bytes(bytes.fromhex(public))
            key.verify(bytes.fromhex(signature), _message(book, self.head, top))
        except (ValueError, exceptions.InvalidSignature):
            raise ValueError(f"the receipt for event {seq} was changed: its signature does not fit") from None

    def to_json(self) -> str:
        """The receipt as JSON text."""
        book, seq, at, kind, about, body, found = self.event
        public, signature, salt, beside = self.proof
        document = {
            "receipt": 1,
            "book": book,
            "seq": seq,
            "at": at,
            "kind": kind,
            "about": about,
            "body": body,
            "previous": self.previous.hex(),
            "hash": found.hex(),
            "head": [self.head[0], self.head[1].hex()],
            "salt": salt.hex(),
            "beside": [one.hex() for one in beside],
            "key": public,
            "signature": signature,
        }
        return json.dumps(document, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> Receipt:
        """The receipt for which `to_json` returned this; a ValueError for anything else."""
        try:
            read = json.loads(text)
            if _is(read["receipt"], int) != 1:
                raise ValueError(f"its version is {read['receipt']}")
            book, kind, body = (_is(read[name], str) for name in ("book", "kind", "body"))
            seq, at, head = (_is(number, int) for number in (read["seq"], read["at"], read["head"][0]))
            about = None if read["about"] is None else _is(read["about"], str)
            previous, found, salt, key, signature = (
                bytes.fromhex(read[name]) for name in ("previous", "hash", "salt", "key", "signature")
            )
            beside = tuple(map(bytes.fromhex, _is(read["beside"], list)))
            if len(salt) != _SALT or any(len(one) != len(ORIGIN) for one in beside):
                raise ValueError("its salt or one of the hashes beside it is not of the right length")
            event = Event(book, seq, at, kind, about, body, found)
            known = Proof(key.hex(), signature.hex(), salt, beside)
            made = cls(event, previous, (head, bytes.fromhex(read["head"][1])), known=known)
        except (KeyError, TypeError, AttributeError, IndexError, ValueError, RecursionError) as error:
            raise ValueError(f"this is not a receipt: {error!r}") from None
        made.check()
        return made
