"""The IP version, a factor of the network, and its effects."""

from contextlib import nullcontext

import pytest
from pydantic import ValidationError

from fastopen.analysis.statistics.first_flight import syn_data_max
from fastopen.common.errors import InputError
from fastopen.contract import LinkDirection, Network
from fastopen.experiments import COMMAND_LINE, read_settings
from fastopen.experiments.model import Experiment, Setup
from fastopen.experiments.setups import client_of

NO_LIMIT = LinkDirection(rate_bit_per_s=None, queue_bytes=None)


def network(ip: str, mtu_bytes: int = 1500) -> Network:
    return Network.model_validate(
        {"rtt_us": 100_000, "down": NO_LIMIT, "up": NO_LIMIT, "ip": ip, "mtu_bytes": mtu_bytes}
    )


@pytest.mark.parametrize("asked", ["4,6", ["4", "6"], [4, 6]])
def test_both_versions_are_asked_for_by_text_or_number(asked: object) -> None:
    networks = read_settings({"ip": asked}, COMMAND_LINE).networks()
    assert {one.ip for one in networks} == {"4", "6"}
    assert {one.ip for one in read_settings({}, COMMAND_LINE).networks()} == {"4"}


@pytest.mark.parametrize("wrong", ["5", 46, "ipv6", True])
def test_other_versions_are_refused(wrong: object) -> None:
    with pytest.raises(InputError):
        read_settings({"ip": wrong}, COMMAND_LINE).networks()


def test_a_header_of_ipv6_takes_20_bytes_more() -> None:
    assert [syn_data_max(network(ip)) for ip in ("4", "6", "4+6")] == [1420, 1400, 1400]
    assert [network(ip).quic_mtu_min_bytes for ip in ("4", "6", "4+6")] == [1228, 1248, 1248]


def test_ipv6_is_refused_with_an_mtu_that_it_does_not_have() -> None:
    assert network("6", 1280).mtu_bytes == 1280
    assert network("4", 1279).mtu_bytes == 1279
    for ip in ("6", "4+6"):
        with pytest.raises(ValidationError, match="IPv6 needs an MTU of 1280 bytes"):
            network(ip, 1279)


def test_a_path_that_blocks_ipv6_needs_it() -> None:
    for ip, fits in (("4", False), ("6", True), ("4+6", True)):
        asked = {**network(ip).model_dump(), "path": "block-ipv6"}
        with nullcontext() if fits else pytest.raises(ValidationError, match="has no effect on IPv4"):
            Network.model_validate(asked)


def test_both_versions_need_a_client_that_chooses() -> None:
    def experiment(client: str) -> Experiment:
        setups = [Setup(client=client_of({"kind": client}))]
        return Experiment(name="e", pages=["p"], networks=[network("4+6")], setups=setups, seed=1)

    assert experiment("curl").networks[0].ip == "4+6"
    with pytest.raises(ValidationError, match="loader does not choose between IPv4 and IPv6"):
        experiment("loader")
