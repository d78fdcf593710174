"""Generate test cases of the contract: a golden document with one change, and the verdict on the result."""

import copy
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import jsonschema_rs
from pydantic import ValidationError

from contract_documents import Json, job_schema, record_schema
from fastopen.contract.job import HEAD_MAX_BYTES, TARGET_MAX_BYTES, Job
from fastopen.contract.network import IP_HEADER_BYTES, IPV6_MTU_MIN_BYTES, QUIC_UDP_BYTES, TRACE_MAX_MS
from fastopen.contract.part import WORD_MAX_BYTES

GOLDEN: Final = Path(__file__).resolve().parents[1] / "tests" / "contract"
# Index of the list element that cases change; 0 for other lists.
ELEMENT: Final = {"/page/resources": 1, "/loads": 1, "/client/phases": 2}
RESOURCE: Final = "/page/resources/1"
TLS_LOADS: Final = [{"id": "tls", "transport": "tls"}]
_SERVER: Final[Json] = {
    "/origins/server": ["nginx", "-c", "/a.conf"],
    "/loads": [{"id": "tcp", "transport": "tcp"}],
    "/tcp_trace": False,
}
# Values that are valid only together with other values: pointer, value (`int`: any integer), required values.
REQUIRED_WITH: Final[tuple[tuple[str, Any, Json], ...]] = (
    ("/network/up/rate_bit_per_s", int, {"/network/up/trace_ms": None}),
    ("/network/down/rate_bit_per_s", None, {"/network/cross": None}),
    (
        *("/network/link", "kernel"),
        {"/network/up/trace_ms": None, "/network/up/jitter": None, "/network/host_extra_rtt_us": {}},
    ),
    ("/network/path", "block-ipv6", {"/network/ip": "6"}),
    ("/network/ip", "4+6", {"/client/kind": "chromium"}),
    ("/client/kind", "command", {"/client/command": ["get"]}),
    ("/client/screenshot", True, {"/client/kind": "chromium"}),
    ("/client/filmstrip", True, {"/client/kind": "chromium"}),
    ("/client/fixed_scripts", True, {"/client/kind": "chromium"}),
    ("/client/request_heads", "recorded", {"/client/kind": "chromium"}),
    ("/client/view", "repeat", {"/client/kind": "chromium"}),
    ("/origins/http", "2", {"/origins/keep_alive": True}),
    ("/origins/http", "3", {"/origins/keep_alive": True, "/tls/version": "1.3", "/loads": TLS_LOADS}),
    ("/origins/single_threaded", True, {}),
    ("/origins/one_address", True, {"/loads": [{"id": "tcp", "transport": "tcp"}]}),
    ("/origins/server_listen", True, _SERVER),
    ("/origins/upstream_tfo", True, _SERVER),
    ("/origins/upstream_rtt_us", int, _SERVER),
    ("/tls/session", "early", {"/tls/version": "1.3"}),
    *(
        ("/tls/certificates", kind, {"/tls/version": "1.3"})
        for kind in ("ml-dsa-44", "ml-dsa-65", "slh-dsa-128s", "merkle-tree")
    ),
    *(
        ("/tls/certificate_compression", algorithm, {"/tls/version": "1.3"})
        for algorithm in ("brotli", "zlib")
    ),
    ("/tls/ech", "grease", {"/tls/version": "1.3"}),
    (
        *("/origins/bodies", "recorded"),
        {"/client/kind": "chromium", "/tls/security": "recorded", "/loads": TLS_LOADS},
    ),
    ("/loads/1/transport", "tcp", {"/loads/1/cookies": None}),
    ("/loads/1/transport", "tls", {"/loads/1/cookies": None, "/loads/1/transactions": None}),
    ("/loads/1/transport", "tls+tfo", {"/loads/1/transactions": None}),
    ("/loads/1/cookies", None, {"/loads/1/transport": "tcp"}),
    (f"{RESOURCE}/status", 200, {f"{RESOURCE}/redirect_to": None}),
    (f"{RESOURCE}/status", 599, {f"{RESOURCE}/redirect_to": None}),
    (f"{RESOURCE}/phase", "after", {"/page/resources/2/phase": "after"}),
    (f"{RESOURCE}/initiator_at_bytes", 2**40, {"/page/resources/0/body_bytes": 2**40}),
)
# Changes that the bounds of their key allow, but that other keys of the golden job forbid.
NEVER: Final = {
    (f"{RESOURCE}/initiator", None),
    (f"{RESOURCE}/request_header_bytes", 2**40),
    (f"{RESOURCE}/response_header_bytes", 2**40),
    ("/loads/1/cookies", "removed"),
    (f"{RESOURCE}/status", "removed"),
}


def job_cases() -> str:
    """Return a JSON line for each case: changes of the golden job at JSON pointers, and the expected verdict.

    Changes are `set`, `remove`, `length` (repeat a list's last element until the list has this length) and
    `text` (for [A, B, N], write A and then N times B). `refused` is null if the changed job is valid,
    `schema` if the schema refuses it, or `rule` if the schema cannot express the fault. If a case uses an
    invalid word of an enum or an invalid key of an object, `known` lists the valid words or keys."""
    schema = json.loads(job_schema())
    golden = _golden("job")
    changes = [*_changes(schema, schema, golden, ""), *({"change": one} for one in _related())]
    return "".join(_job_case(schema, golden, **one) for one in changes)


def record_cases() -> str:
    """Return a JSON line for each case: changes of a golden record. `fits`: the schema allows the result."""
    schema = json.loads(record_schema())
    lines = []
    for name in ("world", "load", "transactions", "packets", "end", "error"):
        golden = _golden(name)
        model = schema["$defs"][f"{name.capitalize()}Record"]
        for one in _changes(schema, model, golden, ""):
            record = changed(golden, one["change"])
            fits = jsonschema_rs.Draft202012Validator(schema).is_valid(record)
            assert fits == one["within"], one
            lines.append(_line({"record": name, **one["change"], "fits": fits, **_known(one)}))
    return "".join(lines)


def _job_case(schema: Json, golden: Json, change: Json, within: bool | None = None, known: Any = None) -> str:
    if within:
        for pointer, value, required in REQUIRED_WITH:
            given = change.get("set", {}).get(pointer, required)
            if given == value or (value is int and isinstance(given, int)):
                change = {**change, "set": {**required, **change["set"]}}
    job = changed(golden, change)
    refused = None
    try:
        Job.model_validate_json(json.dumps(job))
    except ValidationError:
        refused = "rule" if jsonschema_rs.Draft202012Validator(schema).is_valid(job) else "schema"
    never = {*change.get("set", {}).items()} if _hashable(change) else set()
    never |= {(pointer, "removed") for pointer in change.get("remove", ())}
    if within is not None and not never & NEVER:
        assert (refused is None) == within, (change, refused)
    return _line({**change, "refused": refused, **_known({"known": known})})


def _hashable(change: Json) -> bool:
    return not any(isinstance(value, list | dict) for value in change.get("set", {}).values())


def _known(one: Json) -> Json:
    return {"known": one["known"]} if one.get("known") else {}


def _line(case: Json) -> str:
    return json.dumps(case, ensure_ascii=False) + "\n"


def _golden(name: str) -> Json:
    golden: Json = json.loads((GOLDEN / f"{name}.json").read_text())
    return golden


def changed(document: Json, change: Json) -> Json:
    """Return a copy of the document with the changes of a case."""
    document = copy.deepcopy(document)
    for pointer, value in change.get("set", {}).items():
        place, key = _place(document, pointer)
        place[key] = copy.deepcopy(value)
    for pointer in change.get("remove", ()):
        place, key = _place(document, pointer)
        del place[key]
    for pointer, length in change.get("length", {}).items():
        place, key = _place(document, pointer)
        place[key] += [place[key][-1]] * (length - len(place[key]))
    for pointer, (before, middle, times) in change.get("text", {}).items():
        place, key = _place(document, pointer)
        place[key] = before + middle * times
    return document


def _place(document: Any, pointer: str) -> tuple[Any, Any]:
    *way, last = pointer.split("/")[1:]
    for step in way:
        document = document[int(step) if isinstance(document, list) else step]
    return document, int(last) if isinstance(document, list) else last


def _changes(schema: Json, model: Json, value: Any, pointer: str) -> Iterator[Json]:
    """Yield cases that each change one value of an object. `within`: True if the schema allows the result."""
    for key, of_key in model.get("properties", {}).items():
        at = f"{pointer}/{key}"
        for one, within, known in _values(_options(schema, of_key)):
            yield {"change": {"set": {at: one}}, "within": within, "known": known}
        if key in value:
            yield {"change": {"remove": [at]}, "within": key not in model.get("required", ())}
        yield from _inside(schema, of_key, value.get(key), at)
    if model.get("additionalProperties") is False:
        surprise = {"set": {f"{pointer}/surprise": 1}}
        yield {"change": surprise, "within": False, "known": list(model["properties"])}


def _inside(schema: Json, of_key: Json, value: Any, pointer: str) -> Iterator[Json]:
    """Yield the cases of `_changes` for the contents of a list or an object; none for any other value."""
    for option in _options(schema, of_key):
        if isinstance(value, list) and value and "items" in option:
            element = ELEMENT.get(pointer, 0)
            inner, at = value[element], f"{pointer}/{element}"
            for one, within, known in _values(_options(schema, option["items"])):
                yield {"change": {"set": {at: one}}, "within": within, "known": known}
            yield from _inside(schema, option["items"], inner, at)
        elif isinstance(value, dict) and isinstance(option.get("additionalProperties"), dict):
            at = f"{pointer}/{next(iter(value))}"
            for one, within, known in _values(_options(schema, option["additionalProperties"])):
                yield {"change": {"set": {at: one}}, "within": within, "known": known}
        elif isinstance(value, dict) and "properties" in option:
            yield from _changes(schema, option, value, pointer)


def _options(schema: Json, value: Json) -> list[Json]:
    """Return the schemas of the types that a value may have, with references resolved."""
    if "anyOf" in value:
        return [option for one in value["anyOf"] for option in _options(schema, one)]
    if "$ref" in value:
        return [schema["$defs"][value["$ref"].rpartition("/")[2]]]
    return [value]


def _values(options: list[Json]) -> Iterator[tuple[Any, bool, Any]]:
    """Yield (value, valid, words): values at and beyond the bounds of a schema, and values of wrong types.
    For a string that is not in the schema's enum, `words` lists the enum; for other values, it is None."""
    (option,) = (one for one in options if one.get("type") != "null")
    yield None, len(options) > 1, None
    kind = option.get("type")
    if "enum" in option:
        yield from ((word, True, None) for word in option["enum"])
        yield "surprise", False, option["enum"]
        yield 7, False, None
    elif "const" in option:
        yield option["const"], True, None
        yield "surprise", False, None
    elif kind in ("integer", "number"):
        step = 1 if kind == "integer" else 0.001
        for bound, beyond in (("minimum", -step), ("maximum", step)):
            if bound in option:
                yield option[bound], True, None
                yield option[bound] + beyond, False, None
        yield "1", False, None
        yield True, False, None
        if kind == "integer":
            yield 1.5, False, None
    elif kind == "boolean":
        yield from ((value, isinstance(value, bool), None) for value in (True, False, 1, "true"))
    elif kind == "string":
        yield 7, False, None
        if option.get("minLength"):
            yield "", False, None
    else:
        yield 7, False, None
        yield ({} if kind == "array" else []), False, None
        if option.get("minItems"):
            yield [], False, None


def _related() -> Iterator[Json]:
    """Yield changes for rules that no bound of a single key expresses: relations, patterns, lengths."""
    for pointer in ("/loads", "/page/resources"):
        yield from ({"length": {pointer: length}} for length in (10_000, 10_001))
    for key in ("request_header_bytes", "response_header_bytes"):
        yield from ({"set": {f"{RESOURCE}/{key}": size}} for size in (HEAD_MAX_BYTES, HEAD_MAX_BYTES + 1))
    for size in (TARGET_MAX_BYTES, TARGET_MAX_BYTES + 1):
        yield {"text": {f"{RESOURCE}/url": ["http://b.test:8080/", "x", size - 1]}}
    for letter, size in (("x", WORD_MAX_BYTES), ("x", WORD_MAX_BYTES + 1), ("ü", WORD_MAX_BYTES // 2 + 1)):
        command = {"/client/kind": "command", "/client/command": ["get", ""]}
        yield {"set": command, "text": {"/client/command/1": ["", letter, size]}}
    for key, values in _SPELT.items():
        yield from ({"set": {key: value}} for value in values)
    yield from ({"set": values} for values in _TOGETHER)


_SPELT: Final[Mapping[str, tuple[Any, ...]]] = {
    "/tcp/congestion_control": ("bbr", "BBR", "a-b_9", "x" * 15, "x" * 16, "", "a b", "ü", "cubic\n"),
    f"{RESOURCE}/method": ("HEAD", "M-SEARCH", "X" * 32, "X" * 33, "get", "-GET", "", "GET\n"),
    f"{RESOURCE}/mime": ("", "text/html; charset=utf-8", "ü", "a\nb", "a\u007fb", "a\u0000"),
    "/page/name": ("a b", "a\tb"),
    "/network/up/trace_ms": ([1], [0], [0, 0], [5, 3], [1, 1, 2], [TRACE_MAX_MS], [TRACE_MAX_MS + 1]),
    "/network/up/jitter": (None, {}, {"normal_us": 1, "uniform_us": 1}, {"normal_us": 0}, {"pareto_us": 1}),
    "/network/cross": (
        None,
        {},
        {"down": "bulk", "up": "bulk"},
        {"up": "bulk"},
        {"down": "rush"},
        {"in": "bulk"},
    ),
    "/client/phases": (["load"], ["load", "load"], ["async"], ["async", "after"]),
    "/origins/http2_hosts": ([], ["b.test"], ["b.test", "b.test"], ["z.test"]),
    "/origins/http3_hosts": ([], ["b.test"], ["b.test", "b.test"], ["z.test"]),
    "/network/host_extra_rtt_us": ({}, {"a.test": 0}, {"z.test": 1}),
    f"{RESOURCE}/url": (
        *("http://b.test:8080/", "https://b.test:8080/x?y=%20", "http://b.test:8080/a|b", "http://[::1]/"),
        *(
            "http://b.test",
            "b.test/",
            "ftp://b.test/",
            "http://B.test/",
            "http://b.test/#x",
            "http://u@b.test/",
        ),
        *("http://b.test:0/", "http://b.test:080/", "http://b.test:65536/", "http://b.test/ü", "http:///"),
        *("http://b.test/a b", "http://b.test:/", "http://1.2.3/", "http://1.2.3.4/", "http://b_c.test/"),
    ),
}
_CHROMIUM: Final = {"/client/kind": "chromium"}
_HTTP2: Final = {"/origins/http": "2", "/origins/keep_alive": True}
_HTTP3: Final[Json] = {"/origins": {"http": "3"}, "/tls": {}, "/loads": TLS_LOADS}
_ENCRYPTED: Final = {"/loads": [{"id": "a", "transport": "tls", "cookies": None}]}
_RECORDED: Final[Json] = {
    "/origins/bodies": "recorded",
    "/client/kind": "chromium",
    "/tls/security": "recorded",
    "/loads": TLS_LOADS,
}
_TOGETHER: Final[tuple[Json, ...]] = (
    {"/tls/version": "1.2", "/tls/certificates": "ml-dsa-44"},
    {"/tls/version": "1.2", "/tls/certificate_compression": "brotli"},
    {"/tls/version": "1.2", "/tls/ech": "grease"},
    *(
        {"/client/kind": "chromium", "/tls/ticket_state": state}
        for state in ("expired", "stale", "forgotten")
    ),
    {**_RECORDED, "/client/kind": "loader"},
    {**_RECORDED, "/tls/security": "tls"},
    {**_RECORDED, "/loads": [{"id": "tcp", "transport": "tcp"}]},
    {"/tls/security": "recorded", "/origins/keep_alive": True, "/origins/http2_hosts": ["b.test"]},
    {"/tls/security": "recorded", "/origins/keep_alive": True, "/origins/http": "2"},
    *(
        {**_HTTP3, "/origins": {"http3_hosts": [host]}, "/tls": {"security": "recorded"}}
        for host in ("b.test", "c.test")  # the hosts' URLs are http and https
    ),
    {"/origins/http": "recorded"},
    {"/network/down/trace_ms": [1]},
    {"/network/down/rate_bit_per_s": None},
    {"/network/link": "kernel"},
    {"/network/link": "kernel", "/network/up/trace_ms": None},
    {"/network/link": "kernel", "/network/host_extra_rtt_us": {}},
    {"/network/link": "kernel", "/network/up/trace_ms": None, "/network/host_extra_rtt_us": {}},
    {
        "/network/link": "kernel",
        "/network/up/trace_ms": None,
        "/network/up/jitter": None,
        "/network/host_extra_rtt_us": {},
        "/network/resolver_rtt_us": 5_000,
    },
    {"/client/kind": "command"},
    {"/client/command": ["get"]},
    {"/client/command": []},
    *(
        {"/client/kind": "command", "/client/command": words}
        for words in ([""], ["get", ""], ["get", "\u0000"])
    ),
    _SERVER,
    {**_SERVER, "/origins/server_listen": True},
    *({**_SERVER, "/origins/server_hosts": hosts} for hosts in (["b.test"], ["z.test"], [])),
    {"/origins/server_hosts": ["b.test"]},
    {"/origins/upstream_tfo": True},
    {"/origins/upstream_rtt_us": 1},
    {**_SERVER, "/tcp_trace": True},
    {**_SERVER, "/loads": TLS_LOADS},
    {**_SERVER, **_CHROMIUM},
    *({**_SERVER, "/origins/server": words} for words in ([""], ["nginx", ""], ["nginx", "\u0000"], [])),
    {**_HTTP2, "/origins/single_threaded": True},
    {"/origins/one_address": True, **_CHROMIUM},
    {"/origins/one_address": True, "/loads": [{"id": "tcp", "transport": "tcp"}]},
    {"/client/screenshot": True},
    {"/client/filmstrip": True},
    {"/client/fixed_scripts": True},
    {"/client/request_heads": "recorded"},
    {"/client/view": "repeat"},
    {"/client/kind": "command", "/client/command": ["get"], "/client/view": "repeat"},
    {"/origins/http": "2"},
    {"/origins/http2_hosts": ["a.test"], "/origins/keep_alive": False},
    {"/origins/http2_hosts": ["a.test"], "/origins/keep_alive": True},
    _HTTP2,
    {**_HTTP2, **_CHROMIUM},
    {**_HTTP2, **_CHROMIUM, **_ENCRYPTED},
    _HTTP3,
    {**_HTTP3, "/origins": {"http3_hosts": ["b.test"]}},
    {**_HTTP3, "/origins": {"http3_hosts": ["b.test"], "http2_hosts": ["b.test"]}},
    {"/origins": {"http3_hosts": ["b.test"]}, "/tls": {}, "/loads": [{"id": "a", "transport": "tcp"}]},
    {**_HTTP3, **_CHROMIUM},
    {**_HTTP3, "/tls": {"version": "1.2"}},
    *({**_HTTP3, "/tcp/congestion_control": name} for name in ("reno", "bbr")),
    *({**_HTTP3, "/network/mtu_bytes": QUIC_UDP_BYTES + IP_HEADER_BYTES["4"] - less} for less in (0, 1)),
    *({"/network/ip": "6", "/network/mtu_bytes": IPV6_MTU_MIN_BYTES - less} for less in (0, 1)),
    {**_HTTP3, "/loads": [{"id": "tcp", "transport": "tcp"}]},
    {**_HTTP3, "/loads": [{"id": "tfo", "transport": "tls+tfo", "cookies": "warm"}]},
    *({"/tls/session": session, "/tls/tickets": 0} for session in ("none", "resumed")),
    {"/tls/session": "early"},
    *({**_CHROMIUM, "/tls/session": session} for session in ("none", "resumed")),
    *({"/client/kind": kind, "/network/ip": "4+6"} for kind in ("loader", "chromium")),
    {"/client/kind": "command", "/client/command": ["get"], "/tls/session": "resumed"},
    *(
        {**client, "/network/names": names}
        for client in (_CHROMIUM, {"/client/kind": "command", "/client/command": ["get"]})
        for names in ("tcp", "dot", "doh")
    ),
    *({"/loads/0/cookies": cookies} for cookies in ("cold", "warm")),
    *({"/loads/3/transport": transport} for transport in ("tfo", "tls+tfo")),
    {"/page/resources/0/initiator": 0},
    {"/page/resources/0/initiator_at_bytes": 0},
    *({"/page/resources/0/phase": phase} for phase in ("async", "after")),
    *({f"{RESOURCE}/initiator": index} for index in (1, 2, 10_000)),
    *({f"{RESOURCE}/initiator_at_bytes": at} for at in (5000, 5001)),
    {f"{RESOURCE}/phase": "after"},
    {f"{RESOURCE}/method": "HEAD", f"{RESOURCE}/body_bytes": 1},
    *({f"{RESOURCE}/status": 300 + code, f"{RESOURCE}/body_bytes": 1} for code in (3, 4, 99, 100)),
    *({"/page/resources/3/status": 204, "/page/resources/3/body_bytes": size} for size in (0, 1)),
    {f"{RESOURCE}/redirect_to": "a\nb"},
)
