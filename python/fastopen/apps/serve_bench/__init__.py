"""Benchmark servers with one request per connection, at a fixed rate or with a fixed number of clients."""
