"""Receipts: an event of the log, signed, in the hands of whom it concerns.

A chain of hashes alone proves nothing against its owner, who can compute a new one. A receipt can: the log
must have the event that it names, with its hash, and the head that it names, too.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from makewhole.extras import need
from makewhole.ledger.events import Event, chained

_ALGORITHM = "cryptography.hazmat.primitives.asymmetric.ed25519"


class Signer:
    """A private key (Ed25519) in a file that only its owner can read."""

    def __init__(self, private: Any) -> None:
        self._private = private
        self.public: str = private.public_key().public_bytes_raw().hex()

    @classmethod
    def at(cls, path: str | os.PathLike[str]) -> Signer:
        """The key in a file; a new one where there is no file."""
        try:
            return cls.of(path)
        except FileNotFoundError:
            with contextlib.suppress(FileExistsError):  # another was quicker
                return cls.new(path)
            return cls.of(path)

    @classmethod
    def of(cls, path: str | os.PathLike[str]) -> Signer:
        """The key in a file; a ValueError if it is none, or if others can read it."""
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
            os.link(draft, path)  # whole or not at all, and never over another
            _sync_folder(draft.parent)  # a book that names the key must not outlive it
        finally:
            draft.unlink()
        return cls(private)

    def sign(self, message: bytes) -> str:
        """The signature of a message, as hexadecimal digits."""
        signature: bytes = self._private.sign(message)
        return signature.hex()


def _is(value: Any, kind: type) -> Any:
    """A value of just this type: "3" would be hashed like 3, but no event has it."""
    if type(value) is not kind:
        raise TypeError(f"{value!r} is not {kind.__name__}")
    return value


def _sync_folder(folder: Path) -> None:
    """Make the names in a folder last; Windows does so by itself, and has no way to ask."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@dataclass(eq=False)
class Receipt:
    """An event of the log with the hash before it, and the head of the chain when it was stored; signed.

    `to_json` is what to hand out, and `from_json` reads it again. `check` says whether it is consistent in
    itself; whether the log still has it is what `Ledger.verify(receipts=...)` finds.
    """

    event: Event
    previous: bytes
    head: tuple[int, bytes]
    signer: Signer | None = None
    known: tuple[str, str] = ("", "")  # public key and signature of one that was read

    @property
    def seq(self) -> int:
        """The number of its event."""
        return self.event.seq

    @property
    def body(self) -> dict[str, Any]:
        """What the event says: of a stake, its price, and the forecast that it was placed on."""
        return self.event.data()

    def __getitem__(self, name: str) -> Any:
        return self.body[name]

    @property
    def hash(self) -> str:
        """The hash of its event, as hexadecimal digits."""
        return self.event.hash.hex()

    def _message(self) -> bytes:
        seq, head = self.head
        text = f"makewhole receipt 1\n{self.event.book}\n{self.event.seq} {seq}\n"
        return text.encode() + self.event.hash + head

    @cached_property
    def signed(self) -> tuple[str, str]:
        """The public key and the signature; it is made when it is first asked for."""
        if self.signer is not None:
            return self.signer.public, self.signer.sign(self._message())
        return self.known

    def check(self) -> None:
        """Raise a ValueError unless the hash and the signature fit."""
        exceptions = need("cryptography.exceptions", "ledger")
        ed25519 = need(_ALGORITHM, "ledger")
        book, seq, at, kind, about, body, found = self.event
        if chained(self.previous, book, seq, at, kind, about, body) != found:
            raise ValueError(f"the receipt for event {seq} was changed: its hash does not fit")
        public, signature = self.signed
        try:
            key = ed25519.Ed25519PublicKey.from_public_bytes(bytes.fromhex(public))
            key.verify(bytes.fromhex(signature), self._message())
        except (ValueError, exceptions.InvalidSignature):
            raise ValueError(f"the receipt for event {seq} was changed: its signature does not fit") from None

    def to_json(self) -> str:
        """The receipt as JSON text."""
        book, seq, at, kind, about, body, found = self.event
        public, signature = self.signed
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
            previous, found, key, signature = (
                bytes.fromhex(read[name]) for name in ("previous", "hash", "key", "signature")
            )
            event = Event(book, seq, at, kind, about, body, found)
            known = (key.hex(), signature.hex())
            made = cls(event, previous, (head, bytes.fromhex(read["head"][1])), known=known)
        except (KeyError, TypeError, AttributeError, IndexError, ValueError, RecursionError) as error:
            raise ValueError(f"this is not a receipt: {error!r}") from None
        made.check()
        return made
