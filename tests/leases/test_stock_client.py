"""Leases and transactions through aio-pika, as anybody may write a connector: direct reply-to and docs/leases.md."""

from __future__ import annotations

import asyncio
import json
import struct
from typing import Any

import aio_pika
from aio_pika.abc import AbstractChannel, AbstractIncomingMessage

from amqp_broker import running

REPLY_TO = "amq.rabbitmq.reply-to"


class SystemService:
    """Asks, and waits for the answer."""

    def __init__(self, channel: AbstractChannel) -> None:
        self._channel = channel
        self._waiting: dict[str, asyncio.Future[AbstractIncomingMessage]] = {}

    async def open(self) -> None:
        replies = await self._channel.get_queue(REPLY_TO, ensure=False)
        await replies.consume(self._on_answer, no_ack=True)

    async def _on_answer(self, message: AbstractIncomingMessage) -> None:
        self._waiting.pop(str(message.correlation_id)).set_result(message)

    async def ask(self, verb: str, body: bytes, headers: Any = None) -> AbstractIncomingMessage:
        exchange = await self._channel.get_exchange("amq.system", ensure=False)
        name = str(len(self._waiting)) + verb
        self._waiting[name] = asyncio.get_running_loop().create_future()
        message = aio_pika.Message(body, headers=headers, reply_to=REPLY_TO, correlation_id=name)
        answer = self._waiting[name]
        await exchange.publish(message, verb, mandatory=False)
        return await asyncio.wait_for(answer, 20)

    async def fields(self, verb: str, **fields: object) -> dict[str, Any]:
        answer = await self.ask(verb, json.dumps({key.rstrip("_"): fields[key] for key in fields}).encode())
        assert answer.content_type == "application/json"
        found: dict[str, Any] = json.loads(answer.body)
        assert found["ok"], found
        return found


def bodies_of(blob: bytes) -> list[bytes]:
    """As docs/leases.md has it."""
    version, count = struct.unpack_from(">BL", blob)
    assert version == 1
    position = 5
    found = []
    for _ in range(count):
        position += 19
        for _ in range(2):
            position += 1 + blob[position]
        for part in range(2):
            (length,) = struct.unpack_from(">L", blob, position)
            position += 4 + length
            if part == 1:
                found.append(blob[position - length : position])
    assert position == len(blob)
    return found


def blob_of(bodies: list[bytes], routing_key: bytes) -> bytes:
    parts = [struct.pack(">BL", 1, len(bodies))]
    for body in bodies:
        parts.append(bytes(19) + b"\0" + bytes([len(routing_key)]) + routing_key)
        parts.append(bytes(4) + struct.pack(">L", len(body)) + body)
    return b"".join(parts)


async def _drain_into_another_queue(url: str) -> None:
    connection = await aio_pika.connect(url)
    async with connection:
        channel = await connection.channel(publisher_confirms=False)
        confirming = await connection.channel()
        source = await confirming.declare_queue("orders", durable=True)
        sink = await confirming.declare_queue("done", durable=True)
        for number in range(50):
            await confirming.default_exchange.publish(aio_pika.Message(b"%d" % number), source.name)
        service = SystemService(channel)
        await service.open()
        group = {"queue": "orders", "group": "etl"}
        opened = await service.fields("lease.open", **group, owner="driver")
        caller = {**group, "owner": "driver", "incarnation": opened["incarnation"]}
        claimed = await service.fields("lease.claim", **caller, after=0, max_messages=1000, wait_ms=500)
        assert claimed["end"] == 50
        blob = await service.ask(
            "lease.fetch",
            json.dumps({**group, "incarnation": opened["incarnation"], "from": 0, "to": 50}).encode(),
        )
        assert blob.content_type == "application/octet-stream"
        assert blob.headers["x-end"] == 50
        bodies = bodies_of(blob.body)
        assert bodies == [b"%d" % number for number in range(50)]
        headers = {"app": "etl", "epoch": 0, "partition": 0, "attempt": 123, "sequence": 0}
        staged = await service.ask("txn.stage", blob_of(bodies, b"done"), headers)
        assert json.loads(staged.body) == {"ok": True, "staged": 50}
        committed = await service.fields("txn.commit", app="etl", epoch=0, attempts={"0": 123})
        assert committed["published"] == 50
        await service.fields("lease.ack", **caller, upto=50)
        for number in range(50):
            message = await sink.get(no_ack=True)
            assert message is not None
            assert message.body == b"%d" % number
        waiting = asyncio.ensure_future(service.fields("lease.claim", **caller, after=50, wait_ms=5000))
        await service.fields("lease.stat", queue="orders")
        await confirming.default_exchange.publish(aio_pika.Message(b"late"), source.name)
        assert (await waiting)["end"] == 51


def test_a_connector_on_aio_pika() -> None:
    with running() as broker:
        asyncio.run(_drain_into_another_queue(broker.url))
