"""Errors, units, files, tables as data (`Grid`), and phrases for figures."""
