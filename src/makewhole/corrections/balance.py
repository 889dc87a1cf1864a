"""Balance: the bets on every group balance from both sides, even if groups overlap."""

from __future__ import annotations

import copy
import math
from typing import Any, ClassVar, Self

from makewhole import arguments
from makewhole.corrections import _kernels
from makewhole.corrections.base import Memory, Part, Proposal
from makewhole.corrections.certificate import Terms
from makewhole.corrections.features import Features
from makewhole.corrections.members import Members
from makewhole.corrections.names import Name, read_names
from makewhole.corrections.reserve import read_rate

# The largest weight in a file: far beyond it, rounding would swallow the steps.
_FARTHEST = 1e12


class Balance(Members):
    """Balance the bets on every group from both sides: on average, no group loses or wins.

    This holds in exact mode; in sound mode, or with a capital, the forecaster may win. A forecast may belong
    to several groups: `f.forecast(mu=0.3, groups=["AA", "JFK"])`. There is a weight for each group and one
    for all forecasts; λ is the sum of the weights of a forecast's groups and the one for all. After a
    settlement each of these weights moves by η·w·(x − λ): the rate, times the gross stake divided by the cap,
    times the distance from the λ that was published to the one that would have balanced the forecast. A
    forecast with k groups counts k + 1 members.

    If η·(k + 1) is at most 1 for every forecast, and each outcome comes before the next forecast, then the
    loss or gain in any group, and in total, is at most M·x̄·√(W/η). M is the cap, x̄ = 1 + c₊ (the largest |x|,
    where ĉ lies in [0, c₊]), W the sum of the weights w of all forecasts. So a group's mean loss tends to 0
    unless the group becomes ever rarer. If outcomes come late, and at most Δ forecasts are published while
    one is open, the same holds if η·(k + 1)·(1 + 2Δ) is at most 1 (docs/theory.md has the proofs). The
    largest rate allowed has the smallest bound; with a smaller one c varies less.

    A forecast may also have features, with values from −1 to 1: `groups={"fog": 0.3, "JFK": 1.0}`. A group is
    a feature with the value 1. λ is then the sum of the weights times the values, and each weight moves by
    its value times as much. The same bound holds for the sum of losses times values, which the statement
    shows as the feature's loss. Instead of k, count the sum of the squares of the values.

    Limits: the bound grows with W, so nothing is certified; `OverlappingReserve` has a constant bound on what
    each group can lose, in sound mode, but not on what it can win. In exact mode c may be negative. In sound
    mode, with a capital or with lines, c is raised above ĉ + λ where necessary. The correction then learns
    from the loss there would have been at ĉ + λ, and only one side is certain: a group *loses* at most that
    bound, but the forecaster may keep winning. With K classes M is the cap of all of them, K·max_stake.

    Parameters
    ----------
    rate
        η, above 0 and at most ½.
    most_groups
        The most groups that a forecast may belong to, at least 1; a forecast with more raises a ValueError.
        For features, the largest sum of the squares of their values.
        η·(most_groups + 1) must be at most 1. By default as many as that allows: 99 at rate 0.01.

    Examples
    --------
    >>> import makewhole as mw
    >>> f = mw.InsuredForecaster(None, mw.Balance(0.1, most_groups=2), max_stake=1)
    >>> chance = {("AA", "JFK"): 0.7, ("AA", "BOS"): 0.4, ("UA", "JFK"): 0.6, ("UA", "BOS"): 0.3}
    >>> for t in range(4000):  # forecasts are wrong by group, and a bettor stakes 1 on each
    ...     groups = list(chance)[t % 4]
    ...     q = f.forecast(mu=0.5, groups=groups)
    ...     payments = f.settle(q, t // 4 % 10 < 10 * chance[groups], stake=1.0)
    >>> max(abs(s.mean_loss) for s in f.statement().groups.values()) < 0.003
    True
    >>> print(f.statement().certificate)
    no bound: the proven bound for overlapping groups grows like the square root of what was staked
    """

    settings = ("rate", "most_groups")
    rate: float
    most_groups: int
    integrates = False  # where sound mode raises c, its target is still the λ that would have balanced
    at_own_price = True
    takes_features = True
    why_no_bound = "the proven bound for overlapping groups grows like the square root of what was staked"
    mean_theorem = "balance in every group"

    _propose = staticmethod(_kernels.balanced_propose)
    _observe = staticmethod(_kernels.balanced_observe)
    _nothing: ClassVar = (0.0,)

    def __init__(self, rate: float = 0.01, most_groups: int | None = None) -> None:
        self.rate = read_rate(rate)
        if self.rate > 0.5:
            raise ValueError(f"rate must be at most 0.5, so that a forecast can have a group; got {rate!r}")
        most = int(1.0 / self.rate) - 1
        if most_groups is not None:
            most = arguments.whole("most_groups", most_groups, least=1)
            if self.rate * (most + 1) > 1.0:
                raise ValueError(
                    f"rate must be at most 1/(most_groups + 1), {1.0 / (most + 1):g}; got {self.rate!r} with "
                    f"most_groups={most}"
                )
        self.most_groups = most
        self._scale = self.rate
        self._parts = {None: self._nothing}

    # --- what it promises ---------------------------------------------------------------------------------

    def mean_bound(self, rounds: int, terms: Terms) -> float | None:
        """Return M·x̄/√(η·T), if weights begin at 0; for one group, divide by its share of the forecasts.

        It holds in exact mode or one-sided, with outcomes that come before the next forecast, or no later
        than its rate allows. In sound mode, or with a capital or lines, it bounds losses, not gains.
        """
        reach = 1.0 + max(terms.c_range[1], -terms.c_range[0])
        return terms.max_stake * reach / math.sqrt(self.rate * rounds)

    def in_mode(self, terms: Terms) -> Self:
        """Return a copy; it is the same for all terms."""
        return copy.deepcopy(self)

    # --- features -----------------------------------------------------------------------------------------

    def check_groups(self, groups: tuple[Name, ...]) -> tuple[Name, ...]:
        """Return the groups of a forecast, or its features; raise a ValueError if there are too many.

        Features are too many if the squares of their values add up to more than `most_groups`.
        """
        if not isinstance(groups, Features):
            return super().check_groups(groups)
        if groups.size > self.most_groups:
            asked = f"the squares of features must add up to at most {self.most_groups} with {self!r}"
            raise ValueError(f"{asked}; got {groups.size:g}")
        return groups

    def gather_for(self, memories: list[Memory], groups: tuple[Name, ...]) -> Memory:
        """Return the lists that the kernels take; for features a third one, the value of each member."""
        memory = self.gather(memories)
        return (*memory, (1.0, *groups.values)) if isinstance(groups, Features) else memory

    def proposed(self, memory: Memory) -> tuple[Proposal, Memory]:
        """Return the next proposal, and the memory, which does not change."""
        if len(memory) == 2:
            return super().proposed(memory)
        (_, *weights), _, values = memory
        lam = 0.0
        for theta, value in zip(weights, values, strict=True):
            lam += theta * value
        return Proposal(lam, 2, False), memory

    def learned(
        self, memory: Memory, proposal: Proposal, target: float, weight: float, loss: float, residual: float
    ) -> Memory:
        """Return the memory after an outcome: every weight moves by η·w·(x − λ) times its feature's value."""
        if len(memory) == 2:
            return super().learned(memory, proposal, target, weight, loss, residual)
        (scale, *weights), marks, values = memory
        step = scale * weight * (target - proposal.lam)
        moved = [theta + step * value for theta, value in zip(weights, values, strict=True)]
        return [scale, *moved], marks, values

    # --- memory: a weight for all forecasts, and one for each group ---------------------------------------

    def read_part(self, part: Part, state: Any) -> Memory:
        """Return a weight, as the only number of a list; raise a ValueError if no book can have it."""
        return _read_weight(state)

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other) or not isinstance(other, Balance):
            return False
        own = (self.rate, self.most_groups, self._parts)
        return own == (other.rate, other.most_groups, other._parts)

    __hash__ = None  # type: ignore[assignment]  # it changes as it learns

    def __repr__(self) -> str:
        return f"Balance(rate={self.rate!r}, most_groups={self.most_groups!r})"

    def state(self) -> dict[str, Any]:
        """Return the settings, the groups' names, and the weights (the one for all first), as plain data."""
        names = [name for name in self._parts if name is not None]
        weights = [list(self._parts[name]) for name in (None, *names)]
        return {"rate": self.rate, "most_groups": self.most_groups, "names": names, "weights": weights}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """Return a correction with the state that `state()` returned."""
        made = cls(state["rate"], state["most_groups"])
        names, weights = read_names("names", state["names"]), state["weights"]
        if len(weights) != len(names) + 1:
            raise ValueError(
                f"weights must be one for all and one for each of {len(names)} names; got {weights!r}"
            )
        made._parts = dict(zip((None, *names), map(_read_weight, weights), strict=True))
        return made


def _read_weight(state: Any) -> tuple[float]:
    """Return a weight from plain data, a list of one number; raise a ValueError for anything else."""
    if not isinstance(state, list) or len(state) != 1:
        raise ValueError(f"weight must be a list of one number; got {state!r}")
    return (arguments.within("weight", state[0], -_FARTHEST, _FARTHEST),)
