"""Build a page from recorded exchanges (requests with their responses) whose initiators are known."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from fastopen.common.errors import InputError
from fastopen.pages.importers.exchange import Exchange, bodies_of
from fastopen.pages.importers.notes import Notes
from fastopen.pages.model import MAX_RESOURCES, Initiators, Page, Phase, Resource, ResourceType
from fastopen.pages.recording import ImportedPage, Recording

# Maps a resource type to the types of resources that may be its initiator, in addition to documents.
# OTHER_ASKERS has these types for all resource types that are not keys of ASKERS.
ASKERS: Final[dict[ResourceType, tuple[ResourceType, ...]]] = {
    "font": ("stylesheet",),
    "image": ("stylesheet", "script"),
    "stylesheet": ("stylesheet", "script"),
}
OTHER_ASKERS: Final[tuple[ResourceType, ...]] = ("script",)


@dataclass(frozen=True, slots=True)
class Edge:
    """The link from a request to its initiator: the earlier request whose response led to it. The browser
    needs `processing_us` before it makes the request. The server waits `think_us` before it responds, and
    takes `send_us` to send the body. `phase` is `load` if the load event waits for the request."""

    initiator: int | None
    """The index of the initiator; None for the page's first request."""
    at_bytes: int | None = None
    """Number of the initiator's body bytes that must arrive before the request; None: all."""
    type: ResourceType | None = None
    """The resource type implied by the initiator's reference, such as `<img>`; None if it implies none."""
    evidence: str = "referenced"
    """The evidence for the initiator: a key of notes.SENTENCES."""
    processing_us: int = 0
    phase: Phase = "load"
    think_us: int = 0
    send_us: int = 0


def check_size(requests: int, place: str) -> None:
    """Raise InputError if a page has too many requests. `place` names the file."""
    if requests > MAX_RESOURCES:
        message = f"{requests:,} requests in one page are too many; the limit is {MAX_RESOURCES:,}"
        raise InputError(message, place)


def page_of(
    exchanges: Sequence[Exchange],
    edges: dict[int, Edge],
    name: str,
    source: str,
    notes: Notes,
    *,
    initiators: Initiators = "inferred",
    alternatives: Mapping[int, tuple[str, ...]] | None = None,
    load_event_processing_us: int = 0,
    recorded_plt_us: int | None = None,
    recording: Recording | None = None,
) -> ImportedPage:
    """Build a page from the exchanges (requests with their responses) whose indices are keys of `edges`. Each
    edge links an exchange to its initiator, which must precede it. The first exchange is the page's document.
    `initiators` is the source of these links, such as `recorded`. `alternatives` maps exchanges to other URLs
    with the same response. The exchanges' notes are added to `notes`, which become the page's notes."""
    positions = {None: None} | {index: position for position, index in enumerate(edges)}
    kept = [exchanges[index] for index in edges]
    for edge in list(edges.values())[1:]:
        notes.add(edge.evidence)
    for one in kept:
        notes.update(one.notes)
    types = {index: edge.type or exchanges[index].type for index, edge in edges.items()}
    types[next(iter(edges))] = "document"
    # A redirect has the type of its target, because its own MIME type is arbitrary.
    for index, edge in reversed(edges.items()):
        if edge.initiator is not None and exchanges[edge.initiator].location == exchanges[index].url:
            types[edge.initiator] = types[index]
    resources = tuple(
        Resource(
            url=one.url,
            method=one.method,
            status=one.status,
            type=types[index],
            mime=one.mime,
            http=one.http,
            request_header_bytes=one.request_header_bytes,
            request_body_bytes=one.request_body_bytes,
            response_header_bytes=one.response_header_bytes,
            body_bytes=one.body_bytes,
            server_think_us=edge.think_us,
            server_send_us=edge.send_us,
            initiator=positions[edge.initiator],
            initiator_at_bytes=edge.at_bytes,
            processing_us=edge.processing_us,
            phase=edge.phase,
            redirect_to=one.location,
            fresh_s=one.freshness.fresh_s,
            validator=one.freshness.validator,
            alternatives=(alternatives or {}).get(index, ()),
        )
        for one, (index, edge) in zip(kept, edges.items(), strict=True)
    )
    page = Page(
        format="fastopen-page/1",
        name=name,
        url=resources[0].url,
        source=source,
        initiators=initiators,
        load_event_processing_us=load_event_processing_us,
        notes=notes.sentences(),
        resources=resources,
    )
    return ImportedPage(page, bodies_of(dict(enumerate(kept))), recorded_plt_us, recording)
