"""Test a minute of retries in a second of real time, with the same virtual times on every machine."""

import sys

import pytest


def test_the_sixth_attempt_succeeds_after_31_seconds_of_waiting(in_world):
    server = f"{sys.executable} flaky_server.py 80 5"
    outcome = in_world([sys.executable, "fetch.py", "http://web/"], "--rtt", "50ms", serve={"web": server})
    assert (outcome.exit_code, outcome.stdout) == (0, "here it is\n")
    # Five pauses of 1 + 2 + 4 + 8 + 16 s, and two round trips for each of six attempts.
    assert outcome.seconds == pytest.approx(31 + 6 * 0.1, abs=0.02)
    assert outcome.report["total"]["established"] == 6


def test_a_server_that_never_answers_well_is_given_up_after_63_seconds(in_world):
    server = f"{sys.executable} flaky_server.py 80 100"
    outcome = in_world([sys.executable, "fetch.py", "http://web/"], "--rtt", "50ms", serve={"web": server})
    assert outcome.exit_code == 1
    assert outcome.seconds == pytest.approx(63 + 7 * 0.1, abs=0.02)


def test_a_port_where_nothing_listens_is_refused_at_once(in_world):
    outcome = in_world([sys.executable, "fetch.py", "http://www.example.com:81/"], "--rtt", "50ms")
    assert outcome.exit_code == 1
    # Six pauses, and one round trip for each of seven attempts: a reset answers the SYN.
    assert outcome.seconds == pytest.approx(63 + 7 * 0.05, abs=0.02)
