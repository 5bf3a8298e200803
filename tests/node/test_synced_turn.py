"""What a sync costs a node that has nothing else to do, and that nobody misses what he is not told meanwhile."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from types import FrameType

import pytest

from amqp_broker.protocol import methods
from tests.house.test_compiled import IS_PLAIN
from tests.node.node_driver import NodeDriver

ROOT = Path(__file__).parents[2]
#: What is interpreted of a turn that syncs one message: after a sleep of the processor each such call takes a
#: microsecond or two. It is whether there are writes of pages.
INTERPRETED = {"take_writes": 1}


def _publisher(driver: NodeDriver) -> None:
    client = driver.client(1)
    client.send(1, methods.QueueDeclare(queue="q", durable=True), methods.ConfirmSelect())
    driver.settle()
    for _ in range(3):
        client.publish(1, "q", b"octets")
        driver.settle()
    assert "basic.ack" in client.names()


def _interpreted(driver: NodeDriver) -> Counter[str]:
    """How often functions of the broker are interpreted while what was published is synced and confirmed."""
    found: Counter[str] = Counter()

    def note(frame: FrameType, event: str, _: object) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(ROOT) and not path.is_relative_to(ROOT / "tests"):
            found[frame.f_code.co_name] += 1

    node = driver.node
    sys.setprofile(note)
    try:
        node.end_turn(driver.now)
        job = node.take_sync()
        assert job is not None
        job.run()
        node.synced(job, driver.now)
        node.end_turn(driver.now)
    finally:
        sys.setprofile(None)
    return found


@pytest.mark.skipif(IS_PLAIN, reason="plain, all of it is interpreted")
def test_next_to_nothing_is_interpreted_for_a_sync() -> None:
    driver = NodeDriver()
    _publisher(driver)
    driver.clients[0].publish(1, "q", b"octets")
    assert _interpreted(driver) == INTERPRETED


def test_who_begins_to_serve_leases_knows_what_is_on_the_disk() -> None:
    driver = NodeDriver()
    _publisher(driver)
    done: list[bool] = []
    driver.node.leases.after_sync(lambda: done.append(True))
    assert done, "everything is on the disk: no sync is to come that would say so"
