"""Check before a run starts that the kernels have the TCP congestion controls that the run needs."""

import difflib
import re
from collections.abc import Iterator, Mapping
from contextlib import closing
from itertools import product
from typing import Final

from fastopen.common.errors import InputError, raise_all
from fastopen.contract import CONTRACT, Job, LinkDirection, Network, Tcp
from fastopen.engines import Engine, Reported
from fastopen.experiments import BASELINE, EngineName, Experiment
from fastopen.pages import load_pages, packaged_pages

# The congestion control that every Linux kernel has, whatever its configuration.
ALWAYS: Final = "reno"
# Kernels of distributions and of the virtual engine have these controls, so they are not tested beforehand.
USUAL: Final = (ALWAYS, "cubic")
# Part of the world program's message if a kernel lacks a congestion control.
UNKNOWN: Final = "no congestion control"


def check_congestion_controls(
    experiment: Experiment, engines: Mapping[EngineName, Engine], place: str
) -> None:
    """Raise InputError if a kernel lacks a TCP congestion control of the experiment. Each control that is not
    in USUAL is tested on each engine. `place` names the option or key in the message."""
    asked = dict.fromkeys(setup.tcp.congestion_control for setup in experiment.setups)
    pairs = product(engines.values(), [name for name in asked if name not in USUAL])
    raise_all([problem for engine, name in pairs for problem in _problems(engine, name, place)])


def _problems(engine: Engine, name: str, place: str) -> Iterator[InputError]:
    """Run a minimal job, which fails if the kernel lacks the congestion control `name`."""
    (imported,) = load_pages([packaged_pages()["one-request"]])
    free = LinkDirection(rate_bit_per_s=None, queue_bytes=None)
    job = Job(
        contract=CONTRACT,
        id="check",
        seed=0,
        page=imported.page,
        network=Network(rtt_us=0, down=free, up=free),
        tcp=Tcp(congestion_control=name),
        loads=[BASELINE.load()],
    )
    try:
        with closing(engine.run([job], {})) as events:
            next((event for event in events if isinstance(event, Reported)), None)
    except InputError as error:
        if UNKNOWN not in error.message:
            raise
        known = re.search(r"it has ([\w, -]+)", error.remedy)
        near = difflib.get_close_matches(name, known[1].split(", ") if known else [ALWAYS], n=1)
        remedy = f"did you mean {near[0]}? {error.remedy}" if near else error.remedy
        yield InputError(error.message, place, remedy)
