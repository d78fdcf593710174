"""Compute the errors of replays compared with their recordings."""

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median
from typing import Any

from fastopen.workflows.replays.causes import Cause
from fastopen.workflows.replays.implied import Replay


@dataclass(frozen=True)
class ValidatedReplay:
    """A page that was recorded and replayed, with the times of both loads."""

    replay: Replay
    replayed_ms: float
    cause: Cause | None
    """The step on the critical path that differs most; None if no step differs enough."""
    lookups_ms: tuple[tuple[float, float], ...] = ()
    """Milliseconds of each lookup: recorded (0 if it was not recorded), and replayed through the link."""

    @property
    def page(self) -> str:
        return self.replay.page.name

    @property
    def recorded_ms(self) -> float:
        return self.replay.recorded_ms

    @property
    def error_percent(self) -> float:
        """Return the error of the load time in percent, positive if the replay took longer."""
        return 100 * (self.replayed_ms - self.recorded_ms) / self.recorded_ms

    def as_json(self) -> dict[str, Any]:
        replay = self.replay
        return {
            "page": self.page,
            "recorded_ms": round(self.recorded_ms, 3),
            "replayed_ms": round(self.replayed_ms, 3),
            "error_percent": round(self.error_percent, 3),
            "requests": len(replay.page.resources),
            "hosts": len(replay.page.hosts()),
            "rtt_ms": replay.network.rtt_us / 1000,
            "extra_rtt_ms_max": max(replay.network.host_extra_rtt_us.values(), default=0) / 1000,
            "down_bit_per_s": replay.network.down.rate_bit_per_s,
            "initial_window_segments": replay.tcp.initial_window_segments,
            "lookups": [{"recorded_ms": a, "replayed_ms": b} for a, b in self.lookups_ms],
            "cause": None if self.cause is None else self.cause.sentence(),
        }


def median_error_percent(judged: Iterable[ValidatedReplay]) -> float | None:
    """Return the median of the absolute errors in percent; None without any replay."""
    errors = [abs(one.error_percent) for one in judged]
    return round(median(errors), 3) if errors else None
