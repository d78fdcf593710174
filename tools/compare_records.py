#!/usr/bin/env python3
"""Check that two checkouts write the same records, in loads that use all features of the virtual engine.

    .venv/bin/python tools/compare_records.py OLD_CHECKOUT NEW_CHECKOUT [NAME...]
    .venv/bin/python tools/compare_records.py --digest CHECKOUT [NAME...]

Each checkout runs with its own Python package and program (release build, else debug), on the installed
kernel of the virtual engine. The stored record of each load is compared, without VOLATILE and ADDED keys, and
with RENAMED keys under their new names. Prints the first difference of up to three loads of each job; exit
status 1 if any record differs. With --digest, it runs only one checkout and prints a digest of the records of
each job. Compare these with the digests of another machine, whose compiler built a different kernel and
program."""

import hashlib
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Iterable
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

# Keys whose values differ between runs or versions: times of the machine, and the version of the contract.
VOLATILE: Final = {"started_unix_ms", "setup_us", "teardown_us", "contract"}
# Keys that only newer records have.
ADDED: Final = {"given_up"}
RENAMED: Final[dict[str, str]] = {
    "strange_requests": "unknown_requests",
    "structure": "fidelity_gaps",
    "moved": "relocated",
    "hurried": "early",
}
VIRTUAL: Final = ("--engine", "virtual", "--seed", "7", "--repeats", "2", "-q")
JOBS: Final[dict[str, tuple[str, ...]]] = {
    "paper": ("amazon", "nytimes", "wsj", "wikipedia-tcp", "--rtt", "20ms,100ms,200ms"),
    "loss": ("wikipedia-tcp", "gnu", "--rtt", "50ms", "--loss", "0.5%,2%"),
    "queue": ("amazon", "--rtt", "100ms", "--queue", "16kB,none", "--down", "2mbit,none", "--up", "none"),
    "program link": ("nytimes", "--rtt", "100ms", "--link", "program", "--loss", "0%,1%"),
    "far hosts": ("omscs", "--rtt", "30ms", "--extra-rtt", "{host}=70ms"),
    "profiles": ("ucla", "--rtt", "50ms", "--profile", "browser,mget", "--keep-alive", "on,off"),
    "connections": ("ucla", "--rtt", "50ms", "--connections-per-host", "2,6", "--processing-scale", "0,2"),
    "tcp": ("wsj", "--rtt", "100ms", "--congestion-control", "cubic,reno,bbr", "--initial-window", "4,10"),
    "tls": (
        *("gnu", "example", "--rtt", "100ms", "--transports", "tcp,tfo,tls,tls+tfo"),
        *("--key-share", "x25519,x25519mlkem768", "--tls", "1.2,1.3"),
    ),
    "http": ("nytimes", "--rtt", "100ms", "--http", "1.0,1.1,2"),
    "first flights": (
        *("gnu", "example", "--rtt", "100ms", "--transports", "tls,tls+tfo", "--http", "1.1,2,3"),
        *("--session", "none,resumed,early"),
    ),
    "http2 over tls": ("nytimes", "--rtt", "100ms", "--http", "2", "--transports", "tls,tls+tfo"),
    "curl": ("example", "--rtt", "50ms", "--client", "curl,wget2", "--transports", "tcp,tfo"),
    "command": (
        *("example", "--rtt", "50ms", "--client", "command"),
        *("--command", "curl --silent --output /dev/null {url}"),
    ),
}


def main() -> int:
    """Run the jobs with both checkouts and print differences. Return the exit status."""
    old, new, *names = sys.argv[1:]
    if old == "--digest":
        return print_digests(Path(new), names or JOBS)
    different = 0
    for name in names or JOBS:
        with tempfile.TemporaryDirectory() as folder:
            one, other = (records(Path(checkout), name, Path(folder)) for checkout in (old, new))
        differing = [key for key in sorted({*one, *other}) if one.get(key) != other.get(key)]
        different += len(differing)
        print(f"{name}: {len(one)} loads, {len(differing)} differ")
        for key in differing[:3]:
            print(f"  {key}: {difference(one.get(key), other.get(key))}")
    return 1 if different else 0


def print_digests(checkout: Path, names: Iterable[str]) -> int:
    """Print a digest of a checkout's records for each of JOBS in `names`. Return the exit status 0."""
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            made = records(checkout, name, Path(folder))
        digest = hashlib.sha256(json.dumps(made, sort_keys=True).encode()).hexdigest()
        print(f"{name}: {len(made)} loads, SHA-256 {digest}", flush=True)
    return 0


def records(checkout: Path, name: str, folder: Path) -> dict[str, Any]:
    """Run JOBS[name] with a checkout. Map `JOB LOAD` (both ids) to the `stable` form of the load's record."""
    kept = folder / checkout.resolve().name
    arguments = [
        word.format(host=first_foreign_host(checkout)) if "{host}" in word else word for word in JOBS[name]
    ]
    environment = {
        **os.environ,
        "PYTHONPATH": str(checkout.resolve() / "python"),
        "FASTOPEN_WORLD": str(built_program(checkout.resolve())),
    }
    command = [sys.executable, "-c", "from fastopen.cli import main; main()", "run", *arguments, *VIRTUAL]
    done = subprocess.run(
        [*command, "--output", str(kept)], env=environment, capture_output=True, text=True, check=False
    )
    if not kept.is_dir():
        raise SystemExit(f"{checkout}: {name}: {done.stderr.strip()}")
    (database,) = kept.glob("*.sqlite")
    rows = sqlite3.connect(database).execute(
        "SELECT jobs.id, loads.id, record_zlib FROM records JOIN loads ON loads.number = records.load"
        " JOIN jobs ON jobs.number = loads.job"
    )
    return {f"{job} {load}": stable(json.loads(zlib.decompress(raw))) for job, load, raw in rows}


def built_program(checkout: Path) -> Path:
    """Return the release build, or else the debug build: in virtual time, both write the same records."""
    builds = [checkout / "target" / profile / "fastopen-world" for profile in ("release", "debug")]
    return next((program for program in builds if program.exists()), builds[0])


def first_foreign_host(checkout: Path) -> str:
    """Return a host of the page `omscs` other than the document's."""
    page = json.loads((checkout / "pages" / "omscs.page.json").read_text())
    urls: list[str] = [resource["url"] for resource in page["resources"]]
    hosts = dict.fromkeys(urlsplit(url).hostname or "" for url in urls)
    return list(hosts)[-1]


def stable(value: Any) -> Any:
    """Return a record without VOLATILE and ADDED keys, and with RENAMED keys under their new names."""
    if isinstance(value, dict):
        return {
            RENAMED.get(key, key): stable(one) for key, one in value.items() if key not in VOLATILE | ADDED
        }
    return [stable(one) for one in value] if isinstance(value, list) else value


def difference(one: Any, other: Any, place: str = "") -> str:
    """Return the path of the first difference between two records, and both values there."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in dict.fromkeys([*one, *other]):
            if one.get(key) != other.get(key):
                return difference(one.get(key), other.get(key), f"{place}.{key}")
    if isinstance(one, list) and isinstance(other, list):
        for number, (left, right) in enumerate(zip_longest(one, other)):
            if left != right:
                return difference(left, right, f"{place}[{number}]")
    return f"{place.lstrip('.') or 'record'}: {json.dumps(one)[:80]} there, {json.dumps(other)[:80]} here"


if __name__ == "__main__":
    sys.exit(main())
