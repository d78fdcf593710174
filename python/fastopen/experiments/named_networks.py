"""Access networks that people ask for by name: RTT and rates as published, each with its source."""

from dataclasses import dataclass
from typing import Final

WEBPAGETEST: Final = "WebPageTest, connectivity.ini.sample"


@dataclass(frozen=True)
class NamedNetwork:
    """RTT, rate to the client and rate from it, as one writes them, and who says so."""

    rtt: str
    down: str
    up: str
    source: str


NAMED_NETWORKS: Final = {
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
