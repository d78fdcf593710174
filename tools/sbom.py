#!/usr/bin/env python3
"""Write an SBOM (CycloneDX 1.6, JSON): `tools/sbom.py program|kernel VERSION OUTPUT [MANIFEST]`.

`program`: the crates that cargo links into the program, and the Python packages that the wheel needs, in the
versions that are tested together. `kernel`: the kernel's source package, according to the kernel's MANIFEST.
This tool needs the packages in tools/release-requirements.txt."""

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import LicenseExpression
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL

ROOT: Final = Path(__file__).resolve().parents[1]
PROGRAM: Final = "fastopen-world"
TARGET: Final = "x86_64-unknown-linux-gnu"
LICENCE: Final = "MIT OR Apache-2.0"


def main() -> int:
    """Write the SBOM. Return the exit status: 1 if it is invalid."""
    kind, version, output, *rest = sys.argv[1:]
    bom = kernel_bom(version, Path(rest[0])) if kind == "kernel" else program_bom(version)
    text = JsonV1Dot6(bom).output_as_string(indent=2)
    if (fault := JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)) is not None:
        print(f"{output}: {fault}", file=sys.stderr)
        return 1
    Path(output).write_text(text + "\n", encoding="utf-8")
    return 0


def program_bom(version: str) -> Bom:
    """Return the SBOM of the wheel `fastopen`."""
    root = _component("fastopen", version, "pypi", LICENCE, kind=ComponentType.APPLICATION)
    return _bom(root, [*_crates(), *_python_packages()])


def kernel_bom(version: str, manifest: Path) -> Bom:
    """Return the SBOM of the wheel `fastopen-kernel`, which contains the kernel of this manifest."""
    known = json.loads(manifest.read_text(encoding="utf-8"))
    root = _component("fastopen-kernel", version, "pypi", "GPL-2.0-only")
    linux = Component(
        name=known["source"],
        version=known["source_version"],
        type=ComponentType.OPERATING_SYSTEM,
        purl=PackageURL("deb", "debian", known["source"], known["source_version"]),
        bom_ref=known["source"],
        licenses=[LicenseExpression("GPL-2.0-only")],
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=known["source_sha256"])]
        if known["source_sha256"]
        else [],
    )
    return _bom(root, [linux])


def _bom(root: Component, components: list[Component]) -> Bom:
    bom = Bom(components=components)
    bom.metadata.component = root
    bom.register_dependency(root, components)
    return bom


def _component(
    name: str, version: str, ecosystem: str, licence: str = "", kind: ComponentType = ComponentType.LIBRARY
) -> Component:
    purl = PackageURL(ecosystem, None, name, version)
    licences = [LicenseExpression(licence)] if licence else []
    return Component(name=name, version=version, type=kind, purl=purl, bom_ref=str(purl), licenses=licences)


def _crates() -> Iterator[Component]:
    """Yield the crates in the program: dependencies for TARGET, without those of tests and build scripts."""
    command = ["cargo", "metadata", "--format-version=1", "--locked", f"--filter-platform={TARGET}"]
    found = json.loads(subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout)
    packages = {one["id"]: one for one in found["packages"]}
    nodes = {one["id"]: one for one in found["resolve"]["nodes"]}
    waiting = [key for key, one in packages.items() if one["name"] == PROGRAM]
    linked: dict[str, dict[str, Any]] = {}
    while waiting:
        key = waiting.pop()
        if key not in linked:
            linked[key] = packages[key]
            waiting += [
                one["pkg"] for one in nodes[key]["deps"] if any(k["kind"] is None for k in one["dep_kinds"])
            ]
    for one in sorted(linked.values(), key=lambda package: (package["name"], package["version"])):
        licence = (one["license"] or "").replace("/", " OR ")
        yield _component(one["name"], one["version"], "cargo", licence)


def _python_packages() -> Iterator[Component]:
    """Yield the packages that the wheel's metadata requires, in the versions that are tested together."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    tested = (ROOT / "constraints.txt").read_text(encoding="utf-8").lower().replace("_", "-")
    pinned = dict(re.findall(r"(?m)^([\w.-]+)==(\S+)", tested))
    for needed in project["dependencies"]:
        name = re.split(r"[\[<>=!~ ]", needed, maxsplit=1)[0]
        yield _component(name, pinned[name], "pypi")


if __name__ == "__main__":
    sys.exit(main())
