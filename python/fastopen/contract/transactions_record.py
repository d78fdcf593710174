"""Define the record of transactions with a server under load."""

from typing import Annotated, Literal

from pydantic import Field

from fastopen.common.pydantic_errors import Items
from fastopen.contract.invalid_kinds import Invalid
from fastopen.contract.job import Cookies, Transport
from fastopen.contract.record_part import Count, Counters, Link, RecordPart

# A value of a histogram, and its number of occurrences.
Pair = Annotated[list[Count], Field(min_length=2, max_length=2)]


class ServerCore(RecordPart):
    """The use of the server's core while transactions were under way (`/proc/stat`)."""

    number: Count
    """The number of the core, on which the server's threads must stay."""
    steered: bool
    """True if the kernel receives the server's packets on this core (`net.core.rps_default_mask`)."""
    elapsed_us: Count
    """The elapsed wall-clock time."""
    idle_us: Count
    """Idle time, exact if the kernel stops its tick on an idle core (NO_HZ)."""
    user_us: Count
    """Time in processes of normal or higher priority. Counted in ticks, like the next three times."""
    nice_us: Count
    """Time in processes of a lower priority. The server is not one of them."""
    system_us: Count
    """Time in the kernel, for processes."""
    interrupts_us: Count
    """Time in interrupts and softirqs."""
    stolen_us: Count
    """Time that the hypervisor took."""
    server_threads_us: Count
    """Time in which the server's threads ran (`schedstat`), including interrupts of these threads: all time
    spent on the server, except softirqs on an idle core."""

    @property
    def busy_us(self) -> int:
        """Return the time that was neither idle nor stolen."""
        return max(self.elapsed_us - self.idle_us - self.stolen_us, 0)

    @property
    def others_us(self) -> int:
        """Return a lower bound on the time for which processes other than the server used the core."""
        return max(self.user_us + self.nice_us + self.system_us - self.server_threads_us, self.nice_us)


class TransactionsRecord(RecordPart):
    """The results of a load's transactions."""

    type: Literal["transactions"]
    job: str
    id: str
    transport: Transport
    cookies: Cookies
    valid: bool
    """True if the transactions count."""
    invalid: Items[Invalid]
    """The reasons why the transactions do not count. Effects of overload, a flood or a new key do not make
    them invalid."""
    started_unix_ms: Count
    """The time at which transactions began."""
    cookies_before: Count
    """The number of hosts whose cookie the client held at the beginning."""
    begun: Count
    """The number of transactions that began."""
    not_begun: Count
    """The number of due transactions that never began, because 20,000 ran already or no address was left."""
    arrived_over_us: Count
    """The time from when the first transaction was due until the last one began."""
    elapsed_us: Count
    """The time from the start until the last transaction ended."""
    answered: Count
    """The number of transactions with a complete response."""
    answered_over_us: Count
    """The time from the first complete response to the last one."""
    failures: dict[str, Count]
    """Maps the ten most frequent failures of the other transactions to their numbers of occurrences."""
    syn_data: Count
    """The number of transactions with data in their SYN that was acknowledged (TCPI_OPT_SYN_DATA)."""
    fallbacks: Count
    """The number of transactions with data in their SYN that was not acknowledged, and was retransmitted
    after the handshake."""
    retransmits: Count
    """The number of segments that the client's end retransmitted."""
    latency_us: list[Pair]
    """Latencies of answered transactions, from when they were due to their last byte: a histogram (HDR, four
    significant digits), as pairs of a value and its number of occurrences."""
    late: Count
    """The number of transactions that began more than `late_us` after they were due."""
    lateness_us: list[Pair]
    """Times by which transactions began after they were due, in the format of `latency_us`."""
    generator_us: Count
    """Time in which the generator's thread ran; 0 if computing takes no time, as in virtual time."""
    fastopen_queue: Count | None
    """The smallest Fast Open queue of the server's listeners; null: it could not be read."""
    flood_syns: Count
    """The number of SYNs that the flood sent."""
    counters: Counters
    link: Link
    core: ServerCore | None
    """The server's core; null: time is virtual, or this machine has only one core."""
