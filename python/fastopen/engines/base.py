"""The interface of every engine: jobs go in, and events come out as they happen."""

from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from fastopen.contract import InvalidKind, Job, LoadRecord, TransactionsRecord, WorldRecord

# What says nothing of a load itself, and how often such a load is done in all: the machine was late, or the
# world did not live to the end of the load. The processors of a virtual machine stand still for some
# milliseconds at times of their own, and loads a second apart are late alike.
ATTEMPTS: Final = {InvalidKind.LINK_LATE: 10, InvalidKind.FAULT: 3, InvalidKind.FIRST_BYTE_LATE: 3}

# Name of a page to index of a resource to its recorded body.
Bodies = Mapping[str, Mapping[int, bytes]]


@dataclass(frozen=True)
class JobStarted:
    """A world is being built for this job; `attempt` counts from 1."""

    job: str
    attempt: int


@dataclass(frozen=True)
class WorldBuilt:
    """The world stands and was measured. `raw` is the record as it was written."""

    record: WorldRecord
    raw: str


@dataclass(frozen=True)
class Packets:
    """The packets of a load: a pcapng file, and how many found no more room and are not in it."""

    pcapng: bytes
    dropped: int


@dataclass(frozen=True)
class LoadDone:
    """A load is over, validly or not. `raw` is the record as it was written."""

    record: LoadRecord
    raw: str
    packets: Packets | None = None
    """Where the job asked for them."""


@dataclass(frozen=True)
class TransactionsDone:
    """Transactions are over, validly or not. `raw` is the record as it was written."""

    record: TransactionsRecord
    raw: str


@dataclass(frozen=True)
class JobEnded:
    """Nothing more comes of this job. `fault` says why it fell short, or is None."""

    job: str
    fault: str | None


Event = JobStarted | WorldBuilt | LoadDone | TransactionsDone | JobEnded


class Engine(Protocol):
    """Runs jobs. Closing the iterator, or an exception through it, ends everything that was started."""

    @property
    def parallel(self) -> int:
        """Return the number of jobs that run at once."""
        ...

    def run(self, jobs: Iterable[Job], bodies: Bodies, within_s: float | None = None) -> Generator[Event]:
        """Runs all jobs, several at once where the engine can; what runs after `within_s` seconds is ended.

        Every load of every job comes out exactly once as a LoadDone, or not at all where the time was over;
        what a fault kept from running comes out as invalid with the kind `fault`. Raises InputError and
        MachineError when going on makes no sense.
        """
        ...
