"""Dead letters of a queue that is deleted before they are posted: a crash at any step loses none of them."""

from __future__ import annotations

import random

import pytest

from amqp_broker.links import levels
from amqp_broker.metadata import commands
from amqp_broker.protocol import methods
from amqp_broker.protocol.properties import encode_properties
from queues.store import LETTERS
from storage.journal import Journal
from tests.node.node_cluster import NodeCluster
from tests.node.node_driver import Client, NodeDriver, consume, declare, frame_octets, small_config
from tests.node.one_slice import OneSlice
from tests.node.test_dead_letters import TO_DEAD, finish, numbers, publish, refuse_all
from tests.node.test_deleted_pages import SMALL
from tests.simulation.simulated_disk import SimulatedDisk

MANY = 200
DELETE = methods.QueueDelete(0, "source", False, False, False)


def slow_driver(seed: int = 1, **settings: object) -> tuple[NodeDriver, Client]:
    """A node that does one slice of work in each turn."""
    driver = NodeDriver(small_config(**settings), SimulatedDisk(random.Random(seed)))
    driver.node.background.set_pace(OneSlice())
    return driver, driver.client(1)


def bodies(driver: NodeDriver, queue: str) -> list[bytes]:
    """What is ready in a queue, which is empty then."""
    client = driver.client(1)
    client.send(1, consume(queue, no_ack=True))
    finish(driver)
    return [event.body for event in client.take() if event.method.name == "basic.deliver"]


def is_there(driver: NodeDriver, queue: str) -> bool:
    return queue in driver.node.broker.vhosts["/"].queues


def folders(driver: NodeDriver) -> list[str]:
    return driver.disk.list("queues")


def go_on(driver: NodeDriver, steps: int) -> None:
    """So many turns, every other one with its sync."""
    for step in range(steps):
        driver.turn()
        if step % 2 and (job := driver.node.take_sync()) is not None:
            driver.synced(job)


@pytest.mark.parametrize("steps", range(14))
def test_a_crash_at_any_step(steps: int) -> None:
    """On a node alone each message is in one place, and once, whether the crash undoes the deletion or not."""
    driver, client = slow_driver(steps)
    refuse_all(driver, client)
    driver.synced(driver.take_sync())
    assert 0 < driver.queue("dead").message_count() < MANY
    client.send(1, DELETE)
    go_on(driver, steps)
    was_answered = "queue.delete-ok" in client.names()
    driver.crash()
    finish(driver)
    if was_answered:
        assert not is_there(driver, "source")
    left = bodies(driver, "source") if is_there(driver, "source") else []
    assert sorted(bodies(driver, "dead") + left, key=int) == numbers(MANY)
    driver.crash()
    finish(driver)
    assert driver.queue("dead").message_count() == 0


def test_a_crash_while_they_are_posted_after_a_crash() -> None:
    driver, client = slow_driver()
    refuse_all(driver, client)
    driver.turn()
    client.send(1, DELETE)
    go_on(driver, 2)
    for _ in range(6):
        driver.disk.crash()
        driver.start()
        driver.node.background.set_pace(OneSlice())
        go_on(driver, 2)
    driver.crash()
    finish(driver)
    assert sorted(bodies(driver, "dead"), key=int) == numbers(MANY)


def test_what_was_ready_goes_with_its_queue() -> None:
    driver, client = slow_driver()
    refuse_all(driver, client)
    publish(client, "source", *(b"ready %d" % number for number in range(40)))
    driver.turn()
    client.send(1, DELETE)
    go_on(driver, 2)
    assert driver.queue("dead").message_count() < MANY
    driver.crash()
    finish(driver)
    assert sorted(bodies(driver, "dead"), key=int) == numbers(MANY)


def expired(driver: NodeDriver, client: Client, count: int) -> None:
    """Messages that wait in pages expire, and are to be posted."""
    client.send(1, declare("dead"), declare("source", **TO_DEAD))
    driver.settle()
    for start in range(0, count, 20):
        bodies = [b"%d" % number + b"." * 200 for number in range(start, start + 20)]
        publish(client, "source", *bodies, expiration="5000")
        driver.settle()
    driver.now += 6000
    driver.node.tick(driver.now)


@pytest.mark.parametrize("steps", [*range(0, 16, 2), 40, 80])
def test_letters_in_pages(steps: int) -> None:
    """They are read from the files of a queue that is no more; these go with the last of them."""
    driver, client = slow_driver(steps, **SMALL)
    expired(driver, client, 400)
    driver.turn()
    assert folders(driver)
    noted = driver.queue("source").letters.count + driver.queue("dead").message_count()
    client.send(1, DELETE)
    go_on(driver, steps)
    if not steps:
        driver.synced(driver.take_sync())
    driver.crash()
    if is_there(driver, "source"):
        driver.now += 6000
        driver.node.tick(driver.now)
    finish(driver)
    assert driver.queue("dead").message_count() >= noted
    queue_id = str(driver.queue("dead").queue_id)
    finish(driver)
    if not is_there(driver, "source"):
        assert set(folders(driver)) <= {queue_id}


def test_they_leave_a_segment_that_is_retired() -> None:
    """Letters that cannot reach their place keep no segment of the journal."""
    cluster = NodeCluster(journal_limit_bytes=20_000, journal_segment_size_bytes=10_000)
    client = with_letters_under_way(cluster)
    client.send(1, DELETE)
    cluster.run(500)
    home = cluster.nodes["n2"]
    client.send(1, declare("busy"))
    cluster.run(300)
    first = home.node.store.journal.oldest_segment
    for _ in range(40):
        publish(client, "busy", b"." * 2000)
        cluster.run(50)
        client.send(1, methods.QueuePurge(0, "busy", False))
        cluster.run(50)
    assert home.node.store.journal.oldest_segment > first + 2
    cluster.revive("n2", cluster.kill("n2"))
    cluster.run(3000)
    assert arrived(cluster) == set(numbers(30))


def with_letters_under_way(cluster: NodeCluster) -> Client:
    """The queue `source` on n2 has refused messages; where they are to go, on n3, nothing arrives."""
    cluster.run_until_ready()
    to_far = {"x_dead_letter_exchange": "", "x_dead_letter_routing_key": "far"}
    cluster.nodes["n3"].client(1).send(1, declare("far"))
    cluster.run(300)
    client = cluster.nodes["n2"].client(1)
    client.send(1, declare("source", **to_far), consume("source"))
    cluster.run(300)
    publish(client, "source", *numbers(30))
    cluster.run(300)
    client.take()
    cluster.cut("n2", "n3")
    client.send(1, methods.BasicNack(0, True, False))
    cluster.run(100)
    return client


def arrived(cluster: NodeCluster) -> set[bytes]:
    cluster.heal()
    cluster.run(4000)
    reader = cluster.nodes["n3"].client(1)
    reader.send(1, consume("far", no_ack=True))
    cluster.run(1000)
    return {event.body for event in reader.take() if event.method.name == "basic.deliver"}


def test_letters_that_wait_for_another_node() -> None:
    cluster = NodeCluster()
    client = with_letters_under_way(cluster)
    client.send(1, DELETE)
    cluster.run(1000)
    assert "queue.delete-ok" in client.names()
    cluster.revive("n2", cluster.kill("n2"))
    cluster.run(2000)
    assert "source" not in cluster.nodes["n2"].node.broker.vhosts["/"].queues
    assert arrived(cluster) == set(numbers(30))
    assert cluster.nodes["n2"].node.store.pager.used == 0


def test_a_deletion_waits_for_the_disk_of_its_letters() -> None:
    """The others would commit it before this node's disk knows which messages are letters."""
    cluster = NodeCluster()
    client = with_letters_under_way(cluster)
    cluster.stall("n2")
    client.send(1, DELETE)
    cluster.run(1000)
    cluster.heal()
    assert cluster.nodes["n1"].node.broker.metadata.queue("/", "source") is not None
    cluster.revive("n2", cluster.kill("n2"))
    cluster.run(2000)
    assert cluster.nodes["n2"].queue("source").message_count() == 30


def test_a_deletion_that_was_undone_makes_no_letters() -> None:
    """What the crash has made messages again goes with the queue when that is deleted once more."""
    cluster = NodeCluster()
    client = with_letters_under_way(cluster)
    cluster.isolate("n2")
    client.send(1, DELETE)
    for _ in range(3):
        driver = cluster.nodes["n2"]
        driver.turn()
        if (job := driver.node.take_sync()) is not None:
            driver.synced(job)
    driver.to_peers.clear()
    cluster.revive("n2", cluster.kill("n2"))
    cluster.run(2000)
    assert cluster.nodes["n2"].queue("source").message_count() == 30
    cluster.nodes["n1"].client(1).send(1, DELETE)
    cluster.run(1000)
    cluster.revive("n2", cluster.kill("n2"))
    cluster.run(2000)
    assert arrived(cluster) == set()


def test_a_virtual_host_that_is_gone_wants_no_letters() -> None:
    driver, client = slow_driver()
    refuse_all(driver, client)
    driver.turn()
    client.send(1, DELETE)
    go_on(driver, 2)
    driver.node.broker.propose(commands.delete_vhost("/"))
    driver.turn()
    driver.synced(driver.take_sync())
    driver.crash()
    finish(driver)
    assert driver.node.store.pager.used == 0


def transient_message(client: Client, queue: str, body: bytes) -> None:
    octets = methods.BasicPublish(0, "", queue, False, False)
    client.send(1, octets)
    section = encode_properties({"delivery_mode": 1})
    client.send_octets(frame_octets(2, 1, b"\x00\x3c\x00\x00" + len(body).to_bytes(8, "big") + section))
    client.send_octets(frame_octets(3, 1, body))


def test_transient_messages_do_not_outlive_a_crash() -> None:
    driver, client = slow_driver()
    refuse_all(driver, client, 0)
    for number in range(MANY):
        transient_message(client, "source", b"%d" % number)
    driver.settle()
    client.take()
    client.send(1, methods.BasicNack(0, True, False), DELETE)
    go_on(driver, 2)
    driver.crash()
    finish(driver)
    assert not is_there(driver, "source")


def test_until_all_members_know_them_they_are_not_written_down(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker of the version before reads the journal all the same; a crash may take them along, as it did then."""
    monkeypatch.setattr(levels, "OWN", levels.Levels(1, 1))
    driver, client = slow_driver()
    refuse_all(driver, client)
    driver.synced(driver.take_sync())
    client.send(1, DELETE)
    finish(driver)
    assert sorted(bodies(driver, "dead"), key=int) == numbers(MANY)
    driver.disk.crash()
    assert LETTERS not in {kind for _, kind, _ in Journal(driver.disk).recover()}
