"""Shorten the URLs of packaged pages and remove queries, which may identify visitors."""

from __future__ import annotations

import hashlib
from typing import Final

_MAX_URL: Final = 120


def shortened(url: str) -> str:
    """Return at most 120 characters of a URL. A checksum replaces its end, so that URLs stay distinct."""
    return url if len(url) <= _MAX_URL else f"{url[: _MAX_URL - 9]}{_checksum(url)}"


def without_query(url: str) -> str:
    """Return a URL with a checksum instead of its query, because recorded queries may identify visitors."""
    path, query, _ = url.partition("?")
    return shortened(path + _checksum(url) if query else url)


def _checksum(url: str) -> str:
    return f"~{hashlib.sha256(url.encode()).hexdigest()[:8]}"
