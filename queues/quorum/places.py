"""Places: which places on disk of a group's pages are named by a checkpoint, and when one may be given up.

The log is not kept for what a checkpoint holds, so the checkpoint must find its pages. A place that the newest durable
checkpoint may name is kept, dead or alive, until a later checkpoint is durable that does not name it.

Invariants:
1. `name_places` leaves every page of a queue named or to be written out; a checkpoint has the queue right after it.
2. A place that was ever named is released only when a checkpoint that was begun after its end is synced; a place
   that was not, at once. Neither while an export goes on, which may still read it. Those of a queue whose files go as a
   whole are gone with these.
3. One message that stays keeps no more than twice its page's worth: what is left of pages and of page files that are
   less than half alive is written anew with the next checkpoint.
4. Dead places that a checkpoint names are worth a new one when they are more than half of what it found alive.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container, Iterable, Iterator
from typing import Any

from queues.message import Entry
from queues.page import Page, PageBuilder
from queues.pager import Pager
from queues.quorum.capture import Capture
from queues.quorum.image import chunks_of
from queues.quorum.queue import QuorumQueue
from queues.quorum.resting import Resting
from queues.quorum.state import GroupState
from queues.ready import Ready
from queues.stream.compacted import Compacted
from queues.stream.damaged import Damaged

#: Dead places of fewer octets are worth no checkpoint.
_DEAD_BYTES = 8 * 1024 * 1024
#: A chunk of an export takes about as long as so many octets (chunks_of) at most, and the queue that is noted with it:
#: one or two milliseconds where queues are small. Who installs it takes about as long.
CUT_BYTES = 512 * 1024
#: What is written ahead of a checkpoint in one slice, which takes some 100 microseconds; a look at a page that needs
#: nothing, or at a queue, takes about as long as so many octets.
AHEAD_BYTES, _LOOK_BYTES, _QUEUE_BYTES = 128 * 1024, 128, 2048

#: By queue.
_ByQueue = dict[int, list[Any]]


class _Group:
    """Places, and queues whose folders may go, once the journal is synced up to `position` (None: not known yet); and
    up to where streams are compacted in the checkpoint."""

    def __init__(self) -> None:
        self.places: _ByQueue = {}
        self.queue_ids: list[int] = []
        self.compacted: list[tuple[Compacted, int]] = []
        self.position: int | None = None


class Places:
    """The dead places of one group. `pager` is the group's own: its `released` is emptied here. exports: how many go
    on. named_bytes: of places that the newest checkpoint names. dead_bytes: of those of them that are dead."""

    def __init__(self, pager: Pager) -> None:
        self.exports = 0
        self.named_bytes = 0
        self.dead_bytes = 0
        self._pager = pager
        self._named: _ByQueue = {}
        self._unnamed: _ByQueue = {}
        self._beginning = _Group()  # what the checkpoint that is being made does not name
        self._retiring: deque[_Group] = deque()

    def collect(self) -> None:
        """Take what the pager has released."""
        if not self._pager.released:
            return
        released = self._pager.take_released()
        for queue_id, location, is_named in released:
            if is_named:
                self._named.setdefault(queue_id, []).append(location)
                self.dead_bytes += location.length
            else:
                self._unnamed.setdefault(queue_id, []).append(location)

    def are_worth_a_checkpoint(self) -> bool:
        """Whether so much is dead that only a new checkpoint lets go of."""
        return self.dead_bytes > _DEAD_BYTES and 2 * self.dead_bytes > self.named_bytes

    def checkpoint_begun(self, dropped: list[int]) -> None:
        """What is dead now, and the queues that are gone, are not in the checkpoint that begins. If it comes to
        nothing, they are not in the next one."""
        self.collect()
        self.dead_bytes = 0
        beginning = self._beginning
        for queue_id, locations in self._named.items():
            beginning.places.setdefault(queue_id, []).extend(locations)
        beginning.queue_ids += dropped
        self._named = {}

    def checkpoint_captured(self, named_bytes: int, compacted: list[tuple[Compacted, int]]) -> None:
        """The checkpoint that was begun is whole, and is written in this turn. named_bytes: of places that it names.
        compacted: up to where it has streams compacted."""
        self.named_bytes = named_bytes
        self._beginning.compacted = compacted
        self._retiring.append(self._beginning)
        self._beginning = _Group()

    def end_turn(self, position: int) -> None:
        """The journal's end: behind every checkpoint that was captured."""
        self.collect()
        if self._retiring:
            for group in self._retiring:
                if group.position is None:
                    group.position = position
        if self._unnamed and not self.exports:
            self._release(self._unnamed)
            self._unnamed = {}

    def queue_ids(self) -> list[int]:
        """The queues that are gone, and that the last synced checkpoint may have."""
        return [queue_id for group in [*self._retiring, self._beginning] for queue_id in group.queue_ids]

    @property
    def is_retiring(self) -> bool:
        """Whether places wait for the disk, or for an export's end."""
        return bool(self._retiring)

    def synced(
        self, position: int, known: Container[int], dropped: Container[int]
    ) -> list[tuple[Compacted, int]]:
        """The journal is on the disk so far. known: the queues that exist; dropped: those that are gone since the last
        checkpoint was captured. Returns up to where checkpoints that are on the disk now have streams compacted. Raises
        OSError."""
        retiring = self._retiring
        compacted: list[tuple[Compacted, int]] = []
        while retiring and not self.exports and retiring[0].position is not None and retiring[0].position <= position:
            group = retiring.popleft()
            compacted += group.compacted
            self._release(group.places)
            later = self.queue_ids()
            for queue_id in group.queue_ids:
                # It may have come again, and gone again: a checkpoint that is not synced yet has that.
                if queue_id not in known and queue_id not in dropped and queue_id not in later:
                    self._drop(queue_id)
        return compacted

    def _release(self, places: _ByQueue) -> None:
        for queue_id, locations in places.items():
            for location in locations:
                self._pager.page_store.release(queue_id, location)

    def _drop(self, queue_id: int) -> None:
        """Its files go, and its dead places with them: those of a queue that comes again may have the same names."""
        self.collect()
        later = [group.places for group in [*self._retiring, self._beginning]]
        for places in (self._named, self._unnamed, *later):
            places.pop(queue_id, None)
        self._pager.page_store.drop_queue(queue_id)


class Export:
    """An image that is sent to another member while this one goes on. It ends with its last chunk, or with `close`.
    on_damage: hears of what cannot be read; Damaged is raised then."""

    def __init__(
        self, capture: Capture, pager: Pager, places: Places, on_damage: Callable[[Damaged], None]
    ) -> None:
        self._capture = capture
        self._chunks = chunks_of(capture.parts(), pager, CUT_BYTES, cuts=True)
        self._on_damage = on_damage
        self._places: Places | None = places
        places.exports += 1

    def __iter__(self) -> Export:
        return self

    def __next__(self) -> bytes:
        try:
            return next(chunk for chunk in self._chunks if chunk is not None)
        except StopIteration:
            self.close()
            raise
        except Damaged as damaged:
            self.close()
            self._on_damage(damaged)
            raise

    def close(self) -> None:
        """No more chunks are wanted; the pages that it would still have read may go."""
        if self._places is not None:
            self._places.exports -= 1
            self._places = None
            self._capture.close()
            self._chunks = iter(())


def place_ahead(state: GroupState, pager: Pager) -> Iterator[None]:
    """Before a checkpoint is begun, in slices: most of what it would else write of large queues in one go. Where a page
    lies is no part of the state, so this may be done at any time, and need not be done to its end."""
    done = 0
    for queue_id in list(state.queues):
        queue = state.queues.get(queue_id)
        if queue is None:
            continue
        sparse = pager.page_store.sparse_segments(queue_id)
        done += _QUEUE_BYTES
        for page in [page for pages in _pages_of(queue) for page in pages]:
            if done >= AHEAD_BYTES:
                done = 0
                yield
                if state.queues.get(queue_id) is not queue:
                    break  # its pages go: a place that one got now would be nobody's
            before = pager.pages_stored
            _place(page, queue_id, pager, sparse)
            done += _LOOK_BYTES if pager.pages_stored == before else page.size
        if done >= AHEAD_BYTES:
            done = 0
            yield


def name_places(queue: QuorumQueue, pager: Pager) -> int:
    """Before a checkpoint: give every full page a place, and what is loose in RAM, where it is worth a page. Returns
    the octets of the pages that are named."""
    queue_id = queue.queue_id
    sparse = pager.page_store.sparse_segments(queue_id)
    named = 0
    for pages in _pages_of(queue):
        for page in pages:
            _place(page, queue_id, pager, sparse)
            if page.location is not None:
                page.be_named()
                named += page.location.length
    resting = _resting_of(queue)
    for ready in [*queue.levels(), queue.letters.waiting, *resting]:
        ready.leave_origins()
    loose = [entry for ready in queue.levels() for entry in [*ready.head, *ready.stragglers]]
    loose += [entry for delivery_owner in queue.delivery_owners.values() for entry, _ in delivery_owner.held.values()]
    _name_loose(loose, queue_id, pager, sparse)
    for ready in resting:
        _name_loose([*ready.head, *ready.stragglers], queue_id, pager, sparse)
    letters = queue.letters
    _name_loose([*letters.transit, *letters.waiting.head, *letters.waiting.stragglers], queue_id, pager, sparse)
    return named


def _resting_of(queue: QuorumQueue) -> list[Ready]:
    return [queue.resting.waiting] if isinstance(queue.resting, Resting) else []


def _pages_of(queue: QuorumQueue) -> list[Iterable[Page]]:
    found = [ready.pages or () for ready in [*queue.levels(), queue.letters.waiting, *_resting_of(queue)]]
    return found + [lease.pages for lease in queue.leased()]


def _place(page: Page, queue_id: int, pager: Pager, sparse: list[int]) -> None:
    """Give a page a place, or a better one; not where it is gone meanwhile."""
    location = page.location
    if location is not None:
        if location.segment in sparse and not pager.has_no_room:
            _move(page, queue_id, pager)
    elif page.data is not None:
        pager.store(queue_id, page)


def _move(page: Page, queue_id: int, pager: Pager) -> None:
    """Copy a page to the newest file, because little else is alive in its own."""
    was_in_ram = page.data is not None
    pager.load(queue_id, page)
    old, page.location = page.location, None
    pager.store(queue_id, page)
    if page.location is None:
        page.location = old
    else:
        pager.release_places([(queue_id, old, page.is_named)])
    if not was_in_ram:
        pager.drop(page)


def _name_loose(entries: list[Entry], queue_id: int, pager: Pager, sparse: list[int]) -> None:
    """Entries in RAM: those that are still in a stored page stay there, unless little else does; of the others as many
    as fill pages are packed. What is left over has no page, and the checkpoint writes it out."""
    without = []
    for entry in entries:
        page = entry.page
        if page is not None and page.location is not None:
            if page.location.segment not in sparse and 2 * page.live >= page.count:
                page.be_named()
                continue
            pager.settle(queue_id, page)
        entry.page = None
        without.append(entry)
    if sum([entry.message.size for entry in without]) < pager.page_bytes or pager.has_no_room:
        return
    without.sort(key=_sequence_of)
    builder = PageBuilder()
    packed: list[Entry] = []
    for entry in without:
        builder.add(
            entry.message, entry.sequence, entry.expires_at, 0, entry.returns, entry.is_redelivered
        )  # fmt: skip
        packed.append(entry)
        if builder.buffer.length >= pager.page_bytes:
            page = builder.seal()
            pager.store(queue_id, page)
            if page.location is None:
                return
            page.data = None  # the entries are in RAM: these octets are not counted, and not kept
            page.be_named()
            for each in packed:
                each.page = page
            packed = []


def _sequence_of(entry: Entry) -> int:
    return entry.sequence
