"""How much capital would have been enough: a log replayed with reserves of many sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from makewhole import arguments, frames, pages
from makewhole.agents import Customers
from makewhole.backtesting.backtest import backtest
from makewhole.backtesting.result import BacktestResult
from makewhole.corrections import Reserve

# The capitals that are tried, in caps: from the least that a reserve can have to thousands of caps.
_CAPS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)
NO_PROMISE = "This is a backtest on these data and stakes. It promises nothing about others."


class CapitalPoint(NamedTuple):
    """One capital that was tried, and what happened with it.

    `certified` is the bound on the total loss, None if there is none (it is more than `capital` if outcomes
    come late); `peak_loss` the largest total loss; `premium` what those who staked paid above the model's own
    odds, per unit staked; `mean_c` the mean of the published c; `placed` the share of the stakes that
    customers would have placed at c = 0 (of a log with stakes, of these); `profit` what the forecaster won in
    all.
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
    sufficed: at least the share `placed` of the wanted stakes was placed, their premium was at most
    `premium`, and the peak loss stayed within the capital. It is None if none did.
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
        """The smallest capital that sufficed; None if none did."""
        return min((point.capital for point in self.points if self.suffices(point)), default=None)

    def verdict(self) -> str:
        """Say which capital sufficed, in a sentence."""
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
    frame: Any,
    mu: str = "mu",
    outcome: str = "y",
    stake: str | None = None,
    *,
    premium: float = 0.02,
    placed: float = 0.5,
    capitals: Sequence[float] | float | None = None,
    customers: Customers | None = None,
    max_stake: float | None = None,
    max_exposure: float | None = None,
    c_range: tuple[float, float] = (0.0, 0.5),
    progress: Callable[[int, int], None] | None = None,
    **columns: Any,
) -> CapitalReport:
    """Try several capitals on a log, and find the smallest that would have been enough, at a given price.

    For each capital the log is replayed by a forecaster in sound mode with `Reserve(max_stake/(2·capital))`.
    With little capital c changes fast and bets are dear. With much they are cheap, because the forecaster is
    slow to charge for what those who know more have won: look at the profit, too.

    A capital sufficed if bets cost at most `premium`, at least the share `placed` of the wanted stakes was
    placed, and the total loss never exceeded the capital. Where outcomes come late, the total loss can exceed
    it: the bound is larger by what open bets can lose (`certified` in the result), which `max_exposure`
    limits. All this is a backtest on these data and customers, and no promise about others.

    Parameters
    ----------
    frame, mu, outcome, stake
        As in `backtest`. If there is neither `stake` nor `customers`, everybody is a hedger: `Customers()`.
    premium
        The most that bets may cost above the model's own odds, per unit staked, on average.
    placed
        The least share of the stakes that customers would place at c = 0, which must have been placed.
        Without it, a forecaster with a c so wide that hardly anybody bets would look cheap.
    capitals
        The capitals to try, in the unit of the stakes; by default 1, 2, 5, … 5000 caps. A reserve cannot have
        less than one cap, which a single forecast can lose.
    customers
        Who would have bet, for a log without stakes.
    max_stake
        The cap, as in `backtest`.
    max_exposure
        The most that all open bets together may be able to lose, as in `backtest`, with every capital. Stakes
        beyond it are refused, and count as not placed. It takes much longer: some ten thousand rows a second.
    c_range
        (c₋, c₊), as in `InsuredForecaster`. A reserve keeps gains as a λ below 0, down to −c₊. So a larger c₊
        makes bets cheaper after gains.
    progress
        A function that is called with (capitals done, capitals in all).
    columns
        Further arguments, as in `backtest`: the columns `c_hat`, `event`, `time`, `known`, and `graded`.

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
    unknown = set(columns) - {"c_hat", "event", "time", "known", "graded"}
    if unknown:
        raise TypeError(f"find_capital() got an unexpected argument: {min(unknown)!r}")
    for name, given in {"max_stake": max_stake, "max_exposure": max_exposure}.items():
        if given is not None:
            arguments.positive(name, given)
    if stake is None and customers is None:
        customers = Customers()
    options: Any = {
        "mode": "sound",
        "c_range": c_range,
        "customers": customers,
        "max_stake": max_stake,
        **columns,
    }
    cap = max_stake
    if cap is None:  # the largest stake in the log, or with customers 1
        cap = backtest(frame, mu, outcome, stake, **options).max_stake
        options["max_stake"] = cap
    tried = [cap * count for count in _CAPS] if capitals is None else np.atleast_1d(capitals).tolist()
    if not tried:
        raise ValueError("capitals must name at least one capital; got none")
    small = [capital for capital in tried if arguments.positive("capitals", capital) < cap]
    if small:
        raise ValueError(
            f"capitals must be at least max_stake, {cap:g}, which one forecast can lose; got {small[0]:g}: "
            "raise it, or lower max_stake"
        )
    points, backend = [], None
    for done, capital in enumerate(tried, 1):
        reserve = Reserve(cap / (2 * capital))
        limited = {**options, "correction": reserve, "max_exposure": max_exposure}
        result = backtest(frame, mu, outcome, stake, **limited)
        points.append(_point(float(capital), result))
        backend = result.backend
        if progress is not None:
            progress(done, len(tried))
    exposed = None if max_exposure is None else float(max_exposure)
    return CapitalReport(tuple(points), most, least, float(cap), customers, backend, exposed)


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
