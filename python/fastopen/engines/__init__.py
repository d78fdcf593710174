"""Load pages in real time (engine `host`) or virtual time (engine `virtual`), and store the results."""

from fastopen.engines.base import Engine, Event, JobEnded, JobStarted, Reported, loads_in
from fastopen.engines.executor import ExecutorEngine
from fastopen.engines.programs import (
    check_program,
    check_versions,
    describe_clients,
    describe_servers,
    find_program,
    program_digest,
    program_version,
)
from fastopen.engines.results_store import Maker, ResultsStore, StoredEngine
from fastopen.engines.worlds import HostEngine, VirtualEngine, default_parallel
