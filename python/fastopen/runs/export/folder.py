"""Write a folder under a temporary name, and rename it when complete, so that no reader sees half of it."""

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal, get_args

from fastopen.common.errors import InputError, MachineError, os_errors_as, unwritable
from fastopen.runs.flat_tables import TABLES

# The temporary name of a folder. No user's folder has such a name, so a folder with this name comes from a
# killed export, and the next export to the same place removes it.
UNFINISHED: Final = ".{}.fastopen-unfinished"
# The formats of exports, which are also the names of their folders in a run's folder.
ExportFormat = Literal["parquet", "csv", "har", "png", "filmstrip", "pcap"]
FORMATS: Final[tuple[ExportFormat, ...]] = get_args(ExportFormat)
# The names of exported files: of tables, of loads (000001-JOB-LOAD.har) and of film strips (001-PAGE.png).
_EXPORTED: Final = re.compile(rf"({'|'.join(TABLES)})\.(parquet|csv)|\d{{3,}}-.+\.(har|png|gif|pcapng)")


def is_exported(path: Path) -> bool:
    """Return True if `path` is a regular file with a name that exports use for their files."""
    return path.is_file() and not path.is_symlink() and _EXPORTED.fullmatch(path.name) is not None


@contextmanager
def atomic_folder(folder: Path, *, replace: bool = False) -> Iterator[Path]:
    """Yield an empty folder with a temporary name, and rename it to `folder` after the `with` block. With
    `replace`, remove an earlier export in `folder`, but raise InputError if `folder` has other files. Without
    `replace`, raise InputError if `folder` is not empty. Convert an OSError in the block to MachineError."""
    folder = Path(os.path.abspath(folder))  # the path `.` has no name
    with os_errors_as(unwritable, folder):
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            if not replace:
                remedy = "use --force to replace it, or another folder with --output"
                raise InputError("exists already", str(folder), remedy)
            if not folder.is_dir() or not all(map(is_exported, folder.iterdir())):
                raise InputError("contains files that are not an export", str(folder), "use another folder")
        unfinished = folder.with_name(UNFINISHED.format(folder.name))
        folder.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir()
    try:
        yield unfinished
        if replace:
            shutil.rmtree(folder, ignore_errors=True)
        unfinished.rename(folder)
    except OSError as error:
        message = f"{folder}: cannot be written: {error.strerror or error}; nothing was written"
        raise MachineError(message, "free some space there, or use another folder with --output") from None
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
