"""Benchmark servers: run transactions at fixed rates or from fixed numbers of clients, and measure them."""
