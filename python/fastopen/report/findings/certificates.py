"""Report the time that large certificates add to a page load, and the time that each remedy saves."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from fastopen.analysis.statistics import Results
from fastopen.common.grouping import grouped
from fastopen.common.phrases import listed, span
from fastopen.contract import Tls
from fastopen.contract.certificates import CHAIN_BYTES, CertificateKind
from fastopen.contract.origins import CertificateCompression, SessionStart
from fastopen.experiments import BASELINE, HEADLINE, SESSION_WORDS, ArmName
from fastopen.report.findings import Finding, finds

# Factors that may reduce the cost of large certificates. Results that differ only in these share a row.
REMEDIES: Final = ("session", "certificate_compression", "initial_window")


class LoadSettings(NamedTuple):
    """The certificates with which a page was loaded, and the settings that may reduce their cost."""

    kind: CertificateKind
    session: SessionStart
    compression: CertificateCompression
    window_segments: int
    arm: ArmName


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
        smallest, *others = sorted({settings.kind for settings in plts_ms}, key=CHAIN_BYTES.__getitem__)
        window = min(settings.window_segments for settings in plts_ms)
        plain = LoadSettings(smallest, "none", Tls().certificate_compression, window, BASELINE.name)
        small_ms = plts_ms.get(plain)
        for kind in others:
            large_ms = plts_ms.get(plain._replace(kind=kind))
            if small_ms and large_ms is not None:
                of_kind = ((settings, ms) for settings, ms in plts_ms.items() if settings.kind == kind)
                remedied_ms = {words: ms for settings, ms in of_kind if (words := _remedy(settings, plain))}
                groups[smallest, kind, name].append(Cost(small_ms, large_ms, remedied_ms))
    for (small, large, name), costs in groups.items():
        added = [one.large_ms - one.small_ms for one in costs]
        figures = {"added_ms_min": min(added), "added_ms_max": max(added)}
        effect = results.experiment.smallest_effect
        matters_ms = max(effect.ms, effect.percent / 100 * min(one.small_ms for one in costs))
        yield Finding("certificates_cost", _sentence(small, large, name, costs, matters_ms), figures)


def _rows(results: Results, page: str) -> Iterator[tuple[str, dict[LoadSettings, float]]]:
    """Yield (shared settings as text, PLTs in ms) for groups of results that differ only in LoadSettings."""
    factors, apart = results.factors, ("certificates", "chain_bytes", *REMEDIES)
    for group in results.groups_differing_in((one for one in results.cells if one.cell.page == page), *apart):
        row: dict[LoadSettings, float] = {}
        for result in group:
            setup = results.experiment.setups[result.cell.setup]
            tls, window, arm = setup.tls, setup.tcp.initial_window_segments, result.cell.arm.name
            if tls is not None and tls.certificates is not None and result.plt_ms_median is not None:
                compression = tls.certificate_compression
                settings = LoadSettings(tls.certificates, tls.session, compression, window, arm)
                row[settings] = result.plt_ms_median
        if row:
            named = (factor for factor in factors.besides(*apart) if factor.part != "network")
            yield ", ".join(factors.phrases(group[0].cell, named)), row


def _remedy(settings: LoadSettings, plain: LoadSettings) -> str:
    """Return the only remedy by which `settings` and `plain` differ, such as `brotli compression`, or ""."""
    words = {
        "arm": f"TFO with {HEADLINE.cookies} cookies" if settings.arm == HEADLINE.name else "",
        "session": SESSION_WORDS[settings.session],
        "compression": f"{settings.compression} compression",
        "window_segments": f"an initial window of {settings.window_segments} segments",
    }
    changed = [name for name in words if getattr(settings, name) != getattr(plain, name)]
    return words[changed[0]] if len(changed) == 1 else ""


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
