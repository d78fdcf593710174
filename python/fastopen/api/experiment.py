"""An experiment as a notebook writes it down: the keys and units of the TOML files, as arguments."""

import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from pydantic import ValidationError

from fastopen.errors import InputError
from fastopen.experiments import Combine, load_experiment
from fastopen.experiments import Experiment as Asked
from fastopen.experiments.spec import ExperimentSpec
from fastopen.pages import ImportedPage, Page, load_pages
from fastopen.pydantic_errors import input_error

OneOrMore = str | Sequence[str]


class Experiment:
    """Pages over networks, with TCP Fast Open off and on.

    >>> Experiment("example", rtt=["20ms", "100ms"], repeats=5, seed=1)
    <Experiment notebook: 1 page x 2 networks x 3 transports x 5 repeats = 30 loads>
    """

    def __init__(
        self,
        *pages: str | Path | Page,
        rtt: OneOrMore = ("20ms", "100ms", "200ms"),
        down: OneOrMore = "4mbit",
        up: OneOrMore = "256kbit",
        queue: OneOrMore = "default",
        loss: OneOrMore = "0%",
        extra_rtt: Mapping[str, str] | None = None,
        combine: Combine = "cross",
        transports: Sequence[str] = ("off", "cold", "warm"),
        client: Mapping[str, Any] | None = None,
        tcp: Mapping[str, Any] | None = None,
        origins: Mapping[str, Any] | None = None,
        tls: Mapping[str, Any] | None = None,
        engines: OneOrMore = "auto",
        repeats: int = 10,
        seed: int | None = None,
        name: str = "notebook",
        library: Sequence[str | Path] = (),
        lenient: bool = False,
    ) -> None:
        """`pages` are what `fastopen run` takes (files, folders, packaged names), or pages themselves.

        All others are the keys of an experiment's file (docs/cli.md), `client`, `tcp`, `origins` and
        `tls` its tables; of any, several values are a sweep. Without a seed one is drawn and recorded; with
        `off2` among `transports` it is an A/A test. Raises InputError that names what is wrong.
        """
        network: dict[str, Any] = {"rtt": rtt, "down": down, "up": up, "queue": queue, "loss": loss}
        document = {
            "format": "fastopen-experiment/1",
            "name": name,
            "pages": [page.name if isinstance(page, Page) else str(page) for page in pages],
            "transports": _listed(transports),
            "repeats": repeats,
            "seed": secrets.randbits(31) if seed is None else seed,
            "network": {
                **{key: _plain(value) for key, value in network.items()},
                "extra_rtt": dict(extra_rtt or {}),
                "combine": combine,
            },
            "client": dict(client or {}),
            "tcp": dict(tcp or {}),
            "origins": dict(origins or {}),
            "tls": {"version": "none"} if tls is None else dict(tls),
            "engines": _listed(engines),
        }
        try:
            self.asked = ExperimentSpec.model_validate(document).experiment(Path())
        except ValidationError as error:
            raise input_error(error, "Experiment") from None
        except ValueError as error:
            raise InputError(str(error), "Experiment") from None
        self.paths = tuple(str(page) for page in pages if not isinstance(page, Page))
        self.library = tuple(map(str, library))
        self.lenient = lenient
        self.seed_drawn = seed is None
        self._given = pages

    @classmethod
    def read(cls, name_or_path: str | Path) -> Self:
        """A packaged experiment by its name (`fastopen reproduce --list`), or any TOML file."""
        made = cls.__new__(cls)
        made.asked = load_experiment(str(name_or_path))
        made.paths = tuple(made.asked.pages)
        made.library, made.lenient, made.seed_drawn = (), False, False
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
        return made

    def pages(self) -> list[ImportedPage]:
        """The pages, with the bodies that were recorded of them. Raises InputError."""
        imported: list[ImportedPage] = []
        for page in self._given:
            if isinstance(page, Page):
                imported.append(ImportedPage(page))
            else:
                imported += load_pages([page], self.library, lenient=self.lenient)
        return imported

    def __repr__(self) -> str:
        asked = self.asked
        counts = {
            "page": len(asked.pages),
            "network": len(asked.networks),
            "setup": len(asked.setups),
            "transport": len(asked.arms),
            "engine": len(asked.engines),
            "repeat": asked.repeats,
        }
        loads = 1
        for count in counts.values():
            loads *= count
        shown = [
            f"{n} {what}{'s' if n > 1 else ''}"
            for what, n in counts.items()
            if n > 1 or what not in ("setup", "engine")
        ]
        return f"<Experiment {asked.name}: {' x '.join(shown)} = {loads:,} loads>"


def _plain(value: OneOrMore) -> str | list[str]:
    return value if isinstance(value, str) else list(value)


def _listed(value: OneOrMore) -> list[str]:
    return [value] if isinstance(value, str) else list(value)
