"""Carry out runs, searches of rigs, and validations from beginning to end."""
