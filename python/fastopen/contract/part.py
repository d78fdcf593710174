"""Define the base classes of the parts of jobs and records, and types and bounds that several parts share."""

from typing import Annotated, Final

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

RTT_MAX_US: Final = 60_000_000
# The kernel's MAX_ARG_STRLEN without the NUL at the end.
WORD_MAX_BYTES: Final = 131_071
SCALE_MAX: Final = 1000
RttUs = Annotated[int, Field(ge=0, le=RTT_MAX_US)]
Scale = Annotated[float, Field(ge=0, le=SCALE_MAX)]
Count = Annotated[int, Field(ge=0)]
NotEmpty = Annotated[str, Field(min_length=1)]


def _can_be_passed_on(word: str) -> str:
    if len(word.encode()) > WORD_MAX_BYTES:
        raise ValueError(f"is longer than {WORD_MAX_BYTES} bytes")
    return word


# A word of a command line that the kernel can pass to a program.
Word = Annotated[str, Field(pattern=r"^[^\x00]*$"), AfterValidator(_can_be_passed_on)]


class Part(BaseModel):
    """Base class of strict models, such as the parts of a job: unknown keys and wrong types are errors."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, defer_build=True)


class RecordPart(BaseModel):
    """Base class of records and their parts. It ignores unknown keys and rejects values of the wrong type."""

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True, defer_build=True)
