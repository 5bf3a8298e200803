"""What seeds of the simulation have found, each with its cause, as a case of its own."""

from __future__ import annotations

from amqp_broker.protocol import methods
from amqp_broker.protocol.fields import Table
from tests.node.node_driver import Client, NodeDriver, consume, declare, small_config


def tiny(**settings: object) -> NodeDriver:
    """A node that pages and retires at once."""
    return NodeDriver(
        small_config(
            **{
                "page_size_bytes": 500,
                "page_segment_size_bytes": 1000,
                "journal_segment_size_bytes": 2048,
                "journal_limit_bytes": 4096,
                "memory_budget_bytes": 2000,
                "queue_head_messages": 1,
                **settings,
            }
        )
    )


def confirming(driver: NodeDriver, *declared: object) -> Client:
    client = driver.client(1)
    client.send(1, methods.ConfirmSelect(False), *declared)
    driver.settle()
    return client


def files(driver: NodeDriver, folder: str) -> list[str]:
    return [path for path in driver.disk.files() if path.startswith(folder)]


def test_a_journal_whose_live_part_is_above_its_limit_comes_to_rest() -> None:
    """Everything unacknowledged was written again in each turn, for ever: retiring a segment freed nothing."""
    driver = tiny(memory_budget_bytes=1_000_000)
    client = confirming(driver, declare("a"), consume("a"))
    for _ in range(20):
        client.publish(1, "a", b"x" * 1000)
        driver.turn()
    driver.settle()
    assert driver.queue("a").unacked == 20
    driver.wait(1000)  # what began to leave a segment does so in slices
    position = driver.node.store.journal.position
    driver.settle()
    driver.wait(1000)
    assert driver.node.store.journal.position == position


def test_many_stored_pages_are_not_named_again_for_each_segment() -> None:
    """With hundreds of pages their list alone filled a segment, so that each retirement asked for the next."""
    driver = tiny(page_size_bytes=100)
    client = confirming(driver, declare("a"))
    for _ in range(200):
        client.publish(1, "a", b"x" * 300)
        driver.turn()
    driver.settle()
    assert len(driver.queue("a").ready.stored_pages()) > 100


def test_what_one_channel_gives_back_is_not_handed_to_another_of_the_same_lost_connection() -> None:
    """The channels were closed one after the other, and a no_ack consumer of the last took what the first returned."""
    driver = NodeDriver()
    client = driver.client(1, 2)
    client.send(1, declare("a", durable=False), consume("a", "first"))
    for _ in range(5):
        client.publish(1, "a", b"x")
    client.send(2, consume("a", "second", no_ack=True))
    driver.turn()
    driver.lose(client)
    assert driver.queue("a").ready.count == 5


def test_an_ack_for_a_deleted_queue_that_had_paged_does_no_harm() -> None:
    """Its page was released after the queue's pages had been dropped: the node stopped with a KeyError."""
    driver = tiny(memory_budget_bytes=20_000)
    client = confirming(driver, declare("a"))
    for _ in range(80):
        client.publish(1, "a", b"x" * 300)
        driver.turn()
    driver.settle()
    for _ in range(5):
        client.send(1, methods.BasicGet(0, "a", False))
    driver.settle()
    tags = [event.method.delivery_tag for event in client.take() if event.method.name == "basic.get-ok"]
    assert len(tags) == 5
    client.send(1, methods.QueueDelete(0, "a", False, False, False))
    driver.settle()
    client.send(1, methods.BasicAck(tags[-1], True))
    driver.settle()
    assert files(driver, "queues/") == []
    assert driver.node.store.pager.used == 0


def test_a_deleted_queue_keeps_its_pages_until_the_deletion_is_durable() -> None:
    """They were removed at once; a crash then undid the deletion, and the node did not start without them."""
    driver = tiny()
    client = confirming(driver, declare("a"))
    for _ in range(40):
        client.publish(1, "a", b"x" * 300)
        driver.turn()
    driver.settle()
    assert files(driver, "queues/")
    client.send(1, methods.QueueDelete(0, "a", False, False, False))
    driver.turn()
    assert files(driver, "queues/")
    driver.crash()
    assert driver.queue("a").ready.count == 40


def test_a_retired_segment_is_removed_though_nothing_else_is_written() -> None:
    """Its removal waited for the next batch, which did not come while the node was idle."""
    driver = tiny()
    client = confirming(driver, declare("a"), consume("a", no_ack=False))
    for _ in range(10):
        client.publish(1, "a", b"x" * 2000)
        driver.turn()
    driver.settle()
    tags = [event.method.delivery_tag for event in client.take() if event.method.name == "basic.deliver"]
    client.send(1, methods.BasicAck(tags[-1], True))
    driver.wait(1000)
    driver.settle()
    journal = driver.node.store.journal
    segments = journal.current_segment - journal.oldest_segment + 1
    assert len(files(driver, "journal/")) in (segments, segments - 1)  # the last may be empty still


def test_pages_are_synced_with_the_entry_that_names_them_though_the_next_queue_finds_no_room() -> None:
    """Pages were synced while a segment was being retired only. Here it stays for the second queue's sake, and a crash
    took the pages of the first, which were named."""
    driver = tiny(memory_budget_bytes=1_000_000, journal_limit_bytes=1 << 40, queue_groups=1)
    driver.node.store.leave_slice, driver.node.store.leave_bytes = 10, 65_536
    client = confirming(driver, declare("a"), declare("b"))
    for _ in range(5):
        for name in ("b", "a"):  # who came last leaves first
            for _ in range(5):
                client.publish(1, name, b"x" * 300)
        driver.settle()
    journal = driver.node.store.journal
    driver.node.store.journal_limit_bytes = journal.total_bytes - 1
    while journal.oldest_segment == 1:  # the first has nothing of queues
        driver.settle()
        driver.now += 1
        driver.node.tick(driver.now)
    driver.node.store.journal_limit_bytes = 4096
    capacity = driver.disk.capacity
    driver.disk.capacity -= driver.disk.free_bytes() - 3000  # room for one queue's pages
    client.publish(1, "a", b"last")
    driver.turn()
    driver.disk.capacity = capacity
    assert driver.node.store.pager.has_no_room
    assert any(page.is_named for page in driver.queue("a").ready.stored_pages())
    driver.settle()
    assert [path for path in driver.disk.unsynced() if path.startswith("queues/")] == []
    driver.crash()
    assert (driver.queue("a").ready.count, driver.queue("b").ready.count) == (26, 25)


def test_a_journal_that_found_no_room_for_pages_is_short_again_though_nothing_is_written() -> None:
    """It was looked at after the next write only; and a segment that nothing had to leave waited for one, too."""
    driver = tiny()
    client = confirming(driver, declare("a"))
    capacity = driver.disk.capacity
    driver.disk.capacity -= driver.disk.free_bytes()
    for _ in range(20):
        client.publish(1, "a", b"x" * 1000)
    driver.turn()
    driver.disk.capacity = capacity
    driver.settle()
    assert driver.node.store.pager.has_no_room
    for _ in range(20):
        client.send(1, methods.BasicGet(0, "a", True))
    driver.wait(500)
    assert driver.node.store.journal.total_bytes > 20_000
    assert driver.node.backlog_bytes() == 0
    driver.wait(1000)
    assert not driver.node.store.pager.has_no_room
    live = driver.node.replication.host.live_bytes()
    assert driver.node.store.journal.total_bytes <= driver.config.journal_limit_bytes + 2 * live < 10_000
    on_disk = sum(driver.disk.size(path) for path in files(driver, "journal/"))
    assert on_disk <= driver.config.journal_limit_bytes + 2 * live


def test_declaring_what_another_client_has_just_declared_waits_for_its_sync() -> None:
    """The second was answered at once, and told of a durable queue that a crash would have taken."""
    driver = NodeDriver()
    first, second = driver.client(1), driver.client(1)
    first.send(1, declare("a"))
    second.send(1, declare("a"))
    driver.turn()
    assert second.names() == []
    driver.settle()
    assert second.names() == ["queue.declare-ok"]


def test_pages_of_a_transient_queue_go_though_nothing_is_written() -> None:
    """Their files waited for a sync of the journal, which nobody asked for."""
    driver = tiny()
    client = driver.client(1)
    client.send(1, declare("a", durable=False))
    for _ in range(30):
        client.publish(1, "a", b"x" * 300, persistent=False)
        driver.turn()
    assert files(driver, "queues/")
    client.send(1, methods.QueuePurge(0, "a", False))
    driver.turn()
    assert files(driver, "queues/") == []


def test_memory_that_stays_short_starves_nobody() -> None:
    """Who had been refused a delivery for want of memory was asked again only once there was plenty: with the heads of
    other queues filling it, never."""
    driver = tiny(queue_head_messages=100, memory_budget_bytes=3000)
    publisher, consumer = driver.client(1), driver.client(1)
    publisher.send(1, declare("idle", durable=False), declare("a", durable=False), declare("b", durable=False))
    for _ in range(30):
        publisher.publish(1, "idle", b"x" * 1000, persistent=False)
    consumer.send(1, consume("a", "one"), consume("b", "two"))
    for name in ("a", "b"):
        for _ in range(3):
            publisher.publish(1, name, b"x", persistent=False)
    driver.turn()
    received = 0
    for _ in range(10):
        for event in consumer.take():
            if event.method.name == "basic.deliver":
                received += 1
                consumer.send(1, methods.BasicAck(event.method.delivery_tag, False))
        driver.wait(1000)
    assert received == 6


def test_a_binding_that_comes_after_its_queue_was_removed_binds_no_later_queue_of_that_name() -> None:
    """Its command was applied while the queue's deletion was on its way: a route was left at run time that the metadata
    did not know, and that a restart took."""
    driver = NodeDriver()
    first, second = driver.client(1), driver.client(1)
    first.send(1, declare("a"))
    driver.settle()
    second.send(1, methods.QueueBind(0, "a", "amq.fanout", "", False, Table({})))
    driver.turn()
    job = driver.take_sync()
    first.send(1, methods.QueueDelete(0, "a", False, False, False))
    driver.turn()
    driver.synced(job)
    first.send(1, declare("a"))
    driver.settle()
    assert driver.queue("a").queue_id == driver.node.broker.metadata.queue("/", "a").queue_id
    assert [event.method.name for event in second.take()] == ["channel.close"]
    router = driver.node.broker.vhosts["/"].router
    assert router.get("amq.fanout").exchange.is_unused
    assert driver.node.broker.metadata.bindings("/") == []


def test_what_was_held_back_and_released_is_not_released_again_by_a_restart() -> None:
    """A node that had just begun to lead took every letter of its checkpoint for one to be sent, before it had applied
    the log behind it, which said that they were."""
    driver = NodeDriver()
    client = driver.client(1)
    delays = Table({"x-delayed-type": "fanout"})
    dead = {"x_dead_letter_exchange": "later"}
    client.send(
        1,
        methods.ExchangeDeclare(0, "later", "x-delayed-message", False, True, False, False, False, delays),
        declare("target"),
        declare("refusing", x_queue_type="quorum", **dead),
        methods.QueueBind(0, "target", "later", "", False, Table({})),
        consume("refusing"),
    )
    driver.settle()
    client.publish(1, "refusing", b"message")
    driver.settle()
    (delivery,) = [event.method for event in client.take() if event.method.name == "basic.deliver"]
    client.send(1, methods.BasicReject(delivery.delivery_tag, False))
    driver.wait(100)
    driver.settle()
    assert driver.queue("target").message_count() == 1
    for _ in range(3):
        driver.crash()
        driver.wait(100)
        assert driver.queue("target").message_count() == 1
