"""Progress of a kernel build on standard error: a line for each stage, and a live one."""

from fastopen.apps.kernels.progress import Stage
from fastopen.cli.progress import LiveBar


class BuildWatcher(LiveBar):
    """A line for each stage: on a terminal when it ended, with the time it took; elsewhere when it starts."""

    _stage: Stage | None = None
    _stage_started_s = 0.0

    def __exit__(self, *raised: object) -> None:
        if raised[0] is None:
            self._end_stage()
        super().__exit__(*raised)

    def __call__(self, stage: Stage) -> None:
        """Takes what is done now."""
        new = self._stage is None or self._stage.name != stage.name
        if new:
            self._end_stage()
            self._stage_started_s = self.elapsed_s
        self._stage = stage
        total = max(stage.total, stage.done)
        counted = f": {stage.done} files of about {total}" if stage.total else ""
        self.update(f"{stage.name} {stage.detail}{counted}".strip(), stage.done, total or None, now=new)

    def _end_stage(self) -> None:
        if self._stage is not None and self.is_live:
            took_s = self.elapsed_s - self._stage_started_s
            self.print(f"{took_s:6.1f} s  {self._stage.name}, {self._stage.detail}")
