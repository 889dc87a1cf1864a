"""How much capital would have been enough: a log replayed with many capitals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from makewhole import arguments, frames, pages
from makewhole.agents import Customers
from makewhole.backtesting.backtest import backtest
from makewhole.backtesting.fitting import check_new, fit_forecaster
from makewhole.backtesting.result import BacktestResult
from makewhole.backtesting.source import read_source
from makewhole.corrections import Reserve, for_book
from makewhole.insured.forecaster import InsuredForecaster

# The capitals that are tried, in caps: from the least that a reserve can have to thousands of caps.
_CAPS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)
NO_PROMISE = "This is a backtest on these data and stakes. It promises nothing about others."


class CapitalPoint(NamedTuple):
    """One capital that was tried, and what happened with it.

    `certified` is the bound on the total loss, None if there is none (it is more than `capital` if outcomes
    come late); `peak_loss` the largest total loss; `premium` what customers paid above the model's own odds,
    per unit staked; `mean_c` the mean of the published c; `placed` the share that was placed of the stakes
    that customers would have placed at c = 0 (if the log has stakes, of these); `profit` what the forecaster
    won in total.
    """

    capital: float
    certified: float | None
    peak_loss: float
    premium: float
    mean_c: float
    placed: float
    profit: float


@dataclass(frozen=True)
class CapitalReport:
    """What each capital would have cost and risked. Print it for a table.

    `points` has a `CapitalPoint` for every capital that was tried. `smallest` is the smallest capital that
    was enough: at least the share `placed` of the wanted stakes was placed, their premium was at most
    `premium`, and the peak loss stayed within the capital. It is None if none was enough.
    """

    points: tuple[CapitalPoint, ...]
    premium: float
    placed: float
    max_stake: float
    customers: Customers | None
    backend: str | None = field(repr=False, default=None)
    max_exposure: float | None = None

    def suffices(self, point: CapitalPoint) -> bool:
        """Whether a capital was enough, and bets were cheap enough with it."""
        open_for_business = point.placed > 0 and point.placed >= self.placed
        return open_for_business and point.premium <= self.premium and point.peak_loss <= point.capital

    @property
    def smallest(self) -> float | None:
        """The smallest capital that was enough; None if none was."""
        return min((point.capital for point in self.points if self.suffices(point)), default=None)

    def verdict(self) -> str:
        """Say which capital was enough, in a sentence."""
        if self.smallest is None:
            most = max(point.capital for point in self.points)
            return (
                f"No capital up to {most:,.6g} sufficed for a premium of at most {self.premium:g} per unit."
            )
        return (
            f"The smallest capital that sufficed for a premium of at most {self.premium:g} per unit is "
            f"{self.smallest:,.6g}, {self.smallest / self.max_stake:,.6g} caps."
        )

    def table(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """Return the head and the rows of a table to print."""
        head = ("capital", "certified", "peak loss", "premium", "mean c", "placed", "profit", "enough")
        rows: list[tuple[str, ...]] = [
            (
                f"{p.capital:,.6g}",
                "no bound" if p.certified is None else f"{p.certified:,.6g}",
                f"{p.peak_loss:,.0f}" if p.peak_loss >= 1000 else f"{p.peak_loss:,.4g}",
                f"{p.premium:.4f}",
                f"{p.mean_c:.4f}",
                f"{p.placed:.1%}",
                f"{p.profit:,.0f}" if abs(p.profit) >= 1000 else f"{p.profit:,.4g}",
                "yes" if self.suffices(p) else "no",
            )
            for p in self.points
        ]
        return head, rows

    def to_frame(self, backend: str | None = None) -> Any:
        """Return the points as a dataframe; `backend` is "polars", "pandas" or "pyarrow"."""
        columns = {
            name: np.array([getattr(point, name) for point in self.points], dtype=np.float64)
            for name in CapitalPoint._fields
        }
        return frames.make_frame(columns, backend or self.backend)

    def __str__(self) -> str:
        head, rows = self.table()
        lines = ["".join(f"{text:>12}" for text in row).rstrip() for row in (head, *rows)]
        return "\n".join([*lines, self.verdict(), NO_PROMISE])

    def _repr_html_(self) -> str:
        head, rows = self.table()
        facts = [
            ("cap per forecast", f"{self.max_stake:,.6g}"),
            ("customers", repr(self.customers or "stakes")),
        ]
        if self.max_exposure is not None:
            facts.append(("most that open bets could lose", f"{self.max_exposure:,.6g}"))
        tables = [pages.Table("by capital", head, rows)]
        return pages.fragment("How much capital sufficed", facts, (self.verdict(), NO_PROMISE), tables)


def find_capital(
    log: Any,
    forecaster: InsuredForecaster | None = None,
    *,
    mu: str | Sequence[str] = "mu",
    outcome: str = "y",
    stake: str | Sequence[str] | None = None,
    c_hat: str | None = None,
    id: str | None = None,  # noqa: A002 - what callers call it
    group: str | Sequence[str] | None = None,
    time: str | None = None,
    known: str | None = None,
    customers: Customers | None = None,
    by: str | Sequence[str] | None = None,
    max_stake: float | None = None,
    premium: float = 0.02,
    placed: float = 0.5,
    capitals: Sequence[float] | float | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> CapitalReport:
    """Try several capitals on a log, and find the smallest that would have been enough, at a given price.

    A capital was enough if bets cost at most `premium`, at least the share `placed` of the wanted stakes was
    placed, and the total loss never exceeded the capital. This is a backtest on these data and customers, not
    a promise about others.

    By default the log is replayed, for each capital, by a forecaster in sound mode with a reserve of that
    size: `Reserve(max_stake/(2·capital))`. With little capital c changes fast and bets are expensive. With
    much they are cheap, because the forecaster is slow to charge for what better-informed customers have won:
    look at the profit as well. If outcomes come late, the total loss can exceed the capital: the bound is
    larger by what open bets can lose (`certified` in the result), which a forecaster's `max_exposure` limits.

    Parameters
    ----------
    log, mu, outcome, stake, c_hat, id, group, time, known, customers, by
        As in `backtest`. If there is neither `stake` nor `customers`, every customer is a hedger:
        `Customers()`.
    forecaster
        An `InsuredForecaster` that has not made a forecast yet, with `base=None`. Each capital is tried on a
        new one with the same arguments and that `capital`: if it was made without a correction, lines or
        thaw, it has those that makewhole chooses for the capital. A `Reserve` in a forecaster without a
        capital is made for each, as by default. Any other correction stays as it is; a correction that was
        made for a capital is refused.
    max_stake
        The cap, as in `backtest`, if there is no `forecaster`.
    premium
        The most that bets may cost above the model's own odds, per unit staked, on average.
    placed
        The least share that must have been placed of the stakes that customers would place at c = 0.
        Without it, a forecaster whose c is so wide that hardly anyone bets would look cheap.
    capitals
        The capitals to try, in the unit of the stakes; by default 1, 2, 5, … 5000 caps. A reserve cannot have
        less than one cap, which a single forecast can lose.
    progress
        A function that is called with (capitals done, total capitals).

    Returns
    -------
    CapitalReport
        `smallest`, `points`, and a table to print.

    Examples
    --------
    >>> import makewhole as mw
    >>> import pandas as pd
    >>> log = pd.DataFrame({"mu": [0.3] * 20_000, "y": ([0] * 7 + [1] * 3) * 2000})
    >>> report = mw.find_capital(log, customers=mw.agents.Customers(clairvoyant=0.01), premium=0.025)
    >>> report.smallest  # in caps
    5.0
    """
    most, least = arguments.positive("premium", premium), arguments.within("placed", placed, 0.0, 1.0)
    if stake is None and customers is None:
        customers = Customers()
    columns: Any = {"mu": mu, "outcome": outcome, "stake": stake, "c_hat": c_hat, "id": id, "group": group}
    columns |= {"time": time, "known": known, "by": by, "customers": customers}
    if forecaster is None:
        if group is not None:
            raise ValueError(f"group={group!r} needs a forecaster with a grouped correction; got none")
        reserve: Any = {"max_stake": max_stake, "mode": "sound", "c_range": (0.0, 0.5)}
        _, forecaster = fit_forecaster(read_source(log, **columns), Reserve(), **reserve)
    else:
        check_new(forecaster, max_stake=max_stake)
    tried = _read_capitals(capitals, forecaster.max_stake)
    candidates = [_with_capital(forecaster, capital) for capital in tried]
    points, backend = [], None
    for capital, candidate in zip(tried, candidates, strict=True):
        result = backtest(log, candidate, **columns)
        points.append(_point(float(capital), result))
        backend = result.backend
        if progress is not None:
            progress(len(points), len(tried))
    cap, exposure = forecaster.max_stake, forecaster.max_exposure
    return CapitalReport(tuple(points), most, least, cap, customers, backend, exposure)


def _read_capitals(capitals: Any, max_stake: float) -> list[float]:
    if capitals is None:
        return [max_stake * count for count in _CAPS]
    tried = np.atleast_1d(capitals).tolist()
    if not tried:
        raise ValueError("capitals must name at least one capital; got none")
    for capital in tried:
        arguments.positive("capitals", capital)
    return list(tried)


def _with_capital(forecaster: InsuredForecaster, capital: float) -> InsuredForecaster:
    """Return a new forecaster, made like this one but with another capital."""
    given = dict(forecaster._given)  # noqa: SLF001 - its defaults depend on the capital
    correction = given.pop("correction")
    rule = None if correction is None else for_book(correction)
    if rule is not None and rule.capital is not None:
        raise ValueError(
            f"the forecaster's correction must not be made for a capital, which is to be found; got {rule!r} "
            "(without a correction, each capital has a Barrier)"
        )
    cap, sound = forecaster.max_stake, given["mode"] != "exact" and not given["one_sided"]
    if rule is None or not (rule.sizable and sound and given["capital"] is None):
        return InsuredForecaster(None, correction, **given | {"capital": capital})
    if capital < cap:
        raise ValueError(
            f"capitals must be at least max_stake, {cap:g}, which one forecast can lose; got {capital:g}: "
            "raise it, or lower max_stake"
        )
    sized: Any = rule.sized(capital, cap)
    return InsuredForecaster(None, sized, **given | {"mode": "sound"})


def _point(capital: float, result: BacktestResult) -> CapitalPoint:
    given = result.turnover + result.refused_stake
    wanted = given if result.wanted_stake is None else result.wanted_stake
    return CapitalPoint(
        capital=capital,
        certified=None if result.certificate is None else result.certificate.bound,
        peak_loss=result.peak_loss,
        premium=result.mean_premium,
        mean_c=result.mean_c,
        placed=result.turnover / wanted if wanted else 0.0,
        profit=-result.total_loss,
    )
