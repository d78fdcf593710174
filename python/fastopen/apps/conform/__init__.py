"""Test a kernel's TCP Fast Open, and fastopen's detection of its use, with the scripts of packetdrill."""
