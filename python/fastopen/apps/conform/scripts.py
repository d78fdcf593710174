"""Find packetdrill's Fast Open scripts and their arguments, and count handshakes with accepted SYN data."""

import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fastopen.common.errors import InputError
from fastopen.engines.kernels import SCRIPTS, version_key

# The arguments that the scripts' own runners pass: packetdrill's run_all.py, and the kernel's ksft_runner.sh.
# The cookies result from these addresses and the key that defaults.sh sets.
DEFINITIONS: Final = (
    *("--send_omit_free", "--ip_version=ipv4", "--local_ip=192.168.0.1", "--gateway_ip=192.168.0.1"),
    *("--netmask_ip=255.255.0.0", "--remote_ip=192.0.2.1"),
    *("-D", "TFO_COOKIE=3021b9d889017eeb", "-D", "TFO_COOKIE_ZERO=b7c12350a90dc8f5"),
    *("-D", "CODE=host_unreachable", "-D", "CMSG_LEVEL_IP=SOL_IP", "-D", "CMSG_TYPE_RECVERR=IP_RECVERR"),
)
DEFINITIONS_IPV6: Final = (
    *("--send_omit_free", "--ip_version=ipv6", "--local_ip=fd3d:0a0b:17d6::1"),
    *("--gateway_ip=fd3d:0a0b:17d6:8888::1", "--remote_ip=fd3d:fa7b:d17d::1"),
    *("-D", "TFO_COOKIE=c1d1e9742a47a9bc", "-D", "TFO_COOKIE_ZERO=82af1a8f9a205c34"),
    *("-D", "CMSG_LEVEL_IP=SOL_IPV6", "-D", "CMSG_TYPE_RECVERR=IPV6_RECVERR"),
)
SUITE: Final = Path("gtests/net/tcp/fastopen")
COMMON: Final = Path("gtests/net/common")
# Scripts call this program to set sysctls. It is a symbolic link, which copies of packetdrill may lack.
SET_SYSCTLS: Final = "set_sysctls.py"
KERNEL_SCRIPTS: Final = "tcp_fastopen_*.pkt"
_OPTION: Final = re.compile(r"^(--[a-z_]+)=", re.MULTILINE)
_SEGMENT: Final = re.compile(
    r"^\s*[+.\d~*]*\s*(?P<way>[<>])\s*(?:\[[^]]*\]\s*)?(?P<flags>S[A-Z]*\.?[A-Z]*)\s+\d+:(?P<end>\d+)"
    r"\((?P<bytes>\d+)\)(?:\s+ack\s+(?P<ack>\d+))?",
    re.MULTILINE,
)


@dataclass(frozen=True)
class Script:
    """A packetdrill script that was copied to a temporary folder. `name` is shown to users. `path` is
    relative to the folder. `text` is the content of the script."""

    name: str
    path: Path
    text: str

    @property
    def is_ipv6(self) -> bool:
        return self.path.name.endswith("v6.pkt")

    def arguments(self) -> list[str]:
        """Return the arguments with which packetdrill runs this script. Leave out options that the script
        sets itself, because an argument would override them."""
        own = set(_OPTION.findall(self.text))
        given = DEFINITIONS_IPV6 if self.is_ipv6 else DEFINITIONS
        return [argument for argument in given if argument.split("=")[0] not in own]

    def syn_data_acked(self) -> int:
        """Return the number of handshakes in the script whose SYN-ACK acknowledges all data of the SYN."""
        # A SYN with data may be retransmitted without the data before the SYN-ACK is sent. SYNs that cross
        # (simultaneous open) are not Fast Open in Linux.
        acked = 0
        ends: dict[str, set[int]] = {"<": set(), ">": set()}
        for found in _SEGMENT.finditer(self.text):
            way = found["way"]
            other = "<" if way == ">" else ">"
            if "." in found["flags"]:
                acked += found["ack"] is not None and int(found["ack"]) - 1 in ends[other]
                ends[other].clear()
            elif int(found["bytes"]):
                ends[way].add(int(found["end"]))
            if "." not in found["flags"] and ends[other]:
                ends = {"<": set(), ">": set()}
        return acked


def stage(folder: Path, kernel: Path | None, to: Path) -> list[Script]:
    """Copy packetdrill's Fast Open scripts from its checkout `folder` to the folder `to`, and return them. If
    `kernel` (the path of a kernel) is given, also copy the scripts that are stored next to it. Raises
    InputError if the checkout has no Fast Open scripts."""
    suite = to / "packetdrill" / SUITE.name
    if not (folder / SUITE).is_dir():
        raise InputError(f"has no Fast Open scripts: {SUITE} is missing", str(folder))
    copy_folder(folder / SUITE, suite)
    # gtests/net/tcp/common is a link to gtests/net/common, and is missing in some copies of the folder.
    for place in (suite.parents[1] / "common", suite.parent / "common"):
        copy_folder(folder / COMMON, place)
        if not (place / SET_SYSCTLS).exists():
            _add_set_sysctls(place)
    scripts = list(_scripts(suite, "**/*.pkt", "packetdrill", to))
    if not scripts:
        raise InputError(f"has no Fast Open scripts: {SUITE} is empty", str(folder))
    if kernel is not None and (kernel.parent / SCRIPTS).is_dir():
        copy_folder(kernel.parent / SCRIPTS, to / "linux")
        # The kernel's own set_sysctls.py is in Python, which may be missing in the virtual engine.
        _add_set_sysctls(to / "linux")
        scripts += _scripts(to / "linux", KERNEL_SCRIPTS, "linux", to)
    return scripts


def _scripts(folder: Path, pattern: str, of: str, stage: Path) -> Iterator[Script]:
    for path in sorted(folder.glob(pattern)):
        name = f"{of}/{path.relative_to(folder).with_suffix('')}"
        yield Script(name, path.relative_to(stage), path.read_text(encoding="utf-8", errors="replace"))


def copy_folder(folder: Path, to: Path) -> None:
    """Copy a folder. Everything in the copy gets mode 0755, so that scripts can run and can be deleted."""
    shutil.copytree(folder, to, copy_function=shutil.copyfile, dirs_exist_ok=True)
    for path in (to, *to.rglob("*")):
        path.chmod(0o755)


def _add_set_sysctls(folder: Path) -> None:
    (folder / SET_SYSCTLS).write_bytes(Path(__file__).with_name("set_sysctls.sh").read_bytes())
    (folder / SET_SYSCTLS).chmod(0o755)


# Known failures, keyed by the script's name without its folder: a part of packetdrill's message, the first
# version of Linux on which the script fails, and the reason.
KNOWN: Final = {
    "client-ack-dropped-then-recovery-ms-timestamps": (
        "tcp_window: expected: 256",
        "6.18",
        (
            "expects the window of an older kernel (win 256); the copy in the source of Linux 6.18 and newer"
            " names none"
        ),
    ),
}


def known_reason(script: str, complaint: str, linux: str) -> str | None:
    """Return the known reason why the script `script` fails with the error message `complaint` on this
    version of Linux; None if no reason is known."""
    known = KNOWN.get(script.rpartition("/")[2])
    if known is None:
        return None
    message_part, since, reason = known
    return reason if message_part in complaint and version_key(linux) >= version_key(since) else None
