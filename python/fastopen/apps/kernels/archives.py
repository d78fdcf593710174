"""Read the package archives that this machine already trusts from apt's lists of sources."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

APT: Final = Path("/etc/apt")
OS_RELEASE: Final = Path("/etc/os-release")
COMPONENT: Final = "main"
# Debian's releases in their order, since backports to newer releases have newer kernels.
CODENAMES: Final = ("bookworm", "trixie", "forky", "duke")


@dataclass(frozen=True)
class AptArchive:
    """An archive and suite. `signed_by` is apt's Signed-By: a file, fingerprints, a whole key, or empty."""

    uri: str
    suite: str
    signed_by: str = ""

    def stanza(self) -> str:
        """Return the archive as an entry of a `.sources` file."""
        lines = ["Types: deb", f"URIs: {self.uri}", f"Suites: {self.suite}", f"Components: {COMPONENT}"]
        lines += [f"Signed-By: {self.signed_by}"] if self.signed_by else []
        return "\n".join(lines) + "\n"


def machine_archives(apt: Path = APT) -> list[AptArchive]:
    """Return the archives with a component `main` that apt uses on this machine, without duplicates."""
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


def codename(os_release: Path = OS_RELEASE) -> str:
    """Return the distribution's code name, such as `trixie`, or an empty text if it has none."""
    try:
        text = os_release.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""
    named = re.search(r'^VERSION_CODENAME="?([a-z]+)"?$', text, re.MULTILINE)
    return named[1] if named else ""


def rounds(archives: list[AptArchive], release: str) -> list[list[AptArchive]]:
    """Return the archives to search in each round, until the source of a new enough kernel is found.

    The first round has the backports to this and newer releases: short lists with the newest kernels. The
    second also has the machine's own archives and the newer releases. Suites that do not exist do no harm."""
    own = [archive for archive in archives if archive.suite == release]
    newer = CODENAMES[CODENAMES.index(release) :] if release in CODENAMES else (release,)
    backports = [AptArchive(a.uri, f"{name}-backports", a.signed_by) for a in own for name in newer]
    later = [AptArchive(a.uri, name, a.signed_by) for a in own for name in newer[1:]]
    rest = dict.fromkeys(a for a in [*archives, *later] if a not in backports)
    return [part for part in (backports, [*backports, *rest]) if part]


def _from_stanzas(text: str) -> Iterator[AptArchive]:
    """Yield the enabled archives with the component `main` from text in deb822 format (sources.list(5))."""
    for stanza in re.split(r"\n[ \t]*\n", text):
        fields = _fields(stanza)
        if fields.get("enabled", "yes").lower() in ("no", "false", "0"):
            continue
        if "deb" in fields.get("types", "").split() and COMPONENT in fields.get("components", "").split():
            for uri in fields.get("uris", "").split():
                for suite in fields.get("suites", "").split():
                    yield AptArchive(uri, suite, fields.get("signed-by", ""))


def _fields(stanza: str) -> Mapping[str, str]:
    """Map a stanza's field names to values. Continuation lines, which begin with white space, are kept."""
    fields: dict[str, str] = {}
    last = ""
    for line in stanza.splitlines():
        if line.startswith("#"):
            continue
        if line[:1] in (" ", "\t") and last:
            fields[last] += "\n" + line
        elif ":" in line:
            last, value = line.split(":", 1)
            last = last.strip().lower()
            fields[last] = value.strip()
    return fields


def _from_lines(text: str) -> Iterator[AptArchive]:
    """Yield the archives with the component `main` from lines `deb [options] uri suite components`
    (sources.list(5), "ONE-LINE-STYLE FORMAT")."""
    pattern = re.compile(
        r"^\s*deb\s+(?:\[(?P<options>[^]]*)\]\s*)?(?P<uri>\S+)\s+(?P<suite>\S+)\s+(?P<rest>.*)$"
    )
    for line in text.splitlines():
        entry = pattern.match(line.split("#")[0])
        if entry and COMPONENT in entry["rest"].split():
            signed = re.search(r"\bsigned-by=(\S+)", entry["options"] or "")
            yield AptArchive(entry["uri"], entry["suite"], signed[1].replace(",", " ") if signed else "")
