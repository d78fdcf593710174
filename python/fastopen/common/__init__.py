"""Provide helpers for all packages: errors, units, file access, tables, and the formatting of numbers."""
