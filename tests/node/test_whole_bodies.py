"""A body in one frame that comes at once: taken whole, the same as in pieces, and no longer than was negotiated."""

from __future__ import annotations

import pytest

from amqp_broker.protocol import methods
from amqp_broker.protocol.constants import ReplyCode
from tests.node.node_driver import Client, NodeDriver, consume, declare, handshake_octets, publish_octets

FRAME_MAX = 131_072


def client_with(driver: NodeDriver, frame_max: int) -> Client:
    client = driver.raw_client()
    client.send_octets(handshake_octets(frame_max=frame_max))
    client.send(1, methods.ChannelOpen())
    driver.turn()
    assert "connection.open-ok" in client.names()
    return client


@pytest.mark.parametrize("size", [1, 16_383, 16_384, 16_385, 65_536, FRAME_MAX - 8])
@pytest.mark.parametrize("frame_max", [4096, FRAME_MAX])
def test_at_once_or_in_pieces(size: int, frame_max: int) -> None:
    driver = NodeDriver()
    publisher, consumer = client_with(driver, FRAME_MAX), client_with(driver, frame_max)
    consumer.send(1, declare("a", durable=False))
    consumer.send(1, consume("a", no_ack=True))
    body = bytes(range(256)) * (size // 256 + 1)
    octets = publish_octets(1, "a", body[:size], persistent=False, split=FRAME_MAX)
    for cut in (0, 1, len(octets) - size - 8, len(octets) - size, len(octets) - 1):
        for piece in (octets[:cut], octets[cut:]):
            publisher.send_octets(piece)
    publisher.send_octets(octets * 3)
    driver.turn()
    heard = [event for event in consumer.take() if event.method.name == "basic.deliver"]
    assert len(heard) == 8
    assert all(event.body == body[:size] for event in heard)
    assert driver.node.store.pager.assembling == 0


@pytest.mark.parametrize("size", [5000, 20_000])
@pytest.mark.parametrize("is_split", [False, True])
def test_a_frame_above_the_negotiated_size_is_refused(size: int, is_split: bool) -> None:
    driver = NodeDriver()
    client = client_with(driver, 4096)
    client.send(1, declare("a", durable=False))
    driver.turn()
    client.take()
    octets = publish_octets(1, "a", b"x" * size, persistent=False, split=size)
    for piece in (octets[:-1], octets[-1:]) if is_split else (octets,):
        client.send_octets(piece)
    driver.turn()
    closes = [event.method for event in client.take() if isinstance(event.method, methods.ConnectionClose)]
    assert [close.reply_code for close in closes] == [ReplyCode.FRAME_ERROR]
    assert driver.queue("a").ready.count == 0


@pytest.mark.parametrize("split", [1, 17, 500, 2000])
@pytest.mark.parametrize("size", [16_384, 100_001])
def test_a_body_that_came_in_crumbs_waits_in_few_pieces(size: int, split: int) -> None:
    """A piece takes fifty octets besides, which nobody counts."""
    driver = NodeDriver()
    client = client_with(driver, FRAME_MAX)
    client.send(1, declare("a", durable=False))
    body = bytes(range(256)) * (size // 256 + 1)
    client.send_octets(publish_octets(1, "a", body[:size], persistent=False, split=split) * 2)
    driver.turn()
    ready = driver.queue("a").ready
    for entry in ready.head:
        assert len(entry.message.body) <= size // 1000 + 1
    client.send(1, consume("a", no_ack=True))
    driver.turn()
    delivered = [event.body for event in client.take() if event.method.name == "basic.deliver"]
    assert delivered == [body[:size]] * 2
