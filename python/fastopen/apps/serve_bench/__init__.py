"""Benchmark servers: run transactions at fixed rates or from some clients; measure latency and CPU time."""
