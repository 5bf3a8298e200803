"""RemoteQueues: everything of a node that has to do with classic queues across nodes.

    Home            this node's queues, used by others
    HomeLink        another node's queues, used here; one for each node that is a home, made when it is first needed

What the node calls at its inputs and at the end of a turn, in one place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Protocol

from amqp_broker.links.frame_kinds import FrameKind
from amqp_broker.queue_types.remote.home import Home, HomeVHost
from amqp_broker.queue_types.remote.home_link import HomeLink
from raft.errors import PeerProtocolError

if TYPE_CHECKING:
    from amqp_broker.links.tenants import Tenants
    from amqp_broker.queue_types.contract.held_queue import HeldWrites
    from amqp_broker.turn.clock import TurnClock
    from queues.background import Background
    from queues.classic import ClassicQueue
    from queues.pager import Pager
    from queues.queue import Queue
    from queues.timers import Timers
    from storage.journal import Journal


class Peers(Protocol):
    """What is used of Replication."""

    @property
    def own_node(self) -> str: ...

    def connected(self) -> Iterable[str]: ...


class Moves(Protocol):
    """Who moves queues from home to home (rehoming/)."""

    def start(self, now: int) -> None:
        """The queues of this node are there."""

    def peer_connected(self, node: str, now: int) -> None:
        """There is a link to another node."""

    def peer_disconnected(self, node: str, now: int) -> None:
        """It is lost."""


class RemoteQueues:
    """peers: the node's Replication; its `own_node` is right when the first link is asked for. remove_queue deletes a
    queue of this node, for good. is_blocked: Alarms.is_on.

    While there are no `links`, the node need not call `work` and `is_behind`; while there are no
    `sessions`, not `end_turn` and `wants_sync`: a node alone pays nothing.
    """

    def __init__(
        self,
        peers: Peers,
        tenants: Tenants,
        vhosts: Mapping[str, HomeVHost],
        find_queue: Callable[[int], Queue | None],
        remove_queue: Callable[[ClassicQueue], object],
        pager: Pager,
        timers: Timers,
        background: Background,
        clock: TurnClock,
        journal: Journal,
        is_blocked: Callable[[], bool],
    ) -> None:
        self._peers = peers
        self._background = background
        self._journal = journal
        self._is_blocked = is_blocked
        send_effects = tenants.register(FrameKind.HOME_EFFECTS, self._receive_effects)
        self.home = Home(vhosts, find_queue, remove_queue, pager, timers, background, clock, send_effects)
        self.links: dict[str, HomeLink] = {}
        self.held: Mapping[HeldWrites, None] = {}
        self._on_synced: Callable[[int], None] | None = None
        self._moves: Moves | None = None
        self.sessions = self.home.sessions
        self._send_commands = tenants.register(FrameKind.HOME_COMMANDS, self.home.receive_commands)

    def move_with(self, moves: Moves, held: Mapping[HeldWrites, None], on_synced: Callable[[int], None]) -> None:
        """Who moves queues from home to home. held: those that are not used for that; on_synced: is told what is on the
        disk."""
        self._moves, self.held, self._on_synced = moves, held, on_synced

    def start(self, now: int) -> None:
        """The queues of this node are there."""
        self.home.start(now)
        if self._moves is not None:
            self._moves.start(now)

    def link_to(self, home: str, now: int) -> HomeLink:
        """The link to the queues of a node."""
        link = self.links.get(home)
        if link is None:
            self.links[home] = link = HomeLink(self._peers.own_node, home, self._send_commands, now)
            link.hand_out_in(self._background)
            if home in self._peers.connected():
                link.peer_connected(now)
        return link

    # -- inputs --------------------------------------------------------------------------------------------------------

    def _receive_effects(self, node: str, payload: bytes, now: int) -> None:
        link = self.links.get(node)
        if link is None:
            raise PeerProtocolError(f"{node} sends effects, and none of its queues is used here")
        link.receive_effects(payload, now)

    def peer_connected(self, node: str, now: int) -> None:
        """There is a link to another node."""
        link = self.links.get(node)
        if link is not None:
            link.peer_connected(now)
        if self._moves is not None:
            self._moves.peer_connected(node, now)

    def peer_disconnected(self, node: str, now: int) -> None:
        """It is lost, with what was on it."""
        self.home.peer_disconnected(node, now)
        link = self.links.get(node)
        if link is not None and link.is_connected:
            link.peer_disconnected(now)
        if self._moves is not None:
            self._moves.peer_disconnected(node, now)

    def synced(self, position: int) -> None:
        """The journal is on the disk up to there."""
        self.home.synced(position)
        if self._on_synced is not None:
            self._on_synced(position)

    # -- statistics ----------------------------------------------------------------------------------------------------

    def commands_executed(self) -> int:
        """How many commands of others this home has executed."""
        return self.home.executed()

    def commands_sent(self) -> int:
        """To queues that live elsewhere, since the start."""
        return sum([link.commands_sent for link in self.links.values()])

    # -- output --------------------------------------------------------------------------------------------------------

    def work(self, now: int) -> None:
        """What this node has to say to homes. Before that, who waited for one that is down hears so, goes on, and may
        have something for another one, a queue group or the journal."""
        seen = 0
        while seen < len(self.links):  # who goes on may be the first here to use a queue of yet another home
            links = list(self.links.values())[seen:]
            seen += len(links)
            for link in links:
                if not link.is_connected:
                    link.end_turn(now)
        for link in self.links.values():
            if link.is_connected:
                link.end_turn(now)

    def end_turn(self, now: int) -> None:
        """What other nodes hear of what this turn did for them."""
        self.home.end_turn(self._journal.position, self._is_blocked(), now)

    @property
    def wants_sync(self) -> bool:
        """Whether somebody waits for the disk."""
        return self.home.wants_sync

    def blocked_homes(self) -> list[str]:
        """The names of the homes that have an alarm."""
        return [link.home for link in self.links.values() if link.is_blocked]

    def is_behind(self, limit_bytes: int) -> bool:
        """Whether publishers have to wait: those that have published to a home that is (HomeLink.is_behind)."""
        return bool(self.held) or any(link.is_behind(limit_bytes) for link in self.links.values())
