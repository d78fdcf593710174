"""The results of `fastopen probe` for servers and paths, with hosts in separate network namespaces."""

import json
import shutil
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from fastopen.apps.diagnose.probe.trials import (
    CONNECTIONS_MAX,
    ClientFail,
    Handling,
    Opening,
    Probed,
    Target,
    Trial,
    all_lost,
    greeting,
    target_of,
)
from fastopen.apps.diagnose.probe.words import conclude
from fastopen.common.errors import InputError

FASTOPEN = [sys.executable, "-c", "from fastopen.cli import main; main()"]
WORLD = Path(__file__).parent / "probe_world.py"
SANDBOX = ["unshare", "--user", "--map-root-user", "--net", "--kill-child", "--fork"]

WORKS = Probed(
    target=Target("a.test", 443, "https"),
    address="192.0.2.1",
    reachable=True,
    error=None,
    cookie=True,
    data_with_cookie=Handling.ACCEPTED,
    data_without_cookie=Handling.NOT_ACCEPTED,
    rtt_ms=20.0,
    answer_ms=41.0,
    answer_with_syn_data_ms=21.0,
)


class TestServersAsAskedFor:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("example.com", Target("example.com", 443, "https")),
            ("Example.com:80", Target("example.com", 80, "http")),
            ("http://a.test", Target("a.test", 80, "http")),
            ("https://a.test:9443/", Target("a.test", 9443, "https")),
            ("[2001:db8::1]:8080", Target("2001:db8::1", 8080, "http")),
            ("[::1]", Target("::1", 443, "https")),
        ],
    )
    def test_a_server_is_written_in_many_ways(self, text: str, expected: Target) -> None:
        assert target_of(text) == expected

    @pytest.mark.parametrize(
        "text", ["", "a b", "a.test:0", "a.test:70000", "http://a.test/x", "2001:db8::1"]
    )
    def test_what_is_no_server_is_refused_with_a_remedy(self, text: str) -> None:
        with pytest.raises(InputError, match="write HOST"):
            target_of(text)

    def test_the_greeting_is_a_head_request_or_the_beginning_of_tls(self) -> None:
        assert greeting(target_of("a.test:80")).startswith(b"HEAD / HTTP/1.1\r\nHost: a.test\r\n")
        assert b"Host: [::1]:8080\r\n" in greeting(target_of("[::1]:8080"))
        hello = greeting(target_of("a.test"))
        assert hello[:2] == b"\x16\x03"  # a TLS handshake record
        assert b"a.test" in hello


class TestWords:
    def test_what_works_is_told_with_what_it_saved(self) -> None:
        assert conclude(WORKS).verdict == "Fast Open works"
        assert any("+20.0 ms saved" in sentence for sentence in conclude(WORKS).meaning)

    def test_no_cookie_leaves_two_explanations(self) -> None:
        found = replace(WORKS, cookie=False, data_with_cookie=Handling.NOT_TRIED)
        assert conclude(found).verdict == "no Fast Open: the server sent no cookie"
        assert "server" in conclude(found).meaning[0]
        assert "path" in conclude(found).meaning[0]

    @pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
    def test_no_path_is_suspected_between_a_machine_and_itself(self, address: str) -> None:
        found = replace(WORKS, cookie=False, data_with_cookie=Handling.NOT_TRIED, address=address)
        assert "the listener did not request a queue" in conclude(found, 3).meaning[0]
        assert [row.name for row in conclude(found, 3).causes] == ["no-queue"]
        # Servers are off here, which the listener's queue does not change.
        assert "sysctl -w net.ipv4.tcp_fastopen=3" in conclude(found, 1).meaning[0]
        assert conclude(found, 1).causes == ()

    def test_a_server_that_cannot_be_reached_is_no_verdict(self) -> None:
        found = replace(WORKS, reachable=False, error="Connection refused")
        assert conclude(found).verdict.startswith("cannot be determined")

    def test_a_kernel_that_has_turned_fast_open_off_is_named_and_not_the_server(self) -> None:
        found = replace(WORKS, disabled_here=True, cookie=False)
        assert "this machine's kernel" in conclude(found).verdict
        assert len(conclude(found).meaning) == 1


class TestRows:
    @pytest.mark.parametrize(
        ("handling", "rows"),
        [
            (Handling.ACCEPTED, {"none"}),
            (Handling.NOT_ACCEPTED, {"break-cookie", "strip-data", "strip-both", "short-queue"}),
            (Handling.DROPPED, {"drop-syn-data"}),
            (Handling.REFUSED, {"rst-syn-data"}),
            (Handling.UNANSWERED, {"drop-synack", "drop-answers"}),
        ],
    )
    def test_what_became_of_data_leaves_these_rows_of_the_table(
        self, handling: Handling, rows: set[str]
    ) -> None:
        found = replace(WORKS, data_with_cookie=handling)
        assert {row.name for row in conclude(found).causes} == rows
        assert "not known" not in conclude(found).verdict

    @pytest.mark.parametrize(
        ("address", "rows"),
        [
            ("192.0.2.1", {"no-queue", "break-cookie", "strip-data", "strip-both", "short-queue"}),
            ("127.0.0.1", {"no-queue", "break-cookie", "short-queue"}),
        ],
    )
    def test_a_cookie_that_was_there_before_may_be_of_another_port(
        self, address: str, rows: set[str]
    ) -> None:
        found = replace(WORKS, cookie_before=True, data_with_cookie=Handling.NOT_ACCEPTED, address=address)
        assert {row.name for row in conclude(found).causes} == rows
        assert "hands out" not in conclude(found).verdict

    def test_an_answer_that_the_server_sent_again_was_lost_as_a_syn_that_the_client_sent_again(self) -> None:
        fail = ClientFail.COOKIE_UNAVAILABLE
        sent_again = Trial(Opening.FASTOPEN, None, False, False, fail, 1, 20.0, 1060.0)
        server_first = replace(sent_again, retransmits=0, rtt_ms=880.0)
        plain = replace(sent_again, opening=Opening.PLAIN, retransmits=0, answered_ms=40.0)
        assert all_lost([sent_again, server_first], plain)
        assert not all_lost([sent_again, replace(plain, opening=Opening.FASTOPEN)], plain)
        assert not all_lost([server_first, server_first], replace(plain, rtt_ms=880.0))

    def test_a_lost_request_for_a_cookie_and_none_at_all_leave_others(self) -> None:
        rows = [row.name for row in conclude(replace(WORKS, asking_dropped=True)).causes]
        assert rows == ["drop-option", "drop-synack-option"]
        without = {row.name for row in conclude(replace(WORKS, cookie=False)).causes}
        assert {"no-queue", "strip-option"} <= without
        assert conclude(replace(WORKS, reachable=False)).causes == ()

    @pytest.mark.parametrize(
        ("error", "timed_out", "fail", "handling"),
        [
            ("Connection refused", False, ClientFail.NONE, Handling.REFUSED),
            ("nothing for 5 s", True, ClientFail.NONE, Handling.UNANSWERED),
            ("nothing for 5 s", True, ClientFail.SYN_RETRANSMITTED, Handling.DROPPED),
            ("Connection refused", False, ClientFail.COOKIE_UNAVAILABLE, Handling.UNKNOWN),
        ],
    )
    def test_a_connection_that_came_to_nothing_tells_a_reset_from_silence(
        self, error: str, timed_out: bool, fail: ClientFail, handling: Handling
    ) -> None:
        trial = Trial(Opening.FASTOPEN, error, timed_out, False, fail, 0, None, None)
        assert trial.handling is handling


@pytest.fixture(name="sandbox", scope="module")
def _sandbox() -> list[str]:
    if shutil.which("ip") is None or shutil.which("unshare") is None:
        pytest.skip("needs ip and unshare (packages iproute2 and util-linux)")
    if subprocess.run([*SANDBOX, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this machine forbids user namespaces")
    return SANDBOX


def probed(sandbox: list[str], rule: str, setting: int = 2) -> dict[str, Any]:
    """Probe a server with this net.ipv4.tcp_fastopen behind a middlebox with this rule."""
    probing = [*FASTOPEN, "probe", "--json", "--quiet", "10.9.0.2:80"]
    command = [*sandbox, sys.executable, str(WORLD), rule, str(setting), *probing]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    (found,) = json.loads(done.stdout)["hosts"]
    assert len(found["trials"]) <= CONNECTIONS_MAX
    return dict(found)


@pytest.mark.e2e
class TestServersAndPaths:
    def test_a_server_with_fast_open_answers_data_in_the_syn(self, sandbox: list[str]) -> None:
        found = probed(sandbox, "none")
        assert found["verdict"] == "Fast Open works"
        assert (found["cookie"], found["data_with_cookie"]) == (True, "accepted")
        assert found["data_without_cookie"] == "not accepted"
        assert found["answer_with_syn_data_ms"] > 0

    def test_a_server_without_fast_open_hands_out_no_cookie(self, sandbox: list[str]) -> None:
        found = probed(sandbox, "none", setting=0)
        assert (found["cookie"], found["data_with_cookie"]) == (False, "not tried")
        assert found["verdict"].startswith("no Fast Open")
        assert not found["disabled_here"]

    def test_a_server_that_takes_data_without_a_cookie_is_warned_of(self, sandbox: list[str]) -> None:
        found = probed(sandbox, "none", setting=0x202)
        assert found["data_without_cookie"] == "accepted"
        assert any("forged" in sentence for sentence in found["meaning"])

    def test_a_path_that_drops_syns_with_data_is_found(self, sandbox: list[str]) -> None:
        found = probed(sandbox, "drop-syn-data")
        assert (found["cookie"], found["data_with_cookie"]) == (True, "dropped")
        assert found["data_without_cookie"] == "dropped"
        assert found["verdict"] == "sends cookies, but SYNs with data are dropped"

    def test_a_path_that_drops_syns_with_the_option_is_found(self, sandbox: list[str]) -> None:
        found = probed(sandbox, "drop-option")
        assert (found["cookie"], found["asking_dropped"]) == (False, True)
        assert found["verdict"] == "the path drops SYNs that request a cookie"

    def test_a_path_that_strips_the_option_looks_like_a_server_without(self, sandbox: list[str]) -> None:
        found = probed(sandbox, "strip-option")
        assert (found["cookie"], found["asking_dropped"]) == (False, False)
        assert "path" in found["meaning"][0]

    def test_a_path_that_strips_the_data_is_told_from_one_that_drops_it(self, sandbox: list[str]) -> None:
        found = probed(sandbox, "strip-data")
        assert (found["cookie"], found["data_with_cookie"]) == (True, "not accepted")
        assert "removes data or cookie from" in found["meaning"][0]


@pytest.mark.e2e
def test_a_port_where_nobody_listens_is_named_and_the_exit_code_says_so() -> None:
    from fastopen.cli.app import app

    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))  # without listening
        done = CliRunner().invoke(app, ["probe", f"127.0.0.1:{bound.getsockname()[1]}"])
    assert done.exit_code == 1
    assert "cannot be determined: Connection refused" in done.output
