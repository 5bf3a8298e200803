"""LeaseClient: one blocking client that asks for leases and transactions, one request after the other."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from amqp_broker.client import Connection
from amqp_broker.client.channel import REPLY_QUEUE
from amqp_broker.client.messages import Delivery
from amqp_broker.protocol import methods as m
from amqp_broker.protocol.fields import Table
from amqp_broker.protocol.properties import encode_properties


class LeaseClient:
    """A context manager. Answers that are refusals raise RuntimeError."""

    def __init__(self, url: str) -> None:
        self._connection = Connection.open(url, timeout=120.0)
        self._channel = self._connection.channel()
        self._replies = self._channel.consume(REPLY_QUEUE, no_ack=True)

    def send(self, verb: str, body: bytes, headers: Mapping[str, object] | None = None) -> None:
        said: dict[str, object] = {"reply_to": REPLY_QUEUE}
        if headers is not None:
            said["headers"] = dict(headers)
        self._channel.publish("amq.system", verb, body, encode_properties(said))

    def receive(self) -> Delivery:
        """The next answer."""
        replies = self._replies.deliveries
        self._channel.wait_until(lambda: bool(replies), self._connection.deadline(None), "an answer")
        delivery: Delivery = replies.popleft()
        if delivery.properties.content_type == "application/json" and not json.loads(delivery.body)["ok"]:
            raise RuntimeError(delivery.body.decode())
        return delivery

    def ask(self, verb: str, **fields: object) -> dict[str, Any]:
        self.send(verb, json.dumps(fields).encode())
        return dict(json.loads(self.receive().body))

    def stage(self, blob: bytes, **fields: object) -> None:
        self.send("txn.stage", blob, fields)
        self.receive()

    def fetch(self, caller: Mapping[str, object], count: int, columns: list[str] | None) -> list[bytes]:
        """All of [0, count), the next one asked for before this one is looked at."""
        blobs: list[bytes] = []
        fields: dict[str, object] = {key: caller[key] for key in ("queue", "group", "incarnation")}
        fields |= {"to": count, "from": 0} | ({"columns": columns} if columns else {})
        self.send("lease.fetch", json.dumps(fields).encode())
        while True:
            answer = self.receive()
            end = dict(answer.properties.headers or {})["x-end"]
            if end < count:
                self.send("lease.fetch", json.dumps({**fields, "from": end}).encode())
            blobs.append(answer.body)
            if end >= count:
                return blobs

    def declare(self, queue: str, kind: str) -> None:
        with self._connection.channel() as channel:
            channel.call(m.QueueDeclare(queue=queue, durable=True, arguments=Table({"x-queue-type": kind})))

    def fill(self, queue: str, count: int, body: bytes) -> None:
        properties = encode_properties({"delivery_mode": 2, "content_type": "text/plain"})
        with self._connection.channel() as channel:
            channel.confirm_select()
            for number in range(count):
                channel.publish("", queue, body, properties)
                if number % 5000 == 4999:
                    channel.wait_for_confirms()
            channel.wait_for_confirms()

    @staticmethod
    def blob(body: bytes, queue: str, count: int) -> bytes:
        """A blob to be staged."""
        key = queue.encode()
        one = bytes(19) + b"\0" + bytes([len(key)]) + key + bytes(4) + len(body).to_bytes(4, "big") + body
        return b"\x01" + count.to_bytes(4, "big") + one * count

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()
