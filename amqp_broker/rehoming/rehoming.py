"""Rehoming: the homes of classic queues change. What all nodes have to do with that, in one place.

    Departure   at the old home: the steps of a move
    Arrivals    at the new home: what is brought there
    holds       at all nodes that are linked: the queue is not used for a moment

The metadata decide: a queue lives where they say. Before that everything is at the old home, and behind it at the new
one, whatever is killed when: docs/decisions/0051-queues-move.md.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from amqp_broker.links.frame_kinds import FrameKind
from amqp_broker.links.levels import REHOMING
from amqp_broker.queue_types.register import QUEUE_TYPES, type_named
from amqp_broker.rehoming import frames
from amqp_broker.rehoming.arrival import Arrivals
from amqp_broker.rehoming.departure import Departure
from amqp_broker.rehoming.frames import Frame, fields, frame, numbers
from amqp_broker.settings.workers import node_of_worker, worker_number
from amqp_broker.turn.completion import Completion

if TYPE_CHECKING:
    from amqp_broker.cluster.replication import Replication
    from amqp_broker.flow.pauses import Pauses
    from amqp_broker.links.tenants import Tenants
    from amqp_broker.metadata.entities import QueueRecord
    from amqp_broker.queue_types.contract.held_queue import HeldQueue
    from amqp_broker.queue_types.remote.remote_queues import RemoteQueues
    from amqp_broker.vhosts.broker import Broker

log = logging.getLogger("amqp_broker.cluster")

#: Of the number of a move, octets that are drawn.
_DRAWN: Final = 8
#: So many queues leave a node at the same time.
MOST_LEAVING: Final = 1
#: So often who has asked hears how far it is, milliseconds.
_TELL_MS: Final = 500


class Progress(NamedTuple):
    """Of a move that was asked for. error: why it did not happen. messages, octets: that were brought."""

    is_over: bool
    error: str
    messages: int
    octets: int


class Heard(NamedTuple):
    """What was said last of a move, and what is said next; None: nothing more."""

    progress: Progress
    more: Completion[Heard] | None


class Rehoming:
    """See the module's docstring. send: a frame to another node. is_taking(): why this node takes no queues, "" if it
    does. arriving, unsynced: while both are empty, nobody here has to hear of a sync."""

    def __init__(
        self, broker: Broker, replication: Replication, remote_queues: RemoteQueues, tenants: Tenants,
        is_ready: Callable[[], bool], is_drained: Callable[[], bool], is_alarmed: Callable[[], bool],
        pauses: Pauses,
    ) -> None:  # fmt: skip
        self.broker = broker
        self._held_queues, self._metadata = broker.held, broker.metadata
        self._clock, self._timers = broker.clock, broker.timers
        self.tenants = tenants
        self.home = remote_queues.home
        self._replication = replication
        self._placement = broker.placement
        self._is_ready, self._is_drained, self._is_alarmed = is_ready, is_drained, is_alarmed
        self.send = tenants.register(FrameKind.QUEUE_MOVE, self.receive)
        self.departures: dict[int, Departure] = {}
        self.arrivals = Arrivals(broker, self.send, self._why_not)
        self.arriving, self.unsynced = self.arrivals.by_move, broker.held.unsynced
        self._held: dict[int, tuple[str, str, HeldQueue]] = {}  # by move: the home, the virtual host
        self.asked: dict[int, tuple[str, Completion[Heard]]] = {}
        self._held_queues.pause_with(pauses)
        remote_queues.move_with(self, broker.held.writes, self._synced)

    def _why_not(self) -> str:
        """Why this node takes no queues."""
        config = self.broker.config
        if config.has_workers and config.worker >= config.workers:
            return "that worker is to be emptied itself"
        if self._is_drained():
            return "it is drained"
        if self._is_alarmed():
            return "it is short of memory or disk"
        return "" if self._is_ready() else "it is still starting"

    # -- asked for -----------------------------------------------------------------------------------------------------

    def movable(self, vhost: str, name: str) -> QueueRecord:
        """The record of a queue that may live elsewhere, as far as the metadata say. Raises ValueError."""
        record = self._metadata.queue(vhost, name)
        if record is None:
            raise ValueError(f"no queue '{name}' in vhost '{vhost}'")
        called = f"queue '{name}' in vhost '{vhost}'"
        if not type_named(record.type).may_move:
            raise ValueError(f"{called} is a {record.type} queue: it has no home (`amqp-broker queue grow`, `shrink`)")
        if record.exclusive:
            raise ValueError(f"{called} is exclusive: it lives and ends with its connection")
        if record.auto_delete:
            raise ValueError(f"{called} is auto-delete: it ends with its last consumer, and is not worth a move")
        if not record.durable:
            raise ValueError(f"{called} is not durable: it ends with its home")
        if self._metadata.level < REHOMING:
            raise ValueError(
                f"the cluster is at level {self._metadata.level}, and moving queues needs {REHOMING}: upgrade all "
                f"nodes first, `amqp-broker cluster status` shows which speak it"
            )
        return record

    def check(self, vhost: str, name: str, home: str) -> QueueRecord:
        """The record of a queue that may go there, as far as the metadata say. Raises ValueError."""
        record = self.movable(vhost, name)
        if record.home == home:
            raise ValueError(f"queue '{name}' in vhost '{vhost}' lives at {home} already")
        places = self.places()
        if home not in places:
            raise ValueError(f"no node or worker '{home}'; there are {', '.join(places)}")
        if home != self.broker.own_node and not self._replication.is_connected(home):
            raise ValueError(f"{home} is not linked: ask again when it is there")
        return record

    def places(self) -> list[str]:
        """Where queues may live."""
        own, metadata = self.broker.own_node, self._metadata
        return sorted({own, *metadata.members(), *metadata.worker_names(), *self._replication.workers()})

    def busy(self) -> dict[str, int]:
        """See Placement.busy_workers."""
        return self._placement.busy_workers()

    def types(self) -> list[str]:
        """The types of queues that may move."""
        return [name for name, each in QUEUE_TYPES.items() if each.may_move]

    def taking(self) -> list[str]:
        """Those of them that are not to be emptied."""
        own, metadata, count = node_of_worker(self.broker.own_node), self._metadata, max(1, self.broker.config.workers)
        return [
            name
            for name in self.places()
            if (worker_number(name) < count if node_of_worker(name) == own else not metadata.is_closing(name))
        ]

    def begin(self, record: QueueRecord, home: str) -> Completion[Heard]:
        """Have a queue live there. Returns what is said of that first. Raises ValueError."""
        own = self.broker.own_node
        number = self._draw()
        first: Completion[Heard] = Completion()
        self.asked[number] = (record.home, first)
        if record.home == own:
            try:
                self._depart(number, record.vhost, record.name, home, own)
            except ValueError:
                del self.asked[number]
                raise
        else:
            said = fields(vhost=record.vhost, name=record.name, home=home)
            if not self.send(record.home, frame(frames.WISH, number, said)):
                del self.asked[number]
                raise ValueError(f"{record.home}, where it lives, is not linked: ask again when it is there")
        return first

    def _told(self, number: int, progress: Progress) -> None:
        """Who waits may come to it only when more was said."""
        asked = self.asked.pop(number, None)
        if asked is None:
            return
        home, said = asked
        more: Completion[Heard] | None = None
        if not progress.is_over:
            more = Completion()
            self.asked[number] = (home, more)
        said.complete(Heard(progress, more))

    def _draw(self) -> int:
        return int.from_bytes(self.broker.random_bytes(_DRAWN), "big") or 1

    # -- the old home --------------------------------------------------------------------------------------------------

    def _depart(self, number: int, vhost: str, name: str, home: str, asker: str) -> None:
        """Raises ValueError."""
        self.check(vhost, name, home)
        found = self.broker.vhosts.get(vhost)
        queue = found.queues.get(name) if found is not None else None
        called = f"queue '{name}' in vhost '{vhost}'"
        if len(self.departures) >= MOST_LEAVING:
            others = ", ".join(f"'{each.name}'" for each in self.departures.values())
            raise ValueError(f"{self.broker.own_node} is just giving away {others}; ask again when that is done")
        leaving = self.broker.types[queue.declaration.type].leaving(queue) if queue is not None else None
        if leaving is None:
            raise ValueError(f"{called} does not live here, or is on its way already")
        if leaving.leased():
            raise ValueError(f"{called} is being leased from: end what leases its messages first")
        why = "" if self._is_ready() else "it is still starting"
        if why:
            raise ValueError(f"{self.broker.own_node} gives nothing away: {why}")
        departure = Departure(self, self._draw(), leaving, home, (asker, number))
        self.departures[departure.move] = departure
        log.info("%s goes from %s to %s", called, self.broker.own_node, home)
        self._tell_later(departure)
        departure.task.when_done(lambda why: self._tell(departure, "" if why is None else str(why)))

    def ended(self, departure: Departure) -> None:
        """Whatever came of it."""
        self.departures.pop(departure.move, None)

    def refuse(self, home: str, move: int) -> None:
        """What was brought to a node is not to live there, which this node knows up to where it has the metadata."""
        self.send(home, frame(frames.DROP, move, numbers(self._replication.last_applied)))

    def _tell_later(self, departure: Departure) -> None:
        def tell(now: int) -> None:
            if not departure.task.is_done:
                self._tell(departure, "")
                self._tell_later(departure)

        self._timers.at(self._clock.now + _TELL_MS, tell)

    def _tell(self, departure: Departure, error: str) -> None:
        """Who has asked hears how far it is."""
        asker, number = departure.asked
        is_over = departure.task.is_done
        if is_over and departure.task.error is not None:
            error = str(departure.task.error)
        progress = Progress(is_over, error, departure.messages, departure.octets)
        if asker == self.broker.own_node:
            self._told(number, progress)
        else:
            self.send(asker, frame(frames.SAID, number, fields(**progress._asdict())))

    def _on_wish(self, said: Frame) -> None:
        try:
            self._depart(said.move, said.text("vhost"), said.text("name"), said.text("home"), said.node)
        except ValueError as error:
            progress = Progress(True, str(error), 0, 0)
            self.send(said.node, frame(frames.SAID, said.move, fields(**progress._asdict())))

    def _on_said(self, said: Frame) -> None:
        if self.asked.get(said.move, ("",))[0] == said.node:
            is_over, messages, octets = bool(said.count("is_over")), said.count("messages"), said.count("octets")
            self._told(said.move, Progress(is_over, said.text("error"), messages, octets))

    # -- who uses it ---------------------------------------------------------------------------------------------------

    def _on_hold(self, said: Frame) -> None:
        broker, vhost = self.broker, self.broker.vhosts.get(said.text("vhost"))
        queue = vhost.queues.get(said.text("name")) if vhost is not None else None
        home, move = said.node, said.move

        def answer() -> None:
            self.send(home, frame(frames.HELD, move, fields()))

        if vhost is None or queue is None or queue.home != home or queue.queue_id != said.json().get("queue_id"):
            answer()  # it is not known here, or as another one: nothing can be said to it
            return
        held = broker.held.hold(vhost, queue, home)
        self._held[move] = (home, vhost.name, held)

        def counted(refusal: Exception | None) -> None:
            if refusal is None:
                answer()
            else:
                self._free(move)

        queue.count(False, counted)  # which is done behind all that was said before

    def _free(self, move: int) -> None:
        """It stays where it is, or nobody knows."""
        found = self._held.pop(move, None)
        if found is None:
            return
        _, name, held = found
        vhost = self.broker.vhosts.get(name)
        if vhost is not None:
            self._held_queues.put_back(vhost, held)

    # -- inputs --------------------------------------------------------------------------------------------------------

    def receive(self, node: str, payload: bytes, now: int) -> None:
        """A frame of another node. Raises PeerProtocolError."""
        said = Frame(node, payload)
        what = said.what
        if what == frames.WISH:
            self._on_wish(said)
        elif what == frames.SAID:
            self._on_said(said)
        elif what == frames.ASK:
            self.arrivals.on_ask(said, now)
        elif what == frames.HOLD:
            self._on_hold(said)
        elif what == frames.FREE:
            self._free(said.move)
        elif what in (frames.PAGE, frames.PLACED):
            self.arrivals.on_page(said, now)
        elif what == frames.END:
            self.arrivals.on_end(said, now)
        elif what == frames.DROP:
            self.arrivals.on_drop(said, now)
        elif what == frames.STILL:
            if said.move not in self.departures:
                self.refuse(node, said.move)
        elif said.move in self.departures:
            self.departures[said.move].on_frame(said)

    def start(self, now: int) -> None:
        """The queues of this node are there."""

    def peer_connected(self, node: str, now: int) -> None:
        """There is a link to another node."""
        for departure in list(self.departures.values()):
            departure.peer_connected(node)

    def peer_disconnected(self, node: str, now: int) -> None:
        """It is lost."""
        for departure in list(self.departures.values()):
            departure.peer_disconnected(node)
        self.arrivals.peer_disconnected(node)
        for move in [move for move, (home, _, _) in self._held.items() if home == node]:
            self._free(move)
        for number in [number for number, (home, _) in self.asked.items() if home == node]:
            self._told(number, Progress(True, f"the link to {node} was lost: look where the queue is", 0, 0))

    def _synced(self, position: int) -> None:
        self._held_queues.synced(position)
        self.arrivals.synced(position)
