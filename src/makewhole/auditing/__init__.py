"""Audit a table of forecasts: which bets against it win, and how much."""
