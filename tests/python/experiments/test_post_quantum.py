"""Certificate sizes at which a further round trip is needed: derived from RFCs, measured by both engines."""

import json
from collections.abc import Iterator
from itertools import accumulate

import pytest

from command_line import fastopen
from fastopen.analysis.statistics import SizeLevel, levels
from fastopen.experiments import load_experiment

SEGMENT_BYTES = 1448
DATAGRAM_BYTES = 1200
# Size of a ServerHello without the key of its key share: header, version, random, session id, cipher suite,
# compression, extensions with selected version and key share (RFC 8446 sections 4.1.3 and 4.2.8).
SERVER_HELLO_BYTES = 4 + 2 + 32 + 1 + 2 + 1 + 2 + 6 + 8
KEY_BYTES = {"x25519": 32, "x25519mlkem768": 32 + 1088}
# Certificate without the chain: header, context, length of the list, and the length and extensions of two
# certificates (section 4.4.2).
CERTIFICATE_BYTES = 4 + 1 + 3 + 2 * (3 + 2)
# CertificateVerify: header, scheme, length and a signature with P-256 (section 4.4.3). Finished: header and a
# hash of SHA-384.
VERIFY_AND_FINISHED_BYTES = 4 + 2 + 2 + 71 + 4 + 48
# EncryptedExtensions: header, length, an empty server name, and the application protocol without its name
# (section 4.3.1).
EXTENSIONS_BYTES = 4 + 2 + 4 + 7
RECORD_BYTES = 16_384


def over_tcp(chain_bytes: int, key_share: str) -> int:
    """Return the number of bytes in a server's first flight over TCP."""
    inner = EXTENSIONS_BYTES + len("http/1.1") + CERTIFICATE_BYTES + chain_bytes + VERIFY_AND_FINISHED_BYTES
    # Each record adds a header of 5 bytes, the type of its content and a tag of 16. change_cipher_spec has 6
    # bytes.
    records = -(-inner // RECORD_BYTES)
    # The server returns the client's session id of 32 bytes.
    hello = 5 + SERVER_HELLO_BYTES + 32 + KEY_BYTES[key_share]
    return hello + 6 + inner + records * (5 + 1 + 16)


def steps_over_tcp(key_share: str, window_segments: int, most: int) -> list[int]:
    """Return the sizes of the largest chains that fit into the first window, the first two windows, etc. The
    first window has `window_segments` segments (RFC 6928: 10), each later one twice as many (slow start)."""
    windows = accumulate(SEGMENT_BYTES * window_segments * 2**number for number in range(4))
    sizes = range(500, most)
    found = [max((one for one in sizes if over_tcp(one, key_share) <= end), default=0) for end in windows]
    return [one for one in found if one < most - 1]


# Size of quinn's transport parameters (RFC 9000 section 18).
TRANSPORT_PARAMETERS_BYTES = 4 + 123
LONG_HEADER_BYTES = 1 + 4 + 1 + 8 + 1 + 8 + 2 + 1
TAG_BYTES = 16


def variable(number: int) -> int:
    """Return the number of bytes that encode a variable-length integer (RFC 9000 section 16)."""
    return 1 if number < 64 else 2 if number < 16_384 else 4


def datagrams_over_quic(chain_bytes: int, key_share: str) -> int:
    """Return the number of datagrams in a server's first flight over QUIC."""
    hello = SERVER_HELLO_BYTES + KEY_BYTES[key_share]
    inner = EXTENSIONS_BYTES + len("h3") + TRANSPORT_PARAMETERS_BYTES
    inner += CERTIFICATE_BYTES + chain_bytes + VERIFY_AND_FINISHED_BYTES
    # An Initial packet has the length of its token, and the first one also has an ACK frame of five bytes.
    initial, handshake = LONG_HEADER_BYTES + 1 + TAG_BYTES, LONG_HEADER_BYTES + TAG_BYTES
    flights = [(initial + 5, initial, hello), (handshake, handshake, inner)]
    datagrams, room = 0, 0
    for first, later, bytes_left in flights:
        sent = 0
        while sent < bytes_left:
            header = (first if sent == 0 else later) + 1 + variable(sent)
            if room <= header + 2:
                datagrams, room = datagrams + 1, DATAGRAM_BYTES
            left = min(room - header - 1, bytes_left - sent)
            taken = left if left < 64 else min(room - header - 2, bytes_left - sent)
            room -= header + variable(taken) + taken
            sent += taken
    return datagrams


def steps_over_quic(key_share: str, window_segments: int, most: int) -> Iterator[int]:
    """Yield the size of the largest chain that fits into three times the received bytes (RFC 9000 section
    8.1), and of the largest chain that fits into one further window."""
    received = 1 if key_share == "x25519" else 2
    allowed = 3 * received
    sizes = range(500, most)
    yield max(one for one in sizes if datagrams_over_quic(one, key_share) <= allowed)
    allowed += window_segments * SEGMENT_BYTES // DATAGRAM_BYTES
    yield max(one for one in sizes if datagrams_over_quic(one, key_share) <= allowed)


def derived(http: str, key_share: str, window_segments: int) -> list[int]:
    """Return the chain sizes, up to 60,000 bytes (QUIC: 30,000), at which one more byte costs another
    round trip. Over QUIC, sizes that depend on pacing are left out."""
    if http == "1.1":
        return steps_over_tcp(key_share, window_segments, 60_000)
    # Pacing spreads a larger window over time, which moves its step.
    of_quic = list(steps_over_quic(key_share, 10, 30_000))
    return of_quic if window_segments == 10 else of_quic[:1]


def test_the_steps_of_the_packaged_experiment_are_those_of_the_rfcs() -> None:
    sizes = {setup.tls.chain_bytes for setup in load_experiment("post-quantum").setups if setup.tls}
    for http in ("1.1", "3"):
        for key_share in KEY_BYTES:
            for window in (10, 32):
                for step in derived(http, key_share, window):
                    assert {step, step + 1} <= sizes, (http, key_share, window, step)
    assert derived("1.1", "x25519", 10) == [14_151, 43_067]
    assert derived("1.1", "x25519mlkem768", 32) == [44_875]
    assert derived("3", "x25519", 10) == [3_023, 16_859]
    assert derived("3", "x25519mlkem768", 10) == [5_394, 19_226]


def test_levels_are_runs_of_sizes_with_the_same_round_trips() -> None:
    assert levels({3: 2.001, 1: 2.0, 4: 3.0, 9: 3.0}) == [SizeLevel(2.0, 1, 3), SizeLevel(3.0, 4, 9)]
    assert levels({}) == []


def measured(
    engine: str, http: str, key_share: str, window: int, arms: str, slack_bytes: int = 0
) -> dict[int, float]:
    """Map chain sizes to the measured round trips until the first byte, in the last arm of `arms`. For each
    step of `derived`, the sizes are `step - slack_bytes` and `step + 1 + slack_bytes`."""
    steps = derived(http, key_share, window)
    sizes = [size for step in steps for size in (step - slack_bytes, step + 1 + slack_bytes)]
    link = ("--rtt", "100ms", "--down", "none", "--up", "none", "--engine", engine, "--repeats", "1")
    ends = ("--http", http, "--key-share", key_share, "--initial-window", str(window), "--session", "none")
    chain = ("--chain-bytes", ",".join(map(str, sizes)), "--transports", arms)
    printed = fastopen("run", "one-request", *link, *ends, *chain, "--no-keep", "--quiet", "--json").stdout
    cells = json.loads(printed)["cells"]
    return {one["chain_bytes"]: one["first_byte_rtts"] for one in cells if one["arm"] == arms.split(",")[-1]}


@pytest.mark.e2e
@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("window", [10, 32])
@pytest.mark.parametrize("key_share", KEY_BYTES)
@pytest.mark.parametrize(("http", "arms"), [("1.1", "off"), ("1.1", "off,warm"), ("3", "off")])
def test_the_steps_are_where_they_were_derived_to_the_byte(
    http: str, arms: str, key_share: str, window: int
) -> None:
    least = 2 if http == "3" or (arms == "off,warm" and key_share == "x25519") else 3
    steps = derived(http, key_share, window)
    expected = {
        size: least + number + after
        for number, step in enumerate(steps)
        for after, size in enumerate((step, step + 1))
    }
    assert measured("virtual", http, key_share, window, arms) == expected


@pytest.mark.e2e
def test_the_host_engine_has_the_steps_of_tcp_at_the_same_bytes() -> None:
    found = measured("host", "1.1", "x25519", 10, "off")
    # Whole round trips only: a delayed ACK of the last segment of a window adds a fraction of a round trip.
    assert [int(rtts) for rtts in found.values()] == [3, 4, 4, 5]


@pytest.mark.e2e
def test_the_host_engine_has_the_first_step_of_quic_within_some_bytes() -> None:
    # quinn adds a transport parameter of random length (RFC 9000 section 18.1), which virtual time repeats.
    below, above, *_ = measured("host", "3", "x25519", 10, "off", slack_bytes=40).values()
    assert (int(below), int(above)) == (2, 3)
