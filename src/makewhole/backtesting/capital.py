"""How much capital would have been enough: a log replayed with many capitals."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from makewhole import arguments, frames, pages
from makewhole.agents import Customers
from makewhole.arguments import Floats
from makewhole.backtesting.backtest import backtest
from makewhole.backtesting.fitting import check_new, fit_forecaster
from makewhole.backtesting.log import as_floats
from makewhole.backtesting.result import BacktestResult
from makewhole.backtesting.source import Source, read_source
from makewhole.corrections import for_book
from makewhole.corrections.names import Name
from makewhole.insured.forecaster import InsuredForecaster
from makewhole.rules import room

# The most names shown.
_NAMES_SHOWN = 5
# The capitals that are tried, in caps.
_CAPS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)
NO_PROMISE = "This is a backtest on these data and stakes. It promises nothing about others."


class CapitalPoint(NamedTuple):
    """One capital that was tried, and what happened with it.

    `certified` is the bound on the total loss, None if there is none; `peak_loss` the largest total loss;
    `premium` what customers paid above the model's own odds, per unit staked; `mean_c` the mean of the
    published c, and `worst_c` what it was at least in the most expensive tenth of the forecasts; `placed` the
    share that was placed of the stakes that customers would have placed at c = 0 (if the log has stakes, of
    these); `profit` what the forecaster won in total. `carries` is how many forecasts can be open at once,
    if each is staked in full at the lowest price of the replay: beyond that, c rises or stakes are refused.

    `turned_away` says who was not served: for each kind of customers, or for each name whose stakes were
    refused, the share of what they wanted to stake that was not placed.
    """

    capital: float
    certified: float | None
    peak_loss: float
    premium: float
    mean_c: float
    worst_c: float
    placed: float
    profit: float
    carries: int
    turned_away: dict[Name, float]


@dataclass(frozen=True)
class CapitalReport:
    """What each capital would have cost and risked. Print it for a table.

    `points` has a `CapitalPoint` for every capital that was tried. `smallest` is the smallest capital that
    was enough: at least the share `placed` of the wanted stakes was placed, their premium was at most
    `premium`, and the peak loss stayed within the capital. It is None if none was enough. `most_open` is how
    many forecasts of the log were open at once.
    """

    points: tuple[CapitalPoint, ...]
    premium: float
    placed: float
    max_stake: float
    customers: Customers | None
    backend: str | None = field(repr=False, default=None)
    max_exposure: float | None = None
    most_open: int = 1

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
        (point,) = [point for point in self.points if point.capital == self.smallest][:1]
        return (
            f"The smallest capital that sufficed for a premium of at most {self.premium:g} per unit is "
            f"{self.smallest:,.6g}, {self.smallest / self.max_stake:,.6g} caps. Staked in full, it carries "
            f"{point.carries:,} forecasts at once; here at most {self.most_open:,} were open."
        )

    def table(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """Return the head and the rows of a table to print."""
        prices = ("premium", "mean c", "worst 10%")
        head = ("capital", "certified", "peak loss", *prices, "placed", "carries", "profit", "enough")
        rows: list[tuple[str, ...]] = [
            (
                f"{p.capital:,.6g}",
                "no bound" if p.certified is None else f"{p.certified:,.6g}",
                f"{p.peak_loss:,.0f}" if p.peak_loss >= 1000 else f"{p.peak_loss:,.4g}",
                f"{p.premium:.4f}",
                f"{p.mean_c:.4f}",
                f"{p.worst_c:.4f}",
                f"{p.placed:.1%}",
                f"{p.carries:,}",
                f"{p.profit:,.0f}" if abs(p.profit) >= 1000 else f"{p.profit:,.4g}",
                "yes" if self.suffices(p) else "no",
            )
            for p in self.points
        ]
        return head, rows

    def to_frame(self, backend: str | None = None) -> Any:
        """Return the points as a dataframe; `backend` is "polars", "pandas" or "pyarrow"."""
        numbers = [name for name in CapitalPoint._fields if name != "turned_away"]
        columns = {
            name: np.array([getattr(point, name) for point in self.points], dtype=np.float64)
            for name in numbers
        }
        for who in self.turned_away():
            shares = [point.turned_away.get(who, 0.0) for point in self.points]
            columns[f"turned_away_{who}"] = np.array(shares)
        return frames.make_frame(columns, backend or self.backend)

    def turned_away(self) -> list[Name]:
        """Return the kinds of customers, or the names, that were not always served."""
        return list(dict.fromkeys(who for point in self.points for who in point.turned_away))

    def not_served(self) -> str:
        """Say who was turned away with the smallest capital that was enough, or else with the largest."""
        shown = self.smallest if self.smallest is not None else max(p.capital for p in self.points)
        away = next(p.turned_away for p in self.points if p.capital == shown)
        parts = [
            f"{share:.1%} of {who}"
            for who, share in sorted(away.items(), key=lambda item: -item[1])
            if share >= 0.0005
        ]
        told = ", ".join(parts[:_NAMES_SHOWN]) if parts else "nobody"
        return f"Turned away with {shown:,.6g}, of what they wanted to stake: {told}."

    def __str__(self) -> str:
        head, rows = self.table()
        lines = ["".join(f"{text:>11}" for text in row).rstrip() for row in (head, *rows)]
        return "\n".join([*lines, self.verdict(), self.not_served(), NO_PROMISE])

    def _repr_html_(self) -> str:
        head, rows = self.table()
        facts = [
            ("cap per forecast", f"{self.max_stake:,.6g}"),
            ("customers", repr(self.customers or "stakes")),
        ]
        if self.max_exposure is not None:
            facts.append(("most that open bets could lose", f"{self.max_exposure:,.6g}"))
        tables = [pages.Table("by capital", head, rows)]
        return pages.fragment(
            "How much capital sufficed", facts, (self.verdict(), self.not_served(), NO_PROMISE), tables
        )


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
    premium: float = 0.03,
    placed: float = 0.95,
    capitals: Sequence[float] | float | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> CapitalReport:
    """Try several capitals on a log, and find the smallest that would have been enough, at a given price.

    A capital was enough if bets cost at most `premium`, at least the share `placed` of the wanted stakes was
    placed, and the total loss never exceeded the capital. This is a backtest on these data and customers, not
    a promise about others.

    For each capital the log is replayed by the forecaster that `InsuredForecaster(capital=...)` makes: with
    its `Barrier`, lines, stop and thaw. The total loss then never exceeds the capital. With little capital c
    rises soon, and few stakes are placed; with much it stays near the spread of 0.02, because the forecaster
    is slow to charge for what better-informed customers have won: look at the profit as well. The guard
    counts open bets as if all were lost: `carries` in the result is how many can be open at once.

    Parameters
    ----------
    log, mu, outcome, stake, c_hat, id, group, time, known, customers, by
        As in `backtest`. If there is neither `stake` nor `customers`, every customer is a hedger:
        `Customers()`.
    forecaster
        An `InsuredForecaster` that has not made a forecast yet, with `base=None`. Each capital is tried on a
        new one with the same arguments and that `capital`: if it was made without a correction, lines or
        thaw, it has those that makewhole chooses for the capital. A `Reserve` in a forecaster without a
        capital is made for each: `Reserve(max_stake/(2·capital))`. If outcomes come late, its total loss can
        exceed the capital (`certified`). Any other correction stays as it is; a correction that was made for
        a capital is refused.
    max_stake
        The cap, as in `backtest`, if there is no `forecaster`.
    premium
        The most that bets may cost above the model's own odds, per unit staked, on average. The default
        forecaster's spread alone is 0.02, and more where μ is near 0 or 1.
    placed
        The least share that must have been placed of the stakes that customers would place at c = 0.
        Without it, a forecaster whose c is so wide that hardly anyone bets would look cheap.
    capitals
        The capitals to try, in the unit of the stakes; by default 1, 2, 5, … 5000 caps.
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
    >>> report = mw.find_capital(log, customers=mw.agents.Customers(clairvoyant=0.02))
    >>> report.smallest  # in caps
    50.0
    """
    most, least = arguments.positive("premium", premium), arguments.within("placed", placed, 0.0, 1.0)
    if stake is None and customers is None:
        customers = Customers()
    columns: Any = {"mu": mu, "outcome": outcome, "stake": stake, "c_hat": c_hat, "id": id, "group": group}
    columns |= {"time": time, "known": known, "by": by, "customers": customers}
    source = read_source(log, **columns)
    if forecaster is None:
        if group is not None:
            raise ValueError(f"group={group!r} needs a forecaster with a grouped correction; got none")
        _, forecaster = fit_forecaster(source, max_stake=max_stake, mode="sound", c_range=(0.0, 0.5))
    else:
        check_new(forecaster, max_stake=max_stake)
    tried = _read_capitals(capitals, forecaster.max_stake)
    candidates = [_with_capital(forecaster, capital) for capital in tried]
    points, most_open, backend = [], 1, None
    for capital, candidate in zip(tried, candidates, strict=True):
        result = backtest(log, candidate, trace=True, **columns)
        points.append(_point(float(capital), result, source, forecaster))
        most_open, backend = max(most_open, result.most_open), result.backend
        if progress is not None:
            progress(len(points), len(tried))
    cap, exposure = forecaster.max_stake, forecaster.max_exposure
    return CapitalReport(tuple(points), most, least, cap, customers, backend, exposure, most_open)


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


def _point(
    capital: float, result: BacktestResult, source: Source, forecaster: InsuredForecaster
) -> CapitalPoint:
    given = result.turnover + result.refused_stake
    wanted = given if result.wanted_stake is None else result.wanted_stake
    c = _published(result, "c")
    return CapitalPoint(
        capital=capital,
        certified=None if result.certificate is None else result.certificate.bound,
        peak_loss=result.peak_loss,
        premium=result.premium,
        mean_c=result.mean_c,
        worst_c=float(np.quantile(c.mean(axis=0), 0.9)) if c.size else 0.0,
        placed=result.turnover / wanted if wanted else 0.0,
        profit=-result.total_loss,
        carries=carried(capital, source.mu().tolist(), c, forecaster),
        turned_away=_turned_away(result, source),
    )


def carried(capital: float, mus: Sequence[float], c: Floats, forecaster: InsuredForecaster) -> int:
    """Return how many forecasts like these a capital carries at once, each staked in full.

    `mus` is what the model said, of all classes, and `c` what was published: the lowest c counts.
    """
    cheapest, one_sided, cap = float(c.min(initial=0.5)), forecaster.one_sided, forecaster.max_stake
    rooms = [room(mu, cheapest, one_sided, cap) for mu in mus if not math.isnan(mu)]
    worst = sum(rooms) * (forecaster.classes or 1) / len(rooms) if rooms else 0.0  # of one forecast
    return int(capital / worst) if worst else 0


def _published(result: BacktestResult, name: str) -> Floats:
    """Return a column of the trace without gaps; for classes, one row for each of them."""
    columns = [column for key, column in (result.trace or {}).items() if key.partition("[")[0] == name]
    return np.stack([column[~np.isnan(column)] for column in columns])


def _turned_away(result: BacktestResult, source: Source) -> dict[Name, float]:
    """Return the share of what each kind of customers, or each name, wanted to stake that was not placed."""
    if source.customers is not None:
        shares = {kind: 1.0 - both.placed / both.wanted for kind, both in result.served.items()}
        return {kind: share for kind, share in shares.items() if share > 1e-12}
    levels = [name for name in source.names if name.partition("[")[0] == "by" and source.names[name]]
    if not levels or source.classes is not None or not result.refused:
        return {}
    staked, paid = np.abs(as_floats(source.frame["stake"])), (result.trace or {})["payment"]
    wanted, refused = dict[Name, float](), dict[Name, float]()
    for name, size, payment in zip(source.frame[levels[-1]].to_list(), staked, paid, strict=True):
        if name is not None and size > 0 and not np.isnan(payment):
            wanted[name] = wanted.get(name, 0.0) + float(size)
            if payment == 0.0:  # a refused stake is paid nothing
                refused[name] = refused.get(name, 0.0) + float(size)
    return {name: size / wanted[name] for name, size in refused.items()}
