"""The HTTP server: uvicorn, quiet, on sockets that are bound already, with a limit on how long a head may take."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

#: From the accepted connection, or the end of the answer before, to the whole head of a request.
HEAD_TIMEOUT_S: Final = 10
KEEP_ALIVE_S: Final = 65
MAX_CONNECTIONS: Final = 1000
MAX_HEAD_OCTETS: Final = 64 << 10
_TICK_S: Final = 1.0
_SHUTDOWN_S: Final = 2


class TimedProtocol(H11Protocol):
    """A connection whose first request has to come soon: who opens one and says nothing keeps nobody out."""

    _head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:  # uvicorn wants a narrower class than asyncio
        super().connection_made(transport)
        self._head_timer = self.loop.call_later(HEAD_TIMEOUT_S, self._close_silent)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
        super().connection_lost(exc)

    def _close_silent(self) -> None:
        if self.cycle is None:
            self.transport.close()


class HttpServer(uvicorn.Server):
    """One program on some sockets. Signals are the process's, and its clock ticks once a second, not ten times."""

    def __init__(self, app: ASGIApp, sockets: list[socket.socket]) -> None:
        config = uvicorn.Config(
            app,
            http=TimedProtocol,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=_SHUTDOWN_S,
            limit_concurrency=MAX_CONNECTIONS,
            h11_max_incomplete_event_size=MAX_HEAD_OCTETS,
        )
        super().__init__(config)
        self._sockets = sockets
        self._ended = asyncio.Event()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def run_on_sockets(self) -> None:
        await self.serve(sockets=self._sockets)

    async def main_loop(self) -> None:
        """Ten is what uvicorn takes for a second."""
        while not await self.on_tick(0):
            try:
                await asyncio.wait_for(self._ended.wait(), _TICK_S)
            except TimeoutError:
                continue

    def end(self) -> None:
        self.should_exit = True
        self._ended.set()
