"""Figures and findings of a run: statistics, critical path, comparison, audit."""
