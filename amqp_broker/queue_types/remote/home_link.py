"""HomeLink: this node's stream of commands to the classic queues of one other node, their home.

    submit -> unsent -> end_turn: frames to the home -> unconfirmed -> Confirmed -> the receipt is complete
    frames from the home -> receive_effects -> consumers, answers, receipts

A session lasts as long as the link. When that is lost nobody knows what became of the commands on their way, so nothing
is sent again: their receipts are completed with Refusal.UNKNOWN, consumers are cancelled, who waits is told. Without a
link every command has that fate at the end of the turn.

Invariants:
1. Commands have consecutive numbers from 1 within a session, in the order of `submit`; each is sent once.
2. At most `IN_FLIGHT_BYTES` of commands (or one larger one) are sent and not confirmed.
3. The home learns what was taken off the link, and what clients have taken, before its windows keep it waiting for
   something that has happened.
4. A consumer number is given once, over all sessions.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from amqp_broker.octets.buffer import Buffer
from amqp_broker.queue_types.proxy.command_sink import CommandSink
from amqp_broker.queue_types.remote.effects_codec import (
    Blocked,
    Count,
    FromHome,
    HomeEffect,
    QueueCounted,
    Taken,
    decode_from_home,
    encode_count,
    encode_taken,
)
from amqp_broker.queue_types.remote.home_session import CONSUMER_WINDOW_BYTES, LINK_WINDOW_BYTES
from queues.page import AddressBook
from queues.quorum.commands import Command, Detach, Enqueue, Settle, put_batch_head, put_command
from queues.quorum.effects import Confirmed, Delivered, GetAnswered, Refusal
from queues.quorum.reader import Malformed
from raft.errors import PeerProtocolError

if TYPE_CHECKING:
    from amqp_broker.links.tenants import Send
    from amqp_broker.queue_types.proxy.consumer import ProxyConsumer
    from amqp_broker.queue_types.receipts import Receipt

log = logging.getLogger("amqp_broker.proxies")

#: What a frame of commands holds at most, octets (one larger command goes alone).
FRAME_BYTES = 256 * 1024
#: Commands that were sent and are not confirmed, octets.
IN_FLIGHT_BYTES = 8 * 1024 * 1024
#: What a Count is taken for, octets.
_COUNT_BYTES = 27
#: Consumer numbers begin at session << this: in a new process they are above all earlier ones, as sessions are times.
_NUMBER_BITS = 20

#: Called with why there is no answer, or with a queue's messages, unacknowledged and leased messages, and consumers.
Counted = Callable[[Refusal | None, int, int, int, int], None]


class Flow:
    """What came for one consumer and its client has not taken. received, taken, told: octets of messages in all; told
    is what the home knows of."""

    __slots__ = ("received", "sizes", "taken", "told")

    def __init__(self) -> None:
        self.received = 0
        self.taken = 0
        self.told = 0
        self.sizes: deque[int] = deque()

    def take_all_but(self, count: int) -> None:
        """So many of what came last are still waiting."""
        sizes = self.sizes
        while len(sizes) > count:
            self.taken += sizes.popleft()


class HomeLink(CommandSink):
    """home: the node whose queues it is about. send: commands to another node.

    backlog_bytes: commands that were submitted and are not confirmed, octets. is_blocked: the home wants publishers to
    wait. session: the number of the present one, or of the last; the next one is above it.
    """

    paces = True

    def __init__(self, own_node: str, home: str, send: Send, now: int) -> None:
        super().__init__()
        self.own_node = own_node
        self.home = home
        self.is_connected = False
        self.is_blocked = False
        self.backlog_bytes = 0
        self.session = 0
        self.applied = 0
        self._send = send
        self._addresses = AddressBook()
        self._buffer = Buffer(1024)
        self._next_consumer = now << _NUMBER_BITS
        self._unconfirmed: deque[tuple[Receipt | None, int]] = deque()
        self._unsent: deque[bytes | tuple[int, bool]] = deque()  # a command's octets, or what a Count says
        self._in_flight = 0
        self._counting: deque[Counted] = deque()
        self._flows: dict[int, Flow] = {}
        self._untaken: dict[int, Flow] = {}  # those of whom something waits, as of the last look
        self._received = 0
        self._told = 0

    # -- commands ------------------------------------------------------------------------------------------------------

    def submit(self, command: Command, receipt: Receipt | None = None) -> int:
        """See CommandSink."""
        if self.settling and not isinstance(command, Enqueue | Settle):
            self.flush()  # what a client has settled comes before what it fetches or counts then
        put_command(self._buffer, command)
        octets = self._buffer.take()
        if receipt is not None:
            receipt.expect()
        self._unsent.append(octets)
        self._unconfirmed.append((receipt, len(octets)))
        self.backlog_bytes += len(octets)
        return self.applied + len(self._unconfirmed)

    def new_consumer(self) -> int:
        """See CommandSink."""
        self._next_consumer += 1
        return self._next_consumer

    def count(self, queue_id: int, then: Counted, is_use: bool = True) -> None:
        """How many messages and consumers a queue has, behind everything that was submitted before. is_use: see
        Count."""
        self.flush()
        self._counting.append(then)
        self._unsent.append((queue_id, is_use))
        self._unconfirmed.append((None, _COUNT_BYTES))
        self.backlog_bytes += _COUNT_BYTES

    # -- output --------------------------------------------------------------------------------------------------------

    def end_turn(self, now: int) -> None:
        """Send what is new, as far as the home keeps up; without a link, tell who waits that it is lost."""
        self.flush()
        if not self.is_connected:
            while self._unconfirmed or self.settling:
                self._lose()
                self.flush()
            return
        self._tell_taken()
        commands: list[bytes] = []
        size = 0
        first = self._next_unsent()
        while self._unsent:
            octets = self._unsent[0]
            length = _COUNT_BYTES if isinstance(octets, tuple) else len(octets)
            if self._in_flight and self._in_flight + length > IN_FLIGHT_BYTES:
                break
            if commands and (isinstance(octets, tuple) or size + length > FRAME_BYTES):
                self._send_commands(first, commands)
                first += len(commands)
                commands, size = [], 0
            self._unsent.popleft()
            self._in_flight += length
            if isinstance(octets, tuple):
                self._send(self.home, encode_count(Count(self.session, first, *octets)))
                first += 1
            else:
                commands.append(octets)
                size += length
        if commands:
            self._send_commands(first, commands)

    def _next_unsent(self) -> int:
        """The number of the first command that was not sent."""
        return self.applied + len(self._unconfirmed) - len(self._unsent) + 1

    def _send_commands(self, first: int, commands: list[bytes]) -> None:
        buffer = self._buffer
        count_at = put_batch_head(buffer, 0, self.own_node, self.session, first, self.applied)
        buffer.set_u32(count_at, len(commands))
        self._send(self.home, b"".join([buffer.take(), *commands]))

    def _tell_taken(self) -> None:
        """The home learns what was taken, when it is much."""
        consumers: list[tuple[int, int]] = []
        delivery_owners = self.delivery_owners
        done = []
        for number, flow in self._untaken.items():
            delivery_owner = delivery_owners.get(number)
            if delivery_owner is None:
                self._flows.pop(number, None)
                done.append(number)
                continue
            flow.take_all_but(len(delivery_owner.waiting))
            if not flow.sizes:
                done.append(number)
            if flow.taken - flow.told >= CONSUMER_WINDOW_BYTES // 4:
                flow.told = flow.taken
                consumers.append((number, flow.taken))
        for number in done:
            del self._untaken[number]
        if consumers or self._received - self._told >= LINK_WINDOW_BYTES // 4:
            self._told = self._received
            self._send(self.home, encode_taken(Taken(self.session, self._received, tuple(consumers))))

    # -- input ---------------------------------------------------------------------------------------------------------

    def receive_effects(self, payload: bytes, now: int) -> None:
        """A frame from the home. Raises PeerProtocolError."""
        try:
            frame = decode_from_home(payload, self._addresses)
        except Malformed as error:
            raise PeerProtocolError(f"{self.home}: {error}") from error
        if not self.is_connected or frame.session != self.session:
            log.debug("effects of session %d come too late from %s", frame.session, self.home)
            return
        self._on_effects(frame)

    def _on_effects(self, frame: FromHome) -> None:
        effects: list[Any] = []  # of homes; what a CommandSink does not know, HomeLink takes
        confirms: list[Confirmed] = []
        for effect in frame.effects:
            if isinstance(effect, Delivered):
                self._on_delivered(effect, effects)
            elif isinstance(effect, Confirmed):
                confirms.append(effect)
            else:
                if isinstance(effect, GetAnswered) and effect.message is not None:
                    self._received += effect.message.size
                effects.append(effect)
        self.take_effects(effects)
        for confirmed in confirms:
            self._on_confirmed(confirmed)

    def _on_delivered(self, effect: Delivered, effects: list[Any]) -> None:  # as above
        size = effect.message.size
        self._received += size
        number = effect.consumer
        delivery_owner = self.delivery_owners.get(number)
        if delivery_owner is None or delivery_owner.proxy.is_deleted:
            # Its queue is deleted here, and not yet there.
            self.delivery_owners.pop(number, None)
            self.submit(Detach(number, True))
            return
        flow = self._flows.get(number)
        if flow is None:
            self._flows[number] = flow = Flow()
        flow.received += size
        flow.sizes.append(size)
        self._untaken[number] = flow
        effects.append(effect)

    def _on_confirmed(self, effect: Confirmed) -> None:
        sent = len(self._unconfirmed) - len(self._unsent)
        if effect.first != self.applied + 1 or effect.last > self.applied + sent:
            raise PeerProtocolError(
                f"{self.home} confirms commands {effect.first} to {effect.last} of session {self.session}: "
                f"{self.applied} were confirmed, {self.applied + sent} were sent"
            )
        refusals = dict(effect.refused)
        for sequence in range(effect.first, effect.last + 1):
            receipt, size = self._unconfirmed.popleft()
            self.applied = sequence
            self.backlog_bytes -= size
            self._in_flight -= size
            if receipt is not None:
                receipt.complete(refusals.get(sequence))

    def other_effect(self, effect: HomeEffect) -> None:  # type: ignore[override]  # a home has more of them
        """See CommandSink."""
        if isinstance(effect, QueueCounted):
            if not self._counting:
                raise PeerProtocolError(f"{self.home} has counted a queue, and was not asked")
            self._counting.popleft()(None, effect.messages, effect.unacked, effect.leased, effect.consumers)
        elif isinstance(effect, Blocked):
            self.is_blocked = effect.is_blocked

    # -- the link ------------------------------------------------------------------------------------------------------

    def peer_connected(self, now: int) -> None:
        """There is a link: a session begins."""
        if self.is_connected:
            self.peer_disconnected(now)
        self.session = max(now, self.session + 1)
        self._next_consumer = max(self._next_consumer, self.session << _NUMBER_BITS)
        self.is_connected = True
        self.applied = 0
        # It tells the home that whatever it holds of an older session is over.
        self._send_commands(1, [])

    def peer_disconnected(self, now: int) -> None:
        """The link is lost, and everything that was on its way."""
        self.is_connected = self.is_blocked = False
        self._flows.clear()
        self._untaken.clear()
        self._received = self._told = 0
        self._lose()

    def _lose(self) -> None:
        """Nothing that was submitted will be answered."""
        lost, self._unconfirmed = self._unconfirmed, deque()
        counting, self._counting = self._counting, deque()
        self._unsent.clear()
        self.backlog_bytes = self._in_flight = 0
        self.give_up(Refusal.UNKNOWN)
        for then in counting:
            then(Refusal.UNKNOWN, 0, 0, 0, 0)
        for receipt, _ in lost:
            if receipt is not None:
                receipt.complete(Refusal.UNKNOWN)

    # -- for who looks -------------------------------------------------------------------------------------------------

    def is_behind(self, limit_bytes: int) -> bool:
        """Whether publishers have to wait: the home is short of memory or disk, or has not confirmed so much."""
        return self.is_blocked or self.backlog_bytes > limit_bytes

    def waits_for(self, delivery_owner: ProxyConsumer) -> int:
        """Octets that wait for a consumer's client."""
        flow = self._flows.get(delivery_owner.number)
        if flow is None:
            return 0
        flow.take_all_but(len(delivery_owner.waiting))
        return flow.received - flow.taken
