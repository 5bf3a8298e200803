"""Quorum queues: consumers, prefetch, priorities, single active ones, cancellation."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.conformance.quorum import declare, ours_only, take, wait_for_counts
from tests.conformance.wire import Connection
from tests.conformance.wire_channel import Channel

Named = Callable[[str], str]
Connect = Callable[..., Connection]


@pytest.fixture
def queue(channel: Channel, named: Named) -> str:
    return declare(channel, named("queue"))


def bodies(first: int, last: int) -> list[bytes]:
    return [str(number).encode() for number in range(first, last + 1)]


@pytest.mark.holds("quorum queue: a consumer gets messages in order, before and after it comes")
@pytest.mark.parametrize("no_ack", [False, True], ids=["acks", "no-ack"])
def test_deliveries_are_in_order(connection: Connection, channel: Channel, queue: str, no_ack: bool) -> None:
    """Without acknowledgements they are gone with the delivery."""
    connection.fill(queue, *bodies(1, 10))
    channel.consume(queue, no_ack=no_ack)
    connection.fill(queue, *bodies(11, 20))
    messages = channel.expect_deliveries(*bodies(1, 20))
    assert [message.delivery_tag for message in messages] == list(range(1, 21))
    assert not any(message.redelivered for message in messages)
    if not no_ack:
        channel.send("basic.ack", delivery_tag=20, multiple=True)
    wait_for_counts(channel, queue, 0, 1)
    channel.call("channel.close", reply_code=200)
    wait_for_counts(connection.channel(), queue, 0, 0)


@pytest.mark.holds("quorum queue: prefetch of a consumer")
def test_prefetch(connection: Connection, channel: Channel, queue: str) -> None:
    """Three at a time; others have their own."""
    connection.fill(queue, *bodies(1, 8))
    channel.call("basic.qos", prefetch_count=3)
    channel.consume(queue)
    channel.expect_deliveries(*bodies(1, 3))
    channel.expect_silence(queue)
    channel.send("basic.ack", delivery_tag=2)
    channel.expect_deliveries(b"4")
    other = connection.channel()
    other.call("basic.qos", prefetch_count=2)
    other.consume(queue)
    other.expect_deliveries(*bodies(5, 6))
    channel.send("basic.ack", delivery_tag=4, multiple=True)
    channel.expect_deliveries(*bodies(7, 8))


@ours_only
@pytest.mark.holds("quorum queue: prefetch of a whole channel, live")
def test_prefetch_of_a_channel(connection: Connection, channel: Channel, queue: str, named: Named) -> None:
    """basic.qos with global, before and after the consumers; RabbitMQ refuses it with 540."""
    second = declare(channel, named("queue"))
    channel.call("basic.qos", prefetch_count=3, global_=True)
    channel.consume(queue, consumer_tag="a")
    channel.consume(second, consumer_tag="b")
    connection.fill(queue, *bodies(1, 2))
    channel.expect_deliveries(*bodies(1, 2))
    connection.fill(second, *bodies(3, 6))
    channel.expect_deliveries(b"3")
    channel.expect_silence(queue, second)
    channel.send("basic.ack", delivery_tag=1)
    channel.expect_deliveries(b"4")
    channel.call("basic.qos", prefetch_count=4, global_=True)
    channel.expect_deliveries(b"5")
    channel.expect_silence(queue, second)
    channel.call("basic.qos", prefetch_count=0, global_=True)
    channel.expect_deliveries(b"6")


@ours_only
@pytest.mark.holds("quorum queue: what a channel's prefetch holds back returns unseen when it closes")
def test_what_was_held_back_returns_unseen(connection: Connection, channel: Channel, queue: str) -> None:
    """Of two consumers on one channel with a limit of two: nobody has had the rest, so it is not redelivered."""
    channel.call("basic.qos", prefetch_count=2, global_=True)
    channel.consume(queue, consumer_tag="a")
    channel.consume(queue, consumer_tag="b")
    connection.fill(queue, *bodies(1, 4))
    channel.expect_deliveries(*bodies(1, 2))
    channel.expect_silence(queue)
    channel.call("channel.close", reply_code=200)
    other = connection.channel()
    messages = [take(other, queue) for _ in range(4)]
    assert [(each.body, each.redelivered) for each in messages] == [
        (b"1", True), (b"2", True), (b"3", False), (b"4", False)
    ]  # fmt: skip


@ours_only
@pytest.mark.holds("quorum queue: channel.flow stops and resumes deliveries")
def test_flow(connection: Connection, channel: Channel, queue: str) -> None:
    """What comes meanwhile waits."""
    channel.consume(queue)
    channel.call("channel.flow", active=False)
    connection.fill(queue, *bodies(1, 3))
    channel.call("basic.qos")
    channel.send("channel.flow", active=True)
    assert channel.expect("channel.flow-ok").active
    channel.expect_deliveries(*bodies(1, 3))


@pytest.mark.holds("quorum queue: basic.get, empty and not, with and without acknowledgement")
def test_get(connection: Connection, channel: Channel, queue: str) -> None:
    """get-ok says how many are left."""
    assert channel.get(queue) is None
    connection.fill(queue, *bodies(1, 3))
    first = channel.get(queue, no_ack=True)
    assert first is not None
    assert (first.body, first.message_count, first.redelivered) == (b"1", 2, False)
    second = take(channel, queue)
    assert (second.body, second.message_count, second.delivery_tag) == (b"2", 1, 2)
    channel.send("basic.nack", delivery_tag=2, requeue=True)
    again = take(channel, queue)
    assert (again.body, again.redelivered, again.message_count) == (b"2", True, 1)
    channel.send("basic.ack", delivery_tag=again.delivery_tag)
    assert take(channel, queue).body == b"3"
    assert channel.get(queue) is None


@pytest.mark.holds("quorum queue: basic.get with a single active consumer -> 405")
def test_get_with_a_single_active_consumer(channel: Channel, named: Named, vhost: str) -> None:
    """RabbitMQ's rule, and its text."""
    queue = declare(channel, named("queue"), x_single_active_consumer=True)
    channel.send("basic.get", queue=queue)
    text = channel.expect_close(405, by="basic.get")
    assert text.startswith(f"RESOURCE_LOCKED - cannot obtain access to locked queue '{queue}' in vhost '{vhost}'")


@pytest.mark.holds("quorum queue: x-single-active-consumer, the next one takes over in order")
def test_single_active_consumer(connect: Connect, named: Named) -> None:
    """With what the lost one held first."""
    lost, waiting = connect(), connect().channel()
    channel = lost.channel()
    queue = declare(channel, named("queue"), x_single_active_consumer=True)
    channel.call("basic.qos", prefetch_count=2)
    channel.consume(queue)
    waiting.consume(queue, consumer_tag="waiting")
    lost.fill(queue, *bodies(1, 4))
    channel.expect_deliveries(*bodies(1, 2))
    waiting.expect_silence(queue)
    lost.drop()
    messages = waiting.expect_deliveries(*bodies(1, 4))
    assert [message.redelivered for message in messages] == [True, True, False, False]


@ours_only
@pytest.mark.holds("quorum queue: x-single-active-consumer, a higher priority takes over when nothing is held")
def test_a_higher_priority_takes_over(connection: Connection, channel: Channel, named: Named) -> None:
    """As in 4.x: whoever is active gets nothing more, and waits once it has settled what it holds."""
    low, high = connection.channel(), connection.channel()
    queue = declare(channel, named("queue"), x_single_active_consumer=True)
    low.call("basic.qos", prefetch_count=2)
    low.consume(queue, arguments={"x-priority": 1})
    connection.fill(queue, b"1")
    low.expect_deliveries(b"1")
    high.consume(queue, arguments={"x-priority": 5})
    connection.fill(queue, b"2")
    high.expect_silence(queue)
    low.expect_silence(queue)
    low.send("basic.ack", delivery_tag=1)
    high.expect_deliveries(b"2")
    high.call("channel.close", reply_code=200)
    low.expect_deliveries(b"2")


@pytest.mark.holds("quorum queue: consumer priority x-priority")
def test_consumer_priorities(connection: Connection, queue: str) -> None:
    """The lower one gets something only when the higher one is full."""
    low, high = connection.channel(), connection.channel()
    low.consume(queue, arguments={"x-priority": 1})
    high.call("basic.qos", prefetch_count=2)
    high.consume(queue, arguments={"x-priority": 5})
    connection.fill(queue, *bodies(1, 3))
    high.expect_deliveries(*bodies(1, 2))
    low.expect_deliveries(b"3")
    high.send("basic.ack", delivery_tag=2, multiple=True)
    wait_for_counts(low, queue, 0, 2)
    connection.fill(queue, b"4")
    high.expect_deliveries(b"4")


@pytest.mark.holds("quorum queue: round robin among consumers")
def test_round_robin(connection: Connection, queue: str) -> None:
    """One after the other."""
    channels = [connection.channel() for _ in range(3)]
    for channel in channels:
        channel.consume(queue)
    connection.fill(queue, *bodies(1, 6))
    for number, channel in enumerate(channels, 1):
        channel.expect_deliveries(str(number).encode(), str(number + 3).encode())


@pytest.mark.holds("quorum queue: exclusive consumer, either way round -> 403")
@pytest.mark.parametrize("first", [True, False], ids=["exclusive-first", "exclusive-second"])
def test_exclusive_consumers(connection: Connection, queue: str, vhost: str, first: bool) -> None:
    """The consumer that was there stays."""
    there = connection.channel()
    there.consume(queue, exclusive=first)
    text = f"ACCESS_REFUSED - queue '{queue}' in vhost '{vhost}' in exclusive use"
    connection.channel().refused(403, text, "basic.consume", queue=queue, exclusive=not first)
    connection.fill(queue, b"1")
    there.expect_deliveries(b"1")


@pytest.mark.holds("quorum queue: a consumer on a missing queue -> 404")
def test_no_such_queue(channel: Channel, named: Named, vhost: str) -> None:
    """As for classic ones."""
    queue = named("nothing")
    channel.refused(404, f"NOT_FOUND - no queue '{queue}' in vhost '{vhost}'", "basic.consume", queue=queue)


@pytest.mark.holds("quorum queue: basic.cancel, nothing comes after cancel-ok; what is held stays held")
def test_cancel(connection: Connection, channel: Channel, queue: str) -> None:
    """It can still be acknowledged; what the consumer had no room for goes to others unseen."""
    connection.fill(queue, *bodies(1, 3))
    channel.call("basic.qos", prefetch_count=2)
    tag = channel.consume(queue)
    channel.expect_deliveries(*bodies(1, 2))
    channel.call("basic.cancel", consumer_tag=tag)
    channel.expect_silence(queue)
    wait_for_counts(channel, queue, 1, 0)
    channel.send("basic.ack", delivery_tag=1)
    channel.send("basic.nack", delivery_tag=2, requeue=True)
    messages = [take(channel, queue), take(channel, queue)]
    assert [(each.body, each.redelivered) for each in messages] == [(b"2", True), (b"3", False)]


@pytest.mark.holds("quorum queue: no-wait consume")
def test_consume_without_an_answer(connection: Connection, channel: Channel, queue: str) -> None:
    """The deliveries come all the same."""
    connection.fill(queue, b"1")
    channel.send("basic.consume", queue=queue, consumer_tag="quiet", nowait=True)
    assert channel.expect_delivery("quiet").body == b"1"


@pytest.mark.holds("quorum queue: who deletes it gets delete-ok before the basic.cancel of its own consumer")
def test_delete_ok_comes_first(channel: Channel, queue: str) -> None:
    """As with a classic one."""
    tag = channel.consume(queue)
    channel.call("queue.delete", queue=queue)
    assert channel.expect("basic.cancel").consumer_tag == tag


@pytest.mark.holds("quorum queue: consumer_cancel_notify only where the client has asked for it")
def test_no_cancel_for_who_does_not_ask(connect: Connect, channel: Channel, queue: str) -> None:
    """Silence then."""
    quiet = connect(capabilities={}).channel()
    quiet.consume(queue)
    channel.call("queue.delete", queue=queue)
    quiet.expect_silence()


@ours_only
@pytest.mark.octets_too_slow
@pytest.mark.holds("quorum queue: x-consumer-timeout cancels that consumer, and its messages go to others")
def test_consumer_timeout(connection: Connection, channel: Channel, named: Named) -> None:
    """Its channel stays, and an acknowledgement that comes too late does no harm."""
    queue = declare(channel, named("queue"), x_consumer_timeout=150)
    channel.consume(queue, consumer_tag="slow")
    connection.fill(queue, b"1")
    late = channel.expect_delivery("slow").delivery_tag
    assert channel.expect("basic.cancel").consumer_tag == "slow"
    again = take(channel, queue)
    assert (again.body, again.redelivered) == (b"1", True)
    channel.send("basic.ack", delivery_tag=late)
    channel.send("basic.ack", delivery_tag=again.delivery_tag)
    wait_for_counts(channel, queue, 0, 0)


@pytest.mark.octets_too_slow
@pytest.mark.holds("quorum queue: more deliveries than a consumer may hold at once")
@pytest.mark.parametrize("no_ack", [False, True], ids=["acks", "no-ack"])
def test_many_messages(connection: Connection, channel: Channel, queue: str, no_ack: bool) -> None:
    """Five thousand, all in order, with one acknowledgement now and then."""
    count = 5000
    connection.fill(queue, *bodies(1, count))
    channel.consume(queue, no_ack=no_ack)
    for number in range(1, count + 1):
        assert channel.expect_delivery().body == str(number).encode()
        if not no_ack and number % 500 == 0:
            channel.send("basic.ack", delivery_tag=number, multiple=True)
    wait_for_counts(channel, queue, 0, 1)
