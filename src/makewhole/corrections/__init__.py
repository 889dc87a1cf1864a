"""Corrections: how λ is adapted so that c = ĉ + λ balances the books. One file each."""

from typing import Any

from makewhole.corrections.base import Correction, Proposal
from makewhole.corrections.deterministic_swap import DeterministicSwap
from makewhole.corrections.grouped import Grouped
from makewhole.corrections.naive import NaiveBestResponse
from makewhole.corrections.none import NoCorrection
from makewhole.corrections.reserve import Reserve
from makewhole.corrections.standard import StandardRegret
from makewhole.corrections.swap import SwapRegret

__all__ = [
    "Correction",
    "DeterministicSwap",
    "Grouped",
    "NaiveBestResponse",
    "NoCorrection",
    "Proposal",
    "Reserve",
    "StandardRegret",
    "SwapRegret",
]

_OURS: dict[str, type[Any]] = {
    kind.__name__: kind
    for kind in (
        DeterministicSwap,
        Grouped,
        NaiveBestResponse,
        NoCorrection,
        Reserve,
        StandardRegret,
        SwapRegret,
    )
}


def name_of(correction: Correction) -> str:
    """One of ours by its bare name; anybody else's by where it lives, so that none passes for ours."""
    kind: type = type(correction)
    return kind.__name__ if _OURS.get(kind.__name__) is kind else f"{kind.__module__}.{kind.__qualname__}"


def by_name(name: str) -> type[Any] | None:
    """The class of one of ours."""
    return _OURS.get(name)
