"""Tests of the ledger, on real databases; a package, so that its conftest.py is not the one above."""
