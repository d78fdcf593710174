"""Define `fastopen browse`: show stored runs in a web browser on this machine."""

import asyncio
import webbrowser
from pathlib import Path
from typing import Annotated, Final

from typer import Argument, Option

from fastopen.cli.output import print_line, print_message
from fastopen.common.errors import InputError, unreadable
from fastopen.runs import runs_folder

PANEL: Final = "Read a result"


def command(
    folder: Annotated[
        Path | None,
        Argument(metavar="FOLDER", help="A folder with runs in it, or a run. (default: your runs)"),
    ] = None,
    port: Annotated[
        int, Option(min=0, max=65535, metavar="PORT", help="Port on 127.0.0.1; 0 for a free one.")
    ] = 0,
    open_it: Annotated[bool, Option("--open", help="Open the address in your web browser.")] = False,
) -> None:
    """Show kept runs in a web browser until you press Ctrl-C: reports, single loads and comparisons."""
    # The web framework and the figures take a second to import, which other commands must not wait for.
    from fastopen.apps.browse.serving import serve

    place = folder or runs_folder()
    if folder is not None:
        try:
            list(folder.iterdir())
        except (FileNotFoundError, NotADirectoryError):
            remedy = "give a folder of runs, or leave it out to browse your kept runs"
            raise InputError("no such folder", str(folder), remedy) from None
        except OSError as error:
            raise unreadable(folder, error) from None

    def announce(address: str) -> None:
        print_line(address)
        print_message(f"runs of {place}; press Ctrl-C to stop")
        if open_it:
            webbrowser.open(address)

    asyncio.run(serve(place, port, announce))
