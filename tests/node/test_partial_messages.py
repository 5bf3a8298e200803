"""Messages of which a part has come: they are counted, bounded, and never block themselves."""

from __future__ import annotations

from amqp_broker.protocol import methods
from amqp_broker.protocol.constants import ReplyCode
from tests.node.node_driver import Client, NodeDriver, declare, publish_octets, small_config

BODY = b"x" * 40_000


FRAME = 4096


def begin(client: Client, channel_id: int = 1, frames: int = 7) -> bytes:
    """Send the beginning of a message, up to the end of a body frame; the rest of it is returned."""
    whole = publish_octets(channel_id, "a", BODY, persistent=False)
    start = len(whole) - len(BODY) - 8 * -(-len(BODY) // (FRAME - 8)) + frames * FRAME
    client.send_octets(whole[:start])
    return whole[start:]


def close_of(client: Client) -> methods.ChannelClose:
    found = [event.method for event in client.take() if isinstance(event.method, methods.ChannelClose)]
    assert len(found) == 1
    return found[0]


def test_they_are_counted_until_they_are_whole_or_given_up() -> None:
    driver = NodeDriver()
    pager = driver.node.store.pager
    clients = [driver.client(1, 2) for _ in range(4)]
    clients[0].send(1, declare("a", durable=False))
    rests = [begin(client) for client in clients]
    begin(clients[3], 2)
    assert 5 * 28_000 < pager.assembling < 5 * 30_000
    clients[0].send_octets(rests[0])
    assert 4 * 28_000 < pager.assembling < 4 * 30_000
    assert driver.queue("a").ready.count == 1
    driver.lose(clients[1])
    clients[2].send_octets(rests[2][:100])
    clients[2].send_octets(b"\x09" * FRAME)
    clients[3].send(0, methods.ConnectionClose(200, "", 0, 0))
    driver.turn()
    assert pager.assembling == 0


def test_the_one_that_has_taken_longest_is_refused() -> None:
    driver = NodeDriver(small_config(max_partial_messages_bytes=100_000))
    slow, others = driver.client(1, 2), [driver.client(1) for _ in range(3)]
    slow.send(2, declare("a", durable=False))
    rest_of_slow = begin(slow)
    rests = [begin(client) for client in others]
    driver.turn()
    close = close_of(slow)
    assert close.reply_code == ReplyCode.CONTENT_TOO_LARGE
    assert close.reply_text.startswith("CONTENT_TOO_LARGE - messages received in part hold ")
    assert (close.class_id, close.method_id) == (60, 40)
    slow.send_octets(rest_of_slow)
    slow.send(1, methods.ChannelCloseOk())
    for client, rest in zip(others, rests, strict=True):
        client.send_octets(rest)
    slow.publish(2, "a", BODY, persistent=False)
    assert driver.queue("a").ready.count == 4
    assert driver.node.store.pager.assembling == 0


def test_two_channels_of_one_connection() -> None:
    """The refusal of one in the middle of a frame of the other; then the other is the oldest."""
    driver = NodeDriver(small_config(max_partial_messages_bytes=40_000))
    client, other = driver.client(1, 2), driver.client(1)
    client.send(1, declare("a", durable=False))
    begin(client, 1)
    rest = begin(client, 2, 1)
    begin(other, 1, 4)
    driver.turn()
    assert "channel.close" in client.names()
    client.send_octets(rest)
    driver.turn()
    assert close_of(client).reply_code == ReplyCode.CONTENT_TOO_LARGE
    assert client.connection.channels[1].is_closing
    assert client.connection.channels[2].is_closing
    assert 16_000 < driver.node.store.pager.assembling < 17_001


def test_one_alone_is_never_refused() -> None:
    driver = NodeDriver(small_config(max_partial_messages_bytes=1000))
    client = driver.client(1)
    client.send(1, declare("a", durable=False))
    client.send_octets(begin(client))
    assert driver.queue("a").ready.count == 1


def test_the_budget_sees_them() -> None:
    """Queues make room by paging; above the budget they are counted by the alarm, but alone they never turn it on."""
    driver = NodeDriver(small_config(memory_budget_bytes=100_000, page_size_bytes=4096, queue_head_size_bytes=4096))
    node = driver.node
    publisher, partial = driver.client(1), [driver.client(1) for _ in range(8)]
    publisher.send(1, declare("a", durable=False))
    for _ in range(20):
        publisher.publish(1, "a", b"y" * 2000, persistent=False)
    driver.turn()
    assert node.store.pager.used > 40_000
    rests = [begin(client) for client in partial]
    driver.turn()
    driver.turn()
    assert node.store.pager.used < 20_000
    driver.wait(2000)
    assert not node.alarms.is_on
    for client, rest in zip(partial, rests, strict=True):
        client.send_octets(rest)
        driver.turn()
    assert driver.queue("a").ready.count == 28
