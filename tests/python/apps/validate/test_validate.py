"""Agreement of the engines: the rule, the message about a disagreement, and a real comparison."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from fastopen.analysis.statistics import CellResult, collect
from fastopen.apps.validate.engines import EngineComparison, used_connections, verdict
from fastopen.contract import Tls
from fastopen.experiments import Plan
from fastopen.runs import RunStore, execute
from fastopen.workflows.engines import EngineSet
from places import ROOT

FASTOPEN = [sys.executable, "-c", "from fastopen.cli import main; main()"]
PROGRAM = ROOT / "target" / "release" / "fastopen-world"


def fastopen(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [*FASTOPEN, "validate", "engines", *map(str, arguments)]
    environment = {**os.environ, "FASTOPEN_WORLD": str(PROGRAM), "COLUMNS": "80"}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300)


@pytest.fixture(name="agreement")
def _agreement(small_plan: Callable[..., Plan], fake_world: Callable[..., Path]) -> EngineComparison:
    """Return a comparison of loads with ten requests on two connections. Both engines' median is 100 ms;
    on the host, loads took 99 to 103 ms."""
    fake_world()
    plan = small_plan()
    engines = EngineSet.of(plan, None, None)
    with RunStore.create(None, plan, engines.environment) as store:
        execute(plan, engines.engines, {}, store, lambda _: None)
        cell = replace(collect(store).cells[2], retransmitted=0, connections=2, syn_data_connections=2)
    host, virtual = took(cell, 99, 100, 103), took(cell, 100)
    network = plan.experiment.networks[0]
    up = network.up.model_copy(update={"rate_bit_per_s": None})
    network = network.model_copy(update={"up": up})
    setup = plan.experiment.setups[0]
    return EngineComparison("small", network, "warm", 10, setup, host, virtual, virtual)


def took(cell: CellResult, *plts_ms: float) -> CellResult:
    """Return a copy of the cell with these page load times. The middle argument is taken as the median."""
    return replace(cell, plts_ms=dict(enumerate(plts_ms)), plt_ms_median=plts_ms[len(plts_ms) // 2])


def test_equal_times_and_evidence_agree(agreement: EngineComparison) -> None:
    assert agreement.allowed_ms == 4 + 10 * 0.5
    assert (agreement.disagreement(), agreement.noisy) == ("", False)
    assert verdict([agreement]).startswith("The engines agree: PLT differs by 0.0 ms (0.0 %) at most")


def test_processing_time_of_each_request_is_allowed_and_no_more(agreement: EngineComparison) -> None:
    assert replace(agreement, host=took(agreement.host, 108.9, 109, 112)).disagreement() == ""
    apart = replace(agreement, host=took(agreement.host, 109.1, 110, 112))
    assert apart.disagreement() == "engines differ by more than 9 ms"
    assert verdict([agreement, apart]) == (
        "1 of 2 cells do not agree; the first: small, RTT 20 ms, warm: engines differ by more than 9 ms."
    )


def test_a_handshake_of_tls_may_take_the_host_some_time(agreement: EngineComparison) -> None:
    encrypted = replace(agreement, setup=agreement.setup.model_copy(update={"tls": Tls()}))
    assert encrypted.allowed_ms == agreement.allowed_ms + 2 * 2.5
    assert (agreement.flight, encrypted.flight) == ("HTTP/1.1", "HTTP/1.1, session none")


def test_on_a_thin_uplink_a_segment_without_data_a_connection_is_allowed(agreement: EngineComparison) -> None:
    up = agreement.network.up.model_copy(update={"rate_bit_per_s": 416_000})
    thin = replace(agreement, network=agreement.network.model_copy(update={"up": up}))
    assert thin.allowed_ms == 4 + 10 * 0.5 + 2 * 1


def test_where_segments_were_sent_again_the_timer_wheel_is_allowed_for(
    agreement: EngineComparison,
) -> None:
    again = replace(agreement, virtual=replace(agreement.virtual, retransmitted=1))
    assert again.allowed_ms == agreement.allowed_ms + 32


def test_a_host_that_is_faster_than_virtual_time_is_no_better(agreement: EngineComparison) -> None:
    assert replace(agreement, host=took(agreement.host, 80, 85, 90)).disagreement()


def test_the_ways_of_making_the_link_may_differ_by_one_tick(agreement: EngineComparison) -> None:
    assert replace(agreement, program_link=took(agreement.virtual, 104)).disagreement() == ""
    apart = replace(agreement, program_link=took(agreement.virtual, 105))
    assert apart.disagreement() == "links differ by more than 4 ms"


def test_other_evidence_is_a_disagreement_though_times_agree(agreement: EngineComparison) -> None:
    cell = replace(agreement.virtual, syn_data_connections=0)
    assert replace(agreement, virtual=cell).disagreement() == "evidence differs"


def test_a_cell_without_a_valid_load_does_not_agree(agreement: EngineComparison) -> None:
    nothing = replace(agreement.host, plts_ms={}, plt_ms_median=None)
    assert replace(agreement, host=nothing).disagreement() == "no valid load"
    assert replace(agreement, host=nothing).as_json()["difference_ms"] is None


def test_a_host_that_scatters_more_than_engines_may_is_called_noisy(
    agreement: EngineComparison,
) -> None:
    assert replace(agreement, host=took(agreement.host, 99, 100, 120)).noisy


def test_a_connection_that_was_never_used_is_no_evidence(
    small_plan: Callable[..., Plan], fake_world: Callable[..., Path]
) -> None:
    fake_world()
    plan = small_plan(repeats=1)
    engines = EngineSet.of(plan, None, None)
    with RunStore.create(None, plan, engines.environment) as store:
        execute(plan, engines.engines, {}, store, lambda _: None)
        ((_, record),) = [one for one in store.load_records(store.loads()) if one[0].cell == 2]
        # The golden load opens two connections, but uses only the first one.
        assert [one.requests > 0 for one in record.connections] == [True, False]
        assert used_connections(store)[2] == [record.connections[0].carried_syn_data]


def test_without_a_kernel_the_remedy_is_named() -> None:
    done = fastopen()
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.endswith("no kernel for virtual time is installed; run fastopen kernel build\n")


@pytest.mark.e2e
@pytest.mark.real_time
@pytest.mark.usefixtures("kernel")
def test_the_engines_agree_on_a_small_page() -> None:
    done = fastopen("--pages", "example", "--rtt", "20ms", "--limited", "-n", 3, "--json")
    document = json.loads(done.stdout)
    # On a busy machine, loads of the host may be late, but virtual time and the evidence are not affected.
    assert [cell["transport"] for cell in document["cells"]] == ["off", "warm"]
    assert all(abs(cell["link_difference_ms"]) < 4 for cell in document["cells"])
    assert [cell["syn_data"]["virtual"] for cell in document["cells"]] == [[0, 7], [7, 7]]
    assert document["agree"] == (done.returncode == 0)
    assert not any("evidence" in cell["complaint"] for cell in document["cells"])
