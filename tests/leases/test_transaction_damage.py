"""What is staged and committed, and cannot be read any more: nobody is told that it is published."""

from __future__ import annotations

import random

from tests.leases.lease_service import Answer, blob_of
from tests.leases.service_on_node import ServiceOnNode
from tests.node.node_driver import NodeDriver, small_config
from tests.simulation.simulated_disk import SimulatedDisk

BLOBS = 40
SETTINGS = {"page_size_bytes": 2000, "memory_budget_bytes": 20_000, "queue_head_messages": 2, "queue_groups": 1}


def start(disk: SimulatedDisk, *, recover: bool = False) -> ServiceOnNode:
    return ServiceOnNode(NodeDriver(small_config(**SETTINGS, recover=recover), disk))


def stage(service: ServiceOnNode, epoch: int) -> None:
    for sequence in range(BLOBS):
        blob = blob_of([b"%d.%d " % (epoch, sequence) + b"x" * 800], routing_key="q")
        fields = {"app": "a", "epoch": epoch, "partition": 0, "attempt": 1, "sequence": sequence}
        answer = service.stage(blob, **fields)
        for _ in range(20):
            if answer.code != "busy":  # memory is short until pages are stored
                break
            service.wait(1100)
            answer = service.stage(blob, **fields)
        assert answer.code == "ok", answer


def commit(service: ServiceOnNode, epoch: int) -> Answer:
    return service.ask("txn.commit", app="a", epoch=epoch, attempts={"0": 1})


def damage_pages(disk: SimulatedDisk, queue_id: int) -> None:
    """A flipped bit in the middle of the pages that are stored of a queue."""
    paths = [path for path in disk.files() if path.startswith(f"queues/{queue_id}/")]
    assert paths
    for path in paths:
        octets = bytearray(disk.contents(path))
        octets[len(octets) // 2] ^= 0x10
        disk.overwrite(path, bytes(octets))


def test_an_epoch_that_is_published_stays_done_though_a_later_one_cannot_be_read() -> None:
    disk = SimulatedDisk(random.Random(1))
    service = start(disk)
    service.declare("q")
    for epoch in (0, 1):
        stage(service, epoch)
        assert commit(service, epoch).fields["published"] == BLOBS
    stage(service, 2)
    (part,) = service.driver.node.broker.apps.of("/")[0].all_parts()
    damage_pages(disk, part.queue.queue_id)
    refused = commit(service, 2)
    assert (refused.code, "cannot be read" in refused.fields["error"]) == ("busy", True)
    for epoch in (0, 1):
        answer = commit(service, epoch)
        assert (answer.code, answer.fields.get("again")) == ("ok", True)
    for epoch in (2, 3):  # what is not published is not said to be, and nothing overtakes it
        assert commit(service, epoch).code == "busy"
    assert len([body for body in service.bodies("q") if not body.startswith(b"2.")]) == 2 * BLOBS


def test_it_is_published_when_the_node_is_told_to_recover() -> None:
    disk = SimulatedDisk(random.Random(2))
    service = start(disk)
    service.declare("q")
    stage(service, 0)
    (part,) = service.driver.node.broker.apps.of("/")[0].all_parts()
    damage_pages(disk, part.queue.queue_id)
    assert commit(service, 0).code == "busy"
    disk.crash()
    again = start(disk, recover=True)
    answer = commit(again, 0)
    assert (answer.code, answer.fields["done"]) == ("ok", True)
    assert len(again.bodies("q")) == BLOBS  # the journal still has what the pages have lost
    stage(again, 1)
    assert commit(again, 1).fields["published"] == BLOBS
