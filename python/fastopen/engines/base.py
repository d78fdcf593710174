"""Define the interface of engines: they run jobs and yield events as these happen."""

from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from fastopen.contract import InvalidKind, Job, LoadRecord, TransactionsRecord, WorldRecord

# Reasons for invalid loads that lie in the machine, and the number of attempts that each allows: the machine
# was late, or the world ended early. Processors of virtual machines pause for some milliseconds at times;
# then even loads a second apart are late.
ATTEMPTS: Final = {InvalidKind.LINK_LATE: 10, InvalidKind.FAULT: 3, InvalidKind.FIRST_BYTE_LATE: 3}

# Maps a page's name to the recorded bodies of its resources, by their index.
Bodies = Mapping[str, Mapping[int, bytes]]


@dataclass(frozen=True)
class JobStarted:
    """The start of a job's world. `attempt` counts from 1."""

    job: str
    attempt: int


@dataclass(frozen=True)
class WorldBuilt:
    """A world that was built and measured. `raw` is the record as the world program wrote it."""

    record: WorldRecord
    raw: str


@dataclass(frozen=True)
class Packets:
    """The packets of a load as a pcapng file, and the number of packets that did not fit into it."""

    pcapng: bytes
    dropped: int


@dataclass(frozen=True)
class LoadDone:
    """The end of a load, valid or not. `raw` is the record as the world program wrote it."""

    record: LoadRecord
    raw: str
    packets: Packets | None = None
    """The packets, if the job requested them."""


@dataclass(frozen=True)
class TransactionsDone:
    """The end of transactions, valid or not. `raw` is the record as the world program wrote it."""

    record: TransactionsRecord
    raw: str


@dataclass(frozen=True)
class JobEnded:
    """The end of a job. `fault` is the reason why the job is incomplete, or None."""

    job: str
    fault: str | None


Event = JobStarted | WorldBuilt | LoadDone | TransactionsDone | JobEnded


class Engine(Protocol):
    """A runner of jobs. Closing `run`'s generator, or an exception in it, ends all processes of the run."""

    @property
    def parallel(self) -> int:
        """Return the number of jobs that run at once."""
        ...

    def run(self, jobs: Iterable[Job], bodies: Bodies, within_s: float | None = None) -> Generator[Event]:
        """Run all jobs, in parallel if the engine can, and end those that run after `within_s` seconds.

        Each load is reported exactly once, as LoadDone or TransactionsDone, or not at all if the time was
        over. A load that a fault prevented is reported as invalid with the kind `fault`. Raises InputError or
        MachineError if the remaining jobs cannot run.
        """
        ...
