"""Why the promises on the page hold: each with its theorem, its proof, and the tests that try to break it.

The text is that of docs/theory.md and docs/ledger.md, which are not installed with the package; a test
compares them.
"""

from __future__ import annotations

from typing import NamedTuple


class PromiseProof(NamedTuple):
    """A promise (`id` is its place on the page), the claim, why it holds, and its tests."""

    id: str
    promise: str
    claim: str
    proof: str
    source: str
    tests: tuple[str, ...]


PROOFS = (
    PromiseProof(
        "certain",
        "Your loss is certain.",
        "If the decision maker stakes b = l(1) − l(0), then her total loss, with the payment, is"
        " L_max for every outcome, whatever the true probability.",
        "Her total loss is l(y) − b(y−μ) + |b|c. If y = 1 that is l(1) − b + bμ + |b|c, and l(1) −"
        " b = l(0): the same as if y = 0. ∎",
        "docs/theory.md, “For the decision maker: a certain loss”",
        (
            "tests/test_bets.py::test_with_the_hedge_the_total_loss_is_the_upper_bound_for_both_outcomes",
            "tests/ledger/test_books.py::test_a_quote_is_what_the_stake_then_costs_and_the_loss_is_certain",
        ),
    ),
    PromiseProof(
        "covered",
        "The promise is covered.",
        "Theorem H. After every settlement, what was lost in whole units is at most the capital of"
        " that time.",
        "The loss on a stake in whole units is its payout less its price, at most the unrounded"
        " loss plus |b|·ε; in all at most the unrounded total loss Σℓ plus ½, as Σ|b|·ε < ½. Σℓ ≤ D:"
        " stakes and settlements keep Σℓ + (what open bets can lose) ≤ D as in Theorem D, a deposit"
        " raises D, and a withdrawal is refused unless it stays so. So the whole loss is a whole"
        " number ≤ D + ½, that is ≤ D. ∎",
        "docs/theory.md, “The ledger: whole units, to the cent”",
        (
            "tests/ledger/test_ruin.py::test_a_siege_does_not_ruin_the_book",
            "tests/ledger/test_ruin.py::test_a_long_siege_does_not_ruin_the_book",
        ),
    ),
    PromiseProof(
        "guarded",
        "Why no bet can exceed it.",
        "Theorem D. The total loss never exceeds D.",
        "By the check, what was lost and what the open bets can lose are together at most D after"
        " every stake. A settled forecast loses at most what it could lose; a voided one loses"
        " nothing; and nothing else changes either sum. ∎",
        "docs/theory.md, “Capital: what certainty must cost”",
        ("tests/ledger/test_machine.py::test_a_ledger_does_what_the_model_says",),
    ),
    PromiseProof(
        "own-price",
        "Everybody has her own price.",
        "Theorem E. The bearers of a name, net, never take more than D_g, whatever they and all others do.",
        "As for Theorem D, with the stakes of g. ∎",
        "docs/theory.md, “Lines”",
        (
            "tests/insured/test_lines.py::test_nobody_takes_more_than_her_line",
            "tests/insured/test_lines.py::test_what_others_took_is_not_charged_to_her",
        ),
    ),
    PromiseProof(
        "checked",
        "You can check.",
        "A chain of hashes proves nothing against its owner, who can compute another. A receipt in"
        " somebody's hands does: the log must have the event that it names and the head that it"
        " names. Events after the last receipt can be rewritten.",
        "An event's hash is that of its own words and of the hash before it. Whoever changes an"
        " event and keeps the hashes that a receipt names has found two texts with the same SHA-256,"
        " which nobody is known to have done.",
        "docs/ledger.md, “What is guaranteed, and the test that holds it”",
        (
            "tests/ledger/test_history.py::test_a_rewritten_log_is_found",
            "tests/ledger/test_history.py::test_a_log_that_its_owner_has_chained_anew_is_found_with_one_receipt",
        ),
    ),
)
