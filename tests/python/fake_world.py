#!/usr/bin/env python3
"""A fake world program for tests of faults. It implements the contract and misbehaves if told to.

FAKE_WORLD is a JSON object with the mode of each job id (`*`: all others). FAKE_WORLD_STATE is a folder in
which the program counts how often each job was begun, and to which a hanging program writes its process id.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

# Found by this file's place, because the program runs without the import path of the tests.
GOLDEN = Path(__file__).resolve().parents[1] / "contract"


def golden(name: str) -> Any:
    return json.loads((GOLDEN / f"{name}.json").read_text())


def say(record: Any) -> None:
    sys.stdout.write(json.dumps(record) + "\n")
    sys.stdout.flush()


def begun(job: str) -> int:
    """Count a start of this job. Return the number of its starts so far, including this one."""
    state = Path(os.environ["FAKE_WORLD_STATE"]) / f"begun-{job.replace('/', '_')}"
    with state.open("a") as file:
        file.write("x")
    return state.stat().st_size


def load_record(job: Any, load: Any, number: int) -> Any:
    """Return a load of 10 RTTs without TFO, 9.5 with cold or 8 with warm cookies. The handshake takes two."""
    rtts = {None: 10.0, "cold": 9.5, "warm": 8.0}[load["cookies"]]
    noise_ns = job["seed"] % 1_000_003
    record = golden("load")
    record.update(job=job["id"], valid=True, invalid=[], **load)
    record["plt_ns"] = int(rtts * job["network"]["rtt_us"] * 1000) + noise_ns + number
    first = record["connections"][0]
    opening = {"resource": 0, "connection": first["id"], "connect_start_ns": 0}
    record["requests"] = [{**record["requests"][0], **opening}]
    first["handshake_us"] = 2 * job["network"]["rtt_us"]
    for connection in record["connections"]:
        for end in ("client", "origin"):
            if connection[end]:
                connection[end]["syn_data_acked"] = load["cookies"] == "warm"
    return record


def hang() -> None:
    """Write the process id and wait to be killed."""
    (Path(os.environ["FAKE_WORLD_STATE"]) / "hanging").write_text(str(os.getpid()))
    time.sleep(3600)


def misbehave(mode: str, job: Any, number: int, times: int) -> None:
    """Misbehave as `mode` specifies before load `number` of a job that has been started `times` times."""
    fatal = 1 if times == 1 else 0
    if (mode == "dies" and number == fatal) or (mode == "dies once" and number == times == 1):
        sys.stderr.write("thread main panicked\n")
        sys.exit(70)
    if mode == "killed" and number == fatal:
        os.kill(os.getpid(), signal.SIGKILL)
    if mode == "rubbish" and number == 1:
        sys.stdout.write("rubbish\n")
        sys.stdout.flush()
        hang()
    if mode == "hangs" and number == 1:
        hang()
    if mode == "same load twice" and number == 1:
        say(load_record(job, job["loads"][0], 0))


def fail(mode: str, job: Any, times: int) -> None:
    """Report an error and exit, in the modes in which no load is run."""
    fault = {"input": "input", "machine": "machine", "internal": "internal", "off": "world"}.get(mode)
    if mode == "off once" and times == 1:
        fault = "world"
    if fault:
        message = "RTT measured 31 ms, asked 20 ms" if fault == "world" else f"a fault of {fault}"
        say({"type": "error", "job": job["id"], "fault": fault, "message": message, "remedy": "mend it"})
        sys.exit({"input": 2, "machine": 3, "world": 4, "internal": 70}[fault])


def main() -> None:
    if "--version" in sys.argv:
        sys.stdout.write("fastopen-world 0.0.0-fake\n")
        return
    if "--check" in sys.argv:
        check = {"name": "user namespaces", "ok": False, "detail": "not allowed", "remedy": "allow them"}
        say({"checks": [{**check, "name": "veth", "ok": True, "remedy": ""}, check]})
        sys.exit(3)
    for line in sys.stdin:
        do(json.loads(line))


def do(job: Any) -> None:
    """Do a job: write its records, or misbehave."""
    modes = json.loads(os.environ.get("FAKE_WORLD", "{}"))
    mode = modes.get(job["id"], modes.get("*", "works"))
    times = begun(job["id"])
    fail(mode, job, times)
    world = golden("world")
    world["job"] = job["id"]
    world["measured"]["rtt_us"] = {
        "asked": job["network"]["rtt_us"],
        "expected": job["network"]["rtt_us"] + 100,
        "median": job["network"]["rtt_us"] + 150,
        "samples": 9,
    }
    if mode == "other contract":
        world["contract"] = 7
    say(world)
    if job["origins"]["bodies_file"]:
        first = job["page"]["resources"][0]
        with Path(job["origins"]["bodies_file"]).open("rb") as file:
            file.seek(first["body_offset"])
            (Path(os.environ["FAKE_WORLD_STATE"]) / "body").write_bytes(file.read(first["body_bytes"]))
    for number, load in enumerate(job["loads"]):
        misbehave(mode, job, number, times)
        record = load_record(job, load, number)
        if mode == "late" or (mode == "late once" and number == times == 1):
            record.update(valid=False, invalid=[{"kind": "link_late", "detail": "a packet was 9 ms late"}])
        if mode == "refused" and load["cookies"] is not None:
            refused = {"kind": "no_syn_data", "detail": "2 of 3 connections sent no data in their SYN"}
            record.update(valid=False, invalid=[refused])
        if mode == "blackhole":
            late = {"kind": "link_late", "detail": "a packet was 9 ms late"}
            record.update(valid=False, invalid=[{"kind": "blackhole", "detail": "TFO was turned off"}, late])
        say(record)
    if mode != "no end":
        say({"type": "end", "job": job["id"], "loads": len(job["loads"]), "teardown_us": 1})


if __name__ == "__main__":
    main()
