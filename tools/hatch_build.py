"""Puts the Rust program into the wheel: builds it with cargo and includes it as package data.

FASTOPEN_WHEEL_KERNEL names the folder of an installed kernel that the wheel is to carry as well; what its
licence asks for then, kernel/README.md says. An editable install carries no program: the engine then takes
the one of the checkout's `target/release`.
"""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from packaging.tags import sys_tags

PROGRAM = "fastopen-world"
KERNEL_VARIABLE = "FASTOPEN_WHEEL_KERNEL"
KERNEL_FILES = ("linux", "manifest.json")


class WorldProgramHook(BuildHookInterface[Any]):
    """Builds `fastopen-world` and gives the wheel the platform's tag."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called by hatchling before a wheel is built; `version` is "editable" or "standard"."""
        if version == "editable":
            return
        root = Path(self.root)
        # The program belongs to no Python version: only the platform part of the tag matters.
        platform = next(tag.platform for tag in sys_tags() if "manylinux" not in tag.platform)
        build_data["tag"] = f"py3-none-{platform}"
        build_data["pure_python"] = False
        build_data["force_include"][str(self._program(root))] = f"fastopen/_bin/{PROGRAM}"
        build_data["force_include"].update(kernel_files())

    def _program(self, root: Path) -> Path:
        cargo = shutil.which("cargo") or str(Path.home() / ".cargo/bin/cargo")
        target = root / "target"
        environment = {**os.environ, "CARGO_TARGET_DIR": str(target)}
        command = [cargo, "build", "--release", "--locked", "--quiet", "--package", PROGRAM]
        subprocess.run(command, cwd=root, env=environment, check=True)
        return target / "release" / PROGRAM


def kernel_files() -> dict[str, str]:
    """Where each file of the kernel goes that the wheel is to carry; nothing unless one is named."""
    named = os.environ.get(KERNEL_VARIABLE)
    if not named:
        return {}
    missing = [name for name in KERNEL_FILES if not (Path(named) / name).is_file()]
    if missing:
        raise FileNotFoundError(f"{KERNEL_VARIABLE}={named} has no {' and no '.join(missing)}")
    return {str(Path(named) / name): f"fastopen/_kernel/{name}" for name in KERNEL_FILES}
