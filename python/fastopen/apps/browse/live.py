"""Read the progress of a run that may be running now."""

from dataclasses import dataclass
from typing import Final

from fastopen.runs import Listing, LoadRow, RunReader

LATEST: Final = 5
# The number of last loads from which the pace is computed.
PACE_OF: Final = 200


@dataclass(frozen=True)
class Progress:
    """The progress of a run, as its file shows it."""

    status: str
    done: int
    asked: int
    attempts: int
    faults: int
    latest: tuple[LoadRow, ...]
    """The last loads that were written, the last one first."""
    seconds_left: float | None
    """Estimated from the last loads; None if the pace is unknown, the run is inactive, or no load is left."""

    @property
    def running(self) -> bool:
        """Return True if a process is writing the run."""
        return self.status == "running"

    @property
    def left(self) -> str:
        """Return the time left, such as `3 min left`; empty if it is unknown."""
        if self.seconds_left is None:
            return ""
        seconds = round(self.seconds_left)
        return f"{seconds} s left" if seconds < 120 else f"{seconds // 60} min left"


def read_progress(run: RunReader) -> Progress:
    """Read the progress. The figures are read one after another, so they may differ by a load."""
    status, done, asked = run.status, run.loads_done(), run.loads_asked()
    attempts = run.attempts_done()
    recent = run.listed(Listing(), max(0, attempts - PACE_OF))
    return Progress(
        status=status,
        done=done,
        asked=max(asked, done),
        attempts=attempts,
        faults=len(run.faults()),
        latest=tuple(reversed(recent[-LATEST:])),
        seconds_left=_seconds_left(recent, asked - done) if status == "running" else None,
    )


def _seconds_left(recent: list[LoadRow], missing: int) -> float | None:
    if missing <= 0:  # the number of invalid loads that will be repeated is unknown
        return None
    started = [row.started_unix_ms for row in recent if row.started_unix_ms]
    # In virtual time all worlds begin at the same moment, so the pace is unknown.
    took_ms = max(started, default=0) - min(started, default=0)
    return missing * took_ms / 1000 / (len(started) - 1) if len(started) > 1 and took_ms > 0 else None
