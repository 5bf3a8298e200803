"""The HTTP server: uvicorn, quiet, on sockets that are bound already, with a limit on how long a head may take."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar, Final

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

#: From the accepted connection, or the first octets behind an answer, to the whole head of a request.
HEAD_TIMEOUT_S: Final = 10
KEEP_ALIVE_S: Final = 65
#: How long a client may take to read what was written for it.
WRITE_TIMEOUT_S: Final = 120
#: So many connections are kept, of all listeners together; those that have no request under way make room for others,
#: the oldest first.
MAX_CONNECTIONS: Final = 1000
MAX_HEAD_OCTETS: Final = 64 << 10
_TICK_S: Final = 1.0
_SHUTDOWN_S: Final = 2


class TimedProtocol(H11Protocol):
    """A connection whose requests have to come soon, and whose answers have to be read: who opens very many, says
    nothing, little by little, or reads nothing, keeps nobody out. everybody: those of all listeners; silent: those
    that have no request under way."""

    everybody: ClassVar[set[TimedProtocol]] = set()
    silent: ClassVar[dict[TimedProtocol, None]] = {}
    _head_timer: asyncio.TimerHandle | None = None
    _write_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn wants it
        super().connection_made(transport)
        self.everybody.add(self)
        self._wait()
        if len(self.everybody) > MAX_CONNECTIONS:
            oldest = next(iter(self.silent))
            del self.silent[oldest]
            oldest.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self.everybody.discard(self)
        self.silent.pop(self, None)
        for timer in (self._head_timer, self._write_timer):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if not self._is_busy():
            self._wait()
            return
        self.silent.pop(self, None)
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._is_busy() or self.transport.is_closing():
            return
        self.silent[self] = None
        # The rest of a refused body is read and dropped, or its client would not read the answer; but not for ever.
        if self.conn.trailing_data[0] or self.conn.their_state is h11.SEND_BODY:
            self._wait()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._write_timer = self.loop.call_later(WRITE_TIMEOUT_S, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

    def _is_busy(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _wait(self) -> None:
        """For the rest of a head."""
        if self.transport.is_closing():
            return
        self.silent.setdefault(self, None)
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(HEAD_TIMEOUT_S, self._close_silent)

    def _close_silent(self) -> None:
        if not self._is_busy():
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
