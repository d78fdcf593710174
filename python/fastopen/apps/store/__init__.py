"""Inspect, check and clean a store of results, which keeps finished loads for reuse."""
