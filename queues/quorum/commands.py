"""Commands of a queue group, and the octets of a batch of them: what one entry of the group's log holds.

    batch    u8 version, u64 time, short origin, u64 session, u64 first, u64 seen, u32 n, n commands
    command  u8 kind, u32 length of what follows, fields (codec.py; Attach has its own below, Enqueue and Settle in
             traffic.py)

The version is 2, and 3 if there is a command about a stream, or about messages that rest before they come again
(resting.py): a program that reads 2 alone never gets one.

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
from typing import TYPE_CHECKING, NamedTuple

import cython

from amqp_broker.octets.buffer import Buffer
from queues.arguments import TIME_MAX
from queues.message import Message
from queues.page import AddressBook, put_message
from queues.quorum import cursor_commands, lease_commands
from queues.quorum.cursor_commands import OpenCursor
from queues.quorum.lease_commands import LeaseCommand
from queues.quorum.settings import QuorumSettings, get_settings, put_settings
from queues.stream import commands as stream_commands
from queues.stream.append_chunk import AppendChunk
from queues.stream.commands import STREAM_COMMANDS, StreamCommand
from queues.wire.codec import FLAG, NAME, U32, U64, Codec, Field, codec_of, readers_of, writers_of
from queues.wire.reader import U64_MAX, Reader, octets_of
from queues.wire.traffic import Enqueue as Enqueue  # the two are commands like the others
from queues.wire.traffic import How as How
from queues.wire.traffic import Settle as Settle

if TYPE_CHECKING:
    from queues.queue import Queue

if not cython.compiled:
    from queues.stream.append_chunk import get_append, put_append
    from queues.wire.traffic import get_enqueue, get_settle, put_enqueue, put_settle

VERSION = 2
VERSION_WITH_STREAMS = 3
_TIME = struct.Struct(">Q")
_TIME_AT = 1
#: Octets of a command before its fields: kind and length.
_HEAD_BYTES = 5

_OPEN_QUEUE = 1
_DROP_QUEUE = 2
ENQUEUE = 3
_ENQUEUE = ENQUEUE
_SETTLE = 4
_ATTACH = 5
_DETACH = 6
_PREFETCH = 7
_GET = 8
_PURGE = 9
_TICK = 16
_NODE_DOWN = 17
_DISPATCHED = 18
#: The kinds that are a leader's, and no node's.
LEADERS_FIRST, LEADERS_LAST = _TICK, _DISPATCHED
#: From here on kinds are those of queues/stream/commands.py, of cursor_commands.py, and the two below; those between
#: are the leader's.
_STREAMS = stream_commands.OPEN_STREAM
_APPEND_CHUNK = stream_commands.APPEND_CHUNK
#: OpenQueue with settings that are extended, and Settle with How.FAIL.
_OPEN_EXTENDED = 40
_SETTLE_FAILED = 41
_FAIL = How.FAIL


class OpenQueue(NamedTuple):
    """The queue is there, with these settings; they replace those it had (but for the number of priorities)."""

    queue_id: int
    settings: QuorumSettings


class DropQueue(NamedTuple):
    queue_id: int


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
    """A consumer gets nothing more. What it holds stays with it, or returns to the queue; but deliveries above `seen`,
    which its client has not been given, return in any case, and as they came."""

    consumer: int
    gives_back: bool
    seen: int = U64_MAX


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
    OpenQueue | DropQueue | Enqueue | Settle | Attach | Detach | Prefetch | Get | Purge | LeaseCommand
    | StreamCommand | OpenCursor | Tick | NodeDown | Dispatched
)  # fmt: skip
#: A batch with one of these has the version with streams.
WITH_STREAMS: tuple[type, ...] = (*STREAM_COMMANDS, OpenCursor)


class Batch(NamedTuple):
    """One log entry. See the module's docstring."""

    time: int
    origin: str
    session: int
    first: int
    seen: int
    commands: list[Command]


#: Octets of session, first and seen.
_NUMBERS_BYTES = 24
# As integers of this module, which a compiled one compares in C.
_VERSION = VERSION
_WITH_STREAMS = VERSION_WITH_STREAMS
_TIME_MAX = TIME_MAX
_U64_MAX = U64_MAX
#: Kinds of what makes a queue or a stream, or gives it other settings.
_OPENINGS = (_OPEN_QUEUE, _OPEN_EXTENDED, stream_commands.OPEN_STREAM, cursor_commands.OPEN_CURSOR)


# -- encoding ----------------------------------------------------------------------------------------------------------


def _put_attach(buffer: Buffer, command: Attach) -> None:
    buffer.put_u64(command.consumer)
    buffer.put_u64(command.queue_id)
    buffer.put_u32(command.prefetch)
    buffer.put_u8((1 if command.no_ack else 0) | (2 if command.exclusive else 0))
    buffer.put_u32(command.priority & 0xFFFFFFFF)
    buffer.put_shortstr(octets_of(command.tag))


def _is_extended(command: Command) -> bool:
    """Whether it is about what the version before does not know: messages that rest before they come again, and single
    active consumers that give way."""
    if isinstance(command, Settle):
        return command.how is _FAIL
    return isinstance(command, OpenQueue) and command.settings.is_extended


def put_command(buffer: Buffer, command: Command) -> None:
    """Append the octets of a command."""
    start = buffer.length
    if type(command) is Enqueue:
        buffer.put_u8(_ENQUEUE)
        buffer.put_u32(0)
        put_enqueue(buffer, command)
    elif type(command) is Settle:
        buffer.put_u8(_SETTLE_FAILED if command.how is _FAIL else _SETTLE)
        buffer.put_u32(0)
        put_settle(buffer, command)
    elif type(command) is AppendChunk:
        buffer.put_u8(_APPEND_CHUNK)
        buffer.put_u32(0)
        put_append(buffer, command)
    else:
        kind, put = _WRITERS[type(command)]
        buffer.put_u8(_OPEN_EXTENDED if _is_extended(command) else kind)
        buffer.put_u32(0)
        put(buffer, command)
    buffer.set_u32(start + 1, buffer.length - start - _HEAD_BYTES)


def put_publish(buffer: Buffer, queues: Sequence[Queue], message: Message) -> None:
    """Append the octets of an Enqueue for these queues without marks, for which none is made."""
    start = buffer.length
    buffer.put_u8(_ENQUEUE)
    buffer.put_u32(0)
    buffer.put_u16(len(queues))
    for queue in queues:
        buffer.put_u64(queue.queue_id)
    buffer.put_u16(0)  # two empty short strings
    put_message(buffer, message)
    buffer.set_u32(start + 1, buffer.length - start - _HEAD_BYTES)


def put_batch_head(
    buffer: Buffer, time: int, origin: str, session: int, first: int, seen: int, version: int = VERSION
) -> int:
    """Append what comes before the commands. Returns where their number is, a u32 that is 0 so far."""
    buffer.put_u8(version)
    buffer.put_u64(time)
    buffer.put_shortstr(octets_of(origin))
    buffer.put_u64(session)
    buffer.put_u64(first)
    buffer.put_u64(seen)
    buffer.put_u32(0)
    return buffer.length - 4


def encode_batch(batch: Batch) -> bytes:
    """The octets of a batch."""
    buffer = Buffer()
    has_streams = any(type(command) in WITH_STREAMS or _is_extended(command) for command in batch.commands)
    count_at = put_batch_head(buffer, *batch[:5], VERSION_WITH_STREAMS if has_streams else VERSION)
    for command in batch.commands:
        put_command(buffer, command)
    buffer.set_u32(count_at, len(batch.commands))
    return buffer.take()


def encode_leader_batch(time: int, commands: Sequence[Tick | NodeDown | Dispatched]) -> bytes:
    """A batch of the leader's own."""
    return encode_batch(Batch(time, "", 0, 0, 0, list(commands)))


def with_time(batch: bytes | memoryview, time: int) -> bytes:
    """The batch with this time, as the leader proposes it."""
    octets = memoryview(batch)
    return b"".join([octets[:_TIME_AT], _TIME.pack(time), octets[_TIME_AT + _TIME.size :]])


# -- decoding ----------------------------------------------------------------------------------------------------------


def _get_attach(reader: Reader) -> Command:
    consumer, queue_id, prefetch, flags = reader.u64(), reader.u64(), reader.u32(), reader.flags(3)
    return Attach(consumer, queue_id, prefetch, bool(flags & 1), reader.i32(), bool(flags & 2), reader.name())


_SETTINGS = Field(put_settings, get_settings)
_CODECS = {
    _OPEN_QUEUE: codec_of(OpenQueue, U64, _SETTINGS),
    _OPEN_EXTENDED: codec_of(OpenQueue, U64, _SETTINGS),
    _DROP_QUEUE: codec_of(DropQueue, U64),
    _ATTACH: Codec(Attach, _put_attach, _get_attach),
    _DETACH: codec_of(Detach, U64, FLAG, U64),
    _PREFETCH: codec_of(Prefetch, U64, U32),
    _GET: codec_of(Get, U64, U64),
    _PURGE: codec_of(Purge, U64),
    **lease_commands.CODECS,
    **stream_commands.CODECS,
    **cursor_commands.CODECS,
    _TICK: codec_of(Tick),
    _NODE_DOWN: codec_of(NodeDown, NAME, U64),
    _DISPATCHED: codec_of(Dispatched, U64, U64),
}
_READERS: dict[int, Callable[[Reader], Command]] = readers_of(_CODECS)
_WRITERS = writers_of(_CODECS)


def origin_of(batch: bytes) -> tuple[str, int]:
    """Which node a batch comes from, and in which session; "" and 0 for one of the leader's. Raises Malformed."""
    reader = Reader(batch, "batch")
    reader.skip(_TIME_AT + _TIME.size)
    return reader.name(), reader.u64()


def begins_with_opening(batch: bytes) -> bool:
    """Whether the first command of a node's batch makes a queue or a stream. Raises Malformed."""
    reader = Reader(batch, "batch")
    reader.skip(_TIME_AT + _TIME.size)
    reader.short()
    reader.skip(_NUMBERS_BYTES)
    return reader.count(_HEAD_BYTES) > 0 and reader.u8() in _OPENINGS


def decode_batch(data: bytes, addresses: AddressBook) -> Batch:
    """The batch. Raises Malformed."""
    reader = Reader(data, "batch")
    batch, version, count = get_batch_head(reader)
    commands = batch.commands
    commands += _get_commands(reader, count, not batch.origin, version, addresses)
    return batch


def get_batch_head(reader: Reader) -> tuple[Batch, int, int]:
    """What comes before the commands: the batch without them, its version, and their number. Raises Malformed."""
    version = reader.u8()
    if version != _VERSION and version != _WITH_STREAMS:
        raise reader.fail(f"version {version}; this program reads up to {VERSION_WITH_STREAMS}: update it")
    time = reader.u64()
    if time > _TIME_MAX:
        raise reader.fail(f"the time {time}")
    origin = reader.name()
    session = reader.u64()
    first = reader.u64()
    seen = reader.u64()
    count = reader.count(_HEAD_BYTES)
    if origin and (not session or not first or first > _U64_MAX - count):
        raise reader.fail(f"session {session} of '{origin}' with command {first} and {count} more")
    if not origin and (session or first or seen):
        raise reader.fail("a batch of the leader with a session")
    return Batch(time, origin, session, first, seen, []), version, count


def _get_commands(
    reader: Reader, count: int, is_leaders: bool, version: int, addresses: AddressBook
) -> list[Command]:
    """The commands, which are all that is left."""
    fields = Reader(reader.data, "command")
    commands: list[Command] = []
    has_streams = False
    for _ in range(count):
        kind = fields.enter(reader)
        has_streams = has_streams or kind >= _STREAMS
        if (_TICK <= kind < _STREAMS) != is_leaders:
            raise reader.fail(f"command {kind}: leaders and nodes have different ones, or a newer version wrote it")
        if kind == _ENQUEUE:
            commands.append(get_enqueue(fields, addresses))
        elif kind == _APPEND_CHUNK:
            commands.append(get_append(fields))
        else:
            commands.append(get_command(fields, kind))
        fields.finish()
    if has_streams != (version == VERSION_WITH_STREAMS):
        raise reader.fail(f"commands about streams are in batches of version {VERSION_WITH_STREAMS}, and in no others")
    reader.finish()
    return commands


def get_command(reader: Reader, kind: int) -> Command:
    """Any command but an Enqueue, of which these are the fields. Raises Malformed."""
    if kind in (_SETTLE, _SETTLE_FAILED):
        settle = get_settle(reader)
        if (settle.how is _FAIL) != (kind == _SETTLE_FAILED):
            raise reader.fail(f"command {kind} settles as {settle.how}")
        return settle
    read = _READERS.get(kind)
    if read is None:
        raise reader.fail(f"command of unknown kind {kind}: written by a newer version?")
    command = read(reader)
    if (kind == _OPEN_EXTENDED) != _is_extended(command):
        raise reader.fail(f"command {kind}: a queue has retry, or gives way, by command {_OPEN_EXTENDED} only")
    return command
