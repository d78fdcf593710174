"""Describe the machine on which a run starts, and validate the JSON documents `environment` and `options` of
a stored run, because any program may have written them."""

import os
import platform
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BaseModel, ConfigDict

from fastopen.contract.part import Part


def _moment(text: str) -> str:
    datetime.fromisoformat(text)
    return text


class Facts(BaseModel):
    """A stored JSON object. The keys that a subclass declares are validated, and further keys are allowed."""

    model_config = ConfigDict(strict=True, extra="allow", defer_build=True)


class Environment(Facts):
    """The machine and programs that executed a run, its resumptions, and the runs merged into it."""

    started: Annotated[str, AfterValidator(_moment)] | None = None
    versions: dict[str, str] = {}
    clients: dict[str, str | dict[str, Any] | None] | None = None
    virtual_kernel: dict[str, str] | None = None
    memory_bytes: int | None = None
    resumed: list[dict[str, Any]] = []
    merged: list[dict[str, Any]] = []


class Until(Part):
    """The precision of the savings, or the number of repeats, at which a run with `--until-ci` ends."""

    half_width_percent: float
    max_repeats: int


class Watched(Part):
    """The data to store for each page load in addition to its record: packets, or samples of TCP's state.
    Jobs have fields with the same names."""

    packets: bool = False
    tcp_trace: bool = False


NOTHING_ELSE: Final = Watched()


class Options(Facts):
    """The options of the command that started a run. Only those needed to resume the run are stored."""

    until: Until | None = None
    inputs: list[str] = []
    library: list[str] = []
    lenient: bool = False
    max_unpacked: int | None = None
    watched: Watched = NOTHING_ELSE
    bodies: dict[str, str] = {}
    shard: str | None = None


def describe_environment(program_version: str, parallel: int) -> dict[str, Any]:
    """Return facts about this machine and the versions of programs as JSON values. `program_version` is the
    version of the program that emulates networks. `parallel` is the number of networks emulated at once."""
    return {
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": {
            "fastopen": metadata.version("fastopen"),
            "fastopen-world": program_version,
            "python": platform.python_version(),
            "numpy": metadata.version("numpy"),
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
