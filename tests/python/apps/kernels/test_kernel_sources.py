"""Sources of kernels: apt's lists, the choice of the newest source, and faults of apt."""

import os
from pathlib import Path
from unittest.mock import Mock

import pytest

from fastopen.apps.kernels import apt
from fastopen.apps.kernels.apt import Apt, AptArchive, codename, machine_archives, rounds
from fastopen.apps.kernels.sources import link_that_leads_out
from fastopen.common.errors import MachineError

STANZAS = """\
Types: deb deb-src
# a mirror
URIs : http://mirror.test/debian/
Suites: trixie trixie-updates
Components: main contrib
Signed-By: /usr/share/keyrings/archive.gpg

Types: deb
URIs: http://off.test/debian
Suites: trixie
Components: main
Enabled: yes
Enabled: no

Types: deb
URIs: http://key.test/debian
Suites: trixie
Components: main
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 abc
 -----END PGP PUBLIC KEY BLOCK-----
"""
LINES = """\
deb [arch=amd64 signed-by=/a.gpg,/b.gpg] http://line.test/debian bookworm main # ours
# deb http://gone.test/debian bookworm main
deb-src http://line.test/debian bookworm main
deb http://line.test/debian bookworm non-free
"""


def write_lists(folder: Path) -> Path:
    (folder / "sources.list.d").mkdir(parents=True)
    (folder / "sources.list").write_text(LINES)
    (folder / "sources.list.d" / "debian.sources").write_text(STANZAS)
    (folder / "sources.list.d" / "other.disabled").write_text(LINES.replace("line", "disabled"))
    return folder


def test_both_forms_of_lists_are_read(tmp_path: Path) -> None:
    found = machine_archives(write_lists(tmp_path))
    assert [(archive.uri, archive.suite) for archive in found] == [
        ("http://line.test/debian", "bookworm"),
        ("http://mirror.test/debian/", "trixie"),
        ("http://mirror.test/debian/", "trixie-updates"),
        ("http://key.test/debian", "trixie"),
    ]
    assert found[0].signed_by == "/a.gpg /b.gpg"
    assert found[1].signed_by == "/usr/share/keyrings/archive.gpg"


def test_a_key_inside_a_list_is_kept_as_it_is(tmp_path: Path) -> None:
    stanza = machine_archives(write_lists(tmp_path))[-1].stanza()
    again = tmp_path / "again" / "sources.list.d"
    again.mkdir(parents=True)
    (again / "a.sources").write_text(stanza)
    assert machine_archives(again.parent)[0].stanza() == stanza
    assert " -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n abc\n" in stanza


def test_backports_of_newer_releases_come_first_then_all_else() -> None:
    own = [
        AptArchive("http://m.test/debian", "bookworm"),
        AptArchive("http://s.test/security", "bookworm-security"),
    ]
    first, second = rounds(own, "bookworm")
    assert [archive.suite for archive in first][:2] == ["bookworm-backports", "trixie-backports"]
    assert {archive.uri for archive in first} == {"http://m.test/debian"}
    assert set(own) < set(second)
    assert AptArchive("http://m.test/debian", "trixie") in second


def test_an_unknown_distribution_is_asked_for_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.freedesktop_os_release", lambda: {"VERSION_CODENAME": "noble"})
    assert codename() == "noble"
    own = [AptArchive("http://m.test/ubuntu", "noble")]
    assert rounds(own, "noble")[-1][-1] == own[0]


def test_a_distribution_may_have_no_code_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.freedesktop_os_release", dict)
    assert codename() == ""
    monkeypatch.setattr("platform.freedesktop_os_release", Mock(side_effect=FileNotFoundError))
    assert codename() == ""


@pytest.fixture(name="programs")
def _programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder of programs at the front of PATH, with an apt that offers three kernels."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setattr(apt, "machine_archives", lambda: [AptArchive("http://m.test/debian", "bookworm")])
    monkeypatch.setattr(apt, "codename", lambda: "bookworm")
    script(folder / "dpkg-deb", "exit 0")
    script(folder / "apt-get", 'echo "$@" >> "$0.log"')
    offer(folder, "linux-source-6.12 6.12.9-1")
    return folder


def script(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def offer(folder: Path, *rows: str) -> None:
    """Write an apt-cache that offers these packages (name and version), and others that must be ignored."""
    offered = dict(row.split(" ") for row in rows)
    known = "\\n".join(["linux-source", "linux-source-x", *offered])
    answers = "\\n".join(
        f"{name}:\\n  Installed: (none)\\n  Candidate: {version}\\n  Version table:\\n     {version} 500"
        for name, version in offered.items()
    )
    script(
        folder / "apt-cache",
        f'case "$*" in *pkgnames*) printf "{known}\\n" ;; *policy*) printf "{answers}\\n" ;; esac',
    )


def updates(folder: Path) -> int:
    return (folder / "apt-get.log").read_text().count(" update")


def test_a_new_enough_kernel_in_the_backports_ends_the_search(programs: Path, tmp_path: Path) -> None:
    offer(programs, "linux-source-6.12 6.12.9-1", "linux-source-7.3 7.3.4-1")
    source = Apt(tmp_path / "apt").newest()
    assert (source.name, source.version) == ("linux-source-7.3", "7.3.4-1")
    assert updates(programs) == 1


def test_an_older_kernel_is_taken_where_all_archives_have_no_newer(programs: Path, tmp_path: Path) -> None:
    source = Apt(tmp_path / "apt").newest()
    assert (source.name, source.version) == ("linux-source-6.12", "6.12.9-1")
    assert updates(programs) == 2


def test_versions_are_compared_as_numbers(programs: Path, tmp_path: Path) -> None:
    offer(programs, "linux-source-7.9 7.9-1", "linux-source-7.10 7.10-1")
    assert Apt(tmp_path / "apt").newest().name == "linux-source-7.10"


def test_a_package_that_the_machines_pins_forbid_is_passed_over(programs: Path, tmp_path: Path) -> None:
    offer(programs, "linux-source-6.17 6.17.1-1", "linux-source-99.1 (none)")
    assert Apt(tmp_path / "apt").newest().name == "linux-source-6.17"


def test_apts_own_user_for_fetching_stays_as_the_machine_has_it(programs: Path, tmp_path: Path) -> None:
    Apt(tmp_path / "apt").newest()
    assert "Sandbox" not in (programs / "apt-get.log").read_text()


def test_a_series_can_be_asked_for(programs: Path, tmp_path: Path) -> None:
    offer(programs, "linux-source-6.12 6.12.9-1", "linux-source-7.3 7.3.4-1")
    assert Apt(tmp_path / "apt").newest("6.12").version == "6.12.9-1"
    with pytest.raises(MachineError, match=r"no source of Linux 6\.1; it offers 6\.12, 7\.3"):
        Apt(tmp_path / "again").newest("6.1")


def test_without_a_network_the_error_says_what_apt_said(programs: Path, tmp_path: Path) -> None:
    script(programs / "apt-get", "echo 'E: Could not resolve m.test' >&2; exit 100")
    script(programs / "apt-cache", "exit 0")
    with pytest.raises(MachineError, match=r"found no kernel source: Could not resolve m\.test; .*--source"):
        Apt(tmp_path / "apt").newest()


def test_a_failed_download_says_what_apt_said(programs: Path, tmp_path: Path) -> None:
    chosen = Apt(tmp_path / "apt")
    script(programs / "apt-get", "echo 'E: Hash Sum mismatch' >&2; exit 100")
    with pytest.raises(MachineError, match=r"could not fetch linux-source-7\.3: Hash Sum mismatch"):
        chosen.download("linux-source-7.3", "7.3.4-1")


def test_signatures_are_never_switched_off() -> None:
    text = Path(apt.__file__).read_text()
    for word in (
        "AllowUnauthenticated",
        "AllowInsecure",
        "trusted=yes",
        "Trusted: yes",
        "allow-unauthenticated",
    ):
        assert word not in text


def test_a_system_without_apt_is_told_to_give_the_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MachineError, match=r"no apt-get.*--source FOLDER"):
        Apt(tmp_path / "apt")


def test_only_links_out_of_the_source_are_faults(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "inside").symlink_to("loop")
    assert link_that_leads_out(tmp_path) is None
    (tmp_path / "outside").symlink_to("/etc")
    assert link_that_leads_out(tmp_path) == "outside -> /etc"
