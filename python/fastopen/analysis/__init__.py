"""Figures of a run: `statistics` and `audit`, then `attribution`, then `comparison`."""
