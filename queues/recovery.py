"""Recovery: from journal entries to what each queue holds, after a restart.

`Recovery.take(kind, payload)` is fed with every entry in order; `finish()` gives, for each queue, the whole stored
pages and the single messages, merged by sequence. It keeps no message that was settled later in the journal.

What is known of a lease group is first kept as if it were a queue: entries by offset, pages.
"""

from __future__ import annotations

from bisect import bisect_right

import cython

from queues.lease import GONE, RELEASING
from queues.leases import is_lease_id
from queues.message import Entry
from queues.page import AddressBook, Page
from queues.pager import Pager
from queues.recovered_lease import NEVER, RecoveredLease
from queues.recovered_letters import RecoveredLetters, texts_of
from queues.store import ENQUEUE, LEASE, LETTERS, MOVED, MOVED_PAGE, NOTE, PAGES, RELEASED, RETURNED, SETTLE
from storage.errors import CorruptRecord
from storage.page_store import PageLocation

if not cython.compiled:
    from amqp_broker.octets.buffer import get_u16, get_u32, get_u64
    from queues.message import make_entry
    from queues.page import get_message


def _named_page(location: PageLocation, count: int, first: int, last: int, message_bytes: int) -> Page:
    """A stored page as an entry of the journal names it; it has persistent messages only."""
    page = Page(None, count, first, last, message_bytes)
    page.durable_count = count
    page.durable_bytes = message_bytes
    page.is_recovered = True
    page.is_named = True
    page.location = location
    return page


class _Ranges:
    """Numbers, given as (first, count), that are asked for by number."""

    def __init__(self, ranges: list[tuple[int, int]]) -> None:
        self._firsts: list[int] = []
        self._ends: list[int] = []
        for first, count in sorted(ranges):
            if self._ends and first <= self._ends[-1]:
                self._ends[-1] = max(self._ends[-1], first + count)
            else:
                self._firsts.append(first)
                self._ends.append(first + count)

    def meets(self, first: int, last: int) -> bool:
        """Whether one of the numbers lies in first..last."""
        index = bisect_right(self._firsts, last)
        return index > 0 and self._ends[index - 1] > first


class RecoveredQueue:
    """What the journal says of one queue.

    next_sequence: above every sequence seen. pages: by segment and offset; pages_segment: the first journal segment
    that names one of them, 0 for none. settled, returned: what happened since to sequences that may be in pages. items:
    entries and pages, in order of sequence (after `finish`); an entry that has a page is the rest of a page of which
    some messages are settled, or came back. source_id, moved_from: of a lease group, the queue that its messages came
    from (0: not seen), and the first offset that went back there.
    """

    def __init__(self) -> None:
        self.next_sequence = 1
        self.entries: dict[int, Entry] = {}
        self.pages: dict[tuple[int, int], Page] = {}
        self.pages_segment = 0
        self.settled: list[tuple[int, int]] = []
        self.returned: dict[int, int] = {}
        self.items: list[Entry | Page] = []
        self.source_id = 0
        self.moved_from = NEVER


class Recovery:
    """Reads the journal of a node once. notes: by id, with the segment that has it. last_letters: by the id of the
    queue that was deleted; after `finish`, those of queues that exist are `undone`."""

    def __init__(self, pager: Pager) -> None:
        self.queues: dict[int, RecoveredQueue] = {}
        self.leases: dict[int, RecoveredLease] = {}
        self.notes: dict[int, tuple[int, bytes]] = {}
        self.last_letters: dict[int, RecoveredLetters] = {}
        self.undone: list[int] = []
        self._pager = pager
        self._addresses: AddressBook = pager.addresses

    def queue(self, queue_id: int) -> RecoveredQueue:
        """What is known of this queue so far."""
        found = self.queues.get(queue_id)
        if found is None:
            self.queues[queue_id] = found = RecoveredQueue()
            if is_lease_id(queue_id):
                found.next_sequence = 0
        return found

    def forget(self) -> None:
        """All queues are there, and have what was theirs."""
        self.queues = {}
        self.leases = {}
        self.last_letters = {}
        self.notes = {}

    def leases_of(self, queue_id: int) -> list[RecoveredLease]:
        """The groups of a queue, after `finish`."""
        return [lease for lease in self.leases.values() if lease.queue_id == queue_id]

    def take(self, segment: int, kind: int, payload: bytes) -> None:
        """One journal entry. Raises ValueError when it cannot be read; an unknown kind is one too."""
        if kind == ENQUEUE:
            self._take_enqueue(segment, payload)
        elif kind == SETTLE:
            self._take_settle(payload)
        elif kind == PAGES:
            self._take_pages(segment, payload)
        elif kind == RETURNED:
            self._take_returned(payload)
        elif kind == RELEASED:
            self._take_released(payload)
        elif kind == MOVED:
            self._take_moved(segment, payload)
        elif kind == MOVED_PAGE:
            self._take_moved_page(segment, payload)
        elif kind == LEASE:
            self._take_lease(segment, payload)
        elif kind == LETTERS:
            letters = RecoveredLetters(segment, payload)
            self.last_letters.pop(letters.queue_id, None)
            if letters.reasons:
                self.last_letters[letters.queue_id] = letters
        elif kind == NOTE:
            note_id = int.from_bytes(payload[:8], "big")
            self.notes.pop(note_id, None)
            if len(payload) > 8:
                self.notes[note_id] = (segment, payload[8:])
        else:
            raise ValueError(f"journal entry of unknown kind {kind}: written by a newer version?")

    def _take_enqueue(self, segment: int, payload: bytes) -> None:
        data = payload
        count = get_u32(data, 0)
        start = 4 + 26 * count
        if start > len(payload):
            raise ValueError(f"entry of {len(payload)} octets announces {count} queues")
        message = get_message(payload, start, len(payload), self._addresses)
        for index in range(count):
            position = 4 + 26 * index
            sequence = get_u64(data, position + 8)
            entry = make_entry(message, sequence, get_u64(data, position + 16), segment)
            entry.returns = get_u16(data, position + 24)
            entry.is_redelivered = entry.returns > 0
            queue = self.queue(get_u64(data, position))
            queue.entries[sequence] = entry
            if sequence >= queue.next_sequence:
                queue.next_sequence = sequence + 1

    def _take_settle(self, payload: bytes) -> None:
        queue = self.queue(int.from_bytes(payload[:8], "big"))
        count = int.from_bytes(payload[8:12], "big")
        entries = queue.entries
        for index in range(count):
            position = 12 + 16 * index
            first = int.from_bytes(payload[position : position + 8], "big")
            number = int.from_bytes(payload[position + 8 : position + 16], "big")
            if number > len(entries):
                for sequence in [each for each in entries if first <= each < first + number]:
                    del entries[sequence]
            else:
                for sequence in range(first, first + number):
                    entries.pop(sequence, None)
            if queue.pages:
                queue.settled.append((first, number))
            queue.next_sequence = max(queue.next_sequence, first + number)

    def _take_pages(self, segment: int, payload: bytes) -> None:
        queue = self.queue(int.from_bytes(payload[:8], "big"))
        queue.next_sequence = max(queue.next_sequence, int.from_bytes(payload[8:16], "big"))
        queue.pages = {}
        queue.pages_segment = segment
        queue.settled = []
        queue.returned = {}
        for index in range(int.from_bytes(payload[16:20], "big")):
            start = 20 + 44 * index
            field = memoryview(payload)[start : start + 44]
            location = PageLocation(
                int.from_bytes(field[:4], "big"),
                int.from_bytes(field[4:12], "big"),
                int.from_bytes(field[12:16], "big"),
            )
            page = _named_page(
                location,
                int.from_bytes(field[32:36], "big"),
                int.from_bytes(field[16:24], "big"),
                int.from_bytes(field[24:32], "big"),
                int.from_bytes(field[36:44], "big"),
            )
            if page.count:
                queue.pages[page.location.segment, page.location.offset] = page

    def _take_returned(self, payload: bytes) -> None:
        queue = self.queue(int.from_bytes(payload[:8], "big"))
        sequence = int.from_bytes(payload[8:16], "big")
        returns = int.from_bytes(payload[16:20], "big")
        entry = queue.entries.get(sequence)
        if entry is not None:
            entry.returns = returns
            entry.is_redelivered = True
        elif queue.pages:
            queue.returned[sequence] = returns

    def _take_released(self, payload: bytes) -> None:
        for index in range(int.from_bytes(payload[:4], "big")):
            field = payload[4 + 20 * index : 24 + 20 * index]
            queue = self.queue(int.from_bytes(field[:8], "big"))
            queue.pages.pop((int.from_bytes(field[8:12], "big"), int.from_bytes(field[12:20], "big")), None)

    def _take_moved(self, segment: int, payload: bytes) -> None:
        data = payload
        source_id = get_u64(data, 0)
        source = self.queue(source_id)
        entries = source.entries
        position = 12
        for _ in range(get_u32(data, 8)):
            sequence = get_u64(data, position)
            returns = get_u16(data, position + 8)
            flags = data[position + 10]
            places = position + 13
            count = get_u16(data, position + 11)
            position = places + 24 * count
            if position > len(payload):
                raise ValueError(f"entry of {len(payload)} octets announces {count} queues")
            original = entries.pop(sequence, None)
            if flags & 2:
                length = get_u32(data, position)
                message = get_message(payload, position + 4, position + 4 + length, self._addresses)
                relies_on = segment
                position += 4 + length
            elif original is None:
                # Its copy was in a segment that is retired: whoever has it has written it again since.
                message = None
                relies_on = 0
            else:
                message = original.message
                relies_on = original.journal_segment
            self._record_moved(source_id, source, sequence)
            for index in range(count):
                start = places + 24 * index
                target = get_u64(data, start + 8)
                queue = self.queue(get_u64(data, start))
                if target >= queue.next_sequence:
                    queue.next_sequence = target + 1
                if is_lease_id(get_u64(data, start)):
                    queue.source_id = source_id
                if message is not None:
                    entry = make_entry(message, target, get_u64(data, start + 16), relies_on)
                    entry.returns = returns
                    entry.is_redelivered = (flags & 1) != 0
                    if queue.source_id:
                        entry.sequence = sequence
                    queue.entries[target] = entry

    def _take_moved_page(self, segment: int, payload: bytes) -> None:
        """What `_take_moved` does, of messages to which nothing has happened (queues/moved_page.py)."""
        data = payload
        source_id = get_u64(data, 0)
        begin = get_u64(data, 16)
        place = 28 + 12 * get_u32(data, 24)
        if place != len(payload) and place + 24 != len(payload):
            raise ValueError(f"entry of {len(payload)} octets announces {get_u32(data, 24)} runs of messages")
        is_stored = place < len(payload)
        source = self.queue(source_id)
        log = self.queue(get_u64(data, 8))
        log.source_id = source_id
        target = begin
        for position in range(28, place, 12):
            first = get_u64(data, position)
            for sequence in range(first, first + get_u32(data, position + 8)):
                original = source.entries.pop(sequence, None)
                self._record_moved(source_id, source, sequence)
                if original is not None and not is_stored:
                    log.entries[target] = make_entry(original.message, sequence, 0, original.journal_segment)
                target += 1
        log.next_sequence = max(log.next_sequence, target)
        if is_stored:
            location = PageLocation(get_u32(data, place), get_u64(data, place + 4), get_u32(data, place + 12))
            page = _named_page(location, target - begin, begin, target - 1, get_u64(data, place + 16))
            log.pages[location.segment, location.offset] = page
            log.pages_segment = log.pages_segment or segment

    def _record_moved(self, source_id: int, source: RecoveredQueue, sequence: int) -> None:
        """A message has left: nothing of it that is in a page is live."""
        if is_lease_id(source_id):
            if sequence < source.moved_from:
                source.moved_from = sequence
            return
        if source.pages:
            settled = source.settled
            if settled and settled[-1][0] + settled[-1][1] == sequence:
                settled[-1] = (settled[-1][0], settled[-1][1] + 1)
            else:
                settled.append((sequence, 1))
        if sequence >= source.next_sequence:
            source.next_sequence = sequence + 1

    def _take_lease(self, segment: int, payload: bytes) -> None:
        queue_id = int.from_bytes(payload[:8], "big")
        group_id = int.from_bytes(payload[8:16], "big")
        texts, position = texts_of(payload, 41, 3)
        if position != len(payload):
            raise ValueError(f"entry of {len(payload)} octets announces {position}")
        queue = self.queue(queue_id)
        queue.next_sequence = max(queue.next_sequence, int.from_bytes(payload[33:41], "big"))
        if payload[16] == GONE:
            self.leases.pop(group_id, None)
            self.queues.pop(group_id, None)
            return
        lease = RecoveredLease(group_id, queue_id, *texts)
        lease.state = payload[16]
        lease.trimmed = int.from_bytes(payload[17:25], "big")
        lease.next = int.from_bytes(payload[25:33], "big")
        lease.state_segment = segment
        self.leases[group_id] = lease

    def set_bad_pages_aside(self, queue_ids: list[int]) -> list[str]:
        """Before `finish`, in place of a start that is refused: read every stored page, copy the octets of those that
        do not read as they were written to the folder damaged/, and go on without them. Returns a line for each."""
        lines = []
        page_store = self._pager.page_store
        for queue_id in queue_ids:
            queue = self.queue(queue_id)
            for key, page in list(queue.pages.items()):
                try:
                    page_store.read(queue_id, page.location)
                except CorruptRecord as error:
                    copy = page_store.set_aside(queue_id, page.location)
                    lines.append(
                        f"queue {queue_id}: {error.file} at offset {error.offset}: {error.reason}; up to {page.count} "
                        f"messages are lost, their octets are in {copy}"
                    )
                    del queue.pages[key]
        return lines

    def finish(self, queue_ids: list[int], is_salvage: bool = False) -> None:
        """Merge, for the queues that exist; what belongs to others is forgotten. Raises ValueError when a lease group
        lacks a message; in a salvage it is going to be released instead."""
        self._finish_leases(dict.fromkeys(queue_ids), is_salvage)
        self._finish_letters(dict.fromkeys(queue_ids), is_salvage)
        self.queues = {queue_id: self.queue(queue_id) for queue_id in queue_ids}
        for queue_id, queue in self.queues.items():
            pages = list(queue.pages.values())
            self._pager.page_store.adopt(queue_id, [page.location for page in pages])
            settled = _Ranges(queue.settled)
            returned = _Ranges([(sequence, 1) for sequence in queue.returned])
            again = _Ranges([(sequence, 1) for sequence in queue.entries]) if pages else _Ranges([])
            items: list[tuple[int, Entry | Page]] = []
            for page in pages:
                if (
                    settled.meets(page.first, page.last)
                    or returned.meets(page.first, page.last)
                    or (again.meets(page.first, page.last) and not self._drop_doubles(queue, page))
                ):
                    self._unpack(queue_id, queue, page, settled)
                else:
                    items.append((page.first, page))
            items += list(queue.entries.items())
            items.sort(key=lambda item: item[0])
            queue.items = [item for _, item in items]
            queue.entries = {}
            queue.pages = {}
            queue.returned = {}

    def _finish_leases(self, queue_ids: dict[int, None], is_salvage: bool) -> None:
        if is_salvage:
            self._name_the_nameless()
        self.leases = {group_id: lease for group_id, lease in self.leases.items() if lease.queue_id in queue_ids}
        for group_id, lease in self.leases.items():
            found = self.queue(group_id)
            lease.pages_segment = found.pages_segment
            pages = lease.gather(
                found.entries, list(found.pages.values()), found.next_sequence, found.moved_from
            )
            self._pager.page_store.adopt(group_id, [page.location for page in pages])
            if lease.is_whole:
                continue
            if not is_salvage:
                raise ValueError(
                    f"group '{lease.name}' of queue {lease.queue_id} lacks messages of {lease.trimmed}..{lease.next}: "
                    f"start with --recover to release it"
                )
            lease.state = RELEASING

    def _finish_letters(self, queue_ids: dict[int, None], is_salvage: bool) -> None:
        self.undone = [queue_id for queue_id in self.last_letters if queue_id in queue_ids]
        for queue_id in self.undone:
            del self.last_letters[queue_id]
        for queue_id, letters in self.last_letters.items():
            letters.gather(self.queue(queue_id), self._pager, self._addresses, is_salvage)

    def _name_the_nameless(self) -> None:
        """Groups whose LEASE entry was lost with a damaged part: what they hold goes back to its queue."""
        for group_id, found in self.queues.items():
            if found.source_id and group_id not in self.leases:
                self.leases[group_id] = lease = RecoveredLease(group_id, found.source_id, "", "", "")
                lease.is_whole = False

    def _drop_doubles(self, queue: RecoveredQueue, page: Page) -> bool:
        """A whole page needs no copies in the journal: forget them, rather than unpack a page that may stay on disk.

        Not where a copy knows more than the page (its returns), or where the page has gaps, so that its range says
        nothing of what is in it.
        """
        if page.count != page.last - page.first + 1:
            return False
        doubles = [each for each in range(page.first, page.last + 1) if each in queue.entries]
        if any(queue.entries[each].returns for each in doubles):
            return False
        for each in doubles:
            del queue.entries[each]
        return True

    def _unpack(self, queue_id: int, queue: RecoveredQueue, page: Page, settled: _Ranges) -> None:
        """Turn what is left of a page into entries: some of it is settled, came back, or is in the journal again."""
        self._pager.load(queue_id, page)
        entries = page.entries(self._addresses)
        self._pager.drop(page)
        left = [
            entry
            for entry in entries
            if entry.sequence not in queue.entries and not settled.meets(entry.sequence, entry.sequence)
        ]
        page.live = len(left)
        if not left:
            self._pager.release(queue_id, page)
        for entry in left:
            if entry.sequence in queue.returned:
                entry.returns = queue.returned[entry.sequence]
                entry.is_redelivered = True
            queue.entries[entry.sequence] = entry
