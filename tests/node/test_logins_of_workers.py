"""A node of several workers: whoever guesses passwords waits at all of them."""

from __future__ import annotations

from tests.management.users import USER, log_in
from tests.node.worker_world import WorkerWorld

WORKERS = ("n1", "n1/1", "n1/2")
BACKOFF_MS = 1000


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
