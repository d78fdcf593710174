"""Workflows that the command line and notebooks share: run, compare kernels, validate fastopen."""
