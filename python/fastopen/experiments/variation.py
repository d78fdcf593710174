"""Choose random values of uncertain inputs, such as the RTT, for each repeat of an experiment (`vary`).

In virtual time, a page load with the same inputs always has the same result. But inputs such as the RTT are
known only roughly, and random values show how much this affects results. Loads with and without TFO in the
same repeat have the same values.
"""

import hashlib
import json
from dataclasses import dataclass
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, Field

from fastopen.common import units
from fastopen.common.grouping import grouped
from fastopen.common.phrases import listed
from fastopen.contract import Client, EngineName, LinkDirection, Network, Origins
from fastopen.contract.network import RATE_MAX_BIT_PER_S, RATE_MIN_BIT_PER_S
from fastopen.contract.part import RTT_MAX_US, SCALE_MAX, Part
from fastopen.pages import Page

# Default number of samples. The central 90 % of 30 samples leaves out one or two at either end.
DRAWS: Final = 30
# Without `--vary`, `--report` takes DRAWS_AT_LEAST to DRAWS samples: as many as LOADS_OF_DRAWS loads allow.
LOADS_OF_DRAWS: Final = 1500
DRAWS_AT_LEAST: Final = 10
# Period of the kernel's timers. Unless a start phase is added, loads in virtual time begin at a multiple of
# this period (TIMER_WHEEL_PERIOD_NS in crates/world/src/engine.rs).
TIMER_WHEEL_PERIOD_US: Final = 4096 * 4000


def _share(value: object) -> object:
    return units.parse_fraction(value) if isinstance(value, str) else value


Share = Annotated[float, BeforeValidator(_share), Field(ge=0, lt=1)]


class Variation(Part):
    """The inputs that differ at random between repeats. With a spread of 0.05, a repeat multiplies the input
    by a random number from 0.95 to 1.05. Flags add other random inputs. `explanations`: choose one of the
    sets of server think times that fit the page's recording equally well. `start_phase`: begin loads in
    virtual time at a random phase of the kernel's timers. `order`: shuffle simultaneous requests."""

    rtt: Share = 0.05
    """Spread of the RTT of the link and of hosts behind it, due to the time of day, routes and queues."""
    down: Share = 0.05
    """Spread of the rate to the client. Speed tests of the same line differ by a few per cent."""
    up: Share = 0.05
    """Spread of the rate from the client, for the same reason as `down`."""
    think: Share = 0.1
    """Spread of server think times: they vary with the server's load, but are recorded only once."""
    explanations: bool = True
    processing: Share = 0.1
    """Spread of the client's processing times: they are recorded only once, on the recorder's machine."""
    start_phase: bool = True
    order: bool = True
    """True to shuffle requests discovered at the same byte of a response, as their order is not recorded."""

    @property
    def phrase(self) -> str:
        """Return the spreads in words: `RTT, rate down within 5 %, think times within 10 %`."""
        spreads = ((getattr(self, name), words) for name, words in UNKNOWNS.items())
        shares = grouped((share, words) for share, words in spreads if share and share is not True)
        parts = [f"{', '.join(names)} within {100 * share:g} %" for share, names in shares.items()]
        chance = [words for name, words in BY_CHANCE.items() if getattr(self, name)]
        return ", ".join([*parts, *([f"{listed(chance)} at random"] if chance else [])])

    def draw(self, seed: int, engine: EngineName, repeat: int) -> "Draw":
        """Choose the random inputs of one repeat, such as the number that multiplies the RTT. They do not
        depend on page, network or client. Only in virtual time, choose when loads begin (`start_phase`)."""

        def share(name: str) -> float:
            return derive_seed(seed, "draw", name, repeat) / 2**63

        names = (name for name in UNKNOWNS if name != "start_phase")
        # In real time the phase is random anyway, and waiting for a phase would take time.
        phase = share("start_phase") if self.start_phase and engine == "virtual" else 0
        return Draw(
            **{name: 1 + getattr(self, name) * (2 * share(name) - 1) for name in names},
            explanation=share("explanation") if self.explanations else None,
            start_phase=int(phase * TIMER_WHEEL_PERIOD_US),
            order=self.order,
        )


# Names of the sampled numbers, for sentences and tables.
UNKNOWNS: Final = {
    "rtt": "RTT",
    "down": "rate down",
    "up": "rate up",
    "think": "think times",
    "processing": "processing",
    "start_phase": "start phase",
}
BY_CHANCE: Final = {
    "start_phase": "start phase",
    "order": "request order",
    "explanations": "split of recorded waits",
}


@dataclass(frozen=True)
class Draw:
    """The random inputs of one repeat. The first five fields multiply the RTT, the rates, server think times
    and the client's processing times. Loads begin at the phase `start_phase` of the kernel's timers, in µs.
    If `order` is True, shuffle requests that the client finds at the same time."""

    rtt: float
    down: float
    up: float
    think: float
    processing: float
    explanation: float | None
    """A position from 0 to 1 among a page's sets of server think times. None: the set in its resources."""
    start_phase: int
    order: bool

    def network(self, network: Network) -> Network:
        """Return the network with this repeat's RTTs and rates. Traces are not changed."""
        extra = {host: self._rtt_us(us) for host, us in network.host_extra_rtt_us.items()}
        changes: dict[str, Any] = {
            "rtt_us": self._rtt_us(network.rtt_us),
            "host_extra_rtt_us": extra,
            "down": _scaled(network.down, self.down),
            "up": _scaled(network.up, self.up),
        }
        return network.model_copy(update=changes)

    def page(self, page: Page) -> Page:
        """Return the page with the set of server think times that `explanation` selects."""
        row = [page.explanation, *page.explanations]
        return page.with_explanation(row[int((self.explanation or 0) * len(row))])

    def client(self, client: Client) -> Client:
        """Return the client, with its processing times multiplied by `processing`."""
        scale = min(client.processing_scale * self.processing, SCALE_MAX)
        return client.model_copy(update={"processing_scale": scale})

    def origins(self, origins: Origins) -> Origins:
        """Return the servers' settings, with their think and send times multiplied by `think`."""
        return origins.model_copy(update={"think_scale": min(origins.think_scale * self.think, SCALE_MAX)})

    def _rtt_us(self, asked_us: int) -> int:
        return min(round(asked_us * self.rtt), RTT_MAX_US)


def derive_seed(seed: int, *parts: str | int) -> int:
    """Derive a seed from `seed` for the purpose that `parts` name. The result is the same on all machines."""
    digest = hashlib.sha256(json.dumps([seed, *parts]).encode()).digest()
    return int.from_bytes(digest[:8]) >> 1


def _scaled(limit: LinkDirection, factor: float) -> LinkDirection:
    if limit.rate_bit_per_s is None:
        return limit
    rate = min(max(round(limit.rate_bit_per_s * factor), RATE_MIN_BIT_PER_S), RATE_MAX_BIT_PER_S)
    return limit.model_copy(update={"rate_bit_per_s": rate})
