"""Corrections: rules that choose λ, so that the published half-width c = ĉ + λ balances the books.

ĉ is the base learner's own half-width. One correction per file.
"""

from typing import Any

from makewhole.corrections.balance import Balance
from makewhole.corrections.barrier import Barrier
from makewhole.corrections.base import BookCorrection, Correction, Proposal, for_book
from makewhole.corrections.certificate import Certificate, Terms
from makewhole.corrections.deterministic_swap import DeterministicSwap
from makewhole.corrections.grouped import Grouped
from makewhole.corrections.naive import NaiveBestResponse
from makewhole.corrections.none import NoCorrection
from makewhole.corrections.overlapping import OverlappingReserve
from makewhole.corrections.reserve import Reserve
from makewhole.corrections.standard import StandardRegret
from makewhole.corrections.swap import SwapRegret

__all__ = [
    "Balance",
    "Barrier",
    "BookCorrection",
    "Certificate",
    "Correction",
    "DeterministicSwap",
    "Grouped",
    "NaiveBestResponse",
    "NoCorrection",
    "OverlappingReserve",
    "Proposal",
    "Reserve",
    "StandardRegret",
    "SwapRegret",
    "Terms",
    "by_name",
    "for_book",
    "name_of",
]

# Every correction without groups, in the order in which they are shown. The command line, the studies, the
# checks, saved files and the README's table read it: a new correction is a file, two kernels and a line here.
REGISTRY: tuple[type[Any], ...] = (
    NoCorrection,
    NaiveBestResponse,
    StandardRegret,
    SwapRegret,
    DeterministicSwap,
    Reserve,
)
# The corrections for groups, and those that need a capital.
FOR_GROUPS: tuple[type[Any], ...] = (Grouped, OverlappingReserve, Balance)
FOR_CAPITAL: tuple[type[Any], ...] = (Barrier,)

_OURS = {kind.__name__: kind for kind in (*REGISTRY, *FOR_GROUPS, *FOR_CAPITAL)}


def name_of(correction: object) -> str:
    """Return the name of a correction in saved files: ours by class name, others with their module."""
    kind = type(correction)
    return kind.__name__ if _OURS.get(kind.__name__) is kind else f"{kind.__module__}.{kind.__qualname__}"


def by_name(name: str) -> type[Any] | None:
    """Return the class of one of our corrections, or None if none has this name."""
    return _OURS.get(name)
