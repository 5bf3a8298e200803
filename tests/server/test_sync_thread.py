"""The thread that syncs does what it is given, in order, and ends when it is told to."""

from __future__ import annotations

import subprocess
import sys
import threading
from functools import partial

from amqp_broker.server.sync_thread import SyncThread


def test_it_does_what_it_is_given_in_order_and_elsewhere() -> None:
    thread = SyncThread()
    found: list[tuple[int, bool]] = []
    is_done = threading.Event()
    for number in range(100):
        thread.submit(lambda number=number: found.append((number, threading.current_thread().name == "sync")))  # type: ignore[misc]
    thread.submit(is_done.set)
    assert is_done.wait(10)
    assert found == [(number, True) for number in range(100)]
    thread.stop()


def test_what_waits_when_it_ends_is_left_undone() -> None:
    thread = SyncThread()
    has_begun, may_end = threading.Event(), threading.Event()
    done: list[int] = []

    def work() -> None:
        has_begun.set()
        may_end.wait(10)
        done.append(0)

    thread.submit(work)
    assert has_begun.wait(10)
    thread.submit(partial(done.append, 1))
    stopper = threading.Thread(target=thread.stop)
    stopper.start()
    while not thread.is_stopping:
        pass
    may_end.set()
    stopper.join(10)
    assert not stopper.is_alive()
    assert done == [0]


def test_a_process_that_does_not_end_it_ends_all_the_same() -> None:
    script = "from amqp_broker.server.sync_thread import SyncThread; SyncThread().submit(int)"
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
