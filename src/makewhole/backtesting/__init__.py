"""Replay a log of forecasts, stakes and outcomes."""
