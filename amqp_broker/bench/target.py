"""Target: which broker to load, from an AMQP URL.

Source: RabbitMQ's URI specification (amqp://user:password@host:port/vhost, each part percent-encoded; amqps:// is TLS).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from ssl import SSLContext, create_default_context
from urllib.parse import unquote, urlsplit

DEFAULT_PORT = 5672
DEFAULT_TLS_PORT = 5671


class TargetError(ValueError):
    """A URL that cannot be used: one line that names it and what is allowed."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where a broker listens and as whom to log in. `tls`: whom to trust and what to show, None without TLS."""

    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    user: str = "guest"
    password: str = field(default="guest", repr=False)
    vhost: str = "/"
    tls: SSLContext | None = field(default=None, repr=False, compare=False)

    @property
    def location(self) -> str:
        """The address without credentials, fit for messages."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'amqp' if self.tls is None else 'amqps'}://{host}:{self.port}"


def parse_target(url: str, tls: SSLContext | None = None) -> Target:
    """The target that an amqp:// or amqps:// URL names; without a path, or with `/` alone, the vhost is `/`. `tls`: for
    amqps://, in place of the standard library's default. Raises TargetError.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("amqp", "amqps") or not parts.hostname:
        raise TargetError(f"{url!r} is not an AMQP URL; allowed: amqp://user:password@host:port/vhost, or amqps://")
    is_tls = parts.scheme == "amqps"
    try:
        port = parts.port or (DEFAULT_TLS_PORT if is_tls else DEFAULT_PORT)
    except ValueError as error:
        raise TargetError(f"{url!r}: {error}; allowed: a port from 1 to 65535") from error
    return Target(
        host=parts.hostname,
        port=port,
        user=unquote(parts.username or "guest"),
        password=unquote(parts.password or "guest"),
        vhost=unquote(parts.path[1:]) or "/",
        tls=(tls or create_default_context()) if is_tls else None,
    )
