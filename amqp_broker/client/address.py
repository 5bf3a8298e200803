"""Where a broker is: amqp://user:password@host:port/virtual-host, or amqps:// for TLS."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote, urlsplit

PORTS: Final = {"amqp": 5672, "amqps": 5671}


@dataclass(frozen=True, slots=True)
class Address:
    """The parts of an AMQP URL, percent-decoded."""

    host: str
    port: int
    user: str
    password: str
    virtual_host: str
    is_tls: bool

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'amqps' if self.is_tls else 'amqp'}://{host}:{self.port}"


def parse_url(url: str) -> Address:
    """The address in a URL; what it leaves out is guest, guest, localhost, the usual port, virtual host "/".

    The path is one percent-encoded name: "/%2F", "/" and none at all mean the virtual host "/". Raises
    ValueError.
    """
    parts = urlsplit(url)
    if parts.scheme not in PORTS:
        raise ValueError(
            f"{url!r} is no AMQP URL: write amqp://user:password@host:port/virtual-host, or amqps://"
        )
    try:
        port = parts.port or PORTS[parts.scheme]
    except ValueError as error:
        raise ValueError(f"{url!r} has no usable port: {error}") from None
    path = parts.path.removeprefix("/")
    return Address(
        host=parts.hostname or "localhost",
        port=port,
        user="guest" if parts.username is None else unquote(parts.username),
        password="guest" if parts.password is None else unquote(parts.password),
        virtual_host=unquote(path) or "/",
        is_tls=parts.scheme == "amqps",
    )
