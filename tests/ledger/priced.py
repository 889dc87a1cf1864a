"""Print the bodies of every event of a book with insiders, lines and a thaw: run by test_processors."""

from __future__ import annotations

import json
import sys
import tempfile
from typing import Any

import numpy as np

import makewhole as mw
from makewhole.insured.refusals import Refusal
from makewhole.ledger import Ledger


def main(rounds: int) -> None:
    """Play a market in which some customers know the outcomes, so that prices move all the time."""
    chance, time = np.random.default_rng(0), iter(range(10**6))
    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger.open(f"{folder}/book.db", clock=lambda: next(time))
        how: Any = {"lines": mw.Lines(each=120_000, share=1), "stop": False}  # so that prices rise far
        book = ledger.create("delays", capital=300_000, max_stake=20_000, unit="cent", **how)
        for k in range(rounds):
            late = chance.random() < 0.3
            book.forecast(f"flight {k}", mu=chance.uniform(0.1, 0.5))
            for name in chance.choice(
                ["ann", "bob", "insider", "another insider"], 2, replace=False
            ).tolist():
                side = 1 if late or "insider" not in name else -1
                try:
                    book.stake(f"flight {k}", by=name, stake=side * int(chance.integers(1, 10_000)))
                except Refusal as refused:
                    print(type(refused).__name__)  # noqa: T201 - read by the test
            book.settle(f"flight {k}", int(late))
        for event in ledger.verify() and book.events():
            print(json.dumps({name: value for name, value in event.data().items() if name != "key"}))  # noqa: T201 - read by the test
        ledger.close()


if __name__ == "__main__":
    main(int(sys.argv[1]))
