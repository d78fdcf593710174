"""A row for each load of a run, without the full record."""

import re
from typing import Final, NamedTuple

NAME_MAX: Final = 120


class LoadRow(NamedTuple):
    """The facts on a load that tables need. `invalid` are (kind, detail) pairs.

    A tuple, because a run has up to a million: a frozen dataclass takes five times as long to make.
    """

    job: str
    cell: int
    repeat: int
    valid: bool
    plt_ns: int | None
    connections: int
    syn_data_connections: int
    handshakes_ns: int
    """The longest sum of handshake times in a row."""
    retransmitted: int
    """Retransmitted segments of both ends."""
    invalid: tuple[tuple[str, str], ...]
    load: str = ""
    """The load's id within its job. `RunStore.load_record` needs it and `attempt`."""
    attempt: int = 1
    """The number of the attempt, from 1. A disturbed load is repeated."""
    superseded: bool = False
    """True if the load was repeated. Every figure then uses a later attempt."""
    requests: int = 0
    started_unix_ms: int = 0
    number: int = 0
    """The unique number of the load, in the order of writing."""


def file_name(number: int, job: str, load: str, ending: str) -> str:
    """Return the name of a load's own file. It is safe on every file system, and unique."""
    plain = re.sub(r"[^A-Za-z0-9@#.,=()-]+", "-", f"{job} {load}").strip("-")[:NAME_MAX]
    return f"{number:06}-{plain}.{ending}"
