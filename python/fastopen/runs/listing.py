"""Selects and orders loads of a run, without reading all of it."""

from dataclasses import dataclass
from typing import Final, Literal, get_args

Order = Literal["written", "fastest", "slowest"]
ORDERS: Final[tuple[Order, ...]] = get_args(Order)
_COLUMNS: Final[dict[Order, str]] = {
    "written": "loads.number",
    "fastest": "plt_ns IS NULL, plt_ns, loads.number",
    "slowest": "plt_ns DESC, loads.number",
}


@dataclass(frozen=True)
class Listing:
    """Conditions on loads, all of which must hold. By default all loads, in the order of writing."""

    cell: int | None = None
    """The index of the loads' cell."""
    page: str | None = None
    """The name of the loads' page."""
    valid: bool | None = None
    search: str = ""
    """A part of the job's id or of the reason of an invalid load, in upper or lower case."""
    job: str | None = None
    """The id of the loads' job."""
    number: int | None = None
    """The number of the only load."""
    order: Order = "written"

    @property
    def condition(self) -> tuple[str, tuple[object, ...]]:
        """Return the condition in SQL over `loads` and `jobs`, with its values."""
        wanted: list[tuple[str, tuple[object, ...]]] = []
        if self.cell is not None:
            wanted.append(("loads.cell = ?", (self.cell,)))
        if self.page is not None:
            wanted.append(("jobs.page = ?", (self.page,)))
        if self.valid is not None:
            wanted.append(("loads.valid = ?", (int(self.valid),)))
        if self.job is not None:
            wanted.append(("jobs.id = ?", (self.job,)))
        if self.number is not None:
            wanted.append(("loads.number = ?", (self.number,)))
        if self.search:
            escaped = self.search.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
            like = f"%{escaped}%"
            wanted.append(("(jobs.id LIKE ? ESCAPE '\\' OR loads.invalid LIKE ? ESCAPE '\\')", (like, like)))
        if not wanted:
            return "", ()
        return (
            "WHERE " + " AND ".join(text for text, _ in wanted),
            tuple(value for _, values in wanted for value in values),
        )

    @property
    def ordering(self) -> str:
        return _COLUMNS[self.order]
