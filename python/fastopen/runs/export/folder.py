"""Write a folder under a temporary name, and rename it at the end, so no reader sees half a folder."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from fastopen.common.errors import InputError, MachineError, unwritable

# The suffix of an incomplete folder. If an export is killed, the next export to the same place removes it.
UNFINISHED: Final = ".unfinished"
# The suffixes of exported files. A folder with other files is not replaced.
EXPORT_SUFFIXES: Final = (".parquet", ".csv", ".har", ".png", ".gif", ".pcapng")


@contextmanager
def atomic_folder(folder: Path, *, replace: bool = False) -> Iterator[Path]:
    """Yield an empty folder that is renamed to `folder` at the end. Raises InputError, MachineError."""
    unfinished = folder.with_name(folder.name + UNFINISHED)
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            if not replace:
                remedy = "use --force to replace it, or another folder with --output"
                raise InputError("exists already", str(folder), remedy)
            if not folder.is_dir() or any(
                one.suffix not in EXPORT_SUFFIXES or not one.is_file() for one in folder.iterdir()
            ):
                raise InputError("contains files that are not an export", str(folder), "use another folder")
        folder.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir()
    except OSError as error:
        raise unwritable(folder, error) from None
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
