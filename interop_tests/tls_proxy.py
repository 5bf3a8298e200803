"""A proxy that ends TLS in front of the HTTP API, as docs/management.md asks for one; in a thread, on a free port."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import trustme

START_TIMEOUT_S = 60


@contextmanager
def tls_proxy(url: str, folder: Path) -> Iterator[tuple[int, Path]]:
    """Its port on localhost, and the certificate of the authority that signed its own."""
    target = urlsplit(url)
    authority = trustme.CA()
    authority_file = folder / "authority.pem"
    authority.cert_pem.write_to_path(authority_file)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost", "127.0.0.1").configure_cert(context)
    ports: list[int] = []
    listens = threading.Event()
    loop = asyncio.new_event_loop()
    ends = asyncio.Event()

    async def passed_on(client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        server, to_server = await asyncio.open_connection(target.hostname, target.port)
        await asyncio.gather(copied(client, to_server), copied(server, to_client), return_exceptions=True)

    async def serve() -> None:
        server = await asyncio.start_server(passed_on, "127.0.0.1", 0, ssl=context)
        ports.append(server.sockets[0].getsockname()[1])
        listens.set()
        async with server:
            await ends.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    try:
        assert listens.wait(START_TIMEOUT_S)
        yield ports[0], authority_file
    finally:
        loop.call_soon_threadsafe(ends.set)
        thread.join()
        loop.close()


async def copied(source: asyncio.StreamReader, to: asyncio.StreamWriter) -> None:
    try:
        while piece := await source.read(65536):
            to.write(piece)
            await to.drain()
    finally:
        to.close()
