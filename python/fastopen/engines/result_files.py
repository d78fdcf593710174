"""Read and write the files of a store of results, in a folder or at a URL that fsspec supports."""

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

from fastopen.common.errors import InputError, MachineError, one_line, pip_install

TEMPORARY: Final = ".new-"
FOLDER_NAME_CHARS: Final = 2
NEEDED: Final = f"run {pip_install('fsspec')}, and install the package of its protocol, such as s3fs or gcsfs"
# Keys under which implementations of fsspec report the time of an object's last change.
WRITTEN_KEYS: Final = ("mtime", "LastModified", "last_modified", "updated", "modified", "created")


class DamagedResultError(Exception):
    """Raised if a file is not a complete result. The message gives the reason."""


class KeptFile(NamedTuple):
    """A file in a store of results."""

    name: str
    """The path in the store: `FOLDER/FILE`."""
    bytes: int
    written_s: float
    """The time of the last change in seconds since 1970, or infinity if it is unknown."""

    @property
    def unfinished(self) -> bool:
        """Return True if the file is temporary: a process is writing it, or was interrupted."""
        return self.name.rpartition("/")[2].startswith(TEMPORARY)


def files_at(place: str | os.PathLike[str]) -> "ResultFiles":
    """Return an object that reads and writes the files of a store in a folder or at a URL. Raises InputError
    if the URL's protocol is unknown, and MachineError if the URL cannot be reached."""
    text = os.fspath(place)
    scheme, separator, rest = text.partition("://")
    if separator and scheme != "file":
        return RemoteFiles(text)
    return FolderFiles(Path(rest if separator else text))


class FolderFiles:
    """The files of a store of results in a folder. Several processes and machines may use them at once.

    All methods may raise OSError. `place` is the folder's path, for messages."""

    def __init__(self, folder: Path) -> None:
        """Use `folder`, which may not exist yet."""
        self.folder = folder
        self.place = str(folder)

    def _path(self, name: str) -> Path:
        path = self.folder / name
        if path.parent != self.folder and path.parent.is_symlink():
            raise OSError(errno.ELOOP, "a folder in it is a link", str(path.parent))
        return path

    def read(self, name: str, limit: int) -> bytes:
        """Read the first `limit` bytes of a file. Raises DamagedResultError if it is not a regular file."""
        path = self._path(name)
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise DamagedResultError("a link") from None
            raise
        with open(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise DamagedResultError("not a regular file")
            return file.read(limit)

    def write(self, name: str, data: bytes, *, replace: bool = False) -> bool:
        """Write a file atomically, and return True. If it exists, and `replace` is False, return False."""
        path = self._path(name)
        if not replace and path.exists():
            return False
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_name(f"{TEMPORARY}{secrets.token_hex(8)}")
        try:
            new.write_bytes(data)
            if not replace:
                with suppress(PermissionError):  # a file system without hard links
                    os.link(new, path)  # atomic on local disks and on NFS
                    return True
            os.replace(new, path)
        except FileExistsError:
            return False
        finally:
            with suppress(OSError):
                new.unlink()
        return True

    def remove(self, name: str) -> None:
        self._path(name).unlink(missing_ok=True)

    def exists(self, name: str) -> bool:
        return (self.folder / name).exists()

    def kept(self) -> Iterator[KeptFile]:
        """Yield all files, also temporary ones, but no contradictory results (in the folder `disputed`)."""
        # Folders that are links may lead out of the store.
        for folder in sorted(self.folder.iterdir()):
            if len(folder.name) == FOLDER_NAME_CHARS and folder.is_dir() and not folder.is_symlink():
                for path in folder.iterdir():
                    with suppress(FileNotFoundError):  # another process may remove files meanwhile
                        found = path.lstat()
                        if not stat.S_ISDIR(found.st_mode):
                            yield KeptFile(f"{folder.name}/{path.name}", found.st_size, found.st_mtime)

    def names(self, folder: str = "") -> list[str]:
        """Return the names of files and folders in a folder of the store; [] if the folder is missing."""
        try:
            return os.listdir(self.folder / folder)
        except FileNotFoundError:
            return []


class RemoteFiles:
    """The files of a store of results at a URL, with the methods of FolderFiles."""

    # On services without conditional writes, two processes may both succeed in creating the same file. This
    # does no harm, because both write the same content.

    def __init__(self, url: str) -> None:
        """Open a URL. Raises InputError if its protocol is unknown, MachineError if it cannot be reached."""
        try:
            import fsspec

            self._system, self._root = fsspec.url_to_fs(url, use_listings_cache=False)
        except ImportError as error:
            raise MachineError(f"{url} cannot be reached: {_said(error)}", NEEDED) from None
        except ValueError as error:
            fault = _said(error).replace("Protocol not known:", "unknown protocol")
            raise InputError(fault, url, "use a folder, or a URL such as s3://BUCKET/DIR") from None
        except Exception as error:  # implementations of protocols raise errors of any type
            raise MachineError(f"{url} cannot be reached: {_said(error)}", "check its settings") from None
        self._root = self._root.rstrip("/")
        self.place = url.rstrip("/")

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}" if name else self._root

    def read(self, name: str, limit: int) -> bytes:
        with _os_errors():
            data: bytes = self._system.cat_file(self._path(name), start=0, end=limit)
        return data

    def write(self, name: str, data: bytes, *, replace: bool = False) -> bool:
        path, mode = self._path(name), "overwrite" if replace else "create"
        exists = () if replace else (FileExistsError,)
        with suppress(*exists), _os_errors():
            try:
                self._system.pipe_file(path, data, mode=mode)
            except FileNotFoundError:
                # Some services need existing folders. Do not create a bucket: its name may be misspelled.
                folders = [path[:end] for end, char in enumerate(path) if char == "/" and end]
                for folder in folders[1:]:
                    with suppress(FileExistsError, NotImplementedError):
                        self._system.mkdir(folder, create_parents=False)
                self._system.pipe_file(path, data, mode=mode)
            return True
        return False

    def remove(self, name: str) -> None:
        with suppress(FileNotFoundError), _os_errors():
            self._system.rm_file(self._path(name))

    def exists(self, name: str) -> bool:
        with _os_errors():
            return bool(self._system.exists(self._path(name)))

    def kept(self) -> Iterator[KeptFile]:
        with _os_errors():
            found: dict[str, dict[str, Any]] = self._system.find(self._root, detail=True)
        for path, facts in sorted(found.items()):
            folder, _, name = path.removeprefix(self._root).lstrip("/").partition("/")
            if len(folder) == FOLDER_NAME_CHARS and name and "/" not in name:
                yield KeptFile(f"{folder}/{name}", int(facts.get("size") or 0), _written_s(facts))

    def names(self, folder: str = "") -> list[str]:
        try:
            with _os_errors():
                listed: list[str] = self._system.ls(self._path(folder), detail=False)
        except FileNotFoundError:
            return []
        return [path.rstrip("/").rpartition("/")[2] for path in listed]


ResultFiles = FolderFiles | RemoteFiles


@contextmanager
def _os_errors() -> Iterator[None]:
    try:
        yield
    except OSError:
        raise
    except Exception as error:  # libraries such as s3fs raise errors of their own
        raise OSError(_said(error)) from None


def _said(error: Exception) -> str:
    return one_line(str(error)) or type(error).__name__


def _written_s(facts: dict[str, Any]) -> float:
    for value in map(facts.get, WRITTEN_KEYS):
        match value:
            case datetime():
                return value.timestamp()
            case int() | float():
                return float(value)
            case str():
                with suppress(ValueError):
                    return datetime.fromisoformat(value).timestamp()
    return float("inf")
