#!/usr/bin/env python3
"""Print the errors of predictions for two networks, as Markdown (docs/measurements/transfer.md).

.venv/bin/fastopen validate transfer PAGE... --json > FILE
tools/transfer_table.py FILE...
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

Prediction = Mapping[str, Any]
# Predictions of a page by the network's RTT in ms, arm and client.
Cells = dict[tuple[float, str, str], Prediction]


def rows(found: Sequence[Prediction]) -> list[str]:
    """Return a row for each page: the measured times without TFO in ms, and for each client the errors of the
    predicted times in % and of the savings in percentage points. A cell lists values for both networks."""
    of_pages: dict[str, Cells] = {}
    for one in found:
        of_pages.setdefault(one["page"], {})[one["to_rtt_ms"], one["arm"], one["client"]] = one
    lines = []
    for page, cells in sorted(of_pages.items()):
        networks = sorted({network for network, _, _ in cells})
        measured = [cells[network, "off", "loader"]["measured_ms"] for network in networks]
        texts = [page, ", ".join(_number(ms, 0) for ms in measured)]
        for client in ("loader", "chromium"):
            arms = [cells[network, arm, client] for network in networks for arm in ("off", "warm")]
            texts.append(", ".join(_signed(one["error_percent"]) for one in arms))
            texts.append(
                ", ".join(_signed(one["saving_error_points"]) for one in arms if one["arm"] != "off")
            )
        lines.append(f"| {' | '.join(texts)} |")
    return lines


def summary(found: Sequence[Prediction]) -> str:
    """Return sentences about the errors of predicted times, savings and ranges."""
    errors = [abs(one["error_percent"]) for one in found if one["error_percent"] is not None]
    points = [abs(one["saving_error_points"]) for one in found if one["saving_error_points"] is not None]
    within = (f"{100 * sum(error <= limit for error in errors) / len(errors):.0f}" for limit in (2, 5, 8))
    held = [
        one["predicted_range_ms"][0] <= one["measured_ms"] <= one["predicted_range_ms"][1]
        for one in found
        if one["predicted_range_ms"] and one["measured_ms"] is not None
    ]
    lines = [
        f"Of {len(found)} predictions {len(found) - len(errors)} are without a valid load.",
        f"They are {median(errors):.1f} % off in the median, {max(errors):.1f} at worst.",
        "{} % are within 2 %, {} within 5, {} within 8.".format(*within),
        f"Savings are {median(points):.1f} points off in the median, {max(points):.1f} at worst.",
    ]
    if held:
        lines.append(
            f"{100 * sum(held) / len(held):.0f} % of measured times lie in the range of the samples."
        )
    return "\n".join(lines)


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _signed(value: float | None) -> str:
    return "-" if value is None else f"{value:+.1f}".replace("+0.0", "0.0").replace("-0.0", "0.0")


def main(files: Sequence[str]) -> int:
    found = [one for file in files for one in json.loads(Path(file).read_text())["pages"]]
    print("\n".join(rows(found)))
    print(f"\nAll: {summary(found)}")
    for client in ("loader", "chromium"):
        print(f"\n{client}: {summary([one for one in found if one['client'] == client])}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
