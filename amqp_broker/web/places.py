"""Places: the sockets of the management process, bound here or by who started it."""

from __future__ import annotations

import socket
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from amqp_broker.settings.kinds import Address

_BACKLOG: Final = 128


@dataclass(frozen=True, slots=True)
class Places:
    """Sockets for the API, and for Prometheus."""

    api: list[socket.socket] = field(default_factory=list)
    prometheus: list[socket.socket] = field(default_factory=list)

    @classmethod
    def bound(cls, api: Iterable[Address], prometheus: Iterable[Address]) -> Places:
        """Raises OSError whose filename is the address."""
        places = cls()
        for sockets, addresses in ((places.api, api), (places.prometheus, prometheus)):
            for address in addresses:
                family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
                try:
                    sockets.append(
                        socket.create_server((address.host, address.port), family=family, backlog=_BACKLOG)
                    )
                except OSError as error:
                    raise OSError(error.errno, error.strerror, str(address)) from None
        return places

    @classmethod
    def inherited(cls, api: str, prometheus: str) -> Places:
        """Of the numbers of descriptors, with commas."""
        return cls(_sockets(api), _sockets(prometheus))

    def names(self) -> tuple[tuple[str, str, int], ...]:
        """Protocol, host and port of each."""
        both = (("http", self.api), ("http/prometheus", self.prometheus))
        return tuple((protocol, *each.getsockname()[:2]) for protocol, sockets in both for each in sockets)


def _sockets(numbers: str) -> list[socket.socket]:
    return [socket.socket(fileno=int(each)) for each in numbers.split(",") if each]
