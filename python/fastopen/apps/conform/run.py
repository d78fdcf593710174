"""Run the scripts on a kernel, and sort their results: passed, failed, or failed for a known reason."""

import json
import os
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from fastopen.apps.conform.program import packetdrill
from fastopen.apps.conform.scripts import Script, known_reason, stage
from fastopen.common.errors import MachineError, one_line
from fastopen.common.process import running
from fastopen.engines import find_program
from fastopen.engines.kernels import Kernel

# The time limit of a script, on the engine's clock. The longest script takes 30 s.
SCRIPT_S: Final = 120


class ScriptOutcome(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    NOT_HERE = "not here"
    """The script tests a feature that this version of Linux, or this kernel's configuration, lacks."""


@dataclass(frozen=True)
class ScriptResult:
    script: str
    outcome: ScriptOutcome
    why: str
    """Empty if the script passed; otherwise packetdrill's message, or the known reason."""
    took_ms: int | None = None
    syn_data_acked: int | None = None
    """The number of handshakes in the script that acknowledge SYN data; None unless the script passed."""
    syn_data_acked_read: int | None = None
    """The same number according to fastopen's evidence: sockets with TCPI_OPT_SYN_DATA."""
    unread: int = 0
    """The number of sockets whose evidence was cleared by a disconnect."""

    @property
    def agrees(self) -> bool | None:
        """Return True if the evidence agrees with the script's text; None if the script did not pass."""
        if self.syn_data_acked is None or self.syn_data_acked_read is None:
            return None
        return self.syn_data_acked_read <= self.syn_data_acked <= self.syn_data_acked_read + self.unread


@dataclass(frozen=True)
class Conformance:
    """The results of all scripts on one kernel."""

    linux: str
    engine: str
    results: tuple[ScriptResult, ...]

    @property
    def holds(self) -> bool:
        """Return True if no script failed without a known reason, and no evidence disagrees."""
        return all(
            result.outcome is not ScriptOutcome.FAILED and result.agrees is not False
            for result in self.results
        )

    def groups(self) -> dict[str, list[ScriptResult]]:
        """Return the results by the folder of their scripts, and then all of them."""
        groups: defaultdict[str, list[ScriptResult]] = defaultdict(list)
        for result in self.results:
            groups[result.script.rpartition("/")[0]].append(result)
        return {**groups, "all": [*self.results]}

    def line(self) -> str:
        """Return a summary in one line, which `kernel info` shows later."""
        count = Counter(result.outcome for result in self.results)
        agrees = Counter(result.agrees for result in self.results)
        passed = f"{count[ScriptOutcome.PASSED]} of {len(self.results)} scripts pass"
        said = [f"packetdrill, Linux {self.linux}, {self.engine}: {passed}"]
        if count[ScriptOutcome.NOT_HERE]:
            said.append(f"{count[ScriptOutcome.NOT_HERE]} test features that it lacks")
        if count[ScriptOutcome.FAILED]:
            said.append(f"{count[ScriptOutcome.FAILED]} fail")
        said.append(f"evidence agrees with {agrees[True]} of {agrees[True] + agrees[False]}")
        return ", ".join(said)

    def as_json(self) -> dict[str, Any]:
        return {
            "linux": self.linux,
            "engine": self.engine,
            "holds": self.holds,
            "line": self.line(),
            "scripts": [{**asdict(result), "agrees": result.agrees} for result in self.results],
        }


def conform(
    folder: Path, kernel: Kernel | None, linux: str, watch: Callable[[str, int, int], None]
) -> Conformance:
    """Run packetdrill's scripts on `kernel` (None: this machine's own). Raises InputError, MachineError."""
    built = packetdrill(folder)
    with tempfile.TemporaryDirectory(prefix="fastopen-conform-") as made:
        work = Path(made)
        (work / "packetdrill.program").write_bytes(built.read_bytes())
        (work / "packetdrill.program").chmod(0o755)
        scripts = stage(folder, None if kernel is None else kernel.path, work)
        there = [script for script in scripts if kernel is None or not script.is_ipv6]
        records = _records(work, there, kernel, watch)
    version = linux if kernel is None else kernel.version
    results = tuple(_result(script, records.get(script.name), version) for script in scripts)
    return Conformance(version, "host" if kernel is None else "virtual", results)


def _records(
    work: Path, scripts: Sequence[Script], kernel: Kernel | None, watch: Callable[[str, int, int], None]
) -> dict[str, dict[str, Any]]:
    plan = {
        "folder": str(work),
        "program": "packetdrill.program",
        "timeout_s": SCRIPT_S,
        "scripts": [
            {"name": script.name, "path": str(script.path), "arguments": script.arguments()}
            for script in scripts
        ],
    }
    command: list[str | Path] = [find_program(), "--conform"]
    if kernel is not None:
        command += ["--kernel", kernel.path, *kernel.manifest.arguments]
    records: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryFile() as stdin, tempfile.TemporaryFile() as stderr:
        stdin.write(json.dumps(plan).encode())
        stdin.seek(0)
        with running(command, stderr, work, os.environ, stdin) as process:
            assert process.stdout is not None
            for line in process.stdout:
                record = json.loads(line)
                if record["type"] == "error":
                    raise MachineError(record["message"], record["remedy"])
                records[record["name"]] = record
                watch(record["name"], len(records), len(scripts))
        if len(records) < len(scripts):
            stderr.seek(0)
            words = one_line(stderr.read().decode(errors="replace"))
            raise MachineError(f"only {len(records)} of {len(scripts)} scripts ran: {words}")
    return records


def _result(script: Script, record: dict[str, Any] | None, linux: str) -> ScriptResult:
    if record is None:
        why = "needs IPv6, which conform does not use in virtual time"
        return ScriptResult(script.name, ScriptOutcome.NOT_HERE, why)
    took_ms = record["took_ms"]
    if record["exit_code"] == 0:
        known = [socket for socket in record["sockets"] if socket["is_known"]]
        return ScriptResult(
            script.name,
            ScriptOutcome.PASSED,
            "",
            took_ms,
            script.syn_data_acked(),
            sum(socket["syn_data_acked"] for socket in known),
            len(record["sockets"]) - len(known),
        )
    said = _complaint(script, record)
    reason = known_reason(script.name, said, linux)
    outcome = ScriptOutcome.FAILED if reason is None else ScriptOutcome.NOT_HERE
    return ScriptResult(script.name, outcome, reason or said, took_ms)


def _complaint(script: Script, record: dict[str, Any]) -> str:
    """Return why a script failed: packetdrill's output from the script's name on, or its time limit."""
    if record["timed_out"]:
        return f"did not end within {SCRIPT_S} s"
    output: str = record["output"]
    start = output.find(f"{script.path.name}:")
    return one_line(output[max(start, 0) :], 300) or "ended without a message"
