"""Store the packets of a run's page loads: one pcapng file for each load, in a subfolder of the run."""

from pathlib import Path
from typing import Final

from fastopen.common.errors import MachineError
from fastopen.common.files import write_atomic
from fastopen.runs.rows import LoadRow, file_name

FOLDER: Final = "packets"
ENDING: Final = "pcapng"
# Enough for the largest capture of the program that emulates networks (crates/world/src/capture/mod.rs).
MAX_BYTES: Final = 256 * 2**20


def keep_packets(run: Path, number: int, job: str, load: str, pcapng: bytes) -> None:
    """Write `pcapng`, a file with the packets of a load, into the folder of `run`. The load's number in the
    run and the ids `job` and `load` give the file its name. Raises MachineError if the write fails."""
    folder = run / FOLDER
    try:
        folder.mkdir(exist_ok=True)
        write_atomic(folder / file_name(number, job, load, ENDING), pcapng)
    except OSError as error:
        message = f"{folder}: packets cannot be written: {error.strerror or error}"
        raise MachineError(message, "free some space there, or run without --pcap") from None


def kept_packets(run: Path, row: LoadRow) -> Path | None:
    """Return the packet file of a load; None if missing, over MAX_BYTES, or behind a symlink in `run`."""
    path = run / FOLDER / packets_name(row)
    if not path.is_file() or path.resolve() != run.resolve() / FOLDER / path.name:
        return None
    return path if path.stat().st_size <= MAX_BYTES else None


def packets_name(row: LoadRow) -> str:
    """Return the name, without the folder, of the file for a load's packets."""
    return file_name(row.number, row.job, row.load, ENDING)
