"""A TCP line to the broker that a test can cut: what a client sees when the network fails.

It must not know AMQP: octets go both ways unchanged until `cut`. Afterwards the line accepts again, so that a
client can reconnect.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from types import TracebackType
from urllib.parse import urlsplit, urlunsplit


class CutLine:
    """Listens on a free port and forwards to the broker of a URL; `url` leads through the line."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._target = (parts.hostname or "127.0.0.1", parts.port or 5672)
        self._listener = socket.create_server(("127.0.0.1", 0))
        port = self._listener.getsockname()[1]
        credentials = f"{parts.username or 'guest'}:{parts.password or 'guest'}"
        self.url = urlunsplit(parts._replace(netloc=f"{credentials}@127.0.0.1:{port}"))
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._accept, daemon=True)]

    def __enter__(self) -> CutLine:
        self._threads[0].start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # shutdown wakes the accepting thread, close alone would not
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()
        for thread in self._threads:
            thread.join(10)

    def cut(self) -> int:
        """Cut every connection that runs through the line; returns how many there were."""
        with self._lock:
            pairs, self._pairs = self._pairs, []
        for pair in pairs:
            for end in pair:
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
        return len(pairs)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return  # the listener was closed: the line is gone
            broker = socket.create_connection(self._target)
            with self._lock:
                self._pairs.append((client, broker))
            ends = _Ends(client, broker)
            for source, sink in ((client, broker), (broker, client)):
                thread = threading.Thread(target=ends.pump, args=(source, sink), daemon=True)
                self._threads.append(thread)
                thread.start()


class _Ends:
    """Both sockets of one connection; the second pump that ends closes them."""

    def __init__(self, *ends: socket.socket) -> None:
        self._ends = ends
        self._running = 2
        self._lock = threading.Lock()

    def pump(self, source: socket.socket, sink: socket.socket) -> None:
        """Forward one way until either side ends; then end the other way too."""
        with contextlib.suppress(OSError):
            while octets := source.recv(65536):
                sink.sendall(octets)
        for end in self._ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        with self._lock:
            self._running -= 1
            is_last = self._running == 0
        if is_last:
            for end in self._ends:
                end.close()
