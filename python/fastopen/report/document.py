"""Write a run as one JSON document. docs/json.md lists its keys."""

from dataclasses import asdict
from statistics import median
from typing import Any, Final

from fastopen.analysis.statistics import (
    BrowserMetrics,
    CellResult,
    FirstFlight,
    FlightSaving,
    Results,
    half_width_percent,
    pairs_needed,
    sensitivity,
    syn_data_max,
)
from fastopen.contract import Network
from fastopen.experiments import point_of
from fastopen.experiments.factors import COLUMNS, cell_columns, flat_columns
from fastopen.report.corpus import corpus_document
from fastopen.report.findings import page_findings

FORMAT: Final = "fastopen-results/1"
# The parts of the environment that change results. The rest is left out, so equal runs give equal documents.
SOFTWARE: Final = ("versions", "virtual_kernel", "clients", "servers")
PUBLISHED: Final = (
    *("source", "page", "plt_off", "plt_tfo", "unit_as_printed", "improvement_percent_as_printed"),
)


def results_document(results: Results) -> dict[str, Any]:
    """Return the run's results as an object for `json.dumps`, with the keys of docs/json.md."""
    experiment = results.experiment
    setups = [setup.model_dump(mode="json") for setup in experiment.setups]
    return {
        "format": FORMAT,
        "experiment": experiment.name,
        "title": experiment.title,
        "source": experiment.source,
        "notes": experiment.notes,
        "status": results.status,
        "seed": experiment.seed,
        "repeats": experiment.repeats,
        "vary": None if experiment.vary is None else experiment.vary.model_dump(),
        # The fields of the only setup; None if there are several.
        **(setups[0] if len(setups) == 1 else dict.fromkeys(setups[0])),
        "setups": setups,
        "pages": [
            {
                "page": name,
                "url": page.url,
                "source": page.source,
                "digest": page.digest(),
                "initiators": page.initiators,
                "requests": len(page.resources),
                "hosts": len(page.hosts()),
                "notes": list(page.notes),
            }
            for name, page in results.pages.items()
        ],
        "environment": {key: results.environment[key] for key in SOFTWARE if key in results.environment},
        "corpus": corpus_document(results),
        **({} if results.server_use is None else {"server_use": asdict(results.server_use)}),
        "cells": [_cell(results, result) for result in results.cells],
        "findings": [asdict(one) for page in results.pages for one in page_findings(results, page)],
    }


def flat_cells(results: Results) -> list[dict[str, str | float | bool | None]]:
    """Return a mapping of columns to values for each result. Intervals and published figures become several
    columns. Settings that are lists or objects become strings; other lists and objects are left out."""
    rows = []
    for result in results.cells:
        cell = _cell(results, result)
        spans = {key: cell.pop(key) or (None, None) for key in ("improvement_ci95", "improvement_range90")}
        published = cell.pop("published") or dict.fromkeys(PUBLISHED)
        factors = zip(COLUMNS, flat_columns(point_of(results.experiment, result.cell)), strict=True)
        cell.update({key: value for key, value in factors if isinstance(cell[key], dict | list)})
        flat = {key: value for key, value in cell.items() if not isinstance(value, dict | list)}
        for key, (low, high) in spans.items():
            flat |= {f"{key}_low": low, f"{key}_high": high}
        rows.append({**flat, **{f"published_{key}": value for key, value in published.items()}})
    return rows


def _cell(results: Results, result: CellResult) -> dict[str, Any]:
    cell = result.cell
    key = (cell.page, cell.network)
    # The interval is a range over samples of uncertain inputs, or a confidence interval over repeats.
    over = "draws" if result.varied else "repeats"
    exact = result.improvement_ci95 is None or result.deterministic
    correlated, published = sensitivity(results.experiment, result), results.published.get(key)
    return {
        "page": cell.page,
        **cell_columns(point_of(results.experiment, cell)),
        "setup": cell.setup,
        "rtt_ms_measured": results.measured_rtt_ms.get(key),
        "plt_ms_median": result.plt_ms_median,
        "improvement_percent": result.improvement_percent,
        "improvement_ci95": None if result.improvement_ci95 is None else list(result.improvement_ci95),
        "improvement_range90": None if result.range90 is None else list(result.range90),
        "interval_over": None if exact else over,
        "interval_confidence": None if result.interval is None or result.varied else result.confidence,
        "half_width_percent": half_width_percent(result),
        "pairs_for_one_percent": pairs_needed(result, 1.0),
        "effect_rank_biserial": result.effect,
        "deterministic": result.deterministic,
        "outliers": [{"repeat": repeat, "plt_ms": ms} for repeat, ms in result.outliers.items()],
        "pairs": result.pairs,
        "loads": result.loads,
        "invalid": result.invalid,
        "invalid_reasons": [vars(reason) for reason in result.reasons],
        "repeated_reasons": [vars(reason) for reason in result.repeated],
        "connections": result.connections,
        "syn_data_connections": result.syn_data_connections,
        "saved_ms_median": result.saved_ms,
        "bound_ms": result.bound and result.bound.ms,
        "bound_percent": result.bound and result.bound.percent,
        "beats_bound": result.beats_bound,
        "retransmitted_segments_median": result.retransmitted,
        **_first_flight(results.first_flights.get(cell.index), results.experiment.networks[cell.network]),
        **_flight_saving(results, results.flight_savings.get(cell.index)),
        **_browser_metrics(results.browser_metrics.get(cell.index)),
        "sensitivity": correlated
        and {**correlated.correlations, "rest": correlated.rest, "most": correlated.most},
        "published": published and {key: getattr(published, key) for key in PUBLISHED},
    }


def _first_flight(found: FirstFlight | None, network: Network) -> dict[str, Any]:
    sent, room = None if found is None else found.client_bytes, syn_data_max(network)
    return {
        "first_flight_bytes": sent,
        "syn_data_max_bytes": None if sent is None else room,
        "first_flight_beyond_syn_bytes": None if sent is None else max(0, sent - room),
        "first_byte_rtts": found and found.first_byte_rtts,
        "resumed_connections": found and found.resumed_connections,
        "early_connections": found and found.early_connections,
        "early_beyond_syn_connections": found and len(found.early_beyond_syn_bytes),
    }


def _flight_saving(results: Results, saving: FlightSaving | None) -> dict[str, Any]:
    baseline = next((one.cell for one in results.cells if saving and one.cell.index == saving.baseline), None)
    return {
        "first_flight_over": baseline and f"{results.factors.name(baseline)}, {baseline.arm.name}",
        "first_flight_saves_percent": saving and saving.percent,
        "first_flight_bound_ms": saving and saving.bound.ms,
        "first_flight_bound_percent": saving and saving.bound.percent,
        "first_flight_beats_bound": saving is not None and saving.beats_bound,
    }


def _browser_metrics(metrics: BrowserMetrics | None) -> dict[str, Any]:
    known = metrics or BrowserMetrics(None, None, None, ())
    first, largest = known.first_paints_ms.values(), known.largest_paints_ms.values()
    return {
        "first_contentful_paint_ms_median": median(first) if first else None,
        "largest_contentful_paint_ms_median": median(largest) if largest else None,
        "requests_from_cache_median": known.from_cache,
        "requests_revalidated_median": known.revalidated,
        "screenshots_missing": list(known.missing_screenshots),
    }
