"""Experiments as TOML files: the packaged ones by name, others by path."""

import difflib
import re
import tomllib
from pathlib import Path
from typing import Final

from fastopen.errors import InputError
from fastopen.experiments.asked import toml_file
from fastopen.experiments.model import Experiment
from fastopen.experiments.spec import experiment_of
from fastopen.resources import packaged_folder
from fastopen.user_files import read_text

SUFFIX: Final = ".toml"


def packaged_experiments() -> dict[str, Path]:
    """The experiments that come with fastopen: name to file, in order of name."""
    folder = packaged_folder("experiments")
    files = sorted(folder.glob(f"*{SUFFIX}")) if folder else []
    return {file.stem: file for file in files}


def load_experiment(name_or_path: str) -> Experiment:
    """A packaged experiment by name, or any by the path of its file. Raises InputError."""
    packaged = packaged_experiments()
    if name_or_path in packaged:
        return read_experiment(packaged[name_or_path])
    if name_or_path.endswith(SUFFIX) or "/" in name_or_path:
        return read_experiment(Path(name_or_path))
    near = difflib.get_close_matches(name_or_path, packaged, n=1)
    remedy = f"did you mean {near[0]}?" if near else f"there are: {', '.join(packaged) or 'none'}"
    raise InputError(f"no experiment is called {name_or_path!r}", "", remedy)


def read_experiment(path: Path) -> Experiment:
    """The experiment in a TOML file, by default of its name. Raises InputError naming file and key."""
    try:
        data = tomllib.loads(read_text(path, "TOML is UTF-8 text"))
    except (ValueError, RecursionError) as error:  # of numbers of thousands of digits, Python's own
        raise InputError(f"malformed TOML: {error}", str(path)) from None
    data.setdefault("name", re.sub(r"[^a-z0-9._-]+", "-", path.stem.lower()).lstrip("-._") or "experiment")
    return experiment_of(data, toml_file(path), path.parent)
