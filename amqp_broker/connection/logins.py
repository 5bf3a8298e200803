"""Logins: whose password has to be checked, one at a time and not here: scrypt takes tens of milliseconds.

    Handshake -> `wait` -> `take` (end of turn) -> PasswordCheck.run, in a thread of the driver; `checked` -> Handshake
    management -> `ask` -> the same -> whoever waits for the AskedLogin

Invariants:
1. A connection that waits is paused: none of its frames is handled.
2. At most one check is handed out, so that guessing keeps one core busy at most and each failure is known before the
   next check begins.
3. What an address has failed at one worker of a node counts at all of them (`tell_with`, `hear`): who guesses is not
   let guess so many times more. But what it has failed elsewhere holds up nobody who has got in from there lately, at
   whichever worker: this one may not know that his password is right.
"""

from __future__ import annotations

import logging
from collections import OrderedDict, deque
from collections.abc import Callable
from ipaddress import ip_address
from typing import TYPE_CHECKING, Protocol

from amqp_broker.audit.actor import VIA_HTTP, Actor
from amqp_broker.auth.passwords import DECOY_HASH, verify_password
from amqp_broker.auth.users import LoginOutcome, login_with_password
from amqp_broker.connection.connection import Connection
from amqp_broker.flow.reason import Reason
from amqp_broker.flow.state import STARTING
from amqp_broker.settings.log_format import about
from amqp_broker.turn.completion import Completion

if TYPE_CHECKING:
    from amqp_broker.audit.audit_log import AuditLog
    from amqp_broker.auth.passwords import VerifiedPasswords
    from amqp_broker.flow.pauses import Pauses
    from amqp_broker.metadata.metadata import Metadata
    from amqp_broker.protocol import methods
    from amqp_broker.settings.config import Config
    from amqp_broker.turn.clock import TurnClock

log = logging.getLogger("amqp_broker.connection")

#: Ways to log in.
AMQP = "amqp091"
HTTP = "http"
#: An address may fail so often before it has to wait.
_FREE_FAILURES = 10
#: Of so many addresses it is known that they have failed.
_MOST_HOSTS = 10_000
#: So long it is known who has got in from where, milliseconds; and of so many.
_KNOWN_MS = 3_600_000
_MOST_KNOWN = 10_000


class PasswordCheck:
    """The password that somebody at `host` has given for a user. Only `run` may be called in another thread.

    stored: the hash that it is compared with. refusal: why the login is refused without a comparison. wait_ms: how long
    the host has to wait before it may try again.
    """

    def __init__(self, user: str, password: str, host: str) -> None:
        self.user = user
        self.password = password
        self.host = host
        self.stored = DECOY_HASH
        self.is_right = False
        self.refusal = ""
        self.wait_ms = 0

    def run(self) -> None:
        """Compare. What cannot be read as a hash is nobody's."""
        try:
            self.is_right = verify_password(self.password, self.stored)
        except ValueError as error:
            self.refusal = f"user '{self.user}': {error}"


    def is_wanted(self) -> bool:
        """Whether somebody still waits for it."""
        return True


class ClientLogin(PasswordCheck):
    """That of a connection's start-ok. acts_as: who the user wants to be from then on, "" for nobody else."""

    def __init__(
        self, connection: Connection, method: methods.ConnectionStartOk, user: str, password: str, acts_as: str = ""
    ) -> None:
        super().__init__(user, password, connection.peer.host)
        self.connection = connection
        self.method = method
        self.acts_as = acts_as

    def is_wanted(self) -> bool:
        """See PasswordCheck."""
        return bool(self.connection.state == STARTING)


class AskedLogin(PasswordCheck, Completion[LoginOutcome | None]):
    """One that is asked about, for somebody who comes another way. result: the outcome, or None where `refusal` says
    more."""

    def __init__(self, user: str, password: str, host: str) -> None:
        PasswordCheck.__init__(self, user, password, host)
        Completion.__init__(self)


class OtherWorkers(Protocol):
    """Those of the node, which hear of logins."""

    def tell_failure(self, host: str) -> None:
        """One from there has failed."""

    def tell_success(self, host: str) -> None:
        """One from there has succeeded, after others had failed."""

    def tell_known(self, user: str, host: str) -> None:
        """This user has got in from there."""


class Logins:
    """The logins of a node that wait for a check; `decide` gets each of a client's when there is nothing left to
    compute. waiting: those for which `take` is wanted. attempts, failures: since the start, by protocol."""

    def __init__(
        self,
        config: Config,
        metadata: Metadata,
        passwords: VerifiedPasswords,
        pauses: Pauses,
        clock: TurnClock,
        decide: Callable[[ClientLogin], None],
        audit: AuditLog,
    ) -> None:
        self._audit = audit
        self._config = config
        self._metadata = metadata
        self._passwords = passwords
        self._pauses = pauses
        self._clock = clock
        self._decide = decide
        self.waiting: deque[PasswordCheck] = deque()
        self._running: PasswordCheck | None = None
        #: By host, how many and when the last one was: here, and at other workers.
        self._failures: dict[str, tuple[int, int]] = {}
        self._told: dict[str, tuple[int, int]] = {}
        #: Who has got in from where, at any worker, and until when that is known; the oldest first.
        self._known: OrderedDict[tuple[str, str], int] = OrderedDict()
        self._others: OtherWorkers | None = None
        self.attempts = {AMQP: 0, HTTP: 0}
        self.failures = {AMQP: 0, HTTP: 0}

    def tell_with(self, others: OtherWorkers) -> None:
        """There are other workers."""
        self._others = others

    def ask(self, user: str, password: str, host: str) -> AskedLogin:
        """Whether a user may come in from there with this password, some other way than AMQP."""
        check = AskedLogin(user, password, host)
        if not password or self._is_known(check):
            self._judge(check)
        else:
            self.waiting.append(check)
        return check

    def wait(self, check: ClientLogin) -> None:
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
            if not check.is_wanted():
                continue
            # Guessing costs the broker a slow hash each time: an address that has failed has to wait. A password that
            # was right before is let through, so that one bad client locks nobody out.
            wait = self.has_to_wait_ms(check.host, check.user)
            if self._is_known(check) or wait:
                if not self._is_known(check):
                    check.wait_ms = wait
                    check.refusal = f"user '{check.user}': too many refused logins from {check.host}, wait {wait} ms"
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
        if isinstance(check, AskedLogin):
            self._judge(check)
        elif isinstance(check, ClientLogin) and check.is_wanted():
            self._pauses.resume(check.connection, Reason.LOGIN, self._clock.now, lambda: self._decide(check))

    def outcome_of(self, check: PasswordCheck, is_loopback: bool) -> LoginOutcome:
        """What becomes of a login for which nothing is left to compute; the address is told off, or forgiven."""
        outcome = login_with_password(
            self._metadata.user(check.user),
            check.password,
            peer_is_loopback=is_loopback,
            loopback_users=self._config.loopback_users,
            # A right one is known by now, unless the user's password was changed meanwhile.
            verify=self._passwords.is_known,
        )
        if outcome is LoginOutcome.WRONG_PASSWORD or outcome is LoginOutcome.UNKNOWN_USER:
            self.record_failure(check.host)
        elif outcome is LoginOutcome.ACCEPTED:
            self._record_known(check.user, check.host)
        return outcome

    def _judge(self, check: AskedLogin) -> None:
        outcome = None if check.refusal else self.outcome_of(check, is_loopback(check.host))
        if outcome is LoginOutcome.ACCEPTED:
            self.record_success(check.host)
        else:
            why = check.refusal or f"user '{check.user}' {outcome.value if outcome is not None else ''}"
            fields = about("login_refused", user=check.user, peer=check.host, via=VIA_HTTP, reason=why)
            log.warning("login over HTTP from %s refused: %s", check.host, why, extra=fields)
            self._audit.refuse(Actor(check.user, "", check.host, VIA_HTTP), "login", why)
        self.count(HTTP, outcome is LoginOutcome.ACCEPTED)
        check.complete(outcome)

    def count(self, protocol: str, is_accepted: bool) -> None:
        """A login was decided on."""
        self.attempts[protocol] += 1
        self.failures[protocol] += not is_accepted

    def _stored(self, check: PasswordCheck) -> str:
        user = self._metadata.user(check.user)
        return user.password_hash if user is not None else ""

    def _is_known(self, check: PasswordCheck) -> bool:
        return self._passwords.is_known(check.password, self._stored(check))

    # -- addresses that fail ---------------------------------------------------------------------------------------

    def has_to_wait_ms(self, host: str, user: str = "") -> int:
        """Milliseconds that this host has to wait before it may try again, as that user."""
        count, last = self._failures.get(host, (0, 0))
        if host in self._told and self._known.get((user, host), 0) <= self._clock.now:
            elsewhere, last_elsewhere = self._told[host]
            count, last = count + elsewhere, max(last, last_elsewhere)
        config = self._config
        if count < _FREE_FAILURES or not config.login_backoff_ms:
            return 0
        wait = min(config.login_backoff_ms << min(count - _FREE_FAILURES, 16), config.login_backoff_max_ms)
        return max(0, last + wait - self._clock.now)

    def record_failure(self, host: str) -> None:
        """A login from there was refused for its user name or password."""
        self._add(self._failures, host, 1)
        if self._others is not None:
            self._others.tell_failure(host)

    def record_success(self, host: str) -> None:
        """A login from there has succeeded."""
        if host in self._failures or host in self._told:
            self._forgive(host)
            if self._others is not None:
                self._others.tell_success(host)

    def _record_known(self, user: str, host: str) -> None:
        """The others are told again when half of the time is over, and where it matters, since one of them may have
        started meanwhile."""
        if self._others is None:
            return
        left_ms = self._known.get((user, host), 0) - self._clock.now
        if left_ms < _KNOWN_MS // 2 or host in self._failures or host in self._told:
            self.hear_known(user, host)
            self._others.tell_known(user, host)

    def hear(self, host: str, failures: int, is_forgiven: bool) -> None:
        """What has become of logins from there at another worker. failures: since it was forgiven, if it was."""
        if is_forgiven:
            self._forgive(host)
        if failures:
            self._add(self._told, host, failures)

    def hear_known(self, user: str, host: str) -> None:
        """The user has got in from there, here or at another worker."""
        self._known[user, host] = self._clock.now + _KNOWN_MS
        self._known.move_to_end((user, host))
        if len(self._known) > _MOST_KNOWN:
            self._known.popitem(last=False)

    def _forgive(self, host: str) -> None:
        self._failures.pop(host, None)
        self._told.pop(host, None)

    def _add(self, failures: dict[str, tuple[int, int]], host: str, number: int) -> None:
        count, _ = failures.get(host, (0, 0))
        if len(failures) > _MOST_HOSTS:
            failures.clear()
        failures[host] = (count + number, self._clock.now)


def is_loopback(host: str) -> bool:
    """Whether an address is this machine's own."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
