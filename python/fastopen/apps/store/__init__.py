"""Inspect, check and clean a store of results: finished page loads that later runs reuse."""
