"""`--recover`: a node alone goes on with what is left of its journal, and nothing that is left over is thrown away."""

from __future__ import annotations

import logging
import random

import pytest

from amqp_broker.protocol import methods
from amqp_broker.settings.kinds import parse_members
from raft.errors import CorruptLog
from storage.errors import CorruptRecord
from tests.node.node_driver import Client, NodeDriver, declare, small_config
from tests.simulation.simulated_disk import SimulatedDisk

SMALL = {
    "journal_segment_size_bytes": 2000,
    "journal_limit_bytes": 1 << 20,
    "page_size_bytes": 2000,
    "memory_budget_bytes": 20_000,
    "queue_head_messages": 4,
    "queue_head_size_bytes": 4000,
    "queue_groups": 2,
}


def start(disk: SimulatedDisk | None = None, *, recover: bool = False, **settings: object) -> NodeDriver:
    return NodeDriver(small_config(**SMALL, recover=recover, **settings), disk)


def fill(driver: NodeDriver, queue: str, count: int, **arguments: object) -> None:
    client = driver.client(1)
    client.send(1, declare(queue, **arguments), methods.ConfirmSelect(False))
    driver.settle()
    for number in range(count):
        client.publish(1, queue, b"%d " % number + b"x" * 500)
        driver.settle()
    driver.lose(client)
    driver.settle()


def count(driver: NodeDriver, queue: str) -> int:
    client: Client = driver.client(1)
    client.send(1, methods.QueueDeclare(0, queue, True, False, False, False, False, declare(queue).arguments))
    driver.turn()
    (answer,) = [event.method for event in client.take() if event.method.name == "queue.declare-ok"]
    driver.lose(client)
    return int(answer.message_count)


def segments(disk: SimulatedDisk) -> list[str]:
    return sorted(path for path in disk.files() if path.startswith("journal/"))


def flip(disk: SimulatedDisk, path: str, offset: int) -> None:
    octets = bytearray(disk.contents(path))
    octets[offset] ^= 0x10
    disk.overwrite(path, bytes(octets))


@pytest.mark.parametrize("later", [0, 3], ids=["nothing after it", "more after it"])
def test_the_metadata_are_those_before_the_gap_and_the_rest_is_set_aside(
    later: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Where nothing follows that was lost, nothing tells that there was more; but the pages of the queue do."""
    driver = start()
    fill(driver, "first", 30)
    fill(driver, "second", 60)
    for number in range(later):
        fill(driver, f"later {number}", 1)
    second_id = driver.queue("second").queue_id
    path = next(each for each in segments(driver.disk) if b'"second"' in driver.disk.contents(each))
    assert path != segments(driver.disk)[-1]
    assert [each for each in driver.disk.files() if each.startswith(f"queues/{second_id}/")]
    flip(driver.disk, path, driver.disk.contents(path).index(b'"second"'))
    with pytest.raises(CorruptRecord, match=r"--recover"):
        start(driver.disk)
    with caplog.at_level(logging.WARNING):
        again = start(driver.disk, recover=True)
    assert list(again.node.broker.vhosts["/"].queues) == ["first"]
    assert count(again, "first") == 30
    kept = [each for each in driver.disk.files() if each.startswith("damaged/")]
    told = [line for line in caplog.messages if "group 0: entries" in line and "are lost" in line]
    assert bool(told) is bool(later)
    assert {f"damaged/{each.replace('/', '-')}" for each in segments(driver.disk)[:2]} <= set(kept)
    assert any(each.startswith(f"damaged/queue-{second_id}-") for each in kept)
    assert not [each for each in driver.disk.files() if each.startswith(f"queues/{second_id}/")]

    fill(again, "third", 1)
    assert again.queue("third").queue_id > second_id + later, "an id is never given again"
    again.disk.crash()
    whole = start(driver.disk)
    assert count(whole, "third") == 1
    assert list(whole.node.broker.vhosts["/"].queues) == list(again.node.broker.vhosts["/"].queues)


def test_without_any_metadata_it_is_a_first_start(caplog: pytest.LogCaptureFixture) -> None:
    driver = start()
    fill(driver, "first", 60)
    queue_id = driver.queue("first").queue_id
    paths = segments(driver.disk)
    for path in paths[:-1]:
        driver.disk.overwrite(path, b"z" * len(driver.disk.contents(path)))
    with caplog.at_level(logging.WARNING):
        again = start(driver.disk, recover=True)
    assert list(again.node.broker.vhosts) == ["/"]
    assert not again.node.broker.vhosts["/"].queues
    kept = [each for each in driver.disk.files() if each.startswith("damaged/")]
    assert any(each.startswith(f"damaged/queue-{queue_id}-") for each in kept)
    fill(again, "new", 3)
    assert again.queue("new").queue_id > queue_id
    again.disk.crash()
    assert count(start(driver.disk), "new") == 3


def test_whatever_segment_is_damaged_the_next_start_needs_no_help() -> None:
    driver = start()
    fill(driver, "a", 12)
    fill(driver, "quorum", 12, x_queue_type="quorum")
    fill(driver, "b", 12)
    before = {path: driver.disk.contents(path) for path in driver.disk.files()}
    paths = segments(driver.disk)
    assert len(paths) > 6
    for path in paths[:-1]:
        disk = SimulatedDisk(random.Random(3))
        for each, octets in before.items():
            disk.make_folder(each.rpartition("/")[0])
            disk.append(each, [octets])
            disk.sync(each)
            disk.sync_folder(each.rpartition("/")[0])
        for folder in ("queues", "journal", ""):
            if not folder or disk.list(folder):
                disk.sync_folder(folder)
        disk.overwrite(path, bytes(len(before[path])))
        damaged = start(disk, recover=True)
        fill(damaged, "new", 2)
        queues = {name: count(damaged, name) for name in damaged.node.broker.vhosts["/"].queues}
        damaged.disk.crash()
        for recover in (False, True):
            again = start(disk, recover=recover)
            assert {name: count(again, name) for name in again.node.broker.vhosts["/"].queues} == queues, path
            again.disk.crash()


def test_recover_on_a_whole_folder_sets_nothing_aside() -> None:
    driver = start()
    fill(driver, "first", 60)
    again = start(driver.disk, recover=True)
    assert count(again, "first") == 60
    assert not [path for path in driver.disk.files() if path.startswith("damaged/")]


def test_a_node_of_a_cluster_says_that_the_others_know() -> None:
    driver = start(node_name="n1")
    fill(driver, "first", 30)
    path = next(each for each in segments(driver.disk) if b'"first"' in driver.disk.contents(each))
    flip(driver.disk, path, driver.disk.contents(path).index(b'"first"'))
    own = driver.node.replication.own_node
    members = parse_members(f"{own}=127.0.0.1:7001,n2=127.0.0.1:7002,n3=127.0.0.1:7003")
    with pytest.raises(CorruptLog, match="amqp-broker cluster rejoin"):
        start(driver.disk, recover=True, cluster=members, node_name=own, cluster_secret_file="secret")
