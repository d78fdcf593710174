"""Replay recordings over the networks that they imply, and measure how well the replays agree with them."""

from fastopen.workflows.replays.calibration import Calibration, Loads, calibrate, told_from_queues
from fastopen.workflows.replays.causes import Cause, cause_of
from fastopen.workflows.replays.implied import CACHED_MS, Replay, Rules, recorders_network, replay_of
from fastopen.workflows.replays.prediction_errors import PredictionError, error_of
from fastopen.workflows.replays.validated import ValidatedReplay, median_error_percent
