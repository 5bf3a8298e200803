"""Images: the state of a group as octets, for a checkpoint (it names places of pages on this node's disk) or for
another member (self-contained).

An image is a run of records, u8 kind, u32 length, payload, cut into chunks anywhere. `parts_of` notes everything of
one queue that could change later at once (capture.py says when), and leaves the packing of messages and the reading of
pages to when the chunks are taken.

    GROUP        u8 version, u64 clock
    ORIGIN       short name, u64 session, u8 open, u64 last sequence, u64 last consumer, u64 next notice,
                 u32 n, n x (u64 number, u64 at, u8 kind, u64 a, u64 b, u64 c)
    QUEUE        u64 id, u64 next sequence, u64 last used, u64 next letter, u16 priorities (0: none), u8 may expire,
                 u8 single active, settings
    HOLDER       short origin, u64 number, u32 prefetch, u8 flags, u32 priority, short tag, u64 next delivery
    LINE         u32 active holder + 1 (0: none), u32 n, n x u32 holder, counted from 0 as they came
    PRODUCERS    u32 n, n x (short producer, u64 sequence)
    WINDOW       u32 n, n x (short message id, u64 until)
    ENTRY        u8 section, u32 place, u64 delivery id, u64 since, u64 sequence, u64 expires at, u16 returns,
                 u8 redelivered, packed message
    ENTRY_AT     the same, with u32 segment, u64 offset, u32 length of the page that it is in for the message
    PAGE         u8 section, u32 place, u32 count, u64 first, u64 last, u64 message octets, u8 has expiring, octets
    PAGE_AT      the same, with u32 segment, u64 offset, u32 length for the octets
    TAIL         as PAGE: the page that is still filled
    LEASE        short name, short incarnation, short owner, u64 trimmed, u64 next, u64 last called, u8 parting
    QUEUE_END, END (u32 number of records before it)

Streams follow the queues, in records of their own (queues/stream/image.py); queues over streams have some, too
(cursor_image.py). The version is 2, and 3 if there are any of both, or queues whose messages rest.

Sections: READY (place: the priority), HELD (place: the holder), LETTERS (waiting), TRANSIT, LEASED (place: the group,
counted from 0; the first and last of a page are offsets), RESTING (resting.py says what is in the numbers).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import IntEnum
from typing import Any, NamedTuple

from amqp_broker.octets.buffer import Buffer
from queues.lease import RELEASING
from queues.message import Entry, Message
from queues.page import Page, PageBuilder, put_message
from queues.pager import Pager
from queues.priority import PriorityReady
from queues.quorum.cursor_image import CURSOR, offset_parts, put_place
from queues.quorum.cursor_queue import CursorQueue
from queues.quorum.cursor_settings import CursorSettings, put_cursor_settings
from queues.quorum.leases import QuorumLease
from queues.quorum.queue import QuorumQueue
from queues.quorum.resting import Resting
from queues.quorum.settings import put_settings
from queues.quorum.state import GroupState, Origin
from queues.ready import Ready
from queues.stream.image import StreamPart, StreamTail, stream_parts
from queues.stream.stream import Stream
from queues.wire.reader import octets_of
from storage.page_store import PageLocation

VERSION = 2
VERSION_WITH_STREAMS = 3
CHUNK_BYTES = 256 * 1024
#: What a record costs beside its octets, in octets.
RECORD_BYTES = 2048


class Kind(IntEnum):
    GROUP = 1
    ORIGIN = 2
    QUEUE = 3
    HOLDER = 4
    LINE = 5
    PRODUCERS = 6
    WINDOW = 7
    ENTRY = 8
    ENTRY_AT = 9
    PAGE = 10
    PAGE_AT = 11
    TAIL = 12
    QUEUE_END = 13
    END = 14
    LEASE = 15


class Section(IntEnum):
    READY = 0
    HELD = 1
    LETTERS = 2
    TRANSIT = 3
    LEASED = 4
    RESTING = 5


#: Bits of a holder's flags.
NO_ACK, EXCLUSIVE, ATTACHED, GETTER = 1, 2, 4, 8


class _Entry(NamedTuple):
    """An entry as it was at the capture. location: None where its message is written out."""

    section: Section
    place: int
    delivery_id: int
    since: int
    sequence: int
    expires_at: int
    returns: int
    is_redelivered: bool
    message: Message
    location: PageLocation | None


class _Page(NamedTuple):
    """A page as it was at the capture: its octets, or where they are."""

    kind: Kind
    section: Section
    place: int
    messages: int
    first: int
    last: int
    message_bytes: int
    has_expiring: bool
    data: bytes | None
    location: PageLocation | None
    queue_id: int


Part = tuple[int, bytes] | _Entry | _Page | StreamPart | StreamTail


def head_parts(state: GroupState) -> list[Part]:
    """What stands before the queues: the time, and the sources of commands."""
    buffer = Buffer()
    buffer.put_u8(VERSION_WITH_STREAMS if state.has_streams else VERSION)
    buffer.put_u64(state.clock)
    parts: list[Part] = [(Kind.GROUP, buffer.take())]
    parts += [(Kind.ORIGIN, origin_octets(origin)) for origin in state.origins.values()]
    return parts


def parts_of(of: QuorumQueue | Stream, names_places: bool) -> Iterable[Part]:
    """A queue or a stream as of now, to be gone through once. names_places: refer to stored pages and what is in them;
    else everything is written out."""
    if isinstance(of, Stream):
        return stream_parts(of, names_places)
    queue = of
    parts: list[Part] = []
    if isinstance(queue, CursorQueue):
        parts.append((CURSOR, queue_octets(queue)))
        parts += holders_parts(queue)
        parts += offset_parts(queue)
    else:
        parts.append((Kind.QUEUE, queue_octets(queue)))
        parts += holders_parts(queue)
        parts += deduplication_parts(queue)
        parts += _message_parts(queue, names_places)
        if isinstance(queue.resting, Resting):
            parts += _ready_parts(queue.resting.waiting, queue.queue_id, Section.RESTING, 0, names_places)
    parts += [_entry(Section.TRANSIT, 0, entry, names_places) for entry in queue.letters.transit]
    parts += _ready_parts(queue.letters.waiting, queue.queue_id, Section.LETTERS, 0, names_places)
    parts += _lease_parts(queue, names_places)
    parts.append((Kind.QUEUE_END, b""))
    return parts


def _message_parts(queue: QuorumQueue, names_places: bool) -> list[Part]:
    """What is in hand, and what is ready."""
    parts: list[Part] = []
    for place, delivery_owner in enumerate(queue.delivery_owners.values()):
        for delivery_id, (entry, since) in delivery_owner.held.items():
            parts.append(_entry(Section.HELD, place, entry, names_places, delivery_id, since))
    for level, ready in enumerate(queue.levels()):
        parts += _ready_parts(ready, queue.queue_id, Section.READY, level, names_places)
    return parts


def origin_octets(origin: Origin) -> bytes:
    buffer = Buffer()
    buffer.put_shortstr(octets_of(origin.name))
    buffer.put_u64(origin.session)
    buffer.put_u8(1 if origin.is_open else 0)
    buffer.put_u64(origin.last_sequence)
    buffer.put_u64(origin.last_consumer)
    buffer.put_u64(origin.next_notice)
    buffer.put_u32(len(origin.notices))
    for number, at, kind, a, b, c in origin.notices:
        buffer.put_u64(number)
        buffer.put_u64(at)
        buffer.put_u8(kind)
        for value in (a, b, c):
            buffer.put_u64(value)
    return buffer.take()


def queue_octets(queue: QuorumQueue) -> bytes:
    buffer = Buffer()
    buffer.put_u64(queue.queue_id)
    buffer.put_u64(queue.next_sequence)
    buffer.put_u64(queue.last_used)
    buffer.put_u64(queue.letters.next_letter)
    buffer.put_u16(len(queue.levels()) if isinstance(queue.ready, PriorityReady) else 0)
    buffer.put_u8(1 if queue.may_expire else 0)
    buffer.put_u8(1 if queue.dispatcher.is_single_active else 0)
    if isinstance(queue, CursorQueue):
        assert isinstance(queue.quorum_settings, CursorSettings)
        put_cursor_settings(buffer, queue.quorum_settings)
        put_place(buffer, queue.place)
    else:
        put_settings(buffer, queue.quorum_settings)
    return buffer.take()


def holders_parts(queue: QuorumQueue) -> list[tuple[Kind, bytes]]:
    """The consumers and getters, and the dispatcher's line."""
    parts = []
    buffer = Buffer()
    for delivery_owner in queue.delivery_owners.values():
        buffer.put_shortstr(octets_of(delivery_owner.origin))
        buffer.put_u64(delivery_owner.consumer_id)
        buffer.put_u32(delivery_owner.prefetch)
        buffer.put_u8(
            (NO_ACK if delivery_owner.no_ack else 0)
            | (EXCLUSIVE if delivery_owner.is_exclusive else 0)
            | (ATTACHED if delivery_owner.is_attached else 0)
            | (GETTER if delivery_owner.is_getter else 0)
        )
        buffer.put_u32(delivery_owner.priority & 0xFFFFFFFF)
        buffer.put_shortstr(octets_of(delivery_owner.tag))
        buffer.put_u64(delivery_owner.next_delivery)
        parts.append((Kind.HOLDER, buffer.take()))
    places = {key: place for place, key in enumerate(queue.delivery_owners)}
    dispatcher = queue.dispatcher
    active: Any = dispatcher.active
    line: list[Any] = dispatcher.in_line()
    buffer.put_u32(0 if active is None else places[active.origin, active.consumer_id] + 1)
    buffer.put_u32(len(line))
    for consumer in line:
        buffer.put_u32(places[consumer.origin, consumer.consumer_id])
    parts.append((Kind.LINE, buffer.take()))
    return parts


def deduplication_parts(queue: QuorumQueue) -> list[tuple[Kind, bytes]]:
    parts = []
    known = queue.deduplication
    for kind, table in ((Kind.PRODUCERS, known.producers), (Kind.WINDOW, known.window)):
        if table:
            buffer = Buffer()
            buffer.put_u32(len(table))
            for name, value in table.items():
                buffer.put_shortstr(name)
                buffer.put_u64(value)
            parts.append((kind, buffer.take()))
    return parts


def lease_octets(lease: QuorumLease) -> bytes:
    buffer = Buffer()
    for name in (lease.name, lease.incarnation, lease.owner):
        buffer.put_shortstr(octets_of(name))
    buffer.put_u64(lease.trimmed)
    buffer.put_u64(lease.next)
    buffer.put_u64(lease.last_called)
    buffer.put_u8(1 if lease.state == RELEASING else 0)
    return buffer.take()


def _lease_parts(queue: QuorumQueue, names_places: bool) -> list[Part]:
    """The lease groups, each followed by what it holds."""
    parts: list[Part] = []
    for place, lease in enumerate(queue.leased()):
        parts.append((Kind.LEASE, lease_octets(lease)))
        parts += _paged_parts(lease.pages, lease.tail, queue.queue_id, Section.LEASED, place, names_places)
    return parts


def _entry(
    section: Section, place: int, entry: Entry, names_places: bool, delivery_id: int = 0, since: int = 0
) -> _Entry:
    location = entry.page.location if names_places and entry.page is not None else None
    return _Entry(
        section, place, delivery_id, since, entry.sequence, entry.expires_at, entry.returns, entry.is_redelivered,
        entry.message, location,
    )  # fmt: skip


def _ready_parts(ready: Ready, queue_id: int, section: Section, place: int, names_places: bool) -> list[Part]:
    parts: list[Part] = [_entry(section, place, entry, names_places) for entry in [*ready.head, *ready.stragglers]]
    if ready.pages is not None:
        parts += _paged_parts(ready.pages, ready.tail, queue_id, section, place, names_places)
    return parts


def _paged_parts(
    pages: Iterable[Page], tail: PageBuilder, queue_id: int, section: Section, place: int, names_places: bool
) -> list[Part]:
    parts: list[Part] = []
    for page in pages:
        kind = Kind.PAGE_AT if names_places and page.location is not None else Kind.PAGE
        parts.append(_page(kind, section, place, page, page.data, queue_id))
    if tail.count:
        octets = bytes(tail.buffer.view())
        parts.append(_page(Kind.TAIL, section, place, tail, octets, queue_id))
    return parts


def _page(
    kind: Kind, section: Section, place: int, page: Page | PageBuilder, data: bytes | None, queue_id: int
) -> _Page:
    location = page.location if isinstance(page, Page) else None
    return _Page(
        kind, section, place, page.count, page.first, page.last, page.message_bytes, page.has_expiring,
        None if kind is Kind.PAGE_AT else data, location, queue_id,
    )  # fmt: skip


def encode_part(part: Part, pager: Pager) -> tuple[int, bytes]:
    """A part as a record. Raises CorruptRecord, OSError where a page has to be read."""
    if isinstance(part, _Entry):
        return _encode_entry(part)
    if isinstance(part, _Page):
        return part.kind, _encode_page(part, pager)
    if isinstance(part, StreamPart | StreamTail):
        return part.encode(pager)
    return part


def _encode_entry(part: _Entry) -> tuple[Kind, bytes]:
    buffer = Buffer()
    buffer.put_u8(part.section)
    buffer.put_u32(part.place)
    buffer.put_u64(part.delivery_id)
    buffer.put_u64(part.since)
    buffer.put_u64(part.sequence)
    buffer.put_u64(part.expires_at)
    buffer.put_u16(part.returns)
    buffer.put_u8(1 if part.is_redelivered else 0)
    if part.location is not None:
        _put_location(buffer, part.location)
        return Kind.ENTRY_AT, buffer.take()
    put_message(buffer, part.message)
    return Kind.ENTRY, buffer.take()


def _encode_page(part: _Page, pager: Pager) -> bytes:
    buffer = Buffer()
    buffer.put_u8(part.section)
    buffer.put_u32(part.place)
    buffer.put_u32(part.messages)
    buffer.put_u64(part.first)
    buffer.put_u64(part.last)
    buffer.put_u64(part.message_bytes)
    buffer.put_u8(1 if part.has_expiring else 0)
    if part.kind is Kind.PAGE_AT and part.location is not None:
        _put_location(buffer, part.location)
        return buffer.take()
    data = part.data
    if data is None:
        assert part.location is not None  # what is not in RAM is on disk
        data = pager.page_store.read(part.queue_id, part.location)
    return b"".join([buffer.take(), data])


def _put_location(buffer: Buffer, location: PageLocation) -> None:
    buffer.put_u32(location.segment)
    buffer.put_u64(location.offset)
    buffer.put_u32(location.length)


def chunks_of(parts: Iterable[Part], pager: Pager, slice_bytes: int, cuts: bool = False) -> Iterator[bytes | None]:
    """The image in chunks of at most CHUNK_BYTES; a record may go over several. None: a slice is over, and more comes.
    slice_bytes: what a slice is about, where each record counts for some octets more (RECORD_BYTES); it ends with a
    chunk in any case. cuts: a chunk ends with it."""
    pending = bytearray()
    count = done = 0
    for part in parts:
        kind, payload = encode_part(part, pager)
        count += 1
        pending += bytes([kind]) + len(payload).to_bytes(4, "big")
        pending += payload
        done += RECORD_BYTES + len(payload)
        while len(pending) >= CHUNK_BYTES:
            yield _take_chunk(pending)
            done = 0
        if done >= slice_bytes:
            done = 0
            yield _take_chunk(pending) if cuts and pending else None
    pending += bytes([Kind.END]) + b"\x00\x00\x00\x04" + count.to_bytes(4, "big")
    while pending:
        yield _take_chunk(pending)


def _take_chunk(pending: bytearray) -> bytes:
    chunk = bytes(memoryview(pending)[:CHUNK_BYTES])
    del pending[:CHUNK_BYTES]
    return chunk
