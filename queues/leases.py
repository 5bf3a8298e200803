"""LeaseGroup: messages of one queue that a reader outside has taken on lease, as an ordered log.

    claim -> [trimmed, next) -> ack       settled
                             -> release   back in the queue, redelivered; the group is gone

The reader claims what is ready, reads its range as often as it likes, and acknowledges up to an offset; the group
remembers the rest, whoever dies. It knows nothing of who calls, and of owners and incarnations only that they are kept.

    LEASE   u64 queue id, u64 group id, u8 state, u64 trimmed, u64 next, u64 next sequence of the queue,
            three long strings: name, incarnation, owner

Invariants:
1. A message is in the queue or in one of its groups, never in both and never in neither: one entry of the journal
   takes it over, in either direction (queues/moved.py; whole pages: queues/moved_page.py).
2. What is claimed has left the queue: its expiry, length limits, dead letters and purges do not reach it.
3. The last LEASE entry of a group is in no journal segment that was retired.
4. The queue never gives the sequence of a message that is leased to another one, though nothing else of the queue may
   be in the journal: LEASE and MOVED say how far it is.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import cython

from queues.message import Message
from queues.message_log import MessageLog, RangeGone
from queues.moved import Move
from queues.moved_page import append_moved_page, look
from queues.page import Page
from queues.ready import Ready
from queues.store import LEASE

if TYPE_CHECKING:
    from queues.recovered_lease import RecoveredLease

if not cython.compiled:
    from queues.message import make_message

#: Ids of lease groups lie above this, made from their names.
LEASE_IDS = 3 << 60

OPEN = 0
#: What it holds is going back to the queue.
RELEASING = 1
GONE = 2

#: So much is written as one entry.
_MOVE_MESSAGES = 1024
_MOVE_BYTES = 1_048_576
#: One claim takes so many messages one by one; what comes as whole pages costs next to nothing.
_SINGLE_MESSAGES = 4096
#: So many octets go back to the queue in one turn.
_RELEASE_BYTES = 4_194_304


def lease_id(queue_id: int, name: str, incarnation: str) -> int:
    """The id under which a group is stored."""
    text = f"{queue_id}\0{name}\0{incarnation}".encode("utf-8", "surrogateescape")
    return LEASE_IDS + int.from_bytes(hashlib.blake2b(text, digest_size=7).digest(), "big")


def is_lease_id(queue_id: int) -> bool:
    """Whether `lease_id` has made it."""
    return queue_id >> 56 == LEASE_IDS >> 56


def _lasting(message: Message) -> Message:
    """The message, to be kept on the disk."""
    if message.is_persistent:
        return message
    return make_message(
        message.raw,
        message.content,
        message.header_end,
        message.body,
        message.body_size,
        True,
        message.priority,
        message.expiration,
        message.timestamp,
    )


class LeaseGroup(MessageLog):
    """One group of a ClassicQueue, made by `open_lease`.

    queue: whose messages it takes. name; incarnation: 32 hexadecimal digits, never the same again; owner: who may
    claim, as the group was told last. last_called: when it was told or asked something last, ms since the epoch.

    Everything that changes it is in the journal when the method returns, and durable once `store.journal.position` is
    synced; a group of a queue that is not durable is in RAM only.
    """

    def __init__(self, queue: Any, group_id: int, name: str, incarnation: str, owner: str, now: int) -> None:
        super().__init__(group_id, queue.pager, queue.store if queue.is_durable else None)
        self.queue = queue
        self.name = name
        self.incarnation = incarnation
        self.owner = owner
        self.last_called = now
        self.state = OPEN
        self._state_segment = 0
        queue.store.add_log(queue.queue_id, self.queue_id)

    def write_state(self) -> None:
        """Write the LEASE entry."""
        if not self.is_durable:
            return
        store = self.store
        self._state_segment = store.segment(self)
        buffer = store.journal.open_entry(LEASE)
        buffer.put_u64(self.queue.queue_id)
        buffer.put_u64(self.queue_id)
        buffer.put_u8(self.state)
        buffer.put_u64(self.trimmed)
        buffer.put_u64(self.next)
        buffer.put_u64(self.queue.next_sequence)
        for text in (self.name, self.incarnation, self.owner):
            buffer.put_longstr(text.encode("utf-8", "surrogateescape"))
        store.position = store.journal.close_entry()

    # -- what its reader does ----------------------------------------------------------------------------------------

    def claim(self, max_messages: int, max_bytes: int, now: int) -> int:
        """Take ready messages of the queue, in delivery order: so many at most, and at most so many octets of packed
        messages; one at least, if there is one. Returns how many, which is fewer than there are when many had to be
        taken one by one."""
        self.last_called = now
        taken = 0
        octets = 0
        singles = 0
        ready = self.queue.ready
        while taken < max_messages and octets < max_bytes and singles < _SINGLE_MESSAGES:
            before = self.page_octets + self.tail.buffer.length
            count = self._take_page(ready, max_messages - taken, max_bytes - octets)
            if count:
                taken += count
                octets += self.page_octets + self.tail.buffer.length - before
                continue
            most = min(max_messages - taken, _MOVE_MESSAGES)
            if ready.peek() is not None and ready.pages:
                most = min(most, len(ready.head))  # what follows may go by the page again
            entries = self.queue.take_ready(most, min(max_bytes - octets, _MOVE_BYTES), taken == 0, now)
            if not entries:
                break
            self._take_in(entries)
            taken += len(entries)
            singles += len(entries)
            octets += self.page_octets + self.tail.buffer.length - before
        self.queue.take_ready(0, 0, False, now)  # what is the first now may be one that expires
        return taken

    def _take_page(self, ready: Ready, most: int, max_bytes: int) -> int:
        """The queue's next page is the group's as it is. Returns its messages; 0, and nothing has changed, where there
        is no page of so many messages and octets at most, or where each message needs a word of its own."""
        page = ready.first_page(most, max_bytes)
        if page is None:
            return 0
        octets: Any = page.data
        plain = look(octets, page.start, page.start + page.size)
        if plain is None or plain.count != page.count:
            return 0
        queue = self.queue
        if self.is_durable and plain.persistent_count < plain.count:
            return 0
        taken: Page | None = page
        if page.location is not None or (self.is_durable and not plain.is_in_journal):
            taken = self._copy(page)
        if taken is None:
            return 0
        ready.take_first_page()
        if self.is_durable:
            if taken is page:
                for segment in plain.segments:
                    self.store.touch(segment, self)
            append_moved_page(self.store, queue, self, plain, taken)
        if taken is not page:
            self.pager.used += taken.size
            self.pager.release(queue.queue_id, page)
        queue.delivered += taken.count
        self.add_page(taken)
        return int(taken.count)

    def _copy(self, page: Page) -> Page | None:
        """A page of the queue's in RAM, with a place on disk that is the group's, where it is to be durable. None: on a
        full disk there is none."""
        octets: Any = page.data
        if page.size < len(octets):
            octets = octets[page.start : page.start + page.size]
        copy = Page(octets, page.count, page.first, page.last, page.message_bytes)
        copy.durable_count = page.durable_count
        copy.durable_bytes = page.durable_bytes
        if self.is_durable:
            self.pager.store(self.queue_id, copy)
            if copy.location is None:
                return None
        return copy

    def _take_in(self, entries: list[Any]) -> None:
        """Messages that the queue has given up are the group's."""
        store = self.store
        pager = self.pager
        is_durable = self.is_durable
        touched = 0
        move = Move(store, self.queue) if is_durable else None
        for entry in entries:
            message = entry.message
            segment = entry.journal_segment
            if is_durable:
                message = _lasting(message)
                has_octets = entry.page is not None or segment == 0
                if has_octets:
                    segment = store.segment(self)
                elif segment != touched:
                    store.touch(segment, self)
                    touched = segment
                move.add(  # type: ignore[union-attr]
                    message,
                    entry.sequence,
                    entry.returns,
                    entry.is_redelivered,
                    has_octets,
                    self.queue_id,
                    self.next,
                    entry.expires_at,
                )
            if entry.page is not None:
                pager.settle(self.queue.queue_id, entry.page)
                entry.page = None
            pager.used -= entry.message.size
            self.add(message, entry.sequence, entry.expires_at, segment, entry.returns, entry.is_redelivered)
        if is_durable:
            move.close()  # type: ignore[union-attr]

    def ack(self, upto: int, now: int) -> int:
        """Everything below `upto` is done with. Returns `trimmed`. Raises RangeGone above `next`."""
        self.last_called = now
        if upto > self.next:
            raise RangeGone(f"offset {upto} of group '{self.name}' is not there yet: it ends at {self.next}")
        if upto > self.trimmed:
            self.trim(upto)
            self.write_state()
        return self.trimmed

    def set_owner(self, owner: str, now: int) -> None:
        """Somebody else claims from now on."""
        self.last_called = now
        if owner != self.owner:
            self.owner = owner
            self.write_state()

    # -- the end -------------------------------------------------------------------------------------------------------

    def release(self, now: int) -> int:
        """Everything goes back to the queue, to its original place, marked as redelivered, and the group is gone.
        Returns how many messages. Of a large group the rest follows in turns to come."""
        count = self.count
        self.state = RELEASING
        del self.queue.lease_groups[self.name]
        self.queue.parting[self.queue_id] = self
        self.write_state()
        self.go_on(now)
        return count

    def go_on(self, now: int) -> None:
        """Put some more back."""
        if self.is_deleted:
            return
        octets = 0
        while self.count and octets < _RELEASE_BYTES:
            octets += self._put_back_page(now)
        if self.count:
            self.queue.timers.at(now + 1, self.go_on)
        else:
            self.state = GONE
            self.write_state()
            self.queue.parting.pop(self.queue_id)
            self.forget()
            self.queue.store.drop_log(self.queue.queue_id, self.queue_id)
        self.queue.dispatch(now)

    def _put_back_page(self, now: int) -> int:
        """The last page goes back to the queue: from the end, so that each is in front of the one before. Returns its
        octets, about."""
        store = self.store
        pager = self.pager
        queue = self.queue
        octets = 0
        entries = self.take_last(0)
        offset = self.next
        touched = 0
        move = Move(store, self) if self.is_durable else None
        for entry in entries:
            segment = entry.journal_segment
            if self.is_durable:
                has_octets = segment == 0
                if has_octets:
                    entry.journal_segment = store.segment(queue)
                elif segment != touched:
                    store.touch(segment, queue)
                    touched = segment
                move.add(  # type: ignore[union-attr]
                    entry.message,
                    offset,
                    entry.returns + 1,
                    True,
                    has_octets,
                    queue.queue_id,
                    entry.sequence,
                    entry.expires_at,
                )
            offset += 1
            octets += entry.message.size
        if self.is_durable:
            move.close()  # type: ignore[union-attr]
        queue.unacked += len(entries)
        queue.put_back(entries, now)
        if pager.used > pager.tight_bytes:
            queue.ready.page_out(pager.used - pager.tight_bytes)
        queue.ready.shorten_head()
        return octets

    # -- the journal ---------------------------------------------------------------------------------------------------

    def leave_segment(self, segment: int) -> None:
        """As MessageLog.leave_segment; what it is goes along."""
        MessageLog.leave_segment(self, segment)
        if 0 < self._state_segment <= segment:
            self.write_state()

    def restore(self, recovered: RecoveredLease) -> None:
        """Take over what was found on disk. Called once, on an empty group."""
        self.state = recovered.state
        self._state_segment = recovered.state_segment
        for segment in (recovered.state_segment, recovered.pages_segment):
            if segment:
                self.store.touch(segment, self)
        self.adopt(recovered.items, recovered.trimmed, recovered.next)


def open_lease(queue: Any, name: str, owner: str, incarnation: str, now: int) -> LeaseGroup:
    """The group of that name of a ClassicQueue, which belongs to `owner` from now on; if it is not there it is made,
    with this incarnation. Written to the journal, not synced."""
    groups: dict[str, LeaseGroup] = queue.lease_groups
    group = groups.get(name)
    if group is None:
        group = LeaseGroup(queue, lease_id(queue.queue_id, name, incarnation), name, incarnation, owner, now)
        groups[name] = group
        group.write_state()
    else:
        group.set_owner(owner, now)
    return group


def restore_lease(queue: Any, recovered: RecoveredLease, now: int) -> None:
    """Give a ClassicQueue a group that was found on disk, after its own `restore`."""
    group = LeaseGroup(queue, recovered.group_id, recovered.name, recovered.incarnation, recovered.owner, now)
    group.restore(recovered)
    if group.state == OPEN:
        queue.lease_groups[group.name] = group
    else:
        queue.parting[group.queue_id] = group
        group.go_on(now)


def groups_of(queue: Any) -> list[LeaseGroup]:
    """All groups of a ClassicQueue that hold something or may."""
    return [*queue.lease_groups.values(), *queue.parting.values()]
