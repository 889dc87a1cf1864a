"""The value of forecasts: what decisions by them cost, against always acting the same and against knowing."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from makewhole import arguments, bounds, frames, pages
from makewhole.arguments import Floats
from makewhole.auditing.labels import write_labels
from makewhole.auditing.report import Bounded
from makewhole.decisions import Forecast, decide, insure

_RATIOS = tuple(k / 20 for k in range(1, 20))
_SHOWN = 12  # groups that are printed


class ValuePoint(NamedTuple):
    """What decisions cost in one group, for one loss table; all numbers are per decision.

    `ratio` is the cost–loss ratio (None for a loss table), `rows` the number of decisions, `always` the
    action that is best if it is always taken. `cost` is that of decisions by the forecasts, `fixed` that of
    `always`, and `knowing` that of somebody who knows every outcome. `saving` is `fixed` − `cost`, and
    `regret` is `cost` − `knowing`; both have bounds, as `cost` does. `insured` is the cost, known before the
    outcome, of decisions that are insured at the given c; None without one.
    """

    group: str
    value: str
    ratio: float | None
    rows: int
    always: Any
    cost: Bounded
    fixed: float
    knowing: float
    saving: Bounded
    regret: Bounded
    insured: float | None

    @property
    def score(self) -> float:
        """The value score: 1 for decisions as good as knowing, 0 for ones as good as always acting the same.

        NaN where knowing is no better than always acting the same.
        """
        room = self.fixed - self.knowing
        return self.saving.value / room if room > 0 else float("nan")

    @property
    def name(self) -> str:
        """The group in words."""
        return f"{self.group} {self.value}" if self.group else "all decisions"


@dataclass(frozen=True, eq=False)
class ValueReport:
    """What decisions by forecasts cost. Print it to read it; `to_dict()` is for JSON, `table` for a frame.

    `points` are all groups and all ratios, those of all decisions first. `confidence` is the probability with
    which all bounds hold together, if the rows are independent given the forecasts: they bound the expected
    cost of these decisions. `missing` rows were left out. `c` is the half-width of the insurance, in words.
    """

    points: tuple[ValuePoint, ...]
    rows: int
    missing: int
    confidence: float
    c: str | None
    backend: str | None = field(repr=False, default=None)

    def of(self, group: str = "", value: str = "") -> list[ValuePoint]:
        """Return the points of all decisions, or of one group."""
        return [point for point in self.points if (point.group, point.value) == (group, value)]

    @property
    def table(self) -> Any:
        """All points as a frame, made with the library of the given one."""
        return frames.make_frame(_columns(self.points), self.backend)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data."""
        plain = [
            point._asdict()
            | {name: getattr(point, name)._asdict() for name in ("cost", "saving", "regret")}
            | {"score": None if point.score != point.score else point.score}
            for point in self.points
        ]
        told = {"rows": self.rows, "missing": self.missing, "confidence": self.confidence, "c": self.c}
        return told | {"points": plain}

    def __str__(self) -> str:
        shown = [p for p in self.points if p.ratio is None or not p.group]
        head = f"{'':<26}{'rows':>9}{'cost':>11}{'always':>11}{'knowing':>11}{'saved':>11}  "
        head += f"{f'{100 * self.confidence:.6g}% for all':<25}{'score':>6}" + (
            "   insured" if self.c else ""
        )
        lines = [f"{self.rows:,} decisions" + (f", {self.missing:,} left out" * bool(self.missing)), "", head]
        lines += [_line(point) for point in shown[: _SHOWN if shown[0].ratio is None else None]]
        if len(shown) > _SHOWN and shown[0].ratio is None:
            lines.append(f"and {len(shown) - _SHOWN:,} groups more")
        told = (
            "cost: of deciding by the forecast, per decision. always: of the single best action, always "
            "taken. knowing: of deciding with the outcome known. saved: always - cost, with its bounds. "
            "score: the part of always - knowing that is saved."
        )
        insured = f" insured: the cost, known beforehand, at c = {self.c}." if self.c else ""
        assumed = " Assumed: rows that are independent given the forecasts."
        return "\n".join(map(pages.shown, [*lines, "", *textwrap.wrap(told + insured + assumed, 110)]))


def _line(point: ValuePoint) -> str:
    name = point.name if point.ratio is None else f"cost/loss {point.ratio:.3g}"
    saving = f"[{point.saving.low:+.4g}, {point.saving.high:+.4g}]"
    score = "-" if point.score != point.score else f"{point.score:.2f}"
    numbers = (
        f"{point.cost.value:>11.4g}{point.fixed:>11.4g}{point.knowing:>11.4g}{point.saving.value:>11.4g}"
    )
    insured = "" if point.insured is None else f"{point.insured:>10.4g}"
    return f"{pages.shown(name)[:25]:<26}{point.rows:>9,}{numbers}  {saving:<25}{score:>6}{insured}"


def value(
    frame: Any,
    mu: str = "mu",
    outcome: str = "y",
    *,
    losses: Any = None,
    c: str | float | None = None,
    groups: Sequence[str] | str = (),
    confidence: float = 0.95,
) -> ValueReport:
    """Say what decisions by these forecasts cost, against always acting the same and against knowing.

    Each row is a decision: the action with the smallest expected loss under μ is taken, and its loss under
    the outcome is the cost. Losses are a table, or a range of cost–loss ratios: to act costs the ratio r, and
    not to act costs 1 if the event happens. The curve over r is the value curve of forecast verification
    (Richardson 2000); the saving against never acting, divided by 1 − r, is the net benefit of medicine
    (Vickers & Elkin 2006).

    Parameters
    ----------
    frame
        A dataframe of any library; the named columns are read into memory.
    mu, outcome
        The columns of μ, the probability that the outcome is 1, and of outcomes, 0 or 1.
    losses
        A loss table such as `{"fly": (0, 90), "train": (25, 25)}`, the loss of each action if the outcome is
        0 and 1; or a list of cost–loss ratios between 0 and 1. None: the ratios 0.05, 0.1, …, 0.95.
    c
        The half-width at which decisions are insured, a number or a column: the report then also has the cost
        of insured decisions, which is known before the outcome. None: no insurance.
    groups
        Columns whose values are groups.
    confidence
        The probability with which all bounds hold together, over all groups and ratios.

    Returns
    -------
    ValueReport
        Print it to read it; `points` and `table` are there for programs.

    Raises
    ------
    TypeError
        If `frame` is not a dataframe, or an argument is of the wrong kind.
    ValueError
        If a column does not exist, a number is out of bounds, or no row has all numbers.

    Examples
    --------
    >>> import makewhole as mw
    >>> import pandas as pd
    >>> log = pd.DataFrame({"mu": [0.1] * 900 + [0.6] * 300, "y": ([0] * 9 + [1]) * 90 + [1, 1, 0] * 100})
    >>> report = mw.value(log, losses={"fly": (0, 90), "train": (25, 25)}, c=0.02)
    >>> point = report.points[0]
    >>> point.always, point.fixed, point.knowing
    ('fly', 21.75, 6.041666666666667)
    >>> point.cost.value, point.saving.value, round(point.score, 2), round(point.insured, 2)
    (13.0, 8.75, 0.56, 14.35)
    >>> point.saving.low > 0
    True
    """
    level = arguments.scalar("confidence", confidence)
    if not 0 < level < 1:
        raise ValueError(f"confidence must lie between 0 and 1; got {confidence!r}")
    tables = _read_losses(losses)
    names = [groups] if isinstance(groups, str) else list(groups)
    rows, missing, labels, backend = _read_rows(frame, mu, outcome, c, names)
    cells = [("", "", np.ones(len(rows.mu), dtype=bool))]
    for name in names:
        cells += [(name, str(label), labels[name] == label) for label in sorted(set(labels[name].tolist()))]
    made = [(ratio, table, _decide(rows, table)) for ratio, table in tables.items()]
    judged = [
        _judge(_Where(group, label, ratio), table, rows, taken, inside)
        for group, label, inside in cells
        for ratio, table, taken in made
    ]
    chosen = np.stack([judgement.chosen for judgement in judged])
    happened = np.stack([judgement.happened for judgement in judged])
    # One interval for each action's rows; each of its ends has the same part of the risk.
    low, high = bounds.interval(happened, chosen, (1 - level) / (2 * chosen.size), counts=True)
    points = [_point(judgement, low[k], high[k], losses) for k, judgement in enumerate(judged)]
    told = None if c is None else (c if isinstance(c, str) else f"{float(c):g}")
    return ValueReport(tuple(points), len(rows.mu), missing, level, told, backend)


class _Rows(NamedTuple):
    mu: Floats
    outcome: Any
    c: Floats | None


class _Taken(NamedTuple):
    """The action taken in each row, and what it costs if it is insured (None without insurance)."""

    action: Any
    insured: Floats | None


def _read_losses(losses: Any) -> dict[float | None, Floats]:
    """Return loss tables [action, outcome] by cost–loss ratio, or one table under None."""
    if isinstance(losses, Mapping):
        if len(losses) < 2:
            raise ValueError(f"losses must have at least two actions; got {list(losses)!r}")
        return {None: np.stack([_read_pair(action, pair) for action, pair in losses.items()])}
    ratios = arguments.numbers("losses", _RATIOS if losses is None else losses)
    if ratios.ndim > 1 or not ratios.size:
        raise ValueError(
            "losses must be a table such as {'act': (0.2, 0.2), 'wait': (0, 1)}, or a list of cost–loss "
            f"ratios; got {losses!r}"
        )
    ratios = np.atleast_1d(ratios)
    arguments.reject("losses", ratios, (ratios <= 0) | (ratios >= 1), "must be ratios between 0 and 1")
    return {float(r): np.array([[r, r], [0.0, 1.0]]) for r in np.unique(ratios)}


def _read_pair(action: Any, pair: Any) -> Floats:
    read = arguments.pairs(f"losses[{action!r}]", pair)
    if read.shape != (2,):
        raise ValueError(f"losses[{action!r}] must be two numbers, (if 0, if 1); got {pair!r}")
    return read


def _action_name(losses: Any, place: int) -> Any:
    return list(losses)[place] if isinstance(losses, Mapping) else ("act", "wait")[place]


def _read_rows(
    frame: Any, mu: Any, outcome: Any, c: Any, groups: list[str]
) -> tuple[_Rows, int, dict[str, Any], str | None]:
    """Read the complete rows, how many were left out, each grouping's labels, and the frame's library."""
    named = {"mu": mu, "outcome": outcome} | ({"c": c} if isinstance(c, str) else {})
    named |= {f"groups {name}": name for name in groups}
    for argument, column in named.items():
        if not isinstance(column, str):
            raise TypeError(f"{argument.split()[0]} must be the name of a column; got {column!r}")
    read = frames.read_columns(frame, named)
    numbers = {name: frames.read_numbers(read, name) for name in named if not name.startswith("groups ")}
    kept: Any = ~np.isnan(np.stack(list(numbers.values()))).any(axis=0)
    if not kept.any():
        raise ValueError(f"frame must have a row with all numbers; got {len(kept):,} rows without")
    numbers = {name: array[kept] for name, array in numbers.items()}
    arguments.probabilities("mu", numbers["mu"])
    happened = arguments.binary_outcomes("outcome", numbers["outcome"]).astype(np.int64)
    width = None
    if c is not None:
        given = numbers["c"] if isinstance(c, str) else np.full(int(kept.sum()), arguments.scalar("c", c))
        width = arguments.probabilities("c", given)
    labels = {name: write_labels(read[f"groups {name}"])[kept] for name in groups}
    rows = _Rows(numbers["mu"], happened, width)
    return rows, int((~kept).sum()), labels, frames.backend_of(read)


def _decide(rows: _Rows, table: Floats) -> _Taken:
    """Decide every row by the library's own rules, without and with insurance."""
    action = np.asarray(decide(Forecast(mu=rows.mu), table, rule="trustful").action)
    if rows.c is None:
        return _Taken(action, None)
    return _Taken(action, np.asarray(insure(Forecast(mu=rows.mu, c=rows.c), table).loss))


class _Where(NamedTuple):
    group: str
    value: str
    ratio: float | None


class _Judgement(NamedTuple):
    """The decisions of one group for one loss table.

    `chosen` is how many rows each action was chosen in, and `happened` how often the event happened there.
    """

    where: _Where
    table: Floats
    chosen: Floats
    happened: Floats
    insured: float | None


def _judge(where: _Where, table: Floats, rows: _Rows, taken: _Taken, inside: Any) -> _Judgement:
    """Count the decisions of one group."""
    action, outcome = taken.action[inside], rows.outcome[inside]
    chosen = np.bincount(action, minlength=len(table)).astype(np.float64)
    happened = np.bincount(action, outcome, len(table)) / np.maximum(chosen, 1.0)
    insured = None if taken.insured is None else float(taken.insured[inside].mean())
    return _Judgement(where, table, chosen, happened, insured)


def _point(judgement: _Judgement, low: Floats, high: Floats, losses: Any) -> ValuePoint:
    """Add up costs, savings and regret; `low` and `high` bound how often the event happens, by action.

    All of these are linear in how often it happens where each action is chosen. Rows on which two ways to
    decide agree have no part in the difference between them.
    """
    table, chosen, happened = judgement.table, judgement.chosen, judgement.happened
    rows = chosen.sum()
    share, best = chosen / rows, table.min(axis=0)
    base = float(share @ happened)
    fixed = table[:, 0] + (table[:, 1] - table[:, 0]) * base

    def bound(losses: Floats) -> Bounded:
        """Bound the mean of losses [action, outcome] over the rows."""
        at = [losses[:, 0] + (losses[:, 1] - losses[:, 0]) * p for p in (happened, low, high)]
        ends = float(share @ np.minimum(at[1], at[2])), float(share @ np.maximum(at[1], at[2]))
        return Bounded(float(share @ at[0]), *ends)

    always = int(np.argmin(fixed))
    savings = [bound(own - table) for own in table]
    return ValuePoint(
        *judgement.where,
        rows=int(rows),
        always=_action_name(losses, always),
        cost=bound(table),
        fixed=float(fixed[always]),
        knowing=float(best[0] + (best[1] - best[0]) * base),
        # Against the best action in truth, which is not known: at most the saving against each.
        saving=Bounded(savings[always].value, min(s.low for s in savings), min(s.high for s in savings)),
        regret=bound(table - best),
        insured=judgement.insured,
    )


def _columns(points: Sequence[ValuePoint]) -> dict[str, list[Any]]:
    columns: dict[str, list[Any]] = {
        name: [getattr(point, name) for point in points]
        for name in ("group", "value", "ratio", "rows", "always", "fixed", "knowing", "score", "insured")
    }
    for name in ("cost", "saving", "regret"):
        columns[name] = [getattr(point, name).value for point in points]
        columns[f"{name}_low"] = [getattr(point, name).low for point in points]
        columns[f"{name}_high"] = [getattr(point, name).high for point in points]
    return {name: column for name, column in columns.items() if any(one is not None for one in column)}
