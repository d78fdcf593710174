"""Diagnose TCP Fast Open on real servers and on this machine."""
