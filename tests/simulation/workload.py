"""Workload: what simulated applications do, drawn from the run's Random. It keeps to the protocol but for one slip: an
acknowledgement of a tag that is not outstanding."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from amqp_broker.protocol import methods
from amqp_broker.protocol.fields import Table
from amqp_broker.protocol.properties import encode_properties
from tests.simulation.client import FRAME_MAX, Operation, SimulatedClient
from tests.simulation.settings import DEAD, DELAYED, FAN, LATER, LETTERS, QueueSpec
from tests.simulation.state import ModelChannel, Published

_NOBODY = "nobody"
_LARGE_BYTES = 20_000


class Workload:
    """Gives clients something to do."""

    def __init__(self, chance: random.Random, specs: dict[str, QueueSpec], *, memory_may_be_short: bool) -> None:
        self._chance = chance
        self._memory_may_be_short = memory_may_be_short
        self._specs = specs
        self._next_message = 1
        self._next_tag = 1
        self._favourites = chance.sample([name for name, spec in specs.items() if not spec.is_fixed], 3)
        self._choices: list[tuple[int, Callable[[SimulatedClient, ModelChannel], None]]] = [
            (30, self.publish),
            (30, self.settle),
            (8, self.consume),
            (4, self.declare),
            (4, self.get),
            (3, self.qos),
            (3, self.cancel),
            (2, self.bind),
            (2, self.purge),
            (1, self.delete),
            (4, self.select),
            (5, self.end_transaction),
            (1, self.close_channel),
            (1, self.wrong_ack),
        ]
        self._total = sum(weight for weight, _ in self._choices)

    # -- choosing ----------------------------------------------------------------------------------------------------

    def act(self, client: SimulatedClient) -> None:
        """Let a client do one thing."""
        channels = [channel for channel in client.channels.values() if self._is_usable(channel)]
        if not channels or (len(channels) < 3 and self._chance.random() < 0.05):
            channel = self.open_channel(client)
            if self._chance.random() < 0.5:
                self.confirm_select(client, channel)
            return
        channel = self._chance.choice(channels)
        number = self._chance.randrange(self._total)
        for weight, action in self._choices:
            number -= weight
            if number < 0:
                action(client, channel)
                return

    @staticmethod
    def _is_usable(channel: ModelChannel) -> bool:
        return not channel.is_dead and not channel.is_closed and not channel.is_leaving

    def _queue(self) -> str:
        if self._chance.random() < 0.7:
            return self._chance.choice(self._favourites)
        return self._chance.choice(list(self._specs))

    # -- channels ----------------------------------------------------------------------------------------------------

    def open_channel(self, client: SimulatedClient) -> ModelChannel:
        channel = ModelChannel(client, client.next_channel)
        client.next_channel += 1
        client.channels[channel.number] = channel
        client.send(Operation("open_channel", channel, {}), channel.number, methods.ChannelOpen())
        return channel

    def close_channel(self, client: SimulatedClient, channel: ModelChannel) -> None:
        channel.is_leaving = True
        client.send(Operation("close_channel", channel, {}), channel.number, methods.ChannelClose(200, "bye"))

    def wrong_ack(self, client: SimulatedClient, channel: ModelChannel) -> None:
        """A slip that costs the channel."""
        if channel.client_in_tx:
            return
        channel.is_leaving = True
        client.send(Operation("wrong_ack", channel, {}), channel.number, methods.BasicAck(1_000_000, False))

    def select(self, client: SimulatedClient, channel: ModelChannel) -> None:
        """Confirms, or rarely transactions."""
        if channel.client_in_tx or channel.is_confirming or channel.client_confirms:
            return
        if self._chance.random() < 0.8:
            self.confirm_select(client, channel)
        else:
            channel.client_in_tx = True
            client.send(Operation("tx_select", channel, {}), channel.number, methods.TxSelect())

    def confirm_select(self, client: SimulatedClient, channel: ModelChannel) -> None:
        channel.client_confirms = True
        client.send(Operation("confirm_select", channel, {}), channel.number, methods.ConfirmSelect(False))

    def end_transaction(self, client: SimulatedClient, channel: ModelChannel) -> None:
        if not channel.client_in_tx:
            return
        if self._chance.random() < 0.8:
            client.send(Operation("tx_commit", channel, {}), channel.number, methods.TxCommit())
        else:
            client.send(Operation("tx_rollback", channel, {}), channel.number, methods.TxRollback())

    # -- queues ------------------------------------------------------------------------------------------------------

    def set_up(self, client: SimulatedClient, channel: ModelChannel) -> None:
        """Exchanges and queues that are always there."""
        for name, kind, arguments in (
            (FAN, "fanout", {}),
            (DEAD, "fanout", {}),
            (LATER, "x-delayed-message", {"x-delayed-type": "fanout"}),
        ):
            method = methods.ExchangeDeclare(0, name, kind, False, True, False, False, False, Table(arguments))
            client.send(Operation("declare_exchange", channel, {}), channel.number, method)
        for name, exchange in ((LETTERS, DEAD), (DELAYED, LATER)):
            self.declare_queue(client, channel, name)
            binding = methods.QueueBind(0, name, exchange, "", False, Table({}))
            client.send(Operation("bind_fixed", channel, {}), channel.number, binding)

    def declare(self, client: SimulatedClient, channel: ModelChannel) -> None:
        name = self._queue()
        self.declare_queue(client, channel, name, passive=self._chance.random() < 0.05)
        if self._specs[name].in_fan and self._chance.random() < 0.7:
            self.bind_queue(client, channel, name)

    def declare_queue(
        self, client: SimulatedClient, channel: ModelChannel, name: str, *, passive: bool = False
    ) -> None:
        spec = self._specs[name]
        method = methods.QueueDeclare(
            0, name, passive, spec.is_durable, False, False, False, Table(dict(spec.arguments))
        )
        client.send(Operation("declare", channel, {"spec": spec, "passive": passive}), channel.number, method)

    def bind(self, client: SimulatedClient, channel: ModelChannel) -> None:
        name = self._queue()
        if self._specs[name].in_fan:
            self.bind_queue(client, channel, name)

    def bind_queue(self, client: SimulatedClient, channel: ModelChannel, name: str) -> None:
        method = methods.QueueBind(0, name, FAN, "", False, Table({}))
        client.send(Operation("bind", channel, {"name": name}), channel.number, method)

    def purge(self, client: SimulatedClient, channel: ModelChannel) -> None:
        name = self._queue()
        if not self._specs[name].is_fixed:
            client.send(Operation("purge", channel, {"name": name}), channel.number, methods.QueuePurge(0, name, False))

    def delete(self, client: SimulatedClient, channel: ModelChannel) -> None:
        name = self._queue()
        if not self._specs[name].is_fixed:
            method = methods.QueueDelete(0, name, False, False, False)
            client.send(Operation("delete", channel, {"name": name}), channel.number, method)

    # -- publishing --------------------------------------------------------------------------------------------------

    def publish(self, client: SimulatedClient, channel: ModelChannel) -> None:
        """One message or a burst of them."""
        for _ in range(self._chance.choice([1, 1, 1, 2, 5, 20])):
            draw = self._chance.random()
            exchange, key = "", self._queue()
            if draw < 0.2:
                exchange, key = FAN, ""
            elif draw < 0.25:
                exchange, key = LATER, ""
            elif draw < 0.28:
                key = _NOBODY
            if key in (LETTERS, DELAYED):
                continue
            if channel.client_in_tx and (exchange == FAN or (key in self._specs and self._specs[key].rejects)):
                # A queue that refuses makes the commit a channel's end, and which are full the model does not know.
                exchange, key = "", "plain"
            self.publish_one(client, channel, exchange, key)

    def publish_one(self, client: SimulatedClient, channel: ModelChannel, exchange: str, key: str) -> None:
        chance = self._chance
        number = self._next_message
        self._next_message += 1
        size = chance.choice([0, 10, 100, 100, 700, 3000])
        if chance.random() < 0.01:
            size = _LARGE_BYTES
        body = f"{number}:".encode() + bytes([number % 251]) * size
        properties: dict[str, object] = {}
        is_persistent = chance.random() < 0.75
        if is_persistent or chance.random() < 0.5:
            properties["delivery_mode"] = 2 if is_persistent else 1
        priority = chance.randrange(6) if chance.random() < 0.5 else None
        if priority is not None:
            properties["priority"] = priority
        ttl = chance.choice([0, 30, 1000]) if chance.random() < 0.05 else None
        if ttl is not None:
            properties["expiration"] = str(ttl)
        delay = chance.choice([0, 5, 100, 3000]) if exchange == LATER else 0
        if exchange == LATER:
            properties["headers"] = Table({"x-delay": delay})
        said = encode_properties(properties)
        message = Published(number, body, said, is_persistent, priority or 0, ttl)
        if delay:
            message.released = encode_properties({**properties, "headers": Table({"x-delay": -delay})})
        mandatory = chance.random() < 0.2
        values = {
            "message": message,
            "exchange": exchange,
            "key": key,
            "delay": delay,
            "mandatory": mandatory,
            "split": chance.choice([50, FRAME_MAX - 8, FRAME_MAX - 8]) if size < _LARGE_BYTES else FRAME_MAX - 8,
        }
        method = methods.BasicPublish(0, exchange, key, mandatory, False)
        client.publish(Operation("publish", channel, values), channel.number, method, properties, body)

    # -- consuming ---------------------------------------------------------------------------------------------------

    def consume(self, client: SimulatedClient, channel: ModelChannel) -> None:
        self.consume_queue(client, channel, self._queue(), no_ack=self._chance.random() < 0.15)

    def consume_queue(self, client: SimulatedClient, channel: ModelChannel, name: str, *, no_ack: bool) -> None:
        tag = f"tag-{self._next_tag}"
        self._next_tag += 1
        channel.client_consumers[tag] = None
        method = methods.BasicConsume(0, name, tag, False, no_ack, False, False, Table({}))
        client.send(Operation("consume", channel, {"name": name, "tag": tag, "no_ack": no_ack}), channel.number, method)

    def cancel(self, client: SimulatedClient, channel: ModelChannel) -> None:
        if channel.client_consumers:
            tag = self._chance.choice(list(channel.client_consumers))
            del channel.client_consumers[tag]
            client.send(Operation("cancel", channel, {"tag": tag}), channel.number, methods.BasicCancel(tag, False))

    def get(self, client: SimulatedClient, channel: ModelChannel) -> None:
        name = self._queue()
        # With too little memory, a channel that holds messages may be refused another (406).
        no_ack = self._memory_may_be_short or self._chance.random() < 0.3
        client.send(
            Operation("get", channel, {"name": name, "no_ack": no_ack}),
            channel.number,
            methods.BasicGet(0, name, no_ack),
        )

    def qos(self, client: SimulatedClient, channel: ModelChannel) -> None:
        count = self._chance.choice([0, 1, 2, 5, 20])
        is_global = self._chance.random() < 0.3
        values = {"count": count, "is_global": is_global}
        client.send(Operation("qos", channel, values), channel.number, methods.BasicQos(0, count, is_global))

    def settle(self, client: SimulatedClient, channel: ModelChannel) -> None:
        """Acknowledge or refuse one delivery, or all up to one."""
        if not channel.unsettled:
            return
        tag = self._chance.choice(list(channel.unsettled))
        multiple = self._chance.random() < 0.3
        draw = self._chance.random()
        verdict = "ack" if draw < 0.65 else "requeue" if draw < 0.85 else "refuse"
        self.settle_tag(client, channel, tag, multiple, verdict)

    def settle_tag(
        self, client: SimulatedClient, channel: ModelChannel, tag: int, multiple: bool, outcome: str
    ) -> None:
        if multiple:
            channel.unsettled = {each: None for each in channel.unsettled if each > tag}
        else:
            del channel.unsettled[tag]
        values: dict[str, Any] = {"tag": tag, "multiple": multiple, "requeue": outcome == "requeue"}
        if outcome == "ack":
            client.send(Operation("ack", channel, values), channel.number, methods.BasicAck(tag, multiple))
        elif multiple or self._chance.random() < 0.5:
            method = methods.BasicNack(tag, multiple, values["requeue"])
            client.send(Operation("nack", channel, values), channel.number, method)
        else:
            client.send(
                Operation("nack", channel, values), channel.number, methods.BasicReject(tag, values["requeue"])
            )
