"""Target: which broker to load, from an AMQP URL.

Source: RabbitMQ's URI specification (amqp://user:password@host:port/vhost, each part percent-encoded).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

DEFAULT_PORT = 5672


class TargetError(ValueError):
    """A URL that cannot be used: one line that names it and what is allowed."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where a broker listens and as whom to log in."""

    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    user: str = "guest"
    password: str = field(default="guest", repr=False)
    vhost: str = "/"

    @property
    def location(self) -> str:
        """The address without credentials, fit for messages."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"amqp://{host}:{self.port}"


def parse_target(url: str) -> Target:
    """The target that an amqp:// URL names; without a path, or with `/` alone, the vhost is `/`. Raises
    TargetError.
    """
    parts = urlsplit(url)
    if parts.scheme == "amqps":
        raise TargetError(
            f"{url!r}: TLS would be measured with the broker; allowed: amqp:// to a plain listener"
        )
    if parts.scheme != "amqp" or not parts.hostname:
        raise TargetError(f"{url!r} is not an AMQP URL; allowed: amqp://user:password@host:port/vhost")
    try:
        port = parts.port or DEFAULT_PORT
    except ValueError as error:
        raise TargetError(f"{url!r}: {error}; allowed: a port from 1 to 65535") from error
    return Target(
        host=parts.hostname,
        port=port,
        user=unquote(parts.username or "guest"),
        password=unquote(parts.password or "guest"),
        vhost=unquote(parts.path[1:]) or "/",
    )
