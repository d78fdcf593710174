"""Test a kernel's Fast Open with packetdrill's scripts, and the evidence that fastopen reads from it."""

from fastopen.apps.conform.run import Conformance, Outcome, Result, Tally, conform
from fastopen.apps.conform.scripts import DEFINITIONS, Script
