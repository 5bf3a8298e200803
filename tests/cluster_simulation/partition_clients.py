"""Members of groups that read a stream with partitions. What they were told GroupModel hears."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from amqp_broker.protocol import methods
from amqp_broker.protocol.fields import Table
from amqp_broker.protocol.properties import decode_properties
from tests.cluster_simulation.application import AppChannel
from tests.cluster_simulation.cluster_node import ClusterNode
from tests.cluster_simulation.stream_clients import StreamClient
from tests.simulation.client import Event
from tests.simulation.state import Violation

if TYPE_CHECKING:
    from tests.cluster_simulation.stream_weather import StreamWeather

GROUPS = ("one", "other")


class GroupMember(StreamClient):
    """group: that it reads with; one of its choice, each time that it comes, if none is given."""

    def __init__(
        self, name: str, world: StreamWeather, group: str = "", its_node: ClusterNode | None = None
    ) -> None:
        super().__init__(name, world, its_node)
        self.group = group
        self._given = group
        self._prefetch = 0
        self._is_consuming = False
        self._unsettled: dict[int, tuple[str, int]] = {}
        self._last: dict[str, int] = {}

    def begin(self, channel: AppChannel) -> None:
        """See StreamClient."""
        self._unsettled = {}
        self._last = {}
        self._is_consuming = False
        self.group = self._given or self.world.chance.choice(GROUPS)
        self._prefetch = 500 if self.world.is_calm else self.world.chance.choice([1, 3, 50])
        self._send(channel, methods.BasicQos(0, self._prefetch, False), self._ask("qos"))

    def act(self) -> None:
        """Read, acknowledge, put back, leave."""
        chance = self.world.chance
        if not self.come():
            return
        if not self._is_consuming:
            self._consume()
        elif chance.random() < 0.03 and self.channel is not None:
            self.close_channel(self.channel)
            self.channel = None
        else:
            self._settle(chance.choice([1, 5, 1000]), may_put_back=True)

    def go_on(self) -> None:
        """Read what there is, without leaving."""
        if self.come():
            if not self._is_consuming:
                self._consume()
            else:
                self._settle(1000, may_put_back=False)

    def _consume(self) -> None:
        assert self.channel is not None
        arguments = Table({"x-stream-group": self.group, "x-stream-offset": "first"})
        method = methods.BasicConsume(0, self.streams.shared.name, "member", False, False, False, False, arguments)
        self._send(self.channel, method, self._ask("consume"))
        self._is_consuming = True
        self.world.counts["members came"] += 1

    def _settle(self, count: int, *, may_put_back: bool) -> None:
        """Some of what came, in any order."""
        assert self.channel is not None
        chance = self.world.chance
        tags = list(self._unsettled)
        chance.shuffle(tags)
        for tag in tags[:count]:
            stream, offset = self._unsettled.pop(tag)
            if may_put_back and chance.random() < 0.05:
                self._send(self.channel, methods.BasicNack(tag, False, True), None)
                continue
            self.streams.stream_model.groups.acked(stream, self.group, offset)
            self._send(self.channel, methods.BasicAck(tag, False), None)

    def _on_event(self, channel: AppChannel, event: Event) -> None:
        if not isinstance(event.method, methods.BasicDeliver):
            super()._on_event(channel, event)
            return
        if channel is not self.channel:
            return  # it is about to be closed
        headers = decode_properties(event.properties).headers or {}
        offset: Any = headers.get("x-stream-offset")
        partition: Any = headers.get("x-stream-partition")
        stream, method, model = f"{self.streams.shared.name}-{partition}", event.method, self.streams.stream_model
        message = model.at(stream, offset)
        if message.body != event.body:
            raise Violation(f"'{stream}' has message {message.number} at {offset}, and there comes {event.body[:20]!r}")
        self.streams.look()
        model.groups.delivered(stream, self.group, channel.model.node, offset, method.redelivered)
        if not method.redelivered:
            if offset <= self._last.get(stream, -1):
                raise Violation(f"{self.name}: '{stream}' delivers {offset} behind {self._last[stream]}")
            self._last[stream] = offset
        model.counts["read in groups"] += 1
        self.streams.has_read(channel.model.node, stream, "read in groups")
        self._unsettled[method.delivery_tag] = stream, offset
        if len(self._unsettled) > self._prefetch:
            raise Violation(f"{self.name}: {len(self._unsettled)} deliveries, its prefetch is {self._prefetch}")
