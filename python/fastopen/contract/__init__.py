"""The contract with the world program, docs/contract.md, as types: jobs that go in, records that come out."""

from fastopen.contract.job import (
    CONTRACT,
    Client,
    Job,
    LoadSpec,
    Network,
    Origins,
    RateLimit,
    Tcp,
    Tls,
    Tolerance,
)
from fastopen.contract.records import (
    Connection,
    EndRecord,
    ErrorRecord,
    Invalid,
    LoadRecord,
    Record,
    Request,
    WorldRecord,
    parse_record,
)

__all__ = [
    "CONTRACT",
    "Client",
    "Connection",
    "EndRecord",
    "ErrorRecord",
    "Invalid",
    "Job",
    "LoadRecord",
    "LoadSpec",
    "Network",
    "Origins",
    "RateLimit",
    "Record",
    "Request",
    "Tcp",
    "Tls",
    "Tolerance",
    "WorldRecord",
    "parse_record",
]
