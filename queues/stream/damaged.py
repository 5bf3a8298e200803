"""Damaged: a page of a stream that cannot be read while nobody may go on without it: an entry of the log is to be
applied, or the state to be sent whole."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from raft.errors import NotNow
from storage.errors import CorruptRecord


class Damaged(NotNow):
    """queue_id: the stream's, whose log says which page it is. error: why."""

    def __init__(self, queue_id: int, error: Exception) -> None:
        super().__init__(str(error))
        self.queue_id = queue_id
        self.error = error


@contextmanager
def reading(queue_id: int) -> Iterator[None]:
    """What is read of this stream. Raises Damaged."""
    try:
        yield
    except (CorruptRecord, OSError) as error:
        raise Damaged(queue_id, error) from error
