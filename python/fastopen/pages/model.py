"""Define, validate, read and write pages and their resources. See docs/dev/contract.md."""

from __future__ import annotations

import hashlib
import json
import operator
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from fastopen.common import json_memory
from fastopen.common.errors import InputError
from fastopen.common.files import read_text, write_atomic
from fastopen.common.pydantic_errors import input_error
from fastopen.pages import url as urls

FORMAT: Final = "fastopen-page/1"
MAX_RESOURCES: Final = 10_000
# Limits that no page reaches. They keep the sums over 10,000 resources within 64 bits, also in Rust.
MAX_BYTES: Final = 2**40
MAX_US: Final = 10**12
MAX_FRESH_S: Final = 10**9
MAX_ALTERNATIVES: Final = 100
MAX_EXPLANATIONS: Final = 8

ResourceType = Literal["document", "stylesheet", "script", "image", "font", "xhr", "media", "other"]
Phase = Literal["load", "async", "after"]
Initiators = Literal["recorded", "inferred", "mixed", "declared"]
Bytes = Annotated[int, Field(ge=0, le=MAX_BYTES)]
Microseconds = Annotated[int, Field(ge=0, le=MAX_US)]
Line = Annotated[str, Field(pattern=r"^[^\x00-\x1f\x7f]*$")]


def _checked_url(value: str) -> str:
    problem = urls.problem_of(value)
    if problem is not None:
        raise PydanticCustomError("page_url", "{problem}", {"problem": problem})
    return value


def _fault(place: str, problem: str) -> PydanticCustomError:
    return PydanticCustomError("resource", "{place}: {problem}", {"place": place, "problem": problem})


Url = Annotated[str, Field(strict=True), AfterValidator(_checked_url)]

HttpVersion = Literal["1.0", "1.1", "2", "3"]
_CONFIG: Final = ConfigDict(strict=True, extra="forbid", frozen=True)

# Keys that later versions of fastopen added to the format. Digests omit them if they have default values.
_LATER_KEYS: Final = ("server_send_us", "fresh_s", "validator", "alternatives", "pushed", "http")

# Keys of a resource that page files contain even if they have default values.
_ALWAYS_WRITTEN: Final = ("mime", "request_header_bytes", "response_header_bytes")


def body_is_empty(method: str, status: int) -> bool:
    """Return True if a response to this method, or with this status, has no body (RFC 9110 section 6.4.1)."""
    return method == "HEAD" or status in (204, 304)


class Resource(BaseModel):
    """One request and its response. Sizes are in bytes as HTTP/1.1 sends them, times in microseconds."""

    model_config = _CONFIG

    url: Url
    """The absolute `http` or `https` URL, without user name and fragment. The host is in lower case. The path
    is required and percent-encoded; the port is optional. Several resources may have the same URL."""
    method: str = Field(default="GET", pattern=r"^[A-Z][A-Z_-]{0,31}$")
    """The request method: a capital letter, then up to 31 capital letters, `-` or `_`."""
    status: int = Field(default=200, ge=200, le=599)
    """The status code of the response."""
    type: ResourceType
    """The resource type, in a browser's classification."""
    mime: Line = "application/octet-stream"
    """The Content-Type of the response."""
    request_header_bytes: Bytes = 400
    """Size of request line, headers and blank line; in a job at most 262,144."""
    request_body_bytes: Bytes = 0
    """Size of the request body."""
    response_header_bytes: Bytes = 300
    """Size of status line, headers and blank line; in a job at most 262,144."""
    body_bytes: Bytes
    """Size of the response body as sent, so after compression; 0 for HEAD, 204 and 304."""
    server_think_us: Microseconds = 0
    """Time at the server from the last byte of the request to the first byte of the response."""
    server_send_us: Microseconds = 0
    """Time from the first to the last byte of the body at the server, which sends the body at an even rate.
    Above 0 if the server generates the body while sending."""
    initiator: int | None = Field(ge=0)
    """Index of the resource that made the client request this one. The index must be smaller than this
    resource's own. null only for the root."""
    initiator_at_bytes: Bytes | None = None
    """Body bytes of the initiator that must arrive to reveal this resource; null: the whole response."""
    pushed: bool = False
    """True if the server pushed the resource. In a replay, the loader then knows of the resource as soon as
    the loader queues the initiator's request, and ignores `initiator_at_bytes`."""
    processing_us: Microseconds = 0
    """Client processing time between the discovery of this resource and the queueing of its request."""
    phase: Phase = "load"
    """`load`: the load event waits for the resource, if the client knows of the resource by then. `async`:
    the resource is requested before the load event, which does not wait for it. `after`: the resource is
    requested after the load event, and only if the job's `phases` include `after`. The root is in `load`.
    Resources with an initiator in `after` are in `after`."""
    redirect_to: Line | None = None
    """The Location of a 3xx response, else null. The target is the first resource that this one initiates."""
    fresh_s: Annotated[int, Field(ge=0, le=MAX_FRESH_S)] | None = None
    """Seconds for which a cache may use the response after its arrival without revalidation (RFC 9111:
    max-age minus Age, Expires, or a browser's heuristic from Last-Modified); 0: not at all; null: unknown."""
    validator: bool = False
    """True if a cache can revalidate the response, because it had an ETag or a Last-Modified."""
    alternatives: Annotated[tuple[Url, ...], Field(strict=False, max_length=MAX_ALTERNATIVES)] = ()
    """Other URLs, in the format of `url`, that get this response with [recorded
    bodies](../bodies.md#recorded-bodies): unrecorded choices of the same `srcset` or `picture` and, in a
    mirror, different URLs by which documents and stylesheets refer to the file."""
    http: HttpVersion | None = None
    """The HTTP version of the recorded response; null: not known."""
    body_offset: Bytes | None = None
    """In a job only: offset in the job's `bodies_file` of the recorded body, which has `body_bytes` bytes."""
    head_offset: Bytes | None = None
    """In a job only: offset in the job's `bodies_file` of the recorded head of the response, which is in
    HTTP/1.1 syntax and ends with an empty line."""

    @property
    def host(self) -> str:
        return urls.host_of(self.url)

    @property
    def encrypted(self) -> bool:
        return self.url.startswith("https:")

    @property
    def wire_bytes(self) -> int:
        """Return the total size of request and response in bytes, headers included."""
        return (
            self.request_header_bytes + self.request_body_bytes + self.response_header_bytes + self.body_bytes
        )


class Explanation(BaseModel):
    """Server think times and reference positions that explain the recorded times of a page. A reference
    position is the number of an initiator's body bytes that must arrive before the client makes a request."""

    model_config = _CONFIG

    server_think_us: Annotated[tuple[Microseconds, ...], Field(strict=False)]
    """`server_think_us` of each resource, in the order of `resources`."""
    initiator_at_bytes: Annotated[tuple[Bytes | None, ...], Field(strict=False)]
    """`initiator_at_bytes` of each resource, in the order of `resources`."""


class Page(BaseModel):
    """A page. Its resources are ordered so that each initiator precedes the resources that it initiates."""

    model_config = _CONFIG

    format: Literal["fastopen-page/1"]
    """The name and version of the page format."""
    name: Annotated[Line, Field(min_length=1)]
    """The name of the page in tables and files."""
    url: Url
    """The URL that a person would type. The page is served at `resources[0].url`, usually the same URL."""
    source: Line
    """The source of the data, such as the kind and date of a recording."""
    initiators: Initiators
    """The source of the initiators: `recorded` by the recorder, `inferred` by the importer, `mixed` (some
    recorded, others inferred), or `declared` by the page's author."""
    # Only the container is not strict, so that a JSON list becomes a tuple. Its members stay strict.
    notes: Annotated[tuple[Annotated[Line, Field(strict=True)], ...], Field(strict=False)] = ()
    """Notes for readers: facts that were missing, guessed or left out."""
    load_event_processing_us: Microseconds = 0
    """Client processing time between the last byte of the last `load` resource and the load event."""
    resources: Annotated[tuple[Resource, ...], Field(strict=False, min_length=1, max_length=MAX_RESOURCES)]
    """The resources. The first is the root document; every other has an initiator with a smaller index."""
    explanations: Annotated[
        tuple[Explanation, ...], Field(strict=False, max_length=MAX_EXPLANATIONS, exclude_if=operator.not_)
    ] = ()
    """Alternatives to the server think times and reference positions of `resources` that fit the recording
    equally well. A [sample](../vary.md) uses one set of these values. A job's page has no alternatives."""

    @model_validator(mode="after")
    def _check_resources(self) -> Self:
        for index, resource in enumerate(self.resources):
            for field, problem in _problems(self.resources, index, resource):
                raise _fault(f"resources[{index}].{field}", problem)
        for number, explanation in enumerate(self.explanations):
            if misplaced := _misplaced(self.resources, explanation):
                raise _fault(f"explanations[{number}]", misplaced)
        return self

    @property
    def explanation(self) -> Explanation:
        """Return the server think times and reference positions of the page's resources."""
        return Explanation(
            server_think_us=tuple(one.server_think_us for one in self.resources),
            initiator_at_bytes=tuple(one.initiator_at_bytes for one in self.resources),
        )

    def with_explanation(self, explanation: Explanation) -> Page:
        """Return a copy of the page without alternative `explanations`. Its resources have the server think
        times and reference positions of `explanation`."""
        values = zip(explanation.server_think_us, explanation.initiator_at_bytes, strict=True)
        changes = {n: {"server_think_us": us, "initiator_at_bytes": at} for n, (us, at) in enumerate(values)}
        return self.changed(changes).model_copy(update={"explanations": ()})

    def changed(self, changes: Mapping[int, Mapping[str, object]]) -> Page:
        """Return a copy of the page with other values of some fields of its resources. `changes` maps indices
        of resources to values keyed by field, which are not validated."""
        resources = tuple(one.model_copy(update=changes.get(n)) for n, one in enumerate(self.resources))
        return self.model_copy(update={"resources": resources})

    def hosts(self) -> tuple[str, ...]:
        """Return the host names, in the order of their first resources."""
        return tuple(dict.fromkeys(r.host for r in self.resources))

    def origins(self) -> tuple[tuple[str, str, int], ...]:
        """Return the origins as (scheme, host, port), in the order of their first resources."""
        return tuple(dict.fromkeys(urls.origin_of(r.url) for r in self.resources))

    def body_bytes(self) -> int:
        """Return the total size of all response bodies in bytes, as sent."""
        return sum(r.body_bytes for r in self.resources)

    def wire_bytes(self) -> int:
        """Return the total size of all requests and responses in bytes, headers included."""
        return sum(r.wire_bytes for r in self.resources)

    def digest(self) -> str:
        """Return a SHA-256 that identifies the page's content. It is the same in later versions of fastopen,
        and does not depend on `notes`, `body_offset` and `head_offset`."""
        # Omit keys of later versions if they have default values, so that older pages keep their digests.
        data = self.model_dump(exclude={"resources": {"__all__": {"body_offset", "head_offset"}}})
        data["notes"] = ()
        for resource in data["resources"]:
            for key in _LATER_KEYS:
                if resource[key] == Resource.model_fields[key].default:
                    del resource[key]
        canonical = json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        return hashlib.sha256(canonical.encode()).hexdigest()


def _misplaced(resources: tuple[Resource, ...], explanation: Explanation) -> str | None:
    places = explanation.initiator_at_bytes
    if not len(explanation.server_think_us) == len(places) == len(resources):
        return f"not one value for each of {len(resources)} resources"
    for index, (resource, at_bytes) in enumerate(zip(resources, places, strict=True)):
        most = -1 if resource.initiator is None else resources[resource.initiator].body_bytes
        if at_bytes is not None and at_bytes > most:
            return f"initiator_at_bytes[{index}] is more than its initiator's body bytes"
    return None


def _problems(resources: tuple[Resource, ...], index: int, resource: Resource) -> Iterator[tuple[str, str]]:
    if body_is_empty(resource.method, resource.status) and resource.body_bytes:
        yield "body_bytes", f"a {resource.method} answered with {resource.status} has no body"
    if resource.redirect_to is not None and not 300 <= resource.status < 400:
        yield "redirect_to", f"status {resource.status} does not redirect"
    if index == 0:
        if resource.initiator is not None:
            yield "initiator", "the root document has none (null)"
        elif resource.initiator_at_bytes is not None:
            yield "initiator_at_bytes", "the root document has no initiator"
        elif resource.pushed:
            yield "pushed", "the root document has no initiator"
        elif resource.phase != "load":
            yield "phase", "the root document is in phase load"
        return
    if resource.initiator is None:
        yield "initiator", "only resources[0] may have none"
        return
    if resource.initiator >= index:
        yield "initiator", f"{resource.initiator} is not before {index}"
        return
    parent = resources[resource.initiator]
    if resource.initiator_at_bytes is not None and resource.initiator_at_bytes > parent.body_bytes:
        problem = f"{resource.initiator_at_bytes} is more than its initiator's {parent.body_bytes} body bytes"
        yield "initiator_at_bytes", problem
    if parent.phase == "after" and resource.phase != "after":
        yield "phase", f"{resource.phase}, but its initiator is in phase after"


def page_of_hosts(
    name: str, source: str, hosts: Iterable[str], kind: ResourceType, body_bytes: int = 0
) -> Page:
    """Return a synthetic page with one http resource of `body_bytes` bytes on each host. The first resource
    is a document, which makes the client request the others. These have the type `kind`."""
    resources = tuple(
        Resource(
            url=f"http://{host}/",
            type=kind if number else "document",
            body_bytes=body_bytes,
            initiator=0 if number else None,
        )
        for number, host in enumerate(hosts)
    )
    url = resources[0].url
    return Page(format=FORMAT, name=name, url=url, source=source, initiators="declared", resources=resources)


def parse_page(data: object, place: str) -> Page:
    """Convert decoded JSON into a page. Raises InputError, which names the file `place`, if it is invalid."""
    if not isinstance(data, Mapping):
        raise InputError("not a page", place, f'write a JSON object with "format": "{FORMAT}"')
    try:
        return Page.model_validate(data)
    except ValidationError as error:
        raise input_error(error, place) from None


def read_page(path: Path | str) -> Page:
    """Read a `*.page.json` file. Raises InputError if it cannot be read or is not a valid page."""
    text, place = read_text(Path(path)), str(path)
    if json_memory.is_too_much(text):
        raise InputError("needs more memory than any page", place)
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        where = f"{place}: line {error.lineno} column {error.colno}"
        fault = f"malformed JSON: {error.msg}"
        raise InputError(fault, where, "fix that place, or write the file again") from None
    except RecursionError:
        raise InputError("malformed JSON: nested too deeply", place) from None
    except ValueError as error:  # such as an integer of thousands of digits
        raise InputError(f"malformed JSON: {error}", place) from None
    return parse_page(data, place)


def page_json(page: Page) -> str:
    """Return the JSON of a page file, with a line for each key or resource. Omit most default values."""
    data = page.model_dump(mode="json", exclude={"notes", "resources"}, exclude_defaults=True)
    lines = [f"  {json.dumps(key)}: {_compact(value)}" for key, value in data.items()]
    resources = []
    for resource in page.resources:
        written = {*_ALWAYS_WRITTEN, *resource.model_dump(exclude_defaults=True)}
        resources.append(resource.model_dump(mode="json", include=written))
    for key, values in (("notes", page.notes), ("resources", resources)):
        if values:
            rows = ",\n".join(f"    {_compact(value)}" for value in values)
            lines.append(f'  "{key}": [\n{rows}\n  ]')
    return "{\n" + ",\n".join(lines) + "\n}\n"


def write_page(page: Page, path: Path | str) -> None:
    write_atomic(path, page_json(page))


def _compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(", ", ": "))
