"""The world program accepts all randomly changed jobs that the Python package accepts, and so may send.

The program checks all jobs before it begins the first one. Each changed job is followed by an invalid job, so
that no job is run, and the program's error shows which of the two jobs it refused.
"""

import copy
import json
import subprocess
from itertools import groupby
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from fastopen.contract import Job, parse_record
from places import ROOT

PROGRAM = ROOT / "target" / "release" / "fastopen-world"
CONTRACT = ROOT / "tests" / "contract"
GOLDEN = json.loads((CONTRACT / "job.json").read_text())
JOB_SCHEMA = jsonschema_rs.Draft202012Validator(json.loads((CONTRACT / "job.schema.json").read_text()))
RECORD_SCHEMA = jsonschema_rs.Draft202012Validator(json.loads((CONTRACT / "record.schema.json").read_text()))

pytestmark = pytest.mark.e2e

Path_ = tuple[str | int, ...]


def paths(value: Any, prefix: Path_ = ()) -> list[Path_]:
    """Return the path to every value inside a JSON value."""
    found = [prefix] if prefix else []
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        found += paths(inner, (*prefix, key))
    return found


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 2),
    st.sampled_from([2**31, 2**53, 2**63 - 1, 2**63, 2**64, 10**12, 64_000, 63_999, 10**9 + 1, 65_536]),
    st.floats(allow_nan=False, allow_infinity=False, min_value=-2, max_value=2),
    st.sampled_from(["", "tcp", "tfo", "warm", "http://a.test/", "no url", "GET", "load", "\x00", "1.1"]),
    st.lists(st.integers(0, 3), max_size=2),
    st.just({}),
)


@st.composite
def broken_jobs(draw: st.DrawFn) -> Any:
    """Draw the golden job with one to three values replaced, removed or added."""
    job = copy.deepcopy(GOLDEN)
    for _ in range(draw(st.integers(1, 3))):
        *way, last = draw(st.sampled_from(paths(job)))
        place = job
        for step in way:
            place = place[step]
        action = draw(st.sampled_from(["replace", "replace", "remove", "add"]))
        if action == "remove":
            del place[last]
        elif action == "add" and isinstance(place, dict):
            place["surprise"] = draw(VALUES)
        else:
            place[last] = draw(VALUES)
    return job


def ours_takes(job: Any) -> bool:
    try:
        Job.model_validate_json(json.dumps(job))
    except ValidationError:
        return False
    return True


def complaint_of_the_program(job: Any) -> str:
    """Return the program's error for the first job that it refuses: `job 1: ...` or `job 2: ...`."""
    given_jobs = f"{json.dumps(job)}\n{{}}\n"
    done = subprocess.run(
        [PROGRAM], input=given_jobs, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 2, done.stdout + done.stderr
    (line,) = done.stdout.splitlines()
    record = json.loads(line)
    assert (record["type"], record["fault"]) == ("error", "input")
    return str(record["message"])


@given(broken_jobs())
def test_the_program_takes_what_the_front_may_send_and_refuses_what_the_schema_does(job: Any) -> None:
    said = complaint_of_the_program(job)
    if ours_takes(job):
        assert said.startswith("job 2"), said
    if not JOB_SCHEMA.is_valid(job):
        assert said.startswith("job 1"), said


@given(st.binary(max_size=300))
def test_any_bytes_are_refused_in_one_line(content: bytes) -> None:
    done = subprocess.run([PROGRAM], input=content, capture_output=True, check=False, timeout=60)
    assert done.returncode == 2
    assert json.loads(done.stdout)["fault"] == "input"
    assert done.stdout.count(b"\n") == 1


def test_the_golden_job_is_taken_by_both() -> None:
    assert ours_takes(GOLDEN)
    assert complaint_of_the_program(GOLDEN).startswith("job 2")


@pytest.mark.parametrize("client", [{}, {"kind": "command", "command": ["/bin/false"]}])
def test_records_of_real_worlds_fit_the_schema(client: dict[str, Any]) -> None:
    job = copy.deepcopy(GOLDEN)
    job["client"] = client
    job["origins"].update({"bodies": "synthetic", "bodies_file": None})
    job["page"]["resources"][0]["body_offset"] = None
    job["tolerance"] = {"rtt_us": 50_000, "rate_fraction": 0.9, "late_us": 10_000_000}
    job["loads"][1]["transactions"] = None  # no load may follow a flood in its world
    job["start_phase_us"] = 10_000  # longest pause before each load
    answer = subprocess.run(
        [PROGRAM], input=json.dumps(job) + "\n", capture_output=True, text=True, check=False, timeout=120
    )
    records = [json.loads(line) for line in answer.stdout.splitlines()]
    # The bulk flow makes the capture of a slow load larger than a piece (3 MB), so there may be several.
    kinds = [kind for kind, _ in groupby(record["type"] for record in records)]
    assert kinds == ["world", *["packets", "load"] * len(job["loads"]), "end"]
    for record in records:
        RECORD_SCHEMA.validate(record)
        assert parse_record(json.dumps(record)).model_dump(mode="json") == record
