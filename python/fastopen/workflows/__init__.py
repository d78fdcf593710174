"""Carry out runs, explanations of published figures, and validations of the emulator."""
