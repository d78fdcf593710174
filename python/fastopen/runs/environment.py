"""Describe the environment of a run, which a repeat of the run should share."""

import os
import platform
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fastopen.common.versions import version_of


def describe_environment(program_version: str, parallel: int) -> dict[str, Any]:
    """Return versions, kernel and machine as JSON values. `parallel` is the number of worlds at once."""
    return {
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": {
            "fastopen": version_of("fastopen"),
            "fastopen-world": program_version,
            "python": platform.python_version(),
            "numpy": version_of("numpy"),
        },
        "kernel": platform.release(),
        "architecture": platform.machine(),
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "load_average": round(os.getloadavg()[0], 2),
        "root": os.geteuid() == 0,
        "worlds_at_once": parallel,
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return "unknown"
    names = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(names, "unknown")
