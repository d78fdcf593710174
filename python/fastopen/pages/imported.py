"""Define the result of every importer: a page, and the recorded bodies that origins may serve unchanged."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from fastopen.pages.bodies import RecordedBodies
from fastopen.pages.model import Page
from fastopen.pages.recording import Recording


@dataclass(frozen=True)
class ImportedPage:
    """A page, and the response bodies that were recorded as sent.

    `bodies` maps the index of a resource to its body of exactly `body_bytes` bytes; the world generates the
    other bodies. `recorded_plt_us` is the page load time over the recorder's network, from the first request
    to the load event; None if unknown. `recording` has other facts about that network from a HAR.
    `screenshot` is a PNG of the page in the recorder's browser.
    """

    page: Page
    bodies: Mapping[int, bytes] = field(default_factory=dict)
    recorded_plt_us: int | None = None
    recording: Recording | None = None
    screenshot: bytes | None = None

    def __post_init__(self) -> None:
        bodies = self.bodies
        if isinstance(bodies, RecordedBodies):
            lengths = bodies.lengths()
        else:
            lengths = {index: len(body) for index, body in bodies.items()}
        for index, length in lengths.items():
            assert length == self.page.resources[index].body_bytes, f"body {index} has the wrong length"
