"""Client: what channels, flow control and resources use of a connection, which is one.

Its states are in state.py. How frames come in, and what they do, is the connection's (connection/connection.py); who
pauses it and why is in pauses.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from amqp_broker.flow.output import Output
from amqp_broker.flow.reason import HANDLING
from amqp_broker.flow.state import AWAIT_HEADER
from amqp_broker.protocol import methods
from amqp_broker.protocol.content import ContentScanner

if TYPE_CHECKING:
    from amqp_broker.auth.session import Session
    from amqp_broker.errors import ChannelException
    from amqp_broker.flow.clients import Clients
    from amqp_broker.flow.declarer import Declarer
    from amqp_broker.flow.home import Home
    from amqp_broker.flow.pauses import Pauses
    from amqp_broker.flow.peer import Peer
    from amqp_broker.flow.steered import Steered
    from amqp_broker.routing.vhost import VHost
    from amqp_broker.settings.config import Config
    from amqp_broker.turn.clock import TurnClock
    from queues.message import Message
    from queues.write_group import WriteGroup

_HANDLING = HANDLING
#: So much output is not held back any more, octets: it makes a write worth its while.
_HELD_BYTES = 65_536


class OpenChannel(Protocol):
    """What is known here of a channel, whose room stands above (channel/channel.py)."""

    channel_id: int

    def tell_cancelled(self, consumer_tag: str) -> None:
        """The client hears that the broker has ended a consumer."""


class Client:
    """peer: who it is (flow/peer.py). received_bytes, sent_bytes: octets that were handled, and that the driver has
    taken. session: who has logged in, None before that. declarer: what it is in its virtual
    host, while it is open. paused_for: Reasons, as bits; only Pauses changes them. is_paused: nothing
    is read from it, as the driver was told last. is_starved: deliveries stopped for want of room or memory. homes:
    links to nodes to whose queues it publishes. late_cancels: consumers whose end it hears of behind an answer.
    steered: where it would be better off, if it may go there. trailing: so many of its readers are far behind: what it
    says does not count as what others say."""

    def __init__(
        self, clients: Clients, pauses: Pauses, clock: TurnClock, config: Config, peer: Peer, number: int
    ) -> None:
        self.clients = clients
        self.pauses = pauses
        self.clock = clock
        self.config = config
        self.peer = peer
        self.number = number
        self.state = AWAIT_HEADER
        self.paused_for = 0
        self.is_paused = False
        self.output = Output()
        self.scanner = ContentScanner(config.max_table_depth)
        self.session: Session | None = None
        self.declarer: Declarer | None = None
        self.frame_max = config.initial_frame_max
        self.payload_max = config.initial_frame_max - 8
        self.output_limit = config.output_limit_bytes
        self.unsent_bytes = 0
        self.received_bytes = 0
        self.sent_bytes = 0
        self.is_dirty = False
        self.is_held = False
        self.is_writable = True
        self.is_starved = False
        self.has_published = False
        self.trailing = 0
        self.homes: dict[Home, None] = {}
        self.late_cancels: list[tuple[OpenChannel, str]] | None = None
        self.steered: Steered | None = None

    @property
    def vhost(self) -> VHost | None:
        """The virtual host that it is open to."""
        return self.declarer.vhost if self.declarer is not None else None

    @property
    def is_parked(self) -> bool:
        """None of its frames is handled."""
        return (self.paused_for & _HANDLING) != 0

    # -- output --------------------------------------------------------------------------------------------------

    def touch(self) -> None:
        """There is something in the output: the driver writes it at the end of the turn."""
        if not self.is_dirty:
            self.is_dirty = True
            self.clients.add_dirty(self)

    def touch_with_delivery(self) -> None:
        """The same for a delivery, which may be held back until there are more (Clients, holds_back)."""
        if not self.clients.holds_back or self.output.size() >= _HELD_BYTES:
            self.touch()
        elif not self.is_held:
            self.is_held = True
            self.clients.hold(self)

    def trail(self, is_behind: bool) -> None:
        """One of its readers is far behind now, or is not any more."""
        self.trailing += 1 if is_behind else -1

    def let_go(self) -> None:
        """What was held back is written at the end of this turn, if it has not left with something else."""
        self.is_held = False
        if self.output.size():
            self.touch()

    def send(self, channel_id: int, method: methods.Method) -> None:
        """Put a method into the output."""
        self.output.put_frame(1, channel_id, methods.encode_method(method))
        self.touch()

    def has_room(self) -> bool:
        """Whether deliveries may be put into the output; if not, the driver's `writable` brings them back."""
        output = self.output
        if self.is_writable and output.chunk_bytes + output.buffer.length < self.output_limit:
            return True
        self.starve()
        return False

    def starve(self) -> None:
        """Deliveries to it stop until `Node.writable`."""
        self.is_starved = True
        self.clients.starved[self] = None

    def become_writable(self) -> bool:
        """The transport has taken what it was given. Returns whether deliveries had stopped, and go on."""
        self.is_writable = True
        self.unsent_bytes = 0
        if not self.is_starved or self.declarer is None:
            return False
        self.is_starved = False
        self.clients.feed(self)
        return True

    def leave_unsent(self, octets: int) -> None:
        """So much was said to it that its transport has not taken."""
        self.unsent_bytes = octets

    def unread_bytes(self) -> int:
        """So much was said to it that it has not read, or not been sent yet."""
        return self.unsent_bytes + self.output.size()

    def pause_unread(self) -> None:
        """It has asked for something, and is not heard any more where this turn has too much to say to it by now."""
        if self.output.size() > self.config.output_pause_bytes:
            self.pauses.pause_replies(self)

    def become_unwritable(self) -> None:
        """The transport is full: no deliveries."""
        self.is_writable = False

    def record_elsewhere(self, groups: list[WriteGroup], homes: Sequence[Home], message: Message) -> None:
        """It publishes a message to queues of which only a receipt is told what became of it (PublishRoute.elsewhere).
        homes: of these groups the links to other nodes where queues live, whose troubles are its own."""
        if self.steered is not None:
            self.steered.record_publish(self, groups, message)
        for link in homes:
            if link not in self.homes:
                self.homes[link] = None
                self.pauses.notify(self)

    def steer(self, steered: Steered) -> None:
        """It may go to another worker of this node."""
        self.steered = steered

    def ask_before_publish(self) -> None:
        """Its next publish is looked at as its first one is (Pauses.holds_back): it may be better off elsewhere. Not
        while there is an alarm, of which those hear who have published."""
        self.has_published = self.pauses.is_alarmed

    def stay(self) -> None:
        """It stays at this worker: what it has done here may be under way, and nobody can tell when that is over."""
        self.steered = None

    def hold_cancels(self) -> None:
        """It hears of the ends of its consumers later, behind an answer."""
        self.late_cancels = []

    def tell_cancelled(self, channel: OpenChannel, consumer_tag: str) -> None:
        """The broker has ended a consumer of it: it hears of that now, or later."""
        if self.late_cancels is None:
            channel.tell_cancelled(consumer_tag)
        else:
            self.late_cancels.append((channel, consumer_tag))

    def release_cancels(self) -> None:
        """No longer: it hears of those that were held."""
        cancels, self.late_cancels = self.late_cancels or [], None
        for channel, consumer_tag in cancels:
            channel.tell_cancelled(consumer_tag)

    # -- of the connection -----------------------------------------------------------------------------------------

    def receive_data(self, data: bytes, now: int) -> None:
        """A chunk from the transport, behind what is still there."""
        raise NotImplementedError

    def said_bytes(self) -> int:
        """Octets that were handled, up to the frame that is being handled."""
        raise NotImplementedError

    def served_later(self) -> Callable[[Callable[[], None]], None]:
        """Of the method that is being handled: calls an answer as its handler is called, on its channel, which may have
        ended meanwhile."""
        raise NotImplementedError

    def refuse(self, channel_id: int, error: ChannelException) -> None:
        """A channel of it has to end, whichever is being served."""
        raise NotImplementedError

    def channel_count(self) -> int:
        """How many channels it has open, with those that are closing."""
        raise NotImplementedError

    def has_channel(self, channel: OpenChannel) -> bool:
        """Whether this one is among them."""
        raise NotImplementedError

    def forget_channel(self, channel_id: int) -> None:
        """The client has closed it."""
        raise NotImplementedError
