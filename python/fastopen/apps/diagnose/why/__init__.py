"""Diagnose TCP Fast Open on this machine's own network from its settings, listeners and counters."""

from fastopen.apps.diagnose.why.diagnosis import Finding, diagnose
from fastopen.apps.diagnose.why.machine import Listener, Machine, growth, read_machine
