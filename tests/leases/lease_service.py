"""LeaseService: asks a broker for lease.* and txn.* as a connector does, with the project's own blocking client."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any, NamedTuple, Self

from amqp_broker.client import Channel, Connection
from amqp_broker.client.channel import REPLY_QUEUE
from amqp_broker.leases.blob import BlobReader
from amqp_broker.protocol.properties import encode_properties


class Answer(NamedTuple):
    """fields: of a JSON answer; headers and blob: of the others."""

    fields: dict[str, Any]
    headers: dict[str, Any]
    blob: bytes

    @property
    def code(self) -> str:
        return "ok" if self.fields.get("ok") else str(self.fields.get("code"))


class Row(NamedTuple):
    """A message of a blob."""

    offset: int
    body: bytes
    exchange: str
    routing_key: str
    properties: bytes
    redelivered: bool
    delivery_count: int
    enqueued_at: int


class LeaseService:
    """One connection with one channel; a context manager."""

    def __init__(self, url: str, queue_type: str = "classic") -> None:
        self._queue_type = queue_type
        self.connection = Connection.open(url, timeout=20.0)
        self.channel: Channel = self.connection.channel()
        self._replies = self.channel.consume(REPLY_QUEUE, no_ack=True)
        self._sent = 0
        self._answers: dict[str, Answer] = {}

    def send(self, verb: str, body: bytes, headers: Mapping[str, object] | None = None) -> str:
        """Send a request. Returns its name, for `receive`."""
        self._sent += 1
        name = str(self._sent)
        properties: dict[str, object] = {"reply_to": REPLY_QUEUE, "correlation_id": name}
        if headers is not None:
            properties["headers"] = dict(headers)
        self.channel.publish("amq.system", verb, body, encode_properties(properties))
        return name

    def receive(self, name: str, timeout: float = 20.0) -> Answer:
        deadline = self.connection.deadline(timeout)
        while name not in self._answers:
            self.channel.wait_until(lambda: bool(self._replies.deliveries), deadline, f"the answer to {name}")
            while self._replies.deliveries:
                delivery = self._replies.deliveries.popleft()
                said = delivery.properties
                headers = dict(said.headers or {})
                is_json = said.content_type == "application/json"
                answer = Answer(
                    json.loads(delivery.body) if is_json else {"ok": True},
                    headers,
                    b"" if is_json else delivery.body,
                )
                self._answers[str(said.correlation_id)] = answer
        return self._answers.pop(name)

    def ask(self, verb: str, **fields: object) -> Answer:
        """A request with JSON fields; `from_` stands for `from`."""
        named = {name.rstrip("_"): value for name, value in fields.items()}
        return self.receive(self.send(verb, json.dumps(named).encode()))

    def stage(self, blob: bytes, **fields: object) -> Answer:
        """txn.stage."""
        return self.receive(self.send("txn.stage", blob, fields))

    def fill(self, queue: str, count: int, first: int = 0, **properties: object) -> None:
        """Publish messages of the bodies m0, m1, ... and wait until they are confirmed."""
        with self.connection.channel() as channel:
            channel.confirm_select()
            for number in range(first, first + count):
                channel.publish("", queue, b"m%d" % number, {"delivery_mode": 2, **properties})
            assert channel.wait_for_confirms() == []

    def drain(self, queue: str) -> list[bytes]:
        """Take all ready messages of a queue."""
        found = []
        with self.connection.channel() as channel:
            while (delivery := channel.get(queue, no_ack=True)) is not None:
                found.append(delivery.body)
        return found

    def declare(self, queue: str, **arguments: object) -> None:
        from amqp_broker.protocol import methods as m
        from amqp_broker.protocol.fields import Table

        arguments = {"x_queue_type": self._queue_type, **arguments}
        named = {name.replace("_", "-"): value for name, value in arguments.items()}
        with self.connection.channel() as channel:
            channel.call(m.QueueDeclare(queue=queue, durable=True, arguments=Table(named)))

    def close(self) -> None:
        self.connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Owner:
    """One owner of one group."""

    def __init__(self, service: LeaseService, queue: str, group: str = "g", owner: str = "me") -> None:
        self.service = service
        opened = service.ask("lease.open", queue=queue, group=group, owner=owner)
        assert opened.code == "ok", opened
        self.trimmed = opened.fields["trimmed"]
        self.next = opened.fields["next"]
        self.incarnation = opened.fields["incarnation"]
        self._who = {"queue": queue, "group": group, "incarnation": self.incarnation}
        self._owner = owner

    def claim(self, after: int, most: int = 1000, wait_ms: int = 0, max_bytes: int = 1 << 30) -> Answer:
        return self.service.ask(
            "lease.claim", **self._who, owner=self._owner, after=after, max_messages=most, max_bytes=max_bytes,
            wait_ms=wait_ms,
        )  # fmt: skip

    def fetch(self, first: int, last: int, max_bytes: int = 1 << 30, **more: object) -> Answer:
        return self.service.ask("lease.fetch", **self._who, from_=first, to=last, max_bytes=max_bytes, **more)

    def bodies(self, first: int, last: int) -> list[bytes]:
        """All of a range, however many fetches it takes."""
        found: list[bytes] = []
        while first < last:
            answer = self.fetch(first, last)
            assert answer.code == "ok", answer
            found += [row.body for row in rows(answer.blob)]
            assert answer.headers["x-end"] > first
            first = answer.headers["x-end"]
        return found

    def ack(self, upto: int) -> Answer:
        return self.service.ask("lease.ack", **self._who, owner=self._owner, upto=upto)

    def release(self) -> Answer:
        return self.service.ask("lease.release", **self._who, owner=self._owner)


def rows(blob: bytes) -> list[Row]:
    """The messages of a blob."""
    found = []
    reader = BlobReader(blob)
    while reader.advance():
        split = 1 + reader.address[0]
        found.append(
            Row(
                reader.offset,
                reader.body(),
                reader.address[1:split].decode(),
                reader.address[split + 1 :].decode(),
                reader.properties(),
                reader.is_redelivered,
                reader.delivery_count,
                reader.enqueued_at,
            )
        )
    return found


def blob_of(bodies: Iterable[bytes], exchange: str = "", routing_key: str = "q", properties: bytes = b"") -> bytes:
    """A blob to be staged."""
    parts = []
    for body in bodies:
        parts.append(bytes(19))
        for name in (exchange, routing_key):
            parts.append(bytes([len(name)]) + name.encode())
        for octets in (properties, body):
            parts.append(len(octets).to_bytes(4, "big") + octets)
    count = len(parts) // 5
    return b"\x01" + count.to_bytes(4, "big") + b"".join(parts)
