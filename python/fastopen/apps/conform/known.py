"""Scripts that test what a version of Linux does not have: which, and since or until which it has it."""

from dataclasses import dataclass
from typing import Final

from fastopen.engines.kernels.store import version_key


@dataclass(frozen=True)
class Known:
    """Why a script cannot pass on a version of Linux."""

    scripts: tuple[str, ...]
    """Their names, without where they come from."""
    says: str
    """Part of packetdrill's complaint, so that another fault of the same script still is one."""
    words: str
    since: str = ""
    """The first version that the script fits; empty: from the beginning."""
    until: str = ""
    """The first version that it no longer fits; empty: to the newest."""

    def applies_to(self, linux: str) -> bool:
        """Return True if the script does not fit this version."""
        version = version_key(linux)
        too_old = bool(self.since) and version < version_key(self.since)
        return too_old or (bool(self.until) and version >= version_key(self.until))


KNOWN: Final = (
    Known(
        ("client-ack-dropped-then-recovery-ms-timestamps",),
        "tcp_window: expected: 256",
        "expects the window of an older kernel (win 256); the copy in the source of Linux 6.18 and newer"
        " names none",
        until="6.18",
    ),
)


def known_reason(script: str, complaint: str, linux: str) -> Known | None:
    """Why this script fails with this complaint on this version; None: nobody knows."""
    name = script.rpartition("/")[2]
    fitting = (known for known in KNOWN if name in known.scripts and known.says in complaint)
    return next((known for known in fitting if known.applies_to(linux)), None)
