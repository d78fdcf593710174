"""Engines that run jobs: `host` in real time on this machine's kernel, `virtual` in its own time."""

from fastopen.engines.base import Engine, Event, JobEnded, JobStarted, LoadDone, WorldBuilt
from fastopen.engines.clients import check_versions, describe_clients, describe_servers
from fastopen.engines.executor import ExecutorEngine
from fastopen.engines.host import HostEngine, default_parallel
from fastopen.engines.program import check_program, find_program, program_digest, program_version
from fastopen.engines.results_store import Maker, ResultsStore
from fastopen.engines.stored import StoredEngine
from fastopen.engines.virtual import VirtualEngine
