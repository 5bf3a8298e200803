"""Login: whose request it is. The node checks name and password; a success is remembered for a moment.

What is remembered is a keyed hash, never the password; failures are not remembered, so that the node counts each.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from amqp_broker.system_client import SystemRequestError
from amqp_broker.web.errors import ApiError, login_failed, no_credentials
from amqp_broker.web.node_client import NodeClient

REMEMBERED_S: Final = 30.0
#: So many are remembered at most; the rest asks the node again.
_MOST: Final = 1000
#: Checking a password is slow on purpose.
_CHECK_DEADLINE_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class User:
    """Who asks."""

    name: str
    tags: tuple[str, ...]


class Logins:
    """clock: seconds that only grow."""

    def __init__(self, node: NodeClient, clock: Callable[[], float] = time.monotonic) -> None:
        self._node = node
        self._clock = clock
        self._key = secrets.token_bytes(32)
        self._known: dict[bytes, tuple[float, User]] = {}
        self._guard = threading.Lock()

    def user_of(self, authorization: str | None, host: str) -> User:
        """Raises ApiError; NodeGone."""
        if not authorization:
            raise no_credentials()
        name, password = read_basic(authorization)
        return self.check(name, password, host)

    def check(self, name: str, password: str, host: str) -> User:
        """Raises ApiError; NodeGone."""
        said = f"{name}\0{password}".encode("utf-8", "surrogateescape")
        digest = hashlib.blake2b(said, key=self._key, digest_size=32).digest()
        with self._guard:
            until, user = self._known.get(digest, (0.0, None))
        if user is not None and until > self._clock():
            return user
        try:
            answer = self._node.request(
                "login", deadline_s=_CHECK_DEADLINE_S, user=name, password=password, host=host
            )
        except SystemRequestError as error:
            raise _refusal(error) from None
        user = User(answer["name"], tuple(answer["tags"]))
        with self._guard:
            if len(self._known) >= _MOST:
                self._known.clear()
            self._known[digest] = self._clock() + REMEMBERED_S, user
        return user

    def forget(self) -> None:
        """A user has been changed: who is known is asked for again."""
        with self._guard:
            self._known.clear()


def read_basic(authorization: str) -> tuple[str, str]:
    """Name and password of HTTP Basic. Raises ApiError."""
    scheme, _, encoded = authorization.partition(" ")
    if scheme.lower() != "basic":
        raise login_failed()
    try:
        decoded = base64.b64decode(encoded.strip(), validate=True)
    except (binascii.Error, ValueError):
        raise login_failed() from None
    name, colon, password = decoded.decode("utf-8", "surrogateescape").partition(":")
    if not colon:
        raise login_failed()
    return name, password


def _refusal(error: SystemRequestError) -> ApiError:
    refusal = login_failed()
    wait_ms = error.answer.get("retry_after_ms")
    if isinstance(wait_ms, int):
        refusal.headers["retry-after"] = str(-(-wait_ms // 1000))
    return refusal
