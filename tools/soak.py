"""Load random pages over random networks in virtual time, and check each load's verdict: valid or invalid.

One case in four has an injected fault. Its loads must be invalid, all others valid. A load may be
`incomplete` behind a path that cuts connections, if queues overflowed until its time limit, or if packets of
a name lookup were lost or late; such loads are counted.

    make soak                            # 10,000 loads; LOADS=300 SEED=7
    .venv/bin/python tools/soak.py --case 1234     # one case again, with all its settings

A case is a page, a network and a setup with all its transports, drawn from the seed and its own number.
Combinations that fastopen refuses are skipped."""

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, get_args

from fastopen.common.errors import InputError
from fastopen.contract import Invalid, InvalidKind, Job, LoadRecord
from fastopen.contract.origins import KeyShare
from fastopen.engines import VirtualEngine, find_program, kernels, loads_in
from fastopen.experiments import COMMAND_LINE, make_plan, read_settings
from fastopen.pages import Page
from fastopen.pages.model import parse_page

TYPES = ("stylesheet", "script", "image", "font", "xhr", "media", "other")
PATHS = (
    *("drop-syn-data", "drop-option", "drop-synack-option", "strip-option", "strip-data", "strip-both"),
    *("strip-synack-option", "break-cookie", "rst-syn-data", "drop-synack", "drop-answers"),
    *("drop-split-hello", "rst-split-hello", "stall-second-segment"),
    *("block-udp", "limit-udp", "drop-0rtt", "delay-initial", "rebind", "drop-large-udp"),
)
# Middleboxes (`--path`) that may keep a load from completing.
CUTTING = (
    *("rst-syn-data", "drop-answers", "drop-synack", "drop-split-hello", "rst-split-hello"),
    *("block-udp", "limit-udp", "rebind"),
)
# Time after which the loader repeats a DNS query without an answer.
RESOLVER_TIMEOUT_S = 5
# Number of cases whose jobs are given to the engine together.
TOGETHER = 400


@dataclass(frozen=True)
class Case:
    """A job for a page, a network and a setup. `asked`: the settings in the command line's notation."""

    number: int
    job: Job
    asked: dict[str, str]


def random_page(rng: random.Random) -> Page:
    """Return a random page: a document and up to 80 other resources on up to 40 hosts, over http or https."""
    hosts = [f"h{number}.test" for number in range(1, 1 + rng.choice((1, 2, 5, 12, 40)))]
    https = rng.choice((0.0, 0.0, 0.5, 1.0))
    resources: list[dict[str, Any]] = [
        {
            "url": f"{_scheme(rng, https)}://{hosts[0]}/",
            "type": "document",
            "body_bytes": _log(rng, 1, 300_000),
            "initiator": None,
            **_server(rng),
        }
    ]
    for number in range(rng.choice((0, 1, 5, 20, 80))):
        initiator = rng.randrange(len(resources)) if rng.random() < 0.3 else 0
        above = resources[initiator]["body_bytes"]
        method = rng.choices(("GET", "POST", "HEAD"), (20, 1, 1))[0]
        status = rng.choices((200, 204, 304, 404), (20, 1, 1, 1))[0]
        empty = method == "HEAD" or status in (204, 304)
        resources.append(
            {
                "url": f"{_scheme(rng, https)}://{rng.choice(hosts)}/{number}",
                "method": method,
                "status": status,
                "type": rng.choice(TYPES),
                "body_bytes": 0 if empty else _log(rng, 1, 400_000),
                "request_header_bytes": _log(rng, 120, 6_000),
                "request_body_bytes": _log(rng, 1, 20_000) if method == "POST" else 0,
                "response_header_bytes": _log(rng, 100, 8_000),
                "initiator": initiator,
                "initiator_at_bytes": rng.randint(0, above) if rng.random() < 0.5 else None,
                "processing_us": _log(rng, 1, 200_000) if rng.random() < 0.3 else 0,
                "phase": resources[initiator].get("phase", "load")
                if rng.random() < 0.9
                else rng.choice(("async", "load")),
                **_server(rng),
            }
        )
    page = {"format": "fastopen-page/1", "name": "soak", "source": "made up", "initiators": "declared"}
    return parse_page({**page, "url": resources[0]["url"], "resources": resources}, "soak")


def _scheme(rng: random.Random, https: float) -> str:
    return "https" if rng.random() < https else "http"


def _server(rng: random.Random) -> dict[str, Any]:
    """Return a random think time, sending time and HTTP version as fields of a resource."""
    return {
        "server_think_us": _log(rng, 100, 500_000) if rng.random() < 0.3 else 0,
        "server_send_us": _log(rng, 1000, 2_000_000) if rng.random() < 0.05 else 0,
        "http": rng.choice((None, "1.1", "2", "3")),
    }


def _log(rng: random.Random, low: int, high: int) -> int:
    """Return a random number between `low` and `high` with a log-uniform distribution."""
    return int(low * (high / low) ** rng.random() + 0.5)


def random_settings(rng: random.Random) -> dict[str, str]:
    """Return a random network and setup: values as on the command line, keyed by the names of factors."""

    def rate() -> str:
        return "none" if rng.random() < 0.2 else f"{_log(rng, 64, 1_000_000)}kbit"

    asked = {
        "rtt": f"{_log(rng, 1, 600)}ms",
        "down": rate(),
        "up": rate(),
        "http": rng.choice(("recorded", "1.1", "2", "3")),
    }
    if rng.random() < 0.7:
        asked["tls"] = rng.choice(("none", "1.2", "1.3"))
        asked["security"] = rng.choice(("tls", "recorded"))
    now_and_then: dict[str, Callable[[], str]] = {
        "loss": lambda: f"{rng.choice((0.1, 1, 3, 10))}%",
        "jitter": lambda: f"{_log(rng, 1, 40)}ms",
        "queue": lambda: f"{_log(rng, 3, 2000)}kB",
        "aqm": lambda: rng.choice(("codel", "fq_codel", "drr")),
        "path": lambda: rng.choice(PATHS),
        "mtu": lambda: str(rng.choice((576, 1280, 1400, 1492))),
        "cross": lambda: rng.choice(("none", "down=bulk", "up=bulk")),
        "session": lambda: rng.choice(("resumed", "early")),
        "initial_window": lambda: str(rng.choice((1, 3, 20, 100))),
        "congestion_control": lambda: rng.choice(("reno", "cubic", "bbr")),
        "connections_per_host": lambda: str(rng.choice((1, 2, 20))),
        "keep_alive": lambda: "off",
        "profile": lambda: "mget",
        "tickets": lambda: str(rng.choice((0, 1, 4))),
        "key_share": lambda: rng.choice(get_args(KeyShare)),
        "chain_bytes": lambda: str(_log(rng, 1000, 20_000)),
        "names": lambda: rng.choice(("do53", "tcp", "dot", "doh")),
        "one_address": lambda: "on",
    }
    asked |= {name: draw() for name, draw in now_and_then.items() if rng.random() < 0.15}
    if "names" in asked:
        asked["resolver_rtt"] = f"{_log(rng, 1, 600)}ms"
        asked["resolver"] = rng.choice(("answers", "answers", "drop-first"))
    if "cross" in asked:
        # On a slower link, cross traffic would leave the load no bandwidth for minutes.
        asked |= {"down": f"{_log(rng, 2000, 100_000)}kbit", "up": f"{_log(rng, 2000, 100_000)}kbit"}
    return asked


def cases(seed: int, first: int = 0) -> Iterator[Case]:
    """Yield the cases of a seed, beginning with number `first`."""
    number = first
    while True:
        rng = random.Random(f"{seed} {number}")
        page, asked = random_page(rng), random_settings(rng)
        try:
            experiment = read_settings(asked, COMMAND_LINE).experiment(
                name="soak", pages=[page.name], seed=number
            )
            changes = {"engines": ["virtual"], "repeats": 1}
            for planned in make_plan(experiment.model_copy(update=changes), [page], "virtual").jobs:
                fault = number // 4 if number % 4 == 0 else None
                yield Case(number, planned.job.model_copy(update={"id": str(number), "fault": fault}), asked)
        except InputError:
            pass
        number += 1


def wrong(case: Case, record: LoadRecord) -> list[str]:
    """Return messages about errors in `record.valid` and `record.invalid`; empty if both are correct."""
    if case.job.fault is not None:
        return [f"valid with fault {case.job.fault}"] if record.valid else []
    return [f"{one.kind}: {one.detail}" for one in record.invalid if not _may_end_early(case, record, one)]


def _may_end_early(case: Case, record: LoadRecord, reason: Invalid) -> bool:
    """Return True if the network explains an incomplete load: the path cuts connections, queues overflowed
    until the time limit, or packets of a name lookup were lost or queued for too long."""
    if reason.kind != InvalidKind.INCOMPLETE or record.link is None:
        return False
    dropped = record.link.down.dropped_queue + record.link.up.dropped_queue
    lost = dropped + record.link.down.dropped_loss + record.link.up.dropped_loss
    rate, queued = case.job.network.down.rate_bit_per_s, record.link.down.queue_bytes_max
    held = rate is not None and (queued or 0) * 8 > RESOLVER_TIMEOUT_S * rate
    unresolved = (lost > 0 or held) and "name resolution" in reason.detail
    late = dropped > 0 and "within the time limit" in reason.detail
    return case.asked.get("path") in CUTTING or unresolved or late


def main() -> int:
    """Run the cases, and print each wrong verdict. Return the exit status: 1 if a verdict is wrong."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--loads", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--case", type=int, help="number of the only case to run")
    asked = parser.parse_args()
    engine = VirtualEngine(find_program(), kernels.find())
    drawn = cases(asked.seed, asked.case or 0)
    done: Counter[str] = Counter()
    started = time.monotonic()
    while done["without"] + done["with a fault"] < asked.loads:
        group = {case.job.id: case for case in islice(drawn, 1 if asked.case is not None else TOGETHER)}
        for record in loads_in(engine.run([case.job for case in group.values()], {})):
            case = group[record.job]
            done["with a fault" if case.job.fault is not None else "without"] += 1
            done["ended early"] += any(_may_end_early(case, record, one) for one in record.invalid)
            for one in wrong(case, record):
                done["wrong"] += 1
                print(f"case {case.number}, {record.id}: {one}\n    {case.asked}", flush=True)
        print(f"{_counted(done)}, {time.monotonic() - started:.0f} s", flush=True)
        if asked.case is not None:
            break
    return int(done["wrong"] > 0)


def _counted(done: Counter[str]) -> str:
    loads = done["without"] + done["with a fault"]
    explained = (
        f"{done['with a fault']} with a fault, {done['ended early']} incomplete as their network explains"
    )
    return f"{loads} loads ({explained}): {done['wrong']} wrong verdicts"


if __name__ == "__main__":
    sys.exit(main())
