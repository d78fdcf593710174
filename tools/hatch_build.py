"""Puts the Rust program into the wheel: builds it with cargo and includes it as package data.

A wheel is for this machine's C library, unless FASTOPEN_RELEASE names the folder that `make release` has
filled: with a program for older ones, and with manual pages and completions. An editable install carries no
program: the engine then takes the one of the checkout's `target/release`.
"""

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
    """Builds `fastopen-world` and gives the wheel the platform's tag."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called by hatchling before a wheel is built; `version` is "editable" or "standard"."""
        if version == "editable":
            return
        named = os.environ.get(RELEASE_VARIABLE)
        # The program belongs to no Python version: only the platform part of the tag matters.
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
