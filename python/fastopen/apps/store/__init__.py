"""Inspect, check and clean a store of results."""
