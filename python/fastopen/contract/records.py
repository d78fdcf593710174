"""The answers of the world program: one record a line, with its kind in `type`.

Unknown keys are skipped, because a newer program of the same contract may add some. Known keys are checked
strictly. Kept runs are read under the names of the contract that wrote them. Schema and tables are made of
these models, like those of jobs.
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
    """A piece of the packets of a load, where the job asked for them (`packets`): what crossed the interfaces
    of both ends, with the hosts' names and the secrets of TLS. The load's own record comes after the last."""

    type: Literal["packets"]
    job: str
    id: str
    pcapng: str
    """In base64: the pieces of a load, one after another, are a file in the format pcapng."""
    dropped: Count
    """How many of the load's packets found no more room, and are not in it."""


class EndRecord(RecordPart):
    """The job is done and its world is gone."""

    type: Literal["end"]
    job: str
    loads: Count
    """How many records of loads were written."""
    teardown_us: Count
    """How long ending the world took."""


class ErrorRecord(RecordPart):
    """Something could not be done, and whose fault that is. The job is over."""

    type: Literal["error"]
    job: str | None
    """The id of the job; null: no job could be read."""
    fault: Literal["input", "machine", "world", "internal"]
    """Whose it is: what was asked, this machine, a world that came out other than asked, or the program."""
    message: str
    """What was wrong, and where."""
    remedy: str = ""
    """What to do; may be empty."""


Record = WorldRecord | LoadRecord | TransactionsRecord | PacketsRecord | EndRecord | ErrorRecord


@cache
def record_adapter() -> TypeAdapter[Record]:
    """Return the reader of records by their `type`, made at its first use."""
    return TypeAdapter(Annotated[Record, Field(discriminator="type")])


class RecordError(ValueError):
    """A line that the contract does not allow; the text says why."""


class ContractError(RecordError):
    """A world that speaks another version of the contract."""


def parse_record(line: bytes | str) -> Record:
    """One line of the program's output. Raises RecordError, and ContractError for another contract."""
    try:
        record = record_adapter().validate_json(line)
    except ValidationError as error:
        first = problems_of(error)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise RecordError(f"{place}: {first['msg']}" if place else first["msg"]) from None
    if isinstance(record, WorldRecord) and record.contract != CONTRACT:
        raise ContractError(
            f"the world program speaks contract {record.contract}, this is contract {CONTRACT}"
        )
    return record
