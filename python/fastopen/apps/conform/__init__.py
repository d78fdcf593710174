"""Test a kernel's TCP Fast Open with packetdrill's scripts, and compare fastopen's evidence with them."""
