"""Streams in a round: numbered producers on every node, groups of readers, a queue over a stream, partitions, and a
stream that is compacted, which is read on every node; and what has to be so when all is calm. What they know is in a
StreamLedger (tests/kill/streams.py), for all rounds of a cluster.

A producer publishes to one node for ever, on whatever connection it gets, in the order of its numbers: what was not
confirmed goes again before anything new does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random

from aio_pika import DeliveryMode, Message
from aio_pika.abc import AbstractChannel, AbstractIncomingMessage, AbstractQueue
from aiormq.abc import DeliveredMessage

from tests.chaos.clients import start
from tests.chaos.history import History
from tests.chaos.sessions import CONNECT_TIMEOUT_S, Node, PlainSession, check_connected, connect, tolerating
from tests.chaos.timing import now, pause, until
from tests.kill.streams import (
    BY_NEWEST,
    COMPACTED,
    GROUP,
    LOGS,
    OVER,
    PARTED,
    PARTITIONS,
    SHARED,
    STREAM,
    Place,
    StreamLedger,
    is_tombstone,
)

_REST_S = 0.08
_BURST = 12
_RETRY_S = 0.2
_IDLE_S = 0.3
_PREFETCH = 50
_RETURNS = 0.02
_KEYS = 7
_CONFIRM_S = 20.0
#: All is read within this time once nothing is published any more.
READ_LIMIT_S = 40.0

ARGUMENTS: dict[str, dict[str, str | int]] = {
    STREAM: {"x-queue-type": "stream"},
    PARTED: {"x-queue-type": "stream", "x-stream-partitions": PARTITIONS},
    OVER: {"x-queue-type": "quorum", "x-stream-source": STREAM, "x-stream-offset": "first", "x-delivery-limit": -1},
    COMPACTED: BY_NEWEST,
}


class StreamClients:
    """Of one round, on all nodes. leisure: producers rest so many times _REST_S."""

    def __init__(
        self, nodes: Sequence[Node], ledger: StreamLedger, history: History, chance: Random, leisure: float = 1.0
    ) -> None:
        self._nodes = nodes
        self._rest_s = leisure * _REST_S
        self._ledger = ledger
        self._history = history
        self._is_stopping = False
        self._closing = asyncio.Event()
        self._producers = [
            start(history, f"producer on {node.name}", self._produce(node, Random(chance.random()))) for node in nodes
        ]
        self._readers = [
            start(history, f"reader of {queue} on {node.name}", self._read(node, queue, Random(chance.random())))
            for node in nodes
            for queue in (*SHARED, COMPACTED)
        ]

    async def stop_publishing(self, patience_s: float) -> None:
        """Nothing new is begun; what is under way has so long."""
        self._is_stopping = True
        _, slow = await asyncio.wait(self._producers, timeout=max(patience_s, 0.1))
        for task in slow:
            if patience_s:
                self._history.violated(f"{task.get_name()}: not confirmed {patience_s} s after the last fault was over")
            task.cancel()
        if slow:
            await asyncio.wait(slow)

    async def close(self) -> None:
        """Readers close in good order."""
        self._closing.set()
        await asyncio.wait(self._readers)

    # -- producers -----------------------------------------------------------------------------------------------------

    async def _produce(self, node: Node, chance: Random) -> None:
        ledger, name = self._ledger, f"producer {node.name}"
        session = PlainSession(node)
        while not self._is_stopping:
            waiting = ledger.to_repeat(name)
            if not waiting:
                stream = chance.choice((*LOGS, COMPACTED))
                count = chance.randint(1, _BURST)
                waiting = [(ledger.publishing(name, stream), stream) for _ in range(count)]
            async with tolerating() as met:
                channel = await session.channel("streams")
                await asyncio.gather(*(self._publish(channel, name, number, stream) for number, stream in waiting))
            if met:
                self._history.failed("publish to a stream", met[0], node.name, now())
                await session.close()
                session = PlainSession(node)
                await pause(_RETRY_S)
            await pause(chance.uniform(0.5, 1.5) * self._rest_s)
        await session.close()

    async def _publish(self, channel: AbstractChannel, name: str, number: int, stream: str) -> None:
        key = f"{name} {number % _KEYS}"
        headers = {"x-producer-id": name, "x-producer-sequence": number, "x-stream-key": key, "k": key}
        is_empty = stream == COMPACTED and is_tombstone(number)
        body = b"" if is_empty else f"{name}:{number}.".encode() + bytes(100 * (number % 5))
        content = Message(body, delivery_mode=DeliveryMode.PERSISTENT, headers={**headers})
        exchange = channel.default_exchange
        result = await exchange.publish(content, routing_key=stream, mandatory=True, timeout=_CONFIRM_S)
        if isinstance(result, DeliveredMessage):
            self._history.violated(f"{stream}: {name}:{number} came back as unroutable")
        else:
            self._ledger.confirm(name, number)

    # -- readers -------------------------------------------------------------------------------------------------------

    async def _read(self, node: Node, queue: str, chance: Random) -> None:
        """A plain connection, made anew when it, the channel or the consumer has ended."""

        async def receive(message: AbstractIncomingMessage) -> None:
            place = self._took(queue, message)
            async with tolerating():
                if queue == COMPACTED:
                    await message.ack()
                elif chance.random() < _RETURNS:
                    await message.nack(requeue=True)
                else:
                    self._ledger.acking(queue, [place])
                    await message.ack()

        arguments = {} if queue == OVER else {"x-stream-offset": "first"}
        if queue in LOGS:
            arguments["x-stream-group"] = GROUP
        while not self._closing.is_set():
            async with tolerating() as met:
                connection = await asyncio.wait_for(connect(node), 2 * CONNECT_TIMEOUT_S)
                try:
                    channel = await connection.channel(publisher_confirms=False)
                    await channel.set_qos(_PREFETCH)
                    declared = await channel.get_queue(queue)
                    gone = await _cancelled(declared)
                    await declared.consume(receive, arguments=arguments)  # type: ignore[arg-type]  # narrower than it is
                    while not (self._closing.is_set() or gone.is_set() or channel.is_closed):
                        await pause(_IDLE_S)
                    check_connected(connection)
                finally:
                    async with tolerating():
                        await asyncio.wait_for(connection.close(), CONNECT_TIMEOUT_S)
            if met:
                self._history.failed("consume a stream", met[0], node.name, now())
                await pause(_IDLE_S)

    def _took(self, queue: str, message: AbstractIncomingMessage) -> Place:
        offset = int(str(message.headers["x-stream-offset"]))
        if queue == COMPACTED:
            return self._ledger.read_of_key(offset, message.headers, message.body)
        log = f"{PARTED}-{message.headers['x-stream-partition']}" if queue == PARTED else STREAM
        place = self._ledger.read(log, offset, message.body)
        self._ledger.handed_out(queue, place)
        return place

    # -- the end -------------------------------------------------------------------------------------------------------

    async def check(self, node: Node, compacted_end: int) -> None:
        """Nobody publishes any more: what the streams have, as this node reads them, and that all of it comes to the
        readers. compacted_end: the next offset of the stream that is compacted, of which each node has its own rest."""
        ledger, history = self._ledger, self._history
        await asyncio.gather(*(self._check_compacted(each, compacted_end) for each in self._nodes))
        async with tolerating() as met, asyncio.timeout(READ_LIMIT_S):
            connection = await connect(node)
            try:
                for stream, logs in LOGS.items():
                    found = {}
                    for log in logs:
                        found[log] = await self._read_log(await connection.channel(), log)
                    ledger.check_log(stream, found)
            finally:
                await connection.close()
        if met:
            history.violated(f"streams cannot be read on {node.name} when all is calm: {met[0]!r}")
            return
        await until(lambda: all(ledger.seen(queue) >= ledger.ends(queue) for queue in SHARED), READ_LIMIT_S)
        for queue in SHARED:
            ledger.check_shared(queue)

    async def _check_compacted(self, node: Node, end: int) -> None:
        async with tolerating() as met, asyncio.timeout(READ_LIMIT_S):
            connection = await connect(node)
            try:
                offsets = await self._read_to(await connection.channel(), COMPACTED, end)
            finally:
                await connection.close()
            self._ledger.check_compacted(offsets, end)
        if met:
            self._history.violated(f"{COMPACTED} cannot be read to {end} on {node.name} when all is calm: {met[0]!r}")

    async def _read_log(self, channel: AbstractChannel, log: str) -> list[int]:
        """All offsets of a stream that is not partitioned, in the order in which they come."""
        count = (await channel.declare_queue(log, passive=True)).declaration_result.message_count or 0
        return await self._read_to(channel, log, count)

    async def _read_to(self, channel: AbstractChannel, log: str, end: int) -> list[int]:
        """The same, up to where it ends; the newest message of a stream is always there."""
        await channel.set_qos(_PREFETCH)
        queue = await channel.get_queue(log)
        offsets: list[int] = []
        is_whole = asyncio.Event()

        async def receive(message: AbstractIncomingMessage) -> None:
            offset = int(str(message.headers["x-stream-offset"]))
            if log == COMPACTED:
                self._ledger.read_of_key(offset, message.headers, message.body)
            else:
                self._ledger.read(log, offset, message.body)
            offsets.append(offset)
            if offset >= end - 1:
                is_whole.set()
            await message.ack()

        if end:
            await queue.consume(receive, arguments={"x-stream-offset": "first"})
            await is_whole.wait()
        await channel.close()
        return offsets


async def _cancelled(queue: AbstractQueue) -> asyncio.Event:
    """Set when the broker cancels a consumer."""
    gone = asyncio.Event()
    channel = await queue.channel.get_underlay_channel()
    channel.on_consumer_cancel_callbacks.add(lambda _: gone.set())
    return gone
