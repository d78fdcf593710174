"""Keep the packets of a run's loads: one pcapng file for each load, in a folder inside the run's folder."""

from pathlib import Path
from typing import Final

from fastopen.common.atomic import write_atomic
from fastopen.common.errors import MachineError
from fastopen.runs.rows import LoadRow, file_name

FOLDER: Final = "packets"
ENDING: Final = "pcapng"
# Enough for the 65,536 frames of each end that the world program keeps (crates/world/src/capture/mod.rs).
MAX_BYTES: Final = 256 * 2**20


def keep_packets(run: Path, number: int, job: str, load: str, pcapng: bytes) -> None:
    """Write the packets of a load (a pcapng file) into the run's folder. `number` is the load's row number.
    Raises MachineError if the write fails."""
    folder = run / FOLDER
    try:
        folder.mkdir(exist_ok=True)
        write_atomic(folder / file_name(number, job, load, ENDING), pcapng)
    except OSError as error:
        message = f"{folder}: packets cannot be written: {error.strerror or error}"
        raise MachineError(message, "free some space there, or run without --pcap") from None


def kept_packets(run: Path, row: LoadRow) -> Path | None:
    """Return the file with a load's packets; None if it is missing, too large, or a link to elsewhere."""
    path = run / FOLDER / packets_name(row)
    if not path.is_file() or path.resolve() != run.resolve() / FOLDER / path.name:
        return None
    return path if path.stat().st_size <= MAX_BYTES else None


def packets_name(row: LoadRow) -> str:
    return file_name(row.number, row.job, row.load, ENDING)
