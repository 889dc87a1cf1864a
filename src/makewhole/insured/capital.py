"""Another capital for a forecaster that runs: more was put aside, or some of it was taken out."""

from __future__ import annotations

from makewhole.corrections import Barrier
from makewhole.insured.changes import STANDING, TOTALS
from makewhole.insured.forecaster import InsuredForecaster
from makewhole.insured.refusals import Refusal


class NotLeft(Refusal):
    """The capital would be less than what was lost and what open bets can lose; `limit` is the least."""

    def __init__(self, message: str, limit: float) -> None:
        super().__init__(message)
        self.limit = limit


def least_capital(f: InsuredForecaster) -> float:
    """What was lost, and what open bets can lose: the capital cannot become less than this."""
    state = f._state  # noqa: SLF001 - the forecaster's own folder
    least: float = state[TOTALS].loss + state[STANDING].at_risk
    return least


def with_capital(f: InsuredForecaster, capital: float) -> InsuredForecaster:
    """Return the forecaster as it stands, with another capital; its base must be None.

    capital − loss − (what open bets can lose) is never below 0: stakes and settlements keep it so, and a
    capital that would not is refused. So what is lost is at all times at most the capital of that time.
    What a thaw may concede stays as it is: the rest goes to the correction, if that has a capital.
    """
    if f.capital is None:
        raise ValueError("capital cannot be changed where there was none: make a new forecaster with one")
    least = least_capital(f)
    if capital < least:
        raise NotLeft(f"capital must be at least {least:g}, lost or at risk; got {capital:g}", least)
    state = f.to_state()
    for line, (correction, rule) in enumerate(zip(state["corrections"], f.corrections, strict=True)):
        if rule.capital is None:
            continue
        if not isinstance(rule, Barrier):
            raise ValueError(
                f"capital can be changed with a Barrier, or a correction without one; got {rule!r}"
            )
        own, least_own = rule.capital + (capital - f.capital), 1e-6 * f.max_stake
        if own < least_own:
            least = f.capital - rule.capital + least_own
            raise NotLeft(
                f"capital must be at least {least:g}, of which most is the thaw's; got {capital:g}", least
            )
        correction["state"]["capital"] = own
        for key, memory in state["items"]:
            if key[:2] == ["memory", line]:  # what it has learned says of which capital, too
                memory["capital"] = own
    state["settings"]["capital"] = float(capital)
    return InsuredForecaster.from_state(state)
