"""UserSessions: AMQP connections of users, for what they may do over AMQP anyway: declare, bind, purge, publish, get.

The connection logs in with the name and password of the management process and the authorization identity of the user
(RFC 4616), so that permissions, limits and texts of refusal are the broker's own for that user. For which host it acts
is among its properties, for the broker's audit log.

Invariants:
1. A connection is one worker's at a time, and a channel serves one request.
2. What was idle for long is closed; what failed is not used again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from amqp_broker.client.channel import Channel
from amqp_broker.client.connection import Connection
from amqp_broker.client.errors import ChannelClosed, ClientError, ClientTimeout, ConnectionClosed
from amqp_broker.web.node_client import DEADLINE_S

if TYPE_CHECKING:
    from ssl import SSLContext

IDLE_S: Final = 30.0
#: So many idle ones are kept, of all users together.
_MOST_IDLE: Final = 32
#: A declaration may wait for a majority, a purge for the disk.
CALL_DEADLINE_S: Final = 10.0
#: What the broker reads (amqp_broker/audit/actor.py).
_HOST_PROPERTY: Final = "acts_for_host"


class Key(NamedTuple):
    """host: where the user asks from."""

    user: str
    vhost: str
    host: str


class UserSessions:
    """clock: seconds that only grow. tls: for a URL with amqps://."""

    def __init__(
        self, url: str, clock: Callable[[], float] = time.monotonic, tls: SSLContext | None = None
    ) -> None:
        self._url = url
        self._tls = tls
        self._clock = clock
        self._idle: list[tuple[float, Key, Connection]] = []
        self._guard = threading.Lock()
        self._is_closed = False

    @contextmanager
    def channel(self, user: str, vhost: str, host: str) -> Iterator[Channel]:
        """A new channel of a user in a virtual host; host: where he asks from. Raises ClientError."""
        key = Key(user, vhost, host)
        connection = self._take(key)
        is_usable = False
        try:
            channel = connection.channel()
            try:
                yield channel
                channel.close()
                is_usable = connection.is_open
            except (ConnectionClosed, ClientTimeout):
                raise
            except ChannelClosed:
                is_usable = connection.is_open
                raise
            except ClientError:
                raise
            except Exception:
                channel.close()
                is_usable = connection.is_open
                raise
        finally:
            if is_usable:
                self._give_back(key, connection)
            else:
                connection.abort()

    def _take(self, key: Key) -> Connection:
        while True:
            with self._guard:
                found = next((each for each in reversed(self._idle) if each[1] == key), None)
                if found is not None:
                    self._idle.remove(found)
            if found is None:
                break
            connection = found[2]
            if _is_alive(connection):
                return connection
            connection.abort()
        return self.open(key)

    def open(self, key: Key) -> Connection:
        """A new connection, which is the caller's. Raises ClientError."""
        connection = Connection.open(
            self._url, DEADLINE_S, ssl_context=self._tls, name="management", authorization_identity=key.user,
            virtual_host=key.vhost, client_properties={_HOST_PROPERTY: key.host},
        )  # fmt: skip
        connection.wait_at_most(CALL_DEADLINE_S)
        return connection

    def _give_back(self, key: Key, connection: Connection) -> None:
        with self._guard:
            if not self._is_closed:
                self._idle.append((self._clock(), key, connection))
                surplus = self._idle[:-_MOST_IDLE]
                del self._idle[:-_MOST_IDLE]
            else:
                surplus = [(0.0, key, connection)]
        for _, _, old in surplus:
            _end(old)

    def close_idle(self) -> None:
        """Close what nobody has used for a while."""
        latest = self._clock() - IDLE_S
        with self._guard:
            old = [each for each in self._idle if each[0] < latest]
            self._idle = [each for each in self._idle if each[0] >= latest]
        for _, _, connection in old:
            _end(connection)

    def end_of(self, user: str) -> None:
        """A user has been changed or is gone: his connections end."""
        with self._guard:
            old = [each for each in self._idle if each[1].user == user]
            self._idle = [each for each in self._idle if each[1].user != user]
        for _, _, connection in old:
            _end(connection)

    def close(self) -> None:
        with self._guard:
            self._is_closed = True
            idle, self._idle = self._idle, []
        for _, _, connection in idle:
            _end(connection)


def _is_alive(connection: Connection) -> bool:
    try:
        connection.poll()
    except ClientError:
        return False
    return connection.is_open


def _end(connection: Connection) -> None:
    with suppress(ClientError, OSError):
        connection.wait_at_most(DEADLINE_S)
        connection.close()
