"""packetdrill's scripts: running them, counting their handshakes with SYN data, and classifying results."""

import json
import shutil
import sys
from pathlib import Path

import pytest

from command_line import fastopen
from fastopen.apps.conform.run import Conformance, ScriptOutcome, ScriptResult
from fastopen.apps.conform.scripts import KNOWN, Script, known_reason, stage
from fastopen.common.errors import InputError
from places import SHARED

PACKETDRILL = SHARED / "packetdrill"
CLIENT = """\
// > S 0:9(9) in a comment is no segment
   +0 > S 0:1000(1000) <mss 1460,FO abcd1234,nop,nop>
 +.05 < S. 1234:1234(0) ack 1001 win 14600 <mss 940>
   +0 > . 1001:1001(0) ack 1
   +0 > S 0:900(900) <mss 1460,FO 12345678,nop,nop>
 +.05 < S. 5678:5678(0) ack 1 win 14600 <mss 1460>
   +0 > S 0:0(0) <mss 1460>
 +.05 < S. 9:9(0) ack 1 win 14600 <mss 1460>
"""
SERVER = """\
--local_ip=192.168.0.2
 +.05 < S 6814000:6815000(1000) win 10000 <mss 1012,FOEXP 00abaaabe8e954c2>
   +0 > S. 0:0(0) ack 6815001 <mss 1460>
 +.1~+.2 > S. 0:0(0) ack 6815001 <mss 1460>
"""


CROSSING = """\
   +0 > S 0:1000(1000) <mss 1460,FO abcd1234,nop,nop>
+.005 < S 1234:1734(500) win 14600 <mss 1040,FO 87654321,nop,nop>
   +0 > S. 0:0(0) ack 1235 <mss 1460>
+.045 < S. 1234:1234(0) ack 1001 win 14600 <mss 940>
"""
SENT_AGAIN = """\
   +0 > S 0:1000(1000) <mss 1460,FO abcd1234,nop,nop>
+.99~+1.1 > S 0:0(0) <mss 1460>
 +.01 < SF. 1000000:1001400(1400) ack 1001 win 5840 <mss 1040>
"""


def script(text: str, name: str = "packetdrill/client/one") -> Script:
    return Script(name, Path("x") / "one.pkt", text)


def folder_of_packetdrill(place: Path) -> Path:
    """Make a folder like packetdrill's repository, with one script and without set_sysctls.py."""
    suite, common = place / "gtests/net/tcp/fastopen/client", place / "gtests/net/common"
    for folder in (suite, common, place / "gtests/net/packetdrill"):
        folder.mkdir(parents=True)
    (common / "defaults.sh").write_text("#!/bin/sh\n")
    (suite / "one.pkt").write_text(CLIENT)
    return place


def test_a_script_says_by_its_segments_how_many_handshakes_acknowledge_syn_data() -> None:
    assert script(CLIENT).syn_data_acked() == 1
    assert script(SERVER).syn_data_acked() == 1
    assert script(CROSSING).syn_data_acked() == 0
    assert script(SENT_AGAIN).syn_data_acked() == 1


def test_a_script_s_own_addresses_win_over_the_definitions() -> None:
    given = script(SERVER).arguments()
    assert "--local_ip=192.168.0.1" not in given
    assert "--remote_ip=192.0.2.1" in given
    assert "TFO_COOKIE=3021b9d889017eeb" in given


def test_what_scripts_call_lies_where_they_call_it(tmp_path: Path) -> None:
    folder, kernel = folder_of_packetdrill(tmp_path / "given"), tmp_path / "kernel" / "linux"
    (kernel.parent / "packetdrill").mkdir(parents=True)
    (kernel.parent / "packetdrill" / "tcp_fastopen_server_a.pkt").write_text(SERVER)
    (kernel.parent / "packetdrill" / "tcp_close_b.pkt").write_text(SERVER)
    found = stage(folder, kernel, tmp_path / "stage")
    assert [one.name for one in found] == ["packetdrill/client/one", "linux/tcp_fastopen_server_a"]
    for one, common in ((found[0], "../../common/"), (found[1], "./")):
        called = (tmp_path / "stage" / one.path).parent / common / "set_sysctls.py"
        assert called.stat().st_mode & 0o111


def test_a_folder_without_packetdrill_is_refused_with_what_is_missing(tmp_path: Path) -> None:
    done = fastopen("kernel", "conform", "--engine", "host", "--packetdrill", tmp_path)
    assert done.returncode == 2
    assert "gtests/net/packetdrill/packetdrill.c is missing" in done.stderr.replace("\n", " ")
    (tmp_path / "gtests/net/packetdrill").mkdir(parents=True)
    with pytest.raises(InputError, match="tcp/fastopen is missing"):
        stage(tmp_path, None, tmp_path / "stage")


def test_without_a_folder_the_command_says_where_to_get_one() -> None:
    done = fastopen("kernel", "conform")
    assert done.returncode == 2
    assert "git clone" in done.stderr


def test_a_reason_is_known_for_one_script_one_complaint_and_the_versions_that_it_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known = {"old": ("expected: 8", "6.9", "until 6.8"), "older": ("", "5.3", "until 5.2")}
    monkeypatch.setattr("fastopen.apps.conform.scripts.KNOWN", known)
    assert known_reason("linux/old", "bad value: expected: 8", "6.8.12") is None
    assert known_reason("linux/old", "bad value: expected: 8", "6.9") == "until 6.8"
    assert known_reason("linux/old", "timing error", "6.9") is None
    assert known_reason("client/older", "anything", "5.2.9") is None
    assert known_reason("client/older", "anything", "5.10") == "until 5.2"


def test_each_known_reason_has_words_and_a_version_of_linux() -> None:
    assert all(script and all(known) for script, known in KNOWN.items())


def test_evidence_agrees_where_what_it_could_not_read_explains_the_rest() -> None:
    def result(said: int, read: int, unread: int) -> ScriptResult:
        return ScriptResult("g/s", ScriptOutcome.PASSED, "", 1, said, read, unread)

    assert [result(2, 2, 0).agrees, result(2, 1, 1).agrees] == [True, True]
    assert [result(2, 1, 0).agrees, result(1, 2, 0).agrees] == [False, False]
    assert ScriptResult("g/s", ScriptOutcome.FAILED, "why").agrees is None
    assert not Conformance("7.3", "host", (result(2, 1, 0),)).holds
    assert Conformance("7.3", "host", (ScriptResult("g/s", ScriptOutcome.NOT_HERE, "why"),)).holds


@pytest.fixture(name="answers")
def _answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a folder of packetdrill and a fake world program. Return the file that the fake prints."""
    folder = folder_of_packetdrill(tmp_path / "given")
    (folder / "gtests/net/packetdrill/packetdrill.c").touch()
    built = tmp_path / "built"
    built.write_text("the program")
    monkeypatch.setattr("fastopen.apps.conform.run.packetdrill", lambda _: built)
    world, answers = tmp_path / "world", tmp_path / "answers"
    world.write_text(f"#!{sys.executable}\nprint(open({str(answers)!r}).read())\n")
    world.chmod(0o755)
    monkeypatch.setenv("FASTOPEN_WORLD", str(world))
    return answers


def record(exit_code: int, output: str = "", acked: int = 1) -> str:
    sockets = [{"is_known": True, "syn_data_acked": n < acked, "fastopen_client_fail": 0} for n in range(3)]
    return json.dumps(
        {"type": "script", "name": "packetdrill/client/one", "exit_code": exit_code, "timed_out": False}
        | {"took_ms": 5, "output": output, "counters": [], "sockets": sockets}
    )


def conformed(answers: Path, *options: str) -> tuple[int, str]:
    folder = answers.parent / "given"
    done = fastopen("kernel", "conform", "--engine", "host", "--packetdrill", folder, *options, columns=80)
    return done.returncode, done.stdout + done.stderr


def test_a_script_that_passes_with_the_evidence_that_it_asserts_holds(answers: Path) -> None:
    answers.write_text(record(0))
    code, printed = conformed(answers)
    assert code == 0
    assert "1 of 1 scripts pass, evidence agrees with 1 of 1" in printed


def test_evidence_that_says_other_than_the_script_is_a_fault(answers: Path) -> None:
    answers.write_text(record(0, acked=0))
    code, printed = conformed(answers)
    assert code == 1
    assert "0 in the evidence, 1 in the script" in printed


def test_a_script_that_fails_is_shown_with_packetdrill_s_own_words(answers: Path) -> None:
    answers.write_text(record(1, "noise\none.pkt:3: timing error: too late\n"))
    code, printed = conformed(answers, "--json")
    assert code == 1
    assert json.loads(printed)["scripts"][0]["why"] == "one.pkt:3: timing error: too late"


def test_a_kernel_that_does_not_come_to_all_scripts_is_the_machine_s_fault(answers: Path) -> None:
    answers.write_text(json.dumps({"type": "error", "message": "no tun", "remedy": "modprobe tun"}))
    code, printed = conformed(answers)
    assert (code, "no tun; modprobe tun" in printed) == (3, True)


@pytest.mark.e2e
def test_packetdrill_and_evidence_agree_in_the_virtual_kernel(
    kernel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not PACKETDRILL.is_dir():
        pytest.skip("packetdrill is not there (../shared/packetdrill)")
    if not (kernel.parent / "packetdrill").is_dir():
        pytest.skip("the installed kernel is of another recipe: fastopen kernel build")
    # Copy the kernel without the scripts from its source, which take longer than the scripts here.
    own = tmp_path / "kernel"
    own.mkdir()
    for name in ("linux", "manifest.json"):
        shutil.copy(kernel.parent / name, own / name)
    monkeypatch.setenv("FASTOPEN_KERNEL", str(own))
    folder = tmp_path / "given"
    (folder / "gtests/net/tcp/fastopen").mkdir(parents=True)
    for name in ("packetdrill", "common"):
        (folder / "gtests/net" / name).symlink_to(PACKETDRILL / "gtests/net" / name)
    for name in ("client/syn-data-timeout.pkt", "server/basic-rw.pkt", "server/simple1.pkt"):
        copy = folder / "gtests/net/tcp/fastopen" / name
        copy.parent.mkdir(exist_ok=True)
        copy.write_bytes((PACKETDRILL / "gtests/net/tcp/fastopen" / name).read_bytes())
    done = fastopen("kernel", "conform", "--packetdrill", folder, "--json")
    document = json.loads(done.stdout)
    assert done.returncode == 0, done.stdout
    assert all(one["agrees"] for one in document["scripts"] if one["outcome"] == "passed")
