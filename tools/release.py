#!/usr/bin/env python3
"""Build a release in dist/: two wheels, the source distribution, SBOMs, checksums (docs/dev/release.md).

`tools/release.py TOOLS`, where TOOLS is an environment with the packages in release-requirements.txt.
fastopen itself is imported from the checkout. dist/ is only replaced after everything is made and checked."""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from fastopen.common.errors import MachineError
from fastopen.engines import kernels
from fastopen.engines.kernel_recipe import is_outdated
from manual_pages import write_share

ROOT: Final = Path(__file__).resolve().parents[1]
DIST: Final = ROOT / "dist"
PROGRAM: Final = "fastopen-world"
TARGET: Final = "x86_64-unknown-linux-gnu"
# The oldest glibc that the program runs on, of 2012. Rust's standard library needs the same version.
GLIBC: Final = "2.17"
# The newest glibc that a release may need, of August 2021.
GLIBC_MAX: Final = (2, 34)


def main() -> int:
    """Build the release. Return the exit status."""
    tools = Path(sys.argv[1]).absolute()
    try:
        kernel = kernels.find()
        if is_outdated(kernel):
            message = f"the kernel {kernel.name} was built by another version of fastopen"
            raise MachineError(message, "fastopen kernel build")
        with tempfile.TemporaryDirectory(prefix="fastopen-release-") as folder:
            _release(tools, Path(folder), kernel.path.parent)
    except MachineError as error:
        print(f"release: {error}", file=sys.stderr)
        return 3
    except subprocess.CalledProcessError as error:
        print(f"release: {Path(error.cmd[0]).name} failed with {error.returncode}", file=sys.stderr)
        return 1
    return 0


def _release(tools: Path, work: Path, kernel: Path) -> None:
    version = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    ready, parts = work / "dist", work / "parts"
    _say(f"the program, for glibc {GLIBC}")
    write_share(parts / "share", version)
    (parts / "platform").write_text(f"manylinux_{GLIBC.replace('.', '_')}_x86_64\n")
    shutil.copy2(portable_program(tools), parts / PROGRAM)
    _say("wheels and source distribution")
    _wheel(tools, ROOT, ready, {"FASTOPEN_RELEASE": str(parts)})
    _wheel(tools, ROOT / "packages" / "fastopen-kernel", ready, {"FASTOPEN_WHEEL_KERNEL": str(kernel)})
    _run([tools / "bin/python", "-m", "hatchling", "build", "--target", "sdist", "--directory", ready])
    for wheel in sorted(ready.glob("*.whl")):
        check_wheel(tools, wheel)
    _say("SBOMs and checksums")
    for kind, name in (("program", "fastopen"), ("kernel", "fastopen_kernel")):
        output = ready / f"{name}-{version}.cdx.json"
        _run([tools / "bin/python", ROOT / "tools/sbom.py", kind, version, output, kernel / "manifest.json"])
    (ready / "SHA256SUMS").write_text(checksums(ready))
    shutil.rmtree(DIST, ignore_errors=True)
    shutil.copytree(ready, DIST)
    for file in sorted(DIST.iterdir()):
        print(f"{file.stat().st_size:>10,}  dist/{file.name}")


def portable_program(tools: Path) -> Path:
    """Build the program with zig as linker, for glibc version GLIBC and later. Return the program's path."""
    target = ROOT / "target" / "portable"
    path = f"{tools / 'bin'}:{os.environ['PATH']}"
    command = ["cargo", "zigbuild", "--release", "--locked", "--quiet", "--package", PROGRAM]
    _run([*command, "--target", f"{TARGET}.{GLIBC}"], {"CARGO_TARGET_DIR": str(target), "PATH": path})
    return target / TARGET / "release" / PROGRAM


def check_wheel(tools: Path, wheel: Path) -> None:
    """Raise MachineError if the wheel's programs need a newer glibc than its tag or GLIBC_MAX allows."""
    command = map(str, (tools / "bin/auditwheel", "show", wheel))
    shown = subprocess.run([*command], capture_output=True, text=True, check=True).stdout
    found = re.search(r'the following platform tag:\s*"([^"]+)"', " ".join(shown.split()))
    tagged = re.search(r"manylinux_(\d+)_(\d+)_x86_64", wheel.name)
    real = re.search(r"manylinux_(\d+)_(\d+)", found[1] if found else "")
    if tagged is None or real is None:
        raise MachineError(f"{wheel.name}: auditwheel finds no manylinux in it: {' '.join(shown.split())}")
    needed, promised = ((int(one[1]), int(one[2])) for one in (real, tagged))
    if needed > promised or promised > GLIBC_MAX:
        newest = max(needed, promised)
        message = f"{wheel.name} needs glibc {newest[0]}.{newest[1]}, which is newer than 2021's"
        raise MachineError(message, "build the kernel on Debian 12: sudo tools/fresh-machine --debian 12")
    print(f"{wheel.name}: auditwheel reports {found[1] if found else ''}", file=sys.stderr)


def checksums(folder: Path) -> str:
    """Return the checksums of all files in a folder, in the format of sha256sum."""
    lines = (
        f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in sorted(folder.iterdir())
    )
    return "".join(lines)


def _wheel(tools: Path, project: Path, ready: Path, variables: Mapping[str, str]) -> None:
    command: list[str | Path] = [tools / "bin/pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    _run([*command, "--wheel-dir", ready, project], variables)


def _run(command: Sequence[str | Path], variables: Mapping[str, str] | None = None) -> None:
    subprocess.run([*map(str, command)], cwd=ROOT, env={**os.environ, **(variables or {})}, check=True)


def _say(what: str) -> None:
    print(f"== {what}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
