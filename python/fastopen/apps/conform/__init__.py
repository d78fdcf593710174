"""Test a kernel's Fast Open, and fastopen's evidence of its use, with packetdrill's scripts."""
