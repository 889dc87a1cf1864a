"""Another capital for a forecaster that runs: more was put aside, or some of it was taken out."""

from __future__ import annotations

from makewhole.corrections import Barrier
from makewhole.insured.changes import STANDING, TOTALS
from makewhole.insured.forecaster import InsuredForecaster
from makewhole.insured.refusals import Refusal


class CapitalNeeded(Refusal):
    """The capital would be less than what is needed; `limit` is the least."""

    def __init__(self, message: str, limit: float) -> None:
        super().__init__(message)
        self.limit = limit


def committed(f: InsuredForecaster) -> float:
    """What was lost, and what open bets can lose."""
    state = f._state  # noqa: SLF001 - the forecaster's own folder
    lost: float = state[TOTALS].loss + state[STANDING].at_risk
    return lost


def least_capital(f: InsuredForecaster) -> float:
    """The capital cannot become less than this: than what is committed, and what a thaw may concede."""
    if f.capital is None:
        raise ValueError("capital cannot be changed where there was none: make a new forecaster with one")
    least = max(committed(f), 1e-6 * f.max_stake)
    for rule in f.corrections:
        if rule.capital is not None:
            least = max(least, f.capital - rule.capital + 1e-6 * f.max_stake)
    return least


def with_capital(f: InsuredForecaster, capital: float) -> InsuredForecaster:
    """Return the forecaster as it stands, with another capital; its base must be None.

    capital − loss − (what open bets can lose) is never below 0: stakes and settlements keep it so, and a
    capital that would not is refused. So what is lost is at all times at most the capital of that time.
    What a thaw may concede stays as it is: the rest goes to the correction, if that has a capital.
    """
    least = least_capital(f)
    if capital < least:
        raise CapitalNeeded(f"capital must be at least {least:g}; got {capital:g}", least)
    state = f.to_state()
    for k, (correction, rule) in enumerate(zip(state["corrections"], f.corrections, strict=True)):
        if rule.capital is None:
            continue
        if not isinstance(rule, Barrier):
            raise ValueError(
                f"capital can be changed with a Barrier, or with a correction without one; got {rule!r}"
            )
        own = rule.capital + (capital - (f.capital or 0.0))
        correction["state"]["capital"] = own
        for key, memory in state["items"]:
            if key[:2] == ["memory", k]:
                memory["capital"] = own
    state["settings"]["capital"] = float(capital)
    return InsuredForecaster.from_state(state)
