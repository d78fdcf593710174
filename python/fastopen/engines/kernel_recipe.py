"""Read the recipe, in the folder `kernel/`, for building the virtual engine's kernel from Linux sources."""

import hashlib
import re
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from fastopen.common.errors import MachineError
from fastopen.common.resources import packaged_folder
from fastopen.engines.kernels import Kernel


@dataclass(frozen=True)
class Recipe:
    """The files to build the virtual engine's kernel. `config` has the options. `unused` lists source files
    not to unpack. `trial` is a C program that tests a new kernel. `headers` is a header to precompile."""

    config: Path
    patches: tuple[Path, ...]
    unused: Path
    trial: Path
    headers: Path

    @property
    def config_sha256(self) -> str:
        """Return the SHA-256 of the kernel's options. Their order, and comments, do not change it."""
        return hashlib.sha256("\n".join(sorted(self.options().values())).encode()).hexdigest()

    @property
    def patches_sha256(self) -> str:
        return hashlib.sha256(b"".join(path.read_bytes() for path in self.patches)).hexdigest()

    def copied_to(self, folder: Path) -> "Recipe":
        """Copy the recipe to `folder`, so that edits during a build do not matter, and return the copy."""
        (folder / "patches").mkdir(parents=True)
        for path in (self.config, self.unused, self.trial, self.headers, *self.patches):
            shutil.copyfile(path, folder / path.relative_to(self.config.parent))
        return read_recipe(folder)

    def options(self) -> dict[str, str]:
        """Map the name of each requested option to its line: `CONFIG_HZ` -> `CONFIG_HZ=250`."""
        return options_in(self.config.read_text(encoding="utf-8"))


def read_recipe(folder: Path | None = None) -> Recipe:
    """Return the recipe in `folder` or, by default, fastopen's own. Raises MachineError if there is none."""
    found = folder or packaged_folder("kernel")
    if found is None or not (found / "config").is_file():
        raise MachineError("the folder kernel/ is missing from this installation", "install fastopen again")
    patches = tuple(sorted((found / "patches").glob("*.patch")))
    return Recipe(found / "config", patches, found / "unused", found / "trial.c", found / "headers.h")


def options_in(text: str) -> dict[str, str]:
    """Map the name of each option in the text of a kernel configuration to its line."""
    return {line.split("=", 1)[0]: line for line in re.findall(r"^CONFIG_\w+=.+$", text, re.MULTILINE)}


def is_built_from(kernel: Kernel, recipe: Recipe) -> bool:
    known = kernel.manifest
    return (known.config_sha256, known.patches_sha256) == (recipe.config_sha256, recipe.patches_sha256)


def is_outdated(kernel: Kernel) -> bool:
    """Return True if this version of fastopen would build `kernel` with other options or patches."""
    with suppress(MachineError):
        return not is_built_from(kernel, read_recipe())
    return False
