"""PageSessions: who has logged in with the page. The browser keeps a random number in a cookie, never the password.

A session is asked for by name and host: the node says at each request whether the user is still who he was.

Invariants:
1. A session ends when nobody has used it for IDLE_S, at a change of its user's password or tags, and with him.
2. What changes anything has the session's second number in a header: no other site's page can say that.
3. A request comes with the `Host` that the session began with, and with no other `Origin`: a name that somebody lets
   point to this address has no session here.
4. Neither number can be read from memory's table of sessions: it has their hashes.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from amqp_broker.web.errors import ApiError
from amqp_broker.web.login import User, account_of
from amqp_broker.web.node_client import NodeClient

IDLE_S: Final = 1800.0
#: The session that was idle longest makes room for one more.
MOST_SESSIONS: Final = 1000
#: The header with the session's second number. The page sends it always, if empty: then a refusal opens no dialog of
#: the browser's own.
TOKEN_HEADER: Final = "x-csrf-token"
_NUMBER_OCTETS: Final = 32
_READING: Final = ("GET", "HEAD", "OPTIONS")


@dataclass(slots=True)
class PageSession:
    """One login. `as_known`: the digest of the account then; `host`: the `Host` that was asked."""

    user: str
    as_known: bytes
    token_hash: bytes
    host: str
    used_at: float


class PageSessions:
    """clock: seconds that only grow."""

    def __init__(self, node: NodeClient, clock: Callable[[], float] = time.monotonic) -> None:
        self._node = node
        self._clock = clock
        self._sessions: dict[bytes, PageSession] = {}
        self._guard = threading.Lock()

    def begin(self, user: User, headers: Mapping[str, str]) -> str:
        """What the cookie is to say. Raises ApiError, NodeGone."""
        account = account_of(self._node, user.name)
        if account is None:
            raise session_ended()
        number = secrets.token_urlsafe(_NUMBER_OCTETS)
        session = PageSession(
            user.name, account.digest, _hash(token_of(number)), headers.get("host", ""), self._clock()
        )
        with self._guard:
            self._drop_old()
            while len(self._sessions) >= MOST_SESSIONS:
                del self._sessions[min(self._sessions, key=lambda each: self._sessions[each].used_at)]
            self._sessions[_hash(number)] = session
        return number

    def user_of(self, number: str, method: str, headers: Mapping[str, str]) -> User:
        """Whose session it is, with the tags that he has now. Raises ApiError, NodeGone."""
        key = _hash(number)
        with self._guard:
            self._drop_old()
            session = self._sessions.get(key)
        if session is None:
            raise session_ended()
        check_origin(headers)
        if headers.get("host", "") != session.host:
            raise refused(f"this session is one of '{session.host}': log in here, too")
        given = _hash(headers.get(TOKEN_HEADER, ""))
        if method not in _READING and not hmac.compare_digest(given, session.token_hash):
            raise refused(f"a change by a session needs the header {TOKEN_HEADER}, as GET /session says it")
        account = account_of(self._node, session.user)
        if account is None or not hmac.compare_digest(account.digest, session.as_known):
            self._end(key)
            raise session_ended()
        session.used_at = self._clock()
        return account.user

    def end(self, number: str) -> None:
        """Log out."""
        self._end(_hash(number))

    def __len__(self) -> int:
        return len(self._sessions)

    def _end(self, key: bytes) -> None:
        with self._guard:
            self._sessions.pop(key, None)

    def _drop_old(self) -> None:
        latest = self._clock() - IDLE_S
        for key in [key for key, each in self._sessions.items() if each.used_at < latest]:
            del self._sessions[key]


def token_of(number: str) -> str:
    """The second number of a session, which its page may read and other pages may not."""
    return hashlib.blake2b(number.encode(), digest_size=24, person=b"page token").hexdigest()


def check_origin(headers: Mapping[str, str]) -> None:
    """Raises ApiError for what the page of another site has sent."""
    origin, host = headers.get("origin"), headers.get("host", "")
    ours = (host.lower(), headers.get("x-forwarded-host", host).lower())  # a page cannot set what a proxy says
    if origin is not None and urlsplit(origin).netloc.lower() not in ours:
        raise refused(f"the page of '{origin}' may not ask '{host}'")
    if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        raise refused("the page of another site may not ask here")


def session_ended() -> ApiError:
    """Log in again."""
    return ApiError(401, "session_ended", "the session has ended: log in again")


def refused(reason: str) -> ApiError:
    """Who asks is known, but the request is not one that he has made."""
    return ApiError(403, "forbidden", reason)


def _hash(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogateescape"), digest_size=32).digest()
