"""Compute results of runs (`statistics`), explain and compare them, and check published ones (`audit`)."""
