"""Commands about streams, and their octets (queues/quorum/commands.py has the others). All name the stream by its id.

A batch that has one of them has a version of its own, and so has an image with a stream: programs that know no streams
refuse both. Their kinds are above all others.
"""

from __future__ import annotations

from typing import NamedTuple

from amqp_broker.octets.buffer import Buffer
from queues.stream.append_chunk import AppendChunk as AppendChunk  # it is a command like the others
from queues.stream.append_chunk import get_append, put_append
from queues.stream.settings import StreamSettings, get_settings, put_settings
from queues.stream.shares import MOST_PARTITIONS
from queues.wire.codec import NAME, U64, Codec, Field, codec_of
from queues.wire.reader import Reader

OPEN_STREAM = 20
APPEND_CHUNK = 21
TRIM = 22
HOLD = 23
JOIN_GROUP = 24
LEAVE_GROUP = 25
STORE_POSITION = 26
SEEK_GROUP = 27
FORGET_GROUP = 28
JOIN_PARTITIONS = 29
LEAVE_PARTITIONS = 30
OPEN_GROUP = 31
#: Those between are of other queues (queues/quorum/commands.py).
MOVE_GROUP = 42
COMPACTED = 43
COMPACT = 44
RETAIN = 45


class OpenStream(NamedTuple):
    """The stream is there, with these settings; they replace those it had."""

    queue_id: int
    settings: StreamSettings


class Trim(NamedTuple):
    """The stream begins at this offset now."""

    queue_id: int
    first: int


class Retain(NamedTuple):
    """The stream has limits, by which it begins at `first` now; where somebody holds what is before that, there, but
    not before `least`, as holds do not keep it for ever."""

    queue_id: int
    first: int
    least: int


class HoldStream(NamedTuple):
    """Retention stops at an offset until then, milliseconds since the epoch, for whoever has this name; 0: from now on
    it does not. Refused with FULL where the stream has too many holds."""

    queue_id: int
    name: str
    offset: int
    until: int


class JoinGroup(NamedTuple):
    """A consumer of the node reads with a group; the first of a group says where it begins. Refused with FULL where the
    stream has too many groups."""

    queue_id: int
    group: str
    number: int
    position: int


class LeaveGroup(NamedTuple):
    """It does not any more."""

    queue_id: int
    group: str
    number: int


class StorePosition(NamedTuple):
    """A group is so far, says its reader: everything before `position` is settled, nothing from `delivered` on was
    delivered. Refused with FENCED where another one reads by now."""

    queue_id: int
    group: str
    generation: int
    position: int
    delivered: int


class SeekGroup(NamedTuple):
    """A group goes on from there."""

    queue_id: int
    group: str
    position: int


class ForgetGroup(NamedTuple):
    """Nobody will go on with this group. Refused with EXCLUSIVE while it has members."""

    queue_id: int
    group: str


class JoinPartitions(NamedTuple):
    """A consumer of the node reads all partitions of a stream with a group, of which this is partition 0; the node
    knows of so many. Refused with NO_QUEUE where the group is not open."""

    queue_id: int
    group: str
    number: int
    partitions: int


class LeavePartitions(NamedTuple):
    """It does not any more."""

    queue_id: int
    group: str
    number: int


class OpenGroup(NamedTuple):
    """There is this group, whoever will read with it; it begins there if there was none. Refused as JoinGroup is."""

    queue_id: int
    group: str
    position: int


class MoveGroup(NamedTuple):
    """A transaction was committed that has everything before this position; a group is there now, if it was not beyond
    it, and there is this group. Refused as JoinGroup is."""

    queue_id: int
    group: str
    position: int


class CompactedTo(NamedTuple):
    """The node has compacted its pages of the stream up to this offset, and a checkpoint on its disk says so."""

    queue_id: int
    below: int


class Compact(NamedTuple):
    """Every member compacts now what is there. It changes nothing that members agree on."""

    queue_id: int


StreamCommand = (
    OpenStream | AppendChunk | Trim | HoldStream | JoinGroup | LeaveGroup | StorePosition | SeekGroup | ForgetGroup
    | JoinPartitions | LeavePartitions | OpenGroup | MoveGroup | CompactedTo | Compact | Retain
)  # fmt: skip


def _get_partitions(reader: Reader) -> int:
    partitions = reader.u64()
    if not 0 < partitions <= MOST_PARTITIONS:
        raise reader.fail(f"a stream of {partitions} partitions")
    return partitions


_SETTINGS = Field(put_settings, get_settings)
_PARTITIONS = Field(Buffer.put_u64, _get_partitions)

CODECS = {
    OPEN_STREAM: codec_of(OpenStream, U64, _SETTINGS),
    APPEND_CHUNK: Codec(AppendChunk, put_append, get_append),
    TRIM: codec_of(Trim, U64, U64),
    HOLD: codec_of(HoldStream, U64, NAME, U64, U64),
    JOIN_GROUP: codec_of(JoinGroup, U64, NAME, U64, U64),
    LEAVE_GROUP: codec_of(LeaveGroup, U64, NAME, U64),
    STORE_POSITION: codec_of(StorePosition, U64, NAME, U64, U64, U64),
    SEEK_GROUP: codec_of(SeekGroup, U64, NAME, U64),
    FORGET_GROUP: codec_of(ForgetGroup, U64, NAME),
    JOIN_PARTITIONS: codec_of(JoinPartitions, U64, NAME, U64, _PARTITIONS),
    LEAVE_PARTITIONS: codec_of(LeavePartitions, U64, NAME, U64),
    OPEN_GROUP: codec_of(OpenGroup, U64, NAME, U64),
    MOVE_GROUP: codec_of(MoveGroup, U64, NAME, U64),
    COMPACTED: codec_of(CompactedTo, U64, U64),
    COMPACT: codec_of(Compact, U64),
    RETAIN: codec_of(Retain, U64, U64, U64),
}
STREAM_COMMANDS: tuple[type, ...] = tuple([codec.of for codec in CODECS.values()])
