"""A host that serves one book until it is told to end: `python host.py address key book name folder [play]`.

It retries with the same key whatever the database does. For every request it notes the key, the event, its
hash and the seconds that it took; receipts and refusals are in two more files. With `play`, it also publishes
and settles, so that prices move all the time.
"""

from __future__ import annotations

import contextlib
import random
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from makewhole.insured.refusals import Refusal
from makewhole.ledger import Ledger, LedgerUnavailable, LogForked


def stakes(name: str) -> Iterator[dict[str, Any]]:
    """Small stakes on one id, for ever."""
    n = 0
    while True:
        n += 1
        yield {"do": "stake", "id": "open", "by": name, "stake": 1 if n % 2 else -1, "key": f"{name} {n}"}


def rounds(name: str) -> Iterator[dict[str, Any]]:
    """Forecasts, large stakes of a customer who knows the outcome, and settlements, for ever."""
    draw, n = random.Random(name), 0  # noqa: S311 - no secrets here
    while True:
        n += 1
        id_, outcome = f"{name} {n}", int(draw.random() < 0.3)
        yield {"do": "forecast", "id": id_, "mu": draw.uniform(0.1, 0.5), "key": f"{id_} forecast"}
        for by, side in (("insider", 2 * outcome - 1), (name, 1)):
            stake = side * draw.randrange(1, 9_000)
            yield {"do": "stake", "id": id_, "by": by, "stake": stake, "key": f"{id_} {by}"}
        yield {"do": "settle", "id": id_, "outcome": outcome, "key": f"{id_} settle"}


def serve(address: str, key: str, book_name: str, name: str, folder: Path, play: bool) -> None:
    """Serve until SIGTERM."""
    ending: list[int] = []
    signal.signal(signal.SIGTERM, lambda *_: ending.append(1))
    with (
        (folder / f"{name}.notes").open("a", buffering=1) as notes,
        (folder / f"{name}.ndjson").open("a", buffering=1) as receipts,
        (folder / f"{name}.refused").open("a", buffering=1) as refused,
    ):
        ledger = Ledger.open(address, key=key)
        book = ledger.book(book_name)
        for asked in (rounds if play else stakes)(name):
            while not ending:
                began = time.monotonic()
                try:
                    done = book.do_many([asked])[0].answer()
                except (LedgerUnavailable, LogForked) as error:
                    refused.write(f"{type(error).__name__}\t{time.monotonic() - began:.3f}\n")
                    time.sleep(0.05)
                    continue
                except Refusal:
                    break  # by a rule: nothing was done, and nothing will be
                took = time.monotonic() - began
                for receipt in done:
                    receipts.write(receipt.to_json() + "\n")
                    notes.write(f"{asked['key']}\t{receipt.seq}\t{receipt.hash}\t{took:.3f}\n")
                break
            if ending:
                break
        with contextlib.suppress(LedgerUnavailable):
            ledger.close()


if __name__ == "__main__":
    address, key, book, name, folder, *more = sys.argv[1:]
    serve(address, key, book, name, Path(folder), bool(more))
