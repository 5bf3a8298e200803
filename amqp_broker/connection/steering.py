"""Steering: client connections of a node's worker move to the worker that is home of the queue that they use, or leads
its group.

    worker A                                        worker B
    wish -> held: no frame of it is handled
    it is quiet -> ASK, the state         ->        OK: it expects the socket; or NO: A goes on with it;
                                                    or LATER: it expects as many as it can, and is asked again
    still the same -> `take_leaving`      <- OK
    the driver hands the socket over  ...  `adopt`: the connection goes on, with the frame that A has stopped at
    or cannot: FORGET                     ->

A payload is u8 version (1), u8 what, 8 octets that name the move, and behind ASK the state (ConnectionState).

It knows no sockets. What the state is asked about and what leaves are of the end of a turn, behind all that the turn
has for other nodes.

Invariants:
1. ASK is on the link behind everything that the connection has had A send to B, and nothing of it is under way to
   anybody else: so order of publication is order of each queue, whoever goes on.
2. What B goes on with is what A has at the moment at which the socket leaves it: whatever has changed since ASK ends
   the move, and A goes on.
3. A goes on with what it has held if there is no yes within ANSWER_MS since it was quiet; B forgets a state for which
   no socket has come within SOCKET_MS, and takes no socket without a state.
4. A connection is held for HELD_MS at most until it is quiet, MOST_LEAVING at a time; it moves MOST_MOVES times, and is
   held once in REST_MS.
5. B expects MOST_EXPECTED at a time, and counts them where connections are limited: whoever is between A and B has a
   place, and of the others none has left A.
"""

from __future__ import annotations

import logging
from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from amqp_broker.auth.session import Session
from amqp_broker.channel.channel_state import go_on_with, is_busy, is_unconfirmed, state_of
from amqp_broker.connection.connection import connection_of
from amqp_broker.connection.connection_state import ConnectionState
from amqp_broker.connection.expected import MOST_EXPECTED
from amqp_broker.connection.heartbeat import watch_heartbeat
from amqp_broker.errors import ConnectionException
from amqp_broker.flow.declarer import Declarer
from amqp_broker.flow.peer import Peer
from amqp_broker.flow.reason import Reason
from amqp_broker.flow.state import OPEN
from amqp_broker.flow.steered import Steered
from amqp_broker.links.frame_kinds import FrameKind
from amqp_broker.protocol import constants as c
from amqp_broker.protocol.fields import encode_table
from amqp_broker.protocol.methods import BasicConsume
from amqp_broker.settings.workers import are_beside
from queues.wire.reader import Malformed
from raft.errors import PeerProtocolError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from amqp_broker.channel.channel import Channel
    from amqp_broker.channel.publisher import Publisher
    from amqp_broker.channel.services import ChannelServices
    from amqp_broker.cluster.replication import Replication
    from amqp_broker.connection.connection import Connection
    from amqp_broker.connection.control import Control
    from amqp_broker.connection.handshake import Handshake
    from amqp_broker.flow.client import Client
    from amqp_broker.flow.clients import Clients
    from amqp_broker.flow.pauses import Pauses
    from amqp_broker.links.tenants import Tenants
    from amqp_broker.metadata.metadata import Metadata
    from amqp_broker.protocol.methods import Method
    from amqp_broker.queue_types.groups.groups import QuorumGroups, UnderWay
    from amqp_broker.queue_types.remote.remote_queues import RemoteQueues
    from amqp_broker.resources.alarms import Alarms
    from amqp_broker.routing.vhost import VHost
    from amqp_broker.settings.config import Config
    from amqp_broker.turn.clock import TurnClock
    from queues.timers import Timer, Timers

log = logging.getLogger("amqp_broker.connection")

#: So long a connection is held, for what is under way to be done, milliseconds.
HELD_MS: Final = 20
#: The other worker has so long to say that it goes on with it, milliseconds.
ANSWER_MS: Final = 1000
#: One that expects as many as it can is asked again after so long, milliseconds.
FULL_MS: Final = 5
#: A socket has so long to come after its state, milliseconds.
SOCKET_MS: Final = 5000
#: So often a connection moves.
MOST_MOVES: Final = 3
#: After so long it may be held again, milliseconds.
REST_MS: Final = 10_000
#: So many are held at a time: each turn looks at those that are not quiet.
MOST_LEAVING: Final = 512
#: One that has more channels, or more octets that are read and not handled, stays.
MOST_CHANNELS: Final = 64
MOST_PENDING_BYTES: Final = 1024 * 1024

#: Of the name of a move, octets: nobody draws one again.
TOKEN_BYTES: Final = 8
_VERSION: Final = 1
_ASK, _OK, _NO, _FORGET, _LATER = range(1, 6)
_HEAD_BYTES: Final = 2
_MOVE: Final = int(Reason.MOVE)


class Leaving(NamedTuple):
    """What the driver is to hand over. home: to which worker; token: names the move there."""

    connection: Connection
    home: str
    token: bytes


class _Held:
    """A connection that is held. timer: ends that. state: what the other worker was asked about, with `token`.
    under_way: to groups when it was held, its own and that of others, and has not arrived; None before it is known."""

    def __init__(self, connection: Connection, home: str) -> None:
        self.connection = connection
        self.home = home
        self.token = b""
        self.state: ConnectionState | None = None
        self.under_way: UnderWay | None = None
        self.timer: Timer | None = None


class SteeringServices(NamedTuple):
    """What it uses of a node. new_connection(peer): one that nobody knows yet. is_ready(): whether the node serves
    clients."""

    config: Config
    replication: Replication
    remote_queues: RemoteQueues
    groups: QuorumGroups
    tenants: Tenants
    clients: Clients
    pauses: Pauses
    alarms: Alarms
    metadata: Metadata
    vhosts: Mapping[str, VHost]
    timers: Timers
    clock: TurnClock
    random_bytes: Callable[[int], bytes]
    channels: ChannelServices
    publisher: Publisher
    control: Control
    handshake: Handshake
    new_connection: Callable[[Peer], Connection]
    is_ready: Callable[[], bool]


class Steering:
    """leaving: those that are held; the same dictionary for good. is_on: connections move."""

    def __init__(self, services: SteeringServices) -> None:
        self._services = services
        self._config = config = services.config
        self._pauses, self._timers, self._clock = services.pauses, services.timers, services.clock
        self._linked = services.tenants.linked
        self.is_on = config.has_workers and config.steering == "auto"
        self._are_groups_spread = services.groups.places.is_spread
        self.leaving: dict[Connection, _Held] = {}
        self._unasked: dict[_Held, None] = {}  # not known to be quiet
        self._waiting: dict[str, dict[_Held, None]] = {}  # quiet, by their homes, which have no room for them yet
        self._full: set[str] = set()  # who has said so a moment ago
        self._asked: dict[bytes, _Held] = {}
        self._due: list[_Held] = []  # the other worker expects their sockets
        self._expected = services.handshake.expected
        self._send = services.tenants.register(FrameKind.CONNECTION_MOVE, self.receive)

    # -- who is to move ------------------------------------------------------------------------------------------------

    def opened(self, connection: Connection, moves: int = 0, next_at: int = 0) -> None:
        """A connection is open: whether it may move is seen to. TLS has a state of its own, in which nobody can look,
        and who administers stays where he is."""
        session = connection.session
        is_movable = self.is_on and not connection.peer.is_tls and session is not None and not session.is_tool
        if is_movable and moves < MOST_MOVES:
            connection.steer(Steered(moves, next_at, self.wish))

    def goes_first(self, channel: Channel, method: Method) -> bool:
        """A method of a connection that may move. Whether it moves first, and the method is handled where it goes."""
        if method.index not in (c.BASIC_CONSUME, c.BASIC_GET):
            return False
        connection = channel.connection
        if isinstance(method, BasicConsume):
            name = method.queue or channel.last_queue
            known = channel.vhost.known_queue(name) if name else None
            home = known.home if known is not None else ""
            queue = channel.vhost.find_queue(name) if name and not home and self._are_groups_spread else None
            if queue is not None:
                home = queue.described_at()  # who leads its group; were all at worker 0, it would have all the work
            if home and self.wish(connection, home):
                return True
        if connection.steered is not None:
            connection.steered.consumes()
        return False

    def wish(self, client: Client, home: str) -> bool:
        """A connection would be better off at the home of what it uses. Returns whether it is held for that."""
        connection = connection_of(client)
        steered, now = connection.steered, self._clock.now
        if steered is None or steered.moves >= MOST_MOVES or now < steered.next_at:
            return False
        if not are_beside(home, self._services.replication.own_node) or home not in self._linked:
            return False
        if len(self.leaving) >= MOST_LEAVING or connection.paused_for or self._pauses.is_shut:
            return False
        if self._is_busy(connection):
            return False
        steered.put_off(now + REST_MS)
        self._pauses.pause(connection, _MOVE)
        held = self.leaving[connection] = _Held(connection, home)
        self._unasked[held] = None
        self._end_after(held, HELD_MS)
        return True

    def _is_busy(self, connection: Connection) -> bool:
        """Whether it has, or does, something with which it cannot move, and which will not be over soon."""
        if connection.state != OPEN or connection.steered is None or connection.declarer is None:
            return True
        vhost = connection.vhost
        if vhost is None or vhost.is_deleted:  # another one of its name may be there
            return True
        if len(connection.channels) > MOST_CHANNELS or len(connection.pending) > MOST_PENDING_BYTES:
            return True
        if connection.partial_left or connection.late_cancels is not None or connection.declarer.exclusive_queues:
            return True
        return self._services.alarms.has_told(connection) or any(map(is_busy, connection.channels.values()))

    def _is_quiet(self, held: _Held) -> bool:
        """Whether nothing is under way that it has asked for."""
        connection, services = held.connection, self._services
        if connection.paused_for != _MOVE or not connection.is_writable or connection.is_starved or connection.is_held:
            return False
        if services.publisher.is_telling or any(map(is_unconfirmed, connection.channels.values())):
            return False
        steered, links = connection.steered, services.remote_queues.links
        target = links.get(held.home)
        if target is not None and target.has_unsent:
            return False
        used = links.values() if steered is None or steered.has_consumed else connection.homes
        if any(link is not target and not link.is_idle for link in used):
            return False
        if steered is None or steered.has_consumed:
            return not services.groups.has_unapplied()
        if connection not in self._pauses.publishers:
            return True
        # It says nothing while it is held: what others publish meanwhile does not keep it.
        before = held.under_way
        groups = services.groups
        held.under_way = groups.under_way() if before is None else groups.leave_what_is_applied(before)
        return not held.under_way

    # -- this worker lets go -------------------------------------------------------------------------------------------

    def work(self, now: int) -> None:
        """Everything that this turn has for other workers is on its way: of those that are quiet now the other worker
        is told everything."""
        for held in list(self._unasked):
            if self._is_busy(held.connection):
                self._keep_soon(held)
            elif self._is_quiet(held):
                del self._unasked[held]
                self._wait(held)
                self._end_after(held, ANSWER_MS)
        if self._waiting:
            asked = Counter(held.home for held in self._asked.values())
            for home in list(self._waiting):
                self._ask_some(home, MOST_EXPECTED - asked[home])

    def _wait(self, held: _Held) -> None:
        self._waiting.setdefault(held.home, {})[held] = None

    def _ask_some(self, home: str, room: int) -> None:
        """As many as there is room for at a home."""
        waiting = self._waiting[home]
        for held in list(islice(waiting, 0 if home in self._full else room)):
            del waiting[held]
            if self._is_busy(held.connection) or not self._is_quiet(held):
                self._keep_soon(held)
            else:
                self._ask(held)
        if not waiting:
            del self._waiting[home]

    def _ask(self, held: _Held) -> None:
        held.state = state = self._state_of(held.connection)
        held.token = token = self._services.random_bytes(TOKEN_BYTES)
        self._asked[token] = held
        if not self._send(held.home, _frame(_ASK, held.token, state.encode())):
            self._keep_soon(held)

    def _state_of(self, connection: Connection) -> ConnectionState:
        peer, session, steered = connection.peer, connection.session, connection.steered
        assert session is not None  # it is open
        assert steered is not None  # it may move
        return ConnectionState(
            peer.host, peer.local_host, session.user, session.acting, session.mechanism, session.vhost,
            encode_table(session.client_properties), connection.pending,
            tuple([state_of(channel) for channel in connection.channels.values()]),
            self._services.replication.last_applied, steered.moves + 1, peer.port, peer.local_port,
            connection.frame_max, connection.payload_max, session.channel_max, session.heartbeat_ms,
            connection.received_bytes, connection.sent_bytes + connection.output.size(), connection.connected_at,
            peer.is_loopback,
        )  # fmt: skip

    def take_leaving(self) -> list[Leaving]:
        """Those whose sockets are to go now. `moved` or `kept` follows for each, before anything else happens."""
        found = []
        due, self._due = self._due, []
        for held in due:
            if self._asked.get(held.token) is not held:
                continue  # it goes on here already
            if self._is_as_said(held):
                found.append(Leaving(held.connection, held.home, held.token))
            else:
                self._keep_soon(held)
        return found

    def _is_as_said(self, held: _Held) -> bool:
        connection, said = held.connection, held.state
        if said is None or self._is_busy(connection) or connection.paused_for != _MOVE:
            return False
        return self._state_of(connection)._replace(applied=said.applied) == said

    def moved(self, connection: Connection) -> None:
        """Its socket is the other worker's: here it is at its end."""
        held = self._forget(connection)
        home = held.home if held is not None else ""
        self._services.control.leave(connection, home)

    def kept(self, connection: Connection, now: int) -> None:
        """Its socket could not be handed over."""
        held = self.leaving.get(connection)
        if held is not None:
            self._keep(held, now)

    def _keep_soon(self, held: _Held) -> None:
        """It goes on here, in the next turn."""
        self._end_after(held, 0)

    def _end_after(self, held: _Held, milliseconds: int) -> None:
        if held.timer is not None:
            held.timer.cancel()
        held.timer = self._timers.at(self._clock.now + milliseconds, lambda now: self._keep(held, now))

    def _keep(self, held: _Held, now: int) -> None:
        """It goes on here."""
        connection = held.connection
        if self._forget(connection) is None:
            return
        if held.state is not None:
            self._send(held.home, _frame(_FORGET, held.token))
        self._pauses.resume(connection, _MOVE, now)

    def _forget(self, connection: Connection) -> _Held | None:
        held = self.leaving.pop(connection, None)
        if held is None:
            return None
        self._unasked.pop(held, None)
        self._waiting.get(held.home, {}).pop(held, None)
        self._asked.pop(held.token, None)
        if held.timer is not None:
            held.timer.cancel()
        return held

    def peer_disconnected(self, name: str, now: int) -> None:
        """The link to another worker is lost. A socket may still be on its way from there."""
        for held in [each for each in self.leaving.values() if each.home == name]:
            self._keep(held, now)

    # -- this worker goes on -------------------------------------------------------------------------------------------

    def _expect(self, name: str, token: bytes, octets: bytes) -> None:
        state = ConnectionState.decode(octets)
        why = self._why_not(state)
        if why:
            log.debug("a connection of %s:%d does not come from %s: %s", state.host, state.port, name, why)
            self._send(name, _frame(_NO, token))
            return
        if not self._expected.has_room:
            self._send(name, _frame(_LATER, token))
            return
        self._expected.take(token)
        give_up_at = self._clock.now + SOCKET_MS
        self._expected.add(token, state, self._timers.at(give_up_at, lambda now: self._drop_expected(token)))
        self._send(name, _frame(_OK, token))

    def _why_not(self, state: ConnectionState) -> str:
        """Why this worker does not go on with a connection, "" if it does."""
        services = self._services
        vhost = services.vhosts.get(state.vhost)
        if not self.is_on or not services.is_ready() or self._config.worker >= self._config.workers:
            return "this worker takes nobody"
        if state.applied > services.replication.last_applied:
            return "it knows metadata that have not come here yet"
        if vhost is None or services.metadata.user(state.user) is None:
            return "its user or its virtual host is not there any more"
        try:
            services.handshake.check_entry(self._session_of(state), vhost)
        except ConnectionException as error:
            return error.explanation
        return ""

    def _session_of(self, state: ConnectionState) -> Session:
        session = Session(
            self._services.metadata, state.user, state.client_properties(), state.acting, state.mechanism
        )
        session.enter(state.vhost)
        session.tune(state.channel_max, state.heartbeat_ms)
        return session

    def _drop_expected(self, token: bytes) -> None:
        self._expected.take(token)

    def adopt(self, token: bytes, now: int) -> tuple[Connection, bytes] | None:
        """The socket of a move has come. Returns the connection, and what it has to handle first; None where nobody
        knows of it any more."""
        state = self._expected.take(token)
        if state is None:
            return None
        services = self._services
        vhost = services.vhosts.get(state.vhost)
        if vhost is None or services.metadata.user(state.user) is None:
            return None
        peer = Peer(state.host, state.port, state.local_host, state.local_port, is_loopback=state.is_loopback)
        connection = services.new_connection(peer)
        session = self._session_of(state)
        vhost.enter(session.user)
        declarer = Declarer(vhost, session, peer)
        connection.go_on_with(state, session, declarer)
        services.clients.arrive(connection, session.user)
        for each in state.channels:
            connection.channels[each.channel_id] = go_on_with(connection, declarer, each, services.channels)
        watch_heartbeat(connection, session.heartbeat_ms, self._timers, now)
        self.opened(connection, state.moves, now + REST_MS)
        services.control.log_arrival(connection)
        return connection, state.pending

    # -- the link ------------------------------------------------------------------------------------------------------

    def receive(self, name: str, payload: bytes, now: int) -> None:
        """A frame of another worker. Raises PeerProtocolError."""
        if len(payload) < _HEAD_BYTES + TOKEN_BYTES or payload[0] != _VERSION:
            version = payload[:1].hex()
            raise PeerProtocolError(f"{name} moves a connection in version {version}, and this worker reads {_VERSION}")
        what, token = payload[1], payload[_HEAD_BYTES : _HEAD_BYTES + TOKEN_BYTES]
        if what == _ASK:
            try:
                self._expect(name, token, payload[_HEAD_BYTES + TOKEN_BYTES :])
            except Malformed as error:
                raise PeerProtocolError(f"{name}: {error}") from error
        elif what == _FORGET:
            self._drop_expected(token)
        elif what in (_OK, _NO, _LATER):
            self._answered(name, token, what, now)
        else:
            raise PeerProtocolError(f"{name} says {what} of the move of a connection, which means nothing")

    def _answered(self, name: str, token: bytes, what: int, now: int) -> None:
        held = self._asked.get(token)
        if held is None or held.home != name:
            self._send(name, _frame(_FORGET, token))
        elif what == _OK:
            self._due.append(held)
        else:
            held.state = None  # there is nothing to forget
            if what == _NO:
                self._keep(held, now)
                return
            del self._asked[token]
            self._wait(held)
            self._full.add(name)
            self._timers.at(now + FULL_MS, lambda now: self._full.discard(name))


def _frame(what: int, token: bytes, octets: bytes = b"") -> bytes:
    return bytes([_VERSION, what]) + token + octets
