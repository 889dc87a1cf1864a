"""Who may do what: keys with roles. A key is shown once; the ledger has only its hash."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from typing import NamedTuple

from makewhole.ledger.requests import read_text
from makewhole.ledger.store import Store

# What each role may do. Everyone may see the statement, the open forecasts and a quote.
ROLES = {
    "publisher": "publishes forecasts, calls ids off, and sees the desk",
    "oracle": "reports outcomes",
    "customer": "stakes in her own name, and sees her own positions",
    "auditor": "reads every event",
}


class Access(NamedTuple):
    """A key as the ledger stores it: `name` is the customer or reporter who uses it."""

    id: str
    role: str
    name: str
    digest: bytes
    made: int
    revoked: int | None = None


def _digest(secret: str) -> bytes:
    # The secret is 256 random bits, which cannot be guessed: a slow hash is not needed.
    return hashlib.sha256(secret.encode()).digest()


class Keys:
    """The keys of a ledger. Changes by other processes are seen within a second."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[str, Access] = {}
        self._read = 0.0

    def add(self, role: str, name: str) -> str:
        """Make a key and return its text, which is shown only once."""
        if role not in ROLES:
            raise ValueError(f"role must be one of {', '.join(ROLES)}; got {role!r}")
        id_, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
        made = time.time_ns() // 1_000
        with self._store.lock, self._store.writing(""):
            self._store.add_access((id_, role, read_text("name", name), _digest(secret), made))
        self._read = 0.0
        return f"mw_{id_}_{secret}"

    def revoke(self, id_: str) -> None:
        """Revoke a key; raise a ValueError if no key has this id."""
        if id_ not in {access.id for access in self.listed()}:
            raise ValueError(f"there is no key with the id {id_!r}")
        with self._store.lock, self._store.writing(""):
            self._store.revoke_access(id_, time.time_ns() // 1_000)
        self._read = 0.0

    def listed(self) -> list[Access]:
        """Return all keys, the oldest first."""
        with self._store.lock:
            return [Access._make(row) for row in self._store.accesses()]

    def refresh(self) -> None:
        """Read the keys again if they were last read a second ago or more."""
        if time.monotonic() - self._read > 1.0:
            self._read = time.monotonic()
            self._known = {access.id: access for access in self.listed()}

    def find(self, text: str) -> Access | None:
        """Return the access that a key gives; None if it is unknown or revoked."""
        parts = text.split("_", 2)
        if len(parts) != 3 or parts[0] != "mw":
            return None
        access = self._known.get(parts[1])
        if access is None or access.revoked is not None:
            return None
        return access if hmac.compare_digest(access.digest, _digest(parts[2])) else None
