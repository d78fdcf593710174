"""Check that recorded bodies are unchanged when a run is resumed. Runs keep only digests of the bodies."""

import hashlib
from collections.abc import Mapping

from fastopen.common.errors import InputError
from fastopen.engines.base import Bodies


def bodies_digests(bodies: Bodies) -> dict[str, str]:
    """Return the SHA-256 of each page's recorded bodies, by page name. Pages without bodies are omitted."""
    return {page: _digest(of_page) for page, of_page in bodies.items() if of_page}


def check_bodies(kept: Mapping[str, str], bodies: Bodies, place: str) -> None:
    """Raise InputError if a page's bodies do not match `kept`, the digests from the start of the run."""
    found = bodies_digests(bodies)
    for page in dict.fromkeys([*kept, *found]):
        if kept.get(page) != found.get(page):
            message = f"page {page} was served other recorded bodies when this run started"
            raise InputError(message, place, "give the unchanged inputs again: fastopen resume RUN INPUT...")


def _digest(of_page: Mapping[int, bytes]) -> str:
    digest = hashlib.sha256()
    for index, body in sorted(of_page.items()):
        digest.update(f"{index} {len(body)}\n".encode())
        digest.update(body)
    return digest.hexdigest()
