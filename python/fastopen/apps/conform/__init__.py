"""Test a kernel's Fast Open, and fastopen's evidence of its use, with packetdrill's scripts."""

from fastopen.apps.conform.run import Conformance, ScriptOutcome, ScriptResult, conform
from fastopen.apps.conform.scripts import DEFINITIONS, Script
