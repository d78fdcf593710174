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
    """Segments, by both ends."""
    invalid: tuple[tuple[str, str], ...]
    load: str = ""
    """Its id within its job: with `attempt`, what `RunStore.load_record` needs."""
    attempt: int = 1
    """From 1; a load that was disturbed is done again."""
    superseded: bool = False
    """Whether it was done again: then a later attempt stands in its place in every figure."""
    requests: int = 0
    started_unix_ms: int = 0
    number: int = 0
    """In the order in which loads were written; each has its own."""


def file_name(number: int, job: str, load: str, ending: str) -> str:
    """Return the name of a load's own file. It is safe on every file system, and unique."""
    plain = re.sub(r"[^A-Za-z0-9@#.,=()-]+", "-", f"{job} {load}").strip("-")[:NAME_MAX]
    return f"{number:06}-{plain}.{ending}"
