"""What corrections have learned, as a book's state has it, and how a thaw changes it."""

from __future__ import annotations

from typing import Any

from makewhole.corrections import BookCorrection
from makewhole.corrections.names import Name
from makewhole.insured._kernels import concede
from makewhole.insured.changes import CONCEDED, DAY, TOTALS, Get, Key, Patch, drafting
from makewhole.insured.thaw import Conceded, Thaw


class Memories:
    """Reads and writes what a book's corrections have learned; `cap` is that of what one of them sees."""

    def __init__(self, rules: list[BookCorrection], cap: float) -> None:
        self.rules, self.cap, self.grouped = rules, cap, rules[0].grouped
        self.keys: list[list[Key]] = [[("memory", k, None)] for k in range(len(rules))]

    def recall(self, get: Get, k: int, groups: tuple[Name, ...]) -> tuple[list[Key], Any]:
        """What a line's correction has learned for these groups, and the keys it is kept under."""
        if not self.grouped:
            return self.keys[k], get(self.keys[k][0])
        rule = self.rules[k]
        keys: list[Key] = [("memory", k, part) for part in rule.parts(groups)]
        memories = [get(key) for key in keys]
        known = [rule.blank() if memory is None else memory for memory in memories]
        return keys, rule.gather_for(known, groups)

    def remember(self, patch: Patch, rule: BookCorrection, keys: list[Key], memory: Any) -> None:
        """Write down what a line has learned."""
        if not self.grouped:
            patch[keys[0]] = memory
        else:
            patch.update(zip(keys, rule.scatter(memory), strict=True))

    def frozen(self, get: Get, thaw: Thaw | None) -> bool:
        """Whether a forecast that nobody stakes on would change anything, because of a thaw."""
        if thaw is None:
            return False
        memories = [get(keys[0]) for keys in self.keys]
        lams = [rule.proposed(memory)[0].lam for rule, memory in zip(self.rules, memories, strict=True)]
        return max(lams) > thaw.above


def recall_over(get: Get, rule: BookCorrection, key: Key) -> Any:
    """What the correction that a reserve is over has learned."""
    memory = get(key)
    return rule.over.blank() if memory is None and rule.over is not None else memory


def warm(
    books: Memories, thaw: Thaw, state: Get, patch: Patch, groups: tuple[Name, ...], unstaked: bool
) -> None:
    """After a settlement: lower λ if hardly anybody had staked, and count what that concedes.

    The patch has the totals with this settlement, of which the largest profit is kept.
    """
    if not unstaked and not thaw.share:
        return
    get = drafting(state, patch)
    totals, (conceded, profit) = get(TOTALS), get(CONCEDED)
    if thaw.share:
        profit = max(profit, -totals.loss)
    left = thaw.allowed(totals.rounds, profit) - conceded
    if thaw.per_day is not None:
        day = get(DAY)
        left = min(left, thaw.per_day - (conceded if day is None else conceded - day.before))
    for k, rule in enumerate(books.rules if unstaked else ()):
        keys, memory = books.recall(get, k, groups)
        proposal, moved = rule.proposed(memory)
        lam = proposal.lam
        if rule.over is not None:
            _warm_below(get, patch, rule, ("over", k, keys[0][2]), thaw, books.cap)
        if lam <= max(thaw.above, rule.spread) or left <= 0.0:
            continue
        weight, cost = concede(lam, left, books.cap)
        books.remember(patch, rule, keys, rule.learned(moved, proposal, 0.0, weight, -cost, 0.0))
        conceded, left = conceded + cost, left - cost
    patch[CONCEDED] = Conceded(conceded, profit)


def _warm_below(get: Get, patch: Patch, rule: BookCorrection, key: Key, thaw: Thaw, cap: float) -> None:
    """Lower the λ of the correction that a reserve is over; the reserve's bound does not depend on it."""
    over: Any = rule.over
    proposal, moved = over.proposed(recall_over(get, rule, key))
    if proposal.lam > thaw.above:
        cost = cap * proposal.lam
        patch[key] = over.learned(moved, proposal, 0.0, 1.0, -cost, 0.0)
