"""Audit: what is impossible or inconsistent in a table of published page load times."""

from fastopen.audit.findings import Finding, Kind
from fastopen.audit.rules import audit
from fastopen.audit.table import PrintedCell, read_table

__all__ = ["Finding", "Kind", "PrintedCell", "audit", "read_table"]
