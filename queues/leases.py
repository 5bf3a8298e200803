"""LeaseGroup: a lease group of a ClassicQueue, whose journal has it.

    LEASE   u64 queue id, u64 group id, u8 state, u64 trimmed, u64 next, u64 next sequence of the queue,
            three long strings: name, incarnation, owner

Invariants:
1. One entry of the journal takes a message over, in either direction (queues/moved.py; whole pages:
   queues/moved_page.py).
2. The last LEASE entry of a group is in no journal segment that was retired.
3. The queue never gives the sequence of a message that is leased to another one, though nothing else of the queue may
   be in the journal: LEASE and MOVED say how far it is.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import cython

from queues.lease import Lease
from queues.message import Entry, Message
from queues.message_log import MessageLog
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

#: So much is written as one entry.
_MOVE_MESSAGES = 1024
_MOVE_BYTES = 1_048_576
#: One claim takes so many messages one by one; what comes as whole pages costs next to nothing.
_SINGLE_MESSAGES = 4096


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


class LeaseGroup(Lease):
    """One group of a ClassicQueue.

    Everything that changes it is in the journal when the method returns, and durable once `store.journal.position` is
    synced; a group of a queue that is not durable is in RAM only.
    """

    def __init__(self, queue: Any, group_id: int, name: str, incarnation: str, owner: str) -> None:
        super().__init__(group_id, queue, queue.store if queue.is_durable else None, name, incarnation, owner)
        self._state_segment = 0
        queue.store.add_log(queue.queue_id, self.queue_id)

    def changed(self) -> None:
        """See Lease: write the LEASE entry."""
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

    def take(self, max_messages: int, max_bytes: int, now: int) -> int:
        """See Lease. Not all that there is, when many had to be taken one by one."""
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

    # -- the end -------------------------------------------------------------------------------------------------------

    def part_with(self, left: int) -> tuple[list[Entry], int]:
        """See Lease: its last page; octets."""
        store = self.store
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
        return entries, octets

    def discard(self) -> None:
        """See Lease."""
        self.forget()
        self.queue.store.drop_log(self.queue.queue_id, self.queue_id)

    # -- the journal ---------------------------------------------------------------------------------------------------

    def leave_segment(self, segment: int) -> bool:
        """As MessageLog.leave_segment; what it is goes along."""
        if MessageLog.leave_segment(self, segment):
            return True
        if 0 < self._state_segment <= segment:
            self.changed()
        return False

    def restore(self, recovered: RecoveredLease) -> None:
        """Take over what was found on disk. Called once, on an empty group."""
        self.state = recovered.state
        self._state_segment = recovered.state_segment
        for segment in (recovered.state_segment, recovered.pages_segment):
            if segment:
                self.store.touch(segment, self)
        self.adopt(recovered.items, recovered.trimmed, recovered.next)

