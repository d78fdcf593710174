"""Benchmark servers with transactions (connections with one request), at fixed rates or by fixed clients."""
