"""Back-pressure: consumers by their output, publishers by the disk's backlog and the alarms."""

from __future__ import annotations

from amqp_broker.metadata import commands
from amqp_broker.protocol import methods
from amqp_broker.protocol.fields import Table
from exchanges.registry import create_exchange
from tests.node.node_driver import Client, NodeDriver, consume, declare, small_config
from tests.node.one_slice import OneSlice

#: So many clients wait for memory, and so many of them go on at once when there is some.
SHORT = 100
AT_ONCE = 32


def deliveries(client: Client) -> int:
    """How many basic.deliver were heard since the last look."""
    return client.names().count("basic.deliver")


def test_deliveries_stop_at_the_output_limit_and_go_on_when_it_is_taken() -> None:
    driver = NodeDriver(small_config(output_limit_bytes=1000))
    publisher, consumer = driver.client(1), driver.client(1)
    publisher.send(1, declare("a", durable=False))
    for _ in range(20):
        publisher.publish(1, "a", b"x" * 200, persistent=False)
    consumer.send(1, consume("a", no_ack=True))
    assert consumer.connection.is_starved
    driver.turn()
    first = deliveries(consumer)
    assert 0 < first < 8
    total = first
    while consumer.connection.is_starved:
        driver.node.writable(consumer.connection, driver.now)
        driver.turn()
        total += deliveries(consumer)
    assert total == 20


def test_who_has_waited_for_memory_gets_more_in_slices() -> None:
    """One client holds nearly all of the memory, and many others hold the one message that each may."""
    driver = NodeDriver(small_config(memory_budget_bytes=20_000))
    hog = driver.client(1)
    hog.send(1, declare("hog", durable=False), consume("hog"))
    for _ in range(2):
        hog.publish(1, "hog", bytes(20_100), persistent=False)
    driver.settle()
    consumers = [driver.client(1) for _ in range(SHORT)]
    for number, consumer in enumerate(consumers):
        consumer.send(1, declare(f"q{number}", durable=False), consume(f"q{number}"))
        for _ in range(2):
            consumer.publish(1, f"q{number}", b"x", persistent=False)
    driver.settle()
    assert sum(map(deliveries, consumers)) == SHORT
    hog.send(1, methods.BasicAck(0, True))
    driver.settle()
    driver.node.background.set_pace(OneSlice())
    driver.now += 1000
    driver.node.tick(driver.now)
    fed: list[int] = []
    while driver.node.background.jobs or not fed:
        driver.turn()
        fed.append(sum(map(deliveries, consumers)))
    assert sum(fed) == SHORT
    assert max(fed) <= AT_ONCE


def test_a_full_transport_gets_no_deliveries_until_it_is_writable() -> None:
    driver = NodeDriver()
    publisher, consumer = driver.client(1), driver.client(1)
    publisher.send(1, declare("a", durable=False))
    consumer.send(1, consume("a"))
    driver.turn()
    consumer.take()
    driver.node.unwritable(consumer.connection)
    publisher.publish(1, "a", b"x")
    driver.turn()
    assert consumer.names() == []
    assert driver.queue("a").ready.count == 1
    driver.node.writable(consumer.connection, driver.now)
    driver.turn()
    assert consumer.names() == ["basic.deliver"]


def test_a_full_transport_takes_nothing_from_other_consumers() -> None:
    driver = NodeDriver()
    publisher, full, other = driver.client(1), driver.client(1), driver.client(1)
    publisher.send(1, declare("a", durable=False))
    full.send(1, consume("a"))
    other.send(1, consume("a"))
    driver.turn()
    other.take()
    driver.node.unwritable(full.connection)
    for _ in range(4):
        publisher.publish(1, "a", b"x")
    driver.turn()
    assert deliveries(other) == 4


def test_publishers_are_paused_while_the_disk_is_behind() -> None:
    driver = NodeDriver(small_config(publish_backlog_bytes=1000))
    publisher, consumer = driver.client(1), driver.client(1)
    publisher.send(1, declare("a"))
    driver.settle()
    publisher.publish(1, "a", b"x" * 2000)
    turn = driver.turn()
    assert not publisher.connection.is_paused, "it may have something else to say"
    publisher.publish(1, "a", b"y")
    turn = driver.turn()
    assert turn.reading == [publisher.connection]
    assert publisher.connection.is_paused
    assert not consumer.connection.is_paused
    assert driver.node.backlog_bytes() > 1000
    if turn.wants_sync:
        driver.synced(driver.take_sync())
    else:
        driver.wait(100)
    driver.settle()
    assert not publisher.connection.is_paused
    assert driver.queue("a").ready.count == 2


def test_an_alarm_blocks_publishers_and_tells_them_once() -> None:
    driver = NodeDriver()
    publisher = driver.client(1, capabilities=["connection.blocked"])
    idle = driver.client(1, capabilities=["connection.blocked"])
    silent = driver.client(1)
    publisher.send(1, declare("a"))
    driver.settle()
    for client in (publisher, silent):
        client.publish(1, "a", b"x")
    driver.settle()
    publisher.take()
    driver.node.alarms.disk_full(True)
    driver.turn()
    driver.turn()
    events = publisher.take()
    assert [event.method.name for event in events] == ["connection.blocked"]
    assert events[0].method.reason == "low on disk"
    assert "connection.blocked" not in silent.names()
    assert not publisher.connection.is_paused
    for client in (publisher, silent):
        client.publish(1, "a", b"y")
    driver.turn()
    assert publisher.connection.is_paused
    assert silent.connection.is_paused
    assert "connection.blocked" not in idle.names()
    assert not idle.connection.is_paused
    driver.node.alarms.disk_full(False)
    driver.settle()
    assert publisher.names() == ["connection.unblocked"]
    assert not publisher.connection.is_paused
    assert driver.queue("a").ready.count == 4


def test_memory_that_cannot_be_paged_raises_the_memory_alarm() -> None:
    driver = NodeDriver(small_config(memory_budget_bytes=10_000))
    publisher = driver.client(1, capabilities=["connection.blocked"])
    consumer = driver.client(1)
    publisher.send(1, declare("a", durable=False))
    consumer.send(1, consume("a"))
    for _ in range(30):
        publisher.publish(1, "a", b"x" * 1000)
    driver.turn()
    publisher.take()
    driver.wait(1000)
    assert "connection.blocked" in publisher.names()
    while driver.node.store.pager.used:
        tags = [event.method.delivery_tag for event in consumer.take() if event.method.name == "basic.deliver"]
        if tags:
            consumer.send(1, methods.BasicAck(tags[-1], True))
        driver.wait(1000)
    driver.wait(1000)
    assert "connection.unblocked" in publisher.names()


def test_a_queue_that_pages_and_finds_the_disk_full_keeps_its_messages() -> None:
    driver = NodeDriver(small_config(memory_budget_bytes=4000, page_size_bytes=1000, queue_head_messages=1))
    client = driver.client(1)
    client.send(1, declare("a", durable=False))
    driver.disk.capacity -= driver.disk.free_bytes()
    for number in range(20):
        client.publish(1, "a", b"%d:" % number + b"x" * 400, persistent=False)
    driver.turn()
    assert driver.queue("a").ready.count == 20
    assert driver.node.alarms.is_on
    driver.disk.capacity = 1 << 40
    driver.wait(1000)
    assert not driver.node.store.pager.has_no_room
    for _ in range(20):
        client.send(1, methods.BasicGet(0, "a", True))
    driver.turn()
    bodies = [event.body for event in client.take() if event.method.name == "basic.get-ok"]
    assert [int(body.partition(b":")[0]) for body in bodies] == list(range(20))
    assert driver.node.store.pager.used == 0


def test_the_heads_of_very_many_queues_go_to_disk_too() -> None:
    """None of them is long, and together they are above the budget."""
    driver = NodeDriver(small_config(memory_budget_bytes=100_000))
    publisher, consumer = driver.client(1), driver.client(1)
    names = [f"queue-{number}" for number in range(60)]
    for name in names:
        publisher.send(1, declare(name, x_max_priority=2) if name.endswith("7") else declare(name))
    driver.settle()
    # Below the share of the budget at which new messages leave out the head.
    driver.node.store.pager.tight_bytes = 1 << 40
    for index in range(4):
        for name in names:
            publisher.publish(1, name, b"%d" % index * 1000)
    driver.node.store.pager.tight_bytes = 60_000
    assert driver.node.store.pager.used > 200_000
    for _ in range(5):
        driver.wait(200)
    assert driver.node.store.pager.used <= 100_000
    assert not driver.node.alarms.is_on
    consumer.send(1, *(consume(name, name, no_ack=True) for name in names))
    driver.settle()
    bodies = [event.body[:1] for event in consumer.take() if event.method.name == "basic.deliver"]
    assert bodies == [b"0", b"1", b"2", b"3"] * 60


def test_the_limit_of_exchanges_is_the_nodes() -> None:
    driver = NodeDriver(small_config(max_exchanges=2))
    client = driver.client(1)
    driver.node.broker.propose(commands.put_vhost("other"))
    driver.settle()
    driver.node.broker.vhosts["other"].router.add("theirs", create_exchange("fanout", {}))
    for name in ("one", "two"):
        client.send(1, methods.ExchangeDeclare(0, name, "fanout", False, False, False, False, False, Table({})))
    driver.settle()
    assert client.names() == ["exchange.declare-ok", "channel.close"]
