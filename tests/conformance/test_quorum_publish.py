"""Quorum queues: publishing, confirms, transactions, limits, duplicates."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.conformance.quorum import declare, ours_only, take
from tests.conformance.wire import Connection
from tests.conformance.wire_channel import Channel

Named = Callable[[str], str]
Connect = Callable[..., Connection]


@pytest.fixture
def queue(channel: Channel, named: Named) -> str:
    return declare(channel, named("queue"))


@pytest.fixture
def confirming(connection: Connection) -> Channel:
    channel = connection.channel()
    channel.call("confirm.select")
    return channel


@pytest.mark.holds("quorum queue: publisher confirms, in order")
@pytest.mark.parametrize("delivery_mode", [1, 2], ids=["transient", "persistent"])
def test_publishes_are_confirmed(confirming: Channel, channel: Channel, queue: str, delivery_mode: int) -> None:
    """Transient ones are replicated like all others."""
    for number in range(20):
        confirming.publish("", queue, str(number).encode(), delivery_mode=delivery_mode)
    assert {each.name for each in confirming.expect_confirms(20)} == {"basic.ack"}
    assert channel.get_bodies(queue) == [str(number).encode() for number in range(20)]


@pytest.mark.octets_too_slow
@pytest.mark.holds("quorum queue: bodies of any size, octet for octet, with their properties")
@pytest.mark.parametrize("size", [0, 1, 16_383, 16_384, 131_072, 3_000_000])
def test_bodies_of_all_sizes(confirming: Channel, channel: Channel, queue: str, size: int) -> None:
    """Several frames, several chunks."""
    body = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    confirming.publish("", queue, body, content_type="a/b", headers={"n": 1}, priority=3, message_id="m")
    confirming.expect_confirms(1)
    message = take(channel, queue)
    assert message.body == body
    assert message.properties == {
        "content_type": "a/b", "headers": {"n": 1}, "priority": 3, "message_id": "m"
    }  # fmt: skip


@pytest.mark.holds("quorum queue: mandatory returns what no queue gets, before the confirm")
def test_mandatory(confirming: Channel, queue: str, named: Named) -> None:
    """What a quorum queue gets is not returned."""
    confirming.publish("", named("nobody"), b"back", mandatory=True)
    confirming.publish("", queue, b"kept", mandatory=True)
    assert confirming.expect_message("basic.return").body == b"back"
    assert {each.name for each in confirming.expect_confirms(2)} == {"basic.ack"}


@pytest.mark.holds("quorum queue: one message to several quorum and classic queues is confirmed when all have it")
def test_a_mix_of_queues(confirming: Channel, channel: Channel, named: Named) -> None:
    """A fanout to both types, in several groups."""
    exchange = named("exchange")
    channel.call("exchange.declare", exchange=exchange, type="fanout")
    queues = [declare(channel, named("quorum")) for _ in range(9)] + [channel.declare(named("classic"), durable=True)]
    for each in queues:
        channel.call("queue.bind", queue=each, exchange=exchange)
    for number in range(5):
        confirming.publish(exchange, "", str(number).encode(), delivery_mode=2)
    assert {each.name for each in confirming.expect_confirms(5)} == {"basic.ack"}
    for each in queues:
        assert channel.get_bodies(each) == [b"0", b"1", b"2", b"3", b"4"]


@pytest.mark.holds("quorum queue: topic and headers exchanges, CC and BCC lead to it")
def test_other_exchanges(confirming: Channel, channel: Channel, queue: str, named: Named) -> None:
    """The long way of a publish is confirmed too."""
    topic, headers = named("topic"), named("headers")
    channel.call("exchange.declare", exchange=topic, type="topic")
    channel.call("exchange.declare", exchange=headers, type="headers")
    channel.call("queue.bind", queue=queue, exchange=topic, routing_key="a.#")
    channel.call("queue.bind", queue=queue, exchange=headers, arguments={"x-match": "all", "colour": "red"})
    confirming.publish(topic, "a.b", b"1")
    confirming.publish(headers, "", b"2", headers={"colour": "red"})
    confirming.publish("", "nobody", b"3", headers={"CC": [queue]})
    confirming.publish("", "nobody", b"4", headers={"BCC": [queue]})
    confirming.publish(topic, "b.b", b"5")
    assert {each.name for each in confirming.expect_confirms(5)} == {"basic.ack"}
    assert channel.get_bodies(queue) == [b"1", b"2", b"3", b"4"]


@pytest.mark.holds("quorum queue: x-overflow reject-publish nacks what is too much")
def test_reject_publish(confirming: Channel, channel: Channel, named: Named) -> None:
    """Exactly, and the queue keeps what it had."""
    queue = declare(channel, named("queue"), x_max_length=2, x_overflow="reject-publish")
    for number in range(5):
        confirming.publish("", queue, str(number).encode())
    nacked = [each.delivery_tag for each in confirming.expect_confirms(5) if each.name == "basic.nack"]
    assert nacked == [3, 4, 5]
    assert channel.get_bodies(queue) == [b"0", b"1"]


@pytest.mark.holds("quorum queue: a publish that one of its queues refuses is nacked")
def test_one_queue_refuses(confirming: Channel, channel: Channel, named: Named) -> None:
    """The others have it."""
    exchange = named("exchange")
    channel.call("exchange.declare", exchange=exchange, type="fanout")
    full = declare(channel, named("full"), x_max_length=1, x_overflow="reject-publish")
    free = declare(channel, named("free"))
    classic = channel.declare(named("classic"), durable=True)
    for each in (full, free, classic):
        channel.call("queue.bind", queue=each, exchange=exchange)
    for number in range(2):
        confirming.publish(exchange, "", str(number).encode(), delivery_mode=2)
    confirms = confirming.expect_confirms(2)
    assert [(each.name, each.delivery_tag) for each in confirms] == [("basic.ack", 1), ("basic.nack", 2)]
    assert channel.get_bodies(full) == [b"0"]
    assert channel.get_bodies(free) == channel.get_bodies(classic) == [b"0", b"1"]


@pytest.mark.holds("quorum queue: x-max-length, x-max-length-bytes drop the oldest")
@pytest.mark.parametrize("limit", [{"x_max_length": 2}, {"x_max_length_bytes": 6}], ids=["messages", "octets"])
def test_drop_head(connection: Connection, channel: Channel, named: Named, limit: dict[str, int]) -> None:
    """Of what is ready."""
    queue = declare(channel, named("queue"), **limit)
    connection.fill(queue, b"aaa", b"bbb", b"ccc", b"ddd")
    assert channel.get_bodies(queue) == [b"ccc", b"ddd"]


@ours_only
@pytest.mark.holds("quorum queue: x-max-priority, higher first")
def test_priorities(connection: Connection, channel: Channel, named: Named) -> None:
    """In order within a priority; above the maximum is the maximum."""
    queue = declare(channel, named("queue"), x_max_priority=3)
    for body, priority in ((b"1", 0), (b"2", 3), (b"3", 1), (b"4", 9), (b"5", 1)):
        connection.fill(queue, body, priority=priority)
    assert channel.get_bodies(queue) == [b"2", b"4", b"3", b"5", b"1"]


@pytest.mark.octets_too_slow
@pytest.mark.holds("quorum queue: x-message-ttl and expiration, the lower counts")
def test_ttl(connection: Connection, channel: Channel, named: Named) -> None:
    """What has expired is gone."""
    queue = declare(channel, named("queue"), x_message_ttl=60_000)
    connection.fill(queue, b"short", expiration="300")
    connection.fill(queue, b"long")
    connection.let_pass(600)
    assert channel.counts(queue) == (1, 0)
    assert channel.get_bodies(queue) == [b"long"]


@ours_only
@pytest.mark.holds("quorum queue: headers x-producer-id and x-producer-sequence publish once")
@pytest.mark.parametrize("is_text", [False, True], ids=["number", "text"])
def test_a_producer_publishes_again(
    confirming: Channel, channel: Channel, queue: str, named: Named, is_text: bool
) -> None:
    """What is published again is confirmed and not there twice; another producer counts for itself."""
    mine, other = named("producer"), named("producer")
    for producer, sequence, body in (
        (mine, 1, b"1"), (mine, 2, b"2"), (mine, 2, b"2"), (mine, 1, b"1"), (other, 1, b"other"), (mine, 3, b"3"),
    ):  # fmt: skip
        number = str(sequence) if is_text else sequence
        confirming.publish("", queue, body, headers={"x-producer-id": producer, "x-producer-sequence": number})
    assert {each.name for each in confirming.expect_confirms(6)} == {"basic.ack"}
    message = take(channel, queue)
    assert message.headers == {"x-producer-id": mine, "x-producer-sequence": "1" if is_text else 1}
    assert [message.body, *channel.get_bodies(queue)] == [b"1", b"2", b"other", b"3"]


@ours_only
@pytest.mark.holds("quorum queue: x-message-deduplication recognises message-ids within its window")
def test_a_message_id_comes_again(confirming: Channel, channel: Channel, named: Named) -> None:
    """Of the last two; a message without one is always new."""
    queue = declare(channel, named("queue"), x_message_deduplication=2)
    for message_id in ("a", "b", "a", "c", "a", None, None):
        properties = {} if message_id is None else {"message_id": message_id}
        confirming.publish("", queue, (message_id or "none").encode(), **properties)
    assert {each.name for each in confirming.expect_confirms(7)} == {"basic.ack"}
    assert channel.get_bodies(queue) == [b"a", b"b", b"c", b"a", b"none", b"none"]


@ours_only
@pytest.mark.octets_too_slow
@pytest.mark.holds("quorum queue: x-deduplication-ttl ends the window by time")
def test_the_window_has_an_end(connection: Connection, channel: Channel, named: Named) -> None:
    """Then the same id is new."""
    queue = declare(channel, named("queue"), x_message_deduplication=True, x_deduplication_ttl=200)
    connection.fill(queue, b"1", b"1", message_id="a")
    connection.let_pass(400)
    connection.fill(queue, b"2", message_id="a")
    assert channel.get_bodies(queue) == [b"1", b"2"]


@pytest.mark.holds("quorum queue: tx.commit is answered when its publishes are there; rollback leaves none")
def test_transactions(connection: Connection, channel: Channel, queue: str) -> None:
    """Publishes and acknowledgements."""
    connection.fill(queue, b"old")
    transactional = connection.channel()
    transactional.call("tx.select")
    transactional.publish("", queue, b"never")
    transactional.call("tx.rollback")
    held = take(transactional, queue)
    transactional.publish("", queue, b"new")
    transactional.send("basic.ack", delivery_tag=held.delivery_tag)
    assert channel.counts(queue) == (0, 0)
    transactional.call("tx.commit")
    assert channel.counts(queue) == (1, 0)
    transactional.call("channel.close", reply_code=200)
    assert channel.get_bodies(queue) == [b"new"]


@ours_only
@pytest.mark.holds("quorum queue: tx.commit of what is refused -> 406 partial tx completion")
def test_a_transaction_that_is_refused(connection: Connection, channel: Channel, named: Named) -> None:
    """What had room is there."""
    queue = declare(channel, named("queue"), x_max_length=1, x_overflow="reject-publish")
    transactional = connection.channel()
    transactional.call("tx.select")
    transactional.publish("", queue, b"1")
    transactional.publish("", queue, b"2")
    text = "a queue was full or gone and refused publishes, all else is done: publish those again when there is room"
    transactional.refused(406, f"PRECONDITION_FAILED - partial tx completion: {text}", "tx.commit")
    assert channel.get_bodies(queue) == [b"1"]
