"""NodeClient: the verbs of one node, asked from worker threads over a few connections.

Invariants:
1. At most `_CONNECTIONS` verbs are in flight: the node is a broker first.
2. A connection on which anything failed is not used again; the next request makes a new one.
3. Whoever asks gets an answer, SystemRequestError, or NodeGone within the deadline.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from amqp_broker.client import Connection
from amqp_broker.client.errors import ClientError
from amqp_broker.protocol.json_values import JsonObject
from amqp_broker.system_client import CLIENT_NAME, SystemClient, SystemRequestError

if TYPE_CHECKING:
    from ssl import SSLContext

_CONNECTIONS: Final = 4
#: How long the node may take for one answer, and how long a worker waits for its turn.
DEADLINE_S: Final = 2.0
#: What is known to take longer: definitions of many objects, the end of a virtual host.
LONG_DEADLINE_S: Final = 120.0


class NodeGone(Exception):
    """The node is not there, or does not answer in time."""


class NodeClient:
    """`url` is that of a user with the tag administrator; tls: for one with amqps://."""

    def __init__(self, url: str, tls: SSLContext | None = None) -> None:
        self.url = url
        self._tls = tls
        self._turns = threading.BoundedSemaphore(_CONNECTIONS)
        self._idle: list[SystemClient] = []
        self._guard = threading.Lock()
        self._is_closed = False

    def request(self, verb: str, *, deadline_s: float = DEADLINE_S, **fields: object) -> JsonObject:
        """The answer's fields. Raises SystemRequestError, NodeGone."""
        with self._turn(deadline_s):
            client = self._take()
            try:
                answer = client.request_within(deadline_s, verb, fields)
            except ClientError as error:
                client.abort()
                raise NodeGone(f"{verb}: {error}") from error
            except BaseException as error:
                # A refusal is an answer; anything else leaves the connection in nobody knows which state.
                if isinstance(error, SystemRequestError) and client.is_open:
                    self._give_back(client)
                else:
                    client.abort()
                raise
            self._give_back(client)
            return answer

    def connect(self) -> Connection:
        """A connection apart, for what waits for as long as the node takes: no other request waits for that. Raises
        ClientError."""
        return Connection.open(self.url, DEADLINE_S, ssl_context=self._tls, name=CLIENT_NAME)

    def greet(self, deadline_s: float) -> None:
        """Whether it lives: on a connection of its own, as what others ask for is no reason why it would not. Raises
        NodeGone."""
        try:
            Connection.greet(self.url, deadline_s, self._tls)
        except ClientError as error:
            if not error.reply_code:  # who refuses lives
                raise NodeGone(str(error)) from error

    @contextmanager
    def _turn(self, deadline_s: float) -> Iterator[None]:
        if not self._turns.acquire(timeout=deadline_s):
            raise NodeGone(f"{_CONNECTIONS} requests wait for the node already, none was answered in {deadline_s} s")
        try:
            yield
        finally:
            self._turns.release()

    def _take(self) -> SystemClient:
        while True:
            with self._guard:
                client = self._idle.pop() if self._idle else None
            if client is None:
                break
            if client.is_alive():
                return client
            client.abort()
        try:
            return SystemClient(self.url, self._tls, timeout=DEADLINE_S)
        except ClientError as error:
            raise NodeGone(str(error)) from error

    def _give_back(self, client: SystemClient) -> None:
        with self._guard:
            if not self._is_closed:
                self._idle.append(client)
                return
        _end(client)

    def close(self) -> None:
        with self._guard:
            self._is_closed = True
            idle, self._idle = self._idle, []
        for client in idle:
            _end(client)


def _end(client: SystemClient) -> None:
    with suppress(ClientError, OSError):
        client.close()
