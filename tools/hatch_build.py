"""Build the Rust program with cargo and include it in the wheel as package data.

The program needs this machine's version of the C library, unless FASTOPEN_RELEASE names the folder that
`make release` filled with a program for older versions, manual pages and completions. An editable install
contains no program; the engine then uses the checkout's `target/release`."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from packaging.tags import sys_tags

PROGRAM = "fastopen-world"
RELEASE_VARIABLE = "FASTOPEN_RELEASE"


class WorldProgramHook(BuildHookInterface[Any]):
    """Build `fastopen-world` and set the wheel's platform tag."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the program and a platform tag to a wheel, unless `version` is "editable". A hatchling hook."""
        if version == "editable":
            return
        named = os.environ.get(RELEASE_VARIABLE)
        # The program works with every Python version, so only the platform part of the tag matters.
        if named:
            release = Path(named)
            platform = (release / "platform").read_text(encoding="ascii").strip()
            program = release / PROGRAM
            build_data["shared_data"][str(release / "share")] = "share"
        else:
            platform = next(tag.platform for tag in sys_tags() if "manylinux" not in tag.platform)
            program = self._program(Path(self.root))
        build_data["tag"] = f"py3-none-{platform}"
        build_data["pure_python"] = False
        build_data["force_include"][str(program)] = f"fastopen/_bin/{PROGRAM}"

    def _program(self, root: Path) -> Path:
        cargo = shutil.which("cargo") or str(Path.home() / ".cargo/bin/cargo")
        target = root / "target"
        environment = {**os.environ, "CARGO_TARGET_DIR": str(target)}
        command = [cargo, "build", "--release", "--locked", "--quiet", "--package", PROGRAM]
        subprocess.run(command, cwd=root, env=environment, check=True)
        return target / "release" / PROGRAM
