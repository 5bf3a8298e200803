"""Link: a connection to a broker's own service, kept for the next task of the same process.

A request goes to the exchange `amq.system` with the verb as routing key and is answered by direct reply-to; several
may be under way. Python workers of Spark are forked and used again: a link belongs to the process that opened it, is
taken from the pool while it is used, and goes back only if all its answers have been read.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from amqp_broker.client import Channel, ClientError, Connection
from amqp_broker.client.channel import REPLY_QUEUE
from amqp_broker.client.consumer import Consumer
from amqp_broker.protocol.properties import Properties, encode_properties
from spark_connector import tls
from spark_connector.options import Options

SYSTEM_EXCHANGE: Final = "amq.system"


@dataclass(frozen=True)
class Answer:
    """What a verb was answered: `fields` of a JSON answer, or `body` and `headers` of a binary one."""

    fields: Mapping[str, Any]
    headers: Mapping[str, Any]
    body: bytes


def connect(url: str, options: Options, purpose: str) -> Connection:
    """An open connection to one node. Raises ClientError, OptionError."""
    context = tls.context(options) if url.startswith("amqps:") else None
    return Connection.open(url, timeout=10.0, ssl_context=context, name=f"Spark {purpose}, process {os.getpid()}")


def link_key(url: str, options: Options) -> tuple[object, ...]:
    """Where a link goes, and who trusts whom on it: for another query with the same it is as good as a new one."""
    return url, options.ca_file, options.cert_file, options.key_file


class Link:
    """One connection with one channel for requests, and the answers that have come."""

    def __init__(self, url: str, options: Options) -> None:
        self.to = link_key(url, options)
        self.pid = os.getpid()
        self._connection = connect(url, options, "connector")
        self._channel: Channel = self._connection.channel()
        self._replies: Consumer = self._channel.consume(REPLY_QUEUE, no_ack=True)
        self._answers: dict[str, Answer | None] = {}
        self._sent = 0

    @property
    def is_idle(self) -> bool:
        """Whether it is open and owes nothing: only then may another task have it."""
        return self._connection.is_open and not self._answers

    def send(self, verb: str, fields: Mapping[str, object], body: bytes | None = None) -> str:
        """Sends a request; its fields are the body, or headers where there is a binary one. Returns its name."""
        self._sent += 1
        name = str(self._sent)
        content_type = "application/json" if body is None else "application/octet-stream"
        properties: dict[str, object] = {
            "content_type": content_type, "reply_to": REPLY_QUEUE, "correlation_id": name,
        }  # fmt: skip
        if body is not None:
            properties["headers"] = dict(fields)
        octets = json.dumps(fields).encode() if body is None else body
        self._answers[name] = None
        self._channel.publish(SYSTEM_EXCHANGE, verb, octets, encode_properties(properties))
        return name

    def receive(self, name: str, timeout: float) -> Answer:
        """The answer to a request, which others may overtake. Raises ClientError."""
        deadline = self._connection.deadline(timeout)
        while self._answers[name] is None:
            self._channel.wait_until(lambda: bool(self._replies.deliveries), deadline, "the answer of the broker")
            while self._replies.deliveries:
                delivery = self._replies.deliveries.popleft()
                properties = delivery.properties
                if properties.correlation_id in self._answers:
                    self._answers[properties.correlation_id] = _answer(properties, delivery.body)
        answer = self._answers.pop(name)
        assert answer is not None
        return answer

    def close(self) -> None:
        """Drops the connection; a forked copy leaves its parent's alone."""
        if self.pid == os.getpid():
            try:
                self._connection.close()
            except ClientError:
                return  # it is gone, which was wanted


def _answer(properties: Properties, body: bytes) -> Answer:
    headers: Mapping[str, Any] = properties.headers or {}
    if properties.content_type == "application/json":
        return Answer(json.loads(body), headers, b"")
    return Answer({"ok": True}, headers, body)


class LinkPool:
    """Idle links of this process. Pickled, it is an empty one."""

    def __init__(self) -> None:
        self._idle: list[Link] = []

    def __reduce__(self) -> tuple[type[LinkPool], tuple[()]]:
        return LinkPool, ()

    def take(self, options: Options) -> Link:
        """An idle link to one of the nodes, or a new one; the first node that answers. Raises ClientError."""
        self._idle = [link for link in self._idle if link.pid == os.getpid()]
        keys = [link_key(url, options) for url in options.urls]
        for position, link in enumerate(self._idle):
            if link.to in keys:
                del self._idle[position]
                return link
        error: ClientError | None = None
        for url in options.urls:
            try:
                return Link(url, options)
            except ClientError as failure:
                error = failure if error is None or failure.reply_code else error
        assert error is not None
        raise error

    def give_back(self, link: Link) -> None:
        """Keeps a link for the next one, if it is fit for that."""
        if link.is_idle and link.pid == os.getpid() and len(self._idle) < 4:
            self._idle.append(link)
        else:
            link.close()


POOL: Final = LinkPool()
