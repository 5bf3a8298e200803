"""FileWork: what touches files besides the journal and the pages, and so is done by a thread of the driver, each piece
with all that it needs.

    handed out with a turn (`Turn.checks`) -> `run`, elsewhere -> brought back (`Node.checked`)

Invariant: `run` raises nothing but defects: what the disk refuses is in `error`, for whoever wanted it to decide on.
"""

from __future__ import annotations

from storage.errors import StorageError


class FileWork:
    """See the module's docstring."""

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.has_run = False

    def run(self) -> None:
        """In another thread."""
        try:
            self._run()
        except (OSError, StorageError) as error:
            self.error = error
        self.has_run = True

    def finish(self) -> None:
        """It has run."""

    def _run(self) -> None:
        raise NotImplementedError
