"""MessageStore: what queues write to the node's journal, how it is read back, and how the journal is kept short.

Journal entries (numbers big endian):

    ENQUEUE  u32 n, n x (u64 queue id, u64 sequence, u64 expires_at, u16 returns), packed message (queues/page.py)
    SETTLE   u64 queue id, u32 n, n x (u64 first, u64 count)
    PAGES    u64 queue id, u64 next sequence, u32 n, n x (u32 segment, u64 offset, u32 length, u64 first, u64 last,
             u32 durable count, u64 durable bytes): replaces what was known of the queue's stored pages
    RETURNED u64 queue id, u64 sequence, u32 returns
    RELEASED u32 n, n x (u64 queue id, u32 segment, u64 offset): nothing in these stored pages is live in them
    MOVED    messages leave one queue or log and are in others (queues/moved.py)
    MOVED_PAGE  a page of messages leaves a queue and is in a log (queues/moved_page.py)
    LEASE    the state of a lease group (queues/leases.py)
    NOTE     u64 id, octets: what somebody remembers who keeps messages in queues of his own; the last one of an id
             counts, one without octets ends it
    LETTERS  the dead letters of a queue that is deleted (queues/last_letters.py)

Invariants:
1. A live persistent message of a durable queue is in RAM or in a stored page; the journal is read at a restart only.
2. Before a journal segment is retired, everything live that relied on it has been stored in pages and synced, or
   written to the journal again; so its length is bounded whatever stays unacknowledged. They leave it one by one, in
   slices, who has much of it in several, and nothing comes to rely on it unnoticed meanwhile: what is written goes to
   the current segment, and whoever takes over what lies in it is noted there (`touch`).
3. PAGES names whole pages only: what is left of a page that was unpacked is written to the journal again.
4. A page that PAGES names is synced before that entry is, and stays until a RELEASED that names it is synced.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

import cython

from amqp_broker.octets.buffer import Buffer
from queues.message import Message
from queues.page import Page
from queues.pager import Pager
from storage.journal import Journal
from storage.page_store import PageSync

if not cython.compiled:
    from queues.page import put_message

ENQUEUE = 1
SETTLE = 2
PAGES = 3
RETURNED = 4
RELEASED = 5
MOVED = 6
LEASE = 7
NOTE = 8
MOVED_PAGE = 9
LETTERS = 10

#: Un-synced settlements are written at the latest after this many octets even when nobody waits.
LAZY_BYTES = 1_048_576
#: So many queues, and others who have something there, leave a segment in one slice; when they have written so many
#: octets, others wait for the next. Who has much there leaves it in slices of so many octets.
_LEAVE_SLICE = 32
_LEAVE_BYTES = 65_536
#: Slices become larger as the journal grows: this share of what it has grown by since the first. So who has ever more
#: to write again, as fast as it is written, leaves all the same.
_GROWN_SHIFT = 5


class MessageStore:
    """The durable side of all queues of a node."""

    def __init__(self, journal: Journal, pager: Pager, journal_limit_bytes: int) -> None:
        self.journal = journal
        self.pager = pager
        self.page_store = pager.page_store
        self.journal_limit_bytes = journal_limit_bytes
        self.position = 0
        self.leaving_segment = 0
        self._leaving_bytes = 0  # so long the journal was when that began
        self.leave_slice = _LEAVE_SLICE
        self.leave_bytes = _LEAVE_BYTES
        self.share_bytes = _LEAVE_BYTES  # of the present slice
        self.retiring_segment = 0
        self.retiring_position = 0
        self._releasing: deque[tuple[int, list[tuple[int, Any]]]] = deque()
        self._settling: list[Any] = []
        self._touched: dict[int, dict[Any, None]] = {}
        self._carried: dict[int, int] = {}
        self._listed: dict[int, tuple[int, int]] = {}  # by queue id: the segment that has its list, and its octets
        self._listed_bytes = 0
        self.synced_position = 0
        self._names_pages = False
        self._logs: dict[int, dict[int, None]] = {}
        self._dropping: list[int] = []
        self._spared: dict[int, bool] = {}  # queue id: whether its pages are to be dropped as soon as that is allowed
        #: Told of a queue, a message that it gives up, and why.
        self.on_drop: Callable[[Any, Message, Any], None] | None = None
        #: How many octets of others (the logs of groups) the journal has to hold.
        self._live_elsewhere: Callable[[], int] | None = None
        self._is_prepared: Callable[[int], bool] | None = None
        self._preparing = 0  # the segment for which they do so, 0 for none

    def count_elsewhere(self, live_bytes: Callable[[], int]) -> None:
        """Others have something in the journal too: so many octets."""
        self._live_elsewhere = live_bytes

    def watch_drops(self, on_drop: Callable[[Any, Message, Any], None] | None) -> None:
        """Somebody wants to be told of what queues give up; None: nobody does any more."""
        self.on_drop = on_drop

    # -- writing -------------------------------------------------------------------------------------------------

    def append_message(
        self, message: Message, queue_id: int, sequence: int, expires_at: int, returns: int
    ) -> int:
        """Write a message that goes to one queue. Returns the journal position that has to be synced to cover it."""
        buffer = self.journal.open_entry(ENQUEUE)
        buffer.put_u32(1)
        self._put_place(buffer, queue_id, sequence, expires_at, returns)
        put_message(buffer, message)
        self.position = self.journal.close_entry()
        return self.position

    def append_message_for(self, message: Message, places: list[tuple[int, int, int]]) -> int:
        """Write a message once for several queues: (queue id, sequence, expires_at) each. Returns the position."""
        buffer = self.journal.open_entry(ENQUEUE)
        buffer.put_u32(len(places))
        for queue_id, sequence, expires_at in places:
            self._put_place(buffer, queue_id, sequence, expires_at, 0)
        put_message(buffer, message)
        self.position = self.journal.close_entry()
        return self.position

    def _put_place(self, buffer: Buffer, queue_id: int, sequence: int, expires_at: int, returns: int) -> None:
        buffer.put_u64(queue_id)
        buffer.put_u64(sequence)
        buffer.put_u64(expires_at)
        buffer.put_u16(min(returns, 65535))

    def segment(self, queue: Any) -> int:
        """The journal segment that takes the next entry; notes that `queue` has something in it."""
        segment = self.journal.current_segment
        if queue.last_segment != segment:
            queue.last_segment = segment
            self.touch(segment, queue)
        return segment

    def touch(self, segment: int, queue: Any) -> None:
        """Note that `queue` has something in this journal segment."""
        queues = self._touched.get(segment)
        if queues is None:
            self._touched[segment] = queues = {}
        queues[queue] = None

    def settling(self, queue: Any) -> None:
        """`queue.settled` is no longer empty: write it at the end of the turn."""
        self._settling.append(queue)

    def append_settled(self, queue: Any, ranges: Iterable[tuple[int, int]]) -> None:
        """Write that messages are gone: (first sequence, count) each."""
        self.segment(queue)
        ranges = list(ranges)
        buffer = self.journal.open_entry(SETTLE)
        buffer.put_u64(queue.queue_id)
        buffer.put_u32(len(ranges))
        for first, count in ranges:
            buffer.put_u64(first)
            buffer.put_u64(count)
        self.position = self.journal.close_entry()

    def append_returned(self, queue: Any, sequence: int, returns: int) -> None:
        """Write how often a message came back, for the delivery limit."""
        self.segment(queue)
        buffer = self.journal.open_entry(RETURNED)
        buffer.put_u64(queue.queue_id)
        buffer.put_u64(sequence)
        buffer.put_u32(returns)
        self.position = self.journal.close_entry()

    def append_note(self, owner: Any, octets: bytes) -> None:
        """Write what `owner` (an id `note_id`, and what `segment` wants of a queue) remembers."""
        self.segment(owner)
        buffer = self.journal.open_entry(NOTE)
        buffer.put_u64(owner.note_id)
        buffer.put_bytes(octets)
        self.position = self.journal.close_entry()

    def end_turn(self) -> None:
        """Write the turn's settlements, one entry a queue; pages that they set free wait until that is synced."""
        if self._settling:
            queues = self._settling
            self._settling = []
            for queue in queues:
                settled = queue.settled
                queue.settled = []
                if settled:
                    # Of a deleted queue, too: a crash may undo the deletion, but not the dead letters of these.
                    self.append_settled(queue, ranges_of(settled))

        if self.pager.released:
            released = self.pager.take_released()
            self._append_released([(queue_id, location) for queue_id, location, is_named in released if is_named])
            places = [(queue_id, location) for queue_id, location, _ in released]
            self._releasing.append((self.journal.position, places))
            self._release_pages()
        if self._dropping:
            self._drop_pages()

    def _append_released(self, pages: list[tuple[int, Any]]) -> None:
        """Write that stored pages are gone."""
        if not pages:
            return
        buffer = self.journal.open_entry(RELEASED)
        buffer.put_u32(len(pages))
        for queue_id, location in pages:
            buffer.put_u64(queue_id)
            buffer.put_u32(location.segment)
            buffer.put_u64(location.offset)
        self.position = self.journal.close_entry()

    def synced(self, position: int) -> None:
        """Everything up to `position` is on disk: what waited for that is done now."""
        self.synced_position = position
        self._release_pages()
        if self.retiring_segment and position >= self.retiring_position:
            self.journal.retire(self.retiring_segment)
            self._carried.pop(self.retiring_segment, None)
            self.retiring_segment = 0

    def _release_pages(self) -> None:
        """Give back the places of pages whose end is on disk."""
        while self._releasing and self._releasing[0][0] <= self.synced_position:
            for queue_id, location in self._releasing.popleft()[1]:
                if location is None:
                    self.page_store.drop_queue(queue_id)
                else:
                    self.page_store.release(queue_id, location)

    # -- logs beside queues ------------------------------------------------------------------------------------------

    def add_log(self, queue_id: int, log_id: int) -> None:
        """What is stored under `log_id` goes when the queue's pages go."""
        self._logs.setdefault(queue_id, {})[log_id] = None

    def drop_log(self, queue_id: int, log_id: int) -> None:
        """A log is no more, as the journal says up to its present end: its files go when that is synced."""
        self._logs.get(queue_id, {}).pop(log_id, None)
        self._releasing.append((self.journal.position, [(log_id, None)]))

    def drop_pages(self, queue_id: int) -> None:
        """A queue is gone, as the journal says up to its end when this turn is over: its page files, and those of the
        logs beside it, go when that is synced."""
        if queue_id in self._spared:
            self._spared[queue_id] = True
        else:
            self._dropping.append(queue_id)

    def _drop_pages(self) -> None:
        dropped, self._dropping = self._dropping, []
        places: list[tuple[int, Any]] = []
        for queue_id in dropped:
            places += [(log_id, None) for log_id in self._logs.pop(queue_id, {})]
            places.append((queue_id, None))
        self._releasing.append((self.journal.position, places))
        self._release_pages()

    def spare_pages(self, queue_id: int) -> None:
        """The page files of a queue stay until `spare_no_more`, though it is dropped."""
        self._spared.setdefault(queue_id, False)

    def spare_no_more(self, queue_id: int) -> None:
        """They may go, as soon as what was written in this turn is synced."""
        if self._spared.pop(queue_id, False):
            self._dropping.append(queue_id)

    def prepare_with(self, is_prepared: Callable[[int], bool]) -> None:
        """`is_prepared(segment)`: whether others leave a segment without much ado. If they do not, they see to it, and
        write to the journal when they have."""
        self._is_prepared = is_prepared

    # -- keeping the journal short ---------------------------------------------------------------------------------

    def shorten(self) -> None:
        """When the journal is too long, let everything leave its oldest segment, a slice in each turn; `synced` deletes
        the segment when all have left. To be called at the end of a turn, behind `end_turn`."""
        journal = self.journal
        if self.retiring_segment or self.pager.has_no_room:
            return
        if not self.leaving_segment:
            if not self._preparing and journal.total_bytes <= self.journal_limit_bytes:
                return
            segment = journal.oldest_segment
            if segment >= journal.current_segment:
                return
            # What the others have written for it is not to keep it.
            if segment != self._preparing and journal.total_bytes <= self.journal_limit_bytes + 2 * self._live_bytes():
                return
            if self._is_prepared is not None and not self._is_prepared(segment):
                self._preparing = segment
                return
            self._preparing = 0
            self.leaving_segment, self._leaving_bytes = segment, journal.total_bytes
        self.end_turn()
        self._leave_some()

    def leaves_more(self) -> bool:
        """Whether `shorten` has something to do in the next turn."""
        return self.leaving_segment != 0 and not self.pager.has_no_room

    def _leave_some(self) -> None:
        """A slice; all of it where the journal has grown by as much as it may have since the first. Who comes to rely
        on the segment meanwhile says so (`touch`): it is left when nobody does any more."""
        segment, journal, pager = self.leaving_segment, self.journal, self.pager
        start, left = journal.position, 0
        grown = journal.total_bytes - self._leaving_bytes
        in_slices = grown <= self.journal_limit_bytes
        self.share_bytes = max(self.leave_bytes, grown >> _GROWN_SHIFT)
        queues = self._touched.get(segment, {})
        while queues and not (in_slices and (left == self.leave_slice or journal.position - start > self.share_bytes)):
            queue = next(reversed(queues))
            if not queue.is_deleted or getattr(queue, "last_letters", None) is not None:
                has_more = queue.leave_segment(segment)
                if pager.has_no_room:
                    break  # some page of it may still rely on the segment
                if has_more:
                    if in_slices:
                        break
                    continue
            del queues[queue]
            left += 1
        self.position = journal.position
        self.carry(journal.position - start)
        if not queues:
            self._touched.pop(segment, None)
            self.leaving_segment = 0
            self.retiring_segment = segment
            self.retiring_position = journal.position

    def carry(self, octets: int) -> None:
        """So much was written again to the current segment, because an older one is to go."""
        segment = self.journal.current_segment
        self._carried[segment] = self._carried.get(segment, 0) + octets

    def _live_bytes(self) -> int:
        """At most so much of what was written again is still live: the queues' RAM holds it, or it lists pages.

        Without this a journal whose live part alone is above the limit would be written again and again for ever.
        """
        others = self._live_elsewhere() if self._live_elsewhere is not None else 0
        return min(sum(self._carried.values()), self.pager.used + self._listed_bytes + others)

    def wants_list(self, queue: Any, pages: list[Page], segment: int) -> bool:
        """Whether the queue's stored pages have to be named again before journal segments up to `segment` go."""
        if not pages:
            self.unlist(queue)
            return False
        listed = self._listed.get(queue.queue_id)
        return listed is None or listed[0] <= segment or not all(page.is_named for page in pages)

    def unlist(self, queue: Any) -> None:
        """The queue has no stored pages any more."""
        self._listed_bytes -= self._listed.pop(queue.queue_id, (0, 0))[1]

    def append_pages(self, queue: Any, pages: list[Page]) -> None:
        """Write which whole pages of the queue are stored."""
        self.unlist(queue)
        self._listed[queue.queue_id] = (self.segment(queue), 44 * len(pages))
        self._listed_bytes += 44 * len(pages)
        buffer = self.journal.open_entry(PAGES)
        buffer.put_u64(queue.queue_id)
        buffer.put_u64(queue.next_sequence)
        buffer.put_u32(len(pages))
        for page in pages:
            location = page.location
            buffer.put_u32(location.segment)
            buffer.put_u64(location.offset)
            buffer.put_u32(location.length)
            buffer.put_u64(page.first)
            buffer.put_u64(page.last)
            buffer.put_u32(page.durable_count)
            buffer.put_u64(page.durable_bytes)
            page.is_named = True
        self._names_pages = True
        self.position = self.journal.close_entry()

    def name_page(self, page: Page) -> None:
        """An entry that is being written names this stored page."""
        page.is_named = True
        self._names_pages = True

    def unwritten_bytes(self) -> int:
        """Octets beside the journal that wait for the next sync to write them."""
        unwritten: int = self.page_store.unwritten_bytes
        return unwritten

    def name_stored(self) -> None:
        """What others have in the journal names stored pages."""
        self._names_pages = True

    def take_page_sync(self) -> PageSync | None:
        """What has to be written and synced before the entries that the journal is going to write, because they name it
        (4). None: nothing.

        Whether a segment is being retired says nothing here: a list may have been written before a page of a later
        queue found no room, and the segment stays.
        """
        if not self._names_pages:
            return self.page_store.take_writes()
        self._names_pages = False
        return self.page_store.take_sync()


def ranges_of(sequences: list[int]) -> list[tuple[int, int]]:
    """Runs of consecutive numbers as (first, count), in order."""
    sequences.sort()
    ranges: list[tuple[int, int]] = []
    first = sequences[0]
    count = 1
    for sequence in sequences[1:]:
        if sequence == first + count:
            count += 1
        elif sequence >= first + count:
            ranges.append((first, count))
            first = sequence
            count = 1
    ranges.append((first, count))
    return ranges
