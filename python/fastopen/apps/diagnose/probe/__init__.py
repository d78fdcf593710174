"""Probe: what a real server, and the path to it, do with TCP Fast Open."""

from fastopen.apps.diagnose.probe.hosts import Target, greeting, target_of
from fastopen.apps.diagnose.probe.trials import CONNECTIONS_MAX, Handling, Probed, probe
from fastopen.apps.diagnose.probe.words import consistent, meaning, verdict
