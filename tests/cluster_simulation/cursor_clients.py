"""Consumers of queues over streams: they take, acknowledge, give back, leave. What they were told the models hear."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_broker.protocol import methods
from amqp_broker.protocol.fields import Table
from amqp_broker.protocol.properties import decode_properties
from tests.cluster_simulation.application import AppChannel
from tests.cluster_simulation.cluster_node import ClusterNode
from tests.cluster_simulation.cursor_model import CursorKind
from tests.cluster_simulation.stream_clients import StreamClient
from tests.simulation.client import Event
from tests.simulation.observer import message_number
from tests.simulation.state import Violation

if TYPE_CHECKING:
    from tests.cluster_simulation.stream_weather import StreamWeather


class CursorConsumer(StreamClient):
    """It consumes from one queue over a stream. held: what it has not settled, by tag, and the messages' numbers.
    is_draining: it acknowledges what comes when it comes, as there is one message at a time of a key that has an order,
    and looks are far apart."""

    def __init__(self, name: str, world: StreamWeather, its_node: ClusterNode | None = None) -> None:
        super().__init__(name, world, its_node)
        self.kind: CursorKind | None = None
        self.held: dict[int, int] = {}
        self.is_draining = False
        self._is_consuming = False

    def begin(self, channel: AppChannel) -> None:
        """See StreamClient."""
        self.held = {}
        self._is_consuming = False
        prefetch = 500 if self.world.is_calm else self.world.chance.choice([1, 3, 50])
        self._send(channel, methods.BasicQos(0, prefetch, False), self._ask("qos"))

    def act(self) -> None:
        """Choose, take, settle, leave."""
        chance = self.world.chance
        if not self.come():
            return
        if self.kind is None:
            self.kind = chance.choice(self.streams.cursor_kinds)
        if not self._is_consuming:
            self._consume(self.kind)
        elif chance.random() < 0.03 and self.channel is not None:
            self.close_channel(self.channel)
            self.channel = None
            if chance.random() < 0.5:
                self.kind = None
        else:
            self._settle(chance.choice([1, 5, 1000]))

    def drain(self, kind: CursorKind) -> None:
        """Take what there is, and be done with it."""
        self.kind = kind
        self.is_draining = True
        if self.come() and not self._is_consuming:
            self._consume(kind)

    def _consume(self, kind: CursorKind) -> None:
        assert self.channel is not None
        # By its name the log says whose delivery is meant.
        method = methods.BasicConsume(0, kind.name, self.name, False, False, False, False, Table({}))
        self._send(self.channel, method, self._ask("consume"))
        self._is_consuming = True

    def _settle(self, count: int) -> None:
        chance = self.world.chance
        for tag in chance.sample(list(self.held), min(count, len(self.held))):
            if chance.random() < 0.15:
                assert self.channel is not None
                del self.held[tag]
                self._send(self.channel, methods.BasicNack(tag, False, True), None)
                self.world.counts["cursor returns"] += 1
            else:
                self._acknowledge(tag)

    def _acknowledge(self, tag: int) -> None:
        assert self.channel is not None
        assert self.node is not None
        assert self.kind is not None
        number = self.held.pop(tag)
        self.world.clients.acknowledged[self.node.name, self.name, self.kind.name, number] += 1
        self._send(self.channel, methods.BasicAck(tag, False), None)
        self.world.counts["cursor acks"] += 1

    def _on_event(self, channel: AppChannel, event: Event) -> None:
        if not isinstance(event.method, methods.BasicDeliver):
            super()._on_event(channel, event)
            return
        if channel is not self.channel or self.kind is None:
            return  # it is about to be closed
        assert self.node is not None
        number, stream = message_number(event.body), self.kind.stream
        headers = decode_properties(event.properties).headers or {}
        offset = headers.get("x-stream-offset")
        message = self.streams.stream_model.at(stream, offset) if isinstance(offset, int) else None
        if message is None or (message.number, message.body) != (number, event.body):
            raise Violation(f"{self.name}: message {number} of '{stream}' comes as that at {offset}")
        self.world.log.seen(self.node.name, self.name, number, is_get=False)
        self.held[event.method.delivery_tag] = number
        self.world.counts["cursor deliveries"] += 1
        if self.is_draining:
            self._acknowledge(event.method.delivery_tag)
