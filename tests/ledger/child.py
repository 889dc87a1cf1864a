"""A process that stakes as fast as it can: `python child.py address key book name stakes notes`.

Three threads, of which one stakes in groups. Whatever was acknowledged is noted in a file before going on.
"""

import os
import sys
import threading
from typing import Any

from makewhole.ledger import Ledger

GROUP = 5


def request(name: str, n: int) -> dict[str, Any]:
    """The n-th request of a thread."""
    return {"do": "stake", "id": "open", "by": name, "stake": 1 if n % 2 else -1, "key": f"{name} {n}"}


def main(address: str, key: str, book_name: str, name: str, stakes: int, acknowledged: str) -> None:
    """Stake, each thread so many times."""
    ledger = Ledger.open(address, key=key, wait=60)
    book = ledger.book(book_name)
    notes = os.open(acknowledged, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def stake(thread: int, size: int) -> None:
        for n in range(0, stakes, size):
            asked = [request(f"{name} {thread}", i) for i in range(n, n + size)]
            for one in book.do_many(asked):
                (receipt,) = one.answer()
                assert one.request is not None
                os.write(notes, f"{one.request.key}\t{receipt.seq}\t{receipt.hash}\n".encode())

    threads = [threading.Thread(target=stake, args=given) for given in ((0, 1), (1, 1), (2, GROUP))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ledger.close()


if __name__ == "__main__":
    address, key, book, name, stakes, notes = sys.argv[1:]
    main(address, key, book, name, int(stakes), notes)
