"""Report the time that large certificates add to a page load, and the time that each remedy saves."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from fastopen.analysis.statistics import Results
from fastopen.common.grouping import grouped
from fastopen.common.phrases import listed, span
from fastopen.contract import Tls
from fastopen.contract.certificates import CHAIN_BYTES, CertificateKind
from fastopen.experiments import BASELINE, HEADLINE, SESSION_WORDS, Arm, Setup
from fastopen.report.findings import Finding, finds

# Factors that may reduce the cost of large certificates. Results that differ only in these share a row.
REMEDIES: Final = ("session", "certificate_compression", "initial_window")


Key = tuple[CertificateKind, tuple[str, ...]]
"""A kind of certificates, and the settings of a result that may reduce their cost, such as `early data`."""


class Cost(NamedTuple):
    """Page load times in ms with small certificates, with large ones, and with large ones and a remedy: a
    setting that may reduce their cost. `remedied_ms` maps the name of a remedy to the time with it."""

    small_ms: float
    large_ms: float
    remedied_ms: Mapping[str, float]


@finds(rank=5, severity="answer")
def findings(results: Results, page: str) -> Iterator[Finding]:
    """Yield a finding for each kind of certificates except the smallest: the time that this kind adds to a
    page load compared with the smallest kind, and the time that remedies save."""
    groups: dict[tuple[CertificateKind, CertificateKind, str], list[Cost]] = defaultdict(list)
    for name, plts_ms in _rows(results, page):
        smallest, *others = sorted({kind for kind, _ in plts_ms}, key=CHAIN_BYTES.__getitem__)
        small_ms = plts_ms.get((smallest, ()))
        for kind in others:
            large_ms = plts_ms.get((kind, ()))
            if small_ms and large_ms is not None:
                of_kind = ((remedies, ms) for (one, remedies), ms in plts_ms.items() if one == kind)
                single = {remedies[0]: ms for remedies, ms in of_kind if len(remedies) == 1}
                remedied_ms = {remedy: ms for remedy, ms in single.items() if remedy}
                groups[smallest, kind, name].append(Cost(small_ms, large_ms, remedied_ms))
    for (small, large, name), costs in groups.items():
        added = [one.large_ms - one.small_ms for one in costs]
        figures = {"added_ms_min": min(added), "added_ms_max": max(added)}
        effect = results.experiment.smallest_effect
        matters_ms = max(effect.ms, effect.percent / 100 * min(one.small_ms for one in costs))
        yield Finding("certificates_cost", _sentence(small, large, name, costs, matters_ms), figures)


def _rows(results: Results, page: str) -> Iterator[tuple[str, dict[Key, float]]]:
    """Yield (shared settings as text, PLTs in ms) for groups of results that differ only in their `Key`."""
    factors, setups = results.factors, results.experiment.setups
    apart = ("certificates", "chain_bytes", *REMEDIES)
    for group in results.groups_differing_in((one for one in results.cells if one.cell.page == page), *apart):
        known = [one for one in group if one.plt_ms_median is not None]
        window = min((setups[one.cell.setup].tcp.initial_window_segments for one in known), default=0)
        row: dict[Key, float] = {}
        for result in known:
            setup = setups[result.cell.setup]
            if setup.tls is not None and setup.tls.certificates is not None:
                remedies = _remedies(setup, setup.tls, result.cell.arm, window)
                row[setup.tls.certificates, tuple(remedies)] = result.plt_ms_median or 0.0
        if row:
            named = (factor for factor in factors.besides(*apart) if factor.part != "network")
            yield ", ".join(factors.phrases(group[0].cell, named)), row


def _remedies(setup: Setup, tls: Tls, arm: Arm, window: int) -> Iterator[str]:
    """Yield the settings of a result that may reduce the cost of certificates, or "" for an arm that has no
    name in sentences. `window`: the usual initial window."""
    if arm.name != BASELINE.name:
        yield f"TFO with {HEADLINE.cookies} cookies" if arm.name == HEADLINE.name else ""
    if tls.session != "none":
        yield SESSION_WORDS[tls.session]
    if tls.certificate_compression != Tls().certificate_compression:
        yield f"{tls.certificate_compression} compression"
    if setup.tcp.initial_window_segments != window:
        yield f"an initial window of {setup.tcp.initial_window_segments} segments"


def _sentence(
    small: CertificateKind, large: CertificateKind, name: str, costs: Sequence[Cost], matters_ms: float
) -> str:
    """Return a sentence on the time that `large` certificates add compared with `small` ones, and on remedies
    such as TFO. Changes below `matters_ms` are reported as no saving. `name` names the other settings."""
    of_row = f", {name}" if name else ""
    added = [(one.large_ms - one.small_ms, one.small_ms) for one in costs]
    sentence = (
        f"{large} certificates ({CHAIN_BYTES[large]:,} bytes{of_row}) add"
        f" {span([ms for ms, _ in added], 'ms')} ({span([100 * ms / of for ms, of in added], '%')}) to page"
        f" load time compared with {small} ({CHAIN_BYTES[small]:,} bytes)"
    )
    saved = grouped((remedy, one.large_ms - ms) for one in costs for remedy, ms in one.remedied_ms.items())
    by_verb = defaultdict[str, list[str]](list)
    for remedy, by in sorted(saved.items(), key=lambda entry: -max(entry[1])):
        if max(by) >= matters_ms:
            by_verb["time is saved by"].append(f"{remedy} ({span(by, 'ms')})")
        elif min(by) <= -matters_ms:
            by_verb["time is added by"].append(f"{remedy} ({span([-ms for ms in by], 'ms')})")
        else:
            by_verb["no time is saved by"].append(remedy)
    return sentence + "".join(f"; {verb} {listed(parts)}" for verb, parts in by_verb.items()) + "."
