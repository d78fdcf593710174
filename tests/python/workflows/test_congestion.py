"""Congestion controls that a kernel lacks are refused as invalid input before anything runs."""

from collections.abc import Generator, Iterable

import pytest

from fastopen.common.errors import InputError
from fastopen.contract import Job, Tcp
from fastopen.engines.base import Bodies, Event
from fastopen.experiments import COMMAND_LINE, Experiment, read_settings
from fastopen.workflows.congestion import check_congestion_controls


class Asked:
    """An engine with reno, bbr and cubic. Other congestion controls raise the world program's error."""

    parallel = 1

    def __init__(self) -> None:
        self.controls: list[str] = []

    def run(self, jobs: Iterable[Job], bodies: Bodies, within_s: float | None = None) -> Generator[Event]:
        del bodies, within_s
        for job in jobs:
            self.controls.append(job.tcp.congestion_control)
            if job.tcp.congestion_control not in ("reno", "bbr", "cubic"):
                message = f"this kernel has no congestion control {job.tcp.congestion_control}"
                raise InputError(message, "job check", "it has reno, bbr, cubic; as root, modprobe may help")
        yield from ()


def experiment(*controls: str) -> Experiment:
    requested = read_settings({"congestion_control": ",".join(controls)}, COMMAND_LINE)
    return requested.experiment(name="my", pages=["p"], seed=1)


def test_those_that_are_unknown_are_all_named_with_what_there_is_and_what_was_meant() -> None:
    engine = Asked()
    with pytest.raises(InputError) as refused:
        check_congestion_controls(experiment("cubicc", "bbr", "foo"), {"virtual": engine}, "my.toml: tcp.x")
    has = "it has reno, bbr, cubic; as root, modprobe may help"
    assert str(refused.value).splitlines() == [
        f"my.toml: tcp.x: this kernel has no congestion control cubicc; did you mean cubic? {has}",
        f"my.toml: tcp.x: this kernel has no congestion control foo; {has}",
    ]
    assert engine.controls == ["cubicc", "bbr", "foo"]


def test_for_usual_ones_no_kernel_is_started() -> None:
    engine = Asked()
    check_congestion_controls(experiment("cubic", "reno"), {"host": engine, "virtual": engine}, "--x")
    assert engine.controls == []
    assert Tcp().congestion_control == "cubic"
