"""kombu at work over py-amqp: entities, producers, consumers, fan-out control, priorities, live prefetch."""

# mypy: disable-error-code="no-untyped-call,attr-defined"
from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from typing import Any

import pika
import pytest
from amqp.exceptions import NotFound, PreconditionFailed  # type: ignore[import-untyped]
from kombu import Connection, Consumer, Exchange, Producer, Queue
from kombu.mixins import ConsumerMixin
from kombu.pidbox import Mailbox
from kombu.pools import connections, producers

Named = Callable[[str], str]
PATIENCE_S = 90


@pytest.fixture
def connection(url: str) -> Iterator[Any]:
    with Connection(url) as opened:
        yield opened


def _drain(connection: Any, is_done: Callable[[], bool]) -> None:
    while not is_done():
        connection.drain_events(timeout=PATIENCE_S)


@pytest.mark.parametrize(
    ("kind", "binding", "matching", "others"),
    [
        ("direct", "a.b", ["a.b"], ["a.c"]),
        ("topic", "a.*", ["a.b", "a.c"], ["b"]),
        ("fanout", "", ["x", "y"], []),
    ],
)
def test_exchanges_and_queues(
    connection: Any, named: Named, kind: str, binding: str, matching: list[str], others: list[str]
) -> None:
    """Declared by the producer and the consumer, each routed as its type says, acknowledged one by one."""
    exchange = Exchange(named("exchange"), kind, auto_delete=True)
    queue = Queue(named("queue"), exchange, routing_key=binding, auto_delete=True)
    received: list[Any] = []

    def on_message(body: Any, message: Any) -> None:
        received.append(body)
        message.ack()

    with Consumer(connection, [queue], callbacks=[on_message], accept=["json"]):
        producer = Producer(connection, exchange)
        for key in [*matching, *others]:
            producer.publish({"key": key}, routing_key=key, declare=[queue])
        _drain(connection, lambda: len(received) == len(matching))
    assert received == [{"key": key} for key in matching]


@pytest.mark.parametrize("serializer", ["json", "pickle"])
@pytest.mark.parametrize("compression", [None, "zlib", "bzip2"])
def test_serializers_and_compression(connection: Any, named: Named, serializer: str, compression: str | None) -> None:
    """Content type, encoding and the compression header survive the way."""
    queue = connection.SimpleQueue(named("queue"), queue_opts={"auto_delete": True})
    queue.consumer.accept = {"application/json", "application/x-python-serialize"}
    task = {"numbers": list(range(100)), "text": "Grüße", "nested": {"none": None}}
    queue.put(task, serializer=serializer, compression=compression)
    message = queue.get(timeout=PATIENCE_S)
    assert message.payload == task
    message.ack()
    queue.close()


def test_confirmed_publishing_and_returns(url: str, named: Named) -> None:
    """confirm_publish waits for each ack; on_return gets what nobody takes."""
    returned: list[str] = []
    with Connection(url, transport_options={"confirm_publish": True}) as connection:
        queue = Queue(named("queue"), auto_delete=True)
        producer = Producer(connection, on_return=lambda _error, _exchange, key, _message: returned.append(key))
        for index in range(50):
            producer.publish({"n": index}, routing_key=queue.name, declare=[queue], delivery_mode=2)
        producer.publish({}, routing_key="no-such-queue", mandatory=True)
        assert connection.default_channel.queue_declare(queue.name, passive=True).message_count == 50
    assert returned == ["no-such-queue"]


def test_priorities(connection: Any, named: Named) -> None:
    """A queue with max_priority delivers the higher first."""
    queue = Queue(named("queue"), max_priority=10, exclusive=True)
    bound = queue(connection.default_channel)
    bound.declare()
    producer = Producer(connection)
    for priority in (0, 9, 5, 9):
        producer.publish({"priority": priority}, routing_key=queue.name, priority=priority)
    found = [bound.get(no_ack=True, accept=["json"]).payload["priority"] for _ in range(4)]
    assert found == [9, 9, 5, 0]


def test_reject_and_requeue(connection: Any, named: Named) -> None:
    """Once requeued, then rejected to the dead letters."""
    dead = Queue(named("dead"), auto_delete=True)(connection.default_channel)
    dead.declare()
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead.name}
    queue = Queue(named("queue"), exclusive=True, queue_arguments=arguments)(connection.default_channel)
    queue.declare()
    Producer(connection).publish({"n": 1}, routing_key=queue.name)
    first = queue.get(accept=["json"])
    first.requeue()
    second = queue.get(accept=["json"])
    assert second.delivery_info["redelivered"] is True
    second.reject()
    assert queue.get(accept=["json"]) is None
    letter = dead.get(no_ack=True, accept=["json"])
    assert letter.payload == {"n": 1}
    assert letter.headers["x-death"][0]["reason"] == "rejected"


def test_the_prefetch_changes_live(connection: Any, named: Named) -> None:
    """Celery's way: qos over the whole channel, raised while consumers run."""
    queue = Queue(named("queue"), exclusive=True)
    channel = connection.default_channel
    queue(channel).declare()
    producer = Producer(connection)
    for index in range(10):
        producer.publish({"n": index}, routing_key=queue.name)
    received: list[Any] = []
    consumer = Consumer(channel, [queue], on_message=received.append, accept=["json"])
    channel.basic_qos(0, 2, True)
    consumer.consume()
    _drain(connection, lambda: len(received) == 2)
    with pytest.raises(socket.timeout):
        connection.drain_events(timeout=0.2)
    channel.basic_qos(0, 5, True)
    _drain(connection, lambda: len(received) == 5)
    for message in received[:5]:
        message.ack()
    _drain(connection, lambda: len(received) == 10)
    assert [message.payload["n"] for message in received] == list(range(10))


class _Answerer:
    """Two mailboxes of one kind on connections of their own; each answers as itself."""

    def __init__(self, mailbox: Mailbox, url: str, name: str) -> None:
        self.connection = Connection(url)
        self.node = mailbox.Node(name, state={"name": name})
        self.node.handlers["ping"] = lambda state, **_: {"pong": state["name"]}
        self.node.channel = self.connection.channel()
        self.consumer = self.node.listen()


def test_a_pidbox_reaches_everybody(connection: Any, url: str, named: Named) -> None:
    """The control channel of Celery: a broadcast through a fanout exchange, replies through a direct one."""
    mailbox = Mailbox(named("control"), type="fanout", accept=["json"])
    answerers = [_Answerer(mailbox, url, name) for name in ("one", "two")]
    bound = mailbox(connection)
    replies: list[Any] = []
    channel = connection.channel()
    ticket = named("ticket")
    reply_queue = bound.get_reply_queue()(channel)
    reply_queue.declare()
    bound._publish("ping", {}, reply_ticket=ticket, channel=channel)
    for answerer in answerers:
        answerer.connection.drain_events(timeout=PATIENCE_S)
    while len(replies) < 2:
        message = reply_queue.get(no_ack=True, accept=["json"])
        if message is not None:
            replies.append(message.payload)
    assert sorted(replies, key=str) == [{"one": {"pong": "one"}}, {"two": {"pong": "two"}}]
    for answerer in answerers:
        answerer.connection.close()


class _Worker(ConsumerMixin):
    """kombu's own worker loop."""

    def __init__(self, connection: Any, queue: Queue, wanted: int) -> None:
        self.connection = connection
        self.received: list[Any] = []
        self._queue = queue
        self._wanted = wanted

    def get_consumers(self, consumer_class: Any, channel: Any) -> list[Any]:
        return [consumer_class([self._queue], callbacks=[self.on_task], accept=["json"], prefetch_count=10)]

    def on_task(self, body: Any, message: Any) -> None:
        self.received.append(body["n"])
        message.ack()
        self.should_stop = len(self.received) == self._wanted


def test_a_consumer_mixin_works_off_a_queue(connection: Any, url: str, named: Named) -> None:
    """Fed through kombu's pools of connections and producers."""
    queue = Queue(named("tasks"), durable=True)
    with (
        connections[Connection(url)].acquire(block=True) as pooled,
        producers[pooled].acquire(block=True) as producer,
    ):
        for index in range(300):
            producer.publish({"n": index}, routing_key=queue.name, declare=[queue], retry=True)
    worker = _Worker(connection, queue, wanted=300)
    worker.run(timeout=PATIENCE_S)
    assert worker.received == list(range(300))
    with Connection(url) as other:
        queue(other.default_channel).delete()


def test_errors_are_those_of_the_specification(connection: Any, named: Named) -> None:
    """404 and 406 as py-amqp's exceptions; each ends its channel, not the connection."""
    name = named("queue")
    with pytest.raises(NotFound):
        connection.channel().queue_declare(name, passive=True)
    connection.default_channel.queue_declare(name, auto_delete=True, durable=False)
    with pytest.raises(PreconditionFailed):
        connection.channel().queue_declare(name, auto_delete=True, durable=True)
    assert connection.connected
    connection.default_channel.queue_delete(name)


def test_heartbeats(url: str) -> None:
    """A connection with heartbeats of two seconds is kept by heartbeat_check alone."""
    with Connection(url, heartbeat=2) as connection:
        connection.connect()
        for _ in range(12):
            with pytest.raises(socket.timeout):
                connection.drain_events(timeout=0.5)
            connection.heartbeat_check(rate=2)
        assert connection.default_channel.queue_declare(exclusive=True).queue.startswith("amq.gen-")


def test_kombu_knows_the_qos_semantics(connection: Any) -> None:
    """By product and version kombu must see that global=false means each consumer, or Celery could not change
    its prefetch live.
    """
    properties = connection.connection.server_properties
    assert connection.qos_semantics_matches_spec is False, properties


def test_integers_beyond_32_bits(connection: Any, url: str, named: Named) -> None:
    """py-amqp writes them with the letter L, which other clients do not know: pika gets them all the same."""
    numbers = {"ts": 1_700_000_000_000, "low": -(1 << 63), "deep": [{"high": (1 << 63) - 1}]}
    queue = Queue(named("queue"), auto_delete=True, queue_arguments={"x-expires": 1 << 33})
    Producer(connection).publish("body", routing_key=queue.name, declare=[queue], headers=numbers)
    with pika.BlockingConnection(pika.URLParameters(url)) as other:
        _, properties, _ = other.channel().basic_get(queue.name, auto_ack=True)
    assert properties is not None
    assert properties.headers == numbers
