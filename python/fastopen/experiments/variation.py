"""Samples of uncertain values for each repeat, the same for all its arms.

In virtual time a load has the same result each time. That is true of the program, but nobody knows an RTT to
the microsecond. Each repeat of an experiment that varies is a sample from spreads that stand only here, with
their reasons.
"""

from dataclasses import dataclass
from typing import Annotated, Any, Final

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from fastopen.common import units
from fastopen.contract import Client, EngineName, Network, Origins, RateLimit
from fastopen.contract.network import RATE_MAX_BIT_PER_S, RATE_MIN_BIT_PER_S
from fastopen.contract.part import RTT_MAX_US, SCALE_MAX
from fastopen.experiments.seeds import derive_seed
from fastopen.pages import Page

# Where nobody says how many: the range of 90 % then leaves out one or two at either end.
DRAWS: Final = 30
# Where nobody asked for draws, a report of many cells has as many as make so many loads, but never fewer.
LOADS_OF_DRAWS: Final = 1500
DRAWS_AT_LEAST: Final = 10
# Loads in virtual time begin at multiples of it (TIMER_WHEEL_PERIOD_NS in crates/world/src/engine.rs).
TIMER_WHEEL_PERIOD_US: Final = 4096 * 4000


def _share(value: object) -> object:
    try:
        return units.parse_fraction(value) if isinstance(value, str) else value
    except units.UnitError as error:
        raise ValueError(str(error)) from None


Share = Annotated[float, BeforeValidator(_share), Field(ge=0, lt=1)]


class Variation(BaseModel):
    """The spreads: each value is drawn evenly from so far below to so far above what was asked."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    rtt: Share = 0.05
    """Of the link and of hosts behind it: the hour, the route and the queues of others move it by this."""
    down: Share = 0.05
    """The rate to the client: speed tests of one line agree to a few per cent."""
    up: Share = 0.05
    """The rate from the client, for the same reason."""
    think: Share = 0.1
    """Think times of the servers: a recording has each of them once, under the load of that moment."""
    explanations: bool = True
    """Whether each of the explanations that fit a recording as well stands for it in its turn."""
    processing: Share = 0.1
    """Processing times of the client, recorded once as well, and on another machine."""
    start_phase: bool = True
    """Whether loads in virtual time begin in any phase of the kernel's timers, as users do, not in one."""
    order: bool = True
    """Whether the loader asks for what the same byte reveals in any order: recordings do not say which."""

    @property
    def phrase(self) -> str:
        """`RTT, rate down within 5 %, think times within 10 %, start phase and order by chance`."""
        shares: dict[float, list[str]] = {}
        for name, words in UNKNOWNS.items():
            share = getattr(self, name)
            if share and share is not True:
                shares.setdefault(share, []).append(words)
        parts = [f"{', '.join(names)} within {100 * share:g} %" for share, names in shares.items()]
        chance = [words for name, words in BY_CHANCE.items() if getattr(self, name)]
        return ", ".join([*parts, *([f"{_and(chance)} by chance"] if chance else [])])


# In sentences and tables. Those of which a draw is a number.
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
    "order": "order of equal requests",
    "explanations": "explanation of waits",
}


@dataclass(frozen=True)
class Draw:
    """The sampled values of one repeat: multiples of factors, and the phase at which loads begin."""

    rtt: float
    down: float
    up: float
    think: float
    processing: float
    explanation: float | None
    """Which explanation of a page stands for it: the place in the row of them; None: always its own."""
    start_phase: int
    """Microseconds after that of the kernel's timers in which loads begin."""
    order: bool

    def network(self, network: Network) -> Network:
        """The network of this draw. A trace stays as it is: the start phase moves it."""
        extra = {host: self._rtt_us(us) for host, us in network.host_extra_rtt_us.items()}
        changes: dict[str, Any] = {
            "rtt_us": self._rtt_us(network.rtt_us),
            "host_extra_rtt_us": extra,
            "down": _scaled(network.down, self.down),
            "up": _scaled(network.up, self.up),
        }
        return network.model_copy(update=changes)

    def page(self, page: Page) -> Page:
        """The page by the explanation of this draw."""
        if self.explanation is None:
            return page.explained(page.explanation)
        row = [page.explanation, *page.explanations]
        return page.explained(row[int(self.explanation * len(row))])

    def client(self, client: Client) -> Client:
        """The client of this draw."""
        scale = min(client.processing_scale * self.processing, SCALE_MAX)
        return client.model_copy(update={"processing_scale": scale})

    def origins(self, origins: Origins) -> Origins:
        """The origins of this draw."""
        return origins.model_copy(update={"think_scale": min(origins.think_scale * self.think, SCALE_MAX)})

    def _rtt_us(self, asked_us: int) -> int:
        return min(round(asked_us * self.rtt), RTT_MAX_US)


def draw(vary: Variation | None, seed: int, engine: EngineName, repeat: int) -> Draw | None:
    """The draw of a repeat, the same for all pages, networks and setups; None where nothing varies."""
    if vary is None:
        return None

    def share(name: str) -> float:
        return derive_seed(seed, "draw", name, repeat) / 2**63

    factors = {
        name: 1 + getattr(vary, name) * (2 * share(name) - 1) for name in UNKNOWNS if name != "start_phase"
    }
    # On the host's clock the phase is left to chance anyway, and waiting for one takes its time.
    phase = share("start_phase") if vary.start_phase and engine == "virtual" else 0
    return Draw(
        **factors,
        explanation=share("explanation") if vary.explanations else None,
        start_phase=int(phase * TIMER_WHEEL_PERIOD_US),
        order=vary.order,
    )


def _and(words: list[str]) -> str:
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def _scaled(limit: RateLimit, factor: float) -> RateLimit:
    if limit.rate_bit_per_s is None:
        return limit
    rate = min(max(round(limit.rate_bit_per_s * factor), RATE_MIN_BIT_PER_S), RATE_MAX_BIT_PER_S)
    return limit.model_copy(update={"rate_bit_per_s": rate})
