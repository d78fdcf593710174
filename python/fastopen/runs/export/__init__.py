"""Export runs in the formats of other programs: Parquet, CSV, HAR and PNG."""

from fastopen.runs.export.formats import Format, export
