"""Clients that use queues as locks: a holder on every node for every lock, and one that makes a lock anew when it is
over. What they do is in a LockLog, which says what it means."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random
from typing import Any

from aio_pika import DeliveryMode, Message
from aio_pika.abc import AbstractChannel, AbstractConnection, AbstractIncomingMessage

from tests.chaos.clients import start
from tests.chaos.history import History
from tests.chaos.lock_log import LockLog, PendingAnswer, Release
from tests.chaos.sessions import (
    CONNECT_TIMEOUT_S,
    Node,
    PlainSession,
    check_connected,
    connect,
    tolerating,
    was_cancelled,
)
from tests.chaos.timing import now, pause

TOKENS = "chaos.tokens"
LOCK_ARGUMENTS: dict[str, str | int] = {"x-queue-type": "quorum", "x-delivery-limit": -1}
FENCE_HEADER = "x-delivery-count"
ACK_CHANCE = 0.2
SHORT_HOLD_S = (0.01, 0.2)
#: Long enough to outlive the time after which a node is given up.
LONG_HOLD_S = (1.0, 8.0)
LONG_CHANCE = 0.04
#: After an executed ack: so long nobody may come to hold it, then the next generation begins.
OVER_S = 1.0
IDLE_S = 0.2


def token_of(hold: PendingAnswer) -> bytes:
    """What a holder publishes behind its ack."""
    return f"{hold.lock} {hold.generation} {hold.fence}".encode()


def generation_of(body: bytes) -> int:
    """The generation in a lock's message. Raises ValueError."""
    return int(body)


def lock_message(generation: int) -> Message:
    return Message(b"%d" % generation, delivery_mode=DeliveryMode.PERSISTENT)


class LockHolders:
    """All clients of the locks in one round. Generations are numbered from `first_generation`."""

    def __init__(
        self, nodes: Sequence[Node], locks: Sequence[str], log: LockLog, history: History, chance: Random
    ) -> None:
        self._log = log
        self._history = history
        self._chance = chance
        self._closing = asyncio.Event()
        self._tasks = [
            start(history, f"holder of {lock} on {node.name}", self._hold_again(node, lock))
            for lock in locks
            for node in nodes
        ]
        self._tasks += [start(history, f"maker of {lock}", self._make_again(nodes, lock)) for lock in locks]

    async def close(self) -> None:
        """End all holds and close in good order."""
        self._closing.set()
        await asyncio.wait(self._tasks)

    # -- making ------------------------------------------------------------------------------------------------------

    async def _make_again(self, nodes: Sequence[Node], lock: str) -> None:
        """Publish generation after generation, each once: a publish whose fate is unknown is never repeated."""
        generation = 0
        while not self._closing.is_set():
            session = PlainSession(self._chance.choice(nodes))
            generation += 1
            async with tolerating() as met:
                channel = await asyncio.wait_for(session.channel(lock), CONNECT_TIMEOUT_S)
                await channel.default_exchange.publish(
                    lock_message(generation), routing_key=lock, timeout=CONNECT_TIMEOUT_S
                )
                self._log.created.append((lock, generation))
            await session.close()
            if met:
                self._history.failed("lock not made", met[0], session.node.name, now())
                await pause(IDLE_S)
                continue
            while not self._closing.is_set() and not self._log.is_over(lock, generation, now() - OVER_S):
                await pause(IDLE_S)

    # -- holding -----------------------------------------------------------------------------------------------------

    async def _hold_again(self, node: Node, lock: str) -> None:
        lives = 0
        while not self._closing.is_set():
            lives += 1
            async with tolerating() as met:
                connecting = asyncio.create_task(connect(node))
                await self._first_of(connecting)
                if not connecting.done() or self._closing.is_set():
                    connecting.cancel()
                    return
                connection = connecting.result()
                try:
                    await self._consume(connection, node, lock, f"{node.name}/{lives}")
                finally:
                    async with tolerating():
                        await asyncio.wait_for(connection.close(), CONNECT_TIMEOUT_S)
            if met:
                self._history.failed("lock holder", met[0], node.name, now())
            await pause(IDLE_S)

    async def _consume(self, connection: AbstractConnection, node: Node, lock: str, holder: str) -> None:
        """Hold the lock whenever it comes, until the channel or the consumer has ended or this is to close."""
        channel = await connection.channel()
        cancelled = asyncio.Event()
        underlay = await channel.get_underlay_channel()
        underlay.on_consumer_cancel_callbacks.add(lambda _: cancelled.set())
        await channel.set_qos(1)
        queue = await channel.declare_queue(lock, passive=True)
        # Taken while the lock is held: what is said at its end is said before the connection closes.
        holding = asyncio.Lock()

        async def receive(message: AbstractIncomingMessage) -> None:
            fence = int(str(message.headers.get(FENCE_HEADER, 0)))
            hold = self._log.began(lock, generation_of(message.body), fence, holder, node.name, now())
            try:
                async with holding:
                    await self._hold(channel, message, hold)
            except asyncio.CancelledError:
                if was_cancelled():
                    raise
            finally:
                self._log.released(hold, Release.BROKEN, now())

        await queue.consume(receive)
        ends: list[asyncio.Future[Any]] = [
            asyncio.ensure_future(channel.closed()),
            asyncio.create_task(cancelled.wait()),
        ]
        await self._first_of(*ends)
        for each in ends:
            each.cancel()
        check_connected(connection)
        if not channel.is_closed:
            await asyncio.wait_for(holding.acquire(), CONNECT_TIMEOUT_S)

    async def _hold(self, channel: AbstractChannel, message: AbstractIncomingMessage, hold: PendingAnswer) -> None:
        span = LONG_HOLD_S if self._chance.random() < LONG_CHANCE else SHORT_HOLD_S
        await self._first_of(asyncio.create_task(pause(self._chance.uniform(*span))))
        acks = self._chance.random() < ACK_CHANCE and not self._closing.is_set()
        async with tolerating() as met:
            if not acks:
                self._log.released(hold, Release.GIVEN_BACK, now())
                await message.nack(requeue=True)
                return
            self._log.released(hold, Release.ACKED, now())
            await message.ack()
            await channel.default_exchange.publish(
                Message(token_of(hold), delivery_mode=DeliveryMode.PERSISTENT), routing_key=TOKENS
            )
            self._log.executed(hold, now())
        if met:
            self._history.failed("lock release", met[0], hold.node, now())

    async def _first_of(self, *events: asyncio.Future[Any]) -> None:
        closing = asyncio.create_task(self._closing.wait())
        try:
            await asyncio.wait([*events, closing], return_when=asyncio.FIRST_COMPLETED)
        finally:
            closing.cancel()
