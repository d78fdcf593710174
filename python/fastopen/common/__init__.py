"""Helpers for all packages: errors, units, files, tables as data (`Grid`), and phrases for figures."""
