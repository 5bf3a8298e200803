"""Peer: what the driver knows of the other end of a transport."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Peer:
    """host, port: of the client. local_host, local_port: of the listener. certificate_name: the common name in the
    client's verified certificate, or None. is_loopback: the client is on this machine."""

    host: str
    port: int
    local_host: str
    local_port: int
    is_tls: bool = False
    certificate_name: str | None = None
    is_loopback: bool = False

    def __str__(self) -> str:
        return f"{self.host}:{self.port} -> {self.local_host}:{self.local_port}"
