"""Application: one client of a simulated cluster: what it sends, and what it makes of the answers.

It speaks real octets through SimulatedClient, tells ClientModel what it did and was told, and connects to another node
when it has lost its own. What it does next is drawn in routine.py.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from amqp_broker.protocol import methods
from amqp_broker.protocol.fields import Table
from amqp_broker.protocol.properties import decode_properties
from tests.cluster_simulation.client_model import UNLIMITED, Arrival, Attempt, Channel, Consumer, Removal, Sent
from tests.cluster_simulation.log_records import Handing
from tests.cluster_simulation.queue_kinds import HELD_BACK, HOME_SCRATCH, SCRATCH
from tests.simulation.client import FRAME_MAX, Event, Operation, SimulatedClient
from tests.simulation.observer import message_number
from tests.simulation.state import Violation

if TYPE_CHECKING:
    from tests.cluster_simulation.cluster_node import ClusterNode
    from tests.cluster_simulation.cluster_world import ClusterWorld

_ANSWERS: dict[type[Any], str] = {
    methods.ChannelOpenOk: "open",
    methods.ChannelCloseOk: "close",
    methods.ExchangeDeclareOk: "declare exchange",
    methods.QueueDeclareOk: "declare",
    methods.QueueBindOk: "bind",
    methods.QueueUnbindOk: "unbind",
    methods.QueueDeleteOk: "delete",
    methods.QueuePurgeOk: "purge",
    methods.ConfirmSelectOk: "confirm",
    methods.BasicConsumeOk: "consume",
    methods.BasicCancelOk: "cancel",
    methods.BasicQosOk: "qos",
    methods.BasicRecoverOk: "recover",
    methods.BasicGetOk: "get",
    methods.BasicGetEmpty: "get",
}

#: What the broker may close a channel for: a queue that is not there (any more), or whose home is down.
_NOT_FOUND = 404
#: What it may close a connection for: the node is going down; no majority answered in time.
_CLOSES = (320, 541)


@dataclass(slots=True)
class Question:
    """Something that the broker has to answer."""

    kind: str
    sent_at: int
    queue: str = ""
    consumer: Consumer | None = None
    no_ack: bool = False
    removal: Removal | None = None
    limit: int = 0


@dataclass(slots=True, eq=False)
class AppChannel:
    """A channel: `model` is what ClientModel knows of it. acked: (the node's turn, what was acknowledged in it)."""

    number: int
    model: Channel
    questions: deque[Question] = field(default_factory=deque)
    consumers: dict[str, Consumer] = field(default_factory=dict)
    all_consumers: dict[str, Consumer] = field(default_factory=dict)
    acked: list[tuple[int, Handing]] = field(default_factory=list)
    prefetch: int = UNLIMITED
    is_leaving: bool = False


class Application:
    """One application with at most one connection at a time."""

    def __init__(self, name: str, world: ClusterWorld) -> None:
        self.name = name
        self.world = world
        self.client: SimulatedClient | None = None
        self.connection: Any = None
        self.node: ClusterNode | None = None
        self.channels: dict[int, AppChannel] = {}
        self.connected_at = 0
        self.is_leaving = False
        #: Messages with a producer's number that may have to be published again.
        self.doubtful: list[Sent] = []

    # -- connections ---------------------------------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        return self.client is not None and self.client.is_open and not self.is_leaving

    def connect(self, node: ClusterNode) -> None:
        """Log in to a node."""
        self.client = SimulatedClient(f"{self.name}.{self.world.next_number()}")
        self.node = node
        self.channels = {}
        self.is_leaving = False
        self.connected_at = self.world.time
        self.connection = node.connect(self, self.world.time)
        self.client.transport = self.connection
        self.world.note(f"{self.client.name} connects to {node.name}")
        self.world.feed_later(self)

    def lost(self) -> None:
        """The connection is gone, from whichever side."""
        if self.client is None:
            return
        self.world.note(f"{self.client.name} has no connection any more")
        for channel in self.channels.values():
            self._end_channel(channel)
        self.channels = {}
        self.client = None
        self.connection = None
        self.node = None

    def moved(self, node: ClusterNode, connection: Any) -> None:
        """The same connection goes on at another worker of its host."""
        assert self.client is not None
        self.node, self.connection = node, connection
        self.client.transport = connection
        node.take_over(connection, self)
        for channel in self.channels.values():
            channel.model.node = node.name
            channel.acked = []  # of turns of the other

    def _end_channel(self, channel: AppChannel) -> None:
        model = self.world.clients
        if channel.model.is_over:
            return
        for consumer in channel.all_consumers.values():
            if consumer.no_ack:
                model.gone_takers = (*model.gone_takers, (consumer.queue, model.now))
        for question in channel.questions:
            if question.kind == "get" and question.no_ack:
                model.gone_takers = (*model.gone_takers, (question.queue, model.now))
        for attempt in channel.model.unconfirmed.values():
            if attempt.message.producer:
                self.doubtful.append(attempt.message)
        model.end(channel.model)

    # -- sending -------------------------------------------------------------------------------------------------------

    def _send(
        self, channel: AppChannel, method: Any, question: Question | None, operation: Operation | None = None
    ) -> None:
        assert self.client is not None
        if question is not None:
            channel.questions.append(question)
        self.client.send(operation or Operation("other", channel, {}), channel.number, method)
        self.world.feed_later(self)

    def _ask(self, kind: str, **values: Any) -> Question:
        return Question(kind, self.world.time, **values)

    def open_channel(self) -> AppChannel:
        """A new channel."""
        assert self.client is not None
        assert self.node is not None
        number = self.client.next_channel
        self.client.next_channel += 1
        model = Channel(self.client.name, self.node.name, number)
        channel = AppChannel(number, model)
        self.world.clients.channels.append(model)
        self.channels[number] = channel
        self._send(channel, methods.ChannelOpen(), self._ask("open"))
        return channel

    def close_channel(self, channel: AppChannel) -> None:
        channel.is_leaving = True
        self._send(channel, methods.ChannelClose(200, "bye"), self._ask("close"))

    def close(self) -> None:
        """Leave in good order."""
        assert self.client is not None
        self.is_leaving = True
        self.client.send(Operation("other", None, {}), 0, methods.ConnectionClose(200, "bye", 0, 0))
        self.world.feed_later(self)

    def confirm_select(self, channel: AppChannel) -> None:
        channel.model.is_confirming = True
        self._send(channel, methods.ConfirmSelect(False), self._ask("confirm"))

    def declare_exchange(
        self, channel: AppChannel, name: str, kind: str, arguments: dict[str, object] | None = None
    ) -> None:
        method = methods.ExchangeDeclare(0, name, kind, False, True, False, False, False, Table(arguments or {}))
        self._send(channel, method, self._ask("declare exchange"))

    def declare(self, channel: AppChannel, queue: str, *, is_passive: bool = False) -> None:
        kind = self.world.kinds[queue]
        method = methods.QueueDeclare(
            0, queue, is_passive, kind.is_durable, False, False, False, Table({} if is_passive else kind.table)
        )
        self._send(channel, method, self._ask("declare", queue=queue))

    def bind(self, channel: AppChannel, queue: str, exchange: str) -> None:
        self._send(channel, methods.QueueBind(0, queue, exchange, "", False, Table({})), self._ask("bind", queue=queue))

    def unbind(self, channel: AppChannel, queue: str, exchange: str) -> None:
        method = methods.QueueUnbind(0, queue, exchange, "", Table({}))
        self._send(channel, method, self._ask("unbind", queue=queue))

    def _remove(self, channel: AppChannel, kind: str, queue: str, method: Any) -> None:
        removal = Removal(queue, self.world.time)
        self.world.clients.removals.append(removal)
        self._send(channel, method, self._ask(kind, queue=queue, removal=removal))

    def purge(self, channel: AppChannel, queue: str) -> None:
        self._remove(channel, "purge", queue, methods.QueuePurge(0, queue, False))

    def delete(self, channel: AppChannel, queue: str) -> None:
        self._remove(channel, "delete", queue, methods.QueueDelete(0, queue, False, False, False))

    def publish(
        self, channel: AppChannel, message: Sent, exchange: str, key: str, properties: dict[str, object],
        *, is_mandatory: bool,
    ) -> None:  # fmt: skip
        """Publish a message, for the first time or again."""
        assert self.client is not None
        attempt = self.world.clients.publish(channel.model, message, is_mandatory=is_mandatory)
        operation = Operation("publish", channel, {"attempt": attempt, "split": FRAME_MAX - 8})
        method = methods.BasicPublish(0, exchange, key, is_mandatory, False)
        self.client.publish(operation, channel.number, method, properties, message.body)
        self.world.feed_later(self)

    def consume(self, channel: AppChannel, queue: str, *, no_ack: bool, priority: int = 0) -> Consumer:
        tag = f"t{self.world.next_number()}"
        consumer = Consumer(tag, queue, no_ack, channel.prefetch)
        channel.consumers[tag] = channel.all_consumers[tag] = consumer
        arguments = Table({"x-priority": priority} if priority else {})
        method = methods.BasicConsume(0, queue, tag, False, no_ack, False, False, arguments)
        self._send(channel, method, self._ask("consume", queue=queue, consumer=consumer))
        return consumer

    def cancel(self, channel: AppChannel, consumer: Consumer) -> None:
        del channel.consumers[consumer.tag]
        self._send(channel, methods.BasicCancel(consumer.tag, False), self._ask("cancel", consumer=consumer))

    def get(self, channel: AppChannel, queue: str, *, no_ack: bool) -> None:
        self._send(channel, methods.BasicGet(0, queue, no_ack), self._ask("get", queue=queue, no_ack=no_ack))

    def qos(self, channel: AppChannel, count: int, *, is_global: bool) -> None:
        """A limit may be lowered while more is on its way: the higher of both counts until the answer, and after it."""
        limit = count or UNLIMITED
        if is_global:
            channel.model.limit = max(channel.model.limit, limit)
        else:
            channel.prefetch = limit
            for consumer in channel.all_consumers.values():
                consumer.limit = max(consumer.limit, limit)
        self._send(channel, methods.BasicQos(0, count, is_global), self._ask("qos"))

    def settle(self, channel: AppChannel, tag: int, how: str, *, is_multiple: bool) -> None:
        """Acknowledge, requeue or reject."""
        arrivals = self.world.clients.settle(channel.model, tag, how, is_multiple=is_multiple)
        method: Any = methods.BasicNack(tag, is_multiple, how == "requeue")
        if how == "ack":
            method = methods.BasicAck(tag, is_multiple)
        self._send(channel, method, None, Operation("settle", channel, {"arrivals": arrivals, "how": how}))

    # -- what the broker has handled -----------------------------------------------------------------------------------

    def handled(self, turn: int) -> None:
        """Note in which turn of the node what was handled: LogModel checks the order (L6)."""
        assert self.client is not None
        while (operation := self.client.take_handled()) is not None:
            channel: AppChannel | None = operation.channel
            if channel is None or channel.model.is_over:
                continue
            if operation.kind == "settle" and operation.how == "ack":
                channel.acked += [(turn, each.handing) for each in operation.arrivals if each.handing is not None]
            elif operation.kind == "publish" and channel.acked:
                attempt: Attempt = operation.attempt
                message = attempt.message
                handings = [handing for each, handing in channel.acked if each < turn]
                if handings and len(message.attempts) == 1 and not message.producer:
                    self.world.log.follows(channel.model.node, message.number, handings)
                    channel.acked = [each for each in channel.acked if each[0] == turn]

    # -- receiving -----------------------------------------------------------------------------------------------------

    def receive(self, data: bytes) -> None:
        """What the broker says."""
        if self.client is None:
            return
        for event in self.client.receive(data):
            if self.client is None:
                return
            if event.channel_id:
                self._on_event(self.channels[event.channel_id], event)
            else:
                self._on_connection_event(event.method)

    def _on_connection_event(self, method: Any) -> None:
        assert self.client is not None
        if isinstance(method, methods.ConnectionOpenOk):
            self.client.is_open = True
        elif isinstance(method, methods.ConnectionClose):
            self.world.note(f"{self.client.name} is closed: {method.reply_code} {method.reply_text}")
            self.world.closed_by_broker(self, method.reply_code, method.reply_text)
            if method.reply_code not in _CLOSES:
                raise Violation(f"{self.name}: connection.close {method.reply_code} {method.reply_text}")
            self.world.leave(self)
        elif isinstance(method, methods.ConnectionCloseOk):
            self.world.leave(self)

    def _on_event(self, channel: AppChannel, event: Event) -> None:
        method = event.method
        model = self.world.clients
        if isinstance(method, methods.BasicDeliver):
            consumer = channel.all_consumers[method.consumer_tag]
            self._arrived(channel, consumer, consumer.queue, consumer.no_ack, event)
        elif isinstance(method, (methods.BasicAck, methods.BasicNack)):
            is_nack = isinstance(method, methods.BasicNack)
            attempts = model.confirm(channel.model, method.delivery_tag, is_multiple=method.multiple, is_nack=is_nack)
            for attempt in attempts:
                self._confirmed(attempt)
        elif isinstance(method, methods.BasicReturn):
            model.returned(channel.model, message_number(event.body))
        elif isinstance(method, methods.BasicCancel):
            consumer = channel.all_consumers[method.consumer_tag]
            consumer.is_over = True
            channel.consumers.pop(consumer.tag, None)
            self.world.cancelled_by_broker(consumer)
        elif isinstance(method, methods.ChannelClose):
            self._closed(channel, method)
        else:
            self._answered(channel, event)

    def _confirmed(self, attempt: Attempt) -> None:
        message = attempt.message
        if attempt.outcome == "ack" and not attempt.is_returned:
            targets = message.targets
            if attempt.is_mandatory and not targets:
                targets = tuple(each for each in message.may_reach if each == SCRATCH)
            quorum = [each for each in targets if self.world.kinds[each].is_quorum]
            if message.delay:
                quorum = [HELD_BACK]
            self.world.log.confirmed(message.number, quorum)
        elif attempt.outcome == "nack" and message.producer:
            self.doubtful.append(message)

    def _arrived(
        self, channel: AppChannel, consumer: Consumer | None, queue: str, no_ack: bool, event: Event
    ) -> Arrival:
        method = event.method
        world = self.world
        number = message_number(event.body)
        handing: Handing | None = None
        if world.kinds[queue].is_quorum:
            tag = consumer.tag if consumer is not None else ""
            handing = world.log.seen(channel.model.node, tag, number, is_get=consumer is None)
        arrival = world.clients.deliver(
            channel.model, consumer, queue, number, event.body, method.delivery_tag,
            is_redelivered=method.redelivered, no_ack=no_ack, deaths=_deaths(event.properties), stay=self._stay(queue),
        )  # fmt: skip
        arrival.handing = handing
        return arrival

    def _stay(self, name: str) -> int:
        """The id of a queue: another one at each of its homes."""
        assert self.node is not None
        queue = self.node.node.broker.vhosts["/"].find_queue(name)
        return queue.queue_id if queue is not None else 0

    def _closed(self, channel: AppChannel, method: Any) -> None:
        """channel.close from the broker, which has to have a reason."""
        assert self.client is not None
        self.world.note(f"{self.client.name}: channel closed: {method.reply_code} {method.reply_text}")
        question = channel.questions[0] if channel.questions else None
        queue = question.queue if question is not None else ""
        may_be = method.reply_code == _NOT_FOUND and (
            not queue or queue in (SCRATCH, HOME_SCRATCH) or not self.world.kinds[queue].is_quorum
        )
        if not may_be:
            raise Violation(f"{self.name}: channel.close {method.reply_code} {method.reply_text} ({question})")
        self.world.channel_refused()
        self._end_channel(channel)
        channel.is_leaving = True
        self.client.send(Operation("other", None, {}), channel.number, methods.ChannelCloseOk())
        self.world.feed_later(self)

    def _answered(self, channel: AppChannel, event: Event) -> None:
        method = event.method
        if channel.model.is_over:
            return  # its close has crossed the broker's
        if not channel.questions:
            raise Violation(f"{self.name}: {method.name} answers nothing")
        question = channel.questions.popleft()
        if _ANSWERS.get(type(method)) != question.kind:
            raise Violation(f"{self.name}: {method.name} where {question.kind} was asked")
        if question.removal is not None:
            question.removal.answered_at = self.world.time
        if isinstance(method, methods.BasicGetOk):
            self._arrived(channel, None, question.queue, question.no_ack, event)
        elif isinstance(method, methods.BasicCancelOk):
            assert question.consumer is not None
            question.consumer.is_over = True
        elif isinstance(method, methods.ChannelCloseOk):
            self._end_channel(channel)
            del self.channels[channel.number]
        self.world.answered(self, question, method)


def _deaths(properties: bytes) -> list[tuple[str, str]]:
    """(queue, reason) of each of x-death's tables."""
    headers = decode_properties(properties).headers
    deaths = headers.get("x-death") if headers else None
    if not isinstance(deaths, list):
        return []
    return [(str(each["queue"]), str(each["reason"])) for each in deaths if isinstance(each, dict)]
