"""Connections of stock clients: aio-pika's robust one, which comes back by itself, and its plain one, made anew."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Protocol

import aio_pika
from aio_pika.abc import AbstractChannel, AbstractConnection, AbstractRobustChannel, AbstractRobustConnection
from aio_pika.exceptions import CONNECTION_EXCEPTIONS

from tests.chaos.timing import pause

#: What a client may meet while there are faults; anything else is a defect of the harness or a finding.
CLIENT_ERRORS: tuple[type[Exception], ...] = (*CONNECTION_EXCEPTIONS, asyncio.InvalidStateError, TimeoutError)
CONNECT_TIMEOUT_S = 5.0
RETRY_S = 0.2


class Node(Protocol):
    """What clients need of a node."""

    @property
    def name(self) -> str: ...

    @property
    def url(self) -> str: ...


def was_cancelled() -> bool:
    """Whether somebody cancels this task, rather than a future of the client library that it waited for."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


@contextlib.asynccontextmanager
async def tolerating(*, cancelled: bool = True) -> AsyncIterator[list[BaseException]]:
    """Errors that a client may meet end the block, and are in the list. Loss of a connection may also show as the
    cancellation of what was waited for."""
    met: list[BaseException] = []
    try:
        yield met
    except CLIENT_ERRORS as error:
        met.append(error)
    except asyncio.CancelledError as error:
        if not cancelled or was_cancelled():
            raise
        met.append(error)


async def connect(node: Node) -> AbstractConnection:
    """A plain connection, once the node takes one."""
    while True:
        async with tolerating():
            return await aio_pika.connect(node.url, timeout=CONNECT_TIMEOUT_S)
        await pause(RETRY_S)


def check_connected(connection: AbstractConnection) -> None:
    """Raises ConnectionError where the other side has ended the connection."""
    if not connection.connected.is_set():
        raise ConnectionError("the connection is lost")


class Session(Protocol):
    """A source of channels on one node: one for each name, with confirms."""

    node: Node

    async def channel(self, name: str) -> AbstractChannel:
        """The channel of this name to use now; waits until there is one. Raises CLIENT_ERRORS."""
        ...

    async def close(self) -> None: ...


class RobustSession:
    """connect_robust: one connection, and channels that come back with it. on_reconnected: it was lost meanwhile."""

    def __init__(self, node: Node, on_reconnected: Callable[[], None] | None = None) -> None:
        self.node = node
        self._on_reconnected = on_reconnected
        self._connection: AbstractRobustConnection | None = None
        self._channels: dict[str, AbstractRobustChannel] = {}
        self._opening = asyncio.Lock()

    async def channel(self, name: str) -> AbstractChannel:
        async with self._opening:
            if self._connection is None:
                self._connection = await aio_pika.connect_robust(
                    self.node.url, timeout=CONNECT_TIMEOUT_S, reconnect_interval=RETRY_S, fail_fast=False
                )
                if self._on_reconnected is not None:
                    tell = self._on_reconnected
                    self._connection.reconnect_callbacks.add(lambda *_: tell())
            if name not in self._channels:
                channel = await self._connection.channel()
                assert isinstance(channel, AbstractRobustChannel)
                self._channels[name] = channel
        await self._channels[name].ready()
        return self._channels[name]

    async def close(self) -> None:
        if self._connection is not None:
            async with tolerating():
                await asyncio.wait_for(self._connection.close(), CONNECT_TIMEOUT_S)


class PlainSession:
    """connect: a new connection when the old one is gone, and new channels when old ones are."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self._connection: AbstractConnection | None = None
        self._channels: dict[str, AbstractChannel] = {}
        self._opening = asyncio.Lock()

    async def channel(self, name: str) -> AbstractChannel:
        async with self._opening:
            # A connection that was lost counts as open until it is closed; but it is not connected.
            if self._connection is None or not self._connection.connected.is_set():
                await self.close()
                self._connection = await connect(self.node)
                self._channels.clear()
            if name not in self._channels or self._channels[name].is_closed:
                self._channels[name] = await self._connection.channel()
            return self._channels[name]

    async def close(self) -> None:
        if self._connection is not None:
            async with tolerating():
                await asyncio.wait_for(self._connection.close(), CONNECT_TIMEOUT_S)
