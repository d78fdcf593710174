"""The record of transactions with a server under load."""

from typing import Annotated, Literal

from pydantic import Field

from fastopen.common.pydantic_errors import Items
from fastopen.contract.job import Cookies, Transport
from fastopen.contract.record_part import Count, Counters, Invalid, Link, RecordPart

# Of a histogram: a value, and how often it occurred.
Pair = Annotated[list[Count], Field(min_length=2, max_length=2)]


class ServerCore(RecordPart):
    """The use of the server's core while transactions were under way (`/proc/stat`)."""

    number: Count
    """Of the core, which the server's threads do not leave."""
    steered: bool
    """Whether the kernel receives the server's packets on it (`net.core.rps_default_mask`)."""
    elapsed_us: Count
    """By the clock."""
    idle_us: Count
    """In nothing; exact where the kernel stops its tick then (NO_HZ)."""
    user_us: Count
    """In processes of the usual priority or a higher one. Counted in ticks, as the next three are."""
    nice_us: Count
    """In processes of a lower priority, which are not the server."""
    system_us: Count
    """In the kernel, for processes."""
    interrupts_us: Count
    """In interrupts and softirqs."""
    stolen_us: Count
    """Taken by what this machine is a guest of."""
    server_threads_us: Count
    """For which the server's threads ran (`schedstat`), with the interrupts that they met: all of its time
    but softirqs on an idle core."""

    @property
    def busy_us(self) -> int:
        """Not idle, and not another machine's."""
        return max(self.elapsed_us - self.idle_us - self.stolen_us, 0)

    @property
    def others_us(self) -> int:
        """Return the least time that processes other than the server's used of it."""
        return max(self.user_us + self.nice_us + self.system_us - self.server_threads_us, self.nice_us)


class TransactionsRecord(RecordPart):
    """The transactions of a load that asked for them."""

    type: Literal["transactions"]
    job: str
    id: str
    transport: Transport
    cookies: Cookies
    valid: bool
    """Whether they count."""
    invalid: Items[Invalid]
    """Why they do not. What overload, a flood or a change of key does to them is no such reason."""
    started_unix_ms: Count
    """When they began."""
    cookies_before: Count
    """Of how many hosts the client held a cookie when they began."""
    begun: Count
    """How many began."""
    not_begun: Count
    """How many were due and did not begin: 20,000 were under way, or there were no addresses left."""
    arrived_over_us: Count
    """From when the first was due to when the last began."""
    elapsed_us: Count
    """From the start to the end of the last one."""
    answered: Count
    """How many got their whole answer."""
    answered_over_us: Count
    """From the first of these answers to the last one."""
    failures: dict[str, Count]
    """What others met, and how many; the ten that are most frequent."""
    syn_data: Count
    """How many had data in their SYN that was acknowledged (TCPI_OPT_SYN_DATA)."""
    fallbacks: Count
    """How many had data in their SYN that was not, and sent it again after the handshake."""
    retransmits: Count
    """Segments that the client's end sent again."""
    latency_us: list[Pair]
    """Of those that were answered, from when they were due to the last byte: a histogram (HDR, four digits),
    as values and how often each occurred."""
    late: Count
    """How many began over `late_us` after they were due."""
    lateness_us: list[Pair]
    """How long after they were due they began, in the same form."""
    generator_us: Count
    """For which the generator's thread ran; 0 where computing is free."""
    fastopen_queue: Count | None
    """The Fast Open queue of the server's listener, the least of several; null: it could not be read."""
    flood_syns: Count
    """How many SYNs the flood sent."""
    counters: Counters
    link: Link
    core: ServerCore | None
    """null: time is virtual, or this machine has one core alone."""
