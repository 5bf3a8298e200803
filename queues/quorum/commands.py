"""Commands of a queue group, and the octets of a batch of them: what one entry of the group's log holds.

    batch    u8 version 1, u64 time, short origin, u64 session, u64 first, u64 seen, u32 n, n commands
    command  u8 kind, u32 length of what follows, fields (put_... below, in that order)

Of a node's ordered command stream: origin is the node's name, session counts its streams, first is the number of the
first command in the stream (from 1), seen the number of the last one whose effects the node has taken. Of the group's
leader: an empty origin, and 0 for all three. Time is the leader's, milliseconds since the epoch: it is put in with
`with_time` when the leader proposes the batch, so that a node whose clock is wrong ages nobody's messages.

The decoder is strict: what it accepts encodes to the same octets. It raises Malformed only. It is checked before a
batch is proposed; a committed entry that cannot be read is of a newer version, and stops the node.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import NamedTuple

from octets.buffer import Buffer
from queues.message import Message
from queues.page import AddressBook, get_message, put_message
from queues.quorum.reader import U64_MAX, Malformed, Reader, octets_of
from queues.quorum.settings import QuorumSettings, get_settings, put_settings

VERSION = 1
_TIME = struct.Struct(">Q")
_TIME_AT = 1
_HEAD = struct.Struct(">BL")
_MESSAGE_FIXED = struct.Struct(">BBQQQLLH")
_SEPARATE = 2

_OPEN_QUEUE, _DROP_QUEUE, _ENQUEUE, _SETTLE, _ATTACH, _DETACH, _PREFETCH, _GET, _PURGE = range(1, 10)
_TICK, _NODE_DOWN, _DISPATCHED = range(16, 19)


class How(IntEnum):
    """How deliveries are settled."""

    ACK = 0
    REQUEUE = 1
    REJECT = 2
    RETURN = 3
    """The client has never had them: they go back as they came, and that does not count as a return."""


class OpenQueue(NamedTuple):
    """The queue is there, with these settings; they replace those it had (but for the number of priorities)."""

    queue_id: int
    settings: QuorumSettings


class DropQueue(NamedTuple):
    queue_id: int


class Enqueue(NamedTuple):
    """One message for queues of this group. producer and producer_sequence, message_id: by these it is recognised when
    it is published again; empty for none."""

    queue_ids: tuple[int, ...]
    message: Message
    producer: bytes = b""
    producer_sequence: int = 0
    message_id: bytes = b""


class Settle(NamedTuple):
    """ranges: (first, last) delivery ids, both included."""

    consumer: int
    how: How
    ranges: tuple[tuple[int, int], ...]


class Attach(NamedTuple):
    """A consumer joins. consumer: a number above all that this node has ever used in this group, over all sessions.
    prefetch: how many deliveries it may hold, 0 for the most that anybody may."""

    consumer: int
    queue_id: int
    prefetch: int
    no_ack: bool
    priority: int
    exclusive: bool
    tag: str


class Detach(NamedTuple):
    """A consumer gets nothing more. What it holds stays with it, or returns to the queue."""

    consumer: int
    gives_back: bool


class Prefetch(NamedTuple):
    consumer: int
    prefetch: int


class Get(NamedTuple):
    """Fetch one message. consumer: who holds it then; a new number, as for Attach, for each Get."""

    consumer: int
    queue_id: int


class Purge(NamedTuple):
    queue_id: int


class Tick(NamedTuple):
    """Nothing but the time of its batch."""


class NodeDown(NamedTuple):
    """The stream of this node and session is over."""

    node: str
    session: int


class Dispatched(NamedTuple):
    """The queue's dead letters up to this number are where they were to go."""

    queue_id: int
    letter: int


Command = (
    OpenQueue | DropQueue | Enqueue | Settle | Attach | Detach | Prefetch | Get | Purge | Tick | NodeDown | Dispatched
)


class Batch(NamedTuple):
    """One log entry. See the module's docstring."""

    time: int
    origin: str
    session: int
    first: int
    seen: int
    commands: list[Command]


# -- encoding ----------------------------------------------------------------------------------------------------------


def _put_open_queue(buffer: Buffer, command: OpenQueue) -> None:
    buffer.put_u64(command.queue_id)
    put_settings(buffer, command.settings)


def _put_queue_id(buffer: Buffer, command: DropQueue | Purge) -> None:
    buffer.put_u64(command.queue_id)


def _put_enqueue(buffer: Buffer, command: Enqueue) -> None:
    buffer.put_u16(len(command.queue_ids))
    for queue_id in command.queue_ids:
        buffer.put_u64(queue_id)
    buffer.put_shortstr(command.producer)
    if command.producer:
        buffer.put_u64(command.producer_sequence)
    buffer.put_shortstr(command.message_id)
    put_message(buffer, command.message)


def _put_settle(buffer: Buffer, command: Settle) -> None:
    buffer.put_u64(command.consumer)
    buffer.put_u8(command.how)
    buffer.put_u32(len(command.ranges))
    for first, last in command.ranges:
        buffer.put_u64(first)
        buffer.put_u64(last)


def _put_attach(buffer: Buffer, command: Attach) -> None:
    buffer.put_u64(command.consumer)
    buffer.put_u64(command.queue_id)
    buffer.put_u32(command.prefetch)
    buffer.put_u8((1 if command.no_ack else 0) | (2 if command.exclusive else 0))
    buffer.put_u32(command.priority & 0xFFFFFFFF)
    buffer.put_shortstr(octets_of(command.tag))


def _put_detach(buffer: Buffer, command: Detach) -> None:
    buffer.put_u64(command.consumer)
    buffer.put_u8(1 if command.gives_back else 0)


def _put_prefetch(buffer: Buffer, command: Prefetch) -> None:
    buffer.put_u64(command.consumer)
    buffer.put_u32(command.prefetch)


def _put_get(buffer: Buffer, command: Get) -> None:
    buffer.put_u64(command.consumer)
    buffer.put_u64(command.queue_id)


def _put_tick(buffer: Buffer, command: Tick) -> None:
    pass


def _put_node_down(buffer: Buffer, command: NodeDown) -> None:
    buffer.put_shortstr(octets_of(command.node))
    buffer.put_u64(command.session)


def _put_dispatched(buffer: Buffer, command: Dispatched) -> None:
    buffer.put_u64(command.queue_id)
    buffer.put_u64(command.letter)


_WRITERS: dict[type, tuple[int, Callable[..., None]]] = {
    OpenQueue: (_OPEN_QUEUE, _put_open_queue),
    DropQueue: (_DROP_QUEUE, _put_queue_id),
    Enqueue: (_ENQUEUE, _put_enqueue),
    Settle: (_SETTLE, _put_settle),
    Attach: (_ATTACH, _put_attach),
    Detach: (_DETACH, _put_detach),
    Prefetch: (_PREFETCH, _put_prefetch),
    Get: (_GET, _put_get),
    Purge: (_PURGE, _put_queue_id),
    Tick: (_TICK, _put_tick),
    NodeDown: (_NODE_DOWN, _put_node_down),
    Dispatched: (_DISPATCHED, _put_dispatched),
}


def encode_command(command: Command) -> bytes:
    """The octets of one command, for `join_batch`."""
    kind, put = _WRITERS[type(command)]
    buffer = Buffer()
    buffer.put_u8(kind)
    buffer.put_u32(0)
    put(buffer, command)
    buffer.set_u32(1, buffer.length - _HEAD.size)
    return buffer.take()


def join_batch(time: int, origin: str, session: int, first: int, seen: int, commands: Sequence[bytes]) -> bytes:
    """A batch of commands that are encoded already."""
    buffer = Buffer(64)
    buffer.put_u8(VERSION)
    buffer.put_u64(time)
    buffer.put_shortstr(octets_of(origin))
    buffer.put_u64(session)
    buffer.put_u64(first)
    buffer.put_u64(seen)
    buffer.put_u32(len(commands))
    return b"".join([buffer.take(), *commands])


def encode_batch(batch: Batch) -> bytes:
    """The octets of a batch."""
    return join_batch(*batch[:5], [encode_command(command) for command in batch.commands])


def encode_leader_batch(time: int, commands: Sequence[Tick | NodeDown | Dispatched]) -> bytes:
    """A batch of the leader's own."""
    return join_batch(time, "", 0, 0, 0, [encode_command(command) for command in commands])


def with_time(batch: bytes, time: int) -> bytes:
    """The batch with this time, as the leader proposes it."""
    return b"".join([batch[:_TIME_AT], _TIME.pack(time), batch[_TIME_AT + _TIME.size :]])


# -- decoding ----------------------------------------------------------------------------------------------------------


def read_message(reader: Reader, addresses: AddressBook) -> Message:
    """The packed message from the reader's position to its end, all of whose parts fit together. Raises Malformed."""
    start, end, data = reader.position, reader.end, reader.data
    if end - start < _MESSAGE_FIXED.size:
        raise reader.fail("a packed message begins here and is cut")
    flags, _, _, _, body_size, header_end, content, address = _MESSAGE_FIXED.unpack_from(data, start)
    if flags & ~7:
        raise reader.fail(f"a message with flags {flags:#x}")
    at = start + _MESSAGE_FIXED.size
    if at + address + content > end:
        raise reader.fail(f"a message of {end - start} octets announces {address} + {content}")
    if address < 2 or data[at] + 2 > address or data[at] + 2 + data[at + 1 + data[at]] != address:
        raise reader.fail("an address is two short strings")
    in_content = header_end
    if not flags & _SEPARATE and body_size:
        in_content += body_size + 8
    if header_end < 22 or in_content != content:
        raise reader.fail(f"content of {content} octets has a header of {header_end}, a body of {body_size}")
    try:
        message = get_message(data, start, end, addresses)
    except ValueError as error:
        raise Malformed(str(error)) from error
    size = _MESSAGE_FIXED.size + address + content
    if message.body is not None:
        size += 4 + sum([4 + len(chunk) for chunk in message.body])
        if sum([len(chunk) for chunk in message.body]) != body_size:
            raise reader.fail(f"the chunks of a body are not {body_size} octets")
    if size != end - start:
        raise reader.fail(f"a message of {size} octets in a place of {end - start}")
    reader.position = end
    return message


def _get_open_queue(reader: Reader, addresses: AddressBook) -> Command:
    return OpenQueue(reader.u64(), get_settings(reader))


def _get_drop_queue(reader: Reader, addresses: AddressBook) -> Command:
    return DropQueue(reader.u64())


def _get_enqueue(reader: Reader, addresses: AddressBook) -> Command:
    count = reader.u16()
    if not count:
        raise reader.fail("a message for no queue")
    queue_ids = struct.unpack_from(f">{count}Q", reader.data, reader.skip(8 * count))
    producer = reader.short()
    sequence = reader.u64() if producer else 0
    message_id = reader.short()
    return Enqueue(queue_ids, read_message(reader, addresses), producer, sequence, message_id)


def _get_settle(reader: Reader, addresses: AddressBook) -> Command:
    consumer = reader.u64()
    how = reader.u8()
    if how > How.RETURN:
        raise reader.fail(f"way {how} of settling is not known")
    count = reader.count(16)
    numbers = struct.unpack_from(f">{2 * count}Q", reader.data, reader.skip(16 * count))
    ranges = tuple(zip(numbers[::2], numbers[1::2], strict=True))
    for first, last in ranges:
        if not 0 < first <= last:
            raise reader.fail(f"deliveries from {first} to {last}")
    return Settle(consumer, How(how), ranges)


def _get_attach(reader: Reader, addresses: AddressBook) -> Command:
    consumer, queue_id, prefetch, flags = reader.u64(), reader.u64(), reader.u32(), reader.flags(3)
    return Attach(consumer, queue_id, prefetch, bool(flags & 1), reader.i32(), bool(flags & 2), reader.name())


def _get_detach(reader: Reader, addresses: AddressBook) -> Command:
    return Detach(reader.u64(), bool(reader.flags(1)))


def _get_prefetch(reader: Reader, addresses: AddressBook) -> Command:
    return Prefetch(reader.u64(), reader.u32())


def _get_get(reader: Reader, addresses: AddressBook) -> Command:
    return Get(reader.u64(), reader.u64())


def _get_purge(reader: Reader, addresses: AddressBook) -> Command:
    return Purge(reader.u64())


def _get_tick(reader: Reader, addresses: AddressBook) -> Command:
    return Tick()


def _get_node_down(reader: Reader, addresses: AddressBook) -> Command:
    return NodeDown(reader.name(), reader.u64())


def _get_dispatched(reader: Reader, addresses: AddressBook) -> Command:
    return Dispatched(reader.u64(), reader.u64())


_READERS: dict[int, Callable[[Reader, AddressBook], Command]] = {
    _OPEN_QUEUE: _get_open_queue,
    _DROP_QUEUE: _get_drop_queue,
    _ENQUEUE: _get_enqueue,
    _SETTLE: _get_settle,
    _ATTACH: _get_attach,
    _DETACH: _get_detach,
    _PREFETCH: _get_prefetch,
    _GET: _get_get,
    _PURGE: _get_purge,
    _TICK: _get_tick,
    _NODE_DOWN: _get_node_down,
    _DISPATCHED: _get_dispatched,
}


def decode_batch(data: bytes, addresses: AddressBook) -> Batch:
    """The batch. Raises Malformed."""
    reader = Reader(data, "batch")
    version = reader.u8()
    if version != VERSION:
        raise reader.fail(f"version {version}; this program reads version {VERSION}: update it")
    time, origin, session, first, seen = reader.u64(), reader.name(), reader.u64(), reader.u64(), reader.u64()
    count = reader.count(_HEAD.size)
    if origin and (not session or not first or first + count > U64_MAX):
        raise reader.fail(f"session {session} of '{origin}' with command {first} and {count} more")
    if not origin and (session or first or seen):
        raise reader.fail("a batch of the leader with a session")
    commands: list[Command] = []
    for _ in range(count):
        kind, length = _HEAD.unpack_from(data, reader.skip(_HEAD.size))
        start = reader.skip(length)
        read = _READERS.get(kind)
        if read is None:
            raise reader.fail(f"command of unknown kind {kind}: written by a newer version?")
        if (kind < _TICK) is not bool(origin):
            raise reader.fail(f"command {kind} from '{origin}': leaders and nodes have different ones")
        fields = Reader(data, f"command {kind}", start, reader.position)
        commands.append(read(fields, addresses))
        fields.finish()
    reader.finish()
    return Batch(time, origin, session, first, seen, commands)
