"""Explanations of each kind of invalid load: meaning, usual causes, remedies."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from fastopen.contract import InvalidKind as Kind


class Explanation(NamedTuple):
    """An entry of docs/invalid-loads.md and of `fastopen explain`."""

    meaning: str
    cause: str
    remedy: str


REPORT: Final = "This should not happen: report it with the run (CONTRIBUTING.md)."
BUSY: Final = "On the host engine, end other programs and lower --jobs. Virtual time is not affected."

EXPLANATIONS: Final[Mapping[Kind, Explanation]] = {
    Kind.INCOMPLETE: Explanation(
        "A request failed, timed out or was cut off, or the client failed or requested nothing.",
        "A client that crashed, a server that refused a connection, a link so slow or lossy that the load"
        " took too long, or a page with a request that the client cannot make.",
        "Read the detail: it names the request or the client's last words. Raise rates, lower loss, or"
        " use another client.",
    ),
    Kind.SYN_DATA_WITHOUT_TFO: Explanation(
        "A kernel counter or a socket shows TCP Fast Open in a load without it.",
        "The client or an external server turned TFO on by itself.",
        "Turn TFO off in that program's own configuration.",
    ),
    Kind.NO_SYN_DATA: Explanation(
        "A connection that should have carried data in its SYN did not, although nothing was lost.",
        "With warm cookies, the client had no cookie of that host or did not write before it connected."
        " With cold cookies, a later connection to a host did not use the cookie that an earlier one had"
        " brought.",
        "Check that the client writes its request early: TLS libraries and proxies may connect first. For"
        " a command, `fastopen exec` shows the same outside of a load.",
    ),
    Kind.COOKIE_BEFORE_COLD: Explanation(
        "The client already held a cookie before the first connection to a host.",
        "The client connected before the load began, for example to preconnect.",
        "Turn preconnections of the client off, or load with warm cookies.",
    ),
    Kind.NO_COOKIE_WHEN_WARM: Explanation(
        "The client held no cookie of a host when a load with warm cookies began.",
        "The visit that fetches cookies did not reach that host, or the server has no Fast Open queue.",
        "For an external server, set a queue on its listener (`fastopen=N` in nginx) or add --server-listen.",
    ),
    Kind.LISTEN_OVERFLOW: Explanation(
        "The Fast Open queue of an origin's listener was full, so the kernel ignored data in SYNs.",
        "More connections began at once than --tfo-queue allows.",
        "Raise --tfo-queue, or keep it to measure the overflow with `fastopen serve-bench`.",
    ),
    Kind.FASTOPEN_FAILED: Explanation(
        "Data in a SYN was refused, or lost on a link that lost nothing.",
        "A cookie that the server no longer accepts, or a server that restarted with another key.",
        "Keep the server running from the warm-up visit to the end of the load.",
    ),
    Kind.BLACKHOLE: Explanation(
        "The kernel suspected a path that swallows TFO and turned it off for a while.",
        "SYNs or first answers were lost: high loss, or a path rule together with --blackhole-timeout.",
        "Set --blackhole-timeout 0s, unless the detection itself is what you measure.",
    ),
    Kind.COUNTERS_DISAGREE: Explanation(
        "Kernel counters and sockets of the two ends report different numbers of connections with data in"
        " the SYN.",
        "Another program in the client's namespace opened connections, or a socket closed before it could"
        " be read.",
        "Remove other traffic from the client command. If there is none, report it with the run.",
    ),
    Kind.SESSION_BEFORE_FIRST: Explanation(
        "The first connection to a host resumed a TLS session although the load starts without one.",
        "The client kept tickets of an earlier load.",
        "Give the client a profile or cache of its own for each load.",
    ),
    Kind.NOT_RESUMED: Explanation(
        "Fewer connections to a host resumed a TLS session than the client had tickets, or the ends"
        " disagree.",
        "The client does not keep tickets, the server rejected them, or more connections began at once"
        " than there were tickets.",
        "Raise --tickets, or load with --session none for this client.",
    ),
    Kind.EARLY_DATA_UNASKED: Explanation(
        "A connection carried early data (0-RTT) in a load without it.",
        "The client sends early data by itself.",
        "Turn 0-RTT off in the client, or load with --session early.",
    ),
    Kind.NO_EARLY_DATA: Explanation(
        "Fewer connections to a host began with early data than the client had tickets, although nothing"
        " was lost and the requests were safe and small enough.",
        "The client held its request back until the handshake was complete.",
        "Check the client's conditions for 0-RTT, or load with --session resumed.",
    ),
    Kind.ANSWER_HELD: Explanation(
        "An origin held its answer to early data back until the handshake was complete, so early data"
        " saved nothing.",
        "An external server that waits for the client's Finished before it answers.",
        "Configure the server to answer early data (`ssl_early_data on` in nginx).",
    ),
    Kind.SOONER_THAN_POSSIBLE: Explanation(
        "The first answer on a connection came before the round trips of its first flight were over.",
        "A clock or an emulated delay that is wrong.",
        REPORT,
    ),
    Kind.FIRST_BYTE_LATE: Explanation(
        "The first answer on a connection of the loader came a round trip later than its first flight"
        " takes, although nothing was lost and nothing else was on the link.",
        "The first flight did not save the round trip that it should have.",
        REPORT,
    ),
    Kind.WRONG_BYTES: Explanation(
        "A response has another size or status than the page has.",
        "An external server that answers from its own files or rewrites answers.",
        "Let the server ask the origins on port 8080, as examples/servers/nginx.conf does.",
    ),
    Kind.LINK_LATE: Explanation(
        "The link released a packet too late, or lost one before the model of the link saw it.",
        "A busy machine: the program that emulates the link was not scheduled in time.",
        BUSY,
    ),
    Kind.PATH_WITHOUT_EFFECT: Explanation(
        "A connection that a path or a sysctl keeps from using TFO does not show it.",
        "The rule did not apply to that connection, for example because the client used another port or"
        " protocol.",
        "Check --path-hosts and the client's protocol. Otherwise report it with the run.",
    ),
    Kind.SERVER_FAILED: Explanation(
        "The external server ended or stopped listening during the load.",
        "A crash, a wrong configuration, or a server that moves to the background.",
        "Run the server in the foreground (`daemon off` in nginx) and read its last words in the detail.",
    ),
    Kind.NO_LISTENER_QUEUE: Explanation(
        "A listener of the external server took connections and has no Fast Open queue.",
        "TFO is not configured at the server, or it listens before the option is set.",
        "Set `fastopen=N` in nginx, `tfo` in HAProxy, or add --server-listen.",
    ),
    Kind.NO_QUIC: Explanation(
        "A connection that carried requests to a host with HTTP/3 is not QUIC, or goes elsewhere.",
        "The client fell back to TCP.",
        "Raise --h3-fallback, or allow UDP on the path.",
    ),
    Kind.PACKETS_DISAGREE: Explanation(
        "One end of a QUIC connection received more packets of a type than the other end sent.",
        "Packets of another connection were counted.",
        REPORT,
    ),
    Kind.DATAGRAMS_DROPPED: Explanation(
        "The kernel dropped UDP datagrams because a socket's buffer was full (UdpRcvbufErrors).",
        "A busy machine, or a rate far above what the program can read.",
        BUSY,
    ),
    Kind.LOOKUPS_DISAGREE: Explanation(
        "Client, resolver and both kernels report different lookups of names, a connection began before its"
        " host was looked up, or the loader asked over another protocol, or not exactly one connection.",
        "The client has a resolver or a cache of its own, or asked another server or in another way.",
        "Let the client use the system's resolver, or load with --names none.",
    ),
    Kind.GENERATOR_LATE: Explanation(
        "Transactions of `serve-bench` did not begin when they were due.",
        "The generator was the limit and not the server.",
        "Lower --rates, or give the machine more cores.",
    ),
    Kind.FAULT: Explanation(
        "The world that ran the load died before it finished.",
        "It was killed, ran out of memory, or met a bug.",
        "Read the detail. If nothing killed it, report it with the run.",
    ),
}
