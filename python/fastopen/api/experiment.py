"""Define experiments in Python, with the keys and units of TOML files as arguments."""

import inspect
from collections.abc import Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import Any, Final, Self

from fastopen.experiments import (
    ASKED,
    Combine,
    SettingSource,
    load_experiment,
    unknown,
    with_changes,
    with_drawn_seed,
)
from fastopen.experiments.document import FORMAT, TABLES, experiment_of
from fastopen.experiments.plan import plan_size
from fastopen.pages import ImportedPage, Page, load_chosen
from fastopen.workflows.calibrate import calibrated
from fastopen.workflows.engines import auto_engine

NAME: Final = "Experiment"
SOURCE: Final = SettingSource(NAME, lambda factor: factor.argument)
_ARGUMENTS: Final = {factor.argument: factor for factor in ASKED}


class Experiment:
    """A plan of page loads over emulated networks, which `fastopen.api.run` executes. By default, each page
    is loaded without TCP Fast Open, and with it on both a first and a later visit.

    >>> Experiment("example", rtt=["20ms", "100ms"], repeats=5, seed=1)
    <Experiment notebook: 1 page x 2 networks x 3 transports x 5 repeats = 30 loads>
    """

    def __init__(
        self,
        *pages: str | Path | Page,
        combine: Combine = "cross",
        network: str | Sequence[str] = (),
        repeats: int | None = None,
        vary: bool | Mapping[str, Any] = False,
        seed: int | None = None,
        where: str = "",
        sample: int | None = None,
        tolerance: Mapping[str, Any] | None = None,
        smallest_effect: Mapping[str, float] | None = None,
        name: str = "notebook",
        library: Sequence[str | Path] = (),
        lenient: bool = False,
        as_imported: bool = False,
        **factors: Any,
    ) -> None:
        """Define an experiment with `pages`: `Page` objects, files, folders, or names of packaged pages.

        `factors` are settings such as `rtt="20ms"`; `fastopen factors` lists them. If a setting is a list of
        values, each page is loaded with each value. If several settings of the network are lists,
        `combine="cross"` takes all combinations. `"zip"` takes all first values, then all second values, and
        so on. `network` names networks, such as `4g`, instead of RTT and rates. `tolerance` and
        `smallest_effect` are tables as in an experiment file, and `client`, `tcp`, `origins` and `tls` can be
        tables, too. With `off2` in `transports`, pages are loaded without TFO a second time, to show noise.

        `repeats` is 10 by default, or 30 with `vary`. With `vary` (True, or spreads: `{"rtt": "2%"}`), each
        repeat samples uncertain values. Without `seed`, a seed is drawn and recorded if anything is random.

        `where` (a condition on page properties) and `sample` (a number of pages) select among pages that are
        not `Page` objects. `library` names folders of recordings, in which URLs from lists are looked up.
        With `lenient`, damaged entries of recordings, and damaged files in folders, are skipped. By default,
        queueing delay in the recorder's network is removed from server think times; with `as_imported`, it is
        kept. Raises InputError if an argument is invalid."""
        tables = {key: one for key, one in factors.items() if key in TABLES and isinstance(one, Mapping)}
        given = {key: one for key, one in factors.items() if key not in tables}
        for key in given:
            if key not in _ARGUMENTS:
                raise unknown(key, _ARGUMENTS, f"{NAME}: {key}")
        document = {
            **tables,
            "format": FORMAT,
            "name": name,
            "pages": [page.name if isinstance(page, Page) else str(page) for page in pages],
            **({} if repeats is None else {"repeats": repeats}),
            **({"corpus": {"where": where, "sample": sample}} if where or sample is not None else {}),
            "vary": vary,
            "seed": 0 if seed is None else seed,
            "tolerance": dict(tolerance or {}),
            "smallest_effect": dict(smallest_effect or {}),
        }
        self.asked = experiment_of(
            document,
            SOURCE,
            combine=combine,
            named=network,
            factors={_ARGUMENTS[key].name: one for key, one in given.items()},
        )
        self.seed_drawn = seed is None
        if self.seed_drawn:
            self.asked = with_drawn_seed(self.asked, auto_engine(None))
        self.library = tuple(map(str, library))
        self.lenient = lenient
        self.as_imported = as_imported
        self._given = pages

    @classmethod
    def read(cls, name_or_path: str | Path) -> Self:
        """Read a packaged experiment by name (`fastopen reproduce --list`), or a TOML file by path. Raises
        InputError if the experiment is invalid."""
        made = cls.__new__(cls)
        made.asked = load_experiment(str(name_or_path))
        made.library, made.lenient, made.seed_drawn, made.as_imported = (), False, False, True
        made._given = tuple(made.asked.pages)
        return made

    @property
    def paths(self) -> tuple[str, ...]:
        """Return the paths or names of the pages that were not given as `Page` objects."""
        return tuple(str(page) for page in self._given if not isinstance(page, Page))

    def changed(self, **settings: Any) -> Self:
        """Return a copy with different `repeats`, `seed`, `arms` (uses of TFO) or `engines` (`host` for real
        time, `virtual` for virtual time). Raises InputError if the copy is invalid."""
        made = copy(self)
        made.asked = with_changes(self.asked, settings, SOURCE)
        made.seed_drawn = self.seed_drawn and "seed" not in settings
        if made.seed_drawn and not made.asked.seed:
            made.asked = with_drawn_seed(made.asked, auto_engine(None))
        return made

    def pages(self) -> list[ImportedPage]:
        """Return the pages with their recorded bodies. Raises InputError if a page cannot be read."""
        choice = self.asked.corpus
        imported: list[ImportedPage] = []
        if choice is not None and self.paths:
            imported += load_chosen(self.paths, choice, self.library, lenient=self.lenient)
        for page in self._given:
            if isinstance(page, Page):
                imported.append(ImportedPage(page))
            elif choice is None:
                imported += load_chosen([page], None, self.library, lenient=self.lenient)
        return imported if self.as_imported else calibrated(imported)

    def __repr__(self) -> str:
        asked = self.asked
        words, loads = plan_size(asked, len(asked.pages), len(asked.engines), asked.repeats)
        return f"<Experiment {asked.name}: {words} = {loads:,} loads>"


def _signature() -> inspect.Signature:
    """Return the signature of Experiment with an argument for each setting instead of `**factors`."""
    own = [*inspect.signature(Experiment.__init__).parameters.values()][1:-1]
    kind, usual = inspect.Parameter.KEYWORD_ONLY, {name: one.usual for name, one in _ARGUMENTS.items()}
    usual |= {name: None for name, one in _ARGUMENTS.items() if one.default_meaning}
    factors = [inspect.Parameter(name, kind, default=usual[name], annotation=object) for name in usual]
    return inspect.Signature([own[0], *factors, *own[1:]])


Experiment.__signature__ = _signature()  # type: ignore[attr-defined]
