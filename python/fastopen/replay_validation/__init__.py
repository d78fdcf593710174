"""Truth: the network that a recording implies, its page as it went over it, and how near a replay comes."""

from fastopen.replay_validation.calibration import Misfit, alone, corrected, misfit, nearer, without_thinking
from fastopen.replay_validation.causes import Cause, cause_of
from fastopen.replay_validation.implied import Replay, Rules, replay_of
from fastopen.replay_validation.prediction_errors import PredictionError, error_of
from fastopen.replay_validation.validated import ValidatedReplay, median_error_percent

__all__ = [
    "Cause",
    "Misfit",
    "PredictionError",
    "Replay",
    "Rules",
    "ValidatedReplay",
    "alone",
    "cause_of",
    "corrected",
    "error_of",
    "median_error_percent",
    "misfit",
    "nearer",
    "replay_of",
    "without_thinking",
]
