"""Place: where the chunk of a command lies on the disk, before the command is applied (placement.py)."""

from __future__ import annotations

from storage.page_store import PageLocation


class Place:
    """number: of its command in the batch, from 0. is_taken: it is a page of the stream now."""

    __slots__ = ("is_taken", "location", "number", "queue_id")

    def __init__(self, number: int, queue_id: int, location: PageLocation) -> None:
        self.number = number
        self.queue_id = queue_id
        self.location = location
        self.is_taken = False
