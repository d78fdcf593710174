"""Define the words that select arms (`off`, `cold`, `warm`, `all`) or transports (`tcp`, `tls+tfo`...)."""

from collections.abc import Sequence
from typing import Final, Literal, get_args

from fastopen.contract import Tls
from fastopen.contract.job import Transport
from fastopen.experiments.arms import ARMS, BASELINE, DEFAULT_ARMS, TREATMENTS, ArmName

# The word for the default arms with every session and version of HTTP that the clients support.
ALL: Final = "all"
TransportWord = Literal[ArmName, Transport, "recorded", "recorded+tfo", "all"]
TRANSPORT_WORDS: Final[tuple[TransportWord, ...]] = get_args(TransportWord)
# Words for the way in which TLS connections begin, by the value of the factor `session`.
SESSION_WORDS: Final = {"none": "full handshakes", "resumed": "resumed sessions", "early": "early data"}

_ARMS_OF: Final[dict[str, tuple[ArmName, ...]]] = {
    **{name: (name,) for name in ARMS},
    **dict.fromkeys(("tcp", "tls", "recorded"), (BASELINE.name,)),
    **dict.fromkeys(("tfo", "tls+tfo", "recorded+tfo"), tuple(arm.name for arm in TREATMENTS)),
    ALL: DEFAULT_ARMS,
}
_CLEAR: Final = {"tcp", "tfo"}
_ENCRYPTED: Final = {"tls", "tls+tfo"}
_RECORDED: Final = {"recorded", "recorded+tfo"}


def arms_and_tls(
    words: Sequence[TransportWord], tls: Sequence[Tls | None]
) -> tuple[list[ArmName], list[Tls | None]]:
    """Return the arms and the TLS settings (None: cleartext) that the words select. Each setting is loaded
    with every arm, so that it has a baseline. If all words select arms, the settings are `tls`. Otherwise the
    transports choose between cleartext and TLS, and `tls` only gives the parameters of TLS."""
    arms = list(dict.fromkeys(arm for word in words for arm in _ARMS_OF[word]))
    asked = set(words)
    if asked <= {*ARMS, ALL}:
        return arms, list(tls)
    over: list[Tls | None] = [None] if asked & _CLEAR else []
    encrypted = [one for one in tls if one is not None] or [Tls()]
    if asked & _ENCRYPTED:
        over += encrypted
    if asked & _RECORDED:
        over += (one.model_copy(update={"security": "recorded"}) for one in encrypted)
    return arms, over
