"""Publisher confirms: numbers, rules, order against returns, refusals."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.conformance.wire import Connection
from tests.conformance.wire_channel import Channel

Connect = Callable[..., Connection]
Named = Callable[[str], str]


@pytest.fixture
def confirming(channel: Channel) -> Channel:
    channel.call("confirm.select")
    return channel


@pytest.mark.holds("confirm.select: numbers start at 1 with the first publish after it")
def test_numbers_start_at_select(channel: Channel) -> None:
    """Publishes before it are not counted; selecting again changes nothing."""
    queue = channel.declare(exclusive=True)
    channel.publish("", queue, b"unconfirmed")
    channel.call("confirm.select")
    channel.publish("", queue, b"1")
    assert channel.expect("basic.ack").delivery_tag == 1
    channel.call("confirm.select")
    channel.publish("", queue, b"2")
    assert channel.expect("basic.ack").delivery_tag == 2


@pytest.mark.holds("confirm.select: nowait has no answer")
def test_nowait_selects_silently(channel: Channel) -> None:
    """The first thing that comes is a confirm."""
    channel.send("confirm.select", nowait=True)
    channel.publish("", "no-such-queue")
    assert channel.expect("basic.ack").delivery_tag == 1


@pytest.mark.holds("confirm.select: on a transactional channel -> 406")
def test_a_transactional_channel_cannot_confirm(channel: Channel) -> None:
    """One or the other."""
    channel.call("tx.select")
    text = "PRECONDITION_FAILED - cannot switch from tx to confirm mode"
    channel.refused(406, text, "confirm.select")


@pytest.mark.holds("confirm: many publishes -> every number is covered exactly once, in any grouping")
@pytest.mark.parametrize("durable", [False, True], ids=["transient", "persistent"])
def test_every_publish_is_confirmed(confirming: Channel, named: Named, durable: bool) -> None:
    """Row 16: five hundred at once."""
    queue = confirming.declare(named("queue"), durable=durable)
    for index in range(500):
        confirming.publish("", queue, b"%d" % index, delivery_mode=1 + durable)
    methods = confirming.expect_confirms(500)
    assert {method.name for method in methods} == {"basic.ack"}
    assert max(method.delivery_tag for method in methods) == 500
    assert confirming.counts(queue) == (500, 0)


@pytest.mark.holds("confirm: unroutable -> ack at once")
@pytest.mark.parametrize("exchange", ["", "amq.direct", "amq.fanout"])
def test_an_unroutable_publish_is_confirmed(confirming: Channel, exchange: str) -> None:
    """Row 17: nobody has to accept it."""
    confirming.publish(exchange, "no-such-queue", b"lost")
    assert confirming.expect("basic.ack").delivery_tag == 1


@pytest.mark.holds("confirm: mandatory and unroutable -> basic.return, then the ack")
def test_a_return_comes_before_its_confirm(confirming: Channel) -> None:
    """Rows 17 and 18: on the same channel, each return before its own number."""
    for index in range(5):
        confirming.publish("", "no-such-queue", b"%d" % index, mandatory=True)
    returned = confirmed = 0
    while confirmed < 5:
        method = confirming.next_method()
        if method.name == "basic.return":
            assert confirming._take_content(method).body == b"%d" % returned
            returned += 1
        else:
            assert method.name == "basic.ack"
            confirmed = method.delivery_tag
            assert confirmed <= returned


@pytest.mark.holds("confirm: a persistent message on durable queues -> ack when all have it")
def test_a_publish_to_many_queues_is_confirmed_once(confirming: Channel, named: Named) -> None:
    """Row 17: three durable queues and a transient one."""
    exchange = named("fanout")
    confirming.call("exchange.declare", exchange=exchange, type="fanout")
    queues = [confirming.declare(named("queue"), durable=index < 3) for index in range(4)]
    for queue in queues:
        confirming.call("queue.bind", queue=queue, exchange=exchange)
    confirming.publish(exchange, "", b"m", delivery_mode=2)
    assert confirming.expect("basic.ack").delivery_tag == 1
    assert [confirming.counts(queue) for queue in queues] == [(1, 0)] * 4


@pytest.mark.holds("confirm: x-overflow reject-publish on a full queue -> basic.nack")
@pytest.mark.parametrize("overflow", ["reject-publish", "reject-publish-dlx"])
def test_a_refused_publish_is_nacked(confirming: Channel, named: Named, overflow: str) -> None:
    """Row 17: the first two fit, the third and fourth do not."""
    arguments = {"x-max-length": 2, "x-overflow": overflow}
    queue = confirming.declare(named("queue"), arguments=arguments)
    for body in (b"1", b"2"):
        confirming.publish("", queue, body)
    assert {method.name for method in confirming.expect_confirms(2)} == {"basic.ack"}
    for tag, body in ((3, b"3"), (4, b"4")):
        confirming.publish("", queue, body)
        assert confirming.expect("basic.nack").delivery_tag == tag
    assert confirming.get_bodies(queue) == [b"1", b"2"]


@pytest.mark.holds("confirm: reject-publish on any of several queues -> basic.nack, the others keep the message")
def test_one_refusal_is_enough(confirming: Channel, named: Named) -> None:
    """Row 17."""
    exchange = named("fanout")
    confirming.call("exchange.declare", exchange=exchange, type="fanout")
    full = confirming.declare(named("full"), arguments={"x-max-length": 0, "x-overflow": "reject-publish"})
    free = confirming.declare(named("free"))
    for queue in (full, free):
        confirming.call("queue.bind", queue=queue, exchange=exchange)
    confirming.publish(exchange, "", b"m")
    assert confirming.expect("basic.nack").delivery_tag == 1
    assert confirming.get_bodies(free) == [b"m"]
    assert confirming.get_bodies(full) == []


@pytest.mark.holds("confirm: acks and nacks of one burst do not cover each other's numbers")
def test_acks_and_nacks_do_not_mix(confirming: Channel, named: Named) -> None:
    """Row 16: a multiple ack never reaches past a nacked number."""
    full = confirming.declare(named("full"), arguments={"x-max-length": 0, "x-overflow": "reject-publish"})
    free = confirming.declare(named("free"))
    for index in range(20):
        confirming.publish("", full if index % 5 == 4 else free, b"m")
    outcome: dict[int, str] = {}
    while len(outcome) < 20:
        method = confirming.next_method()
        numbers = range(1, method.delivery_tag + 1) if method.multiple else [method.delivery_tag]
        for number in numbers:
            outcome.setdefault(number, method.name)
    assert [number for number, name in outcome.items() if name == "basic.nack"] == [5, 10, 15, 20]


@pytest.mark.holds("confirm: a message that no_ack consumers take at once is confirmed")
def test_a_delivered_message_is_confirmed(connection: Connection, confirming: Channel) -> None:
    """Delivery and confirm may come in either order, on two channels."""
    consumer = connection.channel()
    queue = consumer.declare(exclusive=True)
    consumer.consume(queue, no_ack=True)
    confirming.publish("", queue, b"m", delivery_mode=2)
    consumer.expect_deliveries(b"m")
    assert confirming.expect("basic.ack").delivery_tag == 1


@pytest.mark.holds("confirm: a queue that is deleted meanwhile counts as confirmed")
def test_publishes_around_a_delete_are_all_confirmed(connection: Connection, confirming: Channel, named: Named) -> None:
    """Row 17: whatever the queue had accepted when it went, each number gets its answer."""
    queue = confirming.declare(named("queue"), durable=True)
    for index in range(200):
        confirming.publish("", queue, b"m", delivery_mode=2)
        if index == 100:
            connection.channel().send("queue.delete", queue=queue, nowait=True)
    confirming.expect_confirms(200)


@pytest.mark.holds("confirm: a publish that closes the channel is not confirmed, those before it are on their way")
def test_an_error_ends_the_confirms(connection: Connection, confirming: Channel) -> None:
    """Row 19: acks for earlier numbers may come before the close; none for the mistake or what follows."""
    queue = connection.channel().declare(exclusive=True)
    confirming.publish("", queue, b"1")
    confirming.publish("missing-exchange", "", b"2")
    confirming.publish("", queue, b"3")
    while (method := confirming.next_method()).name != "channel.close":
        assert (method.name, method.delivery_tag) == ("basic.ack", 1)
    assert method.reply_code == 404
    confirming.send("channel.close-ok")
    assert connection.channel().get_bodies(queue) == [b"1"]


@pytest.mark.holds("confirm: the numbers of a reopened channel start at 1 again, after a new select")
def test_a_reopened_channel_does_not_confirm(confirming: Channel) -> None:
    """Confirm mode goes with the channel."""
    confirming.publish("", "no-such-queue")
    confirming.expect("basic.ack")
    confirming.call("channel.close", reply_code=200)
    confirming.open()
    confirming.publish("", "no-such-queue")
    confirming.expect_silence()
    confirming.call("confirm.select")
    confirming.publish("", "no-such-queue")
    assert confirming.expect("basic.ack").delivery_tag == 1
