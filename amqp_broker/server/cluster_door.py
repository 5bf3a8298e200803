"""ClusterDoor: the port for other nodes of a node that has several workers. Who dials says first whom it looks for, and
gets to that worker, with the octets that were read.

    accepted -> octets, until they say which worker (HELLO; with TLS the server name of the ClientHello) -> handed on

It knows no secret and believes nothing: whoever it is handed to asks for the proofs. What says nothing that is
understood is worker 0's, which refuses it and says why.

Invariants:
1. What strangers can hold is bounded: `max_pending_peers` sockets for `peer_handshake_timeout` each, and MOST_OCTETS of
   each.
2. A socket is handed on once, with all that was read of it, or closed.
"""

from __future__ import annotations

import logging
import selectors
import socket
import struct
from collections.abc import Callable
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Final

from amqp_broker.links.peer_handshake import MAX_HANDSHAKE_BYTES, PeerLinkError, decode_hello
from amqp_broker.server.client_hello import LONGEST, RECORD, server_name_in
from amqp_broker.server.descriptors import EXHAUSTED
from amqp_broker.server.peer_tls import worker_of_server_name
from amqp_broker.server.sockets import bind_all
from amqp_broker.settings.workers import worker_number

if TYPE_CHECKING:
    from amqp_broker.settings.config import Config

log = logging.getLogger("amqp_broker.cluster")

#: So many octets at most are read before it is known who is looked for.
MOST_OCTETS: Final = LONGEST
_BACKLOG: Final = 100
_ACCEPTED_AT_ONCE: Final = 64
#: How long nobody is accepted after the process or the machine has run out of something, seconds.
_REST_S: Final = 1.0
_LENGTH: Final = struct.Struct(">I")

#: Called with the number of a worker, a socket and what was read of it. False: it cannot be given that.
HandOver = Callable[[int, socket.socket, bytes], bool]


def worker_wanted(octets: bytes) -> int | None:
    """Which worker is looked for by who begins like this; None: more has to come."""
    if octets[:1] == RECORD:
        name = server_name_in(octets)
        return None if name is None else worker_of_server_name(name)
    if len(octets) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack_from(octets)
    if not 0 < length <= MAX_HANDSHAKE_BYTES:
        return 0
    payload = octets[_LENGTH.size : _LENGTH.size + length]
    if len(payload) < length:
        return None
    try:
        return worker_number(decode_hello(payload).acceptor)
    except (PeerLinkError, ValueError):
        return 0


class _Pending:
    """One that has not said yet whom it looks for."""

    def __init__(self, connection: socket.socket, until: float) -> None:
        self.connection = connection
        self.until = until
        self.octets = b""


class ClusterDoor:
    """See the module's docstring. Made, the sockets are bound; nobody is let in before `open`. Raises OSError."""

    def __init__(self, config: Config, selector: selectors.BaseSelector, hand_over: HandOver) -> None:
        self.sockets = bind_all(config.cluster_listen, "--cluster-listen")
        self._most = config.max_pending_peers
        self._patience_s = config.peer_handshake_timeout_ms / 1000
        self._selector = selector
        self._hand_over = hand_over
        self._is_open = False
        self._rests_until = 0.0
        self._pending: dict[_Pending, None] = {}

    def open(self) -> None:
        """Let others in; once."""
        if self._is_open:
            return
        self._is_open = True
        for each in self.sockets:
            each.setblocking(False)
            each.listen(_BACKLOG)
        self._watch()

    @property
    def is_busy(self) -> bool:
        """Whether a look is soon due."""
        return bool(self._pending) or self._rests_until > 0

    def _watch(self) -> None:
        for each in self.sockets:
            self._selector.register(each, selectors.EVENT_READ, partial(self._accept, each))

    def look(self, now: float) -> None:
        """Now and then: who takes too long, and whether there is room again."""
        for each in [each for each in self._pending if each.until <= now]:
            self._end(each)
        if self._rests_until and now >= self._rests_until:
            self._rests_until = 0.0
            self._watch()

    def close(self) -> None:
        """Give back what is here."""
        for pending in self._pending:
            pending.connection.close()
        for each in self.sockets:
            each.close()

    def _accept(self, listener: socket.socket) -> None:
        for _ in range(_ACCEPTED_AT_ONCE):
            try:
                connection, _ = listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:  # who waits would wake the loop all the time
                hint = ": raise `ulimit -n`" if error.errno in EXHAUSTED else ""
                log.error("cannot accept a link: %s; trying again in %g s%s", error, _REST_S, hint)
                if not self._rests_until:
                    for each in self.sockets:
                        self._selector.unregister(each)
                self._rests_until = monotonic() + _REST_S
                return
            connection.setblocking(False)
            pending = _Pending(connection, monotonic() + self._patience_s)
            self._pending[pending] = None
            self._selector.register(connection, selectors.EVENT_READ, partial(self._read, pending))
            if len(self._pending) > self._most:
                self._end(next(iter(self._pending)))

    def _read(self, pending: _Pending) -> None:
        if pending not in self._pending:  # it was ended for another one, in the same round
            return
        try:
            octets = pending.connection.recv(MOST_OCTETS - len(pending.octets))
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            octets = b""
        pending.octets += octets
        wanted = worker_wanted(pending.octets) if octets else None
        if octets and wanted is None and len(pending.octets) < MOST_OCTETS:
            return
        if octets:
            self._selector.unregister(pending.connection)
            del self._pending[pending]
            if not self._hand_over(wanted or 0, pending.connection, pending.octets):
                log.debug("worker %d is not there for who looks for it", wanted or 0)
            pending.connection.close()
        else:
            self._end(pending)

    def _end(self, pending: _Pending) -> None:
        self._selector.unregister(pending.connection)
        del self._pending[pending]
        pending.connection.close()
