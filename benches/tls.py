"""Count the round trips until the first response on a new connection, with and without TLS and TFO.

Run as `.venv/bin/python benches/tls.py`; needs an installed kernel. The counts are exact, because time is
virtual."""

import json
import subprocess
from typing import Any, Final

from fastopen.common.errors import MachineError
from fastopen.contract import CONTRACT
from fastopen.engines import find_program, kernels

RTT_MS: Final = 100
FREE: Final = {"rate_bit_per_s": None, "queue_bytes": None}
RESOURCE: Final = {"url": "https://a.test/", "type": "document", "body_bytes": 500, "initiator": None}
PAGE: Final = {
    "format": "fastopen-page/1",
    "name": "one",
    "url": "https://a.test/",
    "source": "made here",
    "initiators": "declared",
    "resources": [RESOURCE],
}
LOADS: Final = {
    "off": {"transport": "tls"},
    "cold": {"transport": "tls+tfo", "cookies": "cold"},
    "warm": {"transport": "tls+tfo", "cookies": "warm"},
}


def main() -> None:
    """Print the table of round trips, with a row for each kind of connection."""
    try:
        kernel = kernels.find(None)
    except MachineError as error:
        print(f"virtual engine: not measured: {error}")
        return
    command = [str(find_program()), "--kernel", str(kernel.path), *kernel.manifest.arguments]
    print(f"Round trips until the first response, kernel {kernel.manifest.name}\n")
    print("| connection | ClientHello, bytes | without TFO | cold | warm |\n|---|---:|---:|---:|---:|")
    row(command, "cleartext", None)
    for version in ("1.3", "1.2"):
        for share in ("x25519", "x25519mlkem768"):
            row(command, f"TLS {version}, {share}", {"version": version, "key_share": share})


def row(command: list[str], what: str, tls: dict[str, str] | None) -> None:
    """Run LOADS with the settings `tls` (None: cleartext), and print a row of the table."""
    loads = [{"id": name, **load} for name, load in LOADS.items()]
    if tls is None:
        loads = [
            {**load, "transport": load["transport"].replace("tls+", "").replace("tls", "tcp")}
            for load in loads
        ]
    job = {
        "contract": CONTRACT,
        "id": "bench",
        "seed": 1,
        "page": PAGE,
        "network": {"rtt_us": RTT_MS * 1000, "down": FREE, "up": FREE},
        "tls": tls or {},
        "loads": loads,
    }
    done = subprocess.run(command, input=json.dumps(job), capture_output=True, text=True, check=True)
    records: list[dict[str, Any]] = [json.loads(line) for line in done.stdout.splitlines()]
    found = {record["id"]: record for record in records if record["type"] == "load"}
    session = found["off"]["connections"][0]["tls"]
    hello = "" if session is None else session["hello_bytes"]
    trips = " | ".join(f"{found[name]['plt_ns'] / 1e6 / RTT_MS:.2f}" for name in LOADS)
    print(f"| {what} | {hello} | {trips} |", flush=True)


if __name__ == "__main__":
    main()
