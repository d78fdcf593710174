"""Rigs in experiment files: properties, their conflicts, and pages defined by number and size of objects."""

from itertools import combinations_with_replacement
from pathlib import Path
from random import Random

import pytest

from fastopen.common.errors import InputError
from fastopen.common.files import read_toml
from fastopen.common.resources import packaged_folder
from fastopen.experiments import load_rigs, packaged_experiments
from fastopen.experiments.rigs import RigSpace, chain_of_hosts, page_answered_later, page_of_objects
from fastopen.pages import load_chosen

FILE = """
format = "fastopen-experiment/1"
name = "tried"
pages = ["example"]
transports = ["off", "warm"]

[network]
rtt = ["20ms", "100ms"]
down = "4mbit"
up = "1mbit"

[tls]
version = "none"

[[rig]]
name = "window"
value = "3 segments"
source = "RFC 3390"
set = { "tcp.initial_window_segments" = 3 }

[[rig]]
name = "window"
value = "1 segment"
source = "assumed: an old kernel"
set = { "tcp.initial_window_segments" = 1 }

[[rig]]
name = "delay"
value = "twice"
source = "assumed"
rtt_factor = 2
arm = "cold"
"""


DECLARED = [name for name, path in packaged_experiments().items() if "rig" in read_toml(path)]


def space_of(tmp_path: Path, more: str = "") -> RigSpace:
    (tmp_path / "tried.toml").write_text(FILE + more)
    return load_rigs(str(tmp_path / "tried.toml"))


def test_a_property_of_one_page_replaces_that_of_all_pages(tmp_path: Path) -> None:
    page = '[[rig]]\nname = "page"\nvalue = "{}"\nsource = "assumed"\neach_page = true\nfitted = "{}"\n'
    text = FILE.replace('["example"]', '["example", "one-request"]')
    path = tmp_path / "tried.toml"
    path.write_text(text + page.format("objects", "objects") + page.format("as declared", "time"))
    space = load_rigs(str(path))
    assert space.size == 3 * 2 * 3 * 3 * 3
    chosen = {("page", "objects"), ("page of one-request", "as declared")}
    mixed = space.ordered(one for one in space.properties if (one.name, one.value) in chosen)
    assert [space.reproduction(mixed, page).fitted for page in space.base.pages] == ["objects", "time"]
    everywhere = space.ordered(
        one for one in space.properties if (one.name, one.value) == ("page", "as declared")
    )
    assert space.of_page(mixed, "one-request") == space.of_page(everywhere, "one-request") == everywhere


def test_only_a_page_with_published_figures_may_have_its_own_property() -> None:
    space = load_rigs("palguyev")
    assert space.base.published is not None
    about = {page for one in space.properties for page in one.pages or ()}
    assert about == {*space.base.published.pages} < {*space.base.pages}


def test_costs_are_declared_together_and_replaced_in_the_value(tmp_path: Path) -> None:
    cost = '[[rig]]\nname = "cost"\nvalue = "{} ms"\nsource = "assumed"\ntfo_ms = [5, 7]\n'
    (tmp_path / "tried.toml").write_text(FILE.partition("[[rig]]")[0] + cost)
    space = load_rigs(str(tmp_path / "tried.toml"))
    assert [(one.value, one.tfo_ms) for one in space.properties] == [("5 ms", 5), ("7 ms", 7)]


def test_an_experiment_may_have_the_properties_that_another_one_declares(tmp_path: Path) -> None:
    space = space_of(tmp_path)
    sharing = (tmp_path / "tried.toml").read_text().partition("[[rig]]")[0]
    (tmp_path / "sharing.toml").write_text(f'rig = "tried.toml"\n{sharing}')
    shared = load_rigs(str(tmp_path / "sharing.toml")).properties
    assert [one.model_dump() for one in shared] == [one.model_dump() for one in space.properties]


def test_rigs_have_one_value_of_each_property(tmp_path: Path) -> None:
    space = space_of(tmp_path)
    assert ([one.name for one in space.properties], space.size) == (["window", "window", "delay"], 6)
    rigs = [*space.rigs(len)]
    assert len(rigs) == 6
    assert rigs[0] == ()
    three, one, delay = space.properties
    assert space.neighbours((three,)) == [(one,), (three, delay)]
    assert [each.assumed for each in space.properties] == [False, True, True]


def test_a_reproduction_is_the_base_with_the_properties_of_its_rig(tmp_path: Path) -> None:
    space = space_of(tmp_path)
    three, _, delay = space.properties
    base, changed = space.reproduction((), "example"), space.reproduction((three, delay), "example")
    assert [one.rtt_us for one in base.experiment.networks] == [20_000, 100_000]
    assert [one.rtt_us for one in changed.experiment.networks] == [40_000, 200_000]
    assert {one.down.rate_bit_per_s for one in changed.experiment.networks} == {4_000_000}
    assert (base.arm, changed.arm) == ("warm", "cold")
    windows = [one.experiment.setups[0].tcp.initial_window_segments for one in (base, changed)]
    assert windows == [10, 3]


def test_a_property_may_hold_only_without_tfo_and_lengthen_the_rtt(tmp_path: Path) -> None:
    more = """
[[rig]]
name = "first load"
value = "with lookups"
source = "assumed"
off = { "network.names" = "do53" }
rtt_plus_ms = 2
"""
    space = space_of(tmp_path, more)
    delay, first = space.properties[2:]
    same = space.reproduction((delay,), "example")
    assert same.off is same.experiment
    reproduction = space.reproduction((delay, first), "example")
    assert [one.rtt_us for one in reproduction.off.networks] == [42_000, 202_000]
    assert [one.rtt_us for one in reproduction.experiment.networks] == [42_000, 202_000]
    assert {one.names for one in reproduction.off.networks} == {"do53"}
    assert {one.names for one in reproduction.experiment.networks} == {"none"}


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (
            '[[rig]]\nname = "other"\nvalue = "x"\nsource = "x"\noff = {"tcp.initial_window_segments" = 4}',
            "window and other both set tcp.initial_window_segments",
        ),
        (
            '[[rig]]\nname = "other"\nvalue = "x"\nsource = "x"\nset = {"tcp.initial_window_segments" = 4}',
            "window and other both set tcp.initial_window_segments",
        ),
        (
            '[[rig]]\nname = "window"\nvalue = "3 segments"\nsource = "x"',
            "window: 3 segments is declared twice",
        ),
        (
            '[[rig]]\nname = "x"\nvalue = "x"\nsource = "x"\npages = ["other"]',
            "x: the experiment has no page other",
        ),
        ('[[rig]]\nname = "x"\nvalue = "x"\nsource = "x"\nrtt_factor = 0', "greater than 0"),
        ('[[rig]]\nname = "x"\nvalue = "x"\nsource = "x"\nrtt_factor = 0', "tried.toml: rig x: rtt_factor"),
        ('[[rig]]\nvalue = "x"\nsource = "x"', "tried.toml: rig number 4: name"),
        ('[[rig]]\nname = "x"\nvalue = "x"\nsource = "x"\ntfo_ms = []', "tfo_ms"),
        ('[[rig]]\nname = "x"\nvalue = "x"\nsource = "x"\ntfo_ms = [5, -1]', "tfo_ms: -1 is too small"),
        ('[[rig]]\nname = "x"\nvalue = "x"', "source"),
    ],
)
def test_wrong_declarations_are_refused_by_name(tmp_path: Path, more: str, message: str) -> None:
    with pytest.raises(InputError) as refused:
        space_of(tmp_path, more)
    assert message in str(refused.value)


def test_properties_that_exclude_each_other_are_named(tmp_path: Path) -> None:
    more = """
[[rig]]
name = "HTTP"
value = "2"
source = "assumed"
set = { "origins.http" = "2" }

[[rig]]
name = "close"
value = "each"
source = "assumed"
set = { "origins.keep_alive" = false }
"""
    space = space_of(tmp_path, more)
    with pytest.raises(InputError) as refused:
        space.reproduction(space.properties[-2:], "example")
    assert "HTTP (2) and close (each)" in str(refused.value)


def test_a_property_with_several_values_of_a_key_is_named(tmp_path: Path) -> None:
    more = '[[rig]]\nname = "names"\nvalue = "x"\nsource = "x"\nset = {"network.names" = ["none", "do53"]}'
    space = space_of(tmp_path, more)
    with pytest.raises(InputError, match=r"names \(x\): a rig must be one network and one setup"):
        space.reproduction(space.properties[-2:], "example")


def test_a_page_that_is_answered_later_takes_so_much_longer_at_its_servers() -> None:
    (imported,) = load_chosen(["example"], None)
    later = page_answered_later(imported.page, 2.5)
    pairs = zip(imported.page.resources, later.resources, strict=True)
    assert {other.server_think_us - one.server_think_us for one, other in pairs} == {2500}


def test_a_page_of_objects_has_so_many_of_one_size() -> None:
    (imported,) = load_chosen(["example"], None)
    page = page_of_objects(imported.page, 7, 7000)
    assert [one.body_bytes for one in page.resources] == [1000] * 7
    assert page.resources[0].url == imported.page.resources[0].url
    assert len({one.url for one in page.resources}) == 7
    assert type(page).model_validate(page.model_dump()) == page


def test_objects_may_have_the_ratios_of_the_pages_resources() -> None:
    (imported,) = load_chosen(["example"], None)
    sizes = [one.body_bytes for one in imported.page.resources]
    same = page_of_objects(imported.page, len(sizes), sum(sizes), equal=False)
    assert [one.body_bytes for one in same.resources] == sizes
    double = page_of_objects(imported.page, 2 * len(sizes), 6 * sum(sizes), equal=False)
    assert [one.body_bytes for one in double.resources] == [3 * size for size in sizes for _ in range(2)]
    few = [one.body_bytes for one in page_of_objects(imported.page, 3, 9000, equal=False).resources]
    assert (len(few), abs(sum(few) - 9000) < 3) == (3, True)


def test_a_chain_of_hosts_is_a_chain_of_small_scripts() -> None:
    (imported,) = load_chosen(["example"], None)
    page = chain_of_hosts(imported.page, 4)
    assert [one.initiator for one in page.resources] == [None, 0, 1, 2]
    assert page.resources[0].body_bytes == imported.page.resources[0].body_bytes
    assert len({one.url.split("/")[2] for one in page.resources}) == 4
    assert type(page).model_validate(page.model_dump()) == page


def test_any_two_properties_of_a_packaged_rig_go_together() -> None:
    assert len(DECLARED) == 9
    for space in map(load_rigs, DECLARED):
        # Many pairs have equal conditions on some page. One page is enough for each of these.
        pages = {
            space.of_page(space.ordered({one, other}), page): page
            for one, other in combinations_with_replacement(space.properties, 2)
            if one is other or one.name != other.name
            for page in space.base.pages
        }
        for rig, page in pages.items():
            space.reproduction(rig, page)


def test_an_experiment_without_rigs_is_told_so() -> None:
    with pytest.raises(InputError, match="--explain compares possible test conditions"):
        load_rigs("broken-paths")


def test_a_value_that_most_pages_have_becomes_that_of_all_pages() -> None:
    space = load_rigs("purdue-method2")
    by_value = {(one.name, one.value): one for one in space.properties}
    objects, sizes = (one for one in space.properties if one.name == "page")
    pages = space.base.pages
    of_pages = [by_value[f"page of {page}", objects.value] for page in pages]
    assert space.shortest(space.ordered(of_pages)) == (objects,)
    other = by_value[f"page of {pages[0]}", sizes.value]
    assert space.shortest(space.ordered([other, *of_pages[1:]])) == space.ordered([objects, other])
    # No property says that a page is as declared, so a page without one keeps the others apart.
    assert space.shortest(space.ordered(of_pages[1:])) == space.ordered(of_pages[1:])


@pytest.mark.parametrize(
    "costs",
    [
        # All pages have 7 ms, and one of them has 5 ms.
        [("5 ms", "each_page = true"), ("7 ms", "")],
        # Each of two pages has its own cost.
        [("5 ms", 'each_page = true\npages = ["amazon"]'), ("7 ms", 'pages = ["wikipedia-tcp"]')],
    ],
)
def test_a_value_that_is_not_declared_for_each_page_stays(
    tmp_path: Path, costs: list[tuple[str, str]]
) -> None:
    packaged = packaged_folder("experiments")
    assert packaged is not None
    text = (packaged / "palguyev.toml").read_text().replace('rig = "meissner"', "")
    for value, more in costs:
        text += f'[[rig]]\nname = "cost"\nvalue = "{value}"\nsource = "assumed"\n{more}\n'
    (tmp_path / "costly.toml").write_text(text)
    space = load_rigs(str(tmp_path / "costly.toml"))
    rig = (next(filter(space.is_copy, space.properties)), space.properties[-1])
    assert space.shortest(rig) == rig


@pytest.mark.parametrize("name", DECLARED)
def test_the_shortest_rig_gives_each_page_the_same_conditions(name: str) -> None:
    space = load_rigs(name)
    pages = [page for page in space.base.pages if space.cells_of(page)]
    random = Random(1)
    for _ in range(200):
        some = random.sample(space.properties, random.randint(0, min(8, len(space.properties))))
        rig = space.ordered({one.name: one for one in some}.values())
        short = space.shortest(rig)
        assert len(short) <= len(rig)
        assert all({*space.of_page(short, page)} == {*space.of_page(rig, page)} for page in pages)


def test_page_neighbours_differ_in_several_properties_of_a_page() -> None:
    space = load_rigs("purdue-method2")
    window = next(one for one in space.properties if one.name == "initial window")
    found = space.page_neighbours((window,))
    # Two kinds of page and four costs, each also as for all pages.
    assert len(found) == len(space.base.pages) * 3 * 5
    assert all(window in rig and len({one.pages[0] for one in rig if one.pages}) <= 1 for rig in found)
