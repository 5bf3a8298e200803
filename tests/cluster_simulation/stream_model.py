"""StreamModel: what the committed logs of the queue groups mean for streams, said as simply as possible.

It reads the octets of chunks itself, and keeps a list for each stream: what is at which offset. It is told of every
entry that was applied for the first time, of what members have, and of what clients of streams were told:

    S1  a message that is published once has one offset at most; so has a producer's sequence, however often it is sent
    S2  what is confirmed is in the stream
    S3  whoever reads gets what is at the offset, in the order of offsets, from where it began, leaving nothing out
    S4  the first offset never falls, and rises only where something limits the stream
    S5  what is beyond the limits goes
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.cluster_simulation.partition_model import GroupModel
from tests.simulation.observer import message_number
from tests.simulation.state import Violation

_HEAD = struct.Struct(">BBHHLLL")
_RUN = struct.Struct(">QLL")
_RECORD = struct.Struct(">LLLLBHH")
_FRAME = struct.Struct(">BHL")
_BARE = 2
#: The header that says what number a message without a body has: what would be its body.
NUMBER = "x-number"
_NUMBER = b"\x08x-numberS"


@dataclass(slots=True, eq=False)
class Published:
    """A message for a stream. value: to be filtered by, or "". producer, sequence: by which it is known, or "". key: of
    what goes to a partition of a stream, which `stream` is then; or with which it is published to the exchange before
    the stream, or by which a stream is compacted; "" for one that goes to the stream by its name. is_tombstone: its
    body is empty, and its number in a header."""

    number: int
    stream: str
    body: bytes
    value: str = ""
    producer: str = ""
    sequence: int = 0
    key: str = ""
    is_confirmed: bool = False
    is_tombstone: bool = False


@dataclass(frozen=True, slots=True)
class StreamKind:
    """How a stream is declared, and what a model has to know of it. partitions: how many it has; whole, keys: of one
    that is a partition: the stream's name, and which keys are its own. is_compacted: by those of its messages.
    is_packed: pages that have left RAM are compressed."""

    name: str
    max_bytes: int | None = None
    max_age_s: int | None = None
    partitions: int = 0
    whole: str = ""
    keys: tuple[str, ...] = ()
    is_compacted: bool = False
    is_packed: bool = False

    @property
    def table(self) -> dict[str, object]:
        """The arguments of queue.declare."""
        table: dict[str, object] = {"x-queue-type": "stream", "x-stream-max-segment-size-bytes": 2_000}
        if self.max_bytes is not None:
            table["x-max-length-bytes"] = self.max_bytes
        if self.max_age_s is not None:
            table["x-max-age"] = f"{self.max_age_s}s"
        if self.partitions:
            table["x-stream-partitions"] = self.partitions
        if self.is_compacted:
            key = {"x-stream-key": "header:x-stream-key", "x-stream-tombstone-age": "0s"}
            table |= {"x-stream-compact": True, **key}
        if self.is_packed:
            table["x-stream-compression"] = "zlib"
        return table

    @property
    def is_limited(self) -> bool:
        return self.max_bytes is not None or self.max_age_s is not None


@dataclass(slots=True)
class Content:
    """One stream: the numbers of its messages, by offset; chunks: (first offset, octets, when) of each, where something
    of it was known before the octets of the rest at least. firsts: where it has begun for members, by their lives;
    first: the highest of them."""

    numbers: list[int] = field(default_factory=list)
    offsets: dict[int, int] = field(default_factory=dict)
    sequences: dict[bytes, int] = field(default_factory=dict)
    chunks: list[tuple[int, int, int]] = field(default_factory=list)
    first: int = 0
    firsts: dict[tuple[str, int], int] = field(default_factory=dict)


class StreamModel:
    """See the module's docstring."""

    def __init__(self) -> None:
        self.messages: dict[int, Published] = {}
        self.contents: dict[str, Content] = {}
        self.counts: Counter[str] = Counter()
        self.groups = GroupModel(self.content, self.counts)

    def content(self, stream: str) -> Content:
        """What a stream has had so far."""
        return self.contents.setdefault(stream, Content())

    # -- the log -------------------------------------------------------------------------------------------------------

    def append(self, stream: str, chunk: bytes, clock: int) -> None:
        """A chunk is applied for the first time (S1)."""
        content = self.content(stream)
        before = len(content.numbers)
        producers, records = read_chunk(chunk)
        rest = _HEAD.size
        for place, (body, octets) in enumerate(records):
            number = message_number(body)
            message = self.messages.get(number)
            if message is None or message.body != body or message.stream != stream:
                raise Violation(f"'{stream}' has a message {number} that nobody has published to it so")
            known = producers.get(place)
            if known is not None:
                producer, sequence = known
                if sequence <= content.sequences.get(producer, -1):
                    self.counts["known sequences"] += 1
                    continue
                content.sequences[producer] = sequence
            if number in content.offsets:
                raise Violation(f"message {number} is in '{stream}' at {content.offsets[number]}, and comes again")
            content.offsets[number] = len(content.numbers)
            content.numbers.append(number)
            rest += octets
        added = len(content.numbers) - before
        if added:
            content.chunks.append((before, len(chunk) if added == len(records) else rest, clock))
        self.counts["chunks"] += 1
        self.counts["records"] += len(records)

    def has(self, kind: StreamKind, first: int, end: int, life: tuple[str, int]) -> None:
        """A member has so much of a stream, in one of its lives (S4)."""
        content = self.content(kind.name)
        if end > len(content.numbers):
            raise Violation(f"{life[0]}: '{kind.name}' goes up to {end}, and not to {len(content.numbers)}")
        before = content.firsts.get(life, 0)
        if first < before or (first and not kind.is_limited):
            raise Violation(f"{life[0]}: '{kind.name}' begins at {first}, and has begun at {before}")
        content.firsts[life] = first
        content.first = max(content.first, first)

    def ends(self, kind: StreamKind, first: int, end: int, node: str) -> None:
        """The same of a member that has applied as much as anybody."""
        content = self.content(kind.name)
        if (first, end) != (content.first, len(content.numbers)):
            raise Violation(f"{node}: '{kind.name}' is {first}..{end}, not {content.first}..{len(content.numbers)}")

    def limits(self, kind: StreamKind, clock: int) -> None:
        """It is calm, and time has passed (S5). What is limited is cut where marks are: a part of the limit off."""
        content = self.content(kind.name)
        kept = [chunk for chunk in content.chunks if chunk[0] >= content.first]
        largest = max([octets for _, octets, _ in content.chunks], default=0)
        octets = sum([octets for _, octets, _ in kept])
        if kind.max_bytes is not None and octets > kind.max_bytes + kind.max_bytes // 64 + 2 * largest:
            raise Violation(f"'{kind.name}' has {octets} octets, its limit is {kind.max_bytes}")
        if kind.max_age_s is not None and len(kept) > 1:
            age = 1000 * kind.max_age_s
            newest = kept[-1][2] - age // 64
            if kept[0][2] < min(newest, clock - age - age // 64):
                raise Violation(f"'{kind.name}' has messages of {kept[0][2]}, and it is {clock}")

    # -- clients -------------------------------------------------------------------------------------------------------

    def confirmed(self, message: Published) -> None:
        """A publisher is told that the stream has it (S2)."""
        if message.number not in self.content(message.stream).offsets:
            raise Violation(f"message {message.number} is confirmed, and is not in '{message.stream}'")
        message.is_confirmed = True
        self.counts["confirmed"] += 1

    def at(self, stream: str, offset: int) -> Published:
        """What is at an offset."""
        numbers = self.content(stream).numbers
        if not 0 <= offset < len(numbers):
            raise Violation(f"somebody reads '{stream}' at {offset}, and it goes up to {len(numbers)}")
        return self.messages[numbers[offset]]

    def newest_of(self, stream: str, key: str) -> int:
        """The offset of the newest message with this key."""
        numbers = self.content(stream).numbers
        return next(each for each in reversed(range(len(numbers))) if self.messages[numbers[each]].key == key)


class Reading:
    """What one consumer gets (S3). values: those that it wants, or none for everything; expected: from which offset on,
    None if it is not known."""

    def __init__(self, model: StreamModel, kind: StreamKind, expected: int | None, values: tuple[str, ...]) -> None:
        self.kind = kind
        self.expected = expected
        self.values = values
        self._model = model

    def deliver(self, offset: int, body: bytes) -> None:
        """The consumer gets something."""
        model, stream = self._model, self.kind.name
        message = model.at(stream, offset)
        if message.body != body:
            raise Violation(f"'{stream}' has message {message.number} at {offset}, and there comes {body[:20]!r}")
        if not self._wants(message):
            raise Violation(f"message {message.number} of '{stream}' is not what the consumer wants")
        if self.expected is not None:
            if offset < self.expected:
                raise Violation(f"'{stream}': {offset} comes where {self.expected} is expected")
            left_out = [
                each
                for each in range(self.expected, offset)
                if self._wants(model.at(stream, each)) and not (self.kind.is_compacted and self._may_go(each))
            ]
            if left_out and left_out[-1] >= model.content(stream).first:
                raise Violation(f"'{stream}': {offset} comes where {left_out[0]} is expected")
        self.expected = offset + 1
        model.counts["read"] += 1

    def _may_go(self, offset: int) -> bool:
        """Whether compaction may have taken what is there; when exactly, CompactionWeather looks at on the nodes."""
        message = self._model.at(self.kind.name, offset)
        return bool(message.key) and (
            message.is_tombstone or self._model.newest_of(self.kind.name, message.key) > offset
        )

    def _wants(self, message: Published) -> bool:
        return not self.values or message.value in self.values


def read_chunk(octets: bytes) -> tuple[dict[int, tuple[bytes, int]], list[tuple[bytes, int]]]:
    """Of a chunk: producer and sequence by the place of the record, and of each record its body and its octets."""
    _, _, bloom, runs, records, _, _ = _HEAD.unpack_from(octets)
    at = _HEAD.size + bloom
    producers = {}
    for _ in range(runs):
        producer = octets[at + 1 : at + 1 + octets[at]]
        at += 1 + len(producer)
        sequence, record, count = _RUN.unpack_from(octets, at)
        at += _RUN.size
        producers.update({record + number: (producer, sequence + number) for number in range(count)})
    return producers, [(body, size) for _, body, size in read_records(octets, at, records)]


def read_records(
    octets: bytes, at: int, records: int = 1 << 32, end: int | None = None
) -> Iterator[tuple[int, bytes, int]]:
    """Numbers, bodies and octets of so many records from there on; of an empty body, what says its number in a
    header."""
    for _ in range(records):
        if at == end:
            return
        length, number, _, _, flags, _, address = _RECORD.unpack_from(octets, at)
        end_of_it = at + 4 + length
        header = at + _RECORD.size + address + 1
        frame = header + _FRAME.size + _FRAME.unpack_from(octets, header)[2] + 1
        body = octets[frame:end_of_it] if flags & _BARE else octets[frame + _FRAME.size : end_of_it - 1]
        if not body:
            place = octets.index(_NUMBER, header) + len(_NUMBER)
            size = int.from_bytes(octets[place : place + 4], "big")
            body = octets[place + 4 : place + 4 + size]
        yield number, body, end_of_it - at
        at = end_of_it
