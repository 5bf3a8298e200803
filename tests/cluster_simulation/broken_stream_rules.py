"""One rule of streams turned off at a time, to see that the simulation notices."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from amqp_broker.leases import app, publication
from amqp_broker.leases.publication import Publication
from amqp_broker.queue_types.stream.group_reader import GroupReader
from amqp_broker.turn.sync_job import SyncJob
from queues.pager import Pager
from queues.quorum import cursor_ready, image, image_reader
from queues.quorum.placement import ChunkPlacer
from queues.quorum.retry import Retry
from queues.stream.groups import ReaderGroup
from queues.stream.image import STREAM_TAIL, StreamReader
from queues.stream.log import StreamLog
from queues.stream.shares import Share
from queues.stream.stream import Stream
from queues.stream.tail import Stored
from queues.wire.reader import Reader
from storage.page_store import PageSync, page_path
from tests.cluster_simulation import cluster_node

Patch = pytest.MonkeyPatch


def producers_are_forgotten(patch: Patch) -> None:
    patch.setattr(Stream, "_known", lambda self, chunk: [])


def an_image_has_no_producers(patch: Patch) -> None:
    """Who was installed, or started anew, takes what it has taken before."""
    build = StreamReader.__init__

    def built(self: StreamReader, reader: Reader, pager: Pager) -> None:
        build(self, reader, pager)
        self.stream.producers.clear()

    patch.setattr(StreamReader, "__init__", built)


def an_image_has_another_tail(patch: Patch) -> None:
    """The chunks in no page come back in another order."""
    take = StreamReader.take

    def taken(self: StreamReader, kind: int, reader: Reader) -> bool:
        is_last = take(self, kind, reader)
        tail = self.stream.log._tail
        if kind == STREAM_TAIL and len(tail) > 1 and tail[0].chunk.records == tail[1].chunk.records:
            one, two = tail[:2]
            tail[:2] = [Stored(one.first, one.time, two.chunk), Stored(two.first, two.time, one.chunk)]
        return is_last

    patch.setattr(StreamReader, "take", taken)


def pages_are_not_read_again(patch: Patch) -> None:
    """Whoever reads what is in no page any more goes on behind it."""
    chunk_at = StreamLog.chunk_at

    def found(self: StreamLog, offset: int) -> Stored | None:
        tail = self._tail
        return chunk_at(self, max(offset, tail[0].first) if tail else offset)

    patch.setattr(StreamLog, "chunk_at", found)


def nothing_is_too_old(patch: Patch) -> None:
    patch.setattr(Stream, "due_at", lambda self, clock: 0)


def what_is_newest_goes(patch: Patch) -> None:
    """Retention does not keep what is within the limit."""
    cut = Stream._cut

    def closer(self: Stream, clock: int, factor: int) -> int | None:
        age = self.settings.max_age
        if self.settings.max_length_bytes is not None:
            return cut(self, clock, factor)
        return self.marks.cut(100, None if age is None else clock - factor * age)

    patch.setattr(Stream, "_cut", closer)


def the_own_clock_says_what_is_old(patch: Patch) -> None:
    """Each member goes by something of its own."""
    retain = Stream.retain

    def retained(self: Any, clock: int) -> None:
        retain(self, clock + id(self.log) % 1000)

    patch.setattr(Stream, "retain", retained)


def positions_are_what_was_read(patch: Patch) -> None:
    """A group is stored to be where its reader has read to."""
    patch.setattr(GroupReader, "position", property(lambda self: self.offset))


def what_was_given_before_is_not_known(patch: Patch) -> None:
    """With a node its readers go, and nobody marks what they may have had."""

    def lost(self: ReaderGroup, node: str, next_offset: int) -> None:
        for member in [each for each in self.members if each.node == node]:
            self.leave(member)

    patch.setattr(ReaderGroup, "lose_all", lost)


def a_partition_is_given_to_nobody(patch: Patch) -> None:
    """Those that have too little get the first partition, and nothing else."""
    patch.setattr(Share, "of", lambda self, member: [0] if self.owners and self.owners[0] == member else [])


def places_are_named_before_their_sync(patch: Patch) -> None:
    """The journal's batch is written first."""

    def run(job: SyncJob) -> None:
        if job.batch is not None:
            job.batch.write_and_sync()
        if job.pages is not None:
            job.pages.run()

    patch.setattr(cluster_node, "run_sync", run)


def places_are_not_synced(patch: Patch) -> None:
    """They are written before the journal is, and no more."""

    def run(self: Any) -> None:
        for queue_id, location, header, page in self._writes:
            with suppress(FileNotFoundError):
                self._disk.write(page_path(queue_id, location.segment), location.offset, [header, page])

    patch.setattr(PageSync, "run", run)


def places_of_cut_entries_are_given_up_at_once(patch: Patch) -> None:
    """Recovery may find such an entry again."""

    def taken_back(self: Any, index: int) -> None:
        for each in [each for each in self._placed if each >= index]:
            for place in self._placed.pop(each):
                self._pager.page_store.release(place.queue_id, place.location)

    patch.setattr(ChunkPlacer, "take_back", taken_back)


def places_go_with_their_pages(patch: Patch) -> None:
    """What retention takes is given up though an entry above the checkpoint names it."""

    def released(self: Any, part: Any) -> None:
        part.is_placed = False
        release(self, part)

    release = StreamLog._release
    patch.setattr(StreamLog, "_release", released)
# -- what rests --------------------------------------------------------------------------------------------------------


def nothing_rests(patch: Patch) -> None:
    patch.setattr(Retry, "until", lambda self, entry, now: now)


def an_image_has_not_what_rests(patch: Patch) -> None:
    """Of queues that have messages of their own."""
    parts = image._ready_parts

    def found(ready: Any, queue_id: int, section: image.Section, place: int, names_places: bool) -> list[Any]:
        return [] if section is image.Section.RESTING else parts(ready, queue_id, section, place, names_places)

    patch.setattr(image, "_ready_parts", found)


# -- transactions ------------------------------------------------------------------------------------------------------


def positions_are_forgotten_at_a_start(patch: Patch) -> None:
    """What a crash has interrupted goes on, but for the positions that were to follow."""
    decode = app.decode_note
    patch.setattr(app, "decode_note", lambda octets: decode(octets)._replace(positions=()))


def positions_do_not_follow(patch: Patch) -> None:
    patch.setattr(Publication, "_follow", lambda self: -1)


def a_stream_does_not_know_what_a_transaction_has_given_it(patch: Patch) -> None:
    patch.setattr(publication, "_StreamFate", lambda fate, producer, number: fate)


# -- queues over streams -----------------------------------------------------------------------------------------------


def keys_have_no_order(patch: Patch) -> None:
    patch.setattr(cursor_ready, "routing_key_of", lambda octets, at: b"")


def an_image_has_not_what_came_back(patch: Patch) -> None:
    """What is ready again, and not in the stream's rest, is gone with an image; and so is what is in hand."""
    patch.setattr(image, "offset_parts", lambda queue: [])


def an_image_has_another_place(patch: Patch) -> None:
    """Who was installed, or started anew, hands out the last message again."""
    get = image_reader.get_place

    def found(reader: Reader, place: Any) -> None:
        get(reader, place)
        place.next = max(0, place.next - 1)

    patch.setattr(image_reader, "get_place", found)


def nothing_has_the_value_that_is_wanted(patch: Patch) -> None:
    patch.setattr(cursor_ready, "has_value", lambda octets, at, value: False)
