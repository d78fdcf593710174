"""Helpers for every layer: errors, units, files."""
