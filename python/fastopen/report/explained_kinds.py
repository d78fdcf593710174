"""Explain each kind of invalid load: meaning, usual causes, remedies."""

import tomllib
from collections.abc import Mapping
from typing import Final, NamedTuple

from fastopen.contract import InvalidKind
from fastopen.report.templates import asset


class KindExplanation(NamedTuple):
    """The explanation of one kind of invalid load, as in docs/invalid-loads.md and `fastopen explain`."""

    meaning: str
    cause: str
    remedy: str = "This is a fault of fastopen: report it with the run (CONTRIBUTING.md)."


EXPLANATIONS: Final[Mapping[InvalidKind, KindExplanation]] = {
    InvalidKind(kind): KindExplanation(**texts)
    for kind, texts in tomllib.loads(asset("explained_kinds.toml")).items()
}
