"""URLs as packaged pages have them."""

from __future__ import annotations

import hashlib
from typing import Final

_MAX_URL: Final = 120


def shortened(url: str) -> str:
    """At most 120 characters of a URL; a checksum instead of the rest keeps different ones apart."""
    return url if len(url) <= _MAX_URL else f"{url[: _MAX_URL - 9]}{_checksum(url)}"


def without_query(url: str) -> str:
    """A URL with a checksum instead of its query, in which recordings keep what visitors are known by."""
    path, query, _ = url.partition("?")
    return shortened(path + _checksum(url) if query else url)


def _checksum(url: str) -> str:
    return f"~{hashlib.sha256(url.encode()).hexdigest()[:8]}"
