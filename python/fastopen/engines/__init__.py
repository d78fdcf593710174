"""Engines: what carries jobs out, whose clock runs. Today this machine's kernel in real time, `host`."""

from fastopen.engines.base import Engine, Event, JobEnded, JobStarted, LoadDone, WorldBuilt
from fastopen.engines.host import WORLDS_PER_CORE, HostEngine
from fastopen.engines.program import check_program, find_program, program_version

__all__ = [
    "WORLDS_PER_CORE",
    "Engine",
    "Event",
    "HostEngine",
    "JobEnded",
    "JobStarted",
    "LoadDone",
    "WorldBuilt",
    "check_program",
    "find_program",
    "program_version",
]
