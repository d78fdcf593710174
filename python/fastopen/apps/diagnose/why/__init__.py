"""Why: what this machine's settings, listeners and counters say of TCP Fast Open on its own network."""

from fastopen.apps.diagnose.why.diagnosis import Finding, diagnose
from fastopen.apps.diagnose.why.machine import Listener, Machine, growth, read_machine
