"""Include an installed kernel in the wheel, and the offer of its source code, which its licence requires.

FASTOPEN_WHEEL_KERNEL names the kernel's folder.
"""

import json
import os
import re
from pathlib import Path
from typing import Any, Final

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

VARIABLE: Final = "FASTOPEN_WHEEL_KERNEL"
KERNEL_FILES: Final = ("linux", "manifest.json")
# The lowest minor version of glibc in a platform tag, the version of manylinux2014.
GLIBC_MIN: Final = 17
OFFER: Final = """# The source of this kernel

`linux` was built by `fastopen kernel build` (fastopen {version}) of

| | |
|---|---|
| source package | `{source}` {source_version} |
| SHA-256 of the package | `{source_sha256}` |
| Linux | {version_of_linux} |
| options (`config`), SHA-256 | `{config_sha256}` |
| patches (`patches/`), SHA-256 | `{patches_sha256}` |
| compiler | {compiler} |
| program (`linux`), SHA-256 | `{sha256}` |

The folder of this file also holds the options, the patches, the list of files that are not unpacked, the
headers and the trial's program; `scripts/` are the scripts that control the build, as of fastopen
{version}. The source package is Debian's: `apt-get download {source}={source_version}`; Debian's
snapshot archive keeps every version for good. With it, `fastopen kernel build --source FILE.deb` builds
this kernel again.

Whoever has this wheel may have, for at least three years and at no more than the cost of copying, the
complete source that corresponds to it in machine-readable form from the maintainers of fastopen, at the
address of the project (GPL-2.0, section 3b).
"""


class KernelHook(BuildHookInterface[Any]):
    """Include the kernel, and set the platform tag to the version of glibc that the kernel needs."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002  # hatchling's
        """Add files and tag to `build_data`. Hatchling calls this before it builds a wheel."""
        named = os.environ.get(VARIABLE, "")
        missing = [name for name in KERNEL_FILES if not (Path(named) / name).is_file()]
        if not named or missing:
            raise FileNotFoundError(f"{VARIABLE}={named} has no {' and no '.join(missing)}")
        kernel, project = Path(named), Path(self.root).parents[1]
        build_data["tag"] = f"py3-none-{platform_tag((kernel / 'linux').read_bytes())}"
        build_data["pure_python"] = False
        build_data["force_include"].update(
            {str(kernel / name): f"fastopen_kernel/{name}" for name in KERNEL_FILES}
        )
        build_data["force_include"].update(self._source(project))
        offer = Path(self.directory) / "SOURCE.md"
        offer.parent.mkdir(parents=True, exist_ok=True)
        offer.write_text(source_offer(kernel / "manifest.json", self.metadata.version), encoding="utf-8")
        build_data["force_include"][str(offer)] = "fastopen_kernel/source/SOURCE.md"

    def finalize(self, *_: object) -> None:
        """Remove SOURCE.md, which was written only for the wheel."""
        (Path(self.directory) / "SOURCE.md").unlink(missing_ok=True)

    def _source(self, project: Path) -> dict[str, str]:
        package = project / "python/fastopen"
        scripts = sorted([*package.glob("apps/kernels/[!_]*.py"), *package.glob("engines/kernel*.py")])
        return {
            str(project / "kernel"): "fastopen_kernel/source",
            **{str(path): f"fastopen_kernel/source/scripts/{path.name}" for path in scripts},
        }


def platform_tag(program: bytes) -> str:
    """Return the PEP 600 tag for the newest version of a glibc symbol that the program needs."""
    needed = [int(minor) for minor in re.findall(rb"\0GLIBC_2\.(\d+)(?=[\0.])", program)]
    return f"manylinux_2_{max([GLIBC_MIN, *needed])}_x86_64"


def source_offer(manifest: Path, version: str) -> str:
    """Return a text for everybody who has the wheel: how to get the complete source of the kernel."""
    known = json.loads(manifest.read_text(encoding="utf-8"))
    return OFFER.format(**{**known, "version_of_linux": known["version"], "version": version})
