"""Make up records of loads from the times of their requests, for tests of comparisons."""

import json
from typing import Any

from fastopen.contract import LoadRecord
from fastopen.pages import Page
from places import GOLDEN


def page(*think_ms: int) -> Page:
    """Return a page: a document, then pictures that it initiates when complete, with these think times."""
    resources = [
        {
            "url": f"http://a.test/{number or ''}",
            "type": "image" if number else "document",
            "body_bytes": 1000,
            "initiator": 0 if number else None,
            "server_think_us": think * 1000,
        }
        for number, think in enumerate(think_ms or (0,))
    ]
    data = {
        "format": "fastopen-page/1",
        "name": "made-up",
        "url": "http://a.test/",
        "source": "made up",
        "initiators": "declared",
        "resources": resources,
    }
    return Page.model_validate_json(json.dumps(data))


def request(resource: int, queued: int, sent: int, first_byte: int, end: int) -> dict[str, Any]:
    """Return a request with these times in ms since the start of the load."""
    moments = {"queued_ns": queued, "sent_ns": sent, "first_byte_ns": first_byte, "end_ns": end}
    return {"resource": resource, **{key: ms * 1_000_000 for key, ms in moments.items()}}


def load(plt_ms: float, *requests: dict[str, Any]) -> LoadRecord:
    """Return a valid load with these requests. All other keys are those of the golden record."""
    golden: dict[str, Any] = json.loads((GOLDEN / "load.json").read_text())
    golden["requests"] = [{**golden["requests"][0], **one} for one in requests]
    golden.update(valid=True, invalid=[], plt_ns=round(plt_ms * 1e6))
    return LoadRecord.model_validate_json(json.dumps(golden))
