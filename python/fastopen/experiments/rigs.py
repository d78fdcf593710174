"""Read the possible rigs of a published measurement: test setups with which it may have been made.

The file of an experiment declares possible conditions of the measurement, such as a different RTT. Each has a
source or is marked as an assumption. A rig is a set of such conditions."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, combinations, product
from math import prod
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any, Final, Literal

from pydantic import Field, ValidationError

from fastopen.common import units
from fastopen.common.errors import InputError
from fastopen.common.files import read_toml
from fastopen.common.grouping import grouped
from fastopen.common.pydantic_errors import input_errors
from fastopen.contract import Network
from fastopen.contract.part import NotEmpty, Part
from fastopen.experiments.arms import HEADLINE, ArmName
from fastopen.experiments.document import experiment_of, load_experiment, packaged_experiments
from fastopen.experiments.factor_values import SettingSource, toml_file
from fastopen.experiments.factors import BY_NAME
from fastopen.experiments.model import Experiment
from fastopen.experiments.published import PublishedCell, same_rig_cells
from fastopen.pages import Page

KEY: Final = "rig"
ASSUMED: Final = "assumed"
# Size of each script that `chain_of_hosts` adds, in bytes. It fits into an initial window of 3 segments.
SMALL_BYTES: Final = 2000
# Ways to fit a page to the published times.
Fitted = Literal["objects", "sizes", "hosts", "time"]


class Property(Part):
    """A condition under which page load times may have been measured, such as a smaller initial window.
    Reports call it a property. Conditions with the same `name` exclude each other. `off` is like `set`, but
    only for loads without TFO. With `each_page`, the condition may also hold for a single page."""

    name: NotEmpty
    value: NotEmpty
    """The value in words, for reports."""
    source: NotEmpty
    """Source of the condition, or `assumed` with a reason."""
    pages: list[str] | None = None
    """Pages for which the condition may hold; None for all."""
    each_page: bool = False
    set: dict[str, Any] = Field(default_factory=dict)
    """New values for keys of the experiment's file: `"tcp.initial_window_segments" = 3`."""
    off: dict[str, Any] = Field(default_factory=dict)
    rtt_factor: Annotated[float, Field(gt=0, le=100)] = 1.0
    """Ratio of the rig's RTT to the published RTT, before `rtt_plus_ms` is added."""
    rtt_plus_ms: Annotated[float, Field(ge=0, le=1000)] = 0.0
    arm: ArmName | None = None
    """Arm that is compared with the published times with TFO; by default the arm with warm cookies."""
    tfo_ms: Annotated[float, Field(ge=0, le=10_000)] = 0.0
    """Milliseconds added to each server think time with TFO, if TFO used another client or server."""
    fitted: Fitted | None = None
    """Way to fit the page to published times without TFO. `time`: add client processing, fitted to one time.
    `hosts`: a chain of small scripts, each on another host, replaces all but the document; their number and
    client processing are fitted to two times. `objects`: equal objects replace the page; number and size are
    fitted to two times, or to three with client processing if RTTs and rates vary separately. `sizes`: like
    `objects`, but with sizes in the ratios of the sizes of the page's resources."""
    _original: "Property | None" = None
    """The condition that `of_one` copied to make this single-page condition; None: this is not a copy."""

    def is_about(self, page: str) -> bool:
        """Return True if the condition may hold for this page."""
        return self.pages is None or page in self.pages

    def of_one(self, page: str) -> "Property":
        """Return a copy of this condition that holds only for `page`, with a name that includes the page."""
        changes = {"name": _alone(self.name, page), "pages": [page], "each_page": False}
        copy = self.model_copy(update=changes)
        copy._original = self
        return copy

    @property
    def assumed(self) -> bool:
        """Return True if no source documents the condition."""
        return self.source.startswith(ASSUMED)

    def __eq__(self, other: object) -> bool:
        # Name and value identify a property in a RigSpace. Searches compare properties millions of times.
        return isinstance(other, Property) and self.value == other.value and self.name == other.name

    def __hash__(self) -> int:
        return hash((self.name, self.value))


Rig = tuple[Property, ...]
"""A possible test setup (rig): a set of conditions with different names."""


@dataclass(frozen=True)
class Reproduction:
    """Experiments that repeat the published measurement of one page under assumed conditions: `experiment`
    for loads with TFO, and `off` for loads without TFO. See `Property` for the other fields."""

    experiment: Experiment
    """The experiment with only the measured page, over `RigSpace.networks`."""
    off: Experiment  # the same object as `experiment` if no property sets `off`
    arm: ArmName
    tfo_ms: float
    fitted: Fitted | None


@dataclass(frozen=True)
class RigSpace:
    """All rigs: sets of conditions under which published load times may have been measured. The conditions
    are in `properties`. Conditions with the same name exclude each other. `base` is the experiment without
    them, as the TOML `document` describes it. Paths in `document` are relative to `folder`."""

    base: Experiment
    properties: tuple[Property, ...]
    document: Mapping[str, Any]
    source: SettingSource
    folder: Path

    @cached_property
    def _alternatives(self) -> list[list[Property]]:
        return _by_name(self.properties)

    @property
    def size(self) -> int:
        return prod(1 + len(alternatives) for alternatives in self._alternatives)

    @cached_property
    def _same_rig_cells(self) -> tuple[list[Network], list[tuple[str, int, PublishedCell]]]:
        return same_rig_cells(self.base)

    @property
    def networks(self) -> list[Network]:
        """Return the experiment's networks, then those of other published tables from the same test setup."""
        return self._same_rig_cells[0]

    def cells_of(self, page: str) -> list[tuple[int, PublishedCell]]:
        """Return a page's published rows, each with the index of its network in `networks`."""
        return [(network, cell) for name, network, cell in self._same_rig_cells[1] if name == page]

    def base_cells(self) -> tuple[PublishedCell, ...]:
        """Return the rows of the one published table with which the experiment in `base` is compared."""
        table = self.base.published
        cells = (cell for page in self.base.pages for _, cell in self.cells_of(page))
        return tuple(cell for cell in cells if table is not None and cell.experiment == table.experiment)

    def off_ms(self, page: str) -> dict[int, float]:
        """Map the index of each network to the page's published load time without TFO, in milliseconds. If
        several published tables from the same test setup have such a time, return the mean of these times."""
        times = grouped((network, cell.off_ms) for network, cell in self.cells_of(page))
        return {network: fmean(of_network) for network, of_network in times.items()}

    def rigs(self, order: Callable[[Rig], int]) -> Iterator[Rig]:
        """Yield all rigs, sorted by their numbers of conditions, then by `order`."""
        for count in range(len(self._alternatives) + 1):
            alike = (product(*some) for some in combinations(self._alternatives, count))
            yield from sorted(map(self.ordered, chain.from_iterable(alike)), key=order)

    def neighbours(self, rig: Rig) -> list[Rig]:
        """Return all rigs that have one condition more than `rig`, or one condition with another value."""
        by_name = {one.name: one for one in rig}
        changed = (by_name | {one.name: one} for one in self.properties if one not in rig)
        return [self.ordered(each.values()) for each in changed]

    def page_neighbours(self, rig: Rig) -> list[Rig]:
        """Return variants of `rig` that differ only in one page's own conditions: this page's copies of
        conditions with `each_page`. There is a variant for each page and each possible set of its copies."""
        found: list[Rig] = []
        for page in self.base.pages:
            copies = [one for one in self.properties if one.pages == [page] and self.is_copy(one)]
            rest = [one for one in rig if one not in copies]
            values = [[(), *((one,) for one in alike)] for alike in _by_name(copies)]
            found += [self.ordered([*rest, *chain.from_iterable(own)]) for own in product(*values)]
        return found

    def shortest(self, rig: Rig) -> Rig:
        """Return a rig with the same effect and, if possible, fewer conditions. If a condition with
        `each_page` has a value for every page, the most common value becomes the value of all pages."""
        pages = self._pages_with_copies
        for name in self.names_for_each_page:
            values = {page: one for page in pages for one in self.of_page(rig, page) if one.name == name}
            if values and len(values) == len(pages):
                most = Counter(values.values()).most_common(1)[0][0]
                others = [one for one in rig if self.original(one).name != name]
                own = [one.of_one(page) for page, one in values.items() if one != most]
                rig = self.ordered([*others, most, *own])
        return rig

    @cached_property
    def names_for_each_page(self) -> list[str]:
        """Return names of conditions that, whatever their values, may hold for one page or for all pages."""
        return [alike[0].name for alike in self._alternatives if all(one.each_page for one in alike)]

    def ordered(self, rig: Iterable[Property]) -> Rig:
        """Sort properties in the order of the experiment's file, so that equal sets become equal tuples."""
        return tuple(sorted(rig, key=self._positions.__getitem__))

    @cached_property
    def _positions(self) -> dict[Property, int]:
        return {one: number for number, one in enumerate(self.properties)}

    def reproduction(self, rig: Rig, page: str) -> Reproduction:
        """Return the experiments that repeat the published measurement of a page under the conditions in
        `rig`. Raises InputError if these conditions make an experiment invalid."""
        own = self.of_page(rig, page)
        arms = [one.arm for one in own if one.arm is not None]
        fitted = [one.fitted for one in own if one.fitted is not None]
        with_tfo = self._on_rig(own, page)
        return Reproduction(
            with_tfo,
            self._on_rig(own, page, off=True) if any(one.off for one in own) else with_tfo,
            arms[-1] if arms else HEADLINE.name,
            sum(one.tfo_ms for one in own),
            fitted[-1] if fitted else None,
        )

    def of_page(self, rig: Rig, page: str) -> Rig:
        """Return the conditions of `rig` that hold for a page. A condition only for this page replaces the
        condition of the same name for all pages."""
        # Replace copies by their originals, so that rigs with the same effect on the page become equal.
        own = [one for one in rig if one.is_about(page)]
        names = {one.name for one in own}
        return tuple(self.original(one) for one in own if _alone(one.name, page) not in names)

    @cached_property
    def _pages_with_copies(self) -> list[str]:
        copies = filter(self.is_copy, self.properties)
        return [*dict.fromkeys(page for one in copies for page in one.pages or ())]

    def is_copy(self, one: Property) -> bool:
        """Return True if a condition is a copy, made for a single page, of a condition with `each_page`."""
        return self.original(one) is not one

    def original(self, one: Property) -> Property:
        """Return the condition of which `one` is a single-page copy, or `one` itself if it is not a copy."""
        return one._original or one

    def _on_rig(self, own: Rig, page: str, *, off: bool = False) -> Experiment:
        """Return the experiment with only `page`, under the conditions `own`, which hold for this page. With
        `off`, also apply `Property.off`, the changes for loads without TFO."""
        factor, plus_ms = prod(one.rtt_factor for one in own), sum(one.rtt_plus_ms for one in own)
        networks: list[Network] = []
        for network in self.networks:
            try:
                experiment = self._experiment(network, own, page, off=off)
            except InputError as error:
                at_fault = self._at_fault(network, own, page, off=off)
                names = " and ".join(f"{one.name} ({one.value})" for one in at_fault)
                message = f"{names}: {error.message}" if names else error.message
                raise InputError(message, error.place, error.remedy) from None
            rtt_us = round(experiment.networks[0].rtt_us * factor + 1000 * plus_ms)
            networks.append(experiment.networks[0].model_copy(update={"rtt_us": rtt_us}))
        assert networks, "an experiment has networks"
        return experiment.model_copy(update={"networks": networks, "pages": [page]})

    def _experiment(self, network: Network, own: Rig, page: str, *, off: bool) -> Experiment:
        document = _with(self.document, _network_keys(network))
        for one in own:
            document = _with(document, one.set | one.off if off else one.set)
        experiment = experiment_of(_with(document, {"pages": [page]}), self.source, self.folder)
        if len(experiment.networks) != 1 or len(experiment.setups) != 1:
            place, remedy = self.source.place(KEY), "give each key one value"
            raise InputError("a rig must be one network and one setup", place, remedy)
        return experiment

    def _at_fault(self, network: Network, own: Rig, page: str, *, off: bool) -> Rig:
        for number in range(len(own)):
            for some in combinations(own, number):
                try:
                    self._experiment(network, some, page, off=off)
                except InputError:
                    return some
        return own


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


def rig_space(document: Mapping[str, Any], base: Experiment, source: SettingSource, folder: Path) -> RigSpace:
    """Return the possible test setups (rigs) that an experiment's TOML document declares. `base` is the
    experiment, and `folder` the base of relative paths. Raises InputError for invalid conditions."""
    declared = document.get(KEY, [])
    properties: list[Property] = []
    for number, one in enumerate(declared if isinstance(declared, list) else [declared]):
        try:
            properties += map(Property.model_validate, _split_by_tfo_ms(one))
        except ValidationError as error:
            named = (isinstance(one, dict) and one.get("name")) or f"number {number + 1}"
            raise input_errors(error, source.place(f"{KEY} {named}"))[0] from None
    properties = [one for declared_one in properties for one in _of_each_page(declared_one, base)]
    _check(properties, base, source)
    others = {key: value for key, value in document.items() if key != KEY}
    return RigSpace(base, tuple(properties), others, source, folder)


def _by_name(properties: Iterable[Property]) -> list[list[Property]]:
    return [*grouped((one.name, one) for one in properties).values()]


def _split_by_tfo_ms(declared: Any) -> list[Any]:
    match declared:
        case {"tfo_ms": [_, *_] as costs, "value": str(value)}:
            return [{**declared, "tfo_ms": cost, "value": value.replace("{}", f"{cost}")} for cost in costs]
    return [declared]


def _alone(name: str, page: str) -> str:
    return f"{name} of {page}"


def _of_each_page(one: Property, base: Experiment) -> list[Property]:
    """Return the condition and, if its `each_page` is True, a copy for each page with published figures."""
    pages = [page for page in base.pages if base.published is None or page in base.published.pages]
    return [one, *(one.of_one(page) for page in pages if one.each_page and one.is_about(page))]


def _check(properties: Sequence[Property], base: Experiment, source: SettingSource) -> None:
    for one in properties:
        if unknown := set(one.pages or ()) - set(base.pages):
            raise InputError(f"{one.name}: the experiment has no page {min(unknown)}", source.place(KEY))
    for one, other in combinations(properties, 2):
        if (one.name, one.value) == (other.name, other.value):
            raise InputError(f"{one.name}: {one.value} is declared twice", source.place(KEY))
        both = ({*one.set} | {*one.off}) & ({*other.set} | {*other.off})
        both |= {"arm"} if None not in (one.arm, other.arm) else set()
        both |= {"fitted"} if None not in (one.fitted, other.fitted) else set()
        shared = one.pages is None or other.pages is None or {*one.pages} & {*other.pages}
        replaced = any(
            _alone(a.name, p) == b.name for a, b in ((one, other), (other, one)) for p in b.pages or ()
        )
        if one.name != other.name and both and shared and not replaced:
            remedy = "give them one name: a rig has one value of each"
            raise InputError(f"{one.name} and {other.name} both set {min(both)}", source.place(KEY), remedy)


def _network_keys(network: Network) -> dict[str, Any]:
    ways = {"down": network.down, "up": network.up}
    rates = {f"network.{way}": BY_NAME[way].quantity.write(one.rate_bit_per_s) for way, one in ways.items()}
    return {"network.rtt": units.format_duration_us(network.rtt_us), "network.combine": None, **rates}


def _with(document: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    changed = deepcopy(dict(document))
    for key, value in changes.items():
        *tables, last = key.split(".")
        place = changed
        for table in tables:
            place = place.setdefault(table, {})
        if value is None:
            place.pop(last, None)
        else:
            place[last] = value
    return changed


def page_answered_later(page: Page, later_ms: float) -> Page:
    """Return the page with `later_ms` added to the server think time of every resource."""
    think_us = (one.server_think_us + round(1000 * later_ms) for one in page.resources)
    return page.changed({n: {"server_think_us": us} for n, us in enumerate(think_us)})


def page_of_objects(page: Page, objects: int, body_bytes: int, *, equal: bool = True) -> Page:
    """Return a page of `objects` resources with `body_bytes` bytes in total: a document, and images requested
    at its end. Their sizes are equal or, if not `equal`, have the ratios of the sizes in `page`."""
    begin = "/".join(page.url.split("/", 3)[:3])
    image = {"type": "image", "mime": "image/png", "initiator": 0}
    parts = [1] if equal else [max(one.body_bytes, 1) for one in page.resources]
    of_objects = [parts[number * len(parts) // objects] for number in range(objects)]
    total = sum(of_objects)
    sizes = [max(body_bytes * part // total, 1) for part in of_objects]
    others = (
        {**image, "url": f"{begin}/object{number}", "body_bytes": sizes[number]}
        for number in range(1, objects)
    )
    return _with_resources(page, {"body_bytes": sizes[0]}, others)


def chain_of_hosts(page: Page, hosts: int) -> Page:
    """Return a page with one resource from each of `hosts` hosts: the document of `page`, then small scripts.
    The client requests each script after it has received the preceding resource."""
    script = {"type": "script", "mime": "text/javascript", "body_bytes": SMALL_BYTES}
    others = (
        {**script, "url": f"http://host{number}.example/", "initiator": number - 1}
        for number in range(1, hosts)
    )
    return _with_resources(page, {}, others)


def _with_resources(page: Page, root: Mapping[str, Any], others: Iterable[Mapping[str, Any]]) -> Page:
    """Return the page with new resources and no server think times: its document, with the field values in
    `root`, and a copy of this document for each item of `others`, with the field values in the item."""
    document = page.resources[0].model_copy(update={**root, "server_think_us": 0, "server_send_us": 0})
    resources = (document, *(document.model_copy(update=one) for one in others))
    return page.model_copy(update={"resources": resources, "load_event_processing_us": 0, "explanations": ()})
