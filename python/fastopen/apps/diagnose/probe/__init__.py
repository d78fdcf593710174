"""Probe real servers, and the paths to them, for TCP Fast Open."""
