"""RequestClient: a client that asks for lease.* and txn.* as a connector does: again, until it is answered.

It has one connection at a time, to any node. What was lost with a connection, what takes too long and what is `busy`
is asked again with the same fields (docs/leases.md); each time is a Transmission of its own, of which the models hear.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from amqp_broker.protocol import methods
from amqp_broker.protocol.fields import Table
from amqp_broker.protocol.properties import decode_properties
from tests.cluster_simulation.application import AppChannel, Application
from tests.cluster_simulation.cluster_node import MS
from tests.cluster_simulation.transmission import Answer, Transmission
from tests.simulation.client import FRAME_MAX, Event, Operation
from tests.simulation.state import Violation

if TYPE_CHECKING:
    from tests.cluster_simulation.lease_weather import LeaseWeather

Then = Callable[[Answer], None]

_REPLY_TO = "amq.rabbitmq.reply-to"
_REPLIES = "replies"
#: When it is calm everything has to be answered within so long, ms: the nodes' own limit is 10 s.
_CALM_PATIENCE = 12_000


@dataclass(slots=True, eq=False)
class _Request:
    verb: str
    fields: Mapping[str, Any]
    blob: bytes
    then: Then
    is_done: bool = False


class RequestClient(Application):
    """patience: how long it waits for an answer before it tries another connection, ms."""

    def __init__(self, name: str, world: LeaseWeather, patience: int) -> None:
        super().__init__(name, world)
        self.is_dead = False
        self._lease_world = world
        self._patience = patience
        self._requests: list[_Request] = []
        self._sent: dict[str, tuple[_Request, Transmission]] = {}
        self._channel: AppChannel | None = None
        self._is_connecting = False

    def ask(self, verb: str, fields: Mapping[str, Any], then: Then, blob: bytes = b"") -> None:
        """Ask until there is an answer that is not `busy`, which `then` gets."""
        request = _Request(verb, fields, blob, then)
        self._requests.append(request)
        if self._channel is not None:
            self._transmit(request)
        else:
            self._connect_later(0)

    def die(self, *, is_heard: bool) -> None:
        """The process is gone. is_heard: so is its connection, at once; else what it has sent still arrives."""
        self.is_dead = True
        self._requests.clear()
        self._sent.clear()
        if self.client is not None and is_heard:
            self.world.leave(self)
        elif self.client is not None:
            self.world.after(self.world.chance.choice([50, 500]) * MS, self._leave)

    def _leave(self) -> None:
        if self.client is not None:
            self.world.leave(self)

    # -- connections ---------------------------------------------------------------------------------------------------

    def _connect_later(self, delay: int) -> None:
        if not self._is_connecting and self.client is None:
            self._is_connecting = True
            self.world.after(delay * MS, self._connect)

    def _connect(self) -> None:
        self._is_connecting = False
        if self.is_dead or self.client is not None or not self._requests:
            return
        serving = self.world.serving()
        if not serving:
            self._connect_later(20)
            return
        self.world.connect(self, self.world.chance.choice(serving))
        self._lose_patience(lambda: self._channel is None)

    def lost(self) -> None:
        """See Application."""
        was_there = self.client is not None
        super().lost()
        self._channel = None
        self._sent.clear()
        if was_there and not self.is_dead:
            self._connect_later(self.world.chance.choice([1, 20, 100]))

    def _lose_patience(self, is_waiting: Callable[[], bool]) -> None:
        """Give the connection up, if it is still this one and there is still nothing."""
        client = self.client
        patience = _CALM_PATIENCE if self.world.is_calm else self._patience

        def look() -> None:
            if not self.is_dead and self.client is client and client is not None and is_waiting():
                self.world.note(f"{client.name} waits no longer")
                self.world.leave(self)

        self.world.after(patience * MS, look)

    def _on_connection_event(self, method: Any) -> None:
        super()._on_connection_event(method)
        if self.client is None or self.is_dead or not isinstance(method, methods.ConnectionOpenOk):
            return
        self._channel = channel = self.open_channel()
        consume = methods.BasicConsume(0, _REPLY_TO, _REPLIES, False, True, False, False, Table({}))
        self._send(channel, consume, self._ask("consume"))
        for request in self._requests:
            self._transmit(request)

    # -- requests ------------------------------------------------------------------------------------------------------

    def _transmit(self, request: _Request) -> None:
        if request.is_done or self._channel is None or self.client is None:
            return
        name = str(self.world.next_number())
        transmission = Transmission(request.verb, request.fields, self.world.next_number(), blob=request.blob)
        self._sent[name] = request, transmission
        self._lease_world.judge(request.verb).sent(transmission)
        self.world.counts[request.verb] += 1
        self.world.note(f"{self.client.name} asks {name}: {transmission}")
        properties: dict[str, object] = {"reply_to": _REPLY_TO, "correlation_id": name}
        body = json.dumps(request.fields).encode()
        if request.verb == "txn.stage":
            properties["headers"] = Table(dict(request.fields))
            body = request.blob
        method = methods.BasicPublish(0, "amq.system", request.verb, False, False)
        operation = Operation("other", None, {"split": FRAME_MAX - 8})
        self.client.publish(operation, self._channel.number, method, properties, body)
        self.world.feed_later(self)
        self._lose_patience(lambda: name in self._sent)

    def _on_event(self, channel: AppChannel, event: Event) -> None:
        if not isinstance(event.method, methods.BasicDeliver):
            super()._on_event(channel, event)
        elif not self.is_dead:
            self._on_answer(event)

    def _on_answer(self, event: Event) -> None:
        properties = decode_properties(event.properties)
        name = str(properties.correlation_id)
        if name not in self._sent:
            raise Violation(f"{self.name}: an answer to {name}, which was answered before, or never asked")
        request, transmission = self._sent.pop(name)
        answer = _read(properties, event.body)
        self.world.note(f"{self.name} is answered {name}: {answer.code} {answer.fields} {answer.headers}")
        transmission.end(answer, self.world.next_number())
        if answer.code == "busy":
            self.world.counts["busy"] += 1
            pause = self.world.chance.choice([10, 50, 300])
            self.world.after(pause * MS, lambda: self._transmit_again(request))
            return
        self.world.counts[f"{request.verb} {answer.code}"] += 1
        self._lease_world.judge(request.verb).answered(transmission)
        request.is_done = True
        self._requests.remove(request)
        request.then(answer)

    def _transmit_again(self, request: _Request) -> None:
        if not self.is_dead and all(each is not request for each, _ in self._sent.values()):
            self._transmit(request)


def _read(properties: Any, body: bytes) -> Answer:
    if properties.content_type != "application/json":
        return Answer("ok", {}, dict(properties.headers or {}), body)
    fields = json.loads(body)
    return Answer("ok" if fields["ok"] else str(fields["code"]), fields)
