"""Entries: whether a user and a virtual host may have one more connection: limits (max-connections) of the whole node;
and a user one more channel (max-channels).

Each of a node's workers counts the connections that it has. Where there is a limit, it asks the others before it lets
somebody in, for each user in a virtual host one after the other:

    connection.open -> Handshake -> `wait` -> the others say what they have -> `check` -> in, or refused

Invariants:
1. Who asks counts at the others from before the question until he is in, or refused: of two workers that ask each other
   at once none lets in one too many.
2. Whom nobody keeps out but others who ask is not refused for that, but asks again a moment later, so many times.
3. A connection that waits is paused: none of its frames is handled.

Of channels 1 does not hold: workers that open some at the same moment may let in one too many each.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from amqp_broker.auth.session import SERVICE_USER
from amqp_broker.errors import ConnectionException
from amqp_broker.flow.reason import Reason
from amqp_broker.flow.state import OPEN, STARTING
from amqp_broker.protocol.constants import ReplyCode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from amqp_broker.auth.session import Session
    from amqp_broker.connection.connection import Connection
    from amqp_broker.connection.expected import Expected
    from amqp_broker.flow.clients import Clients
    from amqp_broker.flow.pauses import Pauses
    from amqp_broker.metadata.metadata import Metadata
    from amqp_broker.routing.vhost import VHost
    from amqp_broker.settings.config import Config
    from amqp_broker.turn.clock import TurnClock
    from amqp_broker.turn.task import Awaited
    from queues.timers import Timers

#: Who meets others that ask asks again after so long, milliseconds: worker 0 first; and so many times.
_AGAIN_MS: Final = 10
_MOST_TRIES: Final = 10
#: The limit of a user, or of a virtual host, that is meant here.
_LIMIT: Final = "max-connections"
_CHANNELS: Final = "max-channels"
#: Instead of a virtual host: channels are asked for.
_OF_CHANNELS: Final = ""


class Counts(NamedTuple):
    """What some workers have: connections of a user, and to a virtual host; and how many of each ask to be let in.
    channels: of the user, if they were asked for."""

    of_user: int = 0
    in_vhost: int = 0
    user_asks: int = 0
    vhost_asks: int = 0
    channels: int = 0

    def plus(self, other: Counts) -> Counts:
        """Of both together."""
        return Counts(*(one + two for one, two in zip(self, other, strict=True)))


#: Where there is nobody else.
NOBODY: Final = Counts()


class _Waiting:
    """One that has said connection.open. decide: to be called with what the other workers have."""

    def __init__(self, connection: Connection, decide: Callable[[Counts], None]) -> None:
        self.connection = connection
        self.decide = decide
        self.tries = 0


class Entries:
    """Of one worker."""

    def __init__(
        self,
        config: Config,
        metadata: Metadata,
        vhosts: Mapping[str, VHost],
        clients: Clients,
        expected: Expected,
        pauses: Pauses,
        timers: Timers,
        clock: TurnClock,
    ) -> None:
        self._config = config
        self._metadata = metadata
        self._vhosts = vhosts
        self._clients = clients
        self._expected = expected
        self._pauses = pauses
        self._timers = timers
        self._clock = clock
        self._ask_others: Callable[[str, str], Awaited] | None = None
        self._waiting: dict[tuple[str, str], deque[_Waiting]] = {}
        self._asking: set[tuple[str, str]] = set()

    def ask_with(self, ask: Callable[[str, str], Awaited]) -> None:
        """There are other workers: what they have of a user and a virtual host comes as the result of this."""
        self._ask_others = ask

    def are_shared(self, session: Session, vhost: VHost) -> bool:
        """Whether others have to be asked before this one is let in."""
        if self._ask_others is None or session.user == SERVICE_USER:
            return False
        return max(self._limits(session.user, vhost.name)) >= 0

    def are_channels_shared(self, session: Session) -> bool:
        """Whether others have to be asked before this user has one more."""
        if self._ask_others is None:
            return False
        user = self._metadata.user(session.user)
        return user is not None and user.limits.get(_CHANNELS, -1) >= 0

    def _limits(self, user: str, vhost: str) -> tuple[int, int]:
        """Of the user, and of the virtual host; negative: none."""
        known, record = self._metadata.user(user), self._metadata.vhost(vhost)
        return (
            known.limits.get(_LIMIT, -1) if known is not None else -1,
            record.limits.get(_LIMIT, -1) if record is not None else -1,
        )

    def counts(self, user: str, vhost: str) -> Counts:
        """What this worker has, those that are on their way here included. The node's own connections are nobody's.
        vhost: "" for the user's channels alone."""
        if vhost == _OF_CHANNELS:
            return Counts(channels=self._clients.count_channels(user) if self._clients.of_user(user) else 0)
        found = self._vhosts.get(vhost)
        in_vhost = 0
        if found is not None:
            own = self._clients.of_user(SERVICE_USER)
            in_vhost = found.connections - sum(each.vhost is found for each in own)
        return Counts(
            len(self._clients.of_user(user)) + self._expected.of_user(user),
            in_vhost + self._expected.in_vhost(vhost),
            sum(asking == user for asking, _ in self._asking),
            sum(entered == vhost for _, entered in self._asking),
        )

    def check(self, session: Session, vhost: VHost, others: Counts = NOBODY) -> None:
        """Raises ConnectionException where a limit is reached, with what the other workers have."""
        if session.user == SERVICE_USER:
            return
        of_user, in_vhost = self._limits(session.user, vhost.name)
        if of_user < 0 and in_vhost < 0:
            return
        have = self.counts(session.user, vhost.name)
        if 0 <= in_vhost <= have.in_vhost + others.in_vhost + others.vhost_asks:
            raise ConnectionException(
                ReplyCode.NOT_ALLOWED, f"access to vhost '{vhost.name}' refused for user '{session.user}': "
                f"vhost connection limit ({in_vhost}) is reached"
            )
        if 0 <= of_user <= have.of_user + others.of_user + others.user_asks:
            raise ConnectionException(
                ReplyCode.NOT_ALLOWED,
                f"connection refused for user '{session.user}': user connection limit ({of_user}) is reached",
            )

    # -- those that wait -----------------------------------------------------------------------------------------------

    def wait(self, connection: Connection, session: Session, vhost: VHost, decide: Callable[[Counts], None]) -> None:
        """Have the others asked. Then the connection goes on with `decide`, if it is still there."""
        self._pauses.pause(connection, Reason.LOGIN)
        key = (session.user, vhost.name)
        waiting = self._waiting.setdefault(key, deque())
        waiting.append(_Waiting(connection, decide))
        if len(waiting) == 1:
            self._ask(key)

    def wait_for_channel(self, connection: Connection, session: Session, decide: Callable[[int], None]) -> None:
        """Have the others asked for the channels of a user. Then the connection goes on with `decide`, if it is still
        open."""
        assert self._ask_others is not None  # are_channels_shared

        def hear(others: object) -> None:
            if connection.state == OPEN:
                count = others.channels if isinstance(others, Counts) else 0
                self._pauses.resume(connection, Reason.ANSWER, self._clock.now, lambda: decide(count))

        self._pauses.pause(connection, Reason.ANSWER)
        self._ask_others(session.user, _OF_CHANNELS).when_done(hear)

    def _ask(self, key: tuple[str, str]) -> None:
        assert self._ask_others is not None  # are_shared
        self._asking.add(key)
        self._ask_others(*key).when_done(partial(self._hear, key))

    def _hear(self, key: tuple[str, str], others: object) -> None:
        """The others have answered, as far as they are there; None: that was not found out, for a defect."""
        said = others if isinstance(others, Counts) else NOBODY
        self._asking.discard(key)
        waiting = self._waiting[key]
        while waiting and waiting[0].connection.state != STARTING:
            waiting.popleft()  # it has gone
        if waiting and self._only_asks_are_in_the_way(key, said) and waiting[0].tries < _MOST_TRIES:
            waiting[0].tries += 1
            pause_ms = _AGAIN_MS * (1 + self._config.worker)
            self._timers.at(self._clock.now + pause_ms, lambda now: self._ask(key))
            return
        if waiting:
            first = waiting.popleft()
            self._pauses.resume(first.connection, Reason.LOGIN, self._clock.now, lambda: first.decide(said))
        if waiting:
            self._ask(key)
        else:
            del self._waiting[key]

    def _only_asks_are_in_the_way(self, key: tuple[str, str], others: Counts) -> bool:
        of_user, in_vhost = self._limits(*key)
        have = self.counts(*key)
        entered = (have.of_user + others.of_user, have.in_vhost + others.in_vhost)
        asking = (others.user_asks, others.vhost_asks)
        limits = (of_user, in_vhost)
        is_reached = any(0 <= limit <= count for limit, count in zip(limits, entered, strict=True))
        is_near = any(
            0 <= limit <= count + asks for limit, count, asks in zip(limits, entered, asking, strict=True)
        )
        return is_near and not is_reached
