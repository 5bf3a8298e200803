"""SyncJob: one group commit: everything that was appended before it was taken goes to the disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from storage.journal import Batch, Journal
    from storage.page_store import PageSync


class SyncJob:
    """`run` touches files only and may be called in another thread; `finish` belongs to the node again.

    position: up to there the journal is on the disk once it has run. batch: what the journal has to write for that.
    pages: what is written before it. seconds: how long it took, which who runs it says.
    """

    def __init__(self, position: int, journal: Journal, batch: Batch | None, pages: PageSync | None) -> None:
        self.position = position
        self._journal = journal
        self.batch = batch
        self.pages = pages
        self._are_pages_synced = pages is None
        self.seconds = 0.0
        self.journal_bytes = 0 if batch is None else batch.size()

    def is_within(self, most_bytes: int) -> bool:
        """Whether all that it does is to append so much at most to a file that is there."""
        if self.pages is not None:
            return False
        return self.batch is None or self.batch.is_small_append(most_bytes)

    def run(self) -> None:
        """Pages first, because journal entries refer to them. Raises OSError; after ENOSPC it may be run again."""
        if self.pages is not None and not self._are_pages_synced:
            self.pages.run()
            self._are_pages_synced = True
        if self.batch is not None:
            self.batch.write_and_sync()

    def took(self, seconds: float) -> None:
        """It has run, for so long."""
        self.seconds = seconds

    def finish(self) -> None:
        """Give the buffer back. Raises CorruptRecord where a file is gone."""
        if self.pages is not None:
            self.pages.finish()
        if self.batch is not None:
            self._journal.batch_done(self.batch)
