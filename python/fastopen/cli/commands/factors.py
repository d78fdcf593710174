"""Define `fastopen factors`: list the settings that can vary, with their names in options and files."""

from typing import Any, Final

from fastopen.cli.output import print_grid, print_json
from fastopen.cli.shared_options import JsonOption
from fastopen.common.grid import Column, keys, listing
from fastopen.experiments import FACTORS, Factor

PANEL: Final = "Inputs"


def command(json: JsonOption = False) -> None:
    """List the factors: their options, keys in experiment files, defaults and columns in exports."""
    if json:
        print_json({"factors": [_document(factor) for factor in FACTORS]})
        return
    columns = (*keys("option"), Column("what", "words", wraps=True))
    print_grid(listing(columns, ((factor.flag, _words(factor)) for factor in FACTORS)))


def _words(factor: Factor) -> str:
    unit = f" ({factor.quantity.unit})" if factor.quantity.unit else ""
    known = {
        "values": factor.bounds or ", ".join(factor.accepted),
        "default": factor.default_meaning or factor.usual or "none",
        "in TOML": factor.toml,
        "in Python": factor.argument,
        "column": ", ".join(factor.export) + unit,
    }
    listed = "; ".join(f"{what}: {text}" for what, text in known.items() if text)
    return f"{factor.meaning}\n{listed}"


def _document(factor: Factor) -> dict[str, Any]:
    return {
        "name": factor.name,
        "unit": factor.quantity.unit or None,
        "default": None if factor.default_meaning else factor.usual,
        "default_meaning": factor.default_meaning or None,
        "flag": factor.flag,
        "toml": factor.toml,
        "argument": factor.argument,
        "column": factor.heading or None,
        "export_column": factor.export[0],
        "export_columns": list(factor.export),
        "accepted": list(factor.accepted),
        "bounds": factor.bounds or None,
        "several": factor.several,
        "meaning": factor.meaning,
    }
