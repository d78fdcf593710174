"""Read rate traces in Mahimahi's format: each line is a millisecond at which a 1500-byte packet may leave."""

from pathlib import Path
from typing import Final

from fastopen.common.errors import InputError
from fastopen.common.files import read_bytes
from fastopen.contract.network import TRACE_MAX_MS

PACKET_BYTES: Final = 1500
MAX_LINES: Final = 10_000_000
MAX_BYTES: Final = 11 * MAX_LINES


def read_trace(path: Path | str) -> list[int]:
    """Return the times in a trace file, in milliseconds. Raises InputError if the file is invalid."""
    path = Path(path)
    try:
        text = read_bytes(path, MAX_BYTES).decode("ascii")
    except UnicodeDecodeError:
        raise InputError("is not text", str(path), "write a number of milliseconds on each line") from None
    times: list[int] = []
    for number, line in enumerate(text.splitlines()[: MAX_LINES + 1], start=1):
        place = f"{path}: line {number}"
        if not line.strip().isdecimal() or len(line) > 20:
            raise InputError(f"{line.strip()[:40]!r} is not a whole number of milliseconds", place)
        times.append(int(line.strip()))
        if len(times) > 1 and times[-1] < times[-2]:
            raise InputError(f"{times[-1]} comes after {times[-2]}", place, "sort the lines by time")
    if not times or times[-1] == 0:
        fault = "the trace ends at 0 ms" if times else "the trace is empty"
        raise InputError(fault, str(path), "its last line must be greater than 0")
    if times[-1] > TRACE_MAX_MS:
        raise InputError("the trace is longer than a day", str(path), "keep its first part")
    if len(times) > MAX_LINES:
        raise InputError(f"the trace has more than {MAX_LINES} lines", str(path), "keep its first part")
    return times


def mean_rate_bit_per_s(rate_bit_per_s: int | None, trace_ms: list[int] | None) -> int | None:
    """Return the mean rate of a trace in bit/s, or `rate_bit_per_s` without a trace. None means no limit."""
    return rate_bit_per_s if trace_ms is None else len(trace_ms) * PACKET_BYTES * 8 * 1000 // trace_ms[-1]
