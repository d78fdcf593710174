"""A run in the formats of other programs: Parquet, CSV and HAR."""

from fastopen.runs.export.formats import Format, export
from fastopen.runs.export.har import har_document
