"""Probe real servers, and the network paths to them, for support of TCP Fast Open."""
