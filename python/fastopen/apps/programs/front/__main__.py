"""Run a command, report its use of TFO, and end with its exit code or signal. Start this with `python -m`."""

import contextlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.text import Text

from fastopen.apps.programs.front.front import CommandError, end_like, run_supervised
from fastopen.apps.programs.front.words import IN_WORLD, write_report
from fastopen.common.files import write_atomic

FORMAT: Final = "fastopen-exec/1"


def main(settings: str, program: str, *command: str) -> None:
    """Run `command`, report its use of TFO, and end this process with the command's exit code or signal.

    `settings` is a JSON object. Its key `json` selects a JSON report, and `quiet` no report. `report` and
    `pcap` are paths of output files, or null. `job` and `kernel`, if present, are arguments of
    `run_supervised`. `program` is the Rust program that supervises the command or emulates its network."""
    asked = json.loads(settings)
    target = Console(stderr=True, highlight=False, emoji=False)
    files = [Path(asked[name]) for name in ("report", "pcap") if asked[name] is not None]
    try:
        ended = run_supervised(Path(program), command, asked.get("job"), asked.get("kernel"))
    except CommandError as failed:
        _remove_empty(files)
        if failed.signal is None:
            _complain(target, failed)
        end_like(failed.code, failed.signal)
    # Arguments that are not UTF-8 contain surrogates, which cannot be written as UTF-8.
    words = [word.encode(errors="surrogateescape").decode(errors="replace") for word in command]
    del ended["type"]
    form = FORMAT if asked.get("job") is None else IN_WORLD
    document = {"format": form, "command": words, **ended}
    if asked["report"] is not None:
        try:
            write_atomic(Path(asked["report"]), json.dumps(document, indent=2, ensure_ascii=False) + "\n")
        except OSError as error:  # the exit code remains the command's
            _complain(target, f"{asked['report']}: cannot be written: {error.strerror}")
    if "error" in ended:
        _remove_empty(files)
        _complain(target, ended["error"])
    if asked["json"]:
        sys.stderr.write(json.dumps(document) + "\n")
    elif not asked["quiet"]:
        write_report(document, target)
    end_like(document["exit_code"], document["signal"])


def _remove_empty(files: Sequence[Path]) -> None:
    """Remove the empty files among `files`, which were created before the command ran."""
    for path in files:
        with contextlib.suppress(OSError):
            if path.is_file() and not path.stat().st_size:
                path.unlink()


def _complain(target: Console, message: object) -> None:
    target.print(Text.assemble(("error: ", "bold red"), str(message)), soft_wrap=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
