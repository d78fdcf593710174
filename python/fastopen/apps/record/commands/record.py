"""Define `fastopen record URL... -o FILE`: record live pages with Chromium as one HAR or WACZ."""

import json
import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Final

from typer import Argument, Option

from fastopen.apps.record.browser import LoadError, Recorder
from fastopen.apps.record.har import Loaded, har_of
from fastopen.apps.record.wacz import wacz_of, wire_exchanges
from fastopen.cli.output import EXIT_FAULTS, EXIT_INTERRUPTED, exit_if, print_message
from fastopen.cli.shared_options import QuietOption
from fastopen.common.errors import InputError
from fastopen.common.files import read_bytes, write_file
from fastopen.pages.library import entries_of_list
from fastopen.pages.url import cleaned

PANEL: Final = "Inputs"

PAGES_MAX: Final = 1000
SUFFIXES: Final = (".har", ".wacz")


def command(
    urls: Annotated[list[str], Argument(metavar="URL...", help="Pages, or .pages files that list them.")],
    output: Annotated[
        Path,
        Option("--output", "-o", metavar="FILE", help="A .har, or a .wacz with the bodies as received."),
    ],
    timeout: Annotated[float, Option(min=1, max=600, help="Seconds to wait for a load event.")] = 60.0,
    settle: Annotated[
        float, Option(min=0, max=600, help="Longest time to wait for later requests, in seconds.")
    ] = 5.0,
    insecure: Annotated[bool, Option("--insecure", help="Accept any certificate.")] = False,
    browser_argument: Annotated[
        list[str] | None, Option(metavar="ARGUMENT", help="Additional argument for Chromium; repeatable.")
    ] = None,
    force: Annotated[bool, Option("--force", help="Replace an existing file.")] = False,
    quiet: QuietOption = False,
) -> None:
    """Record live pages with Chromium, as one HAR or WACZ.

    The file has all that fastopen run and fastopen validate need: bodies, headers, initiators, timings, and
    the addresses and RTTs of hosts. Needs Chromium and fastopen's extra `record`."""
    pages = _listed_urls(urls)
    _check_writable(output, replace=force)
    loaded: list[Loaded] = []
    interrupted = False
    with TemporaryDirectory(prefix="fastopen-record-") as folder:
        netlog = Path(folder, "net.json") if output.suffix == ".wacz" else None
        with Recorder(browser_argument or (), insecure=insecure, netlog=netlog) as recorder:
            version = recorder.version
            for number, url in enumerate(pages, start=1):
                try:
                    found = recorder.record(url, timeout_s=timeout, settle_s=settle)
                except LoadError as error:
                    print_message(f"left out: {url}: {error}")
                    continue
                except KeyboardInterrupt:
                    interrupted = True
                    break
                loaded.append(found)
                if not quiet:
                    print_message(f"{number} of {len(pages)}: {url}: {len(found.log.exchanges)} requests")
        exit_if(not loaded, EXIT_INTERRUPTED if interrupted else EXIT_FAULTS)
        write_file(output, _document(loaded, version, netlog))
    exit_if(interrupted, EXIT_INTERRUPTED)
    exit_if(len(loaded) < len(pages))


def _document(loaded: list[Loaded], version: str, netlog: Path | None) -> bytes:
    if netlog is None:
        # Halves of surrogate pairs, which pages may send, become question marks.
        return json.dumps(har_of(loaded, version), ensure_ascii=False).encode(errors="replace")
    urls = {exchange.request_event["request"]["url"] for page in loaded for exchange in page.log.exchanges}
    return wacz_of(loaded, wire_exchanges(netlog, urls), version)


def _check_writable(output: Path, *, replace: bool) -> None:
    if output.is_dir():
        raise InputError("is a folder", str(output), "give a file, such as page.har")
    if output.suffix not in SUFFIXES:
        raise InputError("is neither a .har nor a .wacz", str(output), "give a file, such as page.har")
    if output.exists() and not replace:
        raise InputError("exists already", str(output), "use --force to replace it, or another file with -o")
    if not output.parent.is_dir():
        raise InputError("no such folder", str(output.parent), "create it, or use another file with -o")
    if not os.access(output if output.exists() else output.parent, os.W_OK):
        raise InputError("cannot be written", str(output))


def _listed_urls(arguments: list[str]) -> list[str]:
    found: list[str] = []
    for argument in arguments:
        path = Path(argument)
        if "://" in argument or not path.is_file():
            found.append(_url(argument, argument))
            continue
        listed = entries_of_list(read_bytes(path).decode(errors="replace"), path)
        found += (_url(entry, place) for entry, place in listed)
    if not found:
        raise InputError("has no URL", arguments[0], "write one URL on each line")
    if len(found) > PAGES_MAX:
        raise InputError(f"{len(found)} pages are too many", arguments[0], f"give at most {PAGES_MAX}")
    return found


def _url(text: str, place: str) -> str:
    url = text if "://" in text else f"http://{text}"
    if cleaned(url) is None or any(c.isspace() for c in url):
        raise InputError(f"{text[:80]!r} is not a file or web URL", place, "write https://HOST/")
    return url
