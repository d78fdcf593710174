"""The arms of a comparison: named combinations of first-flight factors, each with its role and its look.

An arm says how the first flight of each connection is made: with TLS or in the clear, with TCP Fast Open or
without, with which cookies. Nobody asks for an arm by its name: tables, statistics, figures and sentences ask
for its role, so a further arm is one more entry of ARMS.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, Literal, TypeVar

from fastopen.contract import LoadSpec, Tls
from fastopen.contract.job import Cookies, Transport

ArmName = Literal["off", "cold", "warm", "off2"]


class Role(StrEnum):
    """The role of an arm in a comparison."""

    BASELINE = "baseline"
    """What all others are compared with."""
    CONTROL = "control"
    """The baseline once more (an A/A test): what it seems to save is what noise alone does."""
    TREATMENT = "treatment"
    """What is judged."""


@dataclass(frozen=True)
class Arm:
    """One side of a comparison."""

    name: ArmName
    role: Role
    cookies: Cookies
    """TFO cookies that the client starts with; None: it does not ask for TFO at all."""
    label: str
    """In legends and headings of figures."""
    short_label: str
    """Where room is short."""
    words: str
    """In sentences: how pages were loaded."""
    colour: str
    shape: str
    """A mark of Vega-Lite."""
    dash: tuple[int, ...]
    """A line's dash and gap lengths, in pixels; where two arms meet they differ in colour, shape and dash."""
    condition: str = ""
    """At the beginning of a sentence on what it does."""
    visit: str = ""
    """What a user would be doing."""
    preference: int = 0
    """Of several treatments the one with the highest stands for all where only one is shown."""
    encrypted: bool = False
    """Whether each connection speaks TLS."""

    @property
    def fast_open(self) -> bool:
        """Return True if the client requests TFO."""
        return self.cookies is not None

    @property
    def transport(self) -> Transport:
        """Its name in the contract."""
        if self.encrypted:
            return "tls+tfo" if self.fast_open else "tls"
        return "tfo" if self.fast_open else "tcp"

    def over(self, tls: Tls | None) -> "Arm":
        """Return the arm in cleartext (None), or with TLS on every connection."""
        return replace(self, encrypted=tls is not None)

    def load(self) -> LoadSpec:
        """This arm as a load of a job."""
        identity = self.transport if self.cookies is None else f"{self.transport}-{self.cookies}"
        if self.role is Role.CONTROL:
            identity += "-again"
        return LoadSpec(id=identity, transport=self.transport, cookies=self.cookies)


# Colours of Okabe and Ito (2008), which the colour-blind can tell apart; the baseline is a grey that can be
# seen on white and on black.
ARMS: Final[dict[ArmName, Arm]] = {
    arm.name: arm
    for arm in (
        Arm(
            name="off",
            role=Role.BASELINE,
            cookies=None,
            label="no TFO",
            short_label="no TFO",
            words="without TFO",
            colour="#7a7a7a",
            shape="circle",
            dash=(1, 0),
        ),
        Arm(
            name="off2",
            role=Role.CONTROL,
            cookies=None,
            label="no TFO, A/A control",
            short_label="A/A",
            words="without TFO a second time, an A/A control, which shows only noise",
            condition="Without TFO a second time",
            colour="#56b4e9",
            shape="cross",
            dash=(8, 2, 2, 2),
        ),
        Arm(
            name="cold",
            role=Role.TREATMENT,
            cookies="cold",
            label="TFO, cold cookies",
            short_label="cold",
            words="with TFO and no cookies (a first visit)",
            condition="With cold cookies",
            visit="a first visit (cold cookies)",
            colour="#e69f00",
            shape="triangle-up",
            dash=(2, 3),
            preference=1,
        ),
        Arm(
            name="warm",
            role=Role.TREATMENT,
            cookies="warm",
            label="TFO, warm cookies",
            short_label="warm",
            words="with TFO and cookies of an earlier visit",
            condition="With warm cookies",
            visit="a repeat visit (warm cookies)",
            colour="#009e73",
            shape="square",
            dash=(6, 3),
            preference=2,
        ),
    )
}
BASELINE: Final = next(arm for arm in ARMS.values() if arm.role is Role.BASELINE)
CONTROL: Final = next(arm for arm in ARMS.values() if arm.role is Role.CONTROL)
TREATMENTS: Final = tuple(arm for arm in ARMS.values() if arm.role is Role.TREATMENT)
HEADLINE: Final = max(TREATMENTS, key=lambda arm: arm.preference)
# What is compared where nobody says.
DEFAULT_ARMS: Final[tuple[ArmName, ...]] = (BASELINE.name, *(arm.name for arm in TREATMENTS))

T = TypeVar("T")


def baseline_of(of_arm: Mapping[ArmName, T]) -> T | None:
    """Return the value of the baseline among those of arms; None if it was not loaded."""
    return of_arm.get(BASELINE.name)


def treatments_of(names: Iterable[ArmName]) -> list[Arm]:
    """The arms among these that are judged, the one that stands for all first."""
    return sorted(
        (arm for arm in (ARMS[name] for name in names) if arm.role is Role.TREATMENT),
        key=lambda arm: -arm.preference,
    )


def headline_of(of_arm: Mapping[ArmName, T]) -> T | None:
    """Return the value of the headline arm: the preferred treatment among those that were loaded."""
    return next((of_arm[arm.name] for arm in treatments_of(of_arm)), None)


def compared(names: Iterable[ArmName]) -> list[ArmName]:
    """The arms that are held against the baseline, control included; none where the baseline is missing."""
    listed = list(names)
    return [name for name in listed if name != BASELINE.name] if BASELINE.name in listed else []
