"""serve: a node on real sockets, a real disk and a real clock, until SIGTERM."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import os
import secrets
import signal
import socket
import ssl
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from amqp_broker.node import Node
from amqp_broker.server.driver import Driver
from amqp_broker.server.listener import Listener
from amqp_broker.server.tls import tls_context
from amqp_broker.server.tls_transport import TlsTransport
from amqp_broker.server.verification import verify_at_start
from storage.disk import FileDisk
from storage.errors import StorageError

if TYPE_CHECKING:
    from collections import deque

    from amqp_broker.config import Config
    from amqp_broker.page_check import PageCheck

log = logging.getLogger("amqp_broker.server")

#: Python's own default of 5 ms would make the sync thread wait that long for a busy loop.
_SWITCH_INTERVAL_S = 0.0001
#: Objects of a message live shortly; the collector looks for cycles only, and rarely.
_GC_THRESHOLDS = (50_000, 20, 50)


def _bind(host: str, port: int) -> socket.socket:
    """A bound socket, not yet listening. Raises OSError whose filename is the address."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind((host, port))
        # Two brokers may both bind a port; only listening tells that it is taken. Clients wait in the backlog
        # meanwhile, so it is closed again for those who come before the queues are recovered.
    except OSError as error:
        listener.close()
        raise _listen_error(error, host, port) from None
    return listener


def _listen_error(error: OSError, host: str, port: int) -> OSError:
    reason = error.strerror or str(error)
    return OSError(error.errno, f"{reason}: choose another address with --listen, or stop who has it", f"{host}:{port}")


def serve(config: Config) -> int:
    """Run until SIGTERM or SIGINT. Returns the exit status. Raises StorageError, OSError before anything is touched."""
    logging.basicConfig(
        level=config.log_level.upper(), stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    context = tls_context(config) if config.tls_listen else None
    plain = [_bind(address.host, address.port) for address in config.listen]
    secure = [_bind(address.host, address.port) for address in config.tls_listen]
    for address, listener in zip([*config.listen, *config.tls_listen], [*plain, *secure], strict=True):
        _probe(listener, address.host, address.port)
    reader = ThreadPoolExecutor(1, "read")
    disk = FileDisk(config.data_dir, background=reader.submit)
    disk.lock()
    try:
        sys.setswitchinterval(_SWITCH_INTERVAL_S)
        now = int(time.time() * 1000)
        node = Node(config, disk, now, secrets.token_bytes)
        # A million recovered objects hold no cycles: looking for some would take most of the start.
        gc.disable()
        node.recover(now)
        unverified = verify_at_start(node.take_page_checks(), config.verify_at_start_bytes)
        _load_definitions(config, node)
        gc.freeze()
        gc.enable()
        gc.set_threshold(*_GC_THRESHOLDS)
        return _run(config, node, unverified, plain, secure, context)
    finally:
        reader.shutdown(cancel_futures=True)
        disk.close()


def _load_definitions(config: Config, node: Node) -> None:
    """Setting load_definitions: what the file has and the node has not. Raises OSError, StorageError."""
    if config.load_definitions is None:
        return
    text = config.load_definitions.read_text()
    try:
        notes = node.system.load_definitions(json.loads(text))
    except ValueError as error:
        raise StorageError(
            f"{config.load_definitions}: {error}; correct the file or leave load_definitions out"
        ) from None
    for note in notes:
        log.warning("definitions of %s: %s", config.load_definitions, note)


def _probe(listener: socket.socket, host: str, port: int) -> None:
    """Fail now, with nothing touched, if somebody else listens on the port: SO_REUSEADDR lets two processes bind."""
    if not port:
        return
    with socket.socket(listener.family, socket.SOCK_STREAM) as probe:
        probe.settimeout(0.5)
        target = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
        if probe.connect_ex((target, port)) == 0:
            raise OSError(
                98, "Address already in use: choose another with --listen, or stop who has it", f"{host}:{port}"
            )


def _run(
    config: Config,
    node: Node,
    unverified: deque[PageCheck],
    plain: list[socket.socket],
    secure: list[socket.socket],
    context: ssl.SSLContext | None,
) -> int:
    try:
        import uvloop
    except ImportError:
        return asyncio.run(_serve(config, node, unverified, plain, secure, context))
    return uvloop.run(_serve(config, node, unverified, plain, secure, context))


async def _serve(
    config: Config,
    node: Node,
    unverified: deque[PageCheck],
    plain: list[socket.socket],
    secure: list[socket.socket],
    context: ssl.SSLContext | None,
) -> int:
    loop = asyncio.get_running_loop()
    driver = Driver(node, config, loop)
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    if config.exit_with_parent:
        loop.add_reader(0, _watch_parent, stop)
    servers: list[Listener | asyncio.Server] = [
        Listener(driver, loop, listener, config.listen_backlog) for listener in plain
    ]
    for listener in secure:
        servers.append(
            await loop.create_server(
                lambda: TlsTransport(driver),
                sock=listener,
                backlog=config.listen_backlog,
                ssl=context,
                ssl_handshake_timeout=config.tls_handshake_timeout_ms / 1000,
            )
        )
    driver.wants_turn()
    driver.verify(unverified)
    _announce([*plain, *secure], len(plain))
    stopping = asyncio.ensure_future(stop.wait())
    ends: list[asyncio.Future[Any]] = [stopping, driver.failed]
    await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    failed = driver.failed.done()
    for server in servers:
        server.close()
    if not failed:
        await _close_connections(config, node, driver)
        await driver.flush()
        failed = driver.failed.done()
    stopping.cancel()
    driver.stop_threads()
    if failed:
        log.critical("stopped: %s", driver.failed.exception())
        return 1
    return 0


def _announce(listeners: list[socket.socket], plain_count: int) -> None:
    """The ready line: the first listener's address."""
    host, port = listeners[0].getsockname()[:2]
    scheme = "amqp" if plain_count else "amqps"
    shown = f"[{host}]" if ":" in host else host
    print(f"ready {scheme}://{shown}:{port}", flush=True)  # noqa: T201  # who started the broker reads it


def _watch_parent(stop: asyncio.Event) -> None:
    """Standard input is at its end: the parent that started this broker is gone."""
    if not os.read(0, 4096):
        asyncio.get_running_loop().remove_reader(0)
        stop.set()


async def _close_connections(config: Config, node: Node, driver: Driver) -> None:
    """Close all clients with 320 and give them a moment to answer."""
    node.shut_down(driver.now())
    driver.wants_turn()
    deadline = time.monotonic() + config.shutdown_timeout_ms / 1000
    # Clients leave one by one, and nothing goes on but the end: not worth an event of the node's.
    while node.connections and time.monotonic() < deadline and not driver.failed.done():  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    for connection in list(node.connections.values()):
        if connection.transport is not None:
            connection.transport.abort()
    await asyncio.sleep(0)
