"""A ledger over HTTP, with a page that anyone can check."""

from __future__ import annotations

from makewhole.serve.app import make_app
from makewhole.serve.running import run, run_demo
from makewhole.serve.service import Service

__all__ = ["Service", "make_app", "run", "run_demo"]
