"""Read an Experiment from the keys of a TOML file, or from the same keys in Python."""

import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError

from fastopen.common.errors import InputError, collected, did_you_mean, raise_all
from fastopen.common.files import read_toml
from fastopen.common.pydantic_errors import input_errors
from fastopen.common.resources import packaged_folder
from fastopen.experiments.factor_values import SettingSource, read_settings, toml_file, unknown
from fastopen.experiments.factors import ASKED, Factor
from fastopen.experiments.model import Experiment, ExperimentFacts, Seed
from fastopen.experiments.published import check_table
from fastopen.experiments.quantities import not_accepted, shown
from fastopen.experiments.variation import DRAWS, Variation
from fastopen.pages import RECORDING_SUFFIXES, missing

FORMAT: Final = "fastopen-experiment/1"
TABLES: Final = ("network", "tcp", "client", "origins", "tls")
COMBINE: Final = "network.combine"
NAMED: Final = "network.named"
_KEYS: Final[dict[str, Factor]] = {factor.toml: factor for factor in ASKED}


def _vary_table(vary: object) -> object:
    """Convert `vary = true` to {}, the defaults of `Variation`, and `vary = false` to None."""
    if isinstance(vary, str | int) and not isinstance(vary, bool):
        raise not_accepted(vary, ("true", "false", "a table"))
    return ({} if vary else None) if isinstance(vary, bool) else vary


def _name(text: str) -> str:
    if not re.fullmatch(r"[a-z0-9][a-z0-9._-]*", text):
        raise ValueError(f"{shown(text)} is not a name; write letters a to z, digits, '.', '_' and '-'")
    return text


class ExperimentSpec(ExperimentFacts):
    """The keys of an experiment's TOML file, except those of settings that may vary, such as the RTT."""

    format: Literal["fastopen-experiment/1"] = FORMAT
    name: Annotated[str, AfterValidator(_name)]
    seed: Seed = 0
    vary: Annotated[Variation | None, BeforeValidator(_vary_table)] = None
    rig: list[dict[str, Any]] | str = Field(default_factory=list)
    """Conditions under which the published experiment may have run (experiments/rigs.py), or the name of the
    experiment whose file declares these conditions."""


def experiment_of(
    document: Mapping[str, Any],
    source: SettingSource,
    folder: Path | None = None,
    factors: Mapping[str, object] | None = None,
    combine: object = None,
    named: object = None,
) -> Experiment:
    """Return the experiment that a parsed TOML file, or a mapping with the same keys, describes. `folder` is
    the base of relative paths. `factors` maps settings such as `rtt` to values that replace the file's.
    `combine` and `named` are defaults of the keys `network.combine` and `network.named`. If the document is
    invalid, raises one InputError with all errors. `source` names the file and its keys in messages."""
    problems: list[InputError] = []
    written, others = _split(document, source, problems)
    combine = others.pop(COMBINE, combine or "cross")
    named = others.pop(NAMED, named)
    with collected(problems):
        values = {**written, **(factors or {})}
        requested = read_settings(values, source, combine=combine, folder=folder, named=named)
    try:
        spec = ExperimentSpec.model_validate(others)
    except ValidationError as error:
        problems += input_errors(error, source.name)
    raise_all(problems)
    if spec.published is not None:
        check_table(spec.published, source)
    given = {name: getattr(spec, name) for name in others if name not in ("format", "rig")}
    if spec.corpus is not None and "seed" not in spec.corpus.model_fields_set:
        given["corpus"] = spec.corpus.model_copy(update={"seed": spec.seed})
    draws = {} if spec.vary is None else {"repeats": DRAWS}
    return requested.experiment(**{**draws, "seed": spec.seed, **given})


def _split(
    document: Mapping[str, Any], source: SettingSource, problems: list[InputError]
) -> tuple[dict[str, object], dict[str, Any]]:
    """Split a parsed TOML file into the values of factors, keyed by the factor's name, and those of other
    keys, such as `network.named` or `title`. Add errors to `problems`."""
    flat: dict[str, Any] = {}
    for key, value in document.items():
        if key not in TABLES:
            flat[key] = value
        elif isinstance(value, Mapping):
            flat |= {f"{key}.{name}": one for name, one in value.items()}
        else:
            problems.append(InputError("is a table", source.place(key), f"write it as [{key}]"))
    known = [*ExperimentSpec.model_fields, *_KEYS, COMBINE, NAMED]
    for key in [key for key in flat if key not in known]:
        del flat[key]
        problems.append(unknown(key, [*known, *TABLES], source.place(key)))
    factors = {_KEYS[key].name: flat.pop(key) for key in [*flat] if key in _KEYS}
    return factors, flat


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
        remedy = f"run fastopen run {shlex.quote(name_or_path)}"
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
        errors = filter(None, (missing(name) for name in pages if isinstance(name, str)))
        problems += (InputError(one.message, f"{path}: pages: {one.place}", one.remedy) for one in errors)
    data.setdefault("name", re.sub(r"[^a-z0-9._-]+", "-", path.stem.lower()).lstrip("-._") or "experiment")
    with collected(problems):
        experiment = experiment_of(data, toml_file(path), path.parent)
    raise_all(problems)
    return experiment
