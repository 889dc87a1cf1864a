"""Corrections: how λ is adapted so that c = ĉ + λ balances the books. One file each."""

from makewhole.corrections.base import Correction, Proposal
from makewhole.corrections.deterministic_swap import DeterministicSwap
from makewhole.corrections.naive import NaiveBestResponse
from makewhole.corrections.none import NoCorrection
from makewhole.corrections.standard import StandardRegret
from makewhole.corrections.swap import SwapRegret

__all__ = [
    "Correction",
    "DeterministicSwap",
    "NaiveBestResponse",
    "NoCorrection",
    "Proposal",
    "StandardRegret",
    "SwapRegret",
]
