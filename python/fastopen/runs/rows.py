"""Define the row of facts that represents a load without its full record, and the names of a load's files."""

import re
from typing import Final, NamedTuple

NAME_MAX: Final = 120


class LoadRow(NamedTuple):
    """The facts on a load that tables need. `invalid` has (kind, detail) pairs.

    Rows are tuples, because a run has up to a million, and creating frozen dataclasses is five times slower.
    """

    job: str
    cell: int
    repeat: int
    valid: bool
    plt_ns: int | None
    connections: int
    syn_data_connections: int
    handshakes_ns: int
    """The longest sum of handshake times along the dependencies of requests."""
    retransmitted: int
    """The number of segments that both ends retransmitted."""
    invalid: tuple[tuple[str, str], ...]
    load: str = ""
    """The load's id within its job. `RunReader.load_record` needs `job`, `load` and `attempt`."""
    attempt: int = 1
    """The number of the attempt, from 1. A disturbed load is repeated."""
    superseded: bool = False
    """True if the load was repeated. All figures use its last attempt instead."""
    requests: int = 0
    started_unix_ms: int = 0
    number: int = 0
    """The number of the load in the order of writing, unique in the run."""


def file_name(number: int, job: str, load: str, ending: str) -> str:
    """Return a name for a file of one load. The name is unique in the run, and safe on every file system."""
    plain = re.sub(r"[^A-Za-z0-9@#.,=()-]+", "-", f"{job} {load}").strip("-")[:NAME_MAX]
    return f"{number:06}-{plain}.{ending}"
