"""Files that are there whole or not at all."""

import os
import tempfile
from pathlib import Path


def write_atomic(path: Path | str, content: str | bytes) -> None:
    """Writes a file: who reads meanwhile, or after a full disk or a kill, sees the old one or the new one.

    What is no regular file, such as /dev/stdout, is written to as it is. Raises OSError.
    """
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
    """The process's umask, which can only be read by setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
