"""Replay recorded page loads over networks estimated from the recordings, and compare the load times."""

from fastopen.workflows.replays.calibration import Calibration, calibrate, search_think_times
from fastopen.workflows.replays.errors import Cause, ValidatedReplay, cause_of, error_of, median_error_percent
from fastopen.workflows.replays.implied import CACHED_MS, Replay, Rules, recorders_network, replay_of
