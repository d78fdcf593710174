"""Define the reasons why loads are invalid. `report/assets/explained_kinds.toml` explains them to users."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from fastopen.contract.part import RecordPart


class InvalidKind(StrEnum):
    """A kind of problem that makes a load invalid."""

    INCOMPLETE = "incomplete"
    """A request failed or timed out, a response was cut off, or the client failed or requested nothing."""
    SYN_DATA_WITHOUT_TFO = "syn_data_without_tfo"
    """A counter or a socket shows Fast Open although the transport does not use it."""
    NO_SYN_DATA = "no_syn_data"
    """A connection that carried requests and lost no packet had no data in its SYN. With cold cookies, only
    connections that were opened after a loss-free handshake with the same host are checked."""
    COOKIE_BEFORE_COLD = "cookie_before_cold"
    """The client held a cookie before the first connection to a host, although cookies should be cold."""
    NO_COOKIE_WHEN_WARM = "no_cookie_when_warm"
    """The client held no cookie for a host when the load began, although cookies should be warm."""
    LISTEN_OVERFLOW = "listen_overflow"
    """The origins' Fast Open queue was full."""
    FASTOPEN_FAILED = "fastopen_failed"
    """Data in a SYN was refused, or was lost although the link lost no packet."""
    BLACKHOLE = "blackhole"
    """The kernel suspected a black hole and turned Fast Open off, although the path has no black hole."""
    COUNTERS_DISAGREE = "counters_disagree"
    """Counters and sockets of the two ends show different numbers of connections with data in the SYN."""
    SESSION_BEFORE_FIRST = "session_before_first"
    """The first connection to a host resumed a session, although there was no earlier visit."""
    NOT_RESUMED = "not_resumed"
    """Fewer connections to a host resumed a session than the client had tickets, or only one end reports that
    a connection resumed a session."""
    EARLY_DATA_UNASKED = "early_data_unasked"
    """A connection carried early data although the load does not use early data, or an origin accepted early
    data although it should reject early data."""
    NO_EARLY_DATA = "no_early_data"
    """The origin read early data before the handshake was complete on fewer connections to a host than the
    client had tickets. Early data is not expected on connections that lost a packet, or whose first request
    was not safe, did not fit into a SYN with data, or was not ready before the handshake was complete."""
    ANSWER_HELD = "answer_held"
    """An origin held its response to early data until the handshake was complete, so no time was saved."""
    SOONER_THAN_POSSIBLE = "sooner_than_possible"
    """A connection's first response came before the round trips of its handshakes and request were over."""
    FIRST_BYTE_LATE = "first_byte_late"
    """The loader's first response on a connection came about a round trip later than handshakes and request
    take, although no loss or other traffic delayed it. TFO or early data may have failed."""
    WRONG_BYTES = "wrong_bytes"
    """A response differs from the page in size or status."""
    LINK_LATE = "link_late"
    """The link released a packet too late, or a packet was lost before it reached the link model."""
    PATH_WITHOUT_EFFECT = "path_without_effect"
    """A middlebox or the `tcp_fastopen` of an end did not block packets or Fast Open as expected."""
    SERVER_FAILED = "server_failed"
    """An external server ended or stopped listening."""
    NO_LISTENER_QUEUE = "no_listener_queue"
    """In a load with TFO, a listener of an external server accepted connections without a Fast Open queue."""
    NO_QUIC = "no_quic"
    """A connection with requests used TCP although QUIC was expected, or QUIC although TCP was expected."""
    PACKETS_DISAGREE = "packets_disagree"
    """An end of a QUIC connection received more packets of a type than the other end sent, or none of the
    connection's packets reached the origin's socket."""
    DATAGRAMS_DROPPED = "datagrams_dropped"
    """The kernel dropped datagrams for which a socket had no room (UdpRcvbufErrors)."""
    LOOKUPS_DISAGREE = "lookups_disagree"
    """Client, resolver and both kernels disagree on the name lookups, a connection began before its host was
    looked up, or the loader did not send its queries over exactly one connection as `names` requires."""
    GENERATOR_LATE = "generator_late"
    """Transactions did not begin when they were due: the load generator was the limit, not the server."""
    FAULT = "fault"
    """The world program failed. The Python code reports this kind, not the world program itself."""


class Invalid(RecordPart):
    """A reason why a load is invalid. A newer fastopen-world may report kinds that are not listed."""

    kind: Annotated[InvalidKind | str, Field(union_mode="left_to_right")]
    """The kind, see [kinds of invalid loads](#kinds-of-invalid-loads)."""
    detail: str
    """A description of the problem, for people."""
