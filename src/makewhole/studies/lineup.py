"""The corrections that the studies compare, by name: the variants that each correction declares."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

from makewhole.corrections import REGISTRY, BookCorrection, Correction, Reserve, Terms, for_book

Range = tuple[float, float]
# A function of the number of rounds, the range of ĉ, and the seed that makes a fresh correction for a run.
Maker = Callable[[int, Range, int], Correction]


def _make(kind: type[Any], settings: Mapping[str, Any], rounds: int, c_range: Range, seed: int) -> Correction:
    made: Correction = kind.fitted(rounds, c_range, seed, **settings)
    return made


LINEUP: dict[str, Maker] = {
    name: partial(_make, kind, settings) for kind in REGISTRY for name, settings in kind.variants.items()
}

# The corrections that swap, the paper's Algorithm 3, is compared with. The paper's alternatives are no
# correction and follow-the-leader ("naive"). Its "standard regret" is also follow-the-leader: its Lemma 3
# bounds that, and in the authors' code the two are one number. Gradient descent is another minimiser of
# standard regret, which the paper does not run.
PAPERS = ("none", "naive")
GRADIENT = tuple(name for name in LINEUP if name.startswith("standard"))
OURS = tuple(name for name in LINEUP if name.startswith(("deterministic", "reserve")))
RIVALS = {
    "the paper's alternatives (none, follow-the-leader)": PAPERS,
    "gradient descent, which the paper does not run": GRADIENT,
    "our own corrections": OURS,
}


class Bound(NamedTuple):
    """A theorem's bound on |mean loss|, in units of the cap, against everyone."""

    theorem: str
    mean_loss: float


def make_correction(
    name: str,
    rounds: int,
    c_range: Range = (0.0, 0.0),
    seed: int = 0,
    own: Mapping[str, Maker] | None = None,
) -> Correction:
    """Make a fresh correction for a run; `own` are the user's makers by name.

    Raises a ValueError if the name is unknown, and a TypeError if the user's maker returns anything other
    than a correction for a single book.
    """
    if own and name in own:
        made = own[name](rounds, c_range, seed)
        _check_own(name, made)
        return made
    if name not in LINEUP:
        raise ValueError(f"correction must be one of {', '.join(LINEUP)}; got {name!r}")
    return LINEUP[name](rounds, c_range, seed)


def _check_own(name: str, made: Any) -> None:
    if not isinstance(made, Correction):
        raise TypeError(
            f"corrections[{name!r}] must return a correction with the methods propose, observe, state and "
            f"from_state; got {made!r}"
        )
    if for_book(made).grouped:
        raise TypeError(f"corrections[{name!r}] must return a correction without groups; got {made!r}")


def make_reserve(rate: float, over: Any = None) -> Correction:
    """Return a reserve with this rate, by itself or over another of our corrections."""
    return Reserve(rate, over=over)


def compiled(correction: Correction) -> BookCorrection | None:
    """Return the correction for compiled loops; None if it must run in a plain loop.

    Raises a ValueError for a reserve over another correction, which needs sound mode.
    """
    asked = for_book(correction)
    if asked.over is not None:
        raise ValueError(f"{correction!r} needs sound mode: only the frontier study has it")
    return None if asked.kernels is None else asked


def bound_of(correction: Correction, rounds: int) -> Bound | None:
    """Return a theorem's bound for a correction after `rounds` rounds with ĉ = 0; None for most."""
    asked, terms = for_book(correction), Terms(1.0)
    bound = asked.mean_bound(rounds, terms)
    return None if bound is None else Bound(asked.mean_theorem, bound)


def capital_of(correction: Correction) -> float | None:
    """Return the most that a forecaster can lose in sound mode, in caps, if that is certified."""
    return for_book(correction).line_bound(Terms(1.0, sound=True))
