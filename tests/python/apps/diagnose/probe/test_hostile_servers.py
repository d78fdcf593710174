"""A probe limits how much it reads from a malicious server."""

import pytest

from fastopen.apps.diagnose.probe import trials
from fastopen.apps.diagnose.probe.trials import CONNECTIONS_MAX, Target, probe
from hostile_server import Hostile
from local_server import served


@pytest.mark.parametrize("path", ["/headers", "/body", "/drip", "/attachment"])
def test_a_probe_takes_little_of_a_server_that_never_ends(path: str) -> None:
    greeting = f"GET {path} HTTP/1.1\r\nHost: a.test\r\n\r\n".encode()
    with served(Hostile) as port, pytest.MonkeyPatch.context() as patch:
        patch.setattr(trials, "greeting", lambda _: greeting)
        found = probe(Target("127.0.0.1", port, "http"), timeout_s=5, pause=lambda _: None)
    assert found.reachable
    assert len(found.trials) <= CONNECTIONS_MAX
