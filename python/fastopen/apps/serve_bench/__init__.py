"""Benchmark servers with connections of one request each, at a fixed rate or by a fixed number of clients."""
