#!/usr/bin/env python3
"""Check the licence and source of each crate in Cargo.lock, and that no crate is listed in two versions.

This script replaces cargo-deny, which no distribution packages and whose compilation takes longer than all
tests (docs/decisions/dependencies.md)."""

import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, Final

# Licences under which a crate may be part of a program that is distributed under MIT or Apache-2.0.
LICENCES: Final = frozenset(
    {
        *("0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "BSL-1.0", "ISC", "MIT", "Unicode-3.0"),
        *("Apache-2.0 WITH LLVM-exception", "CC0-1.0", "Unlicense", "Zlib"),
    }
)
# Crates that may be listed in two versions, because a dependency still needs the older version.
DOUBLED: Final = frozenset(
    {"getrandom", "r-efi", "rand", "rand_core", "syn", "windows-sys", "windows-targets"}
)


def allowed(expression: str) -> bool:
    """Return True if LICENCES allow an SPDX expression (with AND, OR, and parentheses without nesting)."""
    words = expression.replace("/", " OR ").replace("(", "").replace(")", "")
    if "(" in expression:
        return all(allowed(part.strip(" ()")) for part in expression.replace("/", " OR ").split(" AND "))
    return any(all(one.strip() in LICENCES for one in part.split(" AND ")) for part in words.split(" OR "))


def faults(packages: list[dict[str, Any]]) -> Iterator[str]:
    """Yield a line for each fault of these packages, which are in the format of `cargo metadata`."""
    versions = defaultdict(set)
    for package in packages:
        name = f"{package['name']} {package['version']}"
        versions[package["name"]].add(package["version"])
        if package["source"] is None:
            continue
        if not package["source"].startswith("registry+"):
            yield f"{name}: comes from {package['source']}, not from a registry"
        if not allowed(package["license"] or ""):
            licence = package["license"] or "not named"
            yield f"{name}: its licence is {licence} (LICENCES has those that may be used)"
    for name, several in sorted(versions.items()):
        if len(several) > 1 and name not in DOUBLED and not name.startswith("windows_"):
            yield f"{name}: in {len(several)} versions, {' and '.join(sorted(several))} (DOUBLED excuses it)"


def main() -> int:
    """Print the faults of all crates in Cargo.lock. Return the exit status: 1 if there is a fault."""
    command = ["cargo", "metadata", "--format-version=1", "--locked"]
    packages = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)["packages"]
    found = [*faults(packages)]
    print(*found, sep="\n", end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
