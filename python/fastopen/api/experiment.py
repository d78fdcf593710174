"""An experiment as a notebook writes it down: the keys and units of the TOML files, as arguments."""

import inspect
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Self

from pydantic import ValidationError

from fastopen.common.pydantic_errors import input_error
from fastopen.experiments import ASKED, Combine, Source, load_experiment, unknown, with_drawn_seed
from fastopen.experiments import Experiment as Asked
from fastopen.experiments.plan import counted
from fastopen.experiments.spec import FORMAT, TABLES, experiment_of
from fastopen.pages import ImportedPage, Page, load_chosen
from fastopen.workflows.calibrate import calibrated
from fastopen.workflows.engines import auto_engine

NAME: Final = "Experiment"
_ARGUMENTS: Final = {factor.argument: factor for factor in ASKED}


class Experiment:
    """Pages over networks, with TCP Fast Open off and on.

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
        """`pages` are what `fastopen run` takes (files, folders, packaged names), or pages themselves.

        `factors` are all that `fastopen factors` lists (docs/factors.md), written as on the command line or
        as numbers and flags; several values, as a list, are a sweep. `client`, `tcp`, `origins` and `tls` may
        also be tables as in an experiment's file. Without a seed one is drawn and recorded where anything is
        left to chance; with `off2` among `transports` it is an A/A test. With `vary` each repeat draws what
        nobody knows exactly anew (True, or spreads: `{"rtt": "2%"}`). `repeats` are 10, or 30 draws. Raises
        InputError that names what is wrong. `network` are networks by name, in place of RTT
        and rates. `where` and `sample` choose of the pages that the paths lead to, as `fastopen run` does
        (docs/pages.md); pages that are given themselves are all loaded. `as_imported`: recorded waits are
        thinking of servers, none of them a queue of the recorder's network.
        """
        tables = {
            key: value for key, value in factors.items() if key in TABLES and isinstance(value, Mapping)
        }
        given = {key: value for key, value in factors.items() if key not in tables}
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
        source = Source(NAME, lambda factor: factor.argument)
        self.asked = experiment_of(
            document,
            source,
            combine=combine,
            named=network,
            factors={_ARGUMENTS[key].name: one for key, one in given.items()},
        )
        self.seed_drawn = seed is None
        if self.seed_drawn:
            self.asked = with_drawn_seed(self.asked, auto_engine(None))
        self.paths = tuple(str(page) for page in pages if not isinstance(page, Page))
        self.library = tuple(map(str, library))
        self.lenient = lenient
        self.as_imported = as_imported
        self._given = pages

    @classmethod
    def read(cls, name_or_path: str | Path) -> Self:
        """A packaged experiment by its name (`fastopen reproduce --list`), or any TOML file."""
        made = cls.__new__(cls)
        made.asked = load_experiment(str(name_or_path))
        made.paths = tuple(made.asked.pages)
        made.library, made.lenient, made.seed_drawn = (), False, False
        made.as_imported = True
        made._given = made.paths
        return made

    def changed(self, **settings: Any) -> Self:
        """The same with other `repeats`, `seed`, `arms` or `engines`."""
        made = self.__class__.__new__(self.__class__)
        made.__dict__.update(self.__dict__)
        try:
            made.asked = Asked(**{**dict(self.asked), **settings})
        except ValidationError as error:
            raise input_error(error, "Experiment") from None
        made.seed_drawn = self.seed_drawn and "seed" not in settings
        if made.seed_drawn and not made.asked.seed:
            made.asked = with_drawn_seed(made.asked, auto_engine(None))
        return made

    def pages(self) -> list[ImportedPage]:
        """The pages, with the bodies that were recorded of them. Raises InputError."""
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
        words, loads = counted(asked, len(asked.pages), len(asked.engines), asked.repeats)
        return f"<Experiment {asked.name}: {words} = {loads:,} loads>"


def _signature() -> inspect.Signature:
    """Of Experiment, with an argument for each factor in place of `factors`."""
    own = [*inspect.signature(Experiment.__init__).parameters.values()][1:-1]
    factors = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=factor.usual, annotation=object)
        for name, factor in _ARGUMENTS.items()
    ]
    return inspect.Signature([own[0], *factors, *own[1:]])


Experiment.__signature__ = _signature()  # type: ignore[attr-defined]
