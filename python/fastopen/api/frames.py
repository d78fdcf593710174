"""Make pandas data frames of a run. Without pandas, an optional dependency, raise MachineError."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from fastopen.analysis.statistics import Results
from fastopen.common.errors import MachineError
from fastopen.common.extras import pip_install
from fastopen.experiments.quantities import Kind
from fastopen.report import flat_cells
from fastopen.runs import RunReader
from fastopen.runs.flat_tables import TABLES, Flattener, Row

if TYPE_CHECKING:
    import pandas as pd

# Nullable types, so that integers and flags with missing values keep their type.
DTYPES: dict[Kind, str] = {"int": "Int64", "float": "float64", "text": "str", "flag": "boolean"}


def cells_frame(results: Results) -> "pd.DataFrame":
    """Return a data frame of the cells with the keys of docs/json.md. Intervals have two columns."""
    return _pandas().DataFrame(flat_cells(results))


def table_frame(run: RunReader, name: str) -> "pd.DataFrame":
    """Return a table of an export, such as `requests`, as a data frame."""
    flat = Flattener.of(run)
    if name == "loads":
        return _frame(TABLES[name], (flat.load(row) for row in run.loads()))
    rows = (one for row, record in run.documents() for one in flat.rows(name, row, record))
    return _frame(TABLES[name], rows)


def _frame(columns: Mapping[str, Kind], rows: Iterable[Row]) -> "pd.DataFrame":
    pandas = _pandas()
    frame = pandas.DataFrame.from_records(list(rows), columns=list(columns))
    return frame.astype({name: DTYPES[kind] for name, kind in columns.items()})


def _pandas() -> Any:
    try:
        import pandas as pd
    except ImportError:
        raise MachineError("data frames need pandas", pip_install("pandas")) from None
    return pd
