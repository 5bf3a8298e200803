"""QueueGroup: one group of queues on this node: its machine, this node's stream of commands, and who waits.

    proxies -> submit -> OwnStream -> end_turn -> the leader proposes (this node, or the one that gets the batch)
    ... -> committed -> QueueGroupMachine.apply -> absorb: deliveries, answers, receipts

On the node that leads there are chores: the passing of time (Tick), nodes that are gone (NodeDown), queues that the
metadata have and the log has not, or the other way round (OpenQueue, DropQueue), dead letters (DeadLetterPublisher).

Invariants:
1. A receipt is complete when the own machine has applied its command, and not before.
2. What was sent and is not applied is sent again: to a new leader, over a new link, and after RESEND_MS without news.
   The machine skips what it has.
3. A node that is no member of the group is a guest of it (guest.py): its commands go to the member that leads, and
   their effects come from there. Only one of the two, own machine or a member's feed, gives effects of the session.
4. The leader opens and drops queues as the metadata have them; a queue whose id the metadata have not given yet is left
   alone.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Protocol, cast

from amqp_broker.metadata.queue_ids import is_known, is_numbered
from amqp_broker.queue_types.groups.coming_pages import ComingPages
from amqp_broker.queue_types.groups.damaged_pages import DamagedPages
from amqp_broker.queue_types.groups.dead_letters import DeadLetterPublisher
from amqp_broker.queue_types.groups.guest import Guest, LeavingMember
from amqp_broker.queue_types.groups.guest_feeds import GuestFeeds
from amqp_broker.queue_types.groups.guest_frames import decode_answer, decode_request
from amqp_broker.queue_types.proxy.command_sink import CommandSink
from queues.background import SLICE
from queues.effects import (
    DeadLettered,
    Discarded,
    Effect,
    Gone,
    Grown,
    QueueGone,
    QueueOpened,
    Refusal,
    SessionClosed,
    Unreadable,
)
from queues.pager import Pager
from queues.quorum.commands import (
    Batch,
    Command,
    Detach,
    Dispatched,
    DropQueue,
    Enqueue,
    How,
    NodeDown,
    Settle,
    Tick,
    begins_with_opening,
    decode_batch,
    encode_batch,
    encode_leader_batch,
    origin_of,
)
from queues.quorum.feed import Heard
from queues.quorum.machine import QueueGroupMachine
from queues.quorum.session import BATCH_BYTES, SESSION_BITS, OwnStream, session_above
from queues.reason import Reason
from queues.receipts import JointReceipt, Receipt
from queues.wire.reader import Malformed
from queues.write_group import WriteGroup
from raft.entry import REGULAR
from raft.errors import PeerProtocolError
from raft.group import Group

if TYPE_CHECKING:
    from amqp_broker.metadata.metadata import Metadata
    from amqp_broker.queue_types.groups.groups import QuorumGroups
    from amqp_broker.queue_types.groups.guest_counts import TakeFigures
    from amqp_broker.settings.config import Config
    from queues.background import Background
    from queues.declaration import Declaration
    from queues.message import Message
    from queues.queue import Queue
    from queues.store import MessageStore
    from queues.timers import Timers

log = logging.getLogger("amqp_broker.proxies")

#: What was sent and is not applied after this time goes again, milliseconds.
RESEND_MS = 1000
#: While the leader takes no proposals (it hands over), or the log no checkpoint, this long passes until the next try,
#: milliseconds.
_REST_MS = 50
#: So many chunks at most are filled for longer than a turn, as all of them are submitted in one; and so many octets.
_MOST_FILLING = 256
_MOST_FILLED_BYTES = 4 * BATCH_BYTES
#: While the disk has nothing to do, chunks of so many octets and less wait for more of a client that is being read, for
#: so many turns, and for so long without one, milliseconds.
_SMALL_CHUNK_BYTES = 2048
_MOST_GATHERED = 4
_GATHER_MS = 1
#: How much of the time that entries take is what the newest took.
_NEWEST_SHARE = 0.125
# Names as integers of this module, which a compiled one compares in C.
_RESEND_MS = RESEND_MS
_NEVER = 1 << 62
#: So many queues, or readers of streams, hear in one slice that this node has left their group, or come to it.
_TOLD_AT_ONCE = 64
_ENDED = object()
#: The number of a consumer that there never is.
_NOBODY = 0
#: Octets of a number that is drawn.
_NUMBER_BYTES = 8


class Letters(Protocol):
    """The node's DeadLetters. cycles: see there."""

    cycles: int

    def publish(self, queue: Queue, message: Message, reason: Reason, now: int, receipt: Receipt | None) -> bool:
        """Publish one dead letter. Returns whether it went anywhere."""

    def count(self, queue: Queue, reason: Reason, cycles: int) -> None:
        """One is done."""


class DiscardCounts(Protocol):
    """The node's Discards."""

    def note(self, vhost: str, queue: str, messages: int, now: int) -> None:
        """So many were dropped that had come back too often."""


class GroupHost(Protocol):
    """What a node gives to its groups."""

    store: MessageStore
    background: Background
    metadata: Metadata
    timers: Timers
    random_bytes: Callable[[int], bytes]

    @property
    def dead_letters(self) -> Letters:
        """Publishes what queues give up."""

    @property
    def discards(self) -> DiscardCounts:
        """Counts what queues drop."""

    def is_there(self, queue: Queue) -> bool:
        """Whether a queue is in its virtual host."""

    def remove_queue(self, queue: Queue) -> None:
        """Delete a queue for good: nobody needs it any more."""


class GroupQueue(Protocol):
    """A queue of a group as this node has it, of whatever type. is_prepared: nothing has to be done before its first
    command."""

    queue_id: int
    name: str
    declaration: Declaration
    is_prepared: bool

    @property
    def wanted(self) -> object:
        """The settings that its log should have."""

    def open_command(self) -> Command:
        """Makes it in the log, or gives it the settings that are wanted."""

    def prepare(self) -> None:
        """Before a command of this node: it comes behind one that makes it, should nobody have made it yet."""


class QueueGroup(CommandSink):
    """raft: the group, open, with this machine. queues: those that the metadata have, by id. guest: what this node
    does while it is no member, None while it is one, or nobody has named the members. feeds: of the guests of this
    member. filled_bytes: of what is being filled, octets. sealed: how often all of that was submitted."""

    def __init__(
        self, raft: Group, machine: QueueGroupMachine, pager: Pager, groups: QuorumGroups, host: GroupHost,
        config: Config, now: int,
    ) -> None:  # fmt: skip
        super().__init__()
        self.group_id = raft.group_id
        self.clock = groups.clock
        self.queues: dict[int, GroupQueue] = {}
        self.pager = pager
        self.machine = machine
        self.raft = raft
        self._member = raft.member
        # A session above all that the log knows of earlier runs, and none that only others know of.
        self.own_node = groups.own_node
        self._places = groups.places
        newest = _newest_session(raft, machine, self.own_node)
        session = session_above(newest, now << SESSION_BITS, host.random_bytes)
        self.stream = OwnStream(self.own_node, session)
        machine.begin_session(session)
        while machine.discard_some(now):  # queues that were dropped in the part of the log that was applied again
            pass
        self.letters = DeadLetterPublisher(self, groups, host.store.journal, host.background)
        self._groups = groups
        self.host = host
        self._background = host.background
        self._journal = host.store.journal
        self._discards = host.discards
        self._metadata = host.metadata
        self.background = host.background
        self.timers = host.timers
        self.guest: Guest | None = None
        self._leaving: LeavingMember | None = None
        self._steps: Iterator[None] | None = None  # of queues that hear whether this node is a member
        self._left_term = 0  # of a leader that has said that this node is no member any more; 0: nobody has
        self._left_at = 0  # where the log ended then
        self._damaged = DamagedPages(self)
        self._coming = ComingPages(self, self.timers, self.clock)
        self._goes_on = False
        self.feeds = GuestFeeds(self, groups.send_answer)
        self._serving = self.feeds.serving
        self._discard = self.machine.discard_some
        self.machine.watch_discards(self._discard_later)
        self._node_down_ms = config.node_down_ms
        self._role_changes = 0
        self._leads_from = 0
        self._led_term = 0  # the term in which this node leads; 0: it does not
        self._is_session_closed = False
        self._is_waiting = False
        self._progress_at = 0
        self._rests_until = 0
        self._rested_from = 0
        self._rested_until = 0
        # Chores of the leader.
        self._gone: dict[str, int] = {}
        self._downed: dict[str, int] = {}
        self._ticked = 0
        self._unreconciled: dict[int, None] = {}
        self._opened: dict[int, None] = {}
        self._ended: dict[int, None] = {}
        self._watchers: dict[int, Callable[[], None]] = {}
        self._growing: dict[int, Callable[[], None]] = {}
        self._filling: list[WriteGroup] = []
        self.filled_bytes = 0
        self.sealed = 0
        self._gathered = 0  # turns
        self._timed: deque[tuple[int, float]] = deque()  # (index, when it was proposed), where timings are taken
        self._sampled = self._sampled_at = 0  # an entry that is under way, 0 for none, and when it was proposed
        self.commit_ms = 0.0

    def _session_above(self, newest: int, now: int) -> int:
        return session_above(newest, now << SESSION_BITS, self.host.random_bytes)

    # -- what it is ------------------------------------------------------------------------------------------------

    @property
    def leader(self) -> str | None:
        """The process that leads the group, as far as this one knows, whether it is a member or not."""
        guest = self.guest
        return self.member_leading() if guest is None else guest.leader

    def written_at(self) -> str:
        """See WriteGroup: of a guest, the process that leads. What a member is given it has on its own disk, too; and
        where all groups of a node are worker 0's, nobody is to go there, as it would have all the work."""
        return "" if self.guest is None or not self._places.is_spread else self.guest.leader or ""

    def member_leading(self) -> str | None:
        """The process that leads, as Raft knows it here."""
        leader = self.raft.leader
        return leader if leader is None else self._places.process_of(self.group_id, leader)

    def voters(self) -> tuple[str, ...]:
        """The nodes that vote in the group; where it is not here, those that are to."""
        return self.raft.members or tuple(sorted(self._groups.members_of(self.group_id)))

    def members(self) -> tuple[str, ...]:
        """Their processes that have the group."""
        return tuple([self._places.process_of(self.group_id, name) for name in self.voters()])

    def wanted_members(self) -> list[str]:
        """The other processes that have the group, or are to."""
        names = self._groups.members_of(self.group_id) or sorted(self._metadata.members())
        found = [self._places.process_of(self.group_id, name) for name in names]
        return [name for name in found if name != self.own_node]

    def heard_index(self) -> int:
        """Of a guest: up to which entry of the log it has heard."""
        return self.guest.index if self.guest is not None else 0

    def count_at_leader(self, queue_id: int, then: TakeFigures, waits: bool) -> None:
        """Of a guest: ask for a queue's figures (GuestCounts.count)."""
        assert self.guest is not None  # who calls looks
        self.guest.count(queue_id, then, waits, self.clock.now)

    def all_members(self) -> tuple[str, ...]:
        """The processes that have the log, or are getting it: those of its voters and learners, which are hosts."""
        names = (*self.raft.members, *self.raft.learners)
        return tuple([self._places.process_of(self.group_id, name) for name in names])

    def member_to_ask(self) -> str:
        """Of a guest: who leads; while nobody is known to, another member, one with a link if there is one. "" for
        nobody."""
        members = self.wanted_members()
        linked = (name for name in members if self.is_linked(name))
        return self.leader or next(linked, members[0] if members else "")

    def draw_number(self) -> int:
        """One that no earlier run has had: it does not depend on a clock."""
        octets: bytes = self.host.random_bytes(_NUMBER_BYTES)
        return int.from_bytes(octets, "big") or 1

    def is_linked(self, name: str) -> bool:
        """Whether there is a link to that node."""
        return bool(self._groups.is_linked(name))

    def backlog_bytes(self) -> int:
        """Octets of commands that were submitted and are not applied, or are being filled: publishers wait when it is
        too much."""
        return self.stream.unapplied_bytes + self.filled_bytes

    @property
    def ram_bytes(self) -> int:
        """What its messages hold in RAM, octets."""
        return int(self.pager.used)

    def page_out(self, want_bytes: int, keeps_heads: bool) -> int:
        """Memory is short: bring pages to the disk until so much is free. Returns what was freed, octets."""
        return self.machine.page_out(want_bytes, keeps_heads)

    # -- queues of the metadata --------------------------------------------------------------------------------------

    def add_queue(self, queue: GroupQueue) -> None:
        """The metadata have this queue from now on."""
        self.queues[queue.queue_id] = queue
        self._opened[queue.queue_id] = None
        self._groups.activate()
        self.settings_changed(queue)

    def settings_changed(self, queue: GroupQueue) -> None:
        """The leader sees to it that the log has the present settings."""
        if self.raft.is_leader:
            self._unreconciled[queue.queue_id] = None
            self._groups.touch(self.group_id)

    def forget_queue(self, queue: GroupQueue) -> None:
        """This node has no use for the queue any more. The log keeps it until its end is committed (`queue_deleted`):
        nobody is to lose what is in it because of a deletion that never was."""
        self.queues.pop(queue.queue_id, None)

    def queue_ended(self, queue_id: int) -> None:
        """A queue of which the metadata know nothing (a DelayQueue of old, with an id from its name) is to go from the
        log, also if one with the same id comes at once."""
        if self.machine.settings_of(queue_id) is not None:
            self._ended[queue_id] = None
            self.queue_deleted(queue_id)

    def queue_deleted(self, queue_id: int) -> None:
        """The metadata do not have this queue any more: the leader has the log forget it."""
        if self.raft.is_leader:
            self._unreconciled[queue_id] = None
            self._groups.touch(self.group_id)

    def had(self, queue_id: int) -> bool:
        """Whether this id is, or was, that of one of its queues: what is on the disk under it is the machine's."""
        return queue_id in self._opened or self.machine.has_files(queue_id)

    def is_forgotten(self, queue_id: int) -> bool:
        """Whether the metadata had this queue once and do not have it now."""
        metadata = self.host.metadata
        return queue_id in self._ended or (is_numbered(queue_id, metadata) and not is_known(queue_id, metadata))

    # -- commands ------------------------------------------------------------------------------------------------------

    def submit(self, command: Command, receipt: Receipt | None = None) -> int:
        """See CommandSink."""
        return self.hand_in(command, receipt)

    def hand_in(self, command: Command, receipt: Receipt | None) -> int:
        """As `submit`, in front of which tests put themselves: for chunks, of which there are many, compiled without
        looking whether one has."""
        if self.settling and (self._rested_until or not (type(command) is Enqueue or type(command) is Settle)):
            # What a client has settled comes before what it fetches then, or publishes in a later turn.
            self._rested_until = 0
            self.flush()
        if receipt is not None:
            receipt.expect()
        self._groups.touch(self.group_id)
        return self.stream.submit(command, receipt)

    def when_current(self, then: Callable[[], None]) -> None:
        """Call `then` once this node has applied all that was committed before: a command that changes nothing is
        applied behind it."""

        def done(refusals: list[Refusal]) -> None:
            if Refusal.UNKNOWN in refusals:
                self.when_current(then)  # the node's session was lost meanwhile: nobody knows when that was
            else:
                then()

        receipt = JointReceipt()
        self.submit(Detach(_NOBODY, False), receipt)
        receipt.seal(done)

    def submit_opening(self, command: Command, receipt: Receipt | None = None) -> None:
        """A command that makes a queue. That of a guest begins a batch: the leader, which may know more of what is
        wanted, looks there (`_as_wanted`)."""
        if self.guest is not None:
            self.flush()
            self.stream.begin_batch()
        self.submit(command, receipt)

    def go_on(self) -> None:
        """What its log has waited for may be there."""
        self._goes_on = True
        self.touch()

    def touch(self) -> None:
        """See CommandSink."""
        self._groups.touch(self.group_id)

    def fill(self, filling: WriteGroup) -> None:
        """It has something in this turn, and is told when that is to be submitted."""
        self._filling.append(filling)
        self._groups.touch(self.group_id)

    def filled(self, octets: int) -> None:
        """What is being filled has so many octets more, or fewer."""
        self.filled_bytes += octets

    def new_consumer(self) -> int:
        """See CommandSink."""
        return self.stream.new_consumer()

    # -- inputs --------------------------------------------------------------------------------------------------------

    def peer_connected(self, name: str, now: int) -> None:
        """There is a link to a node."""
        self._gone.pop(name, None)
        if name == self.leader:
            self.stream.resend()
        if self.guest is not None:
            self.guest.peer_connected()

    def peer_disconnected(self, name: str, now: int) -> None:
        """The link to a node is gone."""
        self._gone[name] = now
        self.feeds.drop(name)
        if self.guest is not None:
            self.guest.peer_disconnected(name)

    def receive_batch(self, node: str, payload: bytes, now: int) -> None:
        """Commands of another node; this one was the leader when they were sent. Raises PeerProtocolError."""
        if not self.raft.is_leader:
            return
        try:
            origin, _ = origin_of(payload)
            if origin != node:
                raise PeerProtocolError(f"{node} sends a batch of '{origin}' for queue group {self.group_id}")
            if self._serving and node in self._serving and begins_with_opening(payload):
                payload = self._as_wanted(payload)
            self._propose(payload, None, now)
        except Malformed as error:
            raise PeerProtocolError(f"{node}: a batch for queue group {self.group_id}: {error}") from error

    def _as_wanted(self, payload: bytes) -> bytes:
        """A batch of a guest that begins with making a queue: a guest does not see what is there, and may be behind
        with the metadata. It is made, or stays, as this node knows it to be wanted."""
        batch = decode_batch(payload, self.pager.addresses)
        queue = self.queues.get(batch.commands[0].queue_id)  # type: ignore[union-attr]  # what makes a queue has one
        if queue is not None:
            batch.commands[0] = queue.open_command()
        return encode_batch(batch)

    # -- members and guests --------------------------------------------------------------------------------------------

    def receive_request(self, node: str, payload: bytes, now: int) -> None:
        """A frame of a guest. Raises PeerProtocolError."""
        try:
            self.feeds.receive(node, decode_request(payload))
        except Malformed as error:
            raise PeerProtocolError(f"{node}: a frame of a guest of queue group {self.group_id}: {error}") from error

    def receive_answer(self, node: str, payload: bytes, now: int) -> None:
        """A frame for this node, which is no member, or may be none. Raises PeerProtocolError."""
        try:
            frame = decode_answer(payload)
            if self._leaving is not None and self._leaving.has_left(frame):
                self._left_term = max(self._left_term, frame.term)  # type: ignore[union-attr]  # it is a Found
                self._left_at = self.raft.last_index
                self._groups.touch(self.group_id)
            elif self.guest is not None:
                self.guest.receive(node, frame, now)
        except Malformed as error:
            raise PeerProtocolError(f"{node}: a frame for a guest of queue group {self.group_id}: {error}") from error

    def _look_at_members(self, now: int) -> None:
        """Whether this node is a member of the group, or a guest, may be another thing than before."""
        raft, guest, own = self.raft, self.guest, self._places.own_host
        members = self._groups.members_of(self.group_id)
        if self._left_term and raft.last_index != self._left_at:
            self._left_term = 0  # somebody has added it again since, and counts on what it has got
        if raft.is_outside or raft.is_leader or own in (members or (own,)):
            self._leaving, self._left_term = None, 0
        elif not self._left_term:
            self._leaving = self._leaving or LeavingMember(self, self._groups.send_request)
            self._leaving.work(now)
        if guest is None:
            if self._left_term or (raft.is_outside and members):
                self._become_guest(now)
        elif self._left_term:  # it was to be a member, and was taken off the list before it could go on as one
            self._forget_copy()
        elif own in raft.members and raft.last_applied >= guest.index:
            self._become_member(guest, now)
        else:
            guest.work(now)

    def _become_guest(self, now: int) -> None:
        """This node is no member. What it has heard of its session it has heard; its commands stay as they are, and
        what it had of the group goes."""
        self.absorb(now)
        machine, raft, session = self.machine, self.raft, self.stream.session
        heard = machine.heard() if machine.own_session == session else Heard.nothing(session)
        index = raft.last_applied
        if self._left_term:
            self._forget_copy()
        machine.begin_session(0)
        self.guest = Guest(self, self._groups.send_request, heard, index)
        self.stream.resend()
        self.guest.work(now)

    def _forget_copy(self) -> None:
        """A leader has said that this node is no member any more."""
        log.info("queue group %d: this node is no member any more", self.group_id)
        self.machine.clear()
        self.raft.leave(self._left_term)
        self._leaving, self._left_term = None, 0
        self._tell_queues()

    def _tell_queues(self) -> None:
        """Those hear of it, in slices, that are read here: it is a member now, or is not any more."""
        if self._steps is None:
            self._background.add(self._tell_some)
        self._steps = self._telling()

    def _telling(self) -> Iterator[None]:
        for queue in list(self.queues.values()):
            moved = getattr(queue, "moved", None)
            if moved is not None:
                yield from moved()
            yield

    def _tell_some(self, now: int) -> bool:
        """A slice of that."""
        assert self._steps is not None  # who ends it does not come again
        if all(next(self._steps, _ENDED) is not _ENDED for _ in range(_TOLD_AT_ONCE)):
            return True
        self._steps = None
        return False

    def _become_member(self, guest: Guest, now: int) -> None:
        """This node votes, and has applied all of which it has heard as a guest."""
        log.info("queue group %d: this node is a member now", self.group_id)
        self.guest = None
        guest.close()
        self.machine.resume(guest.heard())
        self._tell_queues()
        self.stream.resend()
        self.absorb(now)

    def attached(self, now: int) -> None:
        """A member serves this guest from now on."""
        self.stream.resend()
        self._groups.touch(self.group_id)

    def synced(self, position: int) -> bool:
        """The journal is on the disk so far. Returns whether there is more to wait for. Raises OSError."""
        self.machine.synced(position)
        if self.letters.is_active:
            self.letters.synced(position)
        return self._awaits_disk()

    def written(self, position: int) -> bool:
        """What was done in this turn is in the journal, which ends there. Returns whether something waits for the disk.
        For turns in which something was done."""
        self.machine.end_turn(position)
        return self._awaits_disk()

    def _awaits_disk(self) -> bool:
        return bool(self.machine.awaits_disk or (self.letters.is_active and self.letters.awaits_disk))

    def absorb(self, now: int) -> None:
        """What was applied since the last call takes effect."""
        machine = self.machine
        if self.letters.proposed:
            self.letters.applied(self.raft.last_applied, self._is_own_entry)
        if machine.role_changes != self._role_changes:
            self._role_changes = machine.role_changes
            self._on_role_changed(now)
        effects = machine.take_effects()
        if effects:
            self.absorb_effects(effects, now)
        if machine.entry_waits is not None or machine.export_waits is not None:
            self._damaged.look()
        if machine.entry_comes is not None:
            self._coming.wait_for(machine.entry_comes)
        if self._serving:
            self.feeds.work()
        if self._timed:
            self._tell_times()
        if self._sampled:
            self._take_sample(now)
        if self._watchers:
            self._wake_watchers()
        if self.letters.is_active and self.leads_and_knows:
            self.letters.begin(now)

    def absorb_effects(self, effects: list[Effect], now: int) -> None:
        """What was applied, here or where this node is a guest, takes effect."""
        before = self.stream.unapplied
        outcomes = self.stream.on_effects(effects)
        if self.stream.unapplied != before:
            self._progress_at = now
        self.take_effects(effects)
        for outcome in outcomes:
            receipt: Receipt = outcome.token  # type: ignore[assignment]  # whoever submits to a group gives one
            receipt.complete(outcome.refusal)
        if self._is_session_closed:
            self._is_session_closed = False
            newest = self.stream.session if self.guest is None else max(self.stream.session, self.guest.newest_session)
            self._reopen(self._session_above(newest, now))

    def _tell_times(self) -> None:
        """How long what is applied now was under way."""
        timings, timed, applied = self._groups.timings, self._timed, self.raft.last_applied
        while timed and (timed[0][0] <= applied or not self.raft.is_leader):
            _, began = timed.popleft()
            if timings is not None and self.raft.is_leader:
                timings.since("commit", began)

    def _take_sample(self, now: int) -> None:
        """One entry at a time: how long it was under way, if it is applied."""
        if not self.raft.is_leader:
            self._sampled = 0
        elif self.raft.last_applied >= self._sampled:
            self._sampled = 0
            self.commit_ms += (max(0, now - self._sampled_at) - self.commit_ms) * _NEWEST_SHARE

    def watch(self, queue_id: int, wake: Callable[[], None]) -> None:
        """Call `wake` once, when a queue has ready messages, or is gone."""
        self._watchers[queue_id] = wake
        self._groups.touch(self.group_id)

    def tell_growth(self, queue_id: int, wake: Callable[[], None] | None) -> None:
        """Call `wake` whenever a stream has more, None for not any more."""
        self._growing.pop(queue_id, None)
        if wake is not None:
            self._growing[queue_id] = wake
        self.machine.tell_growth(queue_id, wake is not None)

    def _wake_watchers(self) -> None:
        for queue_id, wake in list(self._watchers.items()):
            figures = self.machine.statistics(queue_id)
            if (figures is not None and figures.ready) or queue_id not in self.queues:
                del self._watchers[queue_id]
                wake()

    def other_effect(self, effect: Effect) -> None:
        """See CommandSink."""
        if isinstance(effect, Grown):
            wake = self._growing.get(effect.queue_id)
            if wake is not None:
                wake()
        elif isinstance(effect, Unreadable):
            self.submit(Settle(effect.consumer, How.RETURN, ((effect.delivery_id, effect.delivery_id),)))
        elif isinstance(effect, DeadLettered):
            self.letters.note(effect)
        elif isinstance(effect, Discarded):
            queue = self.queues.get(effect.queue_id)
            if queue is not None:
                self._discards.note(queue.declaration.vhost, queue.name, effect.messages, self.clock.now)
        elif isinstance(effect, SessionClosed):
            self._is_session_closed = True
        elif isinstance(effect, QueueGone):
            self._on_queue_gone(effect)
        elif isinstance(effect, QueueOpened) and (self._groups.has_lists or self.is_forgotten(effect.queue_id)):
            # It was deleted while the command that opens it was on its way; or a guest has opened it, which does not
            # see what the log has, as its own metadata had it.
            self._unreconciled[effect.queue_id] = None
            self._groups.touch(self.group_id)

    def _on_queue_gone(self, effect: QueueGone) -> None:
        """The log has deleted a queue. One that has expired is in the metadata still: the leader sees to that."""
        queue = self.queues.get(effect.queue_id)
        if self.machine.is_discarding:
            self._discard_later()
        self._ended.pop(effect.queue_id, None)
        if queue is not None:
            queue.is_prepared = True  # it is not to be made again by who publishes to it now
        if queue is None or effect.why is not Gone.EXPIRED or not self.raft.is_leader:
            return
        expired = cast("Queue", queue)
        if self.host.is_there(expired):
            log.info("queue '%s' in vhost '%s' expired", queue.name, queue.declaration.vhost)
            self.host.remove_queue(expired)

    def _discard_later(self) -> None:
        if self._discard not in self._background.jobs:
            self._background.add(self._discard)

    def _reopen(self, session: int) -> None:
        """The session is over: others took this node for dead, or it has slept. What was not applied goes again; what
        consumers held is back in the queues."""
        log.warning("queue group %d: the session of this node is over, a new one begins", self.group_id)
        reopened = self.stream.reopen(session)
        if self.guest is None:
            self.machine.begin_session(self.stream.session)
        else:
            self.guest.begin_session(self.stream.session)
        self.renumber(reopened.consumers)
        for token in reopened.dropped:
            token.complete(Refusal.UNKNOWN)

    @property
    def leads_and_knows(self) -> bool:
        """Whether this node leads, and has applied what earlier leaders have left (they may have dispatched letters);
        and knows the metadata."""
        is_leader = self.raft.is_leader and self.raft.last_applied >= self._leads_from
        return bool(is_leader and self._groups.is_ready())

    def _on_role_changed(self, now: int) -> None:
        self._leads_from = self.raft.last_index
        self.stream.resend()
        if self._serving and not self.raft.is_leader:
            self.feeds.close()
        led_term = self._led_term
        self._led_term = self.raft.term if self.raft.is_leader else 0
        if not self._led_term or self._led_term != led_term:
            # Not where a transfer was given up: nobody tells this node of its letters again.
            self.letters.reset()
        self._downed.clear()
        self._ticked = 0
        self._rests_until = 0
        if self.raft.is_leader:
            self.compare()
            for name in self.machine.open_sessions():
                if name != self.own_node and not self._groups.is_linked(name):
                    self._gone.setdefault(name, now)

    # -- output --------------------------------------------------------------------------------------------------------

    def end_turn(self, now: int) -> None:
        """What the turn has to say to the group is proposed, or goes to the leader."""
        if self.machine.wants_checkpoint():
            self.raft.take_checkpoint()
        if self._goes_on:
            self._goes_on = False
            self.raft.go_on()
            self.absorb(now)
        if self._filling and not self._fills_on():
            filling, self._filling = self._filling, []
            self._gathered = 0
            self.sealed += 1
            for each in filling:
                each.seal()
        if not self._let_settling_rest(now):
            self.flush()
        self._groups.served(self.group_id)
        if self._filling:
            self._groups.touch_when_synced(self.group_id)
        if self._groups.has_lists:
            self._look_at_members(now)
        member = self._member
        leader = member.role.leader if self.guest is None else self.guest.leader
        if leader is None or now < self._rests_until:
            return
        if member.is_leader:
            if self.guest is not None:
                return  # it has not applied yet what it has heard as a guest
            self._do_chores(now)
        else:
            leader = self.leader
            if leader is None or not self._groups.is_linked(leader):
                return
        if self._has_waited(now):
            guest = self.guest
            newest = self.machine.last_session_of(self.own_node) if guest is None else guest.newest_session
            if newest > self.stream.session:  # of an earlier run, when the clock was ahead of what it is now
                self._reopen(self._session_above(newest, now))
            self.stream.resend()
        batches = self.stream.take()
        if not batches:
            return
        if not self._is_waiting:
            self._progress_at = now
        self._is_waiting = True
        for batch in batches:
            if not self._send(leader, batch.octets, batch.made, now):
                self.stream.resend()
                self._rests_until = now + _REST_MS
                return

    def _fills_on(self) -> bool:
        """Whether what comes in the next turns goes along with what is filled: the disk is busy, and it would wait for
        the sync after that in any case; or it is little, and more comes at once. Not where other members have it on
        their way meanwhile, nor when it is much."""
        if not self._member.is_leader or self.guest is not None:
            return False
        if len(self.raft.members) + len(self.raft.learners) > 1:
            return False
        count = len(self._filling)
        if count > _MOST_FILLING or self.filled_bytes > _MOST_FILLED_BYTES:
            return False
        if self._journal.is_writing:
            return True
        if self._gathered >= _MOST_GATHERED or self._groups.input_until <= self.clock.now:
            return False
        if self.filled_bytes > count * _SMALL_CHUNK_BYTES:
            return False
        self._gathered += 1
        self._groups.touch_in_next_turn(self.group_id)
        return True

    def _let_settling_rest(self, now: int) -> bool:
        """Acknowledgements for which nobody waits go along with what comes next, or when they have rested for
        `rest_ms`: alone, they would cost all members an entry and a sync, for which the next message has to wait."""
        if not self.settling or self.stream.has_open:
            self._rested_until = 0
            return False
        if not self._rested_until:
            self._rested_from = now
        if not 0 <= now - self._rested_from < self.rest_ms:  # below zero: the clock was set back
            self._rested_until = 0
            return False
        self._rested_until = self._rested_from + self.rest_ms
        return True

    def _send(self, leader: str, batch: bytes, made: Batch | None, now: int) -> bool:
        member = self._member
        if member.is_leader:
            return self._propose(batch, made, now)
        return self._groups.send_batch(leader, self.group_id, batch)

    def _propose(self, batch: bytes, made: Batch | None, now: int) -> bool:
        """A batch, of whatever node, becomes an entry of this node's log. It is measured how long that takes. made:
        what it holds, where it is this node's own and that is known."""
        if not self.machine.propose(self.raft, batch, now, made):
            return False
        if self._groups.timings is not None:
            self._timed.append((self.raft.last_index, self._groups.timed_now()))
        if not self._sampled:
            self._sampled, self._sampled_at = self.raft.last_index, now
        return True

    def _has_waited(self, now: int) -> bool:
        """Whether something was sent, and nothing was applied for long."""
        if not self.stream.unapplied:
            self._is_waiting = False
            return False
        if self._is_waiting and not 0 <= now - self._progress_at < _RESEND_MS:
            self._progress_at = now
            return True
        return False

    # -- chores of the leader ------------------------------------------------------------------------------------------

    def _do_chores(self, now: int) -> None:
        if self._unreconciled and self._groups.is_ready():
            self._reconcile()
        commands: list[Tick | NodeDown | Dispatched] = []
        if self._gone:
            commands += self._nodes_down(now)
        if self.letters.is_active:
            commands += self.letters.take_dispatched()
        due = self.machine.next_deadline()
        if due is not None and not commands and self._is_past(due, now) and self.raft.last_applied >= self._ticked:
            commands.append(Tick())
        if not commands:
            return
        if self.raft.propose(encode_leader_batch(now, commands)):
            self._ticked = self.raft.last_index
            for command in commands:
                if isinstance(command, Dispatched):
                    self.letters.record_proposal(command, self._ticked, self.raft.term)
            return
        self._rests_until = now + _REST_MS
        self._downed.clear()
        for command in commands:
            if isinstance(command, Dispatched):
                self.letters.put_back(command)

    def _is_own_entry(self, index: int, term: int) -> bool:
        """Whether the entry there, which is applied, is of this term, in which this node leads or has led."""
        found = self.raft.term_at(index)
        return found == term or (found is None and self.raft.is_leader and self.raft.term == term)

    def _is_past(self, due: int, now: int) -> bool:
        """Whether it is so late, by this node's clock or the group's."""
        return due <= now or due <= self.machine.clock

    def _nodes_down(self, now: int) -> list[NodeDown]:
        """The nodes that have been gone for so long that their consumers go."""
        found = []
        for name, since in self._gone.items():
            session = self.machine.session_of(name)
            if session and now - since >= self._node_down_ms and self._downed.get(name) != session:
                self._downed[name] = session
                gone_ms = now - since
                log.warning("queue group %d: %s is gone for %d ms, its consumers go", self.group_id, name, gone_ms)
                found.append(NodeDown(name, session))
        return found

    def compare(self) -> None:
        """The leader has to look at all queues: at its first, and once more when it is ready. What has changed in the
        metadata before that was told to nobody."""
        if self.raft.is_leader:
            self._unreconciled = dict.fromkeys([*self.queues, *self.machine.queue_ids()])

    def _reconcile(self) -> None:
        """Queues that the metadata have and the log has not, or has otherwise, or the other way round: a slice of
        those, and the others in the next turns. Where the same id may be in use again, its end comes before that."""
        unreconciled = self._unreconciled
        ended = [queue_id for queue_id in self._ended if queue_id in unreconciled]
        for queue_id in dict.fromkeys([*ended, *islice(unreconciled, SLICE)]):
            del unreconciled[queue_id]
            queue = self.queues.get(queue_id)
            present = self.machine.settings_of(queue_id)
            if queue_id in self._ended and present is not None:
                self.drop(queue_id)
                present = None
            if queue is not None:
                if present != queue.wanted:
                    queue.is_prepared = True
                    self.submit(queue.open_command())
            elif present is not None and self.is_forgotten(queue_id):
                self.drop(queue_id)

    def drop(self, queue_id: int) -> None:
        """Have the log forget a queue."""
        self._ended.pop(queue_id, None)
        self._tallying.append(lambda refusal, count: None)
        self.submit(DropQueue(queue_id))

    def next_deadline(self) -> int:
        """When `end_turn` has something to do again; 0 for never."""
        earliest = _NEVER
        if self.machine.wants_checkpoint():  # if the one before is not on the disk yet, it is soon
            earliest = self.clock.now + _REST_MS
        if self._gathered and not self._journal.is_writing:  # else it goes on when that is over
            earliest = min(earliest, self.clock.now + _GATHER_MS)
        if self._rests_until > self.clock.now:
            earliest = min(earliest, self._rests_until)
        if self.settling and self._rested_until:
            earliest = min(earliest, self._rested_until)
        if self._is_waiting and self.stream.unapplied:
            earliest = min(earliest, self._progress_at + _RESEND_MS)
        member = self._member
        if member.is_leader:
            earliest = min(earliest, self._next_chore())
        if self.guest is not None:
            due = self.guest.next_deadline(self.clock.now)
            earliest = min(earliest, due or _NEVER)
        if self._leaving is not None:
            earliest = min(earliest, self._leaving.next_at)
        return 0 if earliest == _NEVER else max(earliest, self._rests_until)

    def _next_chore(self) -> int:
        """When the leader has something to do; _NEVER."""
        if self._unreconciled and self._groups.is_ready():
            return self.clock.now
        earliest = _NEVER
        due, member = self.machine.next_deadline(), self.raft.member
        if due is not None and member.last_applied >= self._ticked:
            earliest = due
        if self.letters.is_active:
            again = self.letters.next_deadline()
            if again is not None:
                earliest = min(earliest, again)
        if self._gone:
            for name, since in self._gone.items():
                session = self.machine.session_of(name)
                if session and self._downed.get(name) != session:
                    earliest = min(earliest, since + self._node_down_ms)
        return earliest


def _newest_session(raft: Group, machine: QueueGroupMachine, own: str) -> int:
    """Of this node, as far as the log knows."""
    newest = int(machine.last_session_of(own))
    for data, _, _, kind in raft.entries:
        if kind == REGULAR and data:
            origin, session = origin_of(data)
            if origin == own:
                newest = max(newest, session)
    return newest
