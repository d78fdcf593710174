"""Diagnose real hosts and this machine."""
