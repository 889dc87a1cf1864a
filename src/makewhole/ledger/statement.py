"""The statement of a book, in whole units."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from makewhole.ledger.state import State


@dataclass(frozen=True)
class BookStatement:
    """The sums of a book in whole units, what it can lose at worst, and the head of its chain.

    `lost` is the loss on everything settled (below 0: a profit), at most the `capital`. `at_risk` is the most
    that open bets can still lose, and `left` the rest of the capital, including profits. `stakes` are
    those that are settled, and `key` is the public key that signs receipts.
    `cash` is what should be there: capital and premiums, minus what was due. Compensations are outside it.
    """

    book: str
    unit: str
    events: int
    head: str
    key: str
    capital: int
    premiums: int
    payouts: int
    refunds: int
    compensated: int
    lost: int
    cash: int
    open: int
    at_risk: float
    left: float
    settled: int
    stakes: int

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return asdict(self)

    def __str__(self) -> str:
        result = f"lost {self.lost:,}" if self.lost > 0 else f"won {-self.lost:,}"
        lines = [
            f"Book {self.book}, in whole units ({self.unit})",
            f"  {self.settled:,} forecasts with {self.stakes:,} stakes settled; {self.open:,} ids open",
            f"  premiums {self.premiums:,}, payouts {self.payouts:,}, refunds {self.refunds:,}: {result}",
            f"  at most {self.capital:,} can ever be lost on bets; not lost nor at risk: {self.left:,.0f}",
            f"  cash that should be there: {self.cash:,}",
            f"  {self.events:,} events, head {self.head}",
            f"  receipts are signed with {self.key}",
        ]
        if self.compensated:
            lines.insert(4, f"  compensated, outside the certificate: {self.compensated:,}")
        return "\n".join(lines)


def state_book(state: State) -> BookStatement:
    """The current statement of a book."""
    money, told = state.money, state.f.statement()
    lost_and_at_risk = state.book.committed
    return BookStatement(
        book=state.name,
        unit=state.unit,
        events=state.seq,
        head=state.hash.hex(),
        key=state.key,
        capital=money.capital,
        premiums=money.premiums,
        payouts=money.payouts,
        refunds=money.refunds,
        compensated=money.compensated,
        lost=money.lost,
        cash=money.cash,
        open=len(state.subjects),
        # What another book's promises can lose is no longer in the forecaster's capital.
        at_risk=lost_and_at_risk - told.total_loss + money.capital - state.f.capital,
        left=state.f.capital - lost_and_at_risk,
        settled=told.rounds,
        stakes=told.bets,
    )
