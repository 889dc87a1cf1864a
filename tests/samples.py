"""Tables, logs and rounds that several tests play with."""

import contextlib
import copy
import json
from collections.abc import Callable, Iterator
from importlib import metadata
from typing import Any, Self

import numpy as np
import pandas as pd
import pytest
from hypothesis import strategies as st

import makewhole as mw
from makewhole import saving
from makewhole.backtesting.result import BacktestResult
from makewhole.corrections import Proposal

# A round: μ̂, where ĉ lies in its range, the outcome, a stake, and the share of it that is staked against it.
step = st.tuples(st.floats(0, 1), st.floats(0, 1), st.integers(0, 1), st.floats(-1, 1), st.floats(0, 1))


# One of each correction, and some with other settings.
CORRECTIONS: list[Callable[[], Any]] = [
    mw.NoCorrection,
    mw.NaiveBestResponse,
    lambda: mw.StandardRegret(rate=0.5),
    lambda: mw.SwapRegret(cells=2, seed=3),
    lambda: mw.SwapRegret(cells=7, seed=3),
    lambda: mw.SwapRegret(cells=40, low=-0.1, high=0.1, seed=3),
    lambda: mw.DeterministicSwap(cells=2),
    lambda: mw.DeterministicSwap(cells=7),
    lambda: mw.DeterministicSwap(cells=101),
    lambda: mw.Reserve(rate=0.2),
]


class Foreign:
    """Somebody else's correction: one of ours behind the public four methods only."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def propose(self) -> Proposal:
        proposal: Proposal = self.inner.propose()
        return proposal

    def observe(self, proposal: Proposal, target: float, weight: float) -> None:
        self.inner.observe(proposal, target, weight)

    def state(self) -> dict[str, Any]:
        return {"inner": self.inner.state(), "type": type(self.inner)}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> "Foreign":
        return cls(state["type"].from_state(state["inner"]))


_SETTINGS = {"mode", "c_range", "one_sided", "capital", "max_exposure", "lines", "thaw", "stop", "graded"}


def sold(f: mw.InsuredForecaster, q: mw.Forecast, y: Any, stake: Any, by: Any = None) -> list[float]:
    """What one stake is paid: 0 if it is refused."""
    with contextlib.suppress(mw.StakeRefused):
        f.stake(q, stake, by=by)
    return f.settle(q, y) or [0.0]


def replay(log: Any, correction: Any = None, **given: Any) -> BacktestResult:
    """Backtest with a forecaster of these settings; `max_stake` is needed, as for any forecaster.

    What is not a setting goes to `mw.backtest`, and without settings everything does.
    """
    settings = {name: given.pop(name) for name in _SETTINGS & set(given)}
    if not settings:
        return mw.backtest(log, correction=correction, **given)
    classes = len(given["mu"]) if isinstance(given.get("mu"), list) else None
    settings |= {"max_stake": given.pop("max_stake"), "classes": classes}
    return mw.backtest(log, mw.InsuredForecaster(None, correction, **settings), **given)


def version_of(package: str) -> tuple[int, ...]:
    """The first two numbers of an installed version, for what older ones cannot do."""
    return tuple(int(part) for part in metadata.version(package).split(".")[:2])


def table_of(rows: int, seed: int, shift: Any = 0.0) -> pd.DataFrame:
    """Forecasts that are right, but for a shift of the truth."""
    draw = np.random.default_rng(seed)
    table = pd.DataFrame({"mu": draw.uniform(0.02, 0.98, rows), "g": draw.choice(list("abcd"), rows)})
    table["p"] = np.clip(table["mu"] + (shift(table) if callable(shift) else shift), 0, 1)
    table["y"] = (draw.uniform(size=rows) < table["p"]).astype(int)
    return table


def classes_of(rows: int, seed: int, twist: float = 0.0) -> pd.DataFrame:
    draw = np.random.default_rng(seed)
    p = draw.dirichlet([2, 2, 2], rows)
    truth = p + twist * np.array([1, -1, 0]) * np.minimum(p[:, 0], p[:, 1])[:, None]
    y = (draw.uniform(size=rows)[:, None] > np.cumsum(truth, axis=1)).sum(axis=1)
    return pd.DataFrame(p, columns=["p0", "p1", "p2"]).assign(
        y=np.minimum(y, 2), g=draw.choice(list("ab"), rows)
    )


def log_of(rows: int = 1200) -> pd.DataFrame:
    draw = np.random.default_rng(1)
    return pd.DataFrame(
        {
            "mu": draw.uniform(size=rows),
            "y": draw.integers(0, 2, rows),
            "stake": draw.uniform(-1, 1, rows),
            "carrier": draw.choice(["AA", "UA", "DL"], rows),
            "month": draw.integers(1, 4, rows),
        }
    )


def overlapping(rate: float, **options: Any) -> mw.InsuredForecaster:
    reserve = mw.OverlappingReserve(rate, over=options.pop("over", None))
    return mw.InsuredForecaster(None, reserve, mode="sound", max_stake=1, **options)


def rounds_of(f: mw.InsuredForecaster, moves: list[Any], c_range: tuple[float, float], bound: Any) -> None:
    """Play moves (μ̂, where ĉ lies in its range, y, stake, opposite stake); check the total at every step."""
    for mu, at, y, b, opposite in moves:
        q = f.forecast(mu=mu, c_hat=c_range[0] + at * (c_range[1] - c_range[0]))
        b = abs(b) if f.one_sided else b
        f.stake(q, b)
        if not f.one_sided:
            f.stake(q, -b * opposite * (1 - abs(b)))  # net and gross differ; Σ|b| <= 1
        f.settle(q, y)
        low, high = bound
        assert low - 1e-9 <= f.statement().total_loss <= high + 1e-9


# --- a forecaster of every kind of book, and a game to play with it ---------------------------------------


def insured(kind: str) -> mw.InsuredForecaster:
    """One forecaster of every kind of book."""
    sound: dict[str, Any] = {"mode": "sound", "max_stake": 1}
    over, whole = mw.Reserve(0.1, over=mw.SwapRegret(5, seed=0)), mw.Lines(each=3.6, share=1.0)
    return {
        "default": lambda: mw.InsuredForecaster(max_stake=1),
        "swap": lambda: mw.InsuredForecaster(None, mw.SwapRegret(5, seed=1), max_stake=1),
        "deterministic": lambda: mw.InsuredForecaster(None, mw.DeterministicSwap(100), max_stake=1),
        "reserve": lambda: mw.InsuredForecaster(None, mw.Reserve(0.1), **sound),
        "one-sided": lambda: mw.InsuredForecaster(None, mw.Reserve(0.1), max_stake=1, one_sided=True),
        "over": lambda: mw.InsuredForecaster(None, over, **sound),
        "capped": lambda: mw.InsuredForecaster(
            None, mw.Reserve(0.1), max_exposure=3, capital=9, lines=whole, stop=False, **sound
        ),
        "classes": lambda: mw.InsuredForecaster(None, mw.StandardRegret(), max_stake=1, classes=3),
        "grouped": lambda: mw.InsuredForecaster(None, mw.Grouped(over), **sound),
        "overlapping": lambda: mw.InsuredForecaster(None, mw.OverlappingReserve(0.1), **sound),
        "balance": lambda: mw.InsuredForecaster(None, mw.Balance(0.1), max_stake=1),
        "own": lambda: mw.InsuredForecaster(None, Own(), max_stake=1),
    }[kind]()


KINDS = [
    *("default", "swap", "deterministic", "reserve", "one-sided", "over", "capped", "classes", "grouped"),
    *("overlapping", "balance", "own"),
]


class Own:
    """Somebody else's correction, which counts what it is asked."""

    def __init__(self) -> None:
        self.lam, self.asked = 0.0, 0

    def propose(self) -> Proposal:
        self.asked += 1
        return Proposal(self.lam)

    def observe(self, proposal: Proposal, target: float, weight: float) -> None:
        self.lam += 0.1 * weight * (target - proposal.lam)

    def state(self) -> dict[str, Any]:
        return {"lam": self.lam, "asked": self.asked}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        made = cls()
        made.lam, made.asked = state["lam"], state["asked"]
        return made


def given_to(f: mw.InsuredForecaster, draw: np.random.Generator) -> dict[str, Any]:
    """What a forecast of this book is made from."""
    mu: Any = float(draw.uniform()) if f.classes is None else draw.dirichlet(np.ones(3))
    one: Any = getattr(f.corrections[0], "grouped", False)
    if not one:
        return {"mu": mu}
    names = [["a"], ["b"]] if getattr(f.corrections[0], "apart", False) else [["a", "b"], [], ["c"]]
    return {"mu": mu, "groups": names[int(draw.integers(len(names)))]}


def bet(f: mw.InsuredForecaster, draw: np.random.Generator) -> Any:
    low = 0.0 if f.one_sided else -0.3
    return float(draw.uniform(low, 0.3)) if f.classes is None else draw.uniform(low, 0.3, 3)


def played(f: mw.InsuredForecaster, rounds: int, seed: int) -> mw.InsuredForecaster:
    """Forecasts, stakes, late settlements and voids; three forecasts stay open."""
    draw = np.random.default_rng(seed)
    for t in range(rounds):
        q = f.forecast(**given_to(f, draw))
        for _ in range(int(draw.integers(3))):
            f.stake(q, bet(f, draw), by=f"customer {t % 2}" if t % 3 else None)
        while len(f.open_forecasts) > 3:
            old = f.open_forecasts[int(draw.integers(3))]
            if t % 7 == 0:
                f.void(old)
            else:
                f.settle(old, int(draw.integers(f.classes or 2)))
    return f


def state(f: mw.InsuredForecaster) -> str:
    """Everything a forecaster is, to the bit; records in a fixed order, open forecasts numbered by age."""
    plain = f.to_state()
    book = plain["book"]
    book.pop("serial")  # it numbers open forecasts, of which only the order matters
    for rank, entry in enumerate(book["open"]):
        entry["number"] = rank
    for name in ("groups", "memories", "inner_memories", "accounts"):
        book[name] = sorted(map(json.dumps, book[name]))
    return json.dumps(plain)


def trial(f: mw.InsuredForecaster, q: Any, outcome: Any, **stake: Any) -> Any:
    """The payments if a forecast were settled now; the forecaster itself stays as it is."""
    return copy.deepcopy(f).settle(q, outcome, **stake)


@contextlib.contextmanager
def lessons(kind: type) -> Iterator[list[dict[str, float]]]:
    """Write down what corrections of a class learn: λ, the target, the weight and the loss of each bet."""
    heard: list[dict[str, float]] = []
    real: Any = kind.learned  # type: ignore[attr-defined]  # any of makewhole's corrections

    def learned(
        self: Any, memory: Any, proposal: Proposal, target: float, weight: float, loss: float, rest: float
    ) -> Any:
        heard.append({"lam": proposal.lam, "target": target, "weight": weight, "loss": loss})
        return real(self, memory, proposal, target, weight, loss, rest)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(kind, "learned", learned)
        yield heard


def memory_of(content: dict[str, Any], part: Any = None, k: int = 0) -> Any:
    """What a correction has learned, in a saved book, to be changed by a forger."""
    (found,) = [memory for at, name, memory in content["book"]["memories"] if (at, name) == (k, part)]
    return found


def group_of(content: dict[str, Any], name: Any) -> Any:
    """The sums of a group in a saved book."""
    (found,) = [scope for group, scope in content["book"]["groups"] if group == name]
    return found


def open_of(content: dict[str, Any], id_: Any = None) -> Any:
    """An open forecast in a saved book, by its id; the oldest if none is given."""
    entries = content["book"]["open"]
    return entries[0] if id_ is None else next(entry for entry in entries if entry["id"] == id_)


def sealed(document: dict[str, Any]) -> dict[str, Any]:
    """A saved document with the checksum that fits what it says now: a forger would write it, too."""
    seal = saving.checksum(document["kind"], document["version"], document["content"])
    return document | {"checksum": seal}
