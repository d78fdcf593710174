"""Write files atomically: a reader never sees an incomplete file."""

import os
import tempfile
from pathlib import Path


def write_atomic(path: Path | str, content: str | bytes) -> None:
    """Write a file atomically.

    A reader sees the old file or the new one, even if the disk is full or the process is killed. A file that
    is not regular, such as /dev/stdout, is written in place. Raises OSError."""
    path = Path(path)
    data = content.encode() if isinstance(content, str) else content
    if path.exists() and not path.is_file():
        path.write_bytes(data)
        return
    path = path.resolve()
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.chmod(temporary, path.stat().st_mode if path.exists() else 0o666 & ~_mask())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def _mask() -> int:
    """Return the process's umask, which can only be read by setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
