"""Watching a broker's resident memory while something else goes on."""

from __future__ import annotations

import threading
from types import TracebackType

from benchmarks.brokers import Broker

INTERVAL_SECONDS = 0.05


class MemoryWatch:
    """`with MemoryWatch(broker) as watch:` - afterwards `watch.highest` is the most that was seen, in
    octets.
    """

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.highest = broker.memory_bytes()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def _watch(self) -> None:
        while not self._stop.wait(INTERVAL_SECONDS):
            self.highest = max(self.highest, self.broker.memory_bytes())

    def __enter__(self) -> MemoryWatch:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        self.highest = max(self.highest, self.broker.memory_bytes())
