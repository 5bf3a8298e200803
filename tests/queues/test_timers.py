"""Timers: callbacks in order of time."""

from __future__ import annotations

from collections.abc import Callable

from queues.timers import SPARE, Timers


def noting(into: list[tuple[str, int]], name: str) -> Callable[[int], None]:
    return lambda now: into.append((name, now))


def test_in_order_of_time_and_of_asking() -> None:
    timers, called = Timers(), list[tuple[str, int]]()
    for when, name in ((30, "c"), (10, "a"), (20, "b1"), (20, "b2"), (40, "late")):
        timers.at(when, noting(called, name))
    assert len(timers) == 5
    assert timers.next_deadline() == 10
    timers.run(9)
    assert called == []
    timers.run(30)
    assert called == [("a", 30), ("b1", 30), ("b2", 30), ("c", 30)]
    assert timers.next_deadline() == 40


def test_a_callback_may_ask_again() -> None:
    timers, called = Timers(), list[int]()

    def again(now: int) -> None:
        called.append(now)
        if len(called) < 3:
            timers.at(now, again)

    timers.at(5, again)
    timers.run(7)
    assert called == [7, 7, 7], "what is due at once is called in the same run"
    assert timers.next_deadline() is None
    assert len(timers) == 0


def test_a_cancelled_timer_does_not_run_and_lets_go_at_once() -> None:
    timers, called = Timers(), list[tuple[str, int]]()
    first = timers.at(10, noting(called, "first"))
    timers.at(20, noting(called, "second"))
    first.cancel()
    first.cancel()
    assert not first.is_set
    assert len(timers) == 1
    assert timers.next_deadline() == 20
    timers.run(30)
    assert called == [("second", 30)]
    assert len(timers) == 0


def test_to_cancel_what_has_run_changes_nothing() -> None:
    timers, called = Timers(), list[tuple[str, int]]()
    first = timers.at(10, noting(called, "first"))
    timers.at(20, noting(called, "second"))
    timers.run(10)
    first.cancel()
    assert len(timers) == 1
    assert timers.next_deadline() == 20


def test_cancelled_timers_do_not_pile_up() -> None:
    timers = Timers()
    kept = [timers.at(1000 + each, lambda now: None) for each in range(100)]
    for each in range(10_000):
        timers.at(500 + each, lambda now: None).cancel()
        assert timers.heap_length() <= 2 * (len(kept) + SPARE)
    assert len(timers) == len(kept)
    assert timers.next_deadline() == 1000
