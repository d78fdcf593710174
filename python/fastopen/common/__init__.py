"""Provide helpers for all packages: errors, units, file access, tables, and text for figures."""
