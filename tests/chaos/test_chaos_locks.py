"""The lock checker is fed what must not be, and what only looks so."""

from __future__ import annotations

from tests.chaos.lock_log import Disturbance, LockLog, PendingAnswer, Release, check_locks

LOCK = "lock"


def hold(log: LockLog, fence: int, began: float, node: str = "n1", generation: int = 1) -> PendingAnswer:
    return log.began(LOCK, generation, fence, f"{node}/1", node, began)


def test_one_after_the_other() -> None:
    log = LockLog(created=[(LOCK, 1)])
    log.released(hold(log, 0, 1.0), Release.GIVEN_BACK, 2.0)
    log.released(hold(log, 1, 2.1, "n2"), Release.BROKEN, 3.0)
    last = hold(log, 2, 3.1, "n3")
    log.released(last, Release.ACKED, 4.0)
    log.executed(last, 4.1)
    assert check_locks(log, [], []) == []


def test_a_release_is_said_once() -> None:
    log = LockLog()
    one = hold(log, 0, 1.0)
    log.released(one, Release.ACKED, 2.0)
    log.released(one, Release.BROKEN, 3.0)
    assert (one.release, one.ended) == (Release.ACKED, 2.0)


def test_two_holders_at_the_same_time() -> None:
    log = LockLog()
    log.released(hold(log, 0, 1.0), Release.GIVEN_BACK, 3.0)
    log.released(hold(log, 1, 2.0, "n2"), Release.GIVEN_BACK, 4.0)
    (found,) = check_locks(log, [], [(LOCK, 1)])
    assert "two holders" in found


def test_who_was_given_up_may_believe_that_it_still_holds() -> None:
    log = LockLog()
    log.released(hold(log, 0, 1.0), Release.GIVEN_BACK, 3.0)
    log.released(hold(log, 1, 2.0, "n2"), Release.GIVEN_BACK, 4.0)
    assert check_locks(log, [Disturbance("n1", 1.5, 1.8)], [(LOCK, 1)]) == []
    assert check_locks(log, [Disturbance("n2", 1.5, 1.8)], [(LOCK, 1)]) != []
    assert check_locks(log, [Disturbance("n1", 2.5, 2.8)], [(LOCK, 1)]) != []


def test_a_node_that_catches_up_hands_out_what_is_not_its_any_more() -> None:
    log = LockLog()
    one = hold(log, 7, 6.0, "n2")
    log.released(one, Release.ACKED, 6.1)
    log.executed(one, 6.2)
    log.released(hold(log, 4, 8.0), Release.GIVEN_BACK, 8.1)
    assert check_locks(log, [Disturbance("n1", 1.0, 7.0)], []) == []
    (found,) = check_locks(log, [Disturbance("n2", 1.0, 7.0)], [])
    assert "two holders" in found


def test_given_out_twice_at_the_same_place_of_the_log() -> None:
    log = LockLog()
    log.released(hold(log, 0, 1.0), Release.BROKEN, 1.5)
    log.released(hold(log, 0, 2.0, "n2"), Release.GIVEN_BACK, 4.0)
    (found,) = check_locks(log, [Disturbance("n1", 0.0, 9.0)], [(LOCK, 1)])
    assert "given out twice" in found


def test_an_executed_ack_is_the_end() -> None:
    log = LockLog()
    one = hold(log, 0, 1.0)
    log.released(one, Release.ACKED, 2.0)
    log.executed(one, 2.1)
    log.released(hold(log, 1, 3.0, "n2"), Release.ACKED, 4.0)
    (found,) = check_locks(log, [], [])
    assert "held again" in found
    assert check_locks(log, [Disturbance("n1", 0.5, 1.2)], []) == []


def test_an_ack_that_nobody_knows_the_fate_of_may_be_void() -> None:
    log = LockLog()
    log.released(hold(log, 0, 1.0), Release.ACKED, 2.0)
    log.released(hold(log, 1, 3.0, "n2"), Release.ACKED, 4.0)
    assert check_locks(log, [], []) == []


def test_the_ack_of_a_stale_holder_must_not_take_the_lock_away() -> None:
    """n1 was given up, n2 got the lock and gave it back; then it must be there."""
    log = LockLog()
    one = hold(log, 0, 1.0)
    log.released(hold(log, 1, 6.0, "n2"), Release.GIVEN_BACK, 8.0)
    log.released(one, Release.ACKED, 7.0)
    log.executed(one, 7.1)
    stopped = [Disturbance("n1", 1.0, 6.5)]
    assert check_locks(log, stopped, [(LOCK, 1)]) == []
    (found,) = check_locks(log, stopped, [])
    assert "did not acknowledge it" in found


def test_a_lock_that_vanishes_before_anybody_held_it() -> None:
    log = LockLog(created=[(LOCK, 1), (LOCK, 2)])
    (found,) = check_locks(log, [], [(LOCK, 2)])
    assert "generation 1" in found


def test_when_a_generation_is_over() -> None:
    log = LockLog()
    one = hold(log, 0, 1.0)
    assert not log.is_over(LOCK, 1, 9.0)
    log.released(one, Release.ACKED, 2.0)
    assert not log.is_over(LOCK, 1, 9.0)
    log.executed(one, 2.1)
    assert not log.is_over(LOCK, 1, 2.0)
    assert log.is_over(LOCK, 1, 3.0)
    hold(log, 1, 5.0)
    assert not log.is_over(LOCK, 1, 9.0)
