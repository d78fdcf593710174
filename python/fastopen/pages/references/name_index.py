"""Texts that can name URLs: each text is read once for all URLs, so the time is linear."""

import re
from collections import defaultdict
from collections.abc import Iterable
from itertools import chain
from typing import Final
from urllib.parse import urlsplit

from fastopen.pages import budget

# What no spelling of a URL changes: neither percent-encoding, nor HTML's escapes, nor those of strings.
_RUN: Final = re.compile(r"[A-Za-z0-9_.-]+")
_SPACES_BETWEEN: Final = bytes(byte if _RUN.fullmatch(chr(byte)) else 0x20 for byte in range(256))
_BYTES_A_STEP: Final = 64
_ESCAPE: Final = re.compile(r"%[0-9A-Fa-f]{2}")


class NameIndex:
    """URLs by the last word of their path, which every text that names them holds."""

    def __init__(self, urls: Iterable[str]) -> None:
        self._with_word: defaultdict[bytes, list[int]] = defaultdict(list)
        self._wordless: list[int] = []
        for number, url in enumerate(urls):
            word = _word(url)
            (self._with_word[word] if word else self._wordless).append(number)

    def named_in(self, text: bytes) -> list[int]:
        """Numbers of the URLs that the text may name, ascending; no other URL is named in it."""
        budget.work(len(text) // _BYTES_A_STEP)
        words = self._with_word.keys() & set(text.translate(_SPACES_BETWEEN).split())
        return sorted([*self._wordless, *chain.from_iterable(self._with_word[word] for word in words)])


def _word(url: str) -> bytes:
    """The longest run in the last part of the path that all spellings share; empty where there is none."""
    parts = [part for part in urlsplit(url).path.partition(";")[0].split("/") if part]
    runs = _RUN.findall(_ESCAPE.sub(" ", parts[-1])) if parts else []
    return max(runs, key=len, default="").encode()
