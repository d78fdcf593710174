"""Write files atomically: a reader never sees an incomplete file."""

import os
import secrets
import stat
from pathlib import Path

from fastopen.common.closing import on_error


def write_atomic(path: Path | str, content: str | bytes) -> None:
    """Write a file atomically.

    A reader sees either the old or the new content, even if the disk is full or the process is killed. A file
    that is not regular, such as /dev/stdout, is written directly. Raises OSError if writing fails."""
    path = Path(path)
    data = content.encode() if isinstance(content, str) else content
    if path.exists() and not path.is_file():
        path.write_bytes(data)
        return
    path = path.resolve()
    mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else None
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    created = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666 if mode is None else mode)
    with on_error(temporary.unlink):
        with os.fdopen(created, "wb") as file:
            file.write(data)
        if mode is not None:
            temporary.chmod(mode)  # the umask may have removed bits
        temporary.replace(path)
