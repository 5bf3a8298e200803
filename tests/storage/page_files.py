"""What a PageStore has on the disk, and all of it made durable."""

from __future__ import annotations

from storage.page_store import PageStore


def live_bytes(store: PageStore, queue_id: int) -> int:
    """Octets of the queue's live pages on disk, record headers included."""
    every = [segment.live_bytes for each in store._queues.values() for segment in each.segments.values()]
    assert store.live_bytes == sum(every)
    queue = store._queues.get(queue_id)
    return sum(segment.live_bytes for segment in queue.segments.values()) if queue is not None else 0


def disk_bytes(store: PageStore, queue_id: int) -> int:
    """Octets of the queue's segment files."""
    queue = store._queues.get(queue_id)
    return sum(segment.disk_bytes for segment in queue.segments.values()) if queue is not None else 0


def sync_pages(store: PageStore, queue_ids: list[int] | None = None) -> None:
    """Make all pages of these queues durable; None: of all queues."""
    if (work := store.take_sync(queue_ids)) is not None:
        work.run()
        work.finish()
