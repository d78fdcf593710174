"""Test a kernel's TCP Fast Open with packetdrill's scripts, and check that fastopen's evidence agrees."""
