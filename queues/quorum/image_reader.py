"""ImageReader: from the chunks of an image (image.py) to a GroupState.

Records are taken as they become whole, so that an image may be larger than the RAM: pages go to the disk while memory
is short. It raises Malformed for octets that are no image, CorruptRecord for a page that cannot be read.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from queues.lease import RELEASING
from queues.message import Entry, make_entry
from queues.page import Page, PageBuilder
from queues.pager import Pager
from queues.priority import PriorityReady
from queues.quorum.consumer import QuorumConsumer
from queues.quorum.cursor_image import CURSOR, OFFSET_ENTRY, get_offset, get_place
from queues.quorum.cursor_queue import CursorQueue
from queues.quorum.cursor_settings import get_cursor_settings
from queues.quorum.image import (
    ATTACHED,
    EXCLUSIVE,
    GETTER,
    NO_ACK,
    VERSION,
    VERSION_WITH_STREAMS,
    Kind,
    Section,
)
from queues.quorum.leases import Leases, QuorumLease
from queues.quorum.queue import QuorumQueue, Sink
from queues.quorum.resting import Resting
from queues.quorum.settings import get_settings
from queues.quorum.state import GroupState, Notice, NoticeKind, Origin
from queues.ready import Ready
from queues.stream.image import STREAM, StreamReader
from queues.wire.reader import Malformed, Reader
from queues.wire.traffic import read_message
from storage.page_store import PageLocation

_HEAD_BYTES = 5


class ImageReader:
    """Takes one image. `state` is whole after `finish`. Until then `discard` gives back what has been taken."""

    def __init__(self, pager: Pager, sink: Sink) -> None:
        self.state = GroupState()
        self._pager = pager
        self._sink = sink
        self._pending = bytearray()
        self._count = 0
        self._is_ended = False
        self._has_streams = False
        self._queue: _QueueReader | StreamReader | None = None
        self._readers: dict[int, Callable[[Reader], None]] = {
            Kind.GROUP: self._group,
            Kind.ORIGIN: self._origin,
            Kind.QUEUE: self._begin_queue,
            CURSOR: self._begin_cursor,
            STREAM: self._begin_stream,
            Kind.END: self._end,
        }

    def feed(self, chunk: bytes) -> None:
        """The next chunk. Raises Malformed, CorruptRecord, OSError."""
        pending = self._pending
        pending += chunk
        start = 0
        while len(pending) - start >= _HEAD_BYTES:
            length = int.from_bytes(pending[start + 1 : start + _HEAD_BYTES], "big")
            end = start + _HEAD_BYTES + length
            if end > len(pending):
                break
            self._take(pending[start], bytes(pending[start + _HEAD_BYTES : end]))
            start = end
        del pending[:start]

    def finish(self) -> GroupState:
        """That was all."""
        if not self._is_ended or self._pending:
            raise Malformed(f"an image of {self._count} records is cut: its end is missing")
        return self.state

    def ids(self) -> list[int]:
        """Of the queues and streams that it has come to, of which there may be files."""
        found = self.state.ids()
        if self._queue is not None:
            found.append(self._queue.queue_id)
        return found

    def give_up(self) -> GroupState:
        """It is not wanted. Returns what has come, which is to be discarded."""
        if isinstance(self._queue, StreamReader):
            self._queue.add_to(self.state)
        elif self._queue is not None:
            self._queue.discard()
        self._queue = None
        return self.state

    def _take(self, kind: int, payload: bytes) -> None:
        if self._is_ended or (kind == Kind.GROUP) is not (self._count == 0):
            raise Malformed(f"record {self._count} of an image, of kind {kind}, is in the wrong place")
        if kind != Kind.END:
            self._count += 1
        reader = Reader(payload, f"record {self._count} of an image, of kind {kind}")
        if self._queue is not None:
            if self._queue.take(kind, reader):
                self._queue.add_to(self.state)
                self._queue = None
        elif kind in self._readers:
            self._readers[kind](reader)
        else:
            raise reader.fail("it is in the wrong place, or of a newer version")
        reader.finish()

    def _group(self, reader: Reader) -> None:
        version = reader.u8()
        if version not in (VERSION, VERSION_WITH_STREAMS):
            raise reader.fail(f"version {version}; this program reads up to {VERSION_WITH_STREAMS}: update it")
        self._has_streams = version == VERSION_WITH_STREAMS
        self.state.clock = reader.u64()

    def _origin(self, reader: Reader) -> None:
        origin = Origin(reader.name())
        origin.session = reader.u64()
        origin.is_open = bool(reader.flags(1))
        origin.last_sequence = reader.u64()
        origin.last_consumer = reader.u64()
        origin.next_notice = reader.u64()
        for _ in range(reader.count(41)):
            number, at, kind = reader.u64(), reader.u64(), reader.u8()
            if kind not in NoticeKind.__members__.values():
                raise reader.fail(f"a notice of kind {kind}")
            origin.notices.append(Notice(number, at, NoticeKind(kind), reader.u64(), reader.u64(), reader.u64()))
        self.state.origins[origin.name] = origin

    def _begin_queue(self, reader: Reader) -> None:
        self._queue = _QueueReader(reader, self._pager, self._sink, self.state.origins)

    def _begin_cursor(self, reader: Reader) -> None:
        self._queue = _CursorReader(reader, self._pager, self._sink, self.state.origins)

    def _begin_stream(self, reader: Reader) -> None:
        self._queue = StreamReader(reader, self._pager)

    def _end(self, reader: Reader) -> None:
        count = reader.u32()
        if count != self._count:
            raise reader.fail(f"{count} records were written, {self._count} have come")
        if self.state.has_streams != self._has_streams:
            raise reader.fail(
                f"streams, what rests, and who gives way have images of version {VERSION_WITH_STREAMS}, and no others"
            )
        self.state.link()
        self._is_ended = True


class _QueueReader:
    """The records of one queue, up to QUEUE_END."""

    def __init__(self, reader: Reader, pager: Pager, sink: Sink, origins: dict[str, Origin]) -> None:
        self._pager = pager
        self._origins = origins
        self._delivery_owners: list[QuorumConsumer] = []
        self._line: list[QuorumConsumer] = []
        self._active: QuorumConsumer | None = None
        self._entries: list[tuple[Section, int, int, int, Entry]] = []
        self._places: dict[PageLocation, list[Entry]] = {}
        self._leases: list[QuorumLease] = []
        queue_id, next_sequence, last_used, next_letter = reader.u64(), reader.u64(), reader.u64(), reader.u64()
        levels, may_expire, is_single_active = reader.u16(), bool(reader.flags(1)), bool(reader.flags(1))
        self.queue_id = queue_id
        self.queue = queue = self._make(reader, pager, sink)
        if levels or isinstance(queue.ready, PriorityReady):
            _set_levels(queue, levels, pager)
        queue.next_sequence = next_sequence
        queue.last_used = last_used
        queue.letters.next_letter = next_letter
        queue.may_expire = may_expire
        queue.dispatcher.is_single_active = is_single_active

    def _make(self, reader: Reader, pager: Pager, sink: Sink) -> QuorumQueue:
        """The queue, with its settings."""
        return QuorumQueue(self.queue_id, get_settings(reader), pager, sink)

    def add_to(self, state: GroupState) -> None:
        """The queue is whole."""
        state.add(self.queue)

    def discard(self) -> None:
        """It is not wanted: give back what has been taken."""
        self.queue.discard()

    def take(self, kind: int, reader: Reader) -> bool:
        """One record. Returns whether it was the last one."""
        if kind == Kind.HOLDER:
            self._delivery_owner(reader)
        elif kind == Kind.LINE:
            self._in_line(reader)
        elif kind in (Kind.PRODUCERS, Kind.WINDOW):
            known = self.queue.deduplication
            table = known.producers if kind == Kind.PRODUCERS else known.window
            for _ in range(reader.count(9)):
                name = reader.short()
                table[name] = reader.u64()
        elif kind in (Kind.ENTRY, Kind.ENTRY_AT):
            self._entry(reader, kind == Kind.ENTRY_AT)
        elif kind in (Kind.PAGE, Kind.PAGE_AT, Kind.TAIL):
            self._page(reader, kind)
        elif kind == Kind.LEASE:
            self._lease(reader)
        elif kind == Kind.QUEUE_END:
            self._finish()
            return True
        else:
            raise reader.fail("it does not belong into a queue, or is of a newer version")
        return False

    def _delivery_owner(self, reader: Reader) -> None:
        name, number, prefetch, flags = reader.name(), reader.u64(), reader.u32(), reader.flags(15)
        priority, tag = reader.i32(), reader.name()
        origin = self._origins.get(name)
        if origin is None:
            raise reader.fail(f"a consumer of '{name}', which is not known")
        delivery_owner = QuorumConsumer(
            name, number, self.queue, prefetch, bool(flags & NO_ACK), priority, bool(flags & EXCLUSIVE), tag,
            bool(flags & GETTER),
        )  # fmt: skip
        delivery_owner.is_attached = bool(flags & ATTACHED)
        delivery_owner.next_delivery = reader.u64()
        origin.consumers[number] = delivery_owner
        self.queue.add_delivery_owner(delivery_owner)
        self._delivery_owners.append(delivery_owner)

    def _in_line(self, reader: Reader) -> None:
        active = reader.u32()
        self._active = self._holder_at(reader, active - 1) if active else None
        self._line = [self._holder_at(reader, reader.u32()) for _ in range(reader.count(4))]

    def _holder_at(self, reader: Reader, place: int) -> QuorumConsumer:
        if place >= len(self._delivery_owners):
            raise reader.fail(f"holder {place} of {len(self._delivery_owners)}")
        return self._delivery_owners[place]

    def _entry(self, reader: Reader, is_in_page: bool) -> None:
        section, place = self._section(reader)
        delivery_id, since, sequence, expires_at = reader.u64(), reader.u64(), reader.u64(), reader.u64()
        returns, is_redelivered = reader.u16(), bool(reader.flags(1))
        if is_in_page:
            location = PageLocation(reader.u32(), reader.u64(), reader.u32())
            entry = make_entry(None, sequence, expires_at, 0)  # type: ignore[arg-type]  # its page is read at the end
            self._places.setdefault(location, []).append(entry)
        else:
            entry = make_entry(read_message(reader, self._pager.addresses), sequence, expires_at, 0)
        entry.returns = returns
        entry.is_redelivered = is_redelivered
        self._entries.append((section, place, delivery_id, since, entry))

    def _section(self, reader: Reader) -> tuple[Section, int]:
        number, place = reader.u8(), reader.u32()
        if number > Section.RESTING:
            raise reader.fail(f"section {number} is not known")
        section = Section(number)
        places = {
            Section.READY: len(self.queue.levels()),
            Section.HELD: len(self._delivery_owners),
            Section.LEASED: len(self._leases),
        }.get(section, 1)
        if place >= places:
            raise reader.fail(f"place {place} of {places} in section {section.name}")
        return section, place

    def _lease(self, reader: Reader) -> None:
        queue = self.queue
        if queue.lease_groups is None:
            queue.lease_groups = Leases(queue)
        lease = QuorumLease(queue, reader.name(), reader.name(), reader.name())
        lease.trimmed, lease.next, lease.last_called = reader.u64(), reader.u64(), reader.u64()
        if lease.trimmed > lease.next:
            raise reader.fail(f"a lease group of {lease.trimmed}..{lease.next}")
        self._leases.append(lease)
        if reader.flags(1):
            lease.state = RELEASING
            queue.lease_groups.parting.append(lease)
        else:
            queue.lease_groups.groups[lease.name] = lease

    def _page(self, reader: Reader, kind: int) -> None:
        section, place = self._section(reader)
        if section not in (Section.READY, Section.LETTERS, Section.LEASED, Section.RESTING):
            raise reader.fail(f"a page in section {section.name}")
        count, first, last, message_bytes = reader.u32(), reader.u64(), reader.u64(), reader.u64()
        has_expiring = bool(reader.flags(1))
        location = PageLocation(reader.u32(), reader.u64(), reader.u32()) if kind == Kind.PAGE_AT else None
        data = reader.rest() if location is None else None
        delivery_owner = self._leases[place] if section is Section.LEASED else self._ready(section, place)
        if isinstance(delivery_owner, Ready):
            if delivery_owner.pages is None:
                delivery_owner.pages = deque()
                delivery_owner.tail = PageBuilder()
            delivery_owner.count += count
            delivery_owner.message_bytes += message_bytes
        if kind == Kind.TAIL and data is not None:
            tail = delivery_owner.tail
            tail.buffer.put_bytes(data)
            tail.count, tail.first, tail.last = count, first, last
            tail.message_bytes, tail.has_expiring = message_bytes, has_expiring
            self._pager.used += len(data)
            return
        page = Page(data, count, first, last, message_bytes)
        page.has_expiring = has_expiring
        delivery_owner.pages.append(page)
        if isinstance(delivery_owner, QuorumLease):
            delivery_owner.page_octets += location.length if location is not None else page.size
        if location is not None:
            page.location = location
            page.be_named()
            self._pager.page_store.adopt(self.queue.queue_id, [location])
            return
        self._pager.used += page.size
        if self._pager.used > self._pager.tight_bytes:
            self._pager.store(self.queue.queue_id, page)
            self._pager.drop(page)

    def _ready(self, section: Section, place: int) -> Ready:
        if section is not Section.RESTING:
            return self.queue.levels()[place] if section is Section.READY else self.queue.letters.waiting
        resting = self.queue.resting
        if not isinstance(resting, Resting):
            resting = self.queue.resting = Resting(self._pager, self.queue.queue_id)
        return resting.waiting

    def _finish(self) -> None:
        """Everything of the queue is there: put the loose entries into their places."""
        queue, pager = self.queue, self._pager
        for lease in self._leases:
            if not lease.is_dense():
                raise Malformed(f"queue {queue.queue_id}: lease group '{lease.name}' lacks messages")
        for location, entries in self._places.items():
            self._read_page(location, entries)
        loose: dict[tuple[Section, int], list[Entry]] = {}
        for section, place, delivery_id, since, entry in self._entries:
            pager.used += entry.message.size
            if section is Section.HELD:
                delivery_owner = self._delivery_owners[place]
                delivery_owner.held[delivery_id] = (entry, since)
                entry.consumer = delivery_owner
                queue.unacked += 1
            elif section is Section.TRANSIT:
                queue.letters.put_in_transit(entry)
            else:
                loose.setdefault((section, place), []).append(entry)
        for (section, place), entries in loose.items():
            self._ready(section, place).put_back(entries)
        if isinstance(queue.ready, PriorityReady):
            queue.ready.count = sum(level.count for level in queue.ready.levels)
            queue.ready.message_bytes = sum(level.message_bytes for level in queue.ready.levels)
        attached: list[QuorumConsumer] = [each for each in self._delivery_owners if each.is_attached]
        queue.dispatcher.restore(list(attached), list(self._line), self._active)

    def _read_page(self, location: PageLocation, entries: list[Entry]) -> None:
        """Give entries their messages from the stored page that they are in."""
        queue_id, page_store = self.queue.queue_id, self._pager.page_store
        page_store.adopt(queue_id, [location])
        stored = Page(page_store.read(queue_id, location), 0, 0, 0, 0)
        messages = {entry.sequence: entry.message for entry in stored.entries(self._pager.addresses)}
        stored.count = len(messages)
        stored.live = len(entries)
        stored.data = None
        stored.location = location
        stored.be_named()
        for entry in entries:
            if entry.sequence not in messages:
                raise Malformed(f"queue {queue_id}: message {entry.sequence} is not in its page {location}")
            entry.message = messages[entry.sequence]
            entry.page = stored


class _CursorReader(_QueueReader):
    """The same of a queue over a stream. It finds its stream when all is there."""

    queue: CursorQueue

    def _make(self, reader: Reader, pager: Pager, sink: Sink) -> QuorumQueue:
        queue = CursorQueue(self.queue_id, get_cursor_settings(reader), pager, sink)
        get_place(reader, queue.place)
        return queue

    def take(self, kind: int, reader: Reader) -> bool:
        if kind != OFFSET_ENTRY:
            return super().take(kind, reader)
        number, delivery_id, since, entry = get_offset(reader, self.queue.place)
        if not number and since:
            self.queue.place.resting.put(entry, since)
        elif not number:
            self._entries.append((Section.READY, 0, 0, 0, entry))
        else:
            self._holder_at(reader, number - 1)
            self._entries.append((Section.HELD, number - 1, delivery_id, since, entry))
        return False


def _set_levels(queue: QuorumQueue, levels: int, pager: Pager) -> None:
    """The priorities that the queue was opened with; its settings may say otherwise since."""
    if levels:
        queue.ready = PriorityReady(pager, queue.queue_id, levels - 1)
    elif isinstance(queue.ready, PriorityReady):
        queue.ready = Ready(pager, queue.queue_id)


def read_image(chunks: list[bytes], pager: Pager, sink: Sink) -> GroupState:
    """A whole image. Raises Malformed, CorruptRecord, OSError."""
    reader = ImageReader(pager, sink)
    for chunk in chunks:
        reader.feed(chunk)
    return reader.finish()
