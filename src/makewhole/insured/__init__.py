"""The insured forecaster: its book, totals, certificates and statement."""

from makewhole.insured.forecaster import InsuredForecaster

__all__ = ["InsuredForecaster"]
