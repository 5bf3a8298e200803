"""Entries: whether a user and a virtual host may have one more connection: limits (max-connections) of the whole node;
and a user one more channel (max-channels).

Each of a node's workers counts the connections that it has. Where there is a limit, it asks the others before it lets
somebody in:

    connection.open -> Handshake -> `wait` -> the others say what they have -> `check` -> in, or refused

Each question is for all that wait for that by then, who are let in or refused one after the other on what it brings;
channels of a user likewise.

Invariants:
1. Who asks counts at the others from before the question until he is in, or refused: of two workers that ask each other
   at once none lets in one too many.
2. Whom nobody keeps out but others who ask, or who are on their way from one worker to another and may be counted at
   both, is not refused for that, but asks again a moment later, so many times.
3. A connection that waits is paused: none of its frames is handled.
4. For each user in a virtual host, and for the channels of each user, at most one question is open.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from amqp_broker.auth.session import SERVICE_USER
from amqp_broker.errors import ConnectionException
from amqp_broker.flow.reason import Reason
from amqp_broker.flow.state import OPEN, STARTING
from amqp_broker.protocol.constants import ReplyCode
from amqp_broker.turn.task import Task

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
    from amqp_broker.turn.task import Awaited, Steps
    from queues.background import Jobs
    from queues.timers import Timers

#: Who meets others that ask asks again after so long, milliseconds; worker 0 first, so many workers one after the
#: other; and so many times.
_AGAIN_MS: Final = 10
_PAUSES: Final = 4
_MOST_TRIES: Final = 10
#: So many are let in or refused in one slice.
_SLICE: Final = 16
#: So often those that are asked for are halved.
_MOST_HALVED: Final = 10
#: The limit of a user, or of a virtual host, that is meant here.
_LIMIT: Final = "max-connections"
_CHANNELS: Final = "max-channels"
#: Instead of a virtual host: channels are asked for.
_OF_CHANNELS: Final = ""


class Counts(NamedTuple):
    """What some workers have: connections of a user, and to a virtual host; how many of each ask to be let in; and how
    many of each are on their way to one of these workers, and may be counted where they come from as well. channels,
    channel_asks: the same of the user's channels, if they were asked for."""

    of_user: int = 0
    in_vhost: int = 0
    user_asks: int = 0
    vhost_asks: int = 0
    user_expected: int = 0
    vhost_expected: int = 0
    channels: int = 0
    channel_asks: int = 0

    def plus(self, other: Counts) -> Counts:
        """Of both together."""
        return Counts(*(one + two for one, two in zip(self, other, strict=True)))


#: Where there is nobody else.
NOBODY: Final = Counts()


class _Waiting:
    """One that has said connection.open or channel.open. decide: to be called with what the other workers have. state:
    its connection's, while it waits. reason: why that is paused. tries: how often it has asked in vain."""

    def __init__(self, connection: Connection, decide: Callable[[Counts], None], state: int, reason: Reason) -> None:
        self.connection = connection
        self.decide = decide
        self.state = state
        self.reason = reason
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
        self._background: Jobs | None = None
        self._waiting: dict[tuple[str, str], deque[_Waiting]] = {}
        #: How often those that are asked for are halved.
        self._halved: dict[tuple[str, str], int] = {}
        #: How many ask and are not decided on: of a user in a virtual host; of a user; in a virtual host; for channels.
        self._asking: Counter[tuple[str, str]] = Counter()
        self._user_asks: Counter[str] = Counter()
        self._vhost_asks: Counter[str] = Counter()
        self._channel_asks: Counter[str] = Counter()

    def ask_with(self, ask: Callable[[str, str], Awaited], background: Jobs) -> None:
        """There are other workers: what they have of a user and a virtual host comes as the result of this."""
        self._ask_others = ask
        self._background = background

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
        """What this worker has; those that are on their way here by themselves. The node's own connections are
        nobody's. vhost: "" for the user's channels alone."""
        if vhost == _OF_CHANNELS:
            channels = self._clients.count_channels(user) if self._clients.of_user(user) else 0
            return Counts(channels=channels, channel_asks=self._channel_asks[user])
        found = self._vhosts.get(vhost)
        in_vhost = 0
        if found is not None:
            own = self._clients.of_user(SERVICE_USER)
            in_vhost = found.connections - sum(each.vhost is found for each in own)
        return Counts(
            len(self._clients.of_user(user)),
            in_vhost,
            self._user_asks[user],
            self._vhost_asks[vhost],
            self._expected.of_user(user),
            self._expected.in_vhost(vhost),
        )

    def check(self, session: Session, vhost: VHost, others: Counts = NOBODY) -> None:
        """Raises ConnectionException where a limit is reached, with what the other workers have."""
        if session.user == SERVICE_USER:
            return
        of_user, in_vhost = self._limits(session.user, vhost.name)
        if of_user < 0 and in_vhost < 0:
            return
        user_sums, vhost_sums = self._sums(session.user, vhost.name, others)
        if 0 <= in_vhost <= sum(vhost_sums):
            raise ConnectionException(
                ReplyCode.NOT_ALLOWED, f"access to vhost '{vhost.name}' refused for user '{session.user}': "
                f"vhost connection limit ({in_vhost}) is reached"
            )
        if 0 <= of_user <= sum(user_sums):
            raise ConnectionException(
                ReplyCode.NOT_ALLOWED,
                f"connection refused for user '{session.user}': user connection limit ({of_user}) is reached",
            )

    def _sums(self, user: str, vhost: str, others: Counts) -> tuple[tuple[int, int], tuple[int, int]]:
        """Of the user, and in the virtual host: how many the whole node has, and how many more it may have."""
        have = self.counts(user, vhost)
        return (
            (have.of_user + others.of_user, others.user_asks + have.user_expected + others.user_expected),
            (have.in_vhost + others.in_vhost, others.vhost_asks + have.vhost_expected + others.vhost_expected),
        )

    # -- those that wait -----------------------------------------------------------------------------------------------

    def wait(self, connection: Connection, session: Session, vhost: VHost, decide: Callable[[Counts], None]) -> None:
        """Have the others asked. Then the connection goes on with `decide`, if it is still there."""
        self._join((session.user, vhost.name), _Waiting(connection, decide, STARTING, Reason.LOGIN))

    def wait_for_channel(self, connection: Connection, session: Session, decide: Callable[[int], None]) -> None:
        """Have the others asked for the channels of a user. Then the connection goes on with `decide`, if it is still
        open."""

        def hear(others: Counts) -> None:
            decide(others.channels + others.channel_asks)

        self._join((session.user, _OF_CHANNELS), _Waiting(connection, hear, OPEN, Reason.ANSWER))

    def _join(self, key: tuple[str, str], one: _Waiting) -> None:
        self._pauses.pause(one.connection, one.reason)
        waiting = self._waiting.get(key)
        if waiting is None:
            self._waiting[key] = deque((one,))
            self._ask(key)
        else:
            waiting.append(one)

    def _ask(self, key: tuple[str, str]) -> None:
        """For all that wait now. Crowds that meet would keep each other out until all have tried often enough: each
        time that happens it is asked for half as many of them, and for twice as many when it does not."""
        assert self._ask_others is not None  # are_shared, are_channels_shared
        waiting = len(self._waiting[key])
        count = max(1, waiting >> self._halved.get(key, 0))
        self._count_asks(key, count)
        self._ask_others(*key).when_done(partial(self._hear, key, count, waiting))

    def _count_asks(self, key: tuple[str, str], change: int) -> None:
        user, vhost = key
        if vhost == _OF_CHANNELS:
            changed: list[tuple[Counter[str], str]] = [(self._channel_asks, user)]
        else:
            changed = [(self._user_asks, user), (self._vhost_asks, vhost)]
        self._asking[key] += change
        if not self._asking[key]:
            del self._asking[key]
        for asks, name in changed:
            asks[name] += change
            if not asks[name]:
                del asks[name]

    def _hear(self, key: tuple[str, str], count: int, waited: int, others: object) -> None:
        """The others have answered, as far as they are there; None: that was not found out, for a defect."""
        assert self._background is not None  # with _ask_others
        again: list[_Waiting] = []
        said = others if isinstance(others, Counts) else NOBODY
        steps = self._decide(key, count, waited, said, again)
        Task(self._background, steps).when_done(partial(self._go_on, key, again))

    def _decide(
        self, key: tuple[str, str], count: int, waited: int, others: Counts, again: list[_Waiting]
    ) -> Steps:
        """On those that were asked for, one after the other: whoever is let in counts here for the next. Others let in
        nobody meanwhile in whose place one of these may come: these count there as long as they are not decided on.
        Where there is no room, or none was found often enough, whoever else waited for it need not be asked for. again:
        gets those that ask once more."""
        waiting = self._waiting[key]
        is_over = False
        for number in range(waited):
            if number and number % _SLICE == 0:
                yield None
            is_full, may_be_full = self._fullness(key, others)
            if number < count:
                self._count_asks(key, -1)
            elif not is_full and not (may_be_full and is_over):
                return
            one = waiting.popleft()
            if one.connection.state != one.state:
                continue  # it has gone
            if may_be_full and not is_full and one.tries < _MOST_TRIES and not is_over:
                one.tries += 1
                again.append(one)
            else:
                is_over = may_be_full
                self._pauses.resume(one.connection, one.reason, self._clock.now, partial(one.decide, others))

    def _go_on(self, key: tuple[str, str], again: list[_Waiting], result: object) -> None:
        """All are decided on, but for those that ask once more, and, after a defect, those behind it."""
        self._count_asks(key, -self._asking[key])
        waiting = self._waiting[key]
        waiting.extendleft(reversed(again))
        halved = min(self._halved.pop(key, 0) + (1 if again else -1), _MOST_HALVED)
        if waiting and halved > 0:
            self._halved[key] = halved
        if not waiting:
            del self._waiting[key]
        elif again:
            # Longer each time, and unlike at other workers, so that in the end one asks while no other does.
            pause_ms = _AGAIN_MS * (1 + halved) * (1 + self._config.worker % _PAUSES)
            self._timers.at(self._clock.now + pause_ms, lambda now: self._ask(key))
        else:
            self._ask(key)

    def _fullness(self, key: tuple[str, str], others: Counts) -> tuple[bool, bool]:
        """Whether a limit is reached; and whether it is with those who ask elsewhere, or are on their way."""
        user, vhost = key
        sums: tuple[tuple[int, int], ...]
        if vhost == _OF_CHANNELS:
            known = self._metadata.user(user)
            limits: tuple[int, ...] = (known.limits.get(_CHANNELS, -1) if known is not None else -1,)
            sums = ((self.counts(*key).channels + others.channels, others.channel_asks),)
        else:
            limits = self._limits(user, vhost)
            sums = self._sums(user, vhost, others)
        return (
            any(0 <= limit <= count for limit, (count, _) in zip(limits, sums, strict=True)),
            any(0 <= limit <= count + more for limit, (count, more) in zip(limits, sums, strict=True)),
        )
