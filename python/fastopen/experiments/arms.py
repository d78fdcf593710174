"""Define arms: the ways to begin connections that are compared, such as without TFO or with warm TFO cookies.

An arm has a role in the comparison, such as baseline, and texts and a colour for reports. Other modules
select arms by role, not by name. Users request arms by name (`off`, `cold`) or by transport (`tcp`,
`tls+tfo`). To add an arm, add an entry to ARMS.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, Literal, TypeVar, get_args

from fastopen.contract import LoadSpec, Tls
from fastopen.contract.job import Cookies, Transport

ArmName = Literal["off", "cold", "warm", "off2"]


class Role(StrEnum):
    """The role of an arm in a comparison: baseline, control or treatment."""

    BASELINE = "baseline"
    """The arm that all other arms are compared with."""
    CONTROL = "control"
    """The second baseline of an A/A test. Any saving that it seems to have is noise."""
    TREATMENT = "treatment"
    """An arm whose saving compared with the baseline is judged."""


@dataclass(frozen=True)
class Arm:
    """A way to begin connections, with or without TFO, and its texts and style in reports. `words` names page
    loads of this kind in a sentence ("without TFO"). `condition` begins a sentence about them ("With warm
    cookies"). `visit` names the visit that they imitate ("a first visit (cold cookies)"). A report with room
    for only one arm with TFO shows the arm with the highest `preference`."""

    name: ArmName
    role: Role
    cookies: Cookies
    """The client's TFO cookies at the start of a load. None: the client does not request TFO."""
    label: str
    """The arm's name in legends and headings of figures."""
    short_label: str
    """The arm's name in narrow columns."""
    words: str
    colour: str
    shape: str
    """Shape of the arm's points in figures, as Vega-Lite names it."""
    dash: tuple[int, ...]
    """Dash and gap lengths of the line, in pixels. Any two arms differ in colour, shape and dash."""
    condition: str = ""
    visit: str = ""
    preference: int = 0
    encrypted: bool = False
    """True if connections use TLS. If the setting `security` is `recorded`, only those to https URLs do."""

    @property
    def fast_open(self) -> bool:
        """Return True if the client requests TFO."""
        return self.cookies is not None

    @property
    def transport(self) -> Transport:
        """Return the protocols that begin a connection: `tcp`, `tfo`, `tls` or `tls+tfo`."""
        if self.encrypted:
            return "tls+tfo" if self.fast_open else "tls"
        return "tfo" if self.fast_open else "tcp"

    def over(self, tls: Tls | None) -> "Arm":
        """Return a copy of this arm whose connections use TLS, or cleartext if `tls` is None."""
        return replace(self, encrypted=tls is not None)

    def load(self) -> LoadSpec:
        identity = self.transport if self.cookies is None else f"{self.transport}-{self.cookies}"
        if self.role is Role.CONTROL:
            identity += "-again"
        return LoadSpec(id=identity, transport=self.transport, cookies=self.cookies)


# Colours of Okabe and Ito (2008), which colour-blind readers can distinguish. The baseline is a grey that is
# visible on white and on black.
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
# Arms that are compared by default.
DEFAULT_ARMS: Final[tuple[ArmName, ...]] = (BASELINE.name, *(arm.name for arm in TREATMENTS))

# Value of --transports: the default arms, with every TLS session and HTTP version that the clients support.
ALL: Final = "all"
TransportWord = Literal[ArmName, Transport, "recorded", "recorded+tfo", "all"]
TRANSPORT_WORDS: Final[tuple[TransportWord, ...]] = get_args(TransportWord)
_ARMS_OF: Final[dict[str, tuple[ArmName, ...]]] = {
    **{name: (name,) for name in ARMS},
    **dict.fromkeys(("tcp", "tls", "recorded"), (BASELINE.name,)),
    **dict.fromkeys(("tfo", "tls+tfo", "recorded+tfo"), tuple(arm.name for arm in TREATMENTS)),
    ALL: DEFAULT_ARMS,
}

T = TypeVar("T")


def baseline_of(of_arm: Mapping[ArmName, T]) -> T | None:
    """Return the value for the baseline (the arm without TFO) in a mapping from arm names, or None."""
    return of_arm.get(BASELINE.name)


def treatments_of(names: Iterable[ArmName]) -> list[Arm]:
    """Return the arms that use TFO among `names`. Warm cookies come before cold cookies."""
    treatments = (arm for arm in map(ARMS.__getitem__, names) if arm.role is Role.TREATMENT)
    return sorted(treatments, key=lambda arm: -arm.preference)


def headline_of(of_arm: Mapping[ArmName, T]) -> T | None:
    """Return the value for warm cookies in a mapping from arm names, else for cold cookies, else None."""
    return next((of_arm[arm.name] for arm in treatments_of(of_arm)), None)


def compared(names: Iterable[ArmName]) -> list[ArmName]:
    """Return all `names` except the baseline `off`, for comparison with it, or [] if `names` lacks `off`."""
    listed = list(names)
    return [name for name in listed if name != BASELINE.name] if BASELINE.name in listed else []


def arms_and_tls(
    words: Sequence[TransportWord], tls: Sequence[Tls | None]
) -> tuple[list[ArmName], list[Tls | None]]:
    """Convert the words of --transports to names of arms (`off`, `warm`) and TLS settings (None: cleartext).
    `tcp` and `tfo` give cleartext. `tls` and `tls+tfo` give the TLS settings in `tls`, or the defaults if
    there are none. `recorded` and `recorded+tfo` give the same settings, but only for https URLs. If all
    words are names of arms or `all`, return `tls` unchanged."""
    arms = list(dict.fromkeys(arm for word in words for arm in _ARMS_OF[word]))
    asked = set(words)
    if asked <= {*ARMS, ALL}:
        return arms, list(tls)
    over: list[Tls | None] = [None] if asked & {"tcp", "tfo"} else []
    encrypted = [one for one in tls if one is not None] or [Tls()]
    if asked & {"tls", "tls+tfo"}:
        over += encrypted
    if asked & {"recorded", "recorded+tfo"}:
        over += (one.model_copy(update={"security": "recorded"}) for one in encrypted)
    return arms, over
