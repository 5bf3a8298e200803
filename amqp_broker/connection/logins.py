"""Logins: whose password has to be checked, one at a time and not here: scrypt takes tens of milliseconds.

    Handshake -> `wait` -> `take` (end of turn) -> PasswordCheck.run, in a thread of the driver; `checked` -> Handshake

Invariants:
1. A connection that waits is paused: none of its frames is handled.
2. At most one check is handed out, so that guessing keeps one core busy at most and each failure is known before the
   next check begins.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from amqp_broker.auth.passwords import DECOY_HASH, verify_password
from amqp_broker.connection.connection import Connection
from amqp_broker.flow.reason import Reason
from amqp_broker.flow.state import STARTING

if TYPE_CHECKING:
    from amqp_broker.auth.passwords import VerifiedPasswords
    from amqp_broker.flow.pauses import Pauses
    from amqp_broker.metadata.metadata import Metadata
    from amqp_broker.protocol import methods
    from amqp_broker.settings.config import Config
    from amqp_broker.turn.clock import TurnClock

#: An address may fail so often before it has to wait.
_FREE_FAILURES = 10


class PasswordCheck:
    """The password that a connection's start-ok has given for a user. Only `run` may be called in another thread.

    stored: the hash that it is compared with. refusal: why the login is refused without a comparison.
    """

    def __init__(self, connection: Connection, method: methods.ConnectionStartOk, user: str, password: str) -> None:
        self.connection = connection
        self.method = method
        self.user = user
        self.password = password
        self.stored = DECOY_HASH
        self.is_right = False
        self.refusal = ""

    def run(self) -> None:
        """Compare. What cannot be read as a hash is nobody's."""
        try:
            self.is_right = verify_password(self.password, self.stored)
        except ValueError as error:
            self.refusal = f"user '{self.user}': {error}"


class Logins:
    """The logins of a node that wait for a check; `decide` gets each of them when there is nothing left to compute.
    waiting: those for which `take` is wanted."""

    def __init__(
        self,
        config: Config,
        metadata: Metadata,
        passwords: VerifiedPasswords,
        pauses: Pauses,
        clock: TurnClock,
        decide: Callable[[PasswordCheck], None],
    ) -> None:
        self._config = config
        self._metadata = metadata
        self._passwords = passwords
        self._pauses = pauses
        self._clock = clock
        self._decide = decide
        self.waiting: deque[PasswordCheck] = deque()
        self._running: PasswordCheck | None = None
        self._failures: dict[str, tuple[int, int]] = {}

    def wait(self, check: PasswordCheck) -> None:
        """Let it be checked in its turn, unless that takes no time."""
        if not check.password or self._is_known(check):
            self._decide(check)
            return
        self._pauses.pause(check.connection, Reason.LOGIN)
        self.waiting.append(check)

    def take(self) -> list[PasswordCheck]:
        """What is to be run now."""
        while self._running is None and self.waiting:
            check = self.waiting.popleft()
            if check.connection.state != STARTING:
                continue
            # Guessing costs the broker a slow hash each time: an address that has failed has to wait. A password that
            # was right before is let through, so that one bad client locks nobody out.
            host = check.connection.peer.host
            wait = self._backoff(host)
            if self._is_known(check) or wait:
                if not self._is_known(check):
                    check.refusal = f"user '{check.user}': too many refused logins from {host}, wait {wait} ms"
                self._go_on(check)
                continue
            check.stored = self._stored(check) or DECOY_HASH
            self._running = check
            return [check]
        return []

    def checked(self, check: PasswordCheck) -> None:
        """It has run."""
        self._running = None
        if check.is_right:
            self._passwords.remember(check.password, check.stored)
        self._go_on(check)

    def _go_on(self, check: PasswordCheck) -> None:
        connection = check.connection
        if connection.state == STARTING:
            self._pauses.resume(connection, Reason.LOGIN, self._clock.now, lambda: self._decide(check))

    def _stored(self, check: PasswordCheck) -> str:
        user = self._metadata.user(check.user)
        return user.password_hash if user is not None else ""

    def _is_known(self, check: PasswordCheck) -> bool:
        return self._passwords.is_known(check.password, self._stored(check))

    # -- addresses that fail ---------------------------------------------------------------------------------------

    def _backoff(self, host: str) -> int:
        """Milliseconds that this host has to wait before it may try again."""
        count, last = self._failures.get(host, (0, 0))
        config = self._config
        if count < _FREE_FAILURES or not config.login_backoff_ms:
            return 0
        wait = min(config.login_backoff_ms << min(count - _FREE_FAILURES, 16), config.login_backoff_max_ms)
        return max(0, last + wait - self._clock.now)

    def note_failure(self, host: str) -> None:
        """A login from there was refused for its user name or password."""
        count, _ = self._failures.get(host, (0, 0))
        if len(self._failures) > 10_000:
            self._failures.clear()
        self._failures[host] = (count + 1, self._clock.now)

    def note_success(self, host: str) -> None:
        """A login from there has succeeded."""
        self._failures.pop(host, None)
