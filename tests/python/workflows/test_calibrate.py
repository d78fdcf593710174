"""Calibration of a page that was recorded over an emulated network, with known think times."""

from pathlib import Path

import pytest

from fastopen import Experiment, run
from fastopen.common.errors import MachineError
from fastopen.common.resources import cache_folder
from fastopen.pages import ImportedPage, Page, load_pages
from fastopen.workflows import calibrate as module
from fastopen.workflows.calibrate import AS_IMPORTED, FOLDER, calibrated
from made_up_loads import page

pytestmark = pytest.mark.e2e


def true_page() -> Page:
    """Return a page: a slow document, and twelve pictures that queue on a slow link, two with think times."""
    thin = page(80, 0, 0, 0, 0, 300, 0, 0, 0, 0, 0, 250, 0)
    resources = [
        one.model_copy(update={"body_bytes": 20_000 + 1500 * index})
        for index, one in enumerate(thin.resources)
    ]
    return thin.model_copy(update={"name": "true", "resources": tuple(resources)})


def experiment(of: Page, *rtts: str) -> Experiment:
    return Experiment(of, transports="off", rtt=list(rtts), down="3mbit", up="1mbit", engines="virtual")


def plts_ms(of: Page) -> list[float]:
    with run(experiment(of, "50ms", "200ms"), keep=False, progress=False) as loaded:
        return [cell.plt_ms_median or 0.0 for cell in loaded.results.cells]


@pytest.fixture(name="recorded")
def _recorded(kernel: Path, tmp_path: Path) -> ImportedPage:  # noqa: ARG001
    with run(experiment(true_page(), "20ms"), keep=False, progress=False) as loaded:
        loaded.export(tmp_path / "har", "har")
    (imported,) = load_pages(sorted((tmp_path / "har").rglob("*.har")))
    return imported


def test_a_calibrated_page_predicts_its_load_time_over_other_networks(
    recorded: ImportedPage,
) -> None:
    # An hour instead of the default: a loaded machine would find fewer explanations.
    (calibrated_page,) = calibrated([recorded], within_s=3600)
    true, predicted, imported = map(plts_ms, (true_page(), calibrated_page.page, recorded.page))
    assert predicted == pytest.approx(true, rel=0.03)
    assert imported[1] > 1.1 * true[1]
    # Think time that ended before the queueing delay left no trace, so several explanations fit.
    explained = [
        calibrated_page.page.with_explanation(one)
        for one in (calibrated_page.page.explanation, *calibrated_page.page.explanations)
    ]
    spans = zip(*map(plts_ms, explained), strict=True)
    assert all(0.99 * min(span) <= one <= 1.01 * max(span) for span, one in zip(spans, true, strict=True))


def test_a_result_is_cached_and_read_again_without_a_load(
    recorded: ImportedPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    (calibrated_page,) = calibrated([recorded])
    (kept,) = cache_folder(FOLDER).iterdir()
    monkeypatch.setattr(module, "_search", lambda *_: pytest.fail("loaded again"))
    assert calibrated([recorded]) == [calibrated_page]
    monkeypatch.undo()
    for damage in (b"", b"{}", kept.read_bytes().replace(b"[", b"[1,", 2)):
        kept.write_bytes(damage)
        assert calibrated([recorded], within_s=0.0)[0].page.resources == recorded.page.resources


def test_the_time_for_it_is_bounded_and_pages_without_a_known_network_stay(recorded: ImportedPage) -> None:
    seen: list[tuple[int, int]] = []
    plain = ImportedPage(page(5))
    found = calibrated(
        [plain, recorded], within_s=0.0, progress=lambda _, done, total: seen.append((done, total))
    )
    assert found[0] is plain
    assert found[1].page.resources == recorded.page.resources
    assert len(found[1].page.notes) == len(recorded.page.notes) + 1
    assert seen == [(0, 1)]
    assert found[1].page.notes[-1].startswith(AS_IMPORTED)
    assert not cache_folder(FOLDER).exists(), "nothing was found that a cache could hold"


def test_an_engine_that_fails_leaves_the_page_as_imported_and_says_why(
    recorded: ImportedPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise MachineError("no room for a kernel")

    monkeypatch.setattr(module, "_search", fails)
    (found,) = calibrated([recorded])
    assert found.page.resources == recorded.page.resources
    assert found.page.notes[-1] == f"{AS_IMPORTED}: no room for a kernel"
