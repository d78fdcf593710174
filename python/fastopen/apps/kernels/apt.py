"""Find a package with the source code of Linux, and download it with apt, without root.

Search this machine's apt archives and, on the same servers, the backports and newer releases of the
distribution. Keep package lists and downloads in a separate folder, to leave the system's apt unchanged."""

import os
import platform
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from subprocess import CompletedProcess
from typing import Final

from fastopen.apps.kernels.sources import KernelSource
from fastopen.common.errors import MachineError
from fastopen.common.process import output_of
from fastopen.engines.kernels import version_key

APT: Final = Path("/etc/apt")
COMPONENT: Final = "main"
# Debian's releases, from old to new. The backports archives of newer releases have newer kernels.
CODENAMES: Final = ("bookworm", "trixie", "forky", "duke")
# Linux 6.16 introduced UML's seccomp mode, which is several times faster than ptrace.
FAST_SINCE: Final = (6, 16)
PACKAGE: Final = re.compile(r"^linux-source-(\d+(?:\.\d+)+)$")
_CANDIDATE: Final = re.compile(r"^(linux-source-[0-9.]+):\n(?:  .*\n)*?  Candidate: (\S+)$", re.MULTILINE)
# A field's name, and its value with the continuation lines, which start with white space.
_FIELD: Final = re.compile(r"^(\S[^:\n]*?)[ \t]*:[ \t]*(.*(?:\n[ \t].*)*)", re.MULTILINE)
# The timeouts are short so that a mirror that does not respond cannot delay the build for long.
OPTIONS: Final = {
    "Dir::Etc::sourcelist": "/dev/null",
    "Dir::State::status": "/dev/null",
    "APT::Architectures": "amd64",
    "Acquire::Languages": "none",
    "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled": "false",
    "Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled": "false",
    "Acquire::Retries": "2",
    "Acquire::http::Timeout": "30",
    "Acquire::https::Timeout": "30",
    "APT::Get::List-Cleanup": "false",
}
# The time limit of each apt command. The package lists and the package are 170 MB in total.
TIMEOUT_S: Final = 900
GIVE_SOURCE: Final = "give a kernel's source with --source FOLDER or --source TARBALL"


@dataclass(frozen=True)
class AptArchive:
    """A suite of an apt archive. `signed_by` is apt's Signed-By: a file, fingerprints, a key, or empty."""

    uri: str
    suite: str
    signed_by: str = ""

    def stanza(self) -> str:
        """Return the archive as an entry of a `.sources` file (deb822 format)."""
        lines = ["Types: deb", f"URIs: {self.uri}", f"Suites: {self.suite}", f"Components: {COMPONENT}"]
        lines += [f"Signed-By: {self.signed_by}"] if self.signed_by else []
        return "\n".join(lines) + "\n"


def machine_archives(apt: Path = APT) -> list[AptArchive]:
    """Return the distinct archives with the component `main` in apt's configuration folder `apt`."""
    found: dict[AptArchive, None] = {}
    for path in [apt / "sources.list", *sorted((apt / "sources.list.d").glob("*"))]:
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            continue
        if path.suffix == ".sources":
            found |= dict.fromkeys(_from_stanzas(text))
        elif path.suffix == ".list":
            found |= dict.fromkeys(_from_lines(text))
    return list(found)


def codename() -> str:
    """Return the distribution's code name, such as `trixie`, or an empty string if it has none."""
    try:
        return platform.freedesktop_os_release().get("VERSION_CODENAME", "")
    except (OSError, UnicodeDecodeError):
        return ""


def rounds(archives: list[AptArchive], release: str) -> list[list[AptArchive]]:
    """Return lists of archives to search for a kernel's source, in order of preference. The caller searches a
    list only if no earlier list has the version that the user wants: by default, FAST_SINCE or a later one.

    Some of the returned archives may not exist. `archives` are those of this machine, and `release` is the
    code name of its distribution."""
    # Backports come first: they have few packages, and the newest kernels.
    own = [archive for archive in archives if archive.suite == release]
    newer = CODENAMES[CODENAMES.index(release) :] if release in CODENAMES else (release,)
    backports = [AptArchive(a.uri, f"{name}-backports", a.signed_by) for a in own for name in newer]
    later = [AptArchive(a.uri, name, a.signed_by) for a in own for name in newer[1:]]
    rest = dict.fromkeys(a for a in [*archives, *later] if a not in backports)
    return [part for part in (backports, [*backports, *rest]) if part]


def _from_stanzas(text: str) -> Iterator[AptArchive]:
    """Yield the enabled archives with the component `main` in a text in deb822 format (sources.list(5))."""
    for stanza in re.split(r"\n[ \t]*\n", text):
        fields = _fields(stanza)
        if fields.get("enabled", "yes").lower() in ("no", "false", "0"):
            continue
        if "deb" in fields.get("types", "").split() and COMPONENT in fields.get("components", "").split():
            for uri, suite in product(fields.get("uris", "").split(), fields.get("suites", "").split()):
                yield AptArchive(uri, suite, fields.get("signed-by", ""))


def _fields(stanza: str) -> Mapping[str, str]:
    without_comments = re.sub(r"^#.*\n?", "", stanza, flags=re.MULTILINE)
    return {name.lower(): value.rstrip() for name, value in _FIELD.findall(without_comments)}


def _from_lines(text: str) -> Iterator[AptArchive]:
    """Yield the archives in lines `deb [options] uri suite components` (sources.list(5), one-line style)."""
    pattern = re.compile(
        r"^\s*deb\s+(?:\[(?P<options>[^]]*)\]\s*)?(?P<uri>\S+)\s+(?P<suite>\S+)\s+(?P<rest>.*)$"
    )
    for line in text.splitlines():
        entry = pattern.match(line.split("#")[0])
        if entry and COMPONENT in entry["rest"].split():
            signed = re.search(r"\bsigned-by=(\S+)", entry["options"] or "")
            yield AptArchive(entry["uri"], entry["suite"], signed[1].replace(",", " ") if signed else "")


class Apt:
    """The program apt, with its lists and downloads in `folder`. Methods raise MachineError if apt fails."""

    def __init__(self, folder: Path) -> None:
        if not shutil.which("apt-get") or not shutil.which("dpkg-deb"):
            raise MachineError("no apt-get on this system to fetch the kernel's source", GIVE_SOURCE)
        self._folder = folder
        for name in ("state/lists/partial", "cache/archives/partial", "sources"):
            (folder / name).mkdir(parents=True)

    def newest(self, series: str | None = None) -> KernelSource:
        """Return the newest source package that apt offers, or the newest of `series`, such as `6.12`."""
        known = machine_archives()
        if not known:
            raise MachineError("no archive with kernel sources is in apt's sources", GIVE_SOURCE)
        message = ""
        offered: dict[tuple[int, ...], tuple[str, str]] = {}
        chosen: tuple[int, ...] | None = None
        for archives in rounds(known, codename()):
            message = self._update(archives) or message
            offered = self._offered()
            meant = [one for one in offered if series is None or one == version_key(series)[:2]]
            chosen = max(meant, default=None)
            if chosen and (series or chosen >= FAST_SINCE):
                break
        if chosen:
            name, version = offered[chosen]
            return KernelSource(name, version, f"{name} {version}", partial(self.download, name, version))
        if series and offered:
            names = ", ".join(sorted(".".join(map(str, one)) for one in offered))
            raise MachineError(f"apt offers no source of Linux {series}; it offers {names}", GIVE_SOURCE)
        why = message or "no archive of this machine has a package linux-source-*"
        raise MachineError(f"apt found no kernel source: {why}", f"check the network, or {GIVE_SOURCE}")

    def download(self, name: str, version: str) -> Path:
        done = self._run("apt-get", "download", f"{name}={version}")
        found = sorted(self._folder.glob("*.deb"))
        if done.returncode or not found:
            raise MachineError(f"apt could not fetch {name}: {_complaint(done.stderr)}", GIVE_SOURCE)
        return found[0]

    def _update(self, archives: list[AptArchive]) -> str:
        """Run apt-get update. Return its error or "". Package lists fetched before an error are usable."""
        text = "\n".join(archive.stanza() for archive in archives)
        (self._folder / "sources" / "kernel.sources").write_text(text, encoding="utf-8")
        done = self._run("apt-get", "update")
        return _complaint(done.stderr) if done.returncode else ""

    def _offered(self) -> dict[tuple[int, ...], tuple[str, str]]:
        """Map the series of each source package, such as (7, 3), to its name and version."""
        names = self._run("apt-cache", "pkgnames", "linux-source-").stdout.split()
        # `policy` prints the versions that apt would install: none if the machine's pins forbid a package.
        policy = self._run("apt-cache", "policy", *filter(PACKAGE.match, names)).stdout
        found = _CANDIDATE.findall(policy)
        return {version_key(name): (name, version) for name, version in found if version != "(none)"}

    def _run(self, program: str, *arguments: str) -> CompletedProcess[str]:
        folders = {
            "Dir::Etc::sourceparts": f"{self._folder}/sources",
            "Dir::State": f"{self._folder}/state",
            "Dir::Cache": f"{self._folder}/cache",
        }
        options = (part for option in {**OPTIONS, **folders}.items() for part in ("-o", "=".join(option)))
        command = [program, *options, *arguments]
        try:
            return output_of(command, TIMEOUT_S, self._folder, {**os.environ, "LC_ALL": "C"})
        except TimeoutError:
            message = f"{program} did not finish within {TIMEOUT_S / 60:.0f} minutes"
            raise MachineError(message, GIVE_SOURCE) from None


def _complaint(stderr: str) -> str:
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("E:")]
    return (errors or lines or ["apt printed nothing"])[-1].removeprefix("E: ")
