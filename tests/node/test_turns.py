"""The turn protocol: what is answered when, and what one sync covers."""

from __future__ import annotations

import pytest

from amqp_broker.node import LAZY_SYNC_MS
from amqp_broker.protocol import methods
from storage.errors import SyncFailed
from storage.journal import ROOM_BYTES
from tests.node.node_driver import Client, NodeDriver, declare, publish_octets


def confirms(client: Client) -> list[tuple[str, int, bool]]:
    """(ack or nack, delivery tag, multiple) of the confirms heard."""
    return [
        (event.method.name.removeprefix("basic."), event.method.delivery_tag, event.method.multiple)
        for event in client.take()
        if event.method.name in ("basic.ack", "basic.nack")
    ]


def confirming(driver: NodeDriver, *queues: object) -> Client:
    client = driver.client(1)
    client.send(1, methods.ConfirmSelect(False), *queues)
    driver.settle()
    client.take()
    return client


def test_a_durable_declaration_is_answered_after_its_sync_and_holds_up_what_follows() -> None:
    driver = NodeDriver()
    client = driver.client(1)
    client.send(1, declare("a"), methods.BasicQos(0, 1, False))
    turn = driver.turn()
    assert turn.wants_sync
    assert client.connection.is_paused
    assert client.names() == []
    job = driver.take_sync()
    job.run()
    assert client.names() == []
    driver.node.synced(job, driver.now)
    driver.turn()
    assert client.names() == ["queue.declare-ok", "basic.qos-ok"]
    assert not client.connection.is_paused


def test_a_transient_declaration_is_answered_at_once() -> None:
    driver = NodeDriver()
    client = driver.client(1)
    client.send(1, declare("a", durable=False))
    driver.turn()
    assert client.names() == ["queue.declare-ok"]


def test_a_declaration_taken_in_flight_waits_for_the_next_sync() -> None:
    driver = NodeDriver()
    first, second = driver.client(1), driver.client(1)
    first.send(1, declare("a"))
    driver.turn()
    job = driver.take_sync()
    second.send(1, declare("b"))
    driver.turn()
    driver.synced(job)
    assert first.names() == ["queue.declare-ok"]
    assert second.names() == []
    driver.synced(driver.take_sync())
    assert second.names() == ["queue.declare-ok"]


def test_confirms_of_a_turn_come_as_one_after_its_sync() -> None:
    driver = NodeDriver()
    client = confirming(driver, declare("a"))
    client.send_octets(b"".join(publish_octets(1, "a", b"%d" % number) for number in range(10)))
    assert driver.turn().wants_sync
    assert confirms(client) == []
    driver.synced(driver.take_sync())
    assert confirms(client) == [("ack", 10, True)]


def test_transient_messages_are_confirmed_at_the_end_of_their_turn() -> None:
    driver = NodeDriver()
    client = confirming(driver, declare("a"))
    client.publish(1, "a", b"x", persistent=False)
    assert not driver.turn().wants_sync
    assert confirms(client) == [("ack", 1, False)]


def test_a_transient_message_behind_a_persistent_one_waits_for_its_turn() -> None:
    """Confirms leave in the order of publication."""
    driver = NodeDriver()
    client = confirming(driver, declare("a"))
    client.publish(1, "a", b"x")
    driver.turn()
    client.publish(1, "a", b"y", persistent=False)
    driver.turn()
    assert confirms(client) == []
    driver.synced(driver.take_sync())
    assert confirms(client) == [("ack", 2, True)]


def test_a_nack_stands_between_the_acks() -> None:
    driver = NodeDriver()
    full = declare("full", durable=False, x_max_length=1, x_overflow="reject-publish")
    client = confirming(driver, declare("a", durable=False), full)
    for queue in ("a", "a", "full", "full", "a", "a"):
        client.publish(1, queue, b"x")
    driver.turn()
    assert confirms(client) == [("ack", 3, True), ("nack", 4, False), ("ack", 6, True)]


def test_one_sync_serves_every_connection_and_declarations_too() -> None:
    driver = NodeDriver()
    first = confirming(driver, declare("a"))
    second = confirming(driver)
    third = driver.client(1)
    before = driver.disk.sync_count
    first.publish(1, "a", b"x")
    second.publish(1, "a", b"y")
    third.send(1, declare("b"))
    driver.turn()
    driver.synced(driver.take_sync())
    assert confirms(first) == [("ack", 1, False)]
    assert confirms(second) == [("ack", 1, False)]
    assert third.names() == ["queue.declare-ok"]
    assert driver.disk.sync_count - before == 1


def test_what_arrives_while_a_sync_runs_forms_the_next_group() -> None:
    driver = NodeDriver()
    client = confirming(driver, declare("a"))
    client.publish(1, "a", b"x")
    driver.turn()
    job = driver.take_sync()
    for _ in range(3):
        client.publish(1, "a", b"y")
        driver.turn()
    driver.synced(job)
    assert confirms(client) == [("ack", 1, False)]
    driver.synced(driver.take_sync())
    assert confirms(client) == [("ack", 4, True)]


def test_tx_commit_is_answered_after_its_sync() -> None:
    driver = NodeDriver()
    client = driver.client(1)
    client.send(1, declare("a"))
    driver.settle()
    client.send(1, methods.TxSelect())
    client.publish(1, "a", b"x")
    driver.turn()
    assert driver.queue("a").ready.count == 0
    client.take()
    client.send(1, methods.TxCommit())
    driver.turn()
    assert driver.queue("a").ready.count == 1
    assert client.names() == []
    driver.synced(driver.take_sync())
    assert client.names() == ["tx.commit-ok"]


def test_settlements_that_nobody_waits_for_are_written_soon() -> None:
    driver = NodeDriver()
    client = confirming(driver, declare("a"))
    client.publish(1, "a", b"x")
    driver.settle()
    client.send(1, methods.BasicGet(0, "a", True))
    turn = driver.turn()
    assert not turn.wants_sync
    assert turn.next_deadline is not None
    driver.now += LAZY_SYNC_MS
    assert driver.turn().wants_sync


def test_what_a_running_sync_took_along_is_not_due_again() -> None:
    driver = NodeDriver()
    client = confirming(driver, declare("a"))
    client.publish(1, "a", b"x")
    driver.settle()
    client.send(1, methods.BasicGet(0, "a", True))
    turn = driver.turn()
    assert turn.next_deadline is not None
    driver.now += LAZY_SYNC_MS
    assert driver.turn().wants_sync
    job = driver.take_sync()
    driver.turn()  # the settlement is not on the disk yet, and nobody waits for it
    driver.synced(job)
    driver.now += 1000
    driver.node.tick(driver.now)
    turn = driver.turn()
    assert not turn.wants_sync
    assert turn.next_deadline is not None
    assert turn.next_deadline > driver.now


def test_a_failed_sync_confirms_nothing_and_cannot_be_tried_again() -> None:
    driver = NodeDriver()
    client = confirming(driver, declare("a"))
    client.publish(1, "a", b"x")
    driver.turn()
    driver.disk.fail_sync_at = 1
    job = driver.take_sync()
    with pytest.raises(SyncFailed):
        job.run()
    with pytest.raises(SyncFailed):
        job.run()
    driver.turn()
    assert confirms(client) == []


def test_a_full_disk_lets_the_job_run_again_when_there_is_room() -> None:
    driver = NodeDriver()
    client = confirming(driver, declare("a"))
    client.publish(1, "a", b"x" * ROOM_BYTES)  # more than the journal has room for
    driver.turn()
    job = driver.take_sync()
    room = driver.disk.capacity
    driver.disk.capacity = room - driver.disk.free_bytes() + 100
    with pytest.raises(OSError, match="No space left"):
        job.run()
    driver.disk.capacity = room
    driver.synced(job)
    assert confirms(client) == [("ack", 1, False)]
    driver.crash()
    assert driver.queue("a").ready.count == 1
