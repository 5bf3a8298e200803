"""SyncThread: the thread that syncs, and checks stored pages between syncs. It does what it is given, in that order.

An executor does the same, with a future, two locks and a semaphore for each piece of work, by which the loop and its
thread wait for each other; here nobody asks what became of it.
"""

from __future__ import annotations

from collections.abc import Callable
from queue import SimpleQueue
from threading import Event, Thread


class SyncThread:
    """It runs from now on, as later the system may have no thread to give. is_stopping: it takes up nothing more."""

    def __init__(self) -> None:
        self.is_stopping = False
        self._work: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        has_started = Event()
        # A process that ends without `stop` waits for nothing: what is not synced was not confirmed.
        self._thread = Thread(target=self._run, args=(has_started,), name="sync", daemon=True)
        self._thread.start()
        has_started.wait()

    def submit(self, work: Callable[[], None]) -> None:
        """Have it called in the thread. It does not raise anything; else the thread is over."""
        self._work.put(work)

    def stop(self) -> None:
        """End the thread when it has done what it is at; what waits behind that is left undone."""
        self.is_stopping = True
        self._work.put(None)
        self._thread.join()

    def _run(self, has_started: Event) -> None:
        has_started.set()
        while (work := self._work.get()) is not None and not self.is_stopping:
            work()
            del work  # a job has octets, which nobody needs while there is nothing to do
