"""While an alarm is on nobody publishes, and everything else goes on: what makes room has to be heard."""

from __future__ import annotations

from amqp_broker.protocol import methods
from tests.node.node_driver import NodeDriver, consume, declare, publish_octets, small_config
from tests.node.one_slice import OneSlice

TOLD = ["connection.blocked"]
COUNT = methods.QueueDeclare(0, "a", True, False, False, False, False, {})


def alarmed() -> NodeDriver:
    """A node with a queue and an alarm that is on."""
    driver = NodeDriver()
    driver.client(1).send(1, declare("a", durable=False))
    driver.node.alarms.disk_full(True)
    driver.turn()
    return driver


def test_the_first_message_of_a_new_connection_waits() -> None:
    driver = alarmed()
    client = driver.client(1, capabilities=TOLD)
    driver.turn()
    assert client.names() == []
    client.publish(1, "a", b"one")
    client.publish(1, "a", b"two")
    client.send(1, COUNT)
    driver.turn()
    assert client.names() == ["connection.blocked"]
    assert client.connection.is_paused
    assert driver.queue("a").ready.count == 0
    driver.node.alarms.disk_full(False)
    driver.settle()
    assert client.names() == ["connection.unblocked", "queue.declare-ok"]
    assert not client.connection.is_paused
    assert driver.queue("a").ready.count == 2


def test_who_published_once_is_served_until_it_publishes_again() -> None:
    """Or a consumer that forwards could never acknowledge what takes the memory."""
    driver = NodeDriver()
    client = driver.client(1, capabilities=TOLD)
    client.send(1, declare("a", durable=False), consume("a"))
    for number in range(3):
        client.publish(1, "a", b"%d" % number, persistent=False)
    driver.turn()
    tags = [event.method.delivery_tag for event in client.take() if event.method.name == "basic.deliver"]
    driver.node.alarms.disk_full(True)
    driver.turn()
    assert client.names() == ["connection.blocked"]
    client.send(1, methods.BasicAck(tags[0], False))
    assert driver.queue("a").unacked == 2
    client.send(1, methods.BasicAck(tags[1], False))
    client.publish(1, "a", b"late", persistent=False)
    client.send(1, methods.BasicAck(tags[2], False), methods.BasicCancel("tag", False))
    driver.turn()
    assert driver.queue("a").unacked == 1
    assert client.names() == []
    driver.node.alarms.disk_full(False)
    driver.settle()
    assert client.names() == ["connection.unblocked", "basic.deliver", "basic.cancel-ok"]


def test_a_message_of_which_a_part_has_come_becomes_whole() -> None:
    driver = NodeDriver()
    client = driver.client(1)
    client.send(1, declare("a", durable=False))
    octets = publish_octets(1, "a", b"x" * 10_000)
    client.send_octets(octets[:5000])
    driver.node.alarms.disk_full(True)
    driver.turn()
    client.send_octets(octets[5000:] + octets)
    driver.turn()
    assert driver.queue("a").ready.count == 1
    driver.node.alarms.disk_full(False)
    driver.settle()
    assert driver.queue("a").ready.count == 2


def test_many_go_on_in_the_order_in_which_they_came() -> None:
    driver = alarmed()
    clients = [driver.client(1) for _ in range(5)]
    for number in (3, 1, 4, 0, 2):
        clients[number].publish(1, "a", b"%d" % number)
        clients[number].publish(1, "a", b"%d" % number)
    driver.turn()
    driver.lose(clients[4])
    driver.node.alarms.disk_full(False)
    driver.settle()
    reader = driver.client(1)
    reader.send(1, consume("a", no_ack=True))
    driver.turn()
    assert [event.body for event in reader.take() if event.body] == [b"3", b"3", b"1", b"1", b"0", b"0", b"2", b"2"]


def test_what_waits_at_an_alarm_hears_a_shutdown() -> None:
    driver = alarmed()
    client = driver.client(1)
    client.publish(1, "a", b"one")
    driver.turn()
    assert client.connection.is_paused
    driver.node.shut_down(driver.now)
    driver.turn()
    assert client.names() == ["connection.close"]
    assert not client.connection.is_paused
    client.send(0, methods.ConnectionCloseOk())
    driver.turn()
    assert client.is_closed
    assert driver.queue("a").ready.count == 0


def test_a_turn_looks_at_none_that_have_nothing_to_do_with_it() -> None:
    """Whoever waits for an answer, however many others are there: the driver hears of that one, and others are not
    even looked at."""
    driver = NodeDriver(small_config(max_connections=1000))
    others = [driver.client(1) for _ in range(50)]
    client = driver.client(1)

    class Trap:
        def __getattr__(self, name: str) -> object:
            raise AssertionError(f"a turn has gone over all connections: {name}")

    for other in others:
        driver.node.clients.connections[other.connection.number] = Trap()  # type: ignore[assignment]
    client.send(1, declare("a"))
    turn = driver.turn()
    assert turn.reading == [client.connection]
    driver.settle()
    driver.wait(5000)
    assert client.names() == ["queue.declare-ok"]
    assert not others[0].connection.is_paused


def test_very_many_publishers_are_told_in_slices() -> None:
    """Each hears what is true when it is its turn: who has not heard of an alarm does not hear of its end."""
    driver = NodeDriver()
    clients = [driver.client(1, capabilities=TOLD) for _ in range(100)]
    clients[0].send(1, declare("a", durable=False))
    for client in clients:
        client.publish(1, "a", b"x", persistent=False)
    driver.settle()
    for client in clients:
        client.take()
    driver.node.background.set_pace(OneSlice())
    driver.node.alarms.disk_full(True)
    driver.turn()
    assert [client.names() for client in clients].count(["connection.blocked"]) == 32
    driver.turn()
    assert [client.names() for client in clients].count(["connection.blocked"]) == 32
    driver.node.alarms.disk_full(False)
    for _ in range(10):
        driver.turn()
    assert [client.names() for client in clients].count(["connection.unblocked"]) == 64
    driver.node.alarms.disk_full(True)
    for _ in range(10):
        driver.turn()
    assert all(client.names() == ["connection.blocked"] for client in clients)
