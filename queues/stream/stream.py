"""Stream: one stream, the same on every member of its group: what it has taken, where it begins, who published.

    append -> what is known goes -> offsets are given -> the log; a mark now and then -> retain

Invariants:
1. Offsets are dense and given once, by `append`; `first` only rises.
2. Everything but the log's pages follows from the commands: retention goes by the group's clock and by the octets of
   chunks, so all members cut at the same place, at the same entry.
3. Of a producer's sequence a message is taken once; a gap upwards is taken.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from queues.pager import Pager
from queues.stream.chunk import Chunk, Run
from queues.stream.compacted import Compacted
from queues.stream.groups import ReaderGroups
from queues.stream.log import StreamLog
from queues.stream.marks import Step
from queues.stream.place import Place
from queues.stream.settings import StreamSettings
from queues.stream.shares import Shares
from queues.stream.stream_end import StreamEnd

#: So many producers are remembered, those who published last.
MOST_PRODUCERS = 10_000
#: So many names may hold a stream, as far as the node knows that is asked.
MOST_HOLDS = 1000
#: A hold stops retention at up to this many times the limits; then the stream goes on without it.
HOLD_FACTOR = 2


class Published(NamedTuple):
    """What a producer published last: its sequence, and the offset that it got."""

    sequence: int
    offset: int


class Hold(NamedTuple):
    """Retention stops at this offset until then, milliseconds since the epoch."""

    offset: int
    until: int


class Stream(StreamEnd):
    """producers: who published last at the end. holds: by name. groups: who read together. shares: of a stream that is
    partition 0, who of them reads which partition. claims: up to where nodes say that they have compacted it."""

    log: StreamLog

    def __init__(self, queue_id: int, settings: StreamSettings, pager: Pager) -> None:
        super().__init__(queue_id, StreamLog(queue_id, pager), _step_of(settings))
        self.settings = settings
        self.producers: dict[bytes, Published] = {}
        self.holds: dict[str, Hold] = {}
        self.groups = ReaderGroups()
        self.shares = Shares()
        self.claims: dict[str, int] = {}

    @property
    def compacted(self) -> Compacted:
        """What compaction has done to its pages on this member."""
        return self.log.compacted

    @property
    def is_compacted_enough(self) -> bool:
        """Whether nothing is read here that another node has compacted away."""
        return self.log.compacted.is_enough

    @property
    def first(self) -> int:
        """The oldest offset."""
        return self.log.first

    @property
    def next(self) -> int:
        """The offset that the next message gets."""
        return self.log.next

    def append(self, chunk: Chunk, clock: int, place: Place | None = None) -> bool:
        """A chunk with octets of its own, checked before, which may lie on the disk. What its producers have published
        before is left out: the rest is another chunk. Returns whether there is a new mark, so that `due_at` may be
        another time than before, and something may be gone."""
        runs = chunk.runs
        if runs:
            known = self._known(chunk)
            if known:
                rest = chunk.without(known, self.settings.filter_bytes)
                if rest is None:
                    return False
                chunk, place = Chunk(rest, is_sound=True), None
                runs = chunk.runs
        log = self.log
        first = log.append(clock, chunk) if place is None else log.append_placed(clock, chunk, place)
        for run in runs:
            self._remember(run, first)
        if not self.marks.add(first, clock, len(chunk.octets), self.step):
            return False
        self.retain(clock)
        return True

    def _known(self, chunk: Chunk) -> list[Run]:
        """The parts of a chunk that were published before."""
        found = []
        newest: dict[bytes, int] = {}
        for run in chunk.runs:
            published = self.producers.get(run.producer)
            last = newest.get(run.producer, published.sequence if published is not None else -1)
            known = min(run.records, last - run.sequence + 1)
            if known > 0:
                found.append(run._replace(records=known))
            newest[run.producer] = max(last, run.sequence + run.records - 1)
        return found

    def _remember(self, run: Run, first: int) -> None:
        self.producers.pop(run.producer, None)
        last = run.records - 1
        self.producers[run.producer] = Published(run.sequence + last, first + run.record + last)
        if len(self.producers) > MOST_PRODUCERS:
            del self.producers[next(iter(self.producers))]

    def has_readers_of(self, node: str) -> bool:
        """Whether `lose_all` would change anything."""
        return self.groups.has_any_of(node) or self.shares.has_any_of(node)

    def lose_all(self, node: str) -> bool:
        """A node is gone, and with it all its readers. Returns whether there were any."""
        are_dealt_anew = self.shares.lose_all(node)
        return self.groups.lose_all(node, self.next) or are_dealt_anew

    def discarding(self) -> Iterator[None]:
        """Another state takes its place: give back its RAM and its places, a slice at each step."""
        return self.log.discarding()

    # -- compaction ----------------------------------------------------------------------------------------------------

    def claim(self, node: str, below: int) -> None:
        """A node has compacted its pages so far, and will have after whatever happens to it."""
        self.claims[node] = max(below, self.claims.get(node, 0))

    def has_taken_over(self, before: Stream | None) -> None:
        """Its pages are another member's, as that had compacted them. before: what this member had. Nobody is served
        before they are as far as this member, or anybody that the state knows of, has been (Compacted)."""
        said = max(self.claims.values(), default=0)
        if before is not None:
            said = max(said, before.compacted.below, before.compacted.needed)
        self.compacted.needed, self.compacted.synced = min(said, self.next), 0

    # -- retention -----------------------------------------------------------------------------------------------------

    def apply_settings(self, settings: StreamSettings, clock: int) -> None:
        """Settings in force from now on."""
        self.settings = settings
        self.step = _step_of(settings)
        self.retain(clock)

    def retain(self, clock: int) -> None:
        """What is too old or too much goes, at marks; holds keep it, but not for ever."""
        self.holds = {name: hold for name, hold in self.holds.items() if hold.until > clock}
        cut = self._cut(clock, 1)
        if cut is None:
            return
        if self.holds:
            held = min(hold.offset for hold in self.holds.values())
            if held < cut:
                cut = max(held, self._cut(clock, HOLD_FACTOR) or 0)
        self.trim(cut)

    def _cut(self, clock: int, factor: int) -> int | None:
        limit, age = self.settings.max_length_bytes, self.settings.max_age
        oldest = clock - factor * age if age is not None else None
        return self.marks.cut(factor * limit if limit is not None else None, oldest)

    def retain_from(self, first: int, least: int, clock: int) -> None:
        """Limits say that it begins at `first`; what is held of that stays, but for what is before `least`. A limit
        that is not there any more says nothing."""
        self.holds = {name: hold for name, hold in self.holds.items() if hold.until > clock}
        if self.settings.max_age is None and self.settings.max_length_bytes is None:
            return
        held = min((hold.offset for hold in self.holds.values()), default=first)
        self.trim(max(least, min(first, held)))

    def trim(self, first: int) -> None:
        """The stream begins at this offset now, if it began before it."""
        if first > self.first:
            self.log.trim(first)
            self.marks.trimmed(self.first)

    def hold(self, name: str, hold: Hold | None, clock: int) -> bool:
        """Retention stops at an offset for a name; None: for this name not any more. False: there are too many."""
        self.retain(clock)  # with the holds that are over
        if hold is not None and name not in self.holds and len(self.holds) >= MOST_HOLDS:
            return False
        self.holds.pop(name, None)
        if hold is not None:
            self.holds[name] = hold
        self.retain(clock)
        return True

    def due_at(self, clock: int) -> int:
        """When `retain` will find something that it does not at this time; 0 for not before there is another mark."""
        age = self.settings.max_age
        if age is None and not self.holds:
            return 0
        dues = [hold.until for hold in self.holds.values()]
        if age is not None:
            dues += [self.marks.due_at(age), self.marks.due_at(HOLD_FACTOR * age)]
        return min([due for due in dues if due > clock], default=0)


def _step_of(settings: StreamSettings) -> Step:
    return Step.of(settings.max_length_bytes, settings.max_age, settings.segment_bytes)
