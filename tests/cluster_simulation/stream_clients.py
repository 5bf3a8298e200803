"""Clients of streams: who publishes, with confirms, and who reads from some offset on. What they were told StreamModel
hears."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from amqp_broker.protocol import methods
from amqp_broker.protocol.fields import Table
from amqp_broker.protocol.properties import decode_properties
from tests.cluster_simulation.application import AppChannel, Application
from tests.cluster_simulation.cluster_node import ClusterNode
from tests.cluster_simulation.cursor_model import CursorKind
from tests.cluster_simulation.stream_model import NUMBER, Published, Reading, StreamKind
from tests.simulation.client import FRAME_MAX, Event, Operation
from tests.simulation.state import Violation

if TYPE_CHECKING:
    from tests.cluster_simulation.stream_weather import StreamWeather

VALUES = ("red", "green", "blue")
#: The exchange by which messages with these keys come to a stream.
KEYED = "keyed"
KEYS = ("k", "l", "m")
#: By which one is compacted; "" for none.
COMPACTED_KEYS = ("", "a", "b", "c", "d", "e", "f")
_OFFSET = "x-stream-offset"


class StreamClient(Application):
    """A client with one channel. node: the one that it stays with; None for any."""

    def __init__(self, name: str, world: StreamWeather, its_node: ClusterNode | None = None) -> None:
        super().__init__(name, world)
        self.channel: AppChannel | None = None
        self.streams = world
        self._its_node = its_node

    def come(self) -> bool:
        """See to it that there is a channel. Returns whether there is one."""
        world = self.world
        if self.client is None:
            self.channel = None
            serving = [node for node in world.serving() if self._its_node in (None, node)]
            if serving:
                world.connect(self, world.chance.choice(serving))
        elif self.is_open and self.channel is None:
            self.channel = self.open_channel()
            self.begin(self.channel)
        return self.is_open and self.channel is not None

    def begin(self, channel: AppChannel) -> None:
        """There is a new channel."""

    def choose(self) -> StreamKind:
        """The stream that it has to do with next."""
        return self.world.chance.choice(self.streams.stream_kinds)

    def _on_event(self, channel: AppChannel, event: Event) -> None:
        if isinstance(event.method, methods.BasicCancel):
            self.streams.reader_cancelled(self)
        else:
            super()._on_event(channel, event)

    def lost(self) -> None:
        """See Application."""
        super().lost()
        self.channel = None

    def declare_stream(self, kind: StreamKind | CursorKind) -> None:
        assert self.channel is not None
        method = methods.QueueDeclare(0, kind.name, False, True, False, False, False, Table(kind.table))
        self._send(self.channel, method, self._ask("declare"))


class StreamPublisher(StreamClient):
    """It publishes with confirms. Half of it under a producer's numbers: what is not confirmed when the connection is
    lost is published again, in order and first of all."""

    def __init__(self, name: str, world: StreamWeather) -> None:
        super().__init__(name, world)
        self._unconfirmed: dict[int, Published] = {}
        self._again: list[Published] = []
        self._published = 0
        self._sequence = 0

    @property
    def is_done(self) -> bool:
        """Whether it knows of all that has a number."""
        return not self._again and not self._unconfirmed

    def begin(self, channel: AppChannel) -> None:
        """See StreamClient."""
        self.confirm_select(channel)
        self._published = 0
        self.publish_again()

    def publish_again(self) -> None:
        """What may be lost."""
        again, self._again = self._again, []
        for message in again:
            self.world.counts["sequences again"] += 1
            self._put(message)

    def lost(self) -> None:
        """See Application."""
        lost = [message for message in self._unconfirmed.values() if message.producer]
        self._unconfirmed = {}
        self._again = lost + self._again
        super().lost()

    def act(self) -> None:
        """Publish some."""
        if not self.come() or len(self._unconfirmed) > 200:
            return
        chance = self.world.chance
        kind = self.choose()
        for _ in range(chance.choice([1, 1, 2, 5, 20])):
            number = self.world.next_message()
            body = b"%d:" % number + bytes([number % 251]) * chance.choice([0, 10, 100, 100, 700])
            if chance.random() < 0.01:
                body += bytes(18_000)
            message = Published(number, kind.name, body)
            if kind.whole:
                message.key = chance.choice(kind.keys)
            elif kind.is_compacted:
                message.key = chance.choice(COMPACTED_KEYS)
                message.is_tombstone = message.key != "" and chance.random() < 0.3
                if message.is_tombstone:
                    message.body = b"%d:" % number
            if chance.random() < 0.3:
                message.value = chance.choice(VALUES)
            if kind.name == self.streams.keyed and chance.random() < 0.7:
                message.key = chance.choice(KEYS)
            if chance.random() < 0.5:
                # One producer for each stream: numbers of others are not waited for.
                self._sequence += 1
                message.producer, message.sequence = f"{self.name} {kind.name}", self._sequence
            self.streams.stream_model.messages[number] = message
            self._put(message)

    def _put(self, message: Published) -> None:
        assert self.client is not None
        assert self.channel is not None
        headers: dict[str, object] = {}
        if message.value:
            headers["x-stream-filter-value"] = message.value
        if message.key:
            headers["x-stream-key"] = message.key
        if message.producer:
            headers |= {"x-producer-id": message.producer, "x-producer-sequence": message.sequence}
        if message.is_tombstone:
            headers[NUMBER] = message.body.decode()
        properties: dict[str, object] = {"headers": Table(headers)} if headers else {}
        operation = Operation("other", None, {"split": FRAME_MAX - 8})
        exchange, key = "", self.streams.published_as(message.stream)
        if message.key and message.stream == self.streams.keyed:
            exchange, key = KEYED, message.key
        method = methods.BasicPublish(0, exchange, key, False, False)
        body = b"" if message.is_tombstone else message.body
        self.client.publish(operation, self.channel.number, method, properties, body)
        self._published += 1
        self._unconfirmed[self._published] = message
        self.world.feed_later(self)

    def _on_event(self, channel: AppChannel, event: Event) -> None:
        method = event.method
        if isinstance(method, methods.BasicNack):
            raise Violation(f"{self.name}: a publish to a stream is refused: {method}")
        if not isinstance(method, methods.BasicAck):
            super()._on_event(channel, event)
            return
        tag = method.delivery_tag
        tags = [each for each in self._unconfirmed if each <= tag] if method.multiple else [tag]
        for each in tags:
            message = self._unconfirmed.pop(each, None)
            if message is None:
                raise Violation(f"{self.name}: publish {each} is confirmed, and nothing of that number waits for it")
            self.streams.stream_model.confirmed(message)


class StreamConsumer(StreamClient):
    """It reads one stream: from somewhere, and from where it was when it has lost its connection."""

    def __init__(self, name: str, world: StreamWeather, its_node: ClusterNode | None = None) -> None:
        super().__init__(name, world, its_node)
        self.reading: Reading | None = None
        self.took = 0
        self._prefetch = 0
        self._unsettled: list[int] = []
        self._is_consuming = False

    def read(self, kind: StreamKind, offset: object, expected: int | None, values: tuple[str, ...] = ()) -> None:
        """Read this from now on. offset: as x-stream-offset has it."""
        self.reading = Reading(self.streams.stream_model, kind, expected, values)
        self._offset = offset
        self._is_consuming = False

    def begin(self, channel: AppChannel) -> None:
        """See StreamClient."""
        self._unsettled = []
        self._is_consuming = False
        self._prefetch = 500 if self.world.is_calm else self.world.chance.choice([1, 3, 50])
        self._send(channel, methods.BasicQos(0, self._prefetch, False), self._ask("qos"))

    def act(self) -> None:
        """Choose, read, acknowledge, leave."""
        chance = self.world.chance
        if not self.come():
            return
        if self.reading is None:
            self._choose()
        if not self._is_consuming:
            self._consume()
        elif chance.random() < 0.03 and self.channel is not None:
            self.close_channel(self.channel)
            self.channel = None
            if chance.random() < 0.5:
                self.reading = None
        else:
            self.acknowledge(chance.choice([1, 5, 1000]))

    def go_on(self) -> None:
        """Read what there is, without leaving."""
        if not self._is_consuming:
            self._consume()
        else:
            self.acknowledge(1000)

    def _choose(self) -> None:
        chance, world = self.world.chance, self.streams
        kind = self.choose()
        content = world.stream_model.content(kind.name)
        somewhere = chance.randint(0, len(content.numbers))
        # At a node that is behind it begins where that knows it to.
        first = min(content.firsts.values(), default=content.first)
        offset, expected = chance.choice(
            [("first", first), ("last", None), ("next", None), (somewhere, None), ("1s", None)]
        )
        values = tuple(chance.sample(VALUES, chance.randint(1, 2))) if chance.random() < 0.3 else ()
        self.read(kind, offset, expected, values)

    def _consume(self) -> None:
        assert self.channel is not None
        assert self.reading is not None
        reading = self.reading
        offset = self._offset if reading.expected is None or not self.took else reading.expected
        arguments: dict[str, object] = {_OFFSET: offset}
        if reading.values:
            arguments["x-stream-filter"] = list(reading.values)
        method = methods.BasicConsume(0, reading.kind.name, "reader", False, False, False, False, Table(arguments))
        self._send(self.channel, method, self._ask("consume"))
        self._is_consuming = True
        self.world.counts[f"reads from {offset if isinstance(offset, str) else 'an offset'}"] += 1

    def acknowledge(self, count: int) -> None:
        """Some of what came, in any order."""
        assert self.channel is not None
        chance = self.world.chance
        if not self._unsettled:
            return
        if count >= len(self._unsettled):
            tags, self._unsettled, is_multiple = [self._unsettled[-1]], [], True
        else:
            tags = [self._unsettled.pop(chance.randrange(len(self._unsettled))) for _ in range(count)]
            is_multiple = False
        for tag in tags:
            self._send(self.channel, methods.BasicAck(tag, is_multiple), None)

    def _on_event(self, channel: AppChannel, event: Event) -> None:
        if not isinstance(event.method, methods.BasicDeliver):
            super()._on_event(channel, event)
            return
        if channel is not self.channel or self.reading is None:
            return  # it is about to be closed
        headers = decode_properties(event.properties).headers or {}
        offset: Any = headers.get(_OFFSET)
        if event.method.redelivered or not isinstance(offset, int):
            raise Violation(f"{self.name}: a delivery of a stream with the offset {offset}: {event.method}")
        self.streams.look()
        number: Any = headers.get(NUMBER, "")
        self.reading.deliver(offset, event.body or number.encode())
        self.streams.has_read(channel.model.node, self.reading.kind.name, "read")
        self.took += 1
        self._unsettled.append(event.method.delivery_tag)
        if len(self._unsettled) > self._prefetch:
            raise Violation(f"{self.name}: {len(self._unsettled)} deliveries, its prefetch is {self._prefetch}")


def all_done(clients: list[StreamPublisher]) -> Callable[[], bool]:
    """Whether publishers know of all that they will ask for again."""

    def look() -> bool:
        for client in clients:
            client.come()
        return all(client.is_done for client in clients)

    return look
