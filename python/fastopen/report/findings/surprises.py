"""Explain surprising figures in a page's table of results, such as a page that TFO slows down."""

from collections.abc import Iterator, Sequence
from decimal import Decimal
from functools import partial
from itertools import islice
from typing import Final

from fastopen.analysis.attribution import place_and_reason, slower_setup_sentences
from fastopen.analysis.audit import AuditFinding, PrintedCell, audit
from fastopen.analysis.statistics import (
    CellResult,
    Effect,
    Results,
    effect_of,
    slower_in_the_median,
    syn_data_max,
)
from fastopen.analysis.statistics.protocols import mixed_http_warning
from fastopen.common.grouping import grouped
from fastopen.common.phrases import capitalised, listed, plural
from fastopen.experiments import Arm, Role, baseline_of, treatments_of
from fastopen.report.corpus import corpus_sentences
from fastopen.report.findings import Finding, finds
from fastopen.report.findings.verdict import findings_by_question, of_arm, where_of

# A factor with at least this many values is a sweep.
MANY_VALUES: Final = 8


@finds(rank=60, severity="note")
def findings(results: Results, page: str) -> Iterator[Finding]:
    """Yield findings that explain surprising figures in a page's table, such as slower loads with TFO."""
    of_page = [result for result in results.cells if result.cell.page == page]
    if len(results.pages) == 1:
        yield from (Finding("https_in_cleartext", line) for line in https_in_the_clear(results, [page]))
    if warning := mixed_http_warning(results, of_page):
        yield Finding("http_differs", warning)
    yield from _hellos_do_not_fit(results, of_page)
    yield from findings_by_question(results, of_page, partial(_of_question, results))
    yield from _without_effect(results, of_page)
    for line in slower_setup_sentences(results, page):
        yield Finding("setup_slower", line)


def _without_effect(results: Results, cells: Sequence[CellResult]) -> Iterator[Finding]:
    """Yield a finding for each varied setting with several values that give exactly the same load times."""
    for factor in results.factors.varying:
        of_value: dict[str, dict[tuple[object, ...], CellResult]] = {}
        for cell in cells:
            point = results.factors.point(cell.cell)
            others = (one.text_at(point) for one in results.factors.varying if one is not factor)
            key = (*others, cell.cell.arm.name)
            of_value.setdefault(factor.phrase_at(point), {})[key] = cell
        alike: dict[object, list[str]] = {}
        for phrase, loads in of_value.items():
            if all((cell.deterministic or cell.varied) and cell.plts_ms for cell in loads.values()):
                times = frozenset((key, frozenset(cell.plts_ms.items())) for key, cell in loads.items())
                alike.setdefault(times, []).append(phrase)
        for phrases in alike.values():
            # In a sweep, some values give equal times by design, so report these only if all values do.
            if len(phrases) > 1 and len(of_value) in (len(phrases), *range(MANY_VALUES)):
                # If only some values give equal times, the factor may still have an effect.
                all_alike = len(phrases) == len(of_value)
                no_effect = f": the {factor.title} has no effect here" if all_alike else ""
                lost = any(cell.retransmitted for cell in of_value[phrases[-1]].values())
                only_losses = factor.name == "congestion_control" and not lost
                why = ", as no segment is retransmitted" if only_losses else ""
                same = f"Page load times are the same, to the nanosecond, with {listed(phrases)}"
                yield Finding("factor_without_effect", f"{same}{no_effect}{why}.")


def https_in_the_clear(results: Results, pages: Sequence[str]) -> Iterator[str]:
    """Yield a sentence if pages with https URLs were loaded only in cleartext. It states the number of such
    pages or, for a single page, the number of its https requests."""
    secure = [results.pages[page].url.startswith("https:") for page in pages]
    if any(setup.tls is not None for setup in results.experiment.setups) or not any(secure):
        return
    if len(pages) == 1:
        secure = [resource.encrypted for resource in results.pages[pages[0]].resources]
    what = "pages" if len(pages) > 1 else "requests of the page"
    which = "All" if all(secure) else f"{sum(secure)} of {len(secure)}"
    # An external server works only without TLS.
    servers = any(setup.origins.server for setup in results.experiment.setups)
    remedy = "" if servers else " (--transports tls,tls+tfo loads them over TLS, --http 2 over HTTP/2)"
    yield f"{which} {what} are https, and are loaded in cleartext here{remedy}."


def _of_question(results: Results, cells: Sequence[CellResult]) -> Iterator[Finding]:
    for find in (_tickets_run_out, _early_data_does_not_fit):
        yield from islice((found for cell in cells if (found := find(results, cell))), 1)
    for arm in treatments_of(results.experiment.arms):
        yield from _no_second_connection(results, arm, of_arm(cells, arm))
        yield from _slower_with_tfo(results, arm, of_arm(cells, arm))
    yield from _own_audit(results, cells)


def sentences_on_pages(results: Results) -> Iterator[str]:
    """Yield sentences on all pages together: for a large corpus, on the distribution of savings; and for
    several pages, the sentences of `surprises_of_pages`."""
    yield from corpus_sentences(results)
    yield from surprises_of_pages(results, list(results.pages))


def surprises_of_pages(results: Results, pages: Sequence[str]) -> Iterator[str]:
    """Yield sentences on several pages together: on ClientHellos that do not fit into a SYN, and on https
    URLs that were loaded in cleartext. Yield nothing for a single page, whose findings include these."""
    if len(pages) > 1:
        of_pages = [cell for cell in results.cells if cell.cell.page in pages]
        yield from (found.sentence for found in _hellos_do_not_fit(results, of_pages))
        yield from https_in_the_clear(results, pages)


def _hellos_do_not_fit(results: Results, cells: Sequence[CellResult]) -> Iterator[Finding]:
    networks = results.experiment.networks
    for arm in treatments_of(results.experiment.arms):
        own = of_arm(cells, arm)
        found = [
            one
            for one in own
            if results.hello_beyond_syn(one)
            # TFO may still save round trips on cleartext connections, or in lookups over TCP.
            and one.saved_ms is not None
            and one.saved_ms < networks[one.cell.network].rtt_us / 2000
        ]
        if not found:
            continue
        secured = [one for one in own if results.experiment.setups[one.cell.setup].tls]
        where = where_of(results, found, own)
        if len(found) < len(secured) < len(own):
            where = f"{where_of(results, found, secured)} over TLS"
        hellos = [results.first_flights[one.cell.index].client_hello_bytes or 0 for one in found]
        room = syn_data_max(networks[found[0].cell.network])
        sizes = " to ".join(dict.fromkeys(f"{size:,}" for size in (min(hellos), max(hellos))))
        clients = [results.experiment.setups[one.cell.setup].client.type for one in found]
        tried = any(one.tls and one.tls.key_share == "x25519" for one in results.experiment.setups)
        possible = not tried and all("key_share" in client.takes for client in clients)
        remedy = " Try --key-share x25519." if possible else ""
        yield Finding(
            "hello_beyond_syn",
            f"The ClientHello ({sizes} bytes) is larger than a SYN can carry ({room:,}), so TFO saves no"
            f" round trip{where}.{remedy}",
            {"client_hello_bytes_max": max(hellos), "syn_data_max_bytes": room},
        )


def _early_data_does_not_fit(results: Results, result: CellResult) -> Finding | None:
    flight = results.first_flights.get(result.cell.index)
    if flight is None or not flight.early_beyond_syn_bytes:
        return None
    room = syn_data_max(results.experiment.networks[result.cell.network])
    count, least = len(flight.early_beyond_syn_bytes), min(flight.early_beyond_syn_bytes)
    sentence = (
        f"{result.cell.arm.condition} early data saved nothing on {count} of"
        f" {plural(flight.secured_connections, 'connection')}: the ClientHello and the request ({least:,}"
        f" bytes) do not fit into a SYN (at most {room:,} bytes), so the rest of the request comes with the"
        " end of the handshake."
    )
    figures = {"connections": count, "first_flight_bytes_min": least, "syn_data_max_bytes": room}
    return Finding("early_data_beyond_syn", sentence, figures)


def _tickets_run_out(results: Results, result: CellResult) -> Finding | None:
    """Return a finding if a host's session tickets were too few for early data on all connections to it."""
    flight, setup = results.first_flights.get(result.cell.index), results.experiment.setups[result.cell.setup]
    tls, client = setup.tls, setup.client
    if flight is None or tls is None or tls.session != "early" or tls.rejects_early_data:
        return None
    without = flight.secured_connections - flight.early_connections - len(flight.early_beyond_syn_bytes)
    most = client.type.tickets_kept
    kept = tls.tickets if most is None else min(tls.tickets, most)
    if not without or flight.most_to_a_host <= kept:
        return None
    have, remedy = f"an origin sends {plural(kept, 'ticket')}", " (--tickets)"
    if kept < tls.tickets:
        have, remedy = f"{client.label} keeps {plural(kept, 'ticket')} of a host", ""
    sentence = (
        f"{without} of {flight.secured_connections} connections of a load began without early data:"
        f" {have}, each good for one connection, and up to {flight.most_to_a_host} went to one host{remedy}."
    )
    figures = {
        "connections_without": without,
        "tickets": kept,
        "most_to_a_host": flight.most_to_a_host,
        "kept_by": "client" if kept < tls.tickets else "origin",
    }
    return Finding("tickets_run_out", sentence, figures)


def _no_second_connection(results: Results, arm: Arm, cells: Sequence[CellResult]) -> Iterator[Finding]:
    connections = sum(cell.connections for cell in cells)
    with_data = sum(cell.syn_data_connections for cell in cells)
    gains = any(effect_of(cell, results.experiment.smallest_effect) is Effect.REDUCES for cell in cells)
    # Behind a middlebox, SYNs lack data for other reasons.
    open_path = all(results.experiment.networks[cell.cell.network].path == "none" for cell in cells)
    if arm.cookies == "cold" and connections and not with_data and not gains and open_path:
        visit = arm.visit.partition(" (")[0]
        sentence = (
            f"On {visit} no connection can use TFO: all connections to a host open before its cookie arrives."
        )
        yield Finding("no_second_connection", sentence, {"connections": connections})


def _slower_with_tfo(results: Results, arm: Arm, cells: Sequence[CellResult]) -> Iterator[Finding]:
    smallest = results.experiment.smallest_effect
    slower = (cell for cell in cells if slower_in_the_median(cell, smallest))
    by_certainty = grouped((effect_of(cell, smallest) is Effect.INCREASES, cell) for cell in slower)
    median_slower = "the median pair of loads is slower with TFO (not for certain)"
    for certain, words in ((True, "the page loads more slowly"), (False, median_slower)):
        some = by_certainty.get(certain, [])
        if why := place_and_reason(results, some):
            figures = {"certain": certain, "cells": len(some)}
            yield Finding("slower_with_tfo", f"{arm.condition} {words}{why}.", figures)


def _own_audit(results: Results, cells: Sequence[CellResult]) -> Iterator[Finding]:
    """Yield findings on load times that fall as the RTT grows, or that grow too fast with the RTT."""
    openings = {"monotony": "The page ", "growth": ""}
    cause = (
        "The RTT changes which responses share the link and which segments are lost. This can matter more"
        " than the round trips themselves."
    )
    # For cells without TFO, `place_and_reason` returns the reason why a shorter RTT makes a load slower.
    if why := place_and_reason(results, [cell for cell in cells if cell.cell.arm.role is Role.BASELINE]):
        cause = f"Over the shorter RTT{why}."
    details = (
        openings[found.kind] + found.detail for found in _audited(results, cells) if found.kind in openings
    )
    for detail in dict.fromkeys(details):
        yield Finding("audit_of_own_times", f"{capitalised(detail)}. {cause}")


def _audited(results: Results, cells: Sequence[CellResult]) -> list[AuditFinding]:
    """Apply the rules of `fastopen audit`, which checks published tables, to the measured page load times."""
    factors = results.factors
    comparisons = grouped((one.cell.comparison, one) for one in cells)
    printed: list[PrintedCell] = []
    for arm in treatments_of(results.experiment.arms):
        for comparison, ones in comparisons.items():
            by_arm = {one.cell.arm.name: one for one in ones}
            baseline, treatment = baseline_of(by_arm), by_arm.get(arm.name)
            if baseline is None or treatment is None or treatment.improvement_percent is None:
                continue
            series = ", ".join(factors.phrases(comparison, factors.besides("rtt")))
            printed.append(
                PrintedCell(
                    line=len(printed),
                    experiment=f"{arm.name}, {series}",
                    page=comparison.page,
                    rtt_ms=Decimal(factors.point(comparison).network.rtt_us) / 1000,
                    off=_printed(baseline.plt_ms_median),
                    tfo=_printed(treatment.plt_ms_median),
                    unit="ms",
                    improvement=_printed(treatment.improvement_percent),
                )
            )
    return list(audit(printed))


def _printed(figure: float | None) -> Decimal:
    return Decimal(f"{figure or 0.0:.1f}")
