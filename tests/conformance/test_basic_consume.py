"""basic.consume, cancel and deliver: tags, exclusivity, cancellation from both sides, consumer priorities,
fairness.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.conformance.replies import invalid_argument, no_queue
from tests.conformance.wire import CAPABILITIES, Connection
from tests.conformance.wire_channel import Channel
from tests.conformance.wire_codec import Typed

Connect = Callable[..., Connection]
Named = Callable[[str], str]


@pytest.mark.holds("basic.consume: -> consume-ok with the tag; deliveries carry it")
def test_a_consumer_gets_what_is_there_and_what_comes(connection: Connection) -> None:
    """Consume-ok comes before the first delivery."""
    channel = connection.channel()
    queue = channel.declare(exclusive=True)
    connection.fill(queue, b"before")
    assert channel.consume(queue, consumer_tag="mine", no_ack=True) == "mine"
    channel.publish("", queue, b"after")
    for tag, body in enumerate((b"before", b"after"), 1):
        message = channel.expect_delivery("mine")
        assert (message.body, message.delivery_tag, message.redelivered) == (body, tag, False)


@pytest.mark.holds("basic.consume: empty tag -> amq.ctag- and a unique part")
def test_the_broker_makes_consumer_tags(channel: Channel) -> None:
    """Two consumers get two tags."""
    queue = channel.declare(exclusive=True)
    tags = {channel.consume(queue), channel.consume(queue)}
    assert len(tags) == 2
    assert all(tag.startswith("amq.ctag-") for tag in tags)


@pytest.mark.holds("basic.consume: a tag that is in use on the channel -> 530, the connection ends")
def test_reusing_a_tag_is_a_530(channel: Channel) -> None:
    """Row 22: a hard error, also for another queue."""
    channel.consume(channel.declare(exclusive=True), consumer_tag="mine")
    channel.send("basic.consume", queue=channel.declare(exclusive=True), consumer_tag="mine")
    text = "NOT_ALLOWED - attempt to reuse consumer tag 'mine'"
    channel.connection.expect_close(530, text, by="basic.consume")


@pytest.mark.holds("basic.consume: tags are per channel, and free again after cancel")
def test_tags_are_per_channel(connection: Connection) -> None:
    """The same tag on two channels, and twice in sequence."""
    first, second = connection.channel(), connection.channel()
    queue = first.declare(exclusive=True)
    for channel in (first, second):
        for _ in range(2):
            assert channel.consume(queue, consumer_tag="mine") == "mine"
            channel.call("basic.cancel", consumer_tag="mine")


@pytest.mark.holds("basic.consume: missing queue -> 404")
def test_consuming_a_missing_queue_is_a_404(channel: Channel, vhost: str) -> None:
    """A soft error that names the queue."""
    channel.refused(404, no_queue("missing-queue", vhost), "basic.consume", queue="missing-queue")


@pytest.mark.holds("basic.consume: nowait has no consume-ok")
def test_nowait_consumes_silently(connection: Connection) -> None:
    """The first thing that comes is a delivery."""
    channel = connection.channel()
    queue = channel.declare(exclusive=True)
    connection.fill(queue, b"m")
    channel.send("basic.consume", queue=queue, consumer_tag="mine", no_ack=True, nowait=True)
    assert channel.expect_delivery("mine").body == b"m"


@pytest.mark.holds("basic.consume: no_local is ignored")
def test_no_local_is_ignored(channel: Channel) -> None:
    """A connection receives its own messages."""
    queue = channel.declare(exclusive=True)
    channel.consume(queue, no_local=True, no_ack=True)
    channel.publish("", queue, b"own")
    channel.expect_deliveries(b"own")


@pytest.mark.holds("basic.consume: exclusive, while the queue has a consumer or an exclusive one -> 403")
@pytest.mark.parametrize(("first", "second"), [(True, False), (False, True), (True, True)])
def test_an_exclusive_consumer_is_alone(connection: Connection, vhost: str, first: bool, second: bool) -> None:
    """Row 21: in either order; the queue and the first consumer stay, and a cancel makes room."""
    holder, channel = connection.channel(), connection.channel()
    queue = holder.declare(exclusive=True)
    holder.consume(queue, consumer_tag="first", exclusive=first, no_ack=True)
    text = f"ACCESS_REFUSED - queue '{queue}' in vhost '{vhost}' in exclusive use"
    channel.refused(403, text, "basic.consume", queue=queue, exclusive=second)
    holder.publish("", queue, b"m")
    assert holder.expect_delivery("first").body == b"m"
    holder.call("basic.cancel", consumer_tag="first")
    connection.channel().consume(queue, exclusive=second)


@pytest.mark.holds("basic.cancel: unknown tag -> cancel-ok")
def test_cancelling_an_unknown_tag_is_ok(channel: Channel) -> None:
    """The tag comes back."""
    assert channel.call("basic.cancel", consumer_tag="never-was").consumer_tag == "never-was"


@pytest.mark.holds("basic.cancel: nowait has no cancel-ok")
def test_nowait_cancels_silently(channel: Channel) -> None:
    """The consumer is gone for the next request."""
    queue = channel.declare(exclusive=True)
    tag = channel.consume(queue)
    channel.send("basic.cancel", consumer_tag=tag, nowait=True)
    channel.publish("", queue, b"m")
    assert channel.get_bodies(queue) == [b"m"]


@pytest.mark.holds("basic.cancel: cancel-ok comes after the last delivery")
def test_nothing_is_delivered_after_cancel_ok(connection: Connection) -> None:
    """Rows 12 and 13: deliveries before cancel-ok, in order; the rest stays ready for others."""
    channel, other = connection.channel(), connection.channel()
    queue = channel.declare(exclusive=True)
    bodies = [b"%d" % index for index in range(300)]
    tag = channel.consume(queue, no_ack=True)
    for body in bodies:
        other.publish("", queue, body)
    connection.flush()
    channel.expect_delivery(tag)
    channel.send("basic.cancel", consumer_tag=tag)
    delivered = 1
    while (method := channel.next_method()).name == "basic.deliver":
        channel._take_content(method)
        delivered += 1
    assert method.name == "basic.cancel-ok"
    other.call("basic.qos")
    assert channel.get_bodies(queue) == bodies[delivered:]


@pytest.mark.holds("basic.cancel: unacknowledged deliveries stay with the channel")
def test_a_cancel_requeues_nothing(connection: Connection) -> None:
    """Row 12: they can still be acknowledged; closing the channel requeues them."""
    channel, other = connection.channel(), connection.channel()
    queue = other.declare(exclusive=True)
    connection.fill(queue, b"1", b"2", b"3")
    channel.call("basic.qos", prefetch_count=2)
    tag = channel.consume(queue)
    first, _second = channel.expect_deliveries(b"1", b"2")
    channel.call("basic.cancel", consumer_tag=tag)
    assert other.counts(queue) == (1, 0)
    channel.send("basic.ack", delivery_tag=first.delivery_tag)
    channel.call("channel.close", reply_code=200)
    assert other.get_bodies(queue) == [b"2", b"3"]


@pytest.mark.holds("queue.delete: its consumers get basic.cancel (nowait) where consumer_cancel_notify is announced")
def test_consumers_of_a_deleted_queue_are_told(connect: Connect, named: Named) -> None:
    """Row 26: from another connection; cancelling it once more is no mistake."""
    channel, other = connect().channel(), connect().channel()
    queue = other.declare(named("queue"))
    channel.consume(queue, consumer_tag="mine")
    other.call("queue.delete", queue=queue)
    cancel = channel.expect("basic.cancel")
    assert (cancel.consumer_tag, cancel.nowait) == ("mine", True)
    channel.call("basic.cancel", consumer_tag="mine")


@pytest.mark.holds("queue.delete: who deletes gets delete-ok before the basic.cancel of its own consumers")
@pytest.mark.parametrize("durable", [False, True])
def test_delete_ok_comes_first(channel: Channel, named: Named, durable: bool) -> None:
    """Some clients take a basic.cancel that comes while they wait for delete-ok as an error."""
    queue = channel.declare(named("queue"), durable=durable)
    tags = [channel.consume(queue) for _ in range(2)]
    channel.call("queue.delete", queue=queue)
    assert sorted(channel.expect("basic.cancel").consumer_tag for _ in tags) == sorted(tags)


@pytest.mark.holds("queue.delete: a client without consumer_cancel_notify is not told")
def test_an_older_client_is_not_told(connect: Connect, named: Named) -> None:
    """Row 26: silence."""
    capabilities = {name: name != "consumer_cancel_notify" for name in CAPABILITIES}
    channel, other = connect(capabilities=capabilities).channel(), connect().channel()
    queue = other.declare(named("queue"))
    channel.consume(queue, consumer_tag="mine")
    other.call("queue.delete", queue=queue)
    channel.expect_silence()
    channel.consume(channel.declare(exclusive=True), consumer_tag="other")


@pytest.mark.holds("basic.deliver: round robin among consumers with credit")
def test_consumers_take_turns(connection: Connection) -> None:
    """Three consumers on one channel, nine messages: three each, in turn."""
    channel = connection.channel()
    queue = channel.declare(exclusive=True)
    channel.call("basic.qos", prefetch_count=100)
    for tag in ("a", "b", "c"):
        channel.consume(queue, consumer_tag=tag)
    for index in range(9):
        channel.publish("", queue, b"%d" % index)
    tags = [channel.expect_delivery().consumer_tag for _ in range(9)]
    assert sorted(tags) == sorted("abc" * 3)
    assert all(len(set(tags[start : start + 3])) == 3 for start in (0, 3, 6)), tags


@pytest.mark.holds("basic.deliver: a consumer without credit is passed over")
def test_a_busy_consumer_is_passed_over(connection: Connection) -> None:
    """One takes one and holds it; the other gets the rest."""
    busy, idle = connection.channel(), connection.channel()
    queue = busy.declare(exclusive=True)
    for channel, prefetch in ((busy, 1), (idle, 100)):
        channel.call("basic.qos", prefetch_count=prefetch)
        channel.consume(queue)
    connection.fill(queue, *[b"%d" % index for index in range(10)])
    busy.expect_delivery()
    assert len([idle.expect_delivery() for _ in range(9)]) == 9
    busy.expect_silence(queue)


@pytest.mark.holds("basic.consume x-priority: lower ones get messages only while all higher are blocked")
def test_higher_priorities_come_first(connection: Connection) -> None:
    """The higher one is filled to its prefetch, the rest goes to the default 0, then to the negative one."""
    channel = connection.channel()
    queue = channel.declare(exclusive=True)
    channel.call("basic.qos", prefetch_count=2)
    channel.consume(queue, consumer_tag="low", arguments={"x-priority": -5})
    channel.consume(queue, consumer_tag="middle")
    channel.consume(queue, consumer_tag="high", arguments={"x-priority": 10})
    connection.fill(queue, *[b"%d" % index for index in range(5)])
    messages = [channel.expect_delivery() for _ in range(5)]
    assert [message.consumer_tag for message in messages] == ["high", "high", "middle", "middle", "low"]
    channel.send("basic.ack", delivery_tag=messages[0].delivery_tag)
    connection.fill(queue, b"next")
    assert channel.expect_delivery().consumer_tag == "high"


@pytest.mark.holds("basic.consume x-priority: not an integer -> 406")
def test_a_priority_that_is_no_integer_is_a_406(channel: Channel, vhost: str) -> None:
    """The text names argument and queue, and ends with the cause."""
    queue = channel.declare(exclusive=True)
    channel.send("basic.consume", queue=queue, arguments={"x-priority": Typed("S", "high")})
    text = channel.expect_close(406, by="basic.consume")
    assert text.startswith(invalid_argument("x-priority", queue, vhost, ""))


@pytest.mark.holds("basic.consume: a consumer is one of declare-ok's consumer_count until it is cancelled")
def test_consumers_are_counted(connection: Connection) -> None:
    """Also those of closed channels are gone."""
    channel, other = connection.channel(), connection.channel()
    queue = channel.declare(exclusive=True)
    tag = channel.consume(queue)
    other.consume(queue)
    assert channel.counts(queue) == (0, 2)
    channel.call("basic.cancel", consumer_tag=tag)
    other.call("channel.close", reply_code=200)
    assert channel.counts(queue) == (0, 0)
