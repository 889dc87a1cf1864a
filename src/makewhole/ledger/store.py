"""Where a ledger is kept: a file, or a PostgreSQL database."""

from __future__ import annotations

import os

from makewhole.ledger.database import Store
from makewhole.ledger.postgres import PostgresStore
from makewhole.ledger.sqlite import SqliteStore

__all__ = ["PostgresStore", "SqliteStore", "Store", "open_store"]


def open_store(where: str | os.PathLike[str], *, wait: float = 3.0, partial: bool = False) -> Store:
    """Open "postgresql://…" or a file; with `partial`, also a copy of a file without its latest events."""
    if isinstance(where, str) and where.startswith(("postgresql://", "postgres://")):
        return PostgresStore(where, wait=wait)
    return SqliteStore(where, wait=wait, partial=partial)
