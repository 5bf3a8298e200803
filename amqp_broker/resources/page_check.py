"""PageCheck: one stored page that was taken over at a restart without being read. Its driver has it read, so that
damage is found before clients come and not when a message is wanted.
"""

from __future__ import annotations

from queues.page import Page
from queues.recovery import Recovery
from storage.page_store import PageStore


class PageCheck:
    """`run` only reads a file and may be called in another thread; all else belongs to the node's.

    disk_bytes: what `run` reads, octets.
    """

    def __init__(self, page_store: PageStore, queue_id: int, page: Page) -> None:
        self.disk_bytes: int = page.location.disk_bytes
        self._page_store = page_store
        self._queue_id = queue_id
        self._page = page
        self._location = page.location

    def run(self) -> None:
        """Read the page. Raises CorruptRecord when it is not the one that was stored there, OSError."""
        self._page_store.verify(self._queue_id, self._location)

    @property
    def is_needed(self) -> bool:
        """Whether the page is still there and nobody has read it: what `run` has found counts only then.

        Reading gives a page its size, so one without has never been in RAM.
        """
        return self._page.location is not None and not self._page.size


def page_checks(page_store: PageStore, recovery: Recovery) -> list[PageCheck]:
    """After the queues took over what is theirs: the stored pages among it that were not read."""
    found = [(queue_id, item) for queue_id, queue in recovery.queues.items() for item in queue.items]
    found += [(group_id, item) for group_id, lease in recovery.leases.items() for _, item in lease.items]
    return [
        PageCheck(page_store, queue_id, item)
        for queue_id, item in found
        if isinstance(item, Page) and item.location is not None and not item.size
    ]
