"""Select and order loads of a run in SQL, without reading all loads."""

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
    """Conditions that listed loads must meet, and their order. The default lists all loads as written."""

    cell: int | None = None
    """The index of the loads' cell."""
    page: str | None = None
    """The name of the loads' page."""
    valid: bool | None = None
    search: str = ""
    """Text to find in the job's id or in a reason why the load is invalid. Case does not matter."""
    job: str | None = None
    """The id of the loads' job."""
    number: int | None = None
    """The number of a single load."""
    order: Order = "written"

    @property
    def condition(self) -> tuple[str, tuple[object, ...]]:
        """Return the WHERE clause over `loads` and `jobs` and its values, both empty without conditions."""
        equal = {
            "loads.cell": self.cell,
            "jobs.page": self.page,
            "loads.valid": self.valid,
            "jobs.id": self.job,
            "loads.number": self.number,
        }
        wanted = [f"{column} = ?" for column, value in equal.items() if value is not None]
        values: list[object] = [value for value in equal.values() if value is not None]
        if self.search:
            escaped = self.search.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
            wanted.append("(jobs.id LIKE ? ESCAPE '\\' OR loads.invalid LIKE ? ESCAPE '\\')")
            values += [f"%{escaped}%"] * 2
        return ("WHERE " + " AND ".join(wanted) if wanted else ""), tuple(values)

    @property
    def ordering(self) -> str:
        return _COLUMNS[self.order]
