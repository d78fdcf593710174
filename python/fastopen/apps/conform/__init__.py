"""Conformance: packetdrill's Fast Open scripts on a kernel, and evidence read on their sockets."""

from fastopen.apps.conform.run import Conformance, Outcome, Result, Tally, conform
from fastopen.apps.conform.scripts import DEFINITIONS, Script
