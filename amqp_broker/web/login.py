"""Login: whose request it is. The node checks name and password; a success is remembered for a moment.

What is remembered is a keyed hash, never the password; failures are not remembered, so that the node counts each.
Invariant: whose password or tags have changed, wherever that was done, is not known any more by what was remembered.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

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


class Account(NamedTuple):
    """A user as the node has him. digest: of what must not change while he is known."""

    user: User
    digest: bytes


def account_of(node: NodeClient, name: str) -> Account | None:
    """None where there is no such user (any more). Raises NodeGone."""
    try:
        found = node.request("object", kind="users", name=name)["object"]
    except SystemRequestError as error:
        if error.code != "not_found":
            raise
        return None
    tags = tuple(found["tags"])
    said = "\0".join((name, str(found.get("password_hash", "")), *sorted(tags)))
    return Account(User(name, tags), hashlib.blake2b(said.encode("utf-8", "surrogateescape"), digest_size=32).digest())


class Logins:
    """clock: seconds that only grow."""

    def __init__(self, node: NodeClient, clock: Callable[[], float] = time.monotonic) -> None:
        self._node = node
        self._clock = clock
        self._key = secrets.token_bytes(32)
        self._known: dict[bytes, tuple[float, bytes]] = {}  # until when, and the digest of the account
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
            until, known = self._known.get(digest, (0.0, b""))
        account = account_of(self._node, name)
        if account is not None and until > self._clock() and hmac.compare_digest(known, account.digest):
            return account.user
        try:
            answer = self._node.request(
                "login", deadline_s=_CHECK_DEADLINE_S, user=name, password=password, host=host
            )
        except SystemRequestError as error:
            raise _refusal(error) from None
        if account is not None:  # as he was before his password was checked
            with self._guard:
                if len(self._known) >= _MOST:
                    self._known.clear()
                self._known[digest] = self._clock() + REMEMBERED_S, account.digest
        return User(answer["name"], tuple(answer["tags"]))


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
