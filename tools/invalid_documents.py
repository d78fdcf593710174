"""Generate the entries of docs/invalid-loads.md, one for each reason why a load can be invalid."""

from itertools import chain
from typing import Final

from fastopen.contract import InvalidKind
from fastopen.report.explained_kinds import EXPLANATIONS

GROUPS: Final = {
    "Requests": ("incomplete", "wrong_bytes", "fault"),
    "TFO": (
        "syn_data_without_tfo",
        "no_syn_data",
        "cookie_before_cold",
        "no_cookie_when_warm",
        "listen_overflow",
        "fastopen_failed",
        "blackhole",
        "counters_disagree",
        "path_without_effect",
    ),
    "TLS": ("session_before_first", "not_resumed", "early_data_unasked", "no_early_data", "answer_held"),
    "Times": ("sooner_than_possible", "first_byte_late", "link_late", "generator_late"),
    "External servers": ("server_failed", "no_listener_queue"),
    "QUIC and names": ("no_quic", "packets_disagree", "datagrams_dropped", "lookups_disagree"),
}


def contents() -> str:
    """Return a Markdown list of the kinds of invalid loads. Raises ValueError if a kind is in no group."""
    grouped = [kind for kinds in GROUPS.values() for kind in kinds]
    if sorted(grouped) != sorted(EXPLANATIONS):
        raise ValueError(f"GROUPS differ from the kinds: {sorted({*grouped} ^ {*EXPLANATIONS})}")
    return "".join(
        f"- {title}: {', '.join(f'[{kind}](#{kind})' for kind in kinds)}\n" for title, kinds in GROUPS.items()
    )


def entries() -> str:
    """Return the list of `contents`, then a section for each kind of invalid load: meaning, cause, remedy."""
    text = contents()
    for kind in chain.from_iterable(GROUPS.values()):
        one = EXPLANATIONS[InvalidKind(kind)]
        text += f"\n### {kind}\n{one.meaning}\n\n- Cause: {one.cause}\n- Remedy: {one.remedy}\n"
    return text
