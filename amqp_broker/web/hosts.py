"""Hosts: by which names this server may be asked over this machine's own addresses.

A browser on this machine can be made to ask 127.0.0.1 by a name of somebody else's, who lets that name point here: his
page is then of the same origin as this server, and may log in as whoever has a known password. What such a page cannot
choose is the `Host` that the browser says. So who comes over a loopback address has to call this server by a name of
this machine, by an address, or by a name that its operator has allowed (management_allowed_hosts). Who comes from
elsewhere is not asked: names of services, proxies on other machines and scrapers work, and a browser that can be sent
there reaches nothing that its user's machine protects.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final

from amqp_broker.web.errors import ApiError

if TYPE_CHECKING:
    from starlette.requests import Request

#: Allowed instead of names: whatever it is called.
ANY: Final = "*"
_HERE: Final = "localhost"


class Hosts:
    """allowed: names beside those of this machine, without ports."""

    def __init__(self, allowed: Iterable[str] = ()) -> None:
        self._names = frozenset(each.lower().rstrip(".") for each in (_HERE, socket.gethostname(), *allowed))

    def check(self, request: Request) -> None:
        """Raises ApiError for a request that names a host which this is not."""
        server = request.scope.get("server")
        host = request.headers.get("host", "")
        if server is None or not _is_loopback(server[0]) or self._is_known(_name_of(host)):
            return
        raise ApiError(
            403, "forbidden",
            f"'{host}' is no name of this machine, and the request came over {server[0]}: ask by localhost or an "
            "address, or allow the name by management_allowed_hosts",
        )  # fmt: skip

    def _is_known(self, name: str) -> bool:
        is_named = ANY in self._names or name in self._names or name.endswith(f".{_HERE}")
        return is_named or not name or _is_address(name)


def _name_of(host: str) -> str:
    """Without the port, and the brackets of IPv6. Programs that say none are no browsers."""
    name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
    return name.lower().rstrip(".")


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _is_loopback(host: str) -> bool:
    """host: of a socket, or the path of one."""
    return _is_address(host) and ip_address(host.removeprefix("::ffff:")).is_loopback
