"""Define named access networks: their published RTTs and rates, and the sources of these figures."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from fastopen.common import units
from fastopen.contract import Network
from fastopen.experiments import quantities as q
from fastopen.experiments.factor import DesignPoint, Factor

WEBPAGETEST: Final = "WebPageTest, connectivity.ini.sample"
OOKLA: Final = "Ookla's medians of the United States in the third quarter of 2023 (TV Technology, 2023)"


@dataclass(frozen=True)
class NamedNetwork:
    """An access network: RTT (`13ms`), rates to and from the client (`24mbit`), and source of the figures."""

    rtt: str
    down: str
    up: str
    source: str

    @cached_property
    def rates(self) -> tuple[int | None, int | None]:
        """Return the rates to and from the client, in bit/s; None for no limit."""
        return (units.parse_rate_bit_per_s(self.down), units.parse_rate_bit_per_s(self.up))


NAMED_NETWORKS: Final = {
    "broadband": NamedNetwork("13ms", "214mbit", "24mbit", OOKLA),
    "mobile": NamedNetwork("31ms", "97mbit", "9mbit", OOKLA),
    "2g": NamedNetwork("800ms", "280kbit", "256kbit", WEBPAGETEST),
    "3g": NamedNetwork("300ms", "1.6mbit", "768kbit", WEBPAGETEST),
    "4g": NamedNetwork("170ms", "9mbit", "9mbit", WEBPAGETEST),
    "lte": NamedNetwork("70ms", "12mbit", "12mbit", WEBPAGETEST),
    "dsl": NamedNetwork("50ms", "1.5mbit", "384kbit", WEBPAGETEST),
    "cable": NamedNetwork("28ms", "5mbit", "1mbit", WEBPAGETEST),
    "fibre": NamedNetwork("4ms", "20mbit", "5mbit", f"{WEBPAGETEST} (FIOS)"),
    "starlink": NamedNetwork(
        *("50ms", "100mbit", "12mbit"),
        "RTT: median to European anchors of RIPE Atlas in 2022 (APNIC blog, 28 November 2022);"
        " rates: Ookla's medians of Europe in the second quarter of 2023, rounded",
    ),
}
# Networks of a run that sets no network, RTT, rate or trace.
DEFAULT_NETWORKS: Final = ("broadband", "mobile", "4g")
# The network that provides the rates that a run does not set, if it sets an RTT, a rate or a trace.
RATES_BY_DEFAULT: Final = "broadband"
_BY_VALUE: Final = {
    (units.parse_duration_us(one.rtt), *one.rates): name for name, one in NAMED_NETWORKS.items()
}


def name_of(network: Network) -> str | None:
    """Return the name of a network's RTT and rates, such as `4g`; None if they have no name."""
    if network.down.trace_ms is not None or network.up.trace_ms is not None:
        return None
    return _BY_VALUE.get((network.rtt_us, network.down.rate_bit_per_s, network.up.rate_bit_per_s))


class _Named(Factor):
    """A factor whose value is the name of a network, such as `4g`, or None if the network has no name."""

    def values(self, point: DesignPoint) -> tuple[str | None, ...]:
        return (name_of(point.network),)


# If all networks of a run have names, tables and sentences show this factor instead of the rates.
NETWORK: Final = _Named(
    "network", "network", q.TEXT, "RTT and rates by a name.", ("rtt_us",), header="network", phrase="{}"
)  # fmt: skip
# Factors that NETWORK replaces.
STANDS_FOR: Final = ("down", "up")


def all_named(networks: Sequence[Network]) -> bool:
    return all(name_of(network) is not None for network in networks)
