"""Carry out runs, searches for rigs, and validations from beginning to end."""
