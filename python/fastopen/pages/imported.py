"""The result of every importer: a page, and the recorded bodies that may be served as they are."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from fastopen.pages.bodies import RecordedBodies
from fastopen.pages.model import Page
from fastopen.pages.recording import Recording


@dataclass(frozen=True)
class ImportedPage:
    """A page and those of its bodies that were recorded as they crossed the wire.

    `bodies` maps the index of a resource to its body, exactly `body_bytes`
    long; the world generates the rest. `recorded_plt_us` is the page load time of the recording, over the
    recorder's own network: from the first request to the load event; `recording` what else a HAR says of
    that network; `screenshot` is a PNG of what the recorder's browser showed.
    """

    page: Page
    bodies: Mapping[int, bytes] = field(default_factory=dict)
    recorded_plt_us: int | None = None
    recording: Recording | None = None
    screenshot: bytes | None = None

    def __post_init__(self) -> None:
        for index, length in _lengths(self.bodies).items():
            assert length == self.page.resources[index].body_bytes, f"body {index} has the wrong length"


def _lengths(bodies: Mapping[int, bytes]) -> dict[int, int]:
    if isinstance(bodies, RecordedBodies):
        return bodies.lengths()
    return {index: len(body) for index, body in bodies.items()}
