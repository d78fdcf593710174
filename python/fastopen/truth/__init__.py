"""Truth: the network that a recording implies, its page as it went over it, and how near a replay comes."""

from fastopen.truth.causes import Cause, cause_of
from fastopen.truth.implied import Replay, Rules, replay_of
from fastopen.truth.judged import Judged, median_error_percent

__all__ = ["Cause", "Judged", "Replay", "Rules", "cause_of", "median_error_percent", "replay_of"]
