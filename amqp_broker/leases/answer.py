"""Answer: how the outcome of one request gets to who asked: a client of this node, or another node that asks for one.

Once for each request, at once or later; nothing waits for it. Where the client is gone meanwhile, nobody gets it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from amqp_broker.auth.permissions import Action
from amqp_broker.leases.errors import BUSY, LeaseError
from amqp_broker.protocol.fields import Table
from amqp_broker.protocol.properties import encode_properties
from queues.message import build_message

if TYPE_CHECKING:

    from amqp_broker.channel.channel import Channel
    from amqp_broker.messages.facts import MessageFacts
    from amqp_broker.protocol.json_values import JsonObject
    from amqp_broker.routing.reply_to import ReplyConsumers
    from amqp_broker.turn.clock import TurnClock
    from queues.page import AddressBook
    from queues.timers import Timers

JSON = "application/json"
BLOB = "application/octet-stream"


class Answer:
    """To one request. is_wanted: whether somebody still waits for it."""

    @property
    def is_wanted(self) -> bool:
        return True

    def give(self, fields: JsonObject) -> None:
        """It had success."""
        self.send(JSON, json.dumps({"ok": True, **fields}).encode(), {})

    def give_blob(self, blob: bytes, headers: JsonObject) -> None:
        """It had success, and the answer is a blob."""
        self.send(BLOB, blob, headers)

    def refuse(self, error: LeaseError) -> None:
        """It had none."""
        self.send(JSON, json.dumps({"ok": False, "error": error.text, "code": error.code}).encode(), {})

    def send(self, content_type: str, body: bytes, headers: JsonObject) -> None:
        """Any of the three."""
        raise NotImplementedError


class TimelyAnswer(Answer):
    """To be given within some time; who asked is told `busy` then, and what comes later is dropped."""

    def __init__(self, answer: Answer, timers: Timers, now: int, within_ms: int, verb: str) -> None:
        self._answer: Answer | None = answer
        self._verb = verb
        self._within_ms = within_ms
        self._timer = timers.at(now + within_ms, self._time_is_up)

    @property
    def is_wanted(self) -> bool:
        return self._answer is not None and self._answer.is_wanted

    def send(self, content_type: str, body: bytes, headers: JsonObject) -> None:
        """See Answer."""
        answer, self._answer = self._answer, None
        self._timer.cancel()
        if answer is not None:
            answer.send(content_type, body, headers)

    def _time_is_up(self, now: int) -> None:
        text = f"{self._verb}: it is not done within {self._within_ms} ms (command_timeout): ask again"
        self.refuse(LeaseError(BUSY, text))


class Replies:
    """How a node answers its clients."""

    def __init__(
        self,
        addresses: AddressBook,
        reply_consumers: ReplyConsumers,
        clock: TurnClock,
    ) -> None:
        self._addresses = addresses
        self._reply_consumers = reply_consumers
        self._clock = clock

    def send(self, channel: Channel, reply_to: str, properties: bytes, body: bytes) -> None:
        """To a reply queue as if the user had published it there."""
        key = reply_to.encode("utf-8", "surrogateescape")
        address = self._addresses.find(b"\x00" + bytes([len(key)]) + key)
        now = self._clock.now
        message = build_message(address, properties, body, False, -1, -1, now)
        consumer = self._reply_consumers.find(reply_to)
        if consumer is not None:
            consumer.answer(message)
            return
        queue = channel.vhost.find_queue(reply_to)
        if queue is not None and channel.session.allows(Action.WRITE, ""):
            channel.vhost.publish(message, [queue], now)


class ClientAnswer(Answer):
    """To a request that a client of this node has published with a reply-to."""

    def __init__(self, replies: Replies, channel: Channel, facts: MessageFacts) -> None:
        self._replies = replies
        self._channel = channel
        self._reply_to = facts.properties.reply_to or ""
        self._correlation_id = facts.properties.correlation_id

    @property
    def is_wanted(self) -> bool:
        return bool(self._channel.is_open and not self._channel.is_closing)

    def send(self, content_type: str, body: bytes, headers: JsonObject) -> None:
        """See Answer."""
        if not self._reply_to or not self.is_wanted:
            return
        said: dict[str, object] = {"content_type": content_type}
        if headers:
            said["headers"] = Table(headers)
        if self._correlation_id:
            said["correlation_id"] = self._correlation_id
        self._replies.send(self._channel, self._reply_to, encode_properties(said), body)
