"""pika's blocking connection at work."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pika  # type: ignore[import-untyped]
import pytest
from pika.adapters.blocking_connection import BlockingChannel  # type: ignore[import-untyped]
from pika.exceptions import (  # type: ignore[import-untyped]
    AMQPConnectionError,
    ChannelClosedByBroker,
    ConnectionClosedByBroker,
    NackError,
    UnroutableError,
)

from interop_tests.cut_line import CutLine

Named = Callable[[str], str]
PERSISTENT = pika.BasicProperties(delivery_mode=2)
PATIENCE_S = 90


@pytest.fixture
def connection(url: str) -> Iterator[pika.BlockingConnection]:
    opened = pika.BlockingConnection(pika.URLParameters(url))
    yield opened
    if opened.is_open:
        opened.close()


@pytest.fixture
def channel(connection: pika.BlockingConnection) -> BlockingChannel:
    return connection.channel()


def _queue(channel: BlockingChannel, **arguments: Any) -> str:
    return str(channel.queue_declare("", exclusive=True, **arguments).method.queue)


def _process_until(connection: pika.BlockingConnection, is_done: Callable[[], bool]) -> None:
    """Let pika handle what comes until the condition holds; fails when half a minute brings nothing of it."""
    for _ in range(PATIENCE_S):
        if is_done():
            return
        connection.process_data_events(time_limit=1)
    raise AssertionError(f"after {PATIENCE_S} s of processing events it is still not done")


def test_publish_and_consume(channel: BlockingChannel, named: Named) -> None:
    """Five hundred confirmed publishes, consumed by the generator with acknowledgements."""
    queue = channel.queue_declare(named("queue"), durable=True).method.queue
    channel.confirm_delivery()
    for index in range(500):
        channel.basic_publish("", queue, b"%d" % index, PERSISTENT)
    assert channel.queue_declare(queue, passive=True).method.message_count == 500
    channel.basic_qos(prefetch_count=50)
    bodies = []
    for method, _properties, body in channel.consume(queue, inactivity_timeout=PATIENCE_S):
        bodies.append(body)
        channel.basic_ack(method.delivery_tag)
        if len(bodies) == 500:
            break
    assert channel.cancel() == 0
    assert bodies == [b"%d" % index for index in range(500)]
    assert channel.queue_delete(queue).method.message_count == 0


def test_an_unroutable_message_raises(channel: BlockingChannel) -> None:
    """With confirms, mandatory returns become exceptions; the channel goes on."""
    channel.confirm_delivery()
    with pytest.raises(UnroutableError) as caught:
        channel.basic_publish("", "no-such-queue", b"lost", mandatory=True)
    assert [message.body for message in caught.value.messages] == [b"lost"]
    channel.basic_publish("", "no-such-queue", b"lost", mandatory=False)


def test_a_refused_message_raises(channel: BlockingChannel) -> None:
    """A full queue with reject-publish answers with a nack."""
    queue = _queue(channel, arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    channel.confirm_delivery()
    channel.basic_publish("", queue, b"1")
    with pytest.raises(NackError):
        channel.basic_publish("", queue, b"2")


def test_returns_without_confirms_reach_the_callback(connection: pika.BlockingConnection) -> None:
    """The returned message has its properties and body."""
    channel = connection.channel()
    returned: list[tuple[int, str, bytes]] = []
    channel.add_on_return_callback(lambda _c, method, p, body: returned.append((method.reply_code, p.message_id, body)))
    channel.basic_publish("", "no-such-queue", b"lost", pika.BasicProperties(message_id="m"), mandatory=True)
    _process_until(connection, lambda: bool(returned))
    assert returned == [(312, "m", b"lost")]


def test_consumers_are_told_when_their_queue_goes(connection: pika.BlockingConnection, url: str, named: Named) -> None:
    """The cancel callback runs, on the connection that lost its consumer."""
    channel = connection.channel()
    queue = channel.queue_declare(named("queue")).method.queue
    cancelled: list[str] = []
    channel.add_on_cancel_callback(lambda frame: cancelled.append(frame.method.consumer_tag))
    tag = channel.basic_consume(queue, lambda *_: None)
    other = pika.BlockingConnection(pika.URLParameters(url))
    other.channel().queue_delete(queue)
    other.close()
    _process_until(connection, lambda: bool(cancelled))
    assert cancelled == [tag]
    assert channel.consumer_tags == []


def test_nack_and_requeue(channel: BlockingChannel) -> None:
    """Requeued messages come back in order and marked; rejected ones do not."""
    queue = _queue(channel)
    channel.confirm_delivery()
    for body in (b"1", b"2", b"3"):
        channel.basic_publish("", queue, body)
    tags = [channel.basic_get(queue)[0].delivery_tag for _ in range(3)]
    channel.basic_nack(tags[1], multiple=True, requeue=True)
    channel.basic_reject(tags[2], requeue=False)
    found = [channel.basic_get(queue, auto_ack=True) for _ in range(3)]
    assert [(m.redelivered, body) for m, _p, body in found[:2]] == [(True, b"1"), (True, b"2")]
    assert found[2] == (None, None, None)


def test_a_channel_error_leaves_the_connection(connection: pika.BlockingConnection, url: str) -> None:
    """Code and text are in the exception; a new channel of the same connection works."""
    channel = connection.channel()
    with pytest.raises(ChannelClosedByBroker) as caught:
        channel.queue_declare("missing-queue", passive=True)
    assert caught.value.reply_code == 404
    assert caught.value.reply_text.startswith("NOT_FOUND - no queue 'missing-queue' in vhost '")
    assert channel.is_closed
    again = connection.channel()
    queue = _queue(again)
    again.basic_publish("missing-exchange", queue, b"m")
    with pytest.raises(ChannelClosedByBroker) as caught:
        again.queue_declare(queue, passive=True)
    assert caught.value.reply_code == 404
    assert _queue(connection.channel()).startswith("amq.gen-")


def test_a_connection_error_ends_the_connection(connection: pika.BlockingConnection) -> None:
    """A reused consumer tag is a hard error."""
    channel = connection.channel()
    queue = _queue(channel)
    channel.basic_consume(queue, lambda *_: None, consumer_tag="mine")
    # the client refuses a duplicate itself, so it must forget its own consumer first
    channel._impl._consumers.pop("mine")
    channel._consumer_infos.pop("mine")
    with pytest.raises(ConnectionClosedByBroker) as caught:
        channel.basic_consume(queue, lambda *_: None, consumer_tag="mine")
    assert caught.value.reply_code == 530
    assert connection.is_closed


def test_a_wrong_password_is_refused(url: str) -> None:
    """The client gets the broker's text."""
    parameters = pika.URLParameters(url)
    parameters.credentials = pika.PlainCredentials("guest", "wrong")
    with pytest.raises(AMQPConnectionError) as caught:
        pika.BlockingConnection(parameters)
    assert "403" in repr(caught.value)


def test_heartbeats_keep_an_idle_connection(url: str) -> None:
    """Four seconds with heartbeats of one second: only process_data_events runs, and the connection lives."""
    parameters = pika.URLParameters(url)
    parameters.heartbeat = 1
    connection = pika.BlockingConnection(parameters)
    channel = connection.channel()
    connection.process_data_events(time_limit=4)
    assert _queue(channel).startswith("amq.gen-")
    connection.close()


def test_callbacks_for_blocked_connections_can_be_registered(url: str, connection: pika.BlockingConnection) -> None:
    """The capability is there, and publishing goes on as long as nothing is blocked."""
    blocked: list[object] = []
    connection.add_on_connection_blocked_callback(lambda *event: blocked.append(event))
    connection.add_on_connection_unblocked_callback(lambda *event: blocked.append(event))
    channel = connection.channel()
    channel.confirm_delivery()
    queue = _queue(channel)
    channel.basic_publish("", queue, b"m", PERSISTENT)
    assert channel.basic_get(queue, auto_ack=True)[2] == b"m"
    assert blocked == []
    capabilities = connection._impl.server_capabilities
    assert capabilities["connection.blocked"] is True


def test_transactions(channel: BlockingChannel) -> None:
    """Commit brings, rollback forgets."""
    queue = _queue(channel)
    channel.tx_select()
    channel.basic_publish("", queue, b"kept")
    channel.tx_commit()
    channel.basic_publish("", queue, b"forgotten")
    channel.tx_rollback()
    assert channel.basic_get(queue, auto_ack=True)[2] == b"kept"
    assert channel.basic_get(queue, auto_ack=True) == (None, None, None)


def test_workers_in_threads(url: str, named: Named) -> None:
    """A thread hands the acknowledgement back to the connection's own thread, as pika wants it."""
    connection = pika.BlockingConnection(pika.URLParameters(url))
    channel = connection.channel()
    queue = channel.queue_declare(named("tasks"), auto_delete=True).method.queue
    channel.basic_qos(prefetch_count=4)
    done: list[bytes] = []

    def work(tag: int, body: bytes) -> None:
        done.append(body)
        connection.add_callback_threadsafe(lambda: channel.basic_ack(tag))
        if len(done) == 100:
            connection.add_callback_threadsafe(channel.stop_consuming)

    def on_message(_channel: object, method: Any, _properties: object, body: bytes) -> None:
        threading.Thread(target=work, args=(method.delivery_tag, body)).start()

    channel.basic_consume(queue, on_message)
    for index in range(100):
        channel.basic_publish("", queue, b"%d" % index)
    channel.start_consuming()
    assert sorted(done, key=int) == [b"%d" % index for index in range(100)]
    connection.close()


def test_rpc_over_an_exclusive_queue(url: str, connection: pika.BlockingConnection, named: Named) -> None:
    """The tutorial's remote procedure call: an exclusive reply queue and a correlation id."""
    requests = named("rpc")
    ready = threading.Event()

    def serve() -> None:
        own = pika.BlockingConnection(pika.URLParameters(url))
        server = own.channel()
        server.queue_declare(requests, auto_delete=True)
        server.basic_qos(prefetch_count=1)
        left = [20]

        def on_request(_channel: object, method: Any, properties: Any, body: bytes) -> None:
            answer = pika.BasicProperties(correlation_id=properties.correlation_id)
            server.basic_publish("", properties.reply_to, b"%d" % (int(body) ** 2), answer)
            server.basic_ack(method.delivery_tag)
            left[0] -= 1
            if left[0] == 0:
                server.stop_consuming()

        server.basic_consume(requests, on_request)
        ready.set()
        server.start_consuming()
        own.close()

    thread = threading.Thread(target=serve)
    thread.start()
    assert ready.wait(PATIENCE_S)
    channel = connection.channel()
    replies = _queue(channel)
    answers: dict[str, bytes] = {}
    channel.basic_consume(replies, lambda _c, _m, p, body: answers.update({p.correlation_id: body}), auto_ack=True)
    for number in range(20):
        properties = pika.BasicProperties(reply_to=replies, correlation_id=str(number))
        channel.basic_publish("", requests, str(number).encode(), properties)
    _process_until(connection, lambda: len(answers) == 20)
    thread.join(PATIENCE_S)
    assert answers == {str(number): b"%d" % number**2 for number in range(20)}


def test_a_large_body_and_headers(channel: BlockingChannel) -> None:
    """Five megabytes, and a table in the headers."""
    queue = _queue(channel)
    body = bytes(range(256)) * 20_000
    headers = {"k": 1, "nested": {"list": [1, "two", None]}, "big": 2**40}
    channel.confirm_delivery()
    channel.basic_publish("", queue, body, pika.BasicProperties(headers=headers, delivery_mode=2))
    _method, properties, received = channel.basic_get(queue, auto_ack=True)
    assert received == body
    assert properties.headers == headers


def test_a_cut_line_is_noticed_and_left_work_returns(
    line: CutLine, connection: pika.BlockingConnection, named: Named
) -> None:
    """The cut client gets an exception, its unacknowledged message goes to another one."""
    channel = connection.channel()
    queue = channel.queue_declare(named("queue")).method.queue
    channel.confirm_delivery()
    channel.basic_publish("", queue, b"m")
    cut = pika.BlockingConnection(pika.URLParameters(line.url))
    assert cut.channel().basic_get(queue)[2] == b"m"
    line.cut()
    with pytest.raises(AMQPConnectionError):
        cut.process_data_events(time_limit=PATIENCE_S)
    received: list[tuple[bool, bytes]] = []
    channel.basic_consume(queue, lambda _c, m, _p, body: received.append((m.redelivered, body)), auto_ack=True)
    _process_until(connection, lambda: bool(received))
    assert received == [(True, b"m")]
    channel.queue_delete(queue)


def test_who_rejects_a_message_finds_its_dead_letter(channel: BlockingChannel) -> None:
    """basic.reject is not answered; what follows it on the channel comes behind what it did."""
    dead = _queue(channel)
    queue = _queue(channel, arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead})
    for number in range(20):
        channel.basic_publish("", queue, b"%d" % number)
        method, _, _ = channel.basic_get(queue)
        channel.basic_reject(method.delivery_tag, requeue=False)
        _, _, body = channel.basic_get(dead, auto_ack=True)
        assert body == b"%d" % number
