"""Read experiments from TOML files: packaged experiments by name, other files by path."""

import re
from pathlib import Path
from typing import Final

from fastopen.common.errors import InputError, collected, did_you_mean, raise_all
from fastopen.common.resources import packaged_folder
from fastopen.common.user_files import read_toml
from fastopen.experiments.document import experiment_of
from fastopen.experiments.factor_values import toml_file
from fastopen.experiments.model import Experiment
from fastopen.experiments.rigs import KEY, RigSpace, rig_space
from fastopen.pages import RECORDING_SUFFIXES, missing

SUFFIX: Final = ".toml"


def packaged_experiments() -> dict[str, Path]:
    """Map the names of the packaged experiments to their files, sorted by name."""
    folder = packaged_folder("experiments")
    files = sorted(folder.glob(f"*{SUFFIX}")) if folder else []
    return {file.stem: file for file in files}


def load_experiment(name_or_path: str) -> Experiment:
    """Return the packaged experiment named `name_or_path`, or else the experiment in the file with this path.
    Raises InputError if neither exists, or if the experiment is invalid."""
    packaged = packaged_experiments()
    if name_or_path in packaged:
        return read_experiment(packaged[name_or_path])
    if name_or_path.lower().endswith(RECORDING_SUFFIXES):
        remedy = f"run fastopen run {name_or_path}"
        raise InputError("is a recording of a page, not an experiment", name_or_path, remedy)
    if name_or_path.endswith(SUFFIX) or "/" in name_or_path or Path(name_or_path).exists():
        return read_experiment(Path(name_or_path), find_pages=True)
    accepted = f"use one of {', '.join(packaged)}, or the path of a TOML file"
    remedy = did_you_mean(name_or_path, packaged, accepted)
    raise InputError("no such file and no packaged experiment of that name", name_or_path, remedy)


def read_experiment(path: Path, *, find_pages: bool = False) -> Experiment:
    """Return the experiment in a TOML file. Its name is by default the file's name. With `find_pages`, check
    that its pages exist. Raises InputError, with the file and the key, if the experiment is invalid."""
    data = read_toml(path)
    problems: list[InputError] = []
    if find_pages and isinstance(pages := data.get("pages"), list):
        problems += (
            InputError(error.message, f"{path}: pages: {error.place}", error.remedy)
            for name in pages
            if isinstance(name, str) and (error := missing(name)) is not None
        )
    data.setdefault("name", re.sub(r"[^a-z0-9._-]+", "-", path.stem.lower()).lstrip("-._") or "experiment")
    with collected(problems):
        experiment = experiment_of(data, toml_file(path), path.parent)
    raise_all(problems)
    return experiment


def load_rigs(name_or_path: str) -> RigSpace:
    """Return the test setups (rigs) of a published experiment. Raises InputError if it declares none."""
    path = packaged_experiments().get(name_or_path, Path(name_or_path))
    experiment = load_experiment(name_or_path)
    document = read_toml(path)
    if isinstance(shared := document.get(KEY), str):
        # Tables from the same rig declare its properties once, in the file of one of them.
        document[KEY] = read_toml(packaged_experiments().get(shared, path.parent / shared)).get(KEY, [])
    space = rig_space(document, experiment, toml_file(path), path.parent)
    if not space.properties:
        message = "--explain compares possible test conditions with published figures"
        raise InputError(message, str(path), "add [[rig]] and [published] tables")
    return space
