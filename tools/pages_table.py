#!/usr/bin/env python3
"""Print a table of imported recordings, a row for each page, as Markdown (docs/measurements/importers.md).

.venv/bin/python tools/pages_table.py FILE...
"""

from __future__ import annotations

import sys
from collections.abc import Iterable

from fastopen.common.errors import InputError
from fastopen.pages.library import load_pages
from fastopen.pages.recording import ImportedPage

_HEAD = (
    "page",
    "requests",
    "hosts",
    "kB of bodies",
    "initiators recorded",
    "inferred",
    "followed",
    "recorded PLT, s",
)


def markdown(pages: Iterable[ImportedPage]) -> str:
    """Return the table, with sizes in kB of 1000 bytes.

    The column `inferred` includes initiators that were found because a recorded text names the resource.
    `followed` counts targets of redirects and requests after a preflight."""
    lines = ["| " + " | ".join(_HEAD) + " |", "|---|" + "---:|" * (len(_HEAD) - 1)]
    for imported in pages:
        page = imported.page
        counts = [
            _count(page.notes, words)
            for words in ("initiators recorded", "initiators inferred", "that follow")
        ]
        counts[1] += _count(page.notes, "initiators found by")
        plt = "" if imported.recorded_plt_us is None else f"{imported.recorded_plt_us / 1e6:.2f}"
        cells = [len(page.resources), len(page.hosts()), round(page.body_bytes() / 1000), *counts, plt]
        lines.append(f"| {page.name} | " + " | ".join(str(cell) for cell in cells) + " |")
    return "\n".join(lines)


def _count(notes: tuple[str, ...], words: str) -> int:
    """Return the count at the end of the importer's note that contains these words; 0 if there is none."""
    return next((int(note.rpartition(": ")[2]) for note in notes if words in note), 0)


def main(arguments: list[str]) -> int:
    try:
        print(markdown(load_pages(arguments)))
    except InputError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
