"""The Python half of the contract, tested with golden files that the Rust half also reads."""

import json
from collections import Counter
from typing import Any

import jsonschema_rs
import pytest
from pydantic import ValidationError

from contract_cases import changed
from fastopen.contract import Job, LoadRecord, Tls, WorldRecord, parse_record
from fastopen.contract.records import RECORDS, RecordError
from places import GOLDEN


def golden(name: str) -> Any:
    return json.loads((GOLDEN / f"{name}.json").read_text())


def job_with(path: str, value: Any) -> str:
    """Return the golden job with the value at `path` (keys joined by dots) replaced."""
    data = golden("job")
    *parents, last = path.split(".")
    place = data
    for part in parents:
        place = place[int(part)] if part.isdecimal() else place[part]
    place[last] = value
    return json.dumps(data)


def test_the_golden_job_is_read_and_written_back_with_every_key() -> None:
    job = Job.model_validate_json(json.dumps(golden("job")))
    written = job.model_dump(mode="json")
    for given, back in zip(golden("job")["page"]["resources"], written["page"]["resources"], strict=True):
        assert given.items() <= back.items()
    written["page"]["resources"] = golden("job")["page"]["resources"]
    assert written == golden("job")


def test_a_minimal_job_gets_the_contracts_defaults() -> None:
    job = Job.model_validate_json(json.dumps(golden("job-minimal")))
    assert (job.client.profile, job.client.connections_per_host, job.client.keep_alive) == (
        "browser",
        6,
        True,
    )
    assert (job.tcp.congestion_control, job.tcp.initial_window_segments) == ("cubic", 10)
    assert (job.tolerance.rtt_us, job.load_timeout_us) == (1000, 120_000_000)


def test_the_profile_mget_brings_its_own_defaults() -> None:
    client = Job.model_validate_json(job_with("client", {"profile": "mget"})).client
    assert (client.connections_per_host, client.connections_total, client.keep_alive) == (5, 5, False)


@pytest.mark.parametrize("name", ["world", "load", "transactions", "packets", "end", "error"])
def test_golden_records_are_read_whole(name: str) -> None:
    record = parse_record(json.dumps(golden(name)))
    assert record.model_dump(mode="json") == golden(name)


def test_a_connection_carried_syn_data_when_either_end_says_so() -> None:
    record = parse_record(json.dumps(golden("load")))
    assert isinstance(record, LoadRecord)
    assert (record.syn_data_connections, record.connection_count) == (1, 2)


def test_connections_given_up_in_their_handshake_are_in_no_count() -> None:
    text = golden("load") | {"given_up": {"connections": 1, "syn_data": 1}}
    record = parse_record(json.dumps(text))
    assert isinstance(record, LoadRecord)
    assert (record.syn_data_connections, record.connection_count) == (0, 1)


def cases(name: str) -> list[Any]:
    return [json.loads(line) for line in (GOLDEN / f"{name}-cases.jsonl").read_text().splitlines()]


def schema(name: str) -> jsonschema_rs.Draft202012Validator:
    return jsonschema_rs.Draft202012Validator(json.loads((GOLDEN / f"{name}.schema.json").read_text()))


def test_a_job_at_each_bound_is_taken_or_refused_as_the_other_half_does() -> None:
    jobs, base = schema("job"), golden("job")
    for case in cases("job"):
        job = changed(base, case)
        try:
            Job.model_validate_json(json.dumps(job))
            refused = None
        except ValidationError:
            refused = "rule" if jobs.is_valid(job) else "schema"
        assert refused == case["refused"], case


def test_what_is_refused_has_one_like_it_that_is_not() -> None:
    verdicts = Counter(case["refused"] for case in cases("job"))
    assert min(verdicts[None], verdicts["rule"], verdicts["schema"]) > 50


def test_what_the_program_can_write_fits_the_schema_and_is_read_whole() -> None:
    records = schema("record")
    for case in cases("record"):
        record = changed(golden(case["record"]), case)
        assert records.is_valid(record) == case["fits"], case
        if case["fits"]:
            assert RECORDS.validate_json(json.dumps(record)).model_dump(mode="json") == record


def test_a_kind_of_invalid_load_that_a_newer_program_has_is_readable() -> None:
    record = parse_record(json.dumps({**golden("load"), "invalid": [{"kind": "newer", "detail": "x"}]}))
    assert isinstance(record, LoadRecord)
    assert [reason.kind for reason in record.invalid] == ["newer"]


@pytest.mark.parametrize(
    "line",
    [
        "",
        "rubbish",
        "[]",
        "{}",
        '{"type":"unknown"}',
        '{"type":"end","job":"a"}',
        '{"type":"end","job":1}',
        "\xff",
    ],
)
def test_rubbish_is_not_a_record(line: str) -> None:
    with pytest.raises(RecordError):
        parse_record(line)


def test_a_world_of_another_contract_is_refused_by_name() -> None:
    with pytest.raises(RecordError, match="contract 7"):
        parse_record(json.dumps({**golden("world"), "contract": 7}))


def test_a_key_that_a_newer_program_adds_is_skipped() -> None:
    record = parse_record(json.dumps({**golden("end"), "added_later": 1}))
    assert record.model_dump(mode="json") == golden("end")


def test_records_of_contract_1_are_read_under_todays_names() -> None:
    load = golden("load")
    load["strange_requests"] = 3
    del load["unknown_requests"]
    record = parse_record(json.dumps(load))
    assert isinstance(record, LoadRecord)
    assert record.unknown_requests == 3
    world = {**golden("world"), "contract": 1, "structure": {"left_out": [1]}}
    del world["fidelity_gaps"]
    # Fidelity gaps are used only during a run, so records of old runs need none.
    assert WorldRecord.model_validate_json(json.dumps(world)).fidelity_gaps is None


def test_a_kept_run_that_says_whether_sessions_were_resumed_says_how_many_tickets_there_were() -> None:
    assert [Tls.model_validate({"resumption": resumed}).tickets for resumed in (True, False)] == [2, 0]


def test_bodies_by_the_name_of_contract_1_are_synthetic() -> None:
    assert Job.model_validate_json(job_with("origins.bodies", "structural")).origins.bodies == "synthetic"
