"""Pass recorded responses to programs that emulate networks, in an unnamed file: a crash leaves no file."""

from typing import IO

from fastopen.common.closing import Closing
from fastopen.common.temporary import filling, temporary_file
from fastopen.contract import Job
from fastopen.engines.base import Bodies
from fastopen.pages import Page
from fastopen.pages.bodies import RecordedBodies


class BodiesFile(Closing):
    """An unnamed file with recorded response bodies and headers, for the servers of emulated networks. Child
    processes inherit its file descriptor. Use it as a context manager."""

    def __init__(self, bodies: Bodies) -> None:
        """Write the file, unless there are no bodies. Raises MachineError if it cannot be written."""
        self._offsets: dict[str, dict[int, dict[str, int]]] = {}
        self._pages: dict[str, Page] = {}
        self._file = temporary_file() if any(bodies.values()) else None
        if self._file is not None:
            with filling():
                self._fill(self._file, bodies)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def _fill(self, file: IO[bytes], bodies: Bodies) -> None:
        for page, of_page in bodies.items():
            heads = of_page.heads if isinstance(of_page, RecordedBodies) else {}
            offsets: dict[int, dict[str, int]] = {index: {} for index in {*of_page, *heads}}
            self._offsets[page] = offsets
            for key, recorded in (("body_offset", of_page), ("head_offset", heads)):
                for index, data in recorded.items():
                    offsets[index][key] = file.tell()
                    file.write(data)
        file.flush()

    @property
    def descriptors(self) -> tuple[int, ...]:
        """Return the file descriptors that child processes must inherit. Empty if there are no bodies."""
        return () if self._file is None else (self._file.fileno(),)

    def attach(self, job: Job) -> Job:
        """Return a copy of the job that refers to its page's responses in this file, by path and offsets.
        Return the job unchanged if the file has no responses of its page."""
        offsets = self._offsets.get(job.page.name)
        if self._file is None or not offsets:
            return job
        name = job.page.name
        if name not in self._pages:
            resources = tuple(
                resource.model_copy(update=offsets.get(index, {}))
                for index, resource in enumerate(job.page.resources)
            )
            self._pages[name] = job.page.model_copy(update={"resources": resources})
        origins = job.origins.model_copy(update={"bodies_file": f"/proc/self/fd/{self._file.fileno()}"})
        return job.model_copy(update={"page": self._pages[name], "origins": origins})
