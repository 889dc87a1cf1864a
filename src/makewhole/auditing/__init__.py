"""Audit a table of forecasts."""
