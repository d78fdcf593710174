"""Define the input (jobs) and output (records) of the Rust program that loads pages, and types of clients."""

from fastopen.contract.client import Client
from fastopen.contract.invalid_kinds import Invalid, InvalidKind
from fastopen.contract.job import CONTRACT, Flood, Job, LoadSpec, Tolerance, Transactions
from fastopen.contract.load_record import Connection, LoadRecord, Request
from fastopen.contract.network import LinkDirection, Network, Tcp
from fastopen.contract.origins import Origins, Tls
from fastopen.contract.records import (
    EndRecord,
    EngineName,
    ErrorRecord,
    PacketsRecord,
    ServerCore,
    TransactionsRecord,
    WorldRecord,
    parse_record,
)
