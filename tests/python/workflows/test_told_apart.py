"""Recordings told from the queues of a network that fastopen made itself, so that what is true is known."""

from pathlib import Path

import pytest

from fastopen import Experiment, run
from fastopen.pages import ImportedPage, Page, load_pages
from fastopen.resources import cache_folder
from fastopen.workflows import told_apart as module
from fastopen.workflows.told_apart import FOLDER, told_apart
from made_up_loads import page

pytestmark = pytest.mark.e2e


def true_page() -> Page:
    """A slow document and twelve pictures that share a thin link, two of which their server thinks about."""
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


def test_what_a_told_recording_foretells_of_another_network_is_what_the_page_does_there(
    recorded: ImportedPage,
) -> None:
    (told,) = told_apart([recorded])
    true, foretold, imported = map(plts_ms, (true_page(), told.page, recorded.page))
    assert foretold == pytest.approx(true, rel=0.03)
    assert imported[1] > 1.1 * true[1]
    # Thinking that ended before a queue did has left no trace, so that several explain the recording.
    explained = [told.page.explained(one) for one in (told.page.explanation, *told.page.explanations)]
    spans = zip(*map(plts_ms, explained), strict=True)
    assert all(0.99 * min(span) <= one <= 1.01 * max(span) for span, one in zip(spans, true, strict=True))


def test_what_was_found_is_kept_and_found_again_without_a_load(
    recorded: ImportedPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    (told,) = told_apart([recorded])
    (kept,) = cache_folder(FOLDER).iterdir()
    monkeypatch.setattr(module, "_search", lambda *_: pytest.fail("loaded again"))
    assert told_apart([recorded]) == [told]
    monkeypatch.undo()
    for damage in (b"", b"{}", kept.read_bytes().replace(b"[", b"[1,", 2)):
        kept.write_bytes(damage)
        assert told_apart([recorded], within_s=0.0)[0].page.resources == recorded.page.resources


def test_the_time_for_it_is_bounded_and_pages_without_a_known_network_stay(recorded: ImportedPage) -> None:
    seen: list[tuple[int, int]] = []
    plain = ImportedPage(page(5))
    found = told_apart(
        [plain, recorded], within_s=0.0, progress=lambda _, done, total: seen.append((done, total))
    )
    assert found[0] is plain
    assert found[1].page.resources == recorded.page.resources
    assert len(found[1].page.notes) == len(recorded.page.notes) + 1
    assert seen == [(0, 1)]
