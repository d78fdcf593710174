"""Analyse runs: compute figures (`statistics`, `audit`), explain (`attribution`) and compare them."""
