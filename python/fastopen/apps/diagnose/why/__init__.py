"""Diagnose TCP Fast Open on this machine's own network from its settings, listeners and counters."""
