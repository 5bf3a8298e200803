"""CursorReady: what is ready in a quorum queue over a stream: nothing of its own, but a place in the stream.

    the stream, from `next` on -> pop -> held -> settled
                                         held -> put_back -> `head`, by offset -> pop
                                         held -> `resting` -> put_back, where the queue has delayed retry
    with key order: what a key that is out holds back -> `waiting`, by key -> (its message is settled) -> `head`

An entry has the offset as its sequence, and no message: whoever delivers it reads that from the stream. With key order
`journal_segment`, of which a replicated queue has no use, is the hash of its routing key (0: none).

Invariants:
1. `count` is the sum of what is in `head`, in `waiting`, and in the stream from `next` on.
2. All offsets in `head` and `waiting` are below `next`, and not below the stream's first one.
3. `keys` has exactly the keys of entries in `head` and `resting` and of those that are held; one of each key at most.
4. Everything but the finders follows from the log: nothing is taken, or passed over, but by `pop` and what settles.
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from typing import TYPE_CHECKING

import cython

from queues.message import Address, Entry, Message, build_message
from queues.pager import Pager
from queues.quorum.cursor_settings import CursorSettings
from queues.quorum.resting_offsets import MOST_RESTING, RestingOffsets
from queues.ready import Ready
from queues.stream.bloom import Bloom
from queues.stream.coming import await_page
from queues.stream.record import hash_of
from queues.stream.records import RecordFinder, has_value, routing_key_of
from queues.stream.start import Start, place_of

if not cython.compiled:
    from queues.message import make_entry
    from queues.stream.record import filter_hash_of, get_record

if TYPE_CHECKING:
    from queues.page import Page
    from queues.stream.stream import Stream
    from queues.stream.tail import Stored

#: So many messages at most are passed over while their keys are out; then the queue waits. No setting, because all
#: members have to agree.
LOOK_AHEAD = 10_000
_MOST_RESTING = MOST_RESTING
#: So many records at most are looked at with one entry of the log for messages that are wanted; others with the next.
LOOKED_AT_ONCE = 10_000
#: So many pages at most are looked at ahead of an entry of the log.
_PAGES_AHEAD = 8


def _absent() -> Message:
    message = build_message(Address(b"\0\0"), b"\0\0", b"", True, -1, -1, 0)
    message.size = 0
    return message


#: In place of the message of an entry: it is in the stream, and not counted here.
ABSENT = _absent()


def _sequence_of(entry: Entry) -> int:
    return entry.sequence


class CursorReady(Ready):
    """stream: None before there is one, and when it is gone. next: the offset from which on nothing was looked at.
    resting: what came back and rests; what retention takes of it is lost when it comes again.
    lost: how many messages retention has taken before anybody got them. is_begun: its start was found; is_gone: the
    stream is no more. waiting: offsets by key, in order; waits: how many. keys: those that are out.
    looked: at how many records for the present entry of the log; 0 behind it. sure: before this offset pages were
    looked at ahead, since the one with `next` had to be read."""

    def __init__(self, pager: Pager, queue_id: int) -> None:
        super().__init__(pager, queue_id)
        self.head: deque[Entry] = deque()
        self.stream: Stream | None = None
        self.next = 0
        self.lost = 0
        self.is_begun = self.is_gone = False
        self.waiting: dict[int, deque[int]] = {}
        self.waits = 0
        self.keys: dict[int, None] = {}
        self.resting = RestingOffsets()
        self.looked = self.sure = 0
        # Of what is looked at, and of what is delivered, which may be far behind that.
        self._finder, self._reader = RecordFinder(), RecordFinder()
        self._span = (0, 0, 0)  # of a chunk: its first offset, that behind it, and its time
        self._ttl = -1
        self._values: dict[int, list[bytes]] = {}
        self._takes_unfiltered = False
        self._is_filtered = False
        self._has_key_order = False

    def apply_settings(self, settings: CursorSettings, message_ttl: int) -> None:
        """Settings in force from now on; message_ttl: milliseconds, -1 for ever."""
        self._ttl = message_ttl
        self._values = {}
        for value in settings.values:
            self._values.setdefault(hash_of(value), []).append(value)
        self._is_filtered = bool(settings.values)
        self._takes_unfiltered = settings.takes_unfiltered
        self._has_key_order = settings.has_key_order

    # -- its stream ----------------------------------------------------------------------------------------------------

    def follow(self, stream: Stream, start: Start, clock: int) -> None:
        """Its messages are those of this stream. Raises CorruptRecord, OSError."""
        self.stream = stream
        if not self.is_begun:
            self.is_begun = True
            self.next = min(max(stream.first, place_of(start, stream, clock)), stream.next)
        self.changed()

    def leave(self) -> None:
        """The stream is gone, and with it what nobody has got."""
        self.lost += self.count + self.resting.count
        self.stream = None
        self.is_gone = True
        self._forget_all()
        self.resting.clear()

    def changed(self) -> None:
        """The stream has got more, or lost its beginning."""
        stream = self.stream
        if stream is None:
            return
        first = stream.first
        if self.next < first:
            self.lost += first - self.next
            self.next = first
        gone = []
        while self.head and self.head[0].sequence < first:
            gone.append(self.head.popleft())
        self.lost += len(gone)
        if self.waits:
            self._trim_waiting(first)
        for entry in gone:
            self.settled(entry)
        self._recount()

    def _trim_waiting(self, first: int) -> None:
        for key, offsets in list(self.waiting.items()):
            while offsets and offsets[0] < first:
                offsets.popleft()
                self.waits -= 1
                self.lost += 1
            if not offsets:
                del self.waiting[key]

    @property
    def unread(self) -> int:
        """How many messages are in the stream from `next` on."""
        return self.stream.next - self.next if self.stream is not None else 0

    def _recount(self) -> None:
        self.count = len(self.head) + self.waits + self.unread

    def message(self, entry: Entry) -> Message | None:
        """The message of an entry; None where the stream does not have it any more. Raises CorruptRecord, OSError."""
        stream = self.stream
        found = self._reader.find(stream, entry.sequence) if stream is not None else None
        if found is None:
            return None
        stored, at = found
        chunk = stored.chunk
        return get_record(chunk.octets, at, entry.sequence, stored.time, self.pager.addresses)

    def look_ahead(self, waits: bool, most: int) -> None:
        """Before an entry of the log is applied that may make it take something: the pages that it may come to with it
        can be read. waits: what has to be read is read in the background, and Coming raised. most: so many messages at
        most are delivered here with the entry. Raises CorruptRecord, OSError; nothing has changed then."""
        stream = self.stream
        if stream is None:
            return
        log = stream.log
        if self.head:
            if waits:
                await_page(log, self.head[0].sequence)
            log.look_at(self.head[0].sequence)
        begin = max(self.next, log.first)
        if begin >= log.next:
            return
        if not log.is_in_ram(begin):
            if waits:
                await_page(log, begin)
            self.sure = log.look_at(begin)
        reads_all = self._is_filtered or self._has_key_order or self._ttl >= 0
        span = LOOKED_AT_ONCE if reads_all else max(1, most)
        end = min(log.next, begin + span)
        for _ in range(_PAGES_AHEAD):
            if self.sure >= end:
                break
            if waits:
                await_page(log, max(self.sure, begin))
            self.sure = log.look_at(max(self.sure, begin))
        if self._ttl >= 0:
            self.time_of(begin)

    # -- taking --------------------------------------------------------------------------------------------------------

    def pop(self) -> Entry | None:
        """See Ready: the next one that is wanted, and whose key is not out. Raises CorruptRecord, OSError."""
        if self.head:
            self.count -= 1
            return self.head.popleft()
        stream = self.stream
        if stream is None or self.next >= stream.next or self._is_full():
            return None
        if self._is_filtered or self._has_key_order:
            return self._look_for_one(stream)
        offset = self.next
        self.next = offset + 1
        self.count -= 1
        return make_entry(ABSENT, offset, self._expiry_of(offset), 0)

    def _look_for_one(self, stream: Stream) -> Entry | None:
        begin = self.next
        last = min(stream.next, begin + LOOKED_AT_ONCE - self.looked)
        entry = self._look_up_to(stream, last)
        self.looked += self.next - begin
        return entry

    def _look_up_to(self, stream: Stream, last: int) -> Entry | None:
        while self.next < last and self.waits < LOOK_AHEAD:
            offset = self.next
            found = self._finder.find(stream, offset)
            assert found is not None  # it is between the stream's ends
            stored, at = found
            if self._is_filtered and not self._may_want(stored):
                self._pass(min(stored.next, last))
                continue
            chunk = stored.chunk
            octets = chunk.octets
            if self._is_filtered and not self._wants(octets, at):
                self._pass(offset + 1)
                continue
            key = self._key_of(octets, at)
            self.next = offset + 1
            if key and key in self.keys:
                self.waiting.setdefault(key, deque()).append(offset)
                self.waits += 1
                continue
            if key:
                self.keys[key] = None
            self.count -= 1
            return make_entry(ABSENT, offset, self._expiry_of(offset), key)
        return None

    def _pass(self, offset: int) -> None:
        """What is before this offset nobody wants."""
        self.count -= offset - self.next
        self.next = offset

    def _may_want(self, stored: Stored) -> bool:
        """Whether something in a chunk may be wanted. One without a Bloom filter has no values."""
        bloom = stored.chunk.bloom
        return self._takes_unfiltered or (bool(bloom) and any(map(Bloom(bloom).may_have, self._values)))

    def _wants(self, octets: bytes, at: int) -> bool:
        found = filter_hash_of(octets, at)
        if not found:
            return self._takes_unfiltered
        return any(has_value(octets, at, value) for value in self._values.get(found, ()))

    def _key_of(self, octets: bytes, at: int) -> int:
        key = routing_key_of(octets, at) if self._has_key_order else b""
        return hash_of(key) if key else 0

    @property
    def may_go_on(self) -> bool:
        """Whether a message that is wanted may stand behind all that `pop` has looked at in one go."""
        return bool((self._is_filtered or self._has_key_order) and not self.head and self.has_next())

    def has_next(self) -> bool:
        """See Ready: what waits for its key is not to be had."""
        return bool(self.head) or bool(self.unread and not self._is_full())

    def _is_full(self) -> bool:
        """Whether nothing more of the stream is taken, because too much waits for its key, or rests."""
        return self.waits >= LOOK_AHEAD or self.resting.count >= _MOST_RESTING

    # -- expiry --------------------------------------------------------------------------------------------------------

    def _expiry_of(self, offset: int) -> int:
        return self.time_of(offset) + self._ttl if self._ttl >= 0 else 0

    def time_of(self, offset: int) -> int:
        """When what is at this offset was published. Raises CorruptRecord, OSError."""
        first, end, time = self._span
        if not first <= offset < end:
            stored = self.stream.log.chunk_at(offset) if self.stream is not None else None
            assert stored is not None
            time = stored.time
            self._span = (stored.first, stored.next, time)
        return time

    def first_expiry(self) -> int:
        """See Ready: that of the next one in the stream, wanted or not; but not of what is not taken yet."""
        if self._ttl < 0 or not self.count:
            return 0
        if self.head:
            return int(self.head[0].expires_at)
        return self._expiry_of(self.next) if self.unread and not self._is_full() else 0

    def knows_expiry(self, clock: int) -> bool:
        """Whether it is known without reading that nothing in the stream has expired."""
        if not self.unread:
            return True
        first, end, time = self._span
        return bool(first <= self.next < end and time + self._ttl > clock)

    # -- giving back ---------------------------------------------------------------------------------------------------

    def put_back(self, entries: list[Entry]) -> None:
        """See Ready. What the stream does not have any more is lost."""
        first = self.stream.first if self.stream is not None else 0
        for entry in entries:
            entry.consumer = None
            if entry.sequence < first or self.is_gone:
                self.lost += 1
                self.settled(entry)
            else:
                insort(self.head, entry, key=_sequence_of)
                self.count += 1

    def settled(self, entry: Entry) -> None:
        """It comes to nobody again: the next one of its key is ready."""
        key = entry.journal_segment
        if not key:
            return
        offsets = self.waiting.get(key)
        if offsets is None:
            self.keys.pop(key, None)
            return
        offset = offsets.popleft()
        self.waits -= 1
        if not offsets:
            del self.waiting[key]
        insort(self.head, make_entry(ABSENT, offset, self._expiry_of(offset), key), key=_sequence_of)

    # -- the whole -----------------------------------------------------------------------------------------------------

    def clear(self) -> tuple[list[Entry], list[Page]]:
        """See Ready: it goes on at the stream's end."""
        if self.stream is not None:
            self.next = max(self.next, self.stream.next)
        self._forget_all()
        return [], []

    def _forget_all(self) -> None:
        for entry in [*self.head, *[each for _, _, each in self.resting.entries]]:
            self.keys.pop(entry.journal_segment, None)
        self.head.clear()
        self.waiting.clear()
        self.waits = 0
        self.count = 0

    def first(self) -> tuple[int, bytes] | None:
        """See Ready: not known without reading."""
        return None

    def first_page(self, most: int, max_bytes: int) -> Page | None:
        """See Ready: there are none."""
        return None

    def page_out(self, want_bytes: int, keeps_head: bool = True) -> int:
        """See Ready: it has nothing in RAM."""
        return 0
