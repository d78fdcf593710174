"""Pack recorded bodies and response heads into an unnamed file, which no crash can leave behind."""

from typing import IO, Self

from fastopen.common.temporary import filling, temporary_file
from fastopen.contract import Job
from fastopen.engines.base import Bodies
from fastopen.pages import Page
from fastopen.pages.bodies import RecordedBodies


class BodiesFile:
    """An unnamed file of bodies and heads, whose descriptor worlds inherit. Use it as a context manager."""

    def __init__(self, bodies: Bodies) -> None:
        self._bodies = bodies
        self._offsets: dict[str, dict[int, dict[str, int]]] = {}
        self._pages: dict[str, Page] = {}
        self._file: IO[bytes] | None = None

    def __enter__(self) -> Self:
        if any(self._bodies.values()):
            self._file = temporary_file()
            with filling():
                self._fill(self._file)
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    def _fill(self, file: IO[bytes]) -> None:
        for page, bodies in self._bodies.items():
            heads = bodies.heads if isinstance(bodies, RecordedBodies) else {}
            offsets: dict[int, dict[str, int]] = {index: {} for index in {*bodies, *heads}}
            self._offsets[page] = offsets
            for key, recorded in (("body_offset", bodies), ("head_offset", heads)):
                for index, data in recorded.items():
                    offsets[index][key] = file.tell()
                    file.write(data)
        file.flush()

    @property
    def descriptors(self) -> tuple[int, ...]:
        """Return the descriptors that a world must inherit."""
        return () if self._file is None else (self._file.fileno(),)

    def attach(self, job: Job) -> Job:
        """Return a copy of the job that names the file and the offset of each body and head of its page.
        Return the job itself if its page has neither."""
        offsets = self._offsets.get(job.page.name)
        if self._file is None or not offsets:
            return job
        origins = job.origins.model_copy(update={"bodies_file": f"/proc/self/fd/{self._file.fileno()}"})
        return job.model_copy(update={"page": self._page(job.page, offsets), "origins": origins})

    def _page(self, page: Page, offsets: dict[int, dict[str, int]]) -> Page:
        if page.name not in self._pages:
            resources = tuple(
                resource.model_copy(update=offsets.get(index, {}))
                for index, resource in enumerate(page.resources)
            )
            self._pages[page.name] = page.model_copy(update={"resources": resources})
        return self._pages[page.name]
