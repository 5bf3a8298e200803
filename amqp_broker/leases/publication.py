"""Publication: the messages of a committed epoch go into the queues that they are routed to.

    the first blob of the first part -> routed -> submitted to the queues elsewhere -> these have it
    -> one MOVED entry: the messages are in the queues here, and the blob is gone -> the next blob

Why every message is published exactly once, whatever crashes when:

The note that commits an epoch (app.py) is one journal entry. Before it is synced nothing is published, and nobody is
told; a crash then leaves the parts staged, or nothing of the commit. After it nobody can stage or commit that epoch
again, and its parts are in the note, in order, until there is a note without them. So all that can go wrong is to
publish a blob twice, or to lose one.

A blob leaves its part by one MOVED entry, which also puts its messages into the durable queues of this node. The
journal has the entry or has it not: with it, the blob is not there after a restart, and the messages are in their
queues; without it, none of them is in a queue of this node, and the blob is published again. The note without the parts
is written after the MOVED entries of all their blobs, and a journal never has a later entry without the earlier ones.
Pages that hold blobs which were moved are unpacked at a restart (queues/recovery.py), and segments that hold these
entries are retired as for all queues.

What goes elsewhere is done before the MOVED entry: should a crash come between, it is done again. Quorum queues and
streams recognise that: each message has the app as its producer, and as producer sequence the ordinal of its blob,
which the note of the commit has fixed, and its place in the blob; these rise in the order of publication, and a queue
drops what is not above the highest. Other places cannot tell: classic queues whose home is another node, exchanges that
hold messages back, and quorum queues that refuse messages when they are full (there a message that was refused comes
later than the ones behind it): there, and there only, a crash of this node at the wrong moment repeats a blob, and so
does whatever else leaves the fate of a message unknown, such as the loss of the link to a classic queue's home. It is
one blob: the next one that goes to such a place waits until the MOVED entry of the one before is synced.

A classic queue may move to another home meanwhile. Nobody is given anything while it is held; then it is given where
the queue is, by the MOVED entry or before it.

Nothing is dropped because a queue is full: queues of this node take a committed transaction beyond their limit, and
what was refused elsewhere is tried again until it is taken. A message that is routed nowhere when it is published is
counted and dropped, as any is; staging has refused it, unless it was told not to.

Positions of groups of readers that a transaction has are in the note of its commit, too. They follow when all is
published, before the note without the parts, and are moved upwards only, so that they may follow twice.
"""

from __future__ import annotations

import hashlib
import logging
from typing import TYPE_CHECKING, TypeAlias

from amqp_broker.leases.app import App, Part
from amqp_broker.leases.app_note import Position
from amqp_broker.leases.blob import BlobReader
from amqp_broker.leases.staged_routes import StagedRoutes
from amqp_broker.routing.delays import DelayedMessages
from queues.arguments import Overflow
from queues.effects import Refusal
from queues.message import Message
from queues.moved import Move, MoveTarget
from queues.outcomes import PublishOutcome
from queues.page import AddressBook
from queues.receipts import LetterReceipt, Receipt
from queues.stream.commands import MoveGroup
from queues.wire.reader import octets_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from amqp_broker.leases.service import Leases
    from amqp_broker.routing.vhost import VHost
    from queues.queue import Queue
    from queues.write_group import WriteGroup

log = logging.getLogger("amqp_broker")
#: Whatever takes messages.
Target: TypeAlias = "Queue | DelayedMessages"
#: What was refused is tried again after so long, milliseconds.
RETRY_MS = 1000
#: Whether a queue is still held because its home changes is looked at so often, milliseconds.
_HELD_MS = 20
#: So many positions follow at a time.
_FOLLOWING = 256
#: Places of messages in a blob are below 1 << this.
_PLACE_BITS = 20
_MOST_BYTES = 1 << 62


class _Moved(Receipt):
    """Of a position that follows."""

    def __init__(self, publication: Publication, position: Position) -> None:
        self._publication = publication
        self._position = position

    def expect(self) -> None:
        """Its command is on its way."""
        self._publication.waiting += 1

    def complete(self, refusal: Refusal | None) -> None:
        """The group is there, or will not be."""
        self._publication.moved(self._position, refusal)


class _StreamFate(LetterReceipt):
    """Of one message in queues whose messages are one stream's, which knows it when it comes again."""

    def __init__(self, fate: _Fate, producer: bytes, number: int) -> None:
        super().__init__(producer, number)
        self._fate = fate

    def expect(self) -> None:
        """See _Fate."""
        self._fate.expect()

    def complete(self, refusal: Refusal | None) -> None:
        """See _Fate."""
        self._fate.complete(refusal)


class _Fate(Receipt):
    """Of one message in places elsewhere: if one of them has not taken it, the publication is told."""

    def __init__(self, publication: Publication, place: int, targets: Sequence[Target]) -> None:
        self._publication = publication
        self._place = place
        self._targets = targets

    def expect(self) -> None:
        """One more place is to have it."""
        self._publication.waiting += 1

    def complete(self, refusal: Refusal | None) -> None:
        """One place has it, or has refused it."""
        self._publication.completed(self._place, self._targets, refusal)


class Publication:
    """Of what one app has committed; made again after a restart. waiting: commands on their way; published, unroutable:
    how many messages went somewhere, and nowhere, since it was made."""

    def __init__(self, service: Leases, app: App) -> None:
        self.app = app
        self.published = 0
        self.unroutable = 0
        self.waiting = 0
        self._service = service
        self._addresses = AddressBook()
        self._broker = service.broker
        self._max_table_depth = service.config.max_table_depth
        self._timers = service.timers
        self._producer = b"txn\0" + hashlib.blake2b(
            octets_of(app.vhost) + b"\0" + octets_of(app.name), digest_size=16
        ).digest()
        # Streams remember a sender for long, and an app that was forgotten begins its numbers anew.
        self._sender = self._producer + app.incarnation
        self._parts = list(app.committed)
        self._positions = list(app.positions)
        self._blob: list[Message] | None = None
        #: By their places in the blob: who has yet to get it.
        self._left: list[list[Target]] = []
        #: Likewise, those that are held back before they are routed: with the keys of their blind copies.
        self._whole: dict[int, Message] = {}
        self._sequence = 0
        self._is_submitting = False
        self._rests_until = 0
        #: Whether the blob goes where it is not recognised if it comes twice; whether one that did so was moved, and
        #: that is not synced.
        self._may_repeat = False
        self._is_unsynced = False

    # -- steps ---------------------------------------------------------------------------------------------------------

    @property
    def is_waiting(self) -> bool:
        """Whether there is nothing to do until something comes from elsewhere, or some time has passed."""
        return self.waiting > 0 or self._service.now < self._rests_until

    def step(self, vhost: VHost) -> int:
        """Publish the next blob as far as is possible now. Returns how many messages were looked at, -1 when all is
        published. Raises CorruptRecord, ValueError when a blob cannot be read."""
        while self._parts and not self._parts[0].queue.message_count():
            self._parts.pop(0)
        if not self._parts:
            return self._follow()
        part = self._parts[0]
        if self._blob is None:
            self._may_repeat = False
            self._whole = {}
            self._blob, self._left = self._read(vhost, part)
        if not self._find_heirs(vhost):
            return 1
        count = len(self._left)
        given = [(place, [each for each in left if not is_here(each)]) for place, left in enumerate(self._left)]
        given = [(place, targets) for place, targets in given if targets]
        if given:
            self._may_repeat = self._may_repeat or not all(recognises(targets) for _, targets in given)
            if self._may_repeat and self._is_unsynced:
                # Should a crash come now, what was moved before would be repeated, and this blob as well.
                self.waiting += 1
                self._service.after_sync(self._synced)
                return 1
            self._left = [[each for each in left if is_here(each)] for left in self._left]
            self._submit(part, given)
        if not self.waiting and all(is_here(each) for left in self._left for each in left):
            self._move(vhost, part)
            self._blob = None
            self._is_unsynced = self._is_unsynced or self._may_repeat
        return max(1, count)

    def _find_heirs(self, vhost: VHost) -> bool:
        """Whether all that have yet to get a message may be given it: none is held because its home changes. One that
        has moved meanwhile gives way to the queue that has taken its place, one that is gone to nobody."""
        queues = vhost.queues
        for place, left in enumerate(self._left):
            found: list[Target] = []
            for target in left:
                if isinstance(target, DelayedMessages):
                    found.append(target)
                elif (heir := queues.get(target.name)) is not None:
                    if heir.writes.is_held:
                        self._rest(_HELD_MS)
                        return False
                    found.append(heir)
            self._left[place] = found
        return True

    def _follow(self) -> int:
        """All is published: groups of readers are where the transaction says. As `step`."""
        positions, self._positions = self._positions[:_FOLLOWING], self._positions[_FOLLOWING:]
        if not positions and not self.waiting:
            return -1
        self._is_submitting = True
        for position in positions:
            group = self._broker.group_of(position.queue_id)
            queue = group.queues.get(position.queue_id)
            if queue is not None:
                queue.prepare()
            command = MoveGroup(position.queue_id, position.group, position.offset)
            group.submit(command, _Moved(self, position))
        self._is_submitting = False
        return max(1, len(positions))

    def moved(self, position: Position, refusal: Refusal | None) -> None:
        """A position is known to have followed, or not to. One whose stream is gone does not matter any more."""
        self.waiting -= 1
        is_there = not self._broker.group_of(position.queue_id).is_forgotten(position.queue_id)
        if refusal is Refusal.UNKNOWN or (refusal is Refusal.NO_QUEUE and is_there):
            self._positions.append(position)
            self._rest()
        elif refusal is Refusal.FULL:
            log.error("app '%s' in vhost '%s': a stream has too many groups: '%s' does not begin at %d",
                      self.app.name, self.app.vhost, position.group, position.offset)  # fmt: skip
        self._look_on()

    def _rest(self, milliseconds: int = RETRY_MS) -> None:
        """What has had no success is tried again, but not at once."""
        self._rests_until = self._service.now + milliseconds
        self._timers.at(self._rests_until, lambda now: None)

    def _look_on(self) -> None:
        if not self.waiting and not self._is_submitting:
            self._service.come_back()

    def _synced(self) -> None:
        """The blobs that were moved are gone for good."""
        self.waiting -= 1
        self._is_unsynced = False
        self._service.come_back()

    def _read(self, vhost: VHost, part: Part) -> tuple[list[Message], list[list[Target]]]:
        """The messages of the next blob, and where each of them goes."""
        entry = part.first()
        if entry is None:
            raise ValueError(f"{part.queue.name} has a blob that cannot be had")
        self._sequence = entry.sequence
        reader = BlobReader(entry.message.body_bytes())
        routes = StagedRoutes(vhost, self._max_table_depth, self._addresses)
        found: list[Message] = []
        targets: list[list[Target]] = []
        while reader.advance():
            whole = routes.message(reader, self._service.now)
            message, route = routes.find(whole)
            if route.queues or route.delayed:
                self.published += 1
            else:
                self.unroutable += 1
            held_back = [vhost.delayed[name] for name in route.delayed if name in vhost.delayed]
            if held_back and whole is not message:
                self._whole[len(found)] = whole
            found.append(message)
            targets.append([*route.queues, *held_back])
        return found, targets

    # -- elsewhere -----------------------------------------------------------------------------------------------------

    def _submit(self, part: Part, places: list[tuple[int, list[Target]]]) -> None:
        """Hand messages, by their places in the blob, to whom no entry of the journal can put them into."""
        blob = self._blob or []
        first = (part.ordinal + self._sequence - 1) << _PLACE_BITS
        self._is_submitting = True
        for place, targets in places:
            message = blob[place]
            by_group: dict[tuple[WriteGroup, bool], list[Queue]] = {}
            by_stream: dict[WriteGroup, list[Queue]] = {}
            for target in targets:
                if isinstance(target, DelayedMessages):
                    held = self._whole.get(place, message)
                    target.add(held, self._service.now, _Fate(self, place, [target]))
                elif target.writes.is_local:
                    if target.publish(message, None, False, self._service.now) == PublishOutcome.REFUSED:
                        self._left[place].append(target)
                        self._rest()
                elif _is_of_a_stream(target):
                    by_stream.setdefault(target.writes, []).append(target)
                else:
                    by_group.setdefault((target.writes, refuses(target)), []).append(target)
            for queues in by_stream.values():  # once, however many of its queues are meant
                fate = _StreamFate(_Fate(self, place, queues), self._sender, first + place)
                queues[0].publish(message, fate, True, self._service.now)
            for (writes, may_refuse), queues in by_group.items():
                producer = b"" if may_refuse else self._producer
                writes.publish_numbered(message, queues, producer, first + place, _Fate(self, place, queues))
        self._is_submitting = False

    def completed(self, place: int, targets: Sequence[Target], refusal: Refusal | None) -> None:
        """A message is known to have been taken, or not."""
        self.waiting -= 1
        if refusal in (Refusal.FULL, Refusal.UNKNOWN):
            there = [target for target in targets if not target.is_deleted or self._has_moved(target)]
        else:
            there = [target for target in targets if self._has_moved(target)] if refusal is Refusal.NO_QUEUE else []
        if there:
            self._left[place] += there
            self._rest()
        self._look_on()

    def _has_moved(self, target: Target) -> bool:
        """Whether a queue was asked where it is not any more."""
        vhost = self._broker.vhosts.get(self.app.vhost)
        if vhost is None or isinstance(target, DelayedMessages):
            return False
        return vhost.queues.get(target.name) not in (None, target)

    # -- here ----------------------------------------------------------------------------------------------------------

    def _move(self, vhost: VHost, part: Part) -> None:
        """The blob leaves its part, and its messages are in the queues of this node."""
        store, now, sequence = vhost.store, self._service.now, self._sequence
        blob = [
            (message, [into for each in left if not each.is_deleted and (into := move_target(each)) is not None])
            for message, left in zip(self._blob or [], self._left, strict=True)
        ]
        for queue in dict.fromkeys(queue for _, queues in blob for queue in queues if queue.is_durable):
            store.segment(queue)
        segment = store.journal.current_segment
        move = Move(store, part.queue)
        planned: dict[MoveTarget, int] = {}
        for message, queues in blob:
            places = []
            for queue in queues:
                if queue.is_durable:
                    target = planned.get(queue, queue.next_sequence)
                    planned[queue] = target + 1
                    places.append((queue.queue_id, target, queue.expiry_of(message, now)))
            if places:
                move.add_for(message, sequence, 0, False, True, places)
        taken = part.queue.take_ready(1, _MOST_BYTES, True, now)
        if len(taken) != 1 or taken[0].sequence != sequence:
            raise ValueError(f"{part.queue.name}: blob {sequence} is not the first")
        # Whatever became of its messages, the blob is gone.
        move.add_for(taken[0].message, sequence, 0, False, False, [])
        move.close()
        pager = store.pager
        for entry in taken:
            pager.drop_entry(part.queue.queue_id, entry)
        for message, queues in blob:
            for queue in queues:
                place = segment if queue.is_durable else 0
                queue.enqueue(message, queue.expiry_of(message, now), place, queue.taker(), now)


def move_target(target: Target) -> MoveTarget | None:
    """As what the entry of the journal by which a blob leaves its part can put its messages into it."""
    return None if isinstance(target, DelayedMessages) else target.move_target()


def is_here(target: Target) -> bool:
    """Whether that entry can put messages into it."""
    return move_target(target) is not None


def recognises(targets: Sequence[Target]) -> bool:
    """Whether all of these drop what the app has given them before."""
    return all(not isinstance(each, DelayedMessages) and _recognises(each) for each in targets)


def _recognises(queue: Queue) -> bool:
    if _is_of_a_stream(queue):
        return True
    return queue.recognises_producers and not refuses(queue)


def _is_of_a_stream(queue: Queue) -> bool:
    """Whether its messages are in a stream, which is this one or another."""
    return queue.keeps_messages or queue.passes_on


def refuses(queue: Queue) -> bool:
    """Whether a queue does not take everything, so that what it is given twice may come out of order."""
    settings = queue.settings
    is_limited = settings.max_length is not None or settings.max_length_bytes is not None
    return bool(is_limited and settings.overflow is not Overflow.DROP_HEAD)
