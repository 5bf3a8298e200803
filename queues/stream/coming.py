"""Coming: a page of a stream that is being read from the disk, for who cannot go on without it, and does not stand
still for it: an entry of the log that is to be applied."""

from __future__ import annotations

from typing import TYPE_CHECKING

from raft.errors import NotNow

if TYPE_CHECKING:
    from queues.stream.log import StreamLog
    from storage.disk import Pending


class Coming(NotNow):
    """read: what reads it."""

    def __init__(self, read: Pending) -> None:
        super().__init__("a page of a stream is on its way from the disk")
        self.read = read


def await_page(log: StreamLog, offset: int) -> None:
    """See that the page with this offset is in RAM, or can be had at once. Raises Coming. Where nothing reads in the
    background, there is nothing to wait for."""
    read = log.coming(offset)
    if read is not None and not read.done():
        raise Coming(read)
