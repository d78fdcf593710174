"""Define the main results of a page load and a filter for lists of loads. Write and find packet captures."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, NamedTuple, get_args

from fastopen.common.errors import MachineError
from fastopen.common.files import write_atomic

NAME_MAX: Final = 120
Order = Literal["written", "fastest", "slowest"]
ORDERS: Final[tuple[Order, ...]] = get_args(Order)
SQL_ORDERS: Final[dict[Order, str]] = {
    "written": "loads.number",
    "fastest": "plt_ns IS NULL, plt_ns, loads.number",
    "slowest": "plt_ns DESC, loads.number",
}
PACKETS: Final = "packets"
PACKETS_ENDING: Final = "pcapng"
# The maximum size of a packet file that is read. No capture is larger (crates/world/src/capture/mod.rs).
PACKETS_MAX_BYTES: Final = 256 * 2**20


class LoadRow(NamedTuple):
    """The main results of one attempt at a page load. `job` is the id of its job, and `cell` the index of its
    cell: its page, network, setup, engine and use of TFO. `syn_data_connections` is the number of connections
    with acknowledged SYN data. `invalid` lists (kind, detail) of each reason why the load is not `valid`."""

    # This is a tuple because a run has up to a million rows. Creating dataclasses takes five times as long.
    job: str
    cell: int
    repeat: int
    valid: bool
    plt_ns: int | None
    connections: int
    syn_data_connections: int
    handshakes_ns: int
    """The largest sum of handshake times over any chain of dependent requests (runs/chain.py)."""
    retransmitted: int
    """The number of segments that client and origins retransmitted in total."""
    invalid: tuple[tuple[str, str], ...]
    load: str = ""
    """The load's id within its job. `RunReader.load_record` needs `job`, `load` and `attempt`."""
    attempt: int = 1
    """The number of the attempt, from 1. A load that the machine disturbed is repeated."""
    superseded: bool = False
    """True if a later attempt at this load exists. Statistics use only the last attempt."""
    requests: int = 0
    started_unix_ms: int = 0
    number: int = 0
    """Identifies the attempt in the run. Attempts are numbered in the order in which they were stored; in a
    merged run, in planned order."""


@dataclass(frozen=True)
class Listing:
    """A filter and a sort order for a list of page loads; by default, all, sorted by `LoadRow.number`."""

    cell: int | None = None
    """Select only loads of the cell (page, network, setup, engine and use of TFO) with this index."""
    page: str | None = None
    """Select only loads of the page with this name."""
    valid: bool | None = None
    search: str = ""
    """Select only loads with this text in the job's id or in a reason for invalidity, ignoring case."""
    job: str | None = None
    """Select only loads of the job with this id."""
    number: int | None = None
    """Select only the attempt with this number (`LoadRow.number`)."""
    order: Order = "written"

    @property
    def condition(self) -> tuple[str, tuple[object, ...]]:
        """Return an SQL WHERE clause on `loads` and `jobs`, or "" to select all loads, and its parameters."""
        equal = {
            "loads.cell": self.cell,
            "jobs.page": self.page,
            "loads.valid": self.valid,
            "jobs.id": self.job,
            "loads.number": self.number,
        }
        wanted = [f"{column} = ?" for column, value in equal.items() if value is not None]
        values: list[object] = [value for value in equal.values() if value is not None]
        if self.search:
            escaped = self.search.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
            wanted.append("(jobs.id LIKE ? ESCAPE '\\' OR loads.invalid LIKE ? ESCAPE '\\')")
            values += [f"%{escaped}%"] * 2
        return ("WHERE " + " AND ".join(wanted) if wanted else ""), tuple(values)


def file_name(number: int, job: str, load: str, ending: str) -> str:
    """Return a file name for data of one load, such as `000001-JOB-LOAD.pcapng`, safe on every file system.
    `number` is the load's number in the run, and `job` and `load` are ids. `ending` is without a dot."""
    plain = re.sub(r"[^A-Za-z0-9@#.,=()-]+", "-", f"{job} {load}").strip("-")[:NAME_MAX]
    return f"{number:06}-{plain}.{ending}"


def keep_packets(run: Path, number: int, job: str, load: str, pcapng: bytes) -> None:
    """Write `pcapng`, a file with the packets of a load, into the folder of `run`. The load's number in the
    run and the ids `job` and `load` give the file its name. Raises MachineError if the write fails."""
    folder = run / PACKETS
    try:
        folder.mkdir(exist_ok=True)
        write_atomic(folder / packets_name(number, job, load), pcapng)
    except OSError as error:
        message = f"{folder}: packets cannot be written: {error.strerror or error}"
        raise MachineError(message, "free some space there, or run without --pcap") from None


def kept_packets(run: Path, number: int, job: str, load: str) -> Path | None:
    """Return the packet file of a load, with the parameters of `keep_packets`; None if it is missing, larger
    than PACKETS_MAX_BYTES, or behind a symlink in `run`."""
    path = run / PACKETS / packets_name(number, job, load)
    if not path.is_file() or path.resolve() != run.resolve() / PACKETS / path.name:
        return None
    return path if path.stat().st_size <= PACKETS_MAX_BYTES else None


def packets_name(number: int, job: str, load: str) -> str:
    """Return the name, without the folder, of the file for a load's packets."""
    return file_name(number, job, load, PACKETS_ENDING)
