"""Define `fastopen kernel build`, `info`, `list` and `remove`, for the virtual engine's kernels."""

import re
from typing import Annotated, Any, Final

from typer import Argument, Typer

from fastopen.apps.kernels.build import BuildRequest, build_kernel
from fastopen.apps.kernels.compile import FILES_ABOUT
from fastopen.cli.output import errors_console, print_grid, print_json, print_line
from fastopen.cli.progress import LiveBar
from fastopen.cli.shared_options import JsonOption, QuietOption, with_settings
from fastopen.common.errors import InputError
from fastopen.common.grid import figures, keys, listing
from fastopen.engines import kernels
from fastopen.engines.kernel_recipe import is_outdated
from fastopen.engines.kernels import Kernel


class BuildWatcher(LiveBar):
    """Print each stage of a build: on a terminal when the stage ends, elsewhere when it starts."""

    _stage = _detail = ""
    _stage_started_s = 0.0

    def __exit__(self, *raised: object) -> None:
        if raised[0] is None:
            self._end_stage()
        super().__exit__(*raised)

    def __call__(self, stage: str, detail: str, files: int) -> None:
        new = stage != self._stage
        if new:
            self._end_stage()
            self._stage_started_s = self.elapsed_s
        self._stage, self._detail = stage, detail
        total = max(files, FILES_ABOUT) if files else None
        counted = f": {files} files of about {total}" if files else ""
        self.update(f"{stage} {detail}{counted}", files, total, now=new)

    def _end_stage(self) -> None:
        if self._stage and self._bar is not None:
            took_s = self.elapsed_s - self._stage_started_s
            self.print(f"{took_s:6.1f} s  {self._stage}, {self._detail}")


PANEL: Final = "Trust"

command = Typer(no_args_is_help=True, help="Build, test, list and remove the virtual engine's kernels.")


@command.command("build")
@with_settings
def build(request: BuildRequest, quiet: QuietOption = False, json: JsonOption = False) -> None:
    """Build a kernel for the virtual engine, test it, and install it in your cache.

    Takes minutes the first time. Needs no root. apt's signatures are checked as usual."""
    version = request.series
    if version is not None and request.source is not None:
        raise InputError("cannot be combined with --source", "--version", "drop one of them")
    if version is not None and not re.fullmatch(r"\d+\.\d+", version):
        raise InputError(f"{version!r} is not a version of Linux", "--version", "write X.Y, such as 6.12")
    with BuildWatcher(errors_console(), quiet) as watcher:
        built = build_kernel(request, watcher)
    if json:
        print_json({"new": built.new, **described(built.kernel)})
        return
    what = "built" if built.new else "already installed; --force builds it again"
    print_line(f"{built.kernel.name}: {what}")


@command.command("info")
def info(
    name: Annotated[
        str | None, Argument(help="A kernel's name or its beginning. (default: the one in use)")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Print the version, source and build settings of a kernel."""
    facts = described(kernels.find(name))
    if json:
        print_json(facts)
        return
    outdated = facts.pop("outdated")
    for key, value in facts.items():
        words = value if isinstance(value, list) else [] if value is None else [value]
        print_line(f"{key.replace('_', ' '):20} {' '.join(map(str, words)) or 'none'}")
    if outdated:
        print_line(f"built by another version of fastopen; to do: {kernels.BUILD_IT}")


@command.command("list")
def list_kernels(json: JsonOption = False) -> None:
    """List the installed kernels, starting with the one in use."""
    usable, damaged = kernels.find_all()
    if json:
        broken = [{"folder": str(folder), "reason": fault} for folder, fault in damaged.items()]
        print_json({"kernels": [described(kernel) for kernel in usable], "damaged": broken})
        return
    if not usable and not damaged:
        print_line("no kernel is installed; to do: fastopen kernel build")
    elif usable:
        columns = (*keys("kernel", "made of"), *figures("HZ", "size"), *keys("built"))
        rows = (
            (
                *(known.name, f"{known.source} {known.source_version}", str(known.hz)),
                *(f"{known.size_bytes / 1e6:.1f} MB", known.built[:10]),
            )
            for known in (kernel.manifest for kernel in usable)
        )
        print_grid(listing(columns, rows))
    for folder, fault in damaged.items():
        print_line(f"damaged: {folder.name}: {fault}")
        print_line(f"  to do: fastopen kernel remove {folder.name}")


@command.command("remove")
def remove(name: Annotated[str, Argument(help="A kernel's name or the beginning of one.")]) -> None:
    """Remove an installed kernel."""
    print_line(f"{kernels.remove(name).name}: removed")


def described(kernel: Kernel) -> dict[str, Any]:
    """Return facts about a kernel for JSON: its path, its manifest, and `outdated` (see `is_outdated`)."""
    return {"path": str(kernel.path), **kernel.manifest.model_dump(), "outdated": is_outdated(kernel)}
