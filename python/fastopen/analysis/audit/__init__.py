"""Audit a table of published page load times: find impossible or inconsistent figures."""

from fastopen.analysis.audit.kinds import QUESTIONS, AuditFinding
from fastopen.analysis.audit.rules import audit
from fastopen.analysis.audit.table import PrintedCell, read_table
