"""Define the interface of engines, which run jobs of page loads, and the events that engines yield."""

from collections.abc import Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Protocol, Self

from fastopen.contract import InvalidKind, Job, LoadRecord, TransactionsRecord, WorldRecord, parse_record
from fastopen.contract.records import RecordError
from fastopen.pages.recording import bodies_digest

# The maximum number of attempts at a load that is invalid because of the machine: it was late, or the world
# ended early. A late link gets the most attempts, because the processors of virtual machines can pause for
# some milliseconds many times within seconds.
ATTEMPTS_BY_KIND: Final = {InvalidKind.LINK_LATE: 10, InvalidKind.FAULT: 3, InvalidKind.FIRST_BYTE_LATE: 3}

# Maps the name of a page to its recorded bodies, keyed by the index of the resource.
Bodies = Mapping[str, Mapping[int, bytes]]


def bodies_digests(bodies: Bodies) -> dict[str, str]:
    """Map the name of each page with recorded bodies to the SHA-256 of its recorded bodies and headers."""
    return {page: bodies_digest(of_page) for page, of_page in bodies.items() if of_page}


@dataclass(frozen=True)
class JobStarted:
    """The start of a job. `attempt` is 1, or higher if the job had to be started again after a failure."""

    job: str
    attempt: int


@dataclass(frozen=True)
class PacketFile:
    """The packets of a load as a pcapng file, and the number of packets lost because the buffer was full."""

    pcapng: bytes
    dropped: int


@dataclass(frozen=True)
class Reported:
    """A record of a job: its network is ready and was measured, or a page load or a load test of a server
    (transactions) has ended, valid or not."""

    record: WorldRecord | LoadRecord | TransactionsRecord
    raw: str
    """The JSON text of `record`, as the program that emulates networks wrote it."""
    packets: PacketFile | None = None
    """The packets of a page load, if the job requested them."""

    @classmethod
    def parsed(cls, raw: str, packets: PacketFile | None = None) -> Self:
        """Return the event that reports the record in the JSON text `raw`. Raises RecordError if `raw` is not
        such a record."""
        record = parse_record(raw)
        if not isinstance(record, WorldRecord | LoadRecord | TransactionsRecord):
            raise RecordError(f"the record reports no network and no load: {record.type}")
        return cls(record, raw, packets)

    def __reduce__(self) -> tuple[object, ...]:
        # Pickle only the text, because parsing it takes less time than unpickling the record.
        return type(self).parsed, (self.raw, self.packets)


@dataclass(frozen=True)
class JobEnded:
    """The end of a job. `fault` is the reason why the job is incomplete, or None if it is complete."""

    job: str
    fault: str | None


Event = JobStarted | Reported | JobEnded


def loads_in(events: Iterable[Event]) -> Iterator[LoadRecord]:
    """Yield the record of each page load that `events` report."""
    records = (event.record for event in events if isinstance(event, Reported))
    yield from (record for record in records if isinstance(record, LoadRecord))


class Engine(Protocol):
    """An object that runs jobs. Each job loads a page several times over an emulated network."""

    @property
    def parallel(self) -> int:
        """Return the number of jobs that run at once."""

    def run(self, jobs: Iterable[Job], bodies: Bodies, within_s: float | None = None) -> Generator[Event]:
        """Run all jobs, up to `parallel` at once, and yield events as they happen. Stop after `within_s`
        seconds, or when the generator is closed. `bodies` maps page names to recorded response bodies. Each
        page load of a job gives one event, unless the time ends first. A load that failed for a technical
        reason is invalid, with the kind `fault`. Raises InputError or MachineError if jobs cannot run."""
