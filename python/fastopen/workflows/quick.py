"""Shorten an experiment so that enough repeats of it take less than a minute."""

import os
from collections.abc import Collection, Iterator, Sequence
from functools import partial
from typing import Final

from fastopen.analysis.statistics import FULL_MIN
from fastopen.contract import EngineName
from fastopen.engines import default_parallel
from fastopen.experiments import Experiment, estimated_s, make_plan, name_of, treatments_of
from fastopen.pages import ImportedPage
from fastopen.workflows.engines import auto_engine, is_busy, slower_now

# The maximum duration of the loads in seconds, so that starting and printing fit into a minute, too.
QUICK_S: Final = 45.0
# The factor by which a busy machine is assumed to slow down virtual time. It cannot be known beforehand.
BUSY: Final = 3.0
# The factors whose values `quickened` may reduce.
REDUCIBLE: Final = ("engine", "rtt", "transport")


def quickened(
    experiment: Experiment,
    imported: Sequence[ImportedPage],
    asked: Collection[str],
    kernel: str | None,
    jobs: int | None,
) -> tuple[Experiment, list[str]]:
    """Leave out parts of the experiment, such as networks, until FULL_MIN repeats take at most QUICK_S
    seconds, if possible. Return the shorter experiment, and a text about each part that was left out. `asked`
    names settings not to change, usually those the user chose. `jobs` networks are emulated at once."""
    # On a busy machine, keep virtual time if it is fast enough: loads in real time would be late and invalid.
    left_out: list[str] = []
    auto = auto_engine(kernel)
    for shorter, words in _steps(experiment, asked, auto):
        if _seconds(experiment, imported, auto, jobs) <= QUICK_S:
            break
        candidate = experiment.model_copy(update=shorter)
        first_s = partial(_seconds, imported=imported, auto=auto, jobs=jobs, repeats=1)
        if "engines" in shorter and is_busy():
            sooner = BUSY * first_s(experiment, idle=True) > QUICK_S
        else:
            sooner = first_s(candidate) < first_s(experiment)
        if sooner:
            experiment = candidate
            left_out.append(words)
    return experiment, left_out


def _steps(
    experiment: Experiment, asked: Collection[str], auto: EngineName
) -> Iterator[tuple[dict[str, object], str]]:
    """Yield changes that may shorten a run, in the order to try them, as (new values keyed by field,
    description). Settings in `asked` are not changed. `auto` is the engine to use for "auto"."""
    arms = treatments_of(experiment.arms)
    if "transport" not in asked and len(arms) > 1:
        kept = [name for name in experiment.arms if name not in [arm.name for arm in arms[1:]]]
        words = " and ".join(f"{arm.cookies} cookies" for arm in arms[1:])
        yield {"arms": kept}, f"without {words} (--transports)"
    networks = experiment.networks
    if "rtt" not in asked and len(networks) > 1:
        middle = networks[len(networks) // 2]
        name, rtt_ms = name_of(middle), middle.rtt_us / 1000
        words = f"only network {name} (--network)" if name else f"only RTT {rtt_ms:g} ms (--rtt)"
        yield {"networks": [middle]}, words
    random = any(not setup.client.type.deterministic for setup in experiment.setups)
    if "engine" not in asked and auto == "virtual" and random:
        late = "; this machine is busy, and late loads are invalid" if is_busy() else ""
        words = f"on the engine host, where this client's loads take less time (--engine){late}"
        yield {"engines": ["host"]}, words


def _seconds(
    experiment: Experiment,
    imported: Sequence[ImportedPage],
    auto: EngineName,
    jobs: int | None,
    repeats: int = FULL_MIN,
    *,
    idle: bool = False,
) -> float:
    """Estimate the seconds that a run with `repeats` repeats takes on this machine. With `idle`, ignore other
    processes. `jobs` is the number of networks emulated at once, and `auto` the engine to use for "auto"."""
    plan = make_plan(experiment.model_copy(update={"repeats": repeats}), [one.page for one in imported], auto)
    clients = [setup.client.type for setup in experiment.setups]
    parallel: dict[EngineName, int] = {
        "host": jobs or default_parallel(clients),
        "virtual": jobs or len(os.sched_getaffinity(0)),
    }
    return estimated_s(plan, parallel, {} if idle else slower_now(parallel))
