"""Repeat views: their settings and errors, and the treatment of responses from the browser's cache."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from rich.console import Console

from fastopen.analysis.attribution import critical_path
from fastopen.analysis.statistics import Results, collect
from fastopen.common.errors import InputError
from fastopen.contract import Client, LoadRecord, Origins, Tcp
from fastopen.experiments import (
    COMMAND_LINE,
    clients_of,
    read_experiment,
    read_settings,
    setups_of,
    varying_factors,
    with_clients,
)
from fastopen.report import results_document, results_renderables
from fastopen.report.figures.requests import _pieces
from fastopen.runs import RunStore
from fastopen.runs.chain import handshakes_in_a_row_ns
from fastopen.runs.export.har import har_document
from made_up_run import ENVIRONMENT, load_data, made_up_page, made_up_plan

MS = 1_000_000


def asked_setups(client: str, view: str) -> Any:
    return read_settings({"client": client, "view": view}, COMMAND_LINE).arms_and_setups()[1]


def test_views_are_an_axis_of_chromium() -> None:
    setups = asked_setups("chromium", "first,repeat")
    assert [setup.client.view for setup in setups] == ["first", "repeat"]
    plan = made_up_plan([made_up_page("p")], setups=[setup.model_dump() for setup in setups])
    assert [factor.name for factor in varying_factors(plan.experiment).varying] == ["view", "rtt"]
    assert {planned.job.id.split(",")[1].split("#")[0] for planned in plan.jobs} == {
        "first-view",
        "repeat-view",
    }


@pytest.mark.parametrize("client", ["loader", "curl", "wget2", "chromium,loader"])
def test_who_keeps_nothing_is_refused_with_the_remedy(client: str) -> None:
    said = "--client, --view: .* has no cache; use --client chromium, or --view first"
    with pytest.raises(InputError, match=said):
        asked_setups(client, "repeat")
    with pytest.raises(ValidationError, match="use --client=chromium, or --view=first"):
        clients_of({"kind": client.split(",")[-1].replace("chromium", "loader"), "view": "repeat"})


def test_a_file_asks_for_both_views(tmp_path: Path) -> None:
    (tmp_path / "both.toml").write_text(
        'format = "fastopen-experiment/1"\nname = "both"\npages = ["example"]\nseed = 1\n'
        '[network]\nrtt = "20ms"\n[client]\nkind = "chromium"\nview = ["first", "repeat"]\n'
    )
    setups = read_experiment(tmp_path / "both.toml").setups
    assert [setup.client.view for setup in setups] == ["first", "repeat"]


def test_what_an_experiment_wants_shown_and_kept_stays_with_another_client() -> None:
    mixed = setups_of(clients_of({"kind": ["loader", "chromium"], "screenshot": True}), [Origins()], [Tcp()])
    (chromium,) = with_clients(mixed, ["chromium"])
    assert chromium.client.screenshot
    assert not any(one.client.screenshot for one in with_clients(mixed, ["loader"]))
    views = setups_of(clients_of({"kind": "chromium", "view": ["first", "repeat"]}), [Origins()], [Tcp()])
    assert [one.client.view for one in with_clients(views, ["chromium"])] == ["first", "repeat"]
    with pytest.raises(ValidationError, match="use --client=chromium, or --view=first"):
        with_clients(views, ["loader"])


def repeat_run(**browser: Any) -> tuple[Results, LoadRecord, dict[str, Any]]:
    """Return a run of repeat views: resources 1 and 2 came from the cache, and 3 was revalidated."""
    page = made_up_page("small", 6)
    client = Client.model_validate({"kind": "chromium", "view": "repeat", "screenshot": True})
    plan = made_up_plan([page], (100,), repeats=1, setups=[{"client": client.model_dump()}])
    with RunStore.create(None, plan, ENVIRONMENT) as store:
        for planned in plan.jobs:
            for number, load in enumerate(planned.job.loads):
                data = load_data(planned, load.cookies, number)
                data.update(id=load.id, transport=load.transport, cookies=load.cookies)
                data["browser"] |= browser
                for kept in data["requests"][1:3]:
                    nothing = ("connection", "connect_start_ns", "connected_ns", "sent_ns", "first_byte_ns")
                    kept |= dict.fromkeys(nothing) | {"cache": "fresh", "body_bytes": 0, "header_bytes": 0}
                    kept["end_ns"] = kept["queued_ns"] + MS
                data["requests"][3] |= {"cache": "revalidated", "status": 304, "body_bytes": 0}
                raw = json.dumps(data)
                record = LoadRecord.model_validate_json(raw)
                store.add_load(planned, record, raw)
        store.set_status("finished")
        results = collect(store)
        row, document = next(store.documents())
        har = har_document(plan.experiment, store.cells()[row.cell], page, row, document, {})
    return results, record, har


def printed(results: Results) -> str:
    target = Console(file=io.StringIO(), width=100, highlight=False)
    for renderable in results_renderables(results, 100):
        target.print(renderable)
    assert isinstance(target.file, io.StringIO)
    return " ".join(target.file.getvalue().split())


def test_the_table_says_what_came_out_of_the_cache_and_what_nobody_knows() -> None:
    results, _, _ = repeat_run()
    text = printed(results)
    assert "of 6 requests 2 were answered by the browser's cache and 1 confirmed by the origin" in text
    assert "has no caching headers of 6 of the page's 6 resources" in text
    cell = results_document(results)["cells"][0]
    told = (cell["view"], cell["requests_from_cache_median"], cell["requests_revalidated_median"])
    assert told == ("repeat", 2, 1)


def test_a_screenshot_that_failed_is_said_with_its_reason() -> None:
    results, _, _ = repeat_run(screenshot_png=None, screenshot_error="the browser returned no picture")
    assert "3 loads have no screenshot: the browser returned no picture." in printed(results)
    assert results_document(results)["cells"][0]["screenshots_missing"] == ["the browser returned no picture"]
    assert "no screenshot" not in printed(repeat_run()[0])


def test_what_was_kept_is_drawn_and_exported_as_that() -> None:
    _, record, har = repeat_run()
    kept = [entry.get("_fromCache") for entry in har["log"]["entries"]]
    assert kept == [None, "disk", "disk", None, None, None]
    ((kind, start_ns, end_ns),) = _pieces(record.requests[1], None, None)
    assert (kind.value, end_ns - start_ns) == ("processing", MS)


def test_what_something_kept_makes_known_still_waits_for_the_handshake_before() -> None:
    page = made_up_page("small", 6)
    _, record, _ = repeat_run()
    chained = page.model_copy(
        update={
            "resources": tuple(
                one.model_copy(update={"initiator": 1}) if number == 4 else one
                for number, one in enumerate(page.resources)
            )
        }
    )
    opened = record.model_copy(
        update={
            "connections": [
                one.model_copy(update={"handshake_us": 100_000, "client": None}) for one in record.connections
            ]
        }
    )
    # The handshakes of the document and of request 4, whose initiator 1 came from the browser's cache.
    assert handshakes_in_a_row_ns(chained, opened) == 200 * MS
    path = critical_path(chained, opened, Client.model_validate({"kind": "chromium"}))
    assert path is not None
    assert [segment.resource for segment in path.segments if segment.kind.value == "handshake"] == [0, 4]
