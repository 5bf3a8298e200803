"""Page files of a classic queue that is deleted stay until its deletion is on this node's disk, whoever has committed
it."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from amqp_broker.cli.restore import go_on_alone
from amqp_broker.protocol import methods
from tests.node.node_cluster import NodeCluster
from tests.node.node_driver import Client, NodeDriver, declare
from tests.node.test_dead_letters import publish

SMALL = {
    "memory_budget_bytes": 60_000,
    "page_size_bytes": 2000,
    "queue_head_messages": 4,
    "queue_head_size_bytes": 1000,
    "journal_limit_bytes": 20_000,
    "journal_segment_size_bytes": 10_000,
}
DELETE = methods.QueueDelete(0, "source", False, False, False)
MANY = 300


def with_pages() -> tuple[NodeCluster, Client, str]:
    """The queue `source` on n2 has its messages in pages, which the journal names; and their folder."""
    cluster = NodeCluster(**SMALL)
    cluster.run_until_ready()
    client = cluster.nodes["n2"].client(1)
    client.send(1, declare("source"))
    cluster.run(300)
    for start in range(0, MANY, 20):
        publish(client, "source", *(b"%d" % number + b"." * 200 for number in range(start, start + 20)))
        cluster.run(50)
    cluster.run(1000)
    queue = cluster.nodes["n2"].queue("source")
    assert any(page.is_named for page in queue.ready.stored_pages())
    return cluster, client, f"queues/{queue.queue_id}"


def restored(driver: NodeDriver, now: int) -> None:
    """The node goes on alone with what its folder says, as `amqp-broker cluster restore` makes it do."""
    driver.now = now
    go_on_alone(driver.disk, Path("nowhere"), "n2", 0, now)
    driver.start()
    for _ in range(300):
        if driver.node.is_ready:
            return
        driver.wait(10)
    raise AssertionError("the restored node does not get ready")


def test_they_go_when_the_deletion_is_synced() -> None:
    cluster, client, folder = with_pages()
    client.send(1, DELETE)
    cluster.run(1000)
    assert not cluster.nodes["n2"].disk.exists(folder)


def test_a_crash_before_the_deletion_is_synced() -> None:
    """The others have committed it; should everything begin from this folder again, the queue is in it."""
    cluster, client, folder = with_pages()
    home = cluster.nodes["n2"]
    cluster.stall("n2")
    client.send(1, DELETE)
    cluster.run(500)
    assert home.node.broker.metadata.queue("/", "source") is None
    assert home.disk.list(folder)
    cluster.kill("n2")
    restored(home, cluster.now)
    assert home.queue("source").message_count() == MANY


@pytest.mark.parametrize("steps_until_stall", [1, 2])
@pytest.mark.parametrize("steps_until_deleted", range(4))
def test_a_deletion_that_is_heard_of_at_the_start(steps_until_deleted: int, steps_until_stall: int) -> None:
    """The node gets ready with what the others tell it, and its disk has that later, if it does not crash before."""
    cluster, _, folder = with_pages()
    home = cluster.kill("n2")
    cluster.run(3000)
    client = cluster.nodes[cluster.leader()].client(1)
    cluster.revive("n2", home)
    while not home.node.replication.connected():
        cluster.step()
        for driver in cluster.nodes.values():
            driver.now += 5
            driver.node.tick(driver.now)
    for _ in range(steps_until_deleted):
        cluster.step()
    client.send(1, DELETE)
    for _ in range(steps_until_stall):
        cluster.step()
    cluster.stall("n2")
    cluster.run(3000)
    # What a file system does by itself, sooner or later.
    for each in ("queues", folder):
        with suppress(FileNotFoundError):
            home.disk.sync_folder(each)
    cluster.kill("n2")
    restored(home, cluster.now)
    source = home.node.broker.vhosts["/"].queues.get("source")
    assert source is None or source.message_count() == MANY
