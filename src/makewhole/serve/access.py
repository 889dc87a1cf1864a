"""Who may do what: keys with roles. A key is shown once; the ledger has only its hash."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from typing import NamedTuple

from makewhole.ledger.requests import read_text
from makewhole.ledger.store import Store

# What each role is for. Everybody may see the statement, the open forecasts and a quote.
ROLES = {
    "publisher": "publishes forecasts, calls ids off, and sees the desk",
    "oracle": "reports outcomes",
    "customer": "stakes in her own name, and sees her own positions",
    "auditor": "reads every event",
}


class Access(NamedTuple):
    """A key as the ledger keeps it: `name` is who stakes or reports with it."""

    id: str
    role: str
    name: str
    digest: bytes
    made: int
    revoked: int | None = None


def _digest(secret: str) -> bytes:
    # The secret is 256 random bits: no slow hash is needed to keep it from being guessed.
    return hashlib.sha256(secret.encode()).digest()


class Keys:
    """The keys of a ledger. What others change is seen within a second."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[str, Access] = {}
        self._read = 0.0

    def add(self, role: str, name: str) -> str:
        """Make a key and return its text, which nobody can read again."""
        if role not in ROLES:
            raise ValueError(f"role must be one of {', '.join(ROLES)}; got {role!r}")
        id_, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
        made = time.time_ns() // 1_000
        with self._store.lock, self._store.writing(""):
            self._store.add_access((id_, role, read_text("name", name), _digest(secret), made))
        self._read = 0.0
        return f"mw_{id_}_{secret}"

    def revoke(self, id_: str) -> None:
        """Make a key worthless; a ValueError if there is none of this id."""
        if id_ not in {access.id for access in self.listed()}:
            raise ValueError(f"there is no key with the id {id_!r}")
        with self._store.lock, self._store.writing(""):
            self._store.revoke_access(id_, time.time_ns() // 1_000)
        self._read = 0.0

    def listed(self) -> list[Access]:
        """All keys, the oldest first."""
        with self._store.lock:
            return [Access._make(row) for row in self._store.accesses()]

    def refresh(self) -> None:
        """Read the keys again, if that was a second ago."""
        if time.monotonic() - self._read > 1.0:
            self._read = time.monotonic()
            self._known = {access.id: access for access in self.listed()}

    def find(self, text: str) -> Access | None:
        """The access that a key gives; None for one that is unknown or revoked."""
        parts = text.split("_", 2)
        if len(parts) != 3 or parts[0] != "mw":
            return None
        access = self._known.get(parts[1])
        if access is None or access.revoked is not None:
            return None
        return access if hmac.compare_digest(access.digest, _digest(parts[2])) else None
