"""Files are written completely or not at all."""

import os
import resource
import stat
from pathlib import Path

import pytest

from fastopen.common.files import write_atomic


def test_a_file_is_written_and_written_over(tmp_path: Path) -> None:
    for content in ("first\n", b"second\n"):
        write_atomic(tmp_path / "a", content)
        assert (tmp_path / "a").read_bytes() == (content if isinstance(content, bytes) else content.encode())
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_new_file_obeys_the_umask_and_an_old_one_keeps_its_mode(tmp_path: Path) -> None:
    old = os.umask(0o027)
    try:
        write_atomic(tmp_path / "new", "")
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o640
    (tmp_path / "new").chmod(0o600)
    write_atomic(tmp_path / "new", "again")
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o600


def test_where_there_is_no_room_the_old_file_stays(tmp_path: Path) -> None:
    write_atomic(tmp_path / "a", "old")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            write_atomic(tmp_path / "a", "x" * 10_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert (tmp_path / "a").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_link_is_followed_and_a_pipe_is_written_to(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "target")
    write_atomic(tmp_path / "link", "through")
    assert (tmp_path / "target").read_text() == "through"
    reading, writing = os.pipe()
    write_atomic(f"/dev/fd/{writing}", "piped")
    os.close(writing)
    assert os.read(reading, 100) == b"piped"
    os.close(reading)
