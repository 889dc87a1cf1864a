"""Watch live forecasts: whether they are still right, group by group, at any time."""
