"""Write the paper's four pages: `PYTHONPATH=tools python -m packaged_pages.snapshot BODIES LOGS OUT`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from fastopen.common.errors import InputError
from fastopen.pages.model import write_page
from packaged_pages.snapshot.build import build_page, claimed
from packaged_pages.snapshot.fetchlog import FetchLog, parse_fetchlog

# Names of the pages by the file names of their logs.
PAGES: Final = {
    "httpwww.amazon.com": "amazon",
    "httpwww.nytimes.com": "nytimes",
    "httpwww.wsj.com": "wsj",
    "httpen.wikipedia.orgwikiTransmission_Control_Protocol": "wikipedia-tcp",
}


def make_pages(bodies: Path, logs: Path, out: Path) -> list[Path]:
    """Write the four pages into `out`. Raises InputError if an input is missing or damaged."""
    for folder in (bodies, logs, out):
        if not folder.is_dir():
            raise InputError("no such folder", str(folder))
    read: dict[str, FetchLog] = {}
    for file, name in PAGES.items():
        path = logs / file
        if not path.is_file():
            raise InputError("no such log", str(path))
        read[name] = parse_fetchlog(path.read_text("utf-8", "replace"), str(path))
    written = []
    for name, log in read.items():
        others = [claimed(o, bodies) for other, o in read.items() if other != name]
        path = out / f"{name}.page.json"
        write_page(build_page(name, log, bodies, set().union(*others)), path)
        written.append(path)
    return written


def main(arguments: list[str]) -> int:
    if len(arguments) != 3:
        print("usage: PYTHONPATH=tools python -m packaged_pages.snapshot BODIES LOGS OUT", file=sys.stderr)
        return 2
    try:
        for path in make_pages(*(Path(argument) for argument in arguments)):
            print(path)
    except InputError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
