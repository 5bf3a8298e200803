"""A node of several workers: whoever guesses passwords waits at all of them."""

from __future__ import annotations

from amqp_broker.connection import logins as module
from amqp_broker.management.access import Asker
from tests.management.users import USER, add_user, log_in
from tests.node.worker_world import WorkerWorld

WORKERS = ("n1", "n1/1", "n1/2")
BACKOFF_MS = 1000


def world_of_three() -> WorkerWorld:
    return WorkerWorld(3, login_backoff_ms=BACKOFF_MS, login_backoff_max_ms=30 * BACKOFF_MS)


def waits(world: WorkerWorld, at: str, user: str = "") -> bool:
    return bool(world.nodes[at].node.system.counts.logins.has_to_wait_ms("127.0.0.1", user))


def guess(world: WorkerWorld, at: str, number: int) -> bool:
    """Whether it was looked at, and not refused at once."""
    logins = world.nodes[at].node.system.counts.logins
    known = logins.has_to_wait_ms("127.0.0.1")
    log_in(world.nodes[at], USER, f"wrong {number}")
    world.settle()
    return known == 0


def test_ten_guesses_at_all_workers_together() -> None:
    world = WorkerWorld(3, login_backoff_ms=BACKOFF_MS, login_backoff_max_ms=30 * BACKOFF_MS)
    assert sum(guess(world, WORKERS[number % 3], number) for number in range(30)) == 10


def test_whoever_gets_in_may_fail_again_at_all_workers() -> None:
    world = WorkerWorld(3, login_backoff_ms=BACKOFF_MS, login_backoff_max_ms=30 * BACKOFF_MS)
    for number in range(9):
        assert guess(world, WORKERS[number % 3], number)
    log_in(world.nodes["n1/2"], USER)
    world.settle()
    assert sum(guess(world, "n1", 100 + number) for number in range(12)) == 10


def test_one_that_guesses_does_not_keep_out_who_has_got_in_elsewhere() -> None:
    world = world_of_three()
    add_user(world.nodes["n1"], "right")
    add_user(world.nodes["n1"], "new")
    world.settle()
    log_in(world.nodes["n1"], "right")
    world.settle()
    for number in range(12):
        guess(world, "n1/1", number)
    assert [waits(world, at) for at in WORKERS] == [True] * 3
    assert [waits(world, at, "new") for at in WORKERS] == [True] * 3
    assert [waits(world, at, "right") for at in WORKERS] == [False, True, False], "at n1/1 it has failed itself"
    client = log_in(world.nodes["n1/2"], "right")
    assert "connection.open-ok" in client.names(), "where his password was never checked"


def test_who_has_got_in_may_not_guess_for_that_and_is_forgotten() -> None:
    world = world_of_three()
    log_in(world.nodes["n1"], USER)
    world.settle()
    for number in range(27):
        guess(world, WORKERS[number % 3], number)
    assert [waits(world, at, USER) for at in WORKERS] == [False] * 3, "nine failures at each"
    guess(world, "n1/2", 100)
    assert [waits(world, at, USER) for at in WORKERS] == [False, False, True]
    logins = world.nodes["n1/2"].node.system.counts.logins
    world.run(40 * BACKOFF_MS)
    for number in range(module._MOST_KNOWN):
        logins.hear_known("other", f"host {number}")
    assert len(logins._known) == module._MOST_KNOWN
    assert ("guest", "127.0.0.1") not in logins._known


def test_logins_are_told_while_as_many_questions_as_may_be_are_open() -> None:
    world = world_of_three()
    peers = world.nodes["n1"].node.system._totals._peers
    nobody = Asker(world.nodes["n1"].node.broker.metadata, "", ())
    assert [peers.ask(other, "clients", {}, nobody) for other in WORKERS[1:] for _ in range(70)][-1].is_done
    for _ in range(10):
        log_in(world.nodes["n1"], USER, "wrong")
    world.settle()
    assert [waits(world, at) for at in WORKERS] == [True] * 3


def test_those_that_fail_at_once_are_told_together() -> None:
    world = world_of_three()
    logins = world.nodes["n1"].node.system.counts.logins
    peers = world.nodes["n1"].node.system._totals._peers
    for number in range(3000):
        logins.record_failure(f"host {number % 300}")
        assert len(peers._open) <= 4
    world.settle(60)
    other = world.nodes["n1/2"].node.system.counts.logins
    assert {count for count, _ in other._told.values()} == {10}
    assert len(other._told) == 300
