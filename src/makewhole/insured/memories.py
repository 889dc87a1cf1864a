"""What the corrections of a book have learned. A memory is never changed in place: a step makes a new one."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import Any

from makewhole import rules
from makewhole.corrections import BookCorrection, Proposal, Terms
from makewhole.corrections.names import Name
from makewhole.insured.journal import Journal, Journaled
from makewhole.insured.thaw import Thaw

Key = tuple[int, Any]  # a correction's place, and a part of its memory: None, or a group


class Memories(Journaled):
    """The corrections of a book, one per leg, and what each has learned.

    `inner` is the same for the inner corrections of reserves. `cap` is the cap that one correction sees.
    A thaw lowers only a λ above `least`, one number per leg, and an inner λ above `above`.
    """

    changing = ("corrections", "cap")

    def __init__(
        self, corrections: list[BookCorrection], cap: float, journal: Journal, thaw: Thaw | None
    ) -> None:
        first = corrections[0]
        self.above = math.inf if thaw is None else thaw.above
        self.least = [max(self.above, correction.spread) for correction in corrections]
        self.corrections, self.cap, self.journal = corrections, cap, journal
        self.grouped, self.composed = first.grouped, first.over is not None
        self.simple = not (self.grouped or self.composed)  # a correction has one memory
        self.keys: list[Key] = [(k, None) for k in range(len(corrections))]
        self.own: dict[Key, Any] = {}
        self.inner: dict[Key, Any] = {}
        for k, correction in enumerate(corrections):
            for part, memory in correction.memories().items():  # what they have learned elsewhere
                self.own[k, part] = copy.deepcopy(memory)
                inner = correction.over
                if part is not None and correction.apart:
                    inner = correction.of_group(part).over
                if inner is not None and (part is None or correction.apart):
                    self.inner[k, part] = inner.blank()

    def ask(self, k: int, c_hat: float, groups: tuple[Name, ...]) -> tuple[Any, Any, float]:
        """The proposals of a correction and of its inner correction, and the ĉ that λ is added to."""
        correction = self.corrections[k]
        if self.simple:
            memory = self.own[self.keys[k]]
            proposal, after = correction.proposed(memory)
            if after is not memory:
                self._set(self.own, self.keys[k], after)
            return proposal, None, c_hat
        keys, memory = self._recall(k, groups)
        proposal, after = correction.proposed(memory)
        if after is not memory:
            self._remember(keys, correction, after)
        if not self.composed:
            return proposal, None, c_hat
        inner_correction: Any = correction.over
        before = self._recall_inner(keys[0], inner_correction)
        inner, moved = inner_correction.proposed(before)
        if moved is not before:
            self._set(self.inner, keys[0], moved)
        return proposal, inner, rules.refine(c_hat, inner[0])

    def learn(
        self,
        k: int,
        leg: Any,
        groups: tuple[Name, ...],
        target: float,
        weight: float,
        loss: float,
        rest: float,
        left: float,
    ) -> float:
        """Let a leg's correction learn, in one step with a thaw; returns what the thaw concedes.

        `left` is the most that it may concede. The imaginary bet of a thaw fills the part of the cap that was
        not staked.
        """
        if self.simple and left <= 0.0:  # the usual case
            if weight:
                key, own = self.keys[k], self.own
                memory = own[key]
                self.journal.append((own, (key, memory)))
                own[key] = self.corrections[k].learned(memory, leg.proposal, target, weight, loss, rest)
            return 0.0
        correction, (keys, memory) = self.corrections[k], self._recall(k, groups)
        extra = conceded = lower = 0.0
        if left > 0.0:
            lower = _least_lam(correction, memory, leg.proposal, self.least[k])
        if lower:
            extra, conceded = rules.concede(lower, 1.0 - weight, left, self.cap)
        if weight or extra:
            aim, both = rules.with_thaw(target, weight, leg.proposal.lam - lower, extra)
            after = correction.learned(memory, leg.proposal, aim, both, loss - conceded, rest)
            self._remember(keys, correction, after)
        if leg.inner is not None:
            self._learn_inner(keys[0], leg, correction.over, (target, weight, loss, rest))
        return conceded

    def _learn_inner(self, key: Key, leg: Any, inner: Any, lesson: tuple[float, float, float, float]) -> None:
        """Let an inner correction learn from its own target, z − ĉ.

        A thaw lowers it, too. That is free: the bound of the reserve over it does not depend on it.
        """
        target, weight, loss, rest = lesson
        memory, extra, conceded = self._recall_inner(key, inner), 0.0, 0.0
        lower = _least_lam(inner, memory, leg.inner, self.above)
        if lower:
            extra, conceded = rules.concede(lower, 1.0 - weight, math.inf, self.cap)
        if weight or extra:
            own = target + leg.origin - leg.c_hat
            aim, both = rules.with_thaw(own, weight, leg.inner.lam - lower, extra)
            learned = inner.learned(memory, leg.inner, aim, both, loss - conceded, rest)
            self._set(self.inner, key, learned)

    def highest(self) -> float:
        """The largest λ that a correction would propose now."""
        both = zip(self.corrections, self.keys, strict=True)
        return max(correction.proposed(self.own[key])[0].lam for correction, key in both)

    def change_capital(self, more: float, terms: Terms) -> None:
        """Raise the capital of the corrections that were made for one by `more`; below 0, lower it."""
        self.journal.keep(self)
        changed = []
        for k, correction in enumerate(self.corrections):
            if correction.capital is None:
                changed.append(correction)
                continue
            made = correction.with_capital(correction.capital + more, terms)
            changed.append(made)
            for key in [key for key in self.own if key[0] == k]:
                self._set(self.own, key, made.carried(self.own[key]))
        self.corrections = changed

    def overdrawn(self) -> list[float]:
        """How much more each correction has lost than its capital, after a withdrawal."""
        both = zip(self.corrections, self.keys, strict=True)
        return [correction.overdrawn(self.own[key]) for correction, key in both]

    def as_objects(self) -> list[Any]:
        """The corrections with what they have learned, copied."""
        made = []
        for k, correction in enumerate(self.corrections):
            own = {part: memory for (at, part), memory in self.own.items() if at == k}
            inner = {part: memory for (at, part), memory in self.inner.items() if at == k}
            made.append(correction.rebuilt(copy.deepcopy(own), copy.deepcopy(inner)))
        return made

    def _recall(self, k: int, groups: tuple[Name, ...]) -> tuple[Sequence[Key], Any]:
        """What a correction has learned for a forecast of these groups, and the keys it is stored under."""
        if not self.grouped:
            key = self.keys[k]
            return (key,), self.own[key]
        correction = self.corrections[k]
        keys = [(k, part) for part in correction.parts(groups)]
        parts = [self.own.get(key) for key in keys]
        known = [correction.blank() if part is None else part for part in parts]
        return keys, correction.gather_for(known, groups)

    def _remember(self, keys: Sequence[Key], correction: BookCorrection, memory: Any) -> None:
        if not self.grouped:
            self._set(self.own, keys[0], memory)
            return
        for key, part in zip(keys, correction.scatter(memory), strict=True):
            self._set(self.own, key, part)

    def _recall_inner(self, key: Key, inner: BookCorrection) -> Any:
        memory = self.inner.get(key)
        return inner.blank() if memory is None else memory

    def _set(self, items: dict[Key, Any], key: Key, value: Any) -> None:
        self.journal.append((items, (key, items.get(key))))
        items[key] = value


def _least_lam(correction: BookCorrection, memory: Any, proposal: Proposal, least: float) -> float:
    """The λ that a thaw lowers; 0 if it is not above `least`.

    It is the smaller of the forecast's own λ and the present one: λ may have come down while the forecast was
    open, and a thaw must not take it below 0.
    """
    lam = proposal.lam
    if lam > least:
        lam = min(lam, correction.proposed(memory)[0].lam)
    return lam if lam > least else 0.0
