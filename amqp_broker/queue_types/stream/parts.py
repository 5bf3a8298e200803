"""StreamParts: the partitions of a stream that are there on this node, in order."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from amqp_broker.queue_types.stream.queue import StreamQueue


class StreamParts:
    """streams: by their number."""

    def __init__(self) -> None:
        self.streams: list[StreamQueue] = []
        self._on_change: Callable[[], None] = _nothing

    def __len__(self) -> int:
        return len(self.streams)

    def when_changed(self, on_change: Callable[[], None]) -> None:
        """It is called when there are others than before."""
        self._on_change = on_change

    def forget(self) -> None:
        """Nobody asks any more."""
        self._on_change = _nothing

    def add(self, stream: StreamQueue) -> None:
        """There is one more. They come in order, but for those of another with the same name, which are about to go."""
        self.streams.append(stream)
        self._on_change()

    def remove(self, stream: StreamQueue) -> None:
        """It is not there any more."""
        if stream in self.streams:
            self.streams.remove(stream)
            self._on_change()


def _nothing() -> None:
    """Nobody asks."""
