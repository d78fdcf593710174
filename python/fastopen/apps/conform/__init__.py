"""Test a kernel's TCP Fast Open with packetdrill's scripts, and check fastopen's evidence of TFO."""
