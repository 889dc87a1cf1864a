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
        " L_max = l(0) + b·μ + |b|·c for every outcome, whatever the true probability.",
        "Her total loss is l(y) − b(y−μ) + |b|c. If y = 1 that is l(1) − b + bμ + |b|c, and l(1)"
        " − b = l(0): the same as if y = 0. ∎",
        "docs/theory.md, “For the decision maker: a certain loss”",
        (
            "tests/test_bets.py::test_with_the_hedge_the_total_loss_is_the_upper_bound_for_both_outcomes",
            "tests/ledger/test_books.py::test_a_quote_is_what_the_stake_then_costs_and_the_loss_is_certain",
        ),
    ),
    PromiseProof(
        "covered",
        "The promise is covered.",
        "Theorem H (to the cent). For the forecaster's owner: after every settlement, what was"
        " lost in whole units is at most the capital of that time.",
        "1. The loss on a stake in whole units is at most its unrounded loss plus |b|·ε. So the"
        " whole loss is at most the unrounded total loss Σℓ plus ½, as Σ|b|·ε < ½. 2. Σℓ ≤ D:"
        " stakes and settlements keep Σℓ + (what open bets can lose) ≤ D as in Theorem D, a"
        " deposit raises D, and a withdrawal is refused unless it stays so. 3. So the whole loss"
        " is a whole number ≤ D + ½, that is ≤ D. ∎",
        "docs/theory.md, “The ledger: whole units, to the cent”",
        (
            "tests/ledger/test_ruin.py::test_a_siege_does_not_ruin_the_book",
            "tests/ledger/test_ruin.py::test_a_long_siege_does_not_ruin_the_book",
        ),
    ),
    PromiseProof(
        "guarded",
        "Why no bet can exceed it.",
        "Theorem D (the capital is enough). For the forecaster's owner: set D aside and you never"
        " lose more than D in total, whoever bets and however late outcomes come. Statement. In"
        " sound mode, or one-sided, under any correction, let Σℓ be the total loss on settled"
        " forecasts. Let O be the sum, over open forecasts, of the most that each can lose as"
        " staked (at least 0). A stake that raises O is accepted only if Σℓ + O ≤ D afterwards."
        " Then Σℓ ≤ D at all times.",
        "1. At the start Σℓ = O = 0, so Σℓ + O ≤ D. 2. An accepted stake keeps Σℓ + O ≤ D: that"
        " is the check. 3. Settling adds a forecast's loss to Σℓ and removes its worst case, which"
        " is no smaller, from O. 4. Voiding leaves Σℓ alone and never raises O. 5. Nothing else"
        " changes Σℓ or O. So Σℓ ≤ Σℓ + O ≤ D. ∎",
        "docs/theory.md, “Theorem D: a capital”",
        ("tests/ledger/test_machine.py::test_a_ledger_does_what_the_model_says",),
    ),
    PromiseProof(
        "own-price",
        "Everybody has her own price.",
        "Theorem E (a line is the most that a name can win). For the forecaster's owner and for "
        "the other customers: the bearers of a name, net, never win more than D_g and what has "
        "thawed of it, whatever they and all others do. Statement. Let S_g be what the bearers of"
        " g have won, net, on settled forecasts, O_g the sum, over open forecasts, of the most "
        "that their stakes can win as placed (at least 0), and T_g what has thawed, 0 ≤ T_g ≤ "
        "β_g. A stake that raises O_g is accepted only if S_g + O_g ≤ D_g + T_g afterwards, for "
        "each of her names g. Then S_g ≤ D_g + T_g ≤ D_g + β_g at all times.",
        "As for Theorem D, with S_g, O_g and D_g + T_g instead of Σℓ, O and D. T_g never falls, "
        "so a thaw keeps S_g + O_g ≤ D_g + T_g. ∎",
        "docs/theory.md, “Theorem E: lines”",
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
