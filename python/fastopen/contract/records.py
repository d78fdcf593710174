"""Define the output of the world program: one JSON record on each line, with its kind in `type`.

Unknown keys are ignored, because a newer program with the same contract version may add some. Known keys are
validated strictly. Field names of older contracts must stay readable, because kept runs use them. As for
jobs, tools/generate.py makes the JSON schema and the tables in docs/dev/contract.md from these models.
"""

from functools import cache
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter, ValidationError

from fastopen.common.pydantic_errors import problems_of
from fastopen.contract.job import CONTRACT
from fastopen.contract.load_record import LoadRecord
from fastopen.contract.record_part import Count, RecordPart
from fastopen.contract.transactions_record import TransactionsRecord
from fastopen.contract.world_record import WorldRecord


class PacketsRecord(RecordPart):
    """A piece of a load's packet capture, if the job requested one (`packets`): the packets at the interfaces
    of both ends, with the hosts' names and the TLS secrets. The load's record follows the last piece."""

    type: Literal["packets"]
    job: str
    id: str
    pcapng: str
    """The piece in base64. The pieces of a load, one after another, are a file in the format pcapng."""
    dropped: Count
    """The number of the load's packets that were left out because there was no room for them."""


class EndRecord(RecordPart):
    """The end of a job. Its world has been removed."""

    type: Literal["end"]
    job: str
    loads: Count
    """The number of load records that were written."""
    teardown_us: Count
    """The time to remove the world."""


class ErrorRecord(RecordPart):
    """The failure of a job, and the party at fault. The job is over."""

    type: Literal["error"]
    job: str | None
    """The id of the job; null: no job could be read."""
    fault: Literal["input", "machine", "world", "internal"]
    """The party at fault: the input, this machine, a world that differs from the job, or the program."""
    message: str
    """The problem and its place."""
    remedy: str = ""
    """What the user can do; may be empty."""


Record = WorldRecord | LoadRecord | TransactionsRecord | PacketsRecord | EndRecord | ErrorRecord


@cache
def record_adapter() -> TypeAdapter[Record]:
    """Return a parser that selects the model of a record by its `type`. It is created at its first use."""
    return TypeAdapter(Annotated[Record, Field(discriminator="type")])


class RecordError(ValueError):
    """Raised for a line that violates the contract. The message is the reason."""


class ContractError(RecordError):
    """Raised if the world program speaks another version of the contract."""


def parse_record(line: bytes | str) -> Record:
    """Parse one line of the program's output. Raises RecordError, or ContractError for another contract."""
    try:
        record = record_adapter().validate_json(line)
    except ValidationError as error:
        first = problems_of(error)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise RecordError(f"{place}: {first['msg']}" if place else first["msg"]) from None
    if isinstance(record, WorldRecord) and record.contract != CONTRACT:
        raise ContractError(f"the world program speaks contract {record.contract}, not {CONTRACT}")
    return record
