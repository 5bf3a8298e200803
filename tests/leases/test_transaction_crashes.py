"""Transactions with a crash at every write: everything once or nothing, whatever was answered before."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from amqp_broker.protocol import methods
from tests.leases.lease_service import blob_of
from tests.leases.service_on_node import ServiceOnNode
from tests.node.node_driver import NodeDriver, small_config
from tests.simulation.simulated_disk import SimulatedCrash, SimulatedDisk

EPOCHS = 3
PARTITIONS = 2
BLOBS = 3
#: Every blob has so many messages, for one queue or the other.
MESSAGES = 4


def tiny() -> NodeDriver:
    """A node of which a handful of messages fill pages, and journal segments that are retired."""
    config = small_config(
        journal_segment_size_bytes=3000,
        journal_limit_bytes=9000,
        page_size_bytes=600,
        page_segment_size_bytes=1500,
        memory_budget_bytes=6000,
        queue_head_messages=2,
        queue_head_size_bytes=400,
        queue_groups=1,
    )
    return NodeDriver(config, SimulatedDisk(random.Random(3)))


def bodies_of(epoch: int, partition: int, sequence: int) -> list[bytes]:
    return [b"%d.%d.%d.%d" % (epoch, partition, sequence, number) for number in range(MESSAGES)]


def queue_of(partition: int) -> str:
    return "even" if partition % 2 == 0 else "odd"


def expected(epochs: int) -> dict[str, list[bytes]]:
    found: dict[str, list[bytes]] = {"even": [], "odd": []}
    for epoch in range(epochs):
        for partition in range(PARTITIONS):
            for sequence in range(BLOBS):
                found[queue_of(partition)] += bodies_of(epoch, partition, sequence)
    return found


def desk_on(driver: NodeDriver) -> ServiceOnNode:
    """Everything that a turn has written is synced apart from what the next one writes, so that a crash may come
    between any two blobs that are published."""

    def run() -> None:
        for _ in range(200):
            turn = driver.turn()
            job = driver.node.take_sync()
            if job is not None:
                driver.synced(job)
            elif turn.next_deadline is None or turn.next_deadline > driver.now + 1:
                return
            driver.now += 1
            driver.node.tick(driver.now)
        raise AssertionError("the node does not come to rest")

    return ServiceOnNode(driver, run)


@pytest.fixture(autouse=True)
def _one_blob_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("amqp_broker.leases.apps.TURN_MESSAGES", 1)


class Writer:
    """Stages and commits epoch after epoch, as a connector that may begin again at any time. committed: so many epochs
    were answered."""

    def __init__(self) -> None:
        self.committed = 0

    def work(self, service: ServiceOnNode) -> None:
        for queue in ("even", "odd", "other"):
            service.declare(queue)
        for epoch in range(self.committed, EPOCHS):
            self._stage(service, epoch)
            service.fill("other", 8)  # so that journal segments are retired in the middle
            answer = service.ask("txn.commit", app="a", epoch=epoch, attempts={"0": 1, "1": 1})
            assert answer.code == "ok", answer
            assert answer.fields["done"] is True
            if "again" not in answer.fields:
                assert answer.fields["published"] == PARTITIONS * BLOBS * MESSAGES
            self.committed = epoch + 1

    def _stage(self, service: ServiceOnNode, epoch: int) -> None:
        for partition in range(PARTITIONS):
            for sequence in range(BLOBS):
                blob = blob_of(bodies_of(epoch, partition, sequence), routing_key=queue_of(partition))
                fields = {"epoch": epoch, "partition": partition, "attempt": 1, "sequence": sequence}
                answer = service.stage(blob, app="a", **fields)
                if answer.code == "busy":  # memory is short until pages are stored
                    service.wait(1100)
                    answer = service.stage(blob, app="a", **fields)
                assert answer.code == "ok", answer


def contents(service: ServiceOnNode) -> dict[str, list[bytes]]:
    return {queue: service.bodies(queue) for queue in ("even", "odd")}


def moments(limit: int) -> Iterator[int]:
    return iter(range(1, limit))


def test_a_crash_at_every_write_publishes_all_or_nothing_and_once() -> None:
    crashes = published_late = 0
    for at in moments(400):
        driver = tiny()
        writer = Writer()
        service = desk_on(driver)
        for queue in ("even", "odd", "other"):
            service.declare(queue)
        driver.disk.crash_at = at
        try:
            writer.work(service)
        except SimulatedCrash:
            crashes += 1
        else:
            driver.disk.crash_at = None
            assert contents(service) == expected(EPOCHS)
            break
        driver.disk.crash_at = None
        driver.crash()
        driver.wait(10)
        # Whole epochs are there, all that were answered, and at most one more.
        service = desk_on(driver)
        there = contents(service)
        assert there in (expected(writer.committed), expected(writer.committed + 1))
        published_late += there != expected(writer.committed)
        # Who begins again finds out what was done, and does the rest.
        writer.work(service)
        assert contents(service) == expected(EPOCHS)
        driver.crash()
        driver.wait(10)
        service = desk_on(driver)
        assert contents(service) == expected(EPOCHS)
        assert service.ask("txn.stat", app="a").fields["apps"] == [
            {"app": "a", "last_epoch": EPOCHS - 1, "staged_messages": 0}
        ]
    else:
        pytest.fail("the work has more writes than this test crashes in")
    assert crashes > 40
    assert published_late > 0, "no crash came between a commit and its answer"


def test_a_second_crash_while_the_first_is_mended_changes_nothing() -> None:
    chance = random.Random(11)
    for _ in range(15):
        driver = tiny()
        writer = Writer()
        service = desk_on(driver)
        for _ in range(12):
            driver.disk.crash_at = chance.randint(1, 60)
            try:
                writer.work(service)
                driver.disk.crash_at = None
                break
            except SimulatedCrash:
                pass
            while True:
                driver.disk.crash_at = chance.randint(1, 12) if chance.random() < 0.5 else None
                try:
                    driver.crash()
                    driver.wait(5)
                    service = desk_on(driver)
                    break
                except SimulatedCrash:
                    continue
        driver.disk.crash_at = None
        writer.work(service)
        driver.crash()
        driver.wait(10)
        assert contents(desk_on(driver)) == expected(EPOCHS)


def test_what_is_staged_survives_the_retirement_of_its_segments() -> None:
    driver = tiny()
    service = desk_on(driver)
    for queue in ("even", "odd", "other"):
        service.declare(queue)
    writer = Writer()
    writer._stage(service, 0)
    first = driver.node.store.journal.oldest_segment
    for _ in range(30):
        service.fill("other", 10)
        service.client.send(2, methods.QueuePurge(0, "other", False))
        service.wait(50)
    assert driver.node.store.journal.oldest_segment > first + 3
    driver.crash()
    service = desk_on(driver)
    assert service.ask("txn.stat", app="a").fields["apps"][0]["staged_messages"] == PARTITIONS * BLOBS * MESSAGES
    writer.work(service)
    assert contents(service) == expected(EPOCHS)

