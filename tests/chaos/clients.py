"""What the clients of a round do: publishers that want confirms, and consumers that acknowledge.

A publisher has a lane for each queue: a coroutine with a channel of its own (confirms of a channel come in order) that
publishes a message and awaits its confirm before the next one, so that a queue that does not answer holds up no other.
A message that was not confirmed is published again until it is, under the same name. Now and then a lane publishes a
burst.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from random import Random
from typing import Any

from aio_pika import DeliveryMode, Message
from aio_pika.abc import AbstractIncomingMessage, AbstractQueue
from aio_pika.exceptions import DeliveryError
from aiormq.abc import DeliveredMessage

from tests.chaos.history import Delivery, History, Outcome, Settlement
from tests.chaos.sessions import (
    CONNECT_TIMEOUT_S,
    Node,
    RobustSession,
    Session,
    check_connected,
    connect,
    tolerating,
    was_cancelled,
)
from tests.chaos.timing import now, pause
from tests.kill.ledger import MessageId, body_of

REST_S = 0.06
RETRY_S = 0.1
BURST_CHANCE = 0.02
BURST = 20
REQUEUE_CHANCE = 0.02
PREFETCH = 20
WORK_S = 0.02
IDLE_S = 0.2
SHOWN = 5


def start(history: History, what: str, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    """A task whose failure is a finding."""

    async def watched() -> None:
        try:
            await work
        except Exception as error:  # noqa: BLE001 - whatever a client runs into is told with its text
            history.violated(f"{what} failed: {error!r}")

    return asyncio.create_task(watched(), name=what)


class Publisher:
    """Lanes on one session. Lane numbers begin with `first_lane`; they name messages, so they are unique in a round.

    timeout_s: a confirm that takes longer is not awaited any more, and the message is published again. leisure: a lane
    rests so many times REST_S between two messages.
    """

    def __init__(
        self,
        session: Session,
        history: History,
        queues: Sequence[str],
        first_lane: int,
        timeout_s: float,
        seed: float,
        leisure: float = 1.0,
    ) -> None:
        self._session = session
        self._history = history
        self._timeout_s = timeout_s
        self._rest_s = leisure * REST_S
        self._is_stopping = False
        name = f"publisher on {session.node.name}"
        self._tasks = [
            start(history, f"{name}, {queue}", self._run_lane(lane, queue, Random(f"{seed}/{lane}")))
            for lane, queue in enumerate(queues, start=first_lane)
        ]

    async def stop(self, patience_s: float) -> None:
        """Begin nothing new; wait so long for what is not confirmed: longer is a finding, where any patience is due."""
        self._is_stopping = True
        _, slow = await asyncio.wait(self._tasks, timeout=patience_s)
        for task in slow:
            if patience_s:
                self._history.violated(
                    f"{task.get_name()}: not confirmed {patience_s} s after the last fault was over; no answer to "
                    f"{self._history.pending()[:SHOWN]}"
                )
            task.cancel()
        if slow:
            await asyncio.wait(slow)
        await self._session.close()

    async def _run_lane(self, lane: int, queue: str, chance: Random) -> None:
        number = 0
        while not self._is_stopping:
            count = BURST if chance.random() < BURST_CHANCE else 1
            messages = [(lane, number + each) for each in range(count)]
            number += count
            await asyncio.gather(*(self._publish(message, queue) for message in messages))
            await pause(chance.uniform(0.5, 1.5) * self._rest_s)

    async def _publish(self, message: MessageId, queue: str) -> None:
        """Publish a message until it is confirmed."""
        while not await self._attempt(message, queue):
            await pause(RETRY_S)

    async def _attempt(self, message: MessageId, queue: str) -> bool:
        history, node = self._history, self._session.node.name
        async with tolerating() as met:
            channel = await self._session.channel(queue)
        if met:
            history.failed("no channel", met[0], node, now())
            return False
        attempt = history.publishing(message, queue, node, now())
        outcome = Outcome.UNKNOWN
        lane, number = message
        content = Message(body_of(message), delivery_mode=DeliveryMode.PERSISTENT, message_id=f"{lane}/{number}")
        async with tolerating() as met:
            result = await channel.default_exchange.publish(
                content, routing_key=queue, mandatory=True, timeout=self._timeout_s
            )
            outcome = Outcome.RETURNED if isinstance(result, DeliveredMessage) else Outcome.CONFIRMED
        if met:
            history.failed("publish", met[0], node, now())
            outcome = Outcome.NACKED if isinstance(met[0], DeliveryError) else Outcome.UNKNOWN
        history.ended(attempt, outcome, now())
        return outcome is Outcome.CONFIRMED


class Consumer:
    """Consumes queues with manual acks on one node. With a RobustSession the client library comes back; else this."""

    def __init__(
        self, node: Node, history: History, name: str, queues: Sequence[str], chance: Random, *, is_robust: bool
    ) -> None:
        self._node = node
        self._history = history
        self._name = f"{name} on {node.name}"
        self._chance = chance
        self._closing = asyncio.Event()
        self._working = 0
        run: Callable[[str], Coroutine[Any, Any, None]] = self._stay if is_robust else self._come_back
        self._tasks = [start(history, f"{self._name}, {queue}", run(queue)) for queue in queues]

    async def close(self) -> None:
        """Close in good order: what is held goes back."""
        self._closing.set()
        await asyncio.wait(self._tasks)

    async def _stay(self, queue: str) -> None:
        """A robust connection, whose consumer is restored by the client library."""
        session = self._robust_session()
        while not self._closing.is_set():
            async with tolerating() as met:
                channel = await session.channel(queue)
                await channel.set_qos(PREFETCH)
                declared = await channel.get_queue(queue)
                await declared.consume(self._receiver(queue))
                await self._closing.wait()
            if met:
                self._history.failed("robust consume", met[0], self._node.name, now())
                await session.close()
                session = self._robust_session()
                await pause(IDLE_S)
        await session.close()

    def _robust_session(self) -> RobustSession:
        def reconnected() -> None:
            self._history.failed("robust consume", ConnectionError("reconnected"), self._node.name, now())

        return RobustSession(self._node, reconnected)

    async def _come_back(self, queue: str) -> None:
        """A plain connection, made anew when it, the channel or the consumer has ended."""
        while not self._closing.is_set():
            async with tolerating() as met:
                connecting = asyncio.create_task(connect(self._node))
                await self._first_of(connecting)
                if not connecting.done() or self._closing.is_set():
                    connecting.cancel()
                    return
                connection = connecting.result()
                try:
                    channel = await connection.channel(publisher_confirms=False)
                    await channel.set_qos(PREFETCH)
                    declared = await channel.declare_queue(queue, passive=True)
                    cancelled = await _consume(declared, self._receiver(queue))
                    ends: list[asyncio.Future[Any]] = [asyncio.create_task(cancelled.wait())]
                    ends.append(asyncio.ensure_future(channel.closed()))
                    await self._first_of(*ends)
                    for each in ends:
                        each.cancel()
                    check_connected(connection)
                finally:
                    async with tolerating():
                        await asyncio.wait_for(connection.close(), CONNECT_TIMEOUT_S)
            if met:
                self._history.failed("consume", met[0], self._node.name, now())
                await pause(IDLE_S)

    async def _first_of(self, *events: asyncio.Future[Any]) -> None:
        """Wait for one of these, or until this consumer is to close."""
        closing = asyncio.create_task(self._closing.wait())
        try:
            await asyncio.wait([*events, closing], return_when=asyncio.FIRST_COMPLETED)
        finally:
            closing.cancel()

    def _receiver(self, queue: str) -> Callable[[AbstractIncomingMessage], Coroutine[Any, Any, None]]:
        async def receive(message: AbstractIncomingMessage) -> None:
            delivery = Delivery(queue, self._node.name, self._name, now(), bool(message.redelivered))
            self._history.delivered(delivery, message.body)
            try:
                await self._work(message, delivery)
            except asyncio.CancelledError:
                if was_cancelled():  # the channel is gone, and takes its callbacks along
                    raise

        return receive

    async def _work(self, message: AbstractIncomingMessage, delivery: Delivery) -> None:
        await pause(self._chance.uniform(0, 2 * WORK_S))
        if self._closing.is_set():
            return
        requeue = self._chance.random() < REQUEUE_CHANCE
        delivery.settlement = Settlement.REQUEUED if requeue else Settlement.ACKED
        async with tolerating() as met:
            if requeue:
                await message.nack(requeue=True)
            else:
                await message.ack()
        if met:
            self._history.failed("settle", met[0], self._node.name, now())
        else:
            delivery.settled_at = now()


async def _consume(
    queue: AbstractQueue, receive: Callable[[AbstractIncomingMessage], Coroutine[Any, Any, None]]
) -> asyncio.Event:
    """Consume. The event is set when the broker cancels the consumer."""
    cancelled = asyncio.Event()
    channel = await queue.channel.get_underlay_channel()
    channel.on_consumer_cancel_callbacks.add(lambda _: cancelled.set())
    await queue.consume(receive)
    return cancelled
