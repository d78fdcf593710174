"""Compute, explain and compare the results of runs, and check published page load times (`audit`)."""
