"""Probe real servers, and the paths to them, for TCP Fast Open."""

from fastopen.apps.diagnose.probe.trials import (
    CONNECTIONS_MAX,
    Handling,
    Probed,
    Target,
    greeting,
    probe,
    target_of,
)
from fastopen.apps.diagnose.probe.words import consistent, meaning, verdict
