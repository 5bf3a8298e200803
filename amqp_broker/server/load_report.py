"""LoadReport: what a worker has to do, written into the page that all workers of its node share
(resources/load_page.py) when the worker says anyway that its loop turns: nothing wakes up for it."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic, process_time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from amqp_broker.resources.load_page import LoadPage
    from amqp_broker.resources.memory_share import MemoryShare

#: It is written once a second, seconds: the timer that brings it may be a little early.
_PERIOD_S: Final = 0.95


class LoadReport:
    """Of one worker. queues: how many live there. clock: seconds; used: processor time of this process, all threads,
    seconds."""

    def __init__(
        self, page: LoadPage, worker: int, memory: MemoryShare, queues: Callable[[], int],
        clock: Callable[[], float] = monotonic, used: Callable[[], float] = process_time,
    ) -> None:  # fmt: skip
        self._page = page
        self._worker = worker
        self._memory = memory
        self._queues = queues
        self._clock, self._used = clock, used
        self._at, self._used_at = clock(), used()

    def write_if_due(self) -> None:
        """What there is to do, if that was not said in this second."""
        passed_s = self._clock() - self._at
        if passed_s < _PERIOD_S:
            return
        used_s, before_s = self._used(), self._used_at
        self._at += passed_s
        self._used_at = used_s
        memory = self._memory
        self._page.write(
            self._worker,
            busy=round(1000 * max(0.0, used_s - before_s) / passed_s),
            held_bytes=memory.held_bytes,
            used_bytes=memory.used_bytes,
            budget_bytes=memory.budget_bytes,
            queues=self._queues(),
        )
