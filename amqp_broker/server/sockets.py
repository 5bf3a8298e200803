"""Listening sockets: bound early, so that a port in use is known before anything is touched; listened on later."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterable

from amqp_broker.management.node_facts import AMQPS, ListenerFacts
from amqp_broker.settings.kinds import Address

#: How long an address may take to say whether somebody listens on it, seconds.
_PROBE_S = 0.5
#: Where this machine reaches who listens everywhere.
OWN_HOSTS = {"0.0.0.0": "127.0.0.1", "::": "::1"}


def bind_all(addresses: Iterable[Address], flag: str) -> list[socket.socket]:
    """A bound socket for each address. `flag` names the setting in errors. Raises OSError whose filename is the
    address; then none is left open."""
    sockets: list[socket.socket] = []
    try:
        for address in addresses:
            sockets.append(_bind(address, flag))
            _probe(address, flag)
    except OSError:
        for each in sockets:
            each.close()
        raise
    return sockets


def address_of(listener: socket.socket) -> Address:
    """Where a socket is bound: the port that was taken, where 0 was asked for."""
    host, port = listener.getsockname()[:2]
    return Address(host, port)


def facts_of(plain: Iterable[socket.socket], secure: Iterable[socket.socket]) -> tuple[ListenerFacts, ...]:
    """Where clients come in, without TLS and with it."""
    found = [ListenerFacts("amqp", *address_of(each)) for each in plain]
    return (*found, *[ListenerFacts(AMQPS, *address_of(each), tls=True) for each in secure])


def _bind(address: Address, flag: str) -> socket.socket:
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind((address.host, address.port))
    except OSError as error:
        listener.close()
        raise _refusal(error.errno, error.strerror or str(error), address, flag) from None
    return listener


def _probe(address: Address, flag: str) -> None:
    """SO_REUSEADDR lets two processes bind a port, and only listening tells that it is taken. But who waits in the
    backlog of a broker that recovers believes that it runs: so ask whether somebody else listens there already."""
    if not address.port:
        return
    with socket.socket(socket.AF_INET6 if ":" in address.host else socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.settimeout(_PROBE_S)
        if probe.connect_ex((OWN_HOSTS.get(address.host, address.host), address.port)) == 0:
            raise _refusal(errno.EADDRINUSE, "Address already in use", address, flag)


def _refusal(number: int | None, reason: str, address: Address, flag: str) -> OSError:
    return OSError(number, f"{reason}: choose another address with {flag}, or stop who has it", str(address))
