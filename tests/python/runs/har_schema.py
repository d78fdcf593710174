"""A strict JSON Schema of HAR 1.2 (http://www.softwareishard.com/blog/har-12-spec/).

Fields that are not in the format must begin with an underscore.
"""

from typing import Any


def _object(optional: dict[str, Any], **required: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "required": list(required),
        "properties": {**required, **optional},
        "patternProperties": {"^_": {}},
        "additionalProperties": False,
    }


TEXT = {"type": "string"}
COUNT = {"type": "integer", "minimum": 0}
SIZE = {"type": "integer", "minimum": -1}
TIME = {"type": "number", "minimum": 0}
TIME_OR_NONE = {"anyOf": [TIME, {"const": -1}]}
DATE = {"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z$"}
COMMENT = {"comment": TEXT}
PAIR = _object(COMMENT, name=TEXT, value=TEXT)
PAIRS = {"type": "array", "items": PAIR}
COOKIES = {
    "type": "array",
    "items": _object({**COMMENT, "path": TEXT, "domain": TEXT}, name=TEXT, value=TEXT),
}
CREATOR = _object(COMMENT, name=TEXT, version=TEXT)
PAGE = _object(
    COMMENT,
    startedDateTime=DATE,
    id=TEXT,
    title=TEXT,
    pageTimings=_object({**COMMENT, "onContentLoad": TIME_OR_NONE, "onLoad": TIME_OR_NONE}),
)
REQUEST = _object(
    COMMENT,
    method=TEXT,
    url={"type": "string", "pattern": "^https?://[^#]*$"},
    httpVersion=TEXT,
    cookies=COOKIES,
    headers=PAIRS,
    queryString=PAIRS,
    headersSize=SIZE,
    bodySize=SIZE,
)
RESPONSE = _object(
    COMMENT,
    status=COUNT,
    statusText=TEXT,
    httpVersion=TEXT,
    cookies=COOKIES,
    headers=PAIRS,
    content=_object({**COMMENT, "compression": COUNT, "text": TEXT}, size=COUNT, mimeType=TEXT),
    redirectURL=TEXT,
    headersSize=SIZE,
    bodySize=SIZE,
)
TIMINGS = _object(
    {**COMMENT, **dict.fromkeys(("blocked", "dns", "connect", "ssl"), TIME_OR_NONE)},
    send=TIME,
    wait=TIME,
    receive=TIME,
)
ENTRY = _object(
    {**COMMENT, "pageref": TEXT, "serverIPAddress": TEXT, "connection": TEXT},
    startedDateTime=DATE,
    time=TIME,
    request=REQUEST,
    response=RESPONSE,
    cache=_object(COMMENT),
    timings=TIMINGS,
)
LOG = _object(
    {**COMMENT, "browser": CREATOR, "pages": {"type": "array", "items": PAGE}},
    version={"const": "1.2"},
    creator=CREATOR,
    entries={"type": "array", "items": ENTRY},
)
SCHEMA: dict[str, Any] = _object({}, log=LOG)
