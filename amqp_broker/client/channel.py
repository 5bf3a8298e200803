"""Channel: methods and their replies, publishing with or without confirms, getting, consuming, and requests.

One call at a time waits for its reply; deliveries, returns and confirms that arrive meanwhile are kept. A
channel that a call has waited for in vain is of no more use, because the late reply could be taken for that
of another call.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self, overload

from amqp_broker.client.consumer import Consumer
from amqp_broker.client.errors import ChannelClosed, ClientError, ClientTimeout, Unroutable
from amqp_broker.client.messages import Assembly, Delivery, ReturnedMessage
from amqp_broker.protocol import constants as c
from amqp_broker.protocol import methods as m
from amqp_broker.protocol.errors import FrameError
from amqp_broker.protocol.fields import Table
from amqp_broker.protocol.frames import Frame
from amqp_broker.protocol.properties import Properties, encode_properties

if TYPE_CHECKING:
    from amqp_broker.client.connection import Connection

REPLY_QUEUE: Final = "amq.rabbitmq.reply-to"
"""The pseudo-queue of direct reply-to: consumed on the channel that publishes the requests."""


class Channel:
    """An open channel; made by `Connection.channel`, closed by `close` or at the end of a `with` block.

    `timeout` is in seconds everywhere; None means the connection's. After the broker has closed the channel,
    every call raises ChannelClosed with its code and text.
    """

    def __init__(self, connection: Connection, number: int) -> None:
        self.number = number
        self._connection = connection
        self._error: ClientError | None = None
        self._replies: deque[m.Method | Delivery] = deque()
        self._assembly: Assembly | None = None
        self._consumers: dict[str, Consumer] = {}
        self._returned: list[ReturnedMessage] = []
        self._is_flowing = True
        self._is_confirming = False
        self._published = 0
        self._unconfirmed: OrderedDict[int, None] = OrderedDict()
        self._nacked: list[int] = []
        self._reply_consumer: Consumer | None = None
        self._requests = 0

    # Any method

    @overload
    def call(self, method: m.QueueDeclare, timeout: float | None = None) -> m.QueueDeclareOk: ...
    @overload
    def call(self, method: m.QueuePurge, timeout: float | None = None) -> m.QueuePurgeOk: ...
    @overload
    def call(self, method: m.QueueDelete, timeout: float | None = None) -> m.QueueDeleteOk: ...
    @overload
    def call(self, method: m.BasicConsume, timeout: float | None = None) -> m.BasicConsumeOk: ...
    @overload
    def call(self, method: m.Method, timeout: float | None = None) -> m.Method | Delivery: ...

    def call(self, method: m.Method, timeout: float | None = None) -> m.Method | Delivery:
        """Sends a method and returns its reply: a method, or the Delivery that answers basic.get.

        Raises ChannelClosed or ConnectionClosed with the broker's code and text where it refuses,
        ClientTimeout.
        """
        if not method.replies or getattr(method, "nowait", False):
            raise ValueError(f"{method!r} is not replied to: use send()")
        self.send(method)
        try:
            self.wait_until(
                lambda: bool(self._replies), self._connection.deadline(timeout), f"the reply to {method.name}"
            )
        except ClientTimeout as error:
            self._error = ChannelClosed(f"channel {self.number} was given up: {error}; open another one")
            raise
        reply = self._replies.popleft()
        name = "basic.get-ok" if isinstance(reply, Delivery) else reply.name
        if name not in method.replies:
            self._error = ChannelClosed(
                f"channel {self.number} was given up: {method.name} was answered by {name}"
            )
            raise self._error
        return reply

    def send(self, method: m.Method) -> None:
        """Sends a method that is not replied to, such as basic.ack or one with nowait."""
        self.check_open()
        self._connection.send(self.number, method)
        self._connection.flush(self._connection.deadline(None))

    # Publishing

    def publish(
        self,
        exchange: str,
        routing_key: str,
        body: bytes,
        properties: Properties | Mapping[str, object] | bytes | None = None,
        mandatory: bool = False,
    ) -> int:
        """Publishes a message; returns its number for confirms (0 outside confirm mode).

        `properties` are given as Properties, by name, or as the octets of a property section.
        """
        raw = properties if isinstance(properties, bytes) else encode_properties(properties or {})
        deadline = self._connection.deadline(None)
        self.wait_until(lambda: self._is_flowing, deadline, "channel.flow")
        self.check_open()
        method = m.BasicPublish(0, exchange, routing_key, mandatory)
        self._connection.send(self.number, method, raw, body)
        if self._is_confirming:
            self._published += 1
            self._unconfirmed[self._published] = None
        self._connection.flush(deadline)
        self._connection.poll()
        return self._published

    def confirm_select(self) -> None:
        """From here on the broker confirms what is published; the first message is number 1."""
        self.call(m.ConfirmSelect())
        self._is_confirming = True

    def wait_for_confirms(self, timeout: float | None = None) -> list[int]:
        """Waits until everything is confirmed; returns the numbers refused (nacked) since last asked."""
        waiting = f"{len(self._unconfirmed)} confirms"
        self.wait_until(lambda: not self._unconfirmed, self._connection.deadline(timeout), waiting)
        refused, self._nacked = self._nacked, []
        return refused

    def take_returned(self) -> list[ReturnedMessage]:
        """The mandatory messages that have come back since last asked."""
        returned, self._returned = self._returned, []
        return returned

    def request(
        self,
        exchange: str,
        routing_key: str,
        body: bytes,
        properties: Mapping[str, object] | None = None,
        timeout: float | None = None,
    ) -> Delivery:
        """Publishes a request and returns its reply, with all properties, which comes by direct reply-to.

        Raises Unroutable where no queue takes the request, ClientTimeout where nobody answers.
        """
        if self._reply_consumer is None:
            self._reply_consumer = self.consume(REPLY_QUEUE, no_ack=True)
        consumer = self._reply_consumer
        self._requests += 1
        correlation_id = str(self._requests)
        addressed = {**(properties or {}), "reply_to": REPLY_QUEUE, "correlation_id": correlation_id}
        deadline = self._connection.deadline(timeout)
        self.publish(exchange, routing_key, body, addressed, mandatory=True)
        while True:
            self.wait_until(
                lambda: bool(consumer.deliveries) or self._find_returned(correlation_id) is not None,
                deadline,
                "the reply to a request",
            )
            while consumer.deliveries:
                reply = consumer.deliveries.popleft()
                if reply.properties.correlation_id == correlation_id:
                    return reply
            returned = self._find_returned(correlation_id)
            if returned is not None:
                self._returned.remove(returned)
                text = f"no queue takes requests to exchange '{exchange}' with routing key '{routing_key}'"
                raise Unroutable(text, returned.reply_code, returned.reply_text)

    # Receiving

    def get(self, queue: str, no_ack: bool = False) -> Delivery | None:
        """The next message of a queue, or None when it is empty."""
        reply = self.call(m.BasicGet(0, queue, no_ack))
        return reply if isinstance(reply, Delivery) else None

    def get_many(self, queue: str, most: int, timeout: float | None = None) -> list[Delivery]:
        """The next messages of a queue, at most so many; they are asked for at once. Fewer: the queue is empty."""
        self.check_open()
        for _ in range(most):
            self._connection.send(self.number, m.BasicGet(0, queue, False))
        deadline = self._connection.deadline(timeout)
        self._connection.flush(deadline)
        try:
            self.wait_until(lambda: len(self._replies) >= most, deadline, f"the replies to {most} basic.get")
        except ClientTimeout as error:
            late = ClientTimeout(f"{error}; {len(self._replies)} have arrived")
            self._error = ChannelClosed(f"channel {self.number} was given up: {late}; open another one")
            raise late from None
        replies = [self._replies.popleft() for _ in range(most)]
        return [reply for reply in replies if isinstance(reply, Delivery)]

    def consume(
        self,
        queue: str,
        no_ack: bool = False,
        *,
        prefetch_count: int | None = None,
        exclusive: bool = False,
        consumer_tag: str = "",
        arguments: Mapping[str, object] | None = None,
        idle_timeout: float | None = None,
    ) -> Consumer:
        """Subscribes to a queue. Without a prefetch_count all that the queue has is sent and kept here."""
        if prefetch_count is not None:
            self.call(m.BasicQos(0, prefetch_count))
        method = m.BasicConsume(
            queue=queue,
            consumer_tag=consumer_tag,
            no_ack=no_ack,
            exclusive=exclusive,
            arguments=Table(arguments or {}),
        )
        consumer = self._consumer(self.call(method).consumer_tag)
        consumer.idle_timeout = idle_timeout
        return consumer

    def ack(self, delivery: Delivery | int, multiple: bool = False) -> None:
        """Settles a delivery, given itself or by its tag; `multiple` settles all before it too."""
        self.send(m.BasicAck(_tag(delivery), multiple))

    def nack(self, delivery: Delivery | int, multiple: bool = False, requeue: bool = True) -> None:
        """Gives a delivery back, or drops it where it is not to be requeued."""
        self.send(m.BasicNack(_tag(delivery), multiple, requeue))

    # The end

    def close(self) -> None:
        """Closes the channel in good order; nothing happens when it is closed already."""
        if self._error is None and self._connection.is_open:
            with suppress(ClientError):
                self.call(m.ChannelClose(c.ReplyCode.REPLY_SUCCESS, "closed by the client"))
                self._connection.release(self.number)
        if self._error is None:
            self._error = ChannelClosed(f"channel {self.number} was closed by this program")

    @property
    def is_open(self) -> bool:
        return self._error is None and self._connection.is_open

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.abort() if isinstance(error, KeyboardInterrupt) else self.close()

    def check_open(self) -> None:
        """Raises the error that closed the channel or its connection, if one did."""
        if self._error is not None:
            raise self._error
        self._connection.check_open()

    def wait_until(self, condition: Callable[[], bool], deadline: float, purpose: str) -> None:
        """Reads until `condition` holds; raises what closed the channel, or ClientTimeout."""
        while not condition():
            self.check_open()
            self._connection.pump(deadline, purpose)

    def forget_consumer(self, consumer_tag: str) -> None:
        """The tag may be used again."""
        self._consumers.pop(consumer_tag, None)

    # What arrives

    def on_frame(self, frame: Frame) -> None:
        """Takes a frame of this channel. Raises MalformedInput for one that does not belong."""
        if frame.type != c.FRAME_METHOD or self._assembly is not None:
            if self._assembly is None:
                raise FrameError(
                    f"frame of type {frame.type} on channel {self.number} without a method before it"
                )
            if self._assembly.add(frame):
                message = self._assembly.message()
                self._assembly = None
                self._on_message(message)
            return
        method = m.decode_method(frame.payload)
        if method.has_content:
            self._assembly = Assembly(method)
        else:
            self._on_method(method)

    def _on_method(self, method: m.Method) -> None:
        match method:
            case m.BasicAck(delivery_tag, multiple):
                self._take_confirmed(delivery_tag, multiple)
            case m.BasicNack(delivery_tag, multiple):
                self._nacked += self._take_confirmed(delivery_tag, multiple)
            case m.BasicCancel(consumer_tag, nowait):
                consumer = self._consumer(consumer_tag)
                consumer.is_cancelled = consumer.is_cancelled_by_broker = True
                self.forget_consumer(consumer_tag)
                if not nowait:
                    self._connection.send(self.number, m.BasicCancelOk(consumer_tag))
            case m.ChannelFlow(active):
                self._is_flowing = active
                self._connection.send(self.number, m.ChannelFlowOk(active))
            case m.ChannelClose(reply_code, reply_text):
                self._connection.send(self.number, m.ChannelCloseOk())
                self._connection.release(self.number)
                self._error = ChannelClosed(
                    f"channel {self.number} closed by the broker", reply_code, reply_text
                )
            case _:
                self._replies.append(method)

    def _on_message(self, message: Delivery | ReturnedMessage) -> None:
        if isinstance(message, ReturnedMessage):
            self._returned.append(message)
        elif message.message_count is not None:
            self._replies.append(message)
        else:
            self._consumer(message.consumer_tag).take(message)

    def _consumer(self, consumer_tag: str) -> Consumer:
        """The consumer of this tag; made here when a delivery comes before anyone saw consume-ok."""
        return self._consumers.setdefault(consumer_tag, Consumer(self, consumer_tag))

    def _find_returned(self, correlation_id: str) -> ReturnedMessage | None:
        same = (each for each in self._returned if each.properties.correlation_id == correlation_id)
        return next(same, None)

    def _take_confirmed(self, delivery_tag: int, multiple: bool) -> list[int]:
        """Takes the messages of a confirm from the unconfirmed ones; tag 0 with multiple means all."""
        if not multiple:
            self._unconfirmed.pop(delivery_tag, None)
            return [delivery_tag]
        taken = []
        while self._unconfirmed and (not delivery_tag or next(iter(self._unconfirmed)) <= delivery_tag):
            taken.append(self._unconfirmed.popitem(last=False)[0])
        return taken


def _tag(delivery: Delivery | int) -> int:
    return delivery if isinstance(delivery, int) else delivery.delivery_tag
