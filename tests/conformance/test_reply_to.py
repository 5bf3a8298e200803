"""Direct reply-to: requests that are answered without a reply queue."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.conformance.replies import no_queue
from tests.conformance.wire import Connection
from tests.conformance.wire_channel import Channel

Connect = Callable[..., Connection]
Named = Callable[[str], str]
REPLY_TO = "amq.rabbitmq.reply-to"


@pytest.fixture
def requester(channel: Channel) -> Channel:
    """A channel that consumes replies."""
    channel.consume(REPLY_TO, consumer_tag="replies", no_ack=True)
    return channel


@pytest.fixture
def server(connect: Connect) -> Channel:
    """A channel of another connection."""
    return connect().channel()


@pytest.fixture
def reply_address(requester: Channel, server: Channel, named: Named) -> str:
    """The reply_to of a request, as the server received it."""
    queue = server.declare(named("requests"))
    server.consume(queue, no_ack=True)
    requester.publish("", queue, b"question", reply_to=REPLY_TO, correlation_id="c-1")
    requester.connection.flush()
    return str(server.expect_delivery().properties["reply_to"])


@pytest.mark.holds("reply-to: a request's reply_to is made unique; a publish to it arrives at the requester")
def test_a_reply_arrives(requester: Channel, server: Channel, reply_address: str) -> None:
    """From another connection, through the default exchange, with all its properties."""
    assert reply_address.startswith(f"{REPLY_TO}.")
    server.publish("", reply_address, b"answer", correlation_id="c-1", headers={"a": 1})
    server.connection.flush()
    reply = requester.expect_delivery("replies")
    assert (reply.body, reply.exchange, reply.routing_key) == (b"answer", "", reply_address)
    assert reply.properties == {"correlation_id": "c-1", "headers": {"a": 1}}
    assert reply.redelivered is False


@pytest.mark.holds("reply-to: many replies to one request arrive in order")
def test_many_replies_are_delivered_in_order(requester: Channel, server: Channel, reply_address: str) -> None:
    """The address stays good as long as the consumer is there."""
    for index in range(20):
        server.publish("", reply_address, b"%d" % index)
    server.connection.flush()
    replies = [requester.expect_delivery("replies") for _ in range(20)]
    assert [reply.body for reply in replies] == [b"%d" % index for index in range(20)]


@pytest.mark.holds("reply-to: consuming with acknowledgement -> 406")
def test_a_reply_consumer_cannot_acknowledge(channel: Channel) -> None:
    """no_ack is the only way."""
    text = "PRECONDITION_FAILED - reply consumer cannot acknowledge"
    channel.refused(406, text, "basic.consume", queue=REPLY_TO)


@pytest.mark.holds("reply-to: a second reply consumer on a channel -> 406")
def test_a_second_reply_consumer_is_a_406(requester: Channel) -> None:
    """One per channel."""
    text = "PRECONDITION_FAILED - reply consumer already set"
    requester.refused(406, text, "basic.consume", queue=REPLY_TO, no_ack=True)


@pytest.mark.holds("reply-to: cancel makes room for another reply consumer")
def test_a_cancelled_reply_consumer_makes_room(requester: Channel) -> None:
    """Under any tag."""
    requester.call("basic.cancel", consumer_tag="replies")
    assert requester.consume(REPLY_TO, consumer_tag="again", no_ack=True) == "again"


@pytest.mark.holds("reply-to: a request without a reply consumer -> 406")
def test_a_request_without_a_consumer_is_a_406(channel: Channel) -> None:
    """The consumer must be there before the request, on the same channel."""
    channel.publish("", "anywhere", b"question", reply_to=REPLY_TO)
    text = "PRECONDITION_FAILED - fast reply consumer does not exist"
    channel.expect_close(406, text, by="basic.publish")


@pytest.mark.ours_only("404: it knows no such queue")
@pytest.mark.holds("reply-to: cannot be bound -> 403")
def test_the_pseudo_queue_cannot_be_bound(channel: Channel) -> None:
    """It is no queue."""
    channel.send("queue.bind", queue=REPLY_TO, exchange="amq.direct", routing_key="key")
    channel.expect_close(403, by="queue.bind")


@pytest.mark.one_process("who waits at another worker is not known")
@pytest.mark.holds("reply-to: declare of a reply address -> ok while its consumer is there, else 404")
@pytest.mark.parametrize("passive", [True, False])
def test_a_reply_address_can_be_asked_for(
    requester: Channel, server: Channel, reply_address: str, vhost: str, passive: bool
) -> None:
    """So a server finds out whether a requester still waits."""
    answer = server.call("queue.declare", queue=reply_address, passive=passive)
    assert (answer.queue, answer.message_count, answer.consumer_count) == (reply_address, 0, 1)
    wrong = reply_address[:-5] + "wrong"
    server.connection.channel().refused(404, no_queue(wrong, vhost), "queue.declare", queue=wrong, passive=passive)
    requester.call("basic.cancel", consumer_tag="replies")
    server.refused(404, no_queue(reply_address, vhost), "queue.declare", queue=reply_address, passive=passive)


@pytest.mark.holds("reply-to: passive declare -> ok, also while nobody consumes")
def test_the_pseudo_queue_can_be_asked_for(channel: Channel) -> None:
    """Clients ask whether the broker knows it."""
    answer = channel.call("queue.declare", queue=REPLY_TO, passive=True)
    assert (answer.queue, answer.message_count) == (REPLY_TO, 0)


@pytest.mark.one_process("who waits at another worker is not known")
@pytest.mark.holds("reply-to: a mandatory reply to a requester that is gone -> basic.return")
def test_a_reply_to_nobody_is_returned(requester: Channel, server: Channel, reply_address: str) -> None:
    """At most once: without mandatory it is dropped."""
    requester.call("channel.close", reply_code=200)
    server.publish("", reply_address, b"dropped")
    server.publish("", reply_address, b"returned", mandatory=True)
    assert server.expect_message("basic.return").body == b"returned"


@pytest.mark.holds("reply-to: a made up address leads nowhere")
@pytest.mark.parametrize("made_up", ["bogus", "", "1", "1.2.3", "?#/"])
def test_a_made_up_address_leads_nowhere(channel: Channel, made_up: str) -> None:
    """Returned if mandatory, confirmed in any case."""
    channel.call("confirm.select")
    channel.publish("", f"{REPLY_TO}.{made_up}", b"m", mandatory=True)
    assert channel.expect_message("basic.return").body == b"m"
    assert channel.expect("basic.ack").delivery_tag == 1


@pytest.mark.holds("reply-to: replies are confirmed")
def test_replies_are_confirmed(requester: Channel, server: Channel, reply_address: str) -> None:
    """As soon as they are handed over."""
    server.call("confirm.select")
    server.publish("", reply_address, b"answer")
    assert server.expect("basic.ack").delivery_tag == 1
    requester.expect_deliveries(b"answer")
