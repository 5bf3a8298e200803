"""DistantStream: a stream of which this node has no copy, as those see it who read it here.

    the reader wants an offset -> READ at a member -> a piece: chunks from there on -> the reader is served
                                     ... and while it is served of that piece, the next one is asked for

A reader goes over chunks as it does where the stream lies (reader.py): it is given a DistantReading in the place of the
stream and its log, which has nothing for it as long as nothing has come.

Who reads in a group sees that by LOOK, which is answered when it changes: so a reader hears that another one reads, as
soon as a member knows.

Invariants:
1. A reader has three pieces at most: that in which it is, the one that follows, and one with what came back to it.
   They have what DistantRoom allows, but a chunk each always.
2. Readers that want the same offset wait for the same answer.
3. `first` and `next` only rise, and what is seen of a group is never older than what was, whoever says it: who is
   asked says nothing before it has applied as much as this node has heard of.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from amqp_broker.errors import not_found
from amqp_broker.queue_types.stream.read_exchange import Asking
from amqp_broker.queue_types.stream.read_frames import GroupSeen, Look, Place, Read, ShareSeen
from queues.stream.groups import Member, ReaderGroup
from queues.stream.shares import Share

if TYPE_CHECKING:
    from amqp_broker.queue_types.stream.queue import StreamQueue
    from amqp_broker.queue_types.stream.read_exchange import ReadExchange, Told
    from amqp_broker.queue_types.stream.read_frames import Asked
    from amqp_broker.queue_types.stream.reader import LooksAt, StreamReader
    from queues.queue import Done
    from queues.stream.start import Start
    from queues.stream.tail import Stored

#: A piece has so many octets at most, and at least so many where there are very many readers; or it is one chunk.
MOST_PIECE_BYTES = 256 * 1024
LEAST_PIECE_BYTES = 4 * 1024
_NOTHING = -1
#: Called with an offset; None: nobody can say.
Placed = Callable[[int | None], None]


class DistantRoom:
    """What all such readers of a node have ahead of themselves. limit: octets. exchange: asks members."""

    def __init__(self, exchange: ReadExchange, limit: int) -> None:
        self.exchange = exchange
        self.limit = limit
        self.readers = 0
        self.used = 0

    @property
    def piece_bytes(self) -> int:
        """Of each piece, so that all have room for two."""
        return max(LEAST_PIECE_BYTES, min(MOST_PIECE_BYTES, self.limit // (2 * max(self.readers, 1))))

    @property
    def has_room(self) -> bool:
        """Whether somebody may have a piece more than it needs now."""
        return self.used < self.limit


class Piece:
    """Chunks that follow each other, from `first` on up to before `end`; some offsets may be gone by compaction."""

    __slots__ = ("chunks", "end", "first", "octets")

    def __init__(self, first: int, end: int, octets: int, chunks: list[Stored]) -> None:
        self.first = first
        self.end = end
        self.octets = octets
        self.chunks = chunks

    def chunk_at(self, offset: int) -> Stored | None:
        """See StreamLog; None for what is not in it."""
        if not self.first <= offset < self.end:
            return None
        place = bisect_right(self.chunks, offset, key=_first_of) - 1
        if place < 0 or offset >= self.chunks[place].next:
            place += 1
        return self.chunks[place]


_NO_PIECE = Piece(0, 0, 0, [])


class DistantReading:
    """What one reader has of it. It stands for a Stream, and for its log."""

    is_compacted_enough = True

    def __init__(self, distant: DistantStream, reader: StreamReader) -> None:
        self.log = self
        self._distant = distant
        self._room = distant.room
        self._reader = reader
        self._here = self._ahead = self._behind = _NO_PIECE
        self._wanted = _NOTHING

    @property
    def first(self) -> int:
        """See Stream: as far as somebody has said."""
        return self._distant.first

    @property
    def next(self) -> int:
        """The same."""
        return self._distant.next

    @property
    def groups(self) -> Mapping[str, ReaderGroup]:
        """See Stream: those that readers here look at, with the members of this node and who reads."""
        return self._distant.groups

    @property
    def shares(self) -> Mapping[str, Share]:
        """The same, with the partitions of this node."""
        return self._distant.shares

    def chunk_at(self, offset: int, wait: object = None) -> Stored | None:
        """See StreamLog; None also where it has not come yet: the reader is served when it has, without `wait`."""
        offset = max(offset, self.first)
        found = self._here.chunk_at(offset)
        if found is None:
            found = self._ahead.chunk_at(offset)
            if found is not None:
                self._keep(self._ahead, _NO_PIECE, _NO_PIECE)
        if found is None:
            found = self._behind.chunk_at(offset)
            if found is not None:
                return found
        if found is None:
            self._want(offset)
        elif self._ahead is _NO_PIECE and self._room.has_room:
            self._want(self._here.end)
        return found

    def _want(self, offset: int) -> None:
        if self._wanted != offset:
            self.want_nothing()
            self._wanted = offset
            self._distant.want(offset, self)

    def want_nothing(self) -> None:
        """What it waits for it does not wait for any more."""
        if self._wanted != _NOTHING:
            self._distant.unwant(self._wanted, self)
            self._wanted = _NOTHING

    def _keep(self, here: Piece, ahead: Piece, behind: Piece) -> None:
        room = self._room
        room.used -= self._here.octets + self._ahead.octets + self._behind.octets
        self._here, self._ahead, self._behind = here, ahead, behind
        room.used += here.octets + ahead.octets + behind.octets

    def take(self, piece: Piece) -> None:
        """What it has waited for."""
        self._wanted = _NOTHING
        if not piece.chunks:
            self._want(piece.end)  # there is nothing yet
            return
        if piece.end <= self._reader.offset:  # what has come back to a reader of a group
            self._keep(self._here, self._ahead, piece)
        elif self._here.chunks and piece.first == self._here.end:
            self._keep(self._here, piece, self._behind)
        else:
            self._keep(piece, _NO_PIECE, _NO_PIECE)
        self._distant.wake(self._reader)

    def fail(self) -> None:
        """What it waits for nobody has."""
        self._wanted = _NOTHING
        self._distant.give_up(self._reader)

    def end(self) -> None:
        """Its reader is gone, or reads from this node's own copy now."""
        self.want_nothing()
        self._keep(_NO_PIECE, _NO_PIECE, _NO_PIECE)


class _Sight:
    """Of a group, or a share, that readers look at. index: of the log, up to which it was seen, below 0 for not at all.
    needed: up to which it has to be. thens: who waits for that. digest: of what was seen, for who has said it."""

    def __init__(self, needed: int) -> None:
        self.readers: dict[StreamReader, None] = {}
        self.thens: dict[StreamReader, Callable[[], None]] = {}
        self.index = _NOTHING
        self.needed = needed
        self.digest = 0
        self.asking: Asking | None = None

    @property
    def is_of_now(self) -> bool:
        """Whether it is seen so far."""
        return self.index >= self.needed


class DistantStream:
    """Of one stream on a node that has no copy. first, next: as far as somebody has said. node: who has said that last,
    "" for nobody. groups, shares: of those that readers look at."""

    def __init__(self, queue: StreamQueue, room: DistantRoom) -> None:
        self.queue = queue
        self.room = room
        self._group = queue.group
        self._exchange = room.exchange
        self.first = 0
        self.next = 0
        self.node = ""
        self._silent = ""  # that had nothing for long
        self._readings: dict[StreamReader, DistantReading] = {}
        self._wanted: dict[int, tuple[Asking, dict[DistantReading, None]]] = {}
        self.groups: dict[str, ReaderGroup] = {}
        self.shares: dict[str, Share] = {}
        self._sights: dict[LooksAt, _Sight] = {}
        self._placing: dict[StreamReader, tuple[Asking, Done]] = {}
        self._places: dict[Asking, Placed] = {}
        self._is_ended = False

    # -- readers -------------------------------------------------------------------------------------------------------

    @property
    def is_used(self) -> bool:
        """Whether somebody reads what has come, or waits for it."""
        return bool(self._readings or self._sights or self._placing)

    def reading(self, reader: StreamReader) -> DistantReading | None:
        """What this reader has of it; None as long as it is not known what it looks at, and when the stream is gone."""
        if self._is_ended:
            return None
        if reader.looks_at is not None and not self._sight_of(reader, reader.looks_at).is_of_now:
            return None
        found = self._readings.get(reader)
        if found is None:
            found = self._readings[reader] = DistantReading(self, reader)
            self.room.readers += 1
        return found

    def forget(self, reader: StreamReader) -> None:
        """It is gone, or reads from this node's own copy now."""
        reading = self._readings.pop(reader, None)
        if reading is not None:
            reading.end()
            self.room.readers -= 1
        if reader.looks_at is not None:
            self._look_away(reader, reader.looks_at)
        placing = self._placing.pop(reader, None)
        if placing is not None:
            asking, then = placing
            self._exchange.close(asking)
            declaration = self.queue.declaration
            then(not_found("queue", self.queue.name, declaration.vhost))

    def wake(self, reader: StreamReader) -> None:
        """There may be something for it, if it waits."""
        if reader.consumer.is_waiting:
            self.queue.serve_later(reader)

    def give_up(self, reader: StreamReader) -> None:
        """What it waits for nobody has."""
        self.queue.give_up_unreadable(reader)

    def place_reader(self, reader: StreamReader, then: Done) -> None:
        """Find where a plain reader begins; `then` hears when that is known, and if it never will be."""
        if reader in self._placing:
            return

        def placed(told: Told | None) -> None:
            self._placing.pop(reader, None)
            if told is not None:
                reader.offset = told.end.offset
                self._has_told(told)
            then(None if told is not None else self.queue.unreadable())
            if told is not None:
                self.wake(reader)

        self._placing[reader] = self._ask_for_place(reader.start, placed), then

    def place(self, start: Start, then: Placed) -> None:
        """The offset that is meant by this, of all that this node has heard of; None where nobody can say, or the
        stream is gone."""

        def placed(told: Told | None) -> None:
            del self._places[asking]
            if told is not None:
                self._has_told(told)
            then(told.end.offset if told is not None else None)

        if self._is_ended:
            then(None)
            return
        asking = self._ask_for_place(start, placed)
        self._places[asking] = then

    def end(self) -> None:
        """The stream is gone: what is asked about it nobody answers, now or later. Readers have left."""
        self._is_ended = True
        places, self._places = self._places, {}
        for asking, then in places.items():
            self._exchange.close(asking)
            then(None)

    def come_home(self) -> Iterator[None]:
        """This node has a copy now, and may be the only one: what others were asked is found here, one a step."""
        while self._places and self._is_home:
            asking, placed = self._places.popitem()
            self._exchange.close(asking)
            assert isinstance(asking.asked, Place)  # no other question is kept there
            self.queue.place_as_known(asking.asked.start, placed)
            yield
        while self._placing and self._is_home:
            _, (asking, done) = self._placing.popitem()
            self._exchange.close(asking)
            done(None)  # it finds its place when it is served
            yield
        for reader in [*self._readings, *[each for sight in self._sights.values() for each in sight.readers]]:
            if self._is_home:
                self.forget(reader)
            yield

    @property
    def _is_home(self) -> bool:
        """Whether this node has a copy, at the moment."""
        return self._group.guest is None

    def _ask_for_place(self, start: Start, then: Callable[[Told | None], None]) -> Asking:
        return self._ask(Place(start, self._group.heard_index()), then)

    def _ask(self, asked: Asked, then: Callable[[Told | None], None]) -> Asking:
        return self._exchange.ask(Asking(self._group, self.queue.queue_id, asked, then, self.node, self._silent))

    def _has_told(self, told: Told) -> None:
        self.node, self._silent = told.node, ""
        self.first = max(self.first, told.end.first)
        self.next = max(self.next, told.end.next)

    # -- chunks --------------------------------------------------------------------------------------------------------

    def want(self, offset: int, reading: DistantReading) -> None:
        """A reader waits for this offset, with others that do."""
        if offset in self._wanted:
            self._wanted[offset][1][reading] = None
            return

        def come(told: Told | None) -> None:
            _, waiting = self._wanted.pop(offset)
            if told is None:
                for each in waiting:
                    each.fail()
                return
            self._has_told(told)
            if not told.chunks:
                self.node, self._silent = "", told.node  # it may have lost the others
            first = min(offset, told.chunks[0].first) if told.chunks else offset
            piece = Piece(first, told.end.offset, told.octets, told.chunks)
            for each in waiting:
                each.take(piece)

        self._wanted[offset] = self._ask(Read(offset, self.room.piece_bytes), come), {reading: None}

    def unwant(self, offset: int, reading: DistantReading) -> None:
        """It does not any more."""
        asking, waiting = self._wanted.get(offset, (None, {}))
        waiting.pop(reading, None)
        if asking is not None and not waiting:
            del self._wanted[offset]
            self._exchange.close(asking)

    # -- groups --------------------------------------------------------------------------------------------------------

    def _sight_of(self, reader: StreamReader, looks_at: LooksAt) -> _Sight:
        sight = self._sights.get(looks_at)
        if sight is None:
            sight = self._sights[looks_at] = _Sight(self._group.heard_index())
            self._look(sight, looks_at)
        sight.readers[reader] = None
        return sight

    def look_again(self, reader: StreamReader, then: Callable[[], None]) -> None:
        """Call `then` when what the reader looks at is seen as of all that this node has heard of by now; or when the
        reader, or the stream, is gone."""
        assert reader.looks_at is not None  # who calls looks
        if self._is_ended or reader.is_ended:
            then()
            return
        sight = self._sight_of(reader, reader.looks_at)
        sight.needed, sight.digest = self._group.heard_index(), 0
        sight.thens[reader] = then
        self._look(sight, reader.looks_at)

    def _look(self, sight: _Sight, looks_at: LooksAt) -> None:
        if sight.asking is not None:
            self._exchange.close(sight.asking)
        asked = Look(looks_at.is_share, looks_at.group, sight.digest, max(sight.index, sight.needed))
        sight.asking = self._ask(asked, lambda told: self._has_seen(sight, looks_at, told))

    def _has_seen(self, sight: _Sight, looks_at: LooksAt, told: Told | None) -> None:
        assert told is not None  # nobody refuses that for good
        assert told.seen is not None  # it is what was asked for
        self._has_told(told)
        said, own_node, name = told.seen, self._group.own_node, looks_at.group
        sight.index, sight.digest = said.at, said.digest
        self.groups.pop(name, None) if not said.is_share else self.shares.pop(name, None)
        if isinstance(said.seen, GroupSeen):
            self.groups[name] = _as_group(said.seen, own_node)
        elif said.seen is not None:
            self.shares[name] = _as_share(said.seen, own_node)
        self._look(sight, looks_at)
        if sight.is_of_now:
            thens, sight.thens = sight.thens, {}
            for then in thens.values():
                then()
            for reader in sight.readers:
                self.wake(reader)

    def _look_away(self, reader: StreamReader, looks_at: LooksAt) -> None:
        sight = self._sights.get(looks_at)
        if sight is None:
            return
        sight.readers.pop(reader, None)
        then = sight.thens.pop(reader, None)
        if not sight.readers:
            del self._sights[looks_at]
            (self.shares if looks_at.is_share else self.groups).pop(looks_at.group, None)
            if sight.asking is not None:
                self._exchange.close(sight.asking)
        if then is not None:
            then()


def _as_group(seen: GroupSeen, own_node: str) -> ReaderGroup:
    """With who reads, and the members of this node."""
    group = ReaderGroup(seen.position, seen.delivered, seen.generation)
    own = [Member(own_node, number) for number in seen.own]
    group.members.extend([seen.reader] if seen.reader is not None else [])
    group.members.extend([each for each in own if each != seen.reader])
    return group


def _as_share(seen: ShareSeen, own_node: str) -> Share:
    """With the members of this node, and what they have."""
    share = Share()
    share.members.extend([Member(own_node, number) for number in seen.own])
    share.owners.extend([Member(own_node, number) if number else None for number in seen.owners])
    return share


def _first_of(stored: Stored) -> int:
    return stored.first
