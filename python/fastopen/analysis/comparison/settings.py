"""Differences between two runs beside their factors: program, kernels, clients, pages, chance."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from fastopen.analysis.comparison.matching import Matching, Setting
from fastopen.analysis.comparison.side import Side
from fastopen.pages import Page

DIGEST_SHOWN: Final = 8


def settings_that_differ(before: Side, after: Side, matching: Matching) -> tuple[Setting, ...]:
    """The factors first, then what the runs were made with, then their pages."""
    return (
        *matching.settings,
        *_software(before.environment, after.environment),
        *_kernels(before, after, matching),
        *_machine(before.environment, after.environment, matching),
        *_chance(before, after, matching),
        *_pages(before, after, matching),
    )


def _different(name: str, before: object, after: object) -> Iterator[Setting]:
    if before != after:
        yield Setting(name, str(before or ""), str(after or ""))


def _software(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Setting]:
    was, now = before.get("versions", {}), after.get("versions", {})
    for name in ("fastopen", "fastopen-world"):
        yield from _different(name, was.get(name), now.get(name))
    was, now = before.get("clients") or {}, after.get("clients") or {}
    for name in (name for name in was if name in now):
        yield from _different(name, _in_words(was[name]), _in_words(now[name]))


def _kernels(before: Side, after: Side, matching: Matching) -> Iterator[Setting]:
    engines = _engines(matching)
    if "virtual" in engines:
        was, now = (side.environment.get("virtual_kernel") or {} for side in (before, after))
        if was.get("sha256") != now.get("sha256"):
            yield Setting("kernel of the virtual engine", _kernel(was), _kernel(now))
    if "host" in engines:
        was, now = (side.environment.get("kernel") for side in (before, after))
        yield from _different("kernel", was, now)


def _kernel(known: Mapping[str, Any]) -> str:
    digest = str(known.get("sha256", ""))[:DIGEST_SHOWN]
    return f"{known.get('name', '')} ({digest})" if digest else str(known.get("name", ""))


def _machine(before: Mapping[str, Any], after: Mapping[str, Any], matching: Matching) -> Iterator[Setting]:
    """Whose work takes time on the host; virtual time knows no machine."""
    if "host" in _engines(matching):
        for name in ("processor", "cores"):
            yield from _different(name, before.get(name), after.get(name))


def _engines(matching: Matching) -> set[str]:
    return {result.cell.engine for pair in matching.pairs for result in pair}


def _chance(before: Side, after: Side, matching: Matching) -> Iterator[Setting]:
    was, now = (side.results.experiment for side in (before, after))
    if not all(result.deterministic for pair in matching.pairs for result in pair):
        yield from _different("seed", str(was.seed), str(now.seed))
        drawn = ["no draws" if one.vary is None else "draws" for one in (was, now)]
        if was.vary != now.vary:
            yield Setting("vary", drawn[0], drawn[1] if drawn[0] != drawn[1] else "other draws")


def _pages(before: Side, after: Side, matching: Matching) -> Iterator[Setting]:
    names = dict.fromkeys((old.cell.page, new.cell.page) for old, new in matching.pairs)
    for old_name, new_name in names:
        old, new = before.results.pages[old_name], after.results.pages[new_name]
        if old_name != new_name:
            yield Setting(f"the name of {old.url}", old_name, new_name)
        digests = [page.model_copy(update={"name": ""}).digest() for page in (old, new)]
        if digests[0] != digests[1]:
            yield Setting(f"page {old_name}", _facts(old, digests[0]), _facts(new, digests[1]))
        bodies = (
            before.bodies.get(old_name, "")[:DIGEST_SHOWN],
            after.bodies.get(new_name, "")[:DIGEST_SHOWN],
        )
        yield from _different(f"recorded bodies of {old_name}", *bodies)


def _facts(page: Page, digest: str) -> str:
    body_bytes = sum(one.body_bytes for one in page.resources)
    return f"{len(page.resources)} requests, {body_bytes / 1000:.0f} kB ({digest[:DIGEST_SHOWN]})"


def _in_words(version: object) -> str:
    if isinstance(version, Mapping):
        return " ".join(str(value) for value in version.values())
    return str(version or "")
