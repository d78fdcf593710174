"""Kept runs in a web browser of this machine: a list, each run on demand, loads compared."""
