"""The management process: its listeners, until it is told to stop or who started it is gone.

    sockets -> readers of the node -> HTTP -> "ready" on standard output once the node answers -> SIGTERM, or the end of
    standard input
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Final

from amqp_broker.settings.log_format import formatter
from amqp_broker.system_client import SystemRequestError
from amqp_broker.web.endpoints.all import api_endpoints
from amqp_broker.web.node_client import NodeGone
from amqp_broker.web.places import Places
from amqp_broker.web.process.app import Api, application
from amqp_broker.web.process.http_server import HttpServer
from amqp_broker.web.prometheus.endpoints import metrics_endpoints
from amqp_broker.web.services import Services
from amqp_broker.web.ui.pages import Pages

if TYPE_CHECKING:
    from ssl import SSLContext

log = logging.getLogger("amqp_broker.web")

READY: Final = "ready\n"
#: How often it is looked whether the node answers, until it does.
_LOOK_S: Final = 0.2
_INPUT_OCTETS: Final = 4096


def start_logging(level: str, log_format: str) -> None:
    """What this process says goes to standard error, as the broker's own words do."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter(log_format))
    logging.basicConfig(level=level.upper(), handlers=[handler])
    logging.getLogger("uvicorn").setLevel(logging.WARNING)


def run(
    url: str,
    places: Places,
    *,
    ends_with_parent: bool,
    statistics_objects: int,
    list_rows: int,
    tls: SSLContext | None = None,
    allowed_hosts: tuple[str, ...] = (),
) -> int:
    """Serve until it is to stop. tls: for a URL with amqps://. allowed_hosts: Hosts. Returns the exit status."""
    services = Services(url, places.names(), statistics_objects, list_rows, tls, allowed_hosts)
    return _in_loop(_serve(services, places, ends_with_parent))


def _in_loop(main: Coroutine[object, None, int]) -> int:
    try:
        import uvloop
    except ImportError:
        return asyncio.run(main)
    return uvloop.run(main)


async def _serve(services: Services, places: Places, ends_with_parent: bool) -> int:
    programs = (
        (application(services, Pages(services, Api(services, api_endpoints()))), places.api),
        (application(services, Api(services, metrics_endpoints(), "")), places.prometheus),
    )
    servers = [HttpServer(app, sockets) for app, sockets in programs if sockets]
    loop = asyncio.get_running_loop()

    def end() -> None:
        for server in servers:
            server.end()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end)
    if ends_with_parent:
        loop.add_reader(0, _watch_parent, loop, end)
    services.start()
    told = asyncio.create_task(_tell_when_ready(services))
    try:
        await asyncio.gather(*(server.run_on_sockets() for server in servers))
    finally:
        told.cancel()
        await asyncio.to_thread(services.close)
    return 0


async def _tell_when_ready(services: Services) -> None:
    """Who started this process reads it; others see the addresses in the log."""
    is_told = False
    while True:
        try:
            await asyncio.to_thread(services.totals.read)
            break
        except (NodeGone, SystemRequestError) as error:
            if not is_told:
                log.warning("the node does not answer yet: %s", error)
            is_told = True
            await asyncio.sleep(_LOOK_S)
    sys.stdout.write(READY)
    sys.stdout.flush()


def _watch_parent(loop: asyncio.AbstractEventLoop, end: Callable[[], object]) -> None:
    if not os.read(0, _INPUT_OCTETS):
        loop.remove_reader(0)
        end()
