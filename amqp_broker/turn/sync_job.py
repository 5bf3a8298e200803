"""SyncJob: one group commit: everything that was appended before it was taken goes to the disk."""

from __future__ import annotations

from typing import Any


class SyncJob:
    """`run` touches files only and may be called in another thread; `finish` belongs to the node again.

    ticket, journal_position: what is on the disk once it has run.
    """

    def __init__(self, ticket: int, journal_position: int, batches: list[tuple[Any, Any]], pages: Any) -> None:
        self.ticket = ticket
        self.journal_position = journal_position
        self._batches = batches
        self._pages = pages

    def is_within(self, most_bytes: int) -> bool:
        """Whether all that it does is to append so much at most to a file that is there."""
        if self._pages is not None or not all(batch.only_appends for _, batch in self._batches):
            return False
        size: int = sum(batch.file_bytes for _, batch in self._batches)
        return size <= most_bytes

    def run(self) -> None:
        """Pages first, because journal entries refer to them. Raises OSError; after ENOSPC it may be run again."""
        if self._pages is not None:
            self._pages.run()
            self._pages = None
        for _, batch in self._batches:
            batch.write_and_sync()

    def finish(self) -> None:
        """Give the buffers back."""
        for log, batch in self._batches:
            log.batch_done(batch)
