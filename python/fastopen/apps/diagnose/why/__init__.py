"""Diagnose TCP Fast Open on this machine's own network from its settings, listeners and counters."""

from fastopen.apps.diagnose.why.diagnosis import Observation, diagnose
from fastopen.apps.diagnose.why.machine import LocalListener, Machine, growth, read_machine
