"""HTTP/3 as a setting: combinations with other settings, errors for invalid ones, and its arms."""

import pytest
from pydantic import ValidationError

from fastopen.contract import Client, LinkDirection, Network, Origins, Tcp, Tls
from fastopen.experiments import make_plan
from fastopen.experiments.arms import ArmName
from fastopen.experiments.model import Experiment, Setup
from fastopen.experiments.setups import client_of
from made_up_run import made_up_page

HTTP3 = Origins(http="3")
NO_LIMIT = LinkDirection(rate_bit_per_s=None, queue_bytes=None)
NETWORK = Network(rtt_us=100_000, down=NO_LIMIT, up=NO_LIMIT)


def experiment(*arms: ArmName, network: Network = NETWORK) -> Experiment:
    setups = [Setup(origins=Origins(http=http), tls=Tls()) for http in ("2", "3")]
    return Experiment(name="e", pages=["p"], networks=[network], setups=setups, arms=list(arms), seed=1)


def test_over_quic_the_arms_without_tfo_are_loaded_alone() -> None:
    plan = make_plan(experiment("off", "cold", "warm"), [made_up_page("p", 2)])
    arms = [(cell.setup, cell.arm.name) for cell in plan.cells]
    assert arms == [(0, "off"), (0, "cold"), (0, "warm"), (1, "off")]
    assert {job.comparison.setup: len(job.job.loads) for job in plan.jobs} == {0: 3, 1: 1}


def test_what_asks_for_tfo_over_quic_alone_is_refused() -> None:
    with pytest.raises(ValidationError, match="no SYN for TCP Fast Open: use --transports=tls,"):
        experiment("cold", "warm")


def test_single_hosts_speak_http3_next_to_others_that_can_use_tfo() -> None:
    setup = Setup(origins=Origins(http3_hosts=["a.test", "elsewhere.test"]), tls=Tls())
    chosen = Experiment(name="e", pages=["p"], networks=[NETWORK], setups=[setup], seed=1)
    assert [arm.name for arm in chosen.arms_of(0)] == ["off", "cold", "warm"]
    with pytest.raises(ValidationError, match=r"a\.test is in both lists"):
        Origins(http2_hosts=["a.test"], http3_hosts=["a.test"])
    with pytest.raises(ValidationError, match="HTTP/3 always uses TLS"):
        Setup(origins=Origins(http3_hosts=["a.test"]))


def test_http3_needs_tls() -> None:
    with pytest.raises(ValidationError, match=r"use --transports=tls and not --tls=none, or --http=1\.1"):
        Setup(origins=HTTP3)


@pytest.mark.parametrize("kind", ["aria2c", "wget2"])
def test_clients_that_do_not_speak_it_are_refused(kind: str) -> None:
    able = "use --client=loader/chromium/curl/command"
    with pytest.raises(ValidationError, match=rf"not with HTTP/3.*{able}"):
        Setup(client=client_of({"kind": kind}), origins=HTTP3, tls=Tls())


def test_it_is_refused_where_quic_cannot_be() -> None:
    with pytest.raises(ValidationError, match="which needs TLS"):
        Setup(origins=HTTP3, tls=Tls(version="1.2"))
    with pytest.raises(ValidationError, match="works only with cubic or reno"):
        Setup(origins=HTTP3, tls=Tls(), tcp=Tcp(congestion_control="bbr"))
    with pytest.raises(ValidationError, match="all hosts speak HTTP/3"):
        Setup(origins=Origins(http="3", http2_hosts=["a.test"]), tls=Tls())
    with pytest.raises(ValidationError, match="needs an MTU of at least 1228 bytes"):
        experiment("off", network=NETWORK.model_copy(update={"mtu_bytes": 1227}))
    with pytest.raises(ValidationError, match="HTTP/3 keeps the connections of origins open"):
        Origins(http="3", keep_alive=False)


def test_hosts_of_all_three_versions_go_together() -> None:
    origins = Origins(http2_hosts=["b.test"], http3_hosts=["c.test"])
    assert Setup(origins=origins, tls=Tls()).origins.versions == ["3", "2", "1.1"]


def test_chromium_speaks_it_over_tls() -> None:
    chromium = client_of({"kind": "chromium"})
    assert Setup(client=chromium, origins=HTTP3, tls=Tls(session="early")).origins.all_quic
    with pytest.raises(ValidationError, match="HTTP/3 always uses TLS"):
        Setup(client=chromium, origins=HTTP3)


def test_the_loader_speaks_it() -> None:
    loader = Client.model_validate({})
    assert Setup(client=loader, origins=HTTP3, tls=Tls(session="early")).origins.quic
