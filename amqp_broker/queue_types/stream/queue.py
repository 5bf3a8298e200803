"""StreamQueue: a stream as the channels of this node see it. It lies in the log of a queue group.

    publish -> ChunkWriter -> the group
    Grown, credit -> readers that may have something -> a job of the background: StreamReader.serve

Who is a member of the group has a copy: whoever reads does so here, from this node's copy, and the log knows nothing of
it. A guest has none, publishes all the same, asks the leader for what it shows, and members for what its readers want
(distant_stream.py).

Invariant: whoever may have something to do is in `_late`, for which a job of the background is under way.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, cast

from amqp_broker.errors import not_found, precondition_failed
from amqp_broker.queue_types.stream.arguments import as_queue_arguments
from amqp_broker.queue_types.stream.chunk_writer import ChunkWriter
from amqp_broker.queue_types.stream.group_reader import GroupDelivery, GroupReader, GroupSettings
from amqp_broker.queue_types.stream.log_queue import LogQueue
from amqp_broker.queue_types.stream.operations import StreamOperations
from amqp_broker.queue_types.stream.packer import Packer
from amqp_broker.queue_types.stream.peeking import peek_stream
from amqp_broker.queue_types.stream.reader import StreamReader
from amqp_broker.queue_types.stream.retainer import Retainer
from amqp_broker.queue_types.stream.wish import Wish
from queues.message import Delivery, Message
from queues.peeking import PeekSteps, PeekWish
from queues.queue import Done, Replicas
from queues.stream.commands import OpenStream
from queues.stream.counts import StreamCounts
from queues.stream.groups import Member
from queues.stream.settings import COMPRESSIONS, StreamSettings
from queues.stream.source import StreamSource
from queues.stream.start import StartKind, page_of, place_of
from queues.stream.stream import Stream
from queues.sums import QueueSums
from storage.errors import CorruptRecord

if TYPE_CHECKING:
    from amqp_broker.errors import AmqpException
    from amqp_broker.queue_types.contract.declaration import QueueDeclaration
    from amqp_broker.queue_types.groups.group import QueueGroup
    from amqp_broker.queue_types.stream.compactor import Compactor
    from amqp_broker.queue_types.stream.distant_stream import DistantReading, DistantStream, Placed
    from amqp_broker.queue_types.stream.mender import Mender
    from amqp_broker.queue_types.stream.rewriting_room import RewritingRoom
    from queues.consumer import Consumer, Subscriber
    from queues.quorum.queue import QueueStatistics
    from queues.receipts import Receipt
    from queues.stream.start import Start
    from storage.disk import Pending

log = logging.getLogger("amqp_broker")


class StreamQueue(LogQueue):
    """find_settings: makes what is in force out of the declaration and the policies of the day. counts: what consumers
    of this node were given, and acknowledged. addresses: of messages that were made, to be shared. followers: the
    quorum queues over it, by name. compactor: of one that is compacted. distant: what readers here have of it while
    this node has no copy. _watching: those of the stream of which it is a partition, and whoever else is served as a
    reader is."""

    def __init__(
        self,
        declaration: QueueDeclaration,
        queue_id: int,
        group: QueueGroup,
        find_settings: Callable[[], StreamSettings],
        groups: GroupSettings,
    ) -> None:
        self.group = group
        self._groups = groups
        self._clock = group.clock
        self.is_prepared = False
        self.wanted = find_settings()
        self.writer = ChunkWriter(self, group, self.wanted.filter_bytes)
        super().__init__(declaration, queue_id, self.writer)
        self.settings = as_queue_arguments(self.wanted)
        self._watching: dict[StreamReader, None] = {}
        self.followers: dict[str, None] = {}
        self.counts = QueueSums()
        self.addresses = group.pager.addresses
        self._find_settings = find_settings
        self._machine = group.machine
        self._background = group.host.background
        self._raft = group.raft
        self._late: deque[StreamReader] = deque()
        self._seeking: list[StreamReader] = []
        self._is_serving = False
        self._behind: deque[StreamReader] = deque()
        self._is_serving_behind = False
        self.compactor: Compactor | None = None
        self._counted = StreamCounts()
        self._packer: Packer | None = None
        self._retainer: Retainer | None = None
        self._packing_room: RewritingRoom | None = None
        self._mender: Mender | None = None
        self._parked: dict[StreamReader, None] = {}
        self.distant: DistantStream | None = None
        self._has_distant = False  # readers
        self._listeners: dict[Callable[[], None], None] = {}

    # -- its log -------------------------------------------------------------------------------------------------------

    def policy_changed(self) -> None:
        """A policy of its virtual host was changed."""
        settings = self._find_settings()
        if settings != self.wanted:
            if settings.filter_bytes != self.wanted.filter_bytes:
                self.writer.resize_filter(settings.filter_bytes)
            self.wanted = settings
            self.settings = as_queue_arguments(settings)
            self._see_to_packing()
            self._see_to_retention()
            self.group.settings_changed(self)

    def open_command(self) -> OpenStream:
        """What makes it in the log, or gives it other settings."""
        return OpenStream(self.queue_id, self.wanted)

    def prepare(self) -> None:
        """Before a command of this node: it comes behind one that makes the stream, should nobody have made it yet."""
        if not self.is_prepared:
            self.is_prepared = True
            if self._machine.settings_of(self.queue_id) is None:
                self.group.submit_opening(self.open_command())

    def stream(self) -> Stream | None:
        """What its log has made of it, as far as this node has applied it. Not to be kept: an install replaces it."""
        return self._machine.stream(self.queue_id)

    def empty_stream(self) -> Stream:
        """What it is where nobody has used it yet."""
        return Stream(self.queue_id, self.wanted, self.group.pager)

    # -- counts --------------------------------------------------------------------------------------------------------

    def message_count(self) -> int:
        """How many messages it has."""
        counts = self.stream_counts()
        return counts.next - counts.first

    def stream_counts(self) -> StreamCounts:
        """As of what this node has applied; of a guest, as the leader has counted last."""
        stream = self.stream()
        if stream is None or self.group.guest is not None:
            return self._counted
        return StreamCounts.of(stream)

    def count(self, is_use: bool, then: Done) -> None:
        """See Queue: a guest asks the leader. Without one, what was counted last is shown."""
        if self.group.guest is None:
            then(None)
            return

        def counted(figures: QueueStatistics | None) -> None:
            if figures is not None:
                self._counted = StreamCounts.read(
                    figures.ready, figures.ready_bytes, figures.unacked, figures.consumers, figures.dead_letters
                )
            then(None)

        self.group.count_at_leader(self.queue_id, counted, False)

    def described_at(self) -> str:
        """See Queue: who leads its group, on a guest; while it knows of nobody, another member."""
        return "" if self.group.guest is None else self.group.member_to_ask()

    def seen_at(self) -> str | None:
        """See Queue: all members have the same."""
        return self.described_at() or (None if self.group.guest is not None else "")

    def add_counts(self, sums: QueueSums) -> None:
        """See Queue: the node that leads its group counts it."""
        stream = self.stream()
        if stream is not None and self._raft.is_leader:
            sums.add_held(stream.next - stream.first, stream.log.octets, 0, 0)
        sums.add_held(0, 0, 0, len(self.consumers))

    def add_counters(self, sums: QueueSums) -> None:
        """See Queue."""
        self.add_gets(sums)
        sums.add_delivered(self.counts.delivered, self.counts.acked)

    def capability(self, kind: type) -> object | None:
        """See Queue."""
        return StreamOperations(self) if kind is StreamSource else None

    def begin_following(self, name: str) -> None:
        """There is a queue of this name over it."""
        self.followers[name] = None

    def end_following(self, name: str) -> None:
        """There is none any more."""
        self.followers.pop(name, None)

    def made_of_it(self) -> list[str]:
        """See Queue."""
        return list(self.followers)

    # -- looking -------------------------------------------------------------------------------------------------------

    def peek(self, wish: PeekWish) -> PeekSteps:
        """See Queue: positions are offsets."""
        return peek_stream(self.stream, wish)

    # -- publishing ----------------------------------------------------------------------------------------------------

    def publish(self, message: Message, receipt: Receipt | None, is_again: bool, now: int) -> int:
        """See Queue."""
        return self.writer.put(message, receipt, is_again)

    # -- consumers -----------------------------------------------------------------------------------------------------

    # -- where it is read ----------------------------------------------------------------------------------------------

    def read_elsewhere(self, distant: DistantStream) -> None:
        """What its readers have of it while this node has no copy."""
        self.distant = distant

    def readable(self, reader: StreamReader) -> Stream | DistantReading | None:
        """What a reader goes over: this node's copy, or what has come of another node's."""
        if self.group.guest is not None:
            assert self.distant is not None  # nobody reads before it is set
            self._has_distant = True
            return self.distant.reading(reader)
        if self._has_distant and self.distant is not None:
            self.distant.forget(reader)
            self._has_distant = self.distant.is_used
        return self.stream()

    def place_elsewhere(self, reader: StreamReader) -> None:
        """Others are asked where a reader begins."""
        assert self.distant is not None  # nobody reads before it is set

        def placed(error: Exception | None) -> None:
            if error is not None and not reader.is_ended:
                self.give_up(reader)

        self.distant.place_reader(reader, placed)

    def place(self, start: Start, then: Placed) -> None:
        """The offset that is meant by this, of all that is committed by now; None where there is no stream."""
        self.when_current(lambda: self.place_as_known(start, then))

    def place_as_known(self, start: Start, then: Placed) -> None:
        """The same, as this node's commands have left the stream: of this node's copy, or as a member says. None also
        where the page that it takes cannot be read, and nobody has it."""
        if self.group.guest is not None and self.distant is not None:
            self.distant.place(start, then)
            return
        stream, offset = self.stream(), None
        try:
            if stream is not None:
                page = page_of(start, stream, self._clock.now)
                coming = stream.log.coming(page) if page >= 0 else None
                if coming is not None and not coming.done():
                    self._groups.awaited(coming).when_done(lambda _: self.place_as_known(start, then))
                    return
                offset = min(place_of(start, stream, self._clock.now), stream.next)
        except (CorruptRecord, OSError) as error:
            assert stream is not None  # it was read
            self._place_when_mended(stream, error, start, then)
            return
        then(offset)

    def _place_when_mended(self, stream: Stream, error: Exception, start: Start, then: Placed) -> None:
        def mended(is_whole: bool) -> None:
            if is_whole and not self.is_deleted:
                self.place_as_known(start, then)
                return
            log.error("%s: where a group of readers begins cannot be read: %s", self._title, error)
            then(None)

        if not self.mend(stream, error, mended):
            mended(False)

    def when_seen(self, reader: StreamReader, then: Callable[[], None]) -> None:
        """As `when_current`, and what the reader looks at is seen as of then."""
        self.when_current(lambda: self.look_again(reader, then))

    def look_again(self, reader: StreamReader, then: Callable[[], None]) -> None:
        """Call `then` when what the reader looks at is seen as this node's commands have left it."""
        if self.group.guest is not None and self.distant is not None:
            self.distant.look_again(reader, then)
        else:
            then()

    @property
    def applied(self) -> int:
        """The index up to which this node has applied its log."""
        return int(self._raft.last_applied)

    def tell_growth(self, wake: Callable[[], None]) -> None:
        """Call `wake` whenever something happens to it here, for who reads it at another node."""
        self._listeners[wake] = None
        self.group.tell_growth(self.queue_id, self._grown)

    def end_growth(self, wake: Callable[[], None]) -> None:
        """Not any more."""
        self._listeners.pop(wake, None)
        self._forget_readers()

    def replicas(self) -> Replicas:
        """See Queue."""
        group = self.group
        return Replicas(group.leader or "", group.members())

    def elsewhere(self) -> Sequence[str]:
        """See Queue: the members of its group, on a guest."""
        return self.group.members() if self.group.guest is not None else ()

    def moved(self) -> Iterator[None]:
        """This node has a copy now, or has none any more: its readers go on with what there is, one a step."""
        if self.distant is not None and self.group.guest is None:
            yield from self.distant.come_home()
        for wake in list(self._listeners):
            wake()
            yield
        for reader in [*self.consumers.values(), *self._watching]:
            if reader.consumer.is_waiting:
                self.serve_later(reader)
            yield

    def _reader_for(self, consumer: Subscriber, wish: Wish) -> StreamReader:
        """See LogQueue."""
        if wish.group is None:
            return StreamReader(self, consumer, wish.start, wish.filter, wish.until)
        return GroupReader(self, consumer, wish.start, wish.filter, wish.group, self._groups)

    def _join(self, consumer: Consumer, then: Done) -> None:
        """See LogQueue. Who reads alone asks nobody, unless it is to end; on a guest of the group, a member, where it
        begins."""
        self.group.tell_growth(self.queue_id, self._grown)
        reader = self.consumers[consumer]
        if isinstance(reader, GroupReader):
            super()._join(consumer, then)
        elif reader.ending is not None:
            self._find_until(reader, then)
        else:
            self._begin_alone(reader, then)

    def _find_until(self, reader: StreamReader, then: Done) -> None:
        """Where it ends, of all that was committed before it came."""

        def placed(offset: int | None) -> None:
            if reader.is_ended:
                then(not_found("queue", self.name, self.declaration.vhost))
            elif offset is None and (self.stream() is not None or self.group.guest is not None):
                then(self.unreadable())
            else:
                reader.ending, reader.until = None, offset or 0
                self._begin_alone(reader, then)

        ending = cast("Start", reader.ending)
        if ending.kind is StartKind.OFFSET:
            placed(ending.value)
        else:
            self.place(ending, placed)

    def _begin_alone(self, reader: StreamReader, then: Done) -> None:
        if self.group.guest is not None and self.distant is not None:
            self.distant.place_reader(reader, then)
        else:
            then(None)

    def new_member(self) -> Member:
        """A number and a name for one that reads with others."""
        group = self.group
        return Member(group.stream.origin, group.new_consumer())

    def give_up(self, reader: StreamReader) -> None:
        """It cannot go on: its consumer is cancelled."""
        consumer = cast("Consumer", reader.consumer)
        if consumer in self.consumers:
            self.cancel(consumer, True, self._clock.now)
            consumer.on_queue_gone()
        elif reader in self._watching:
            consumer.on_queue_gone()

    def watch(self, reader: StreamReader) -> None:
        """It is served from now on, and is no consumer of this queue."""
        self._watching[reader] = None
        self.group.tell_growth(self.queue_id, self._grown)

    def unwatch(self, reader: StreamReader) -> None:
        """It is not any more."""
        self._watching.pop(reader, None)
        self._reader_has_left(reader)

    def _reader_has_left(self, reader: object) -> None:
        """See LogQueue. What others have sent for it, or are asked for, it does not need."""
        if self.distant is not None:
            self.distant.forget(cast("StreamReader", reader))
        self._forget_readers()

    def _forget_readers(self) -> None:
        """If there are none."""
        if not self.consumers and not self._watching:
            if self.compactor is None and not self._listeners:
                self.group.tell_growth(self.queue_id, None)
            self._late.clear()

    def compact_with(self, compactor: Compactor) -> None:
        """Its copy on this node is compacted by it."""
        self.compactor = compactor
        self.group.tell_growth(self.queue_id, self._grown)

    def pack_in(self, room: RewritingRoom) -> None:
        """Its pages are compressed there, and it is kept to its limits, if and as long as its settings say so."""
        self._packing_room = room
        self._see_to_packing()
        self._see_to_retention()

    def _see_to_retention(self) -> None:
        room, retainer = self._packing_room, self._retainer
        if self.wanted.max_length_bytes is None and self.wanted.max_age is None:
            self._retainer = None
            if retainer is not None:
                retainer.end()
        elif retainer is None and room is not None:
            self._retainer = Retainer(self, room)

    def _see_to_packing(self) -> None:
        room, packer = self._packing_room, self._packer
        if self.wanted.compression == COMPRESSIONS[0]:
            self._packer = None
            if packer is not None:
                packer.end()
        elif packer is None and room is not None:
            self._packer = Packer(self, room)

    # -- pages that cannot be read -------------------------------------------------------------------------------------

    def mend_with(self, mender: Mender) -> None:
        """What cannot be read here is had from other nodes."""
        self._mender = mender

    def mend(self, stream: Stream, error: Exception, then: Callable[[bool], None]) -> bool:
        """See Mender."""
        return self._mender is not None and self._mender.mend(stream, error, then)

    @property
    def is_being_mended(self) -> bool:
        """Whether a page of it is written anew that could not be read."""
        return self._mender is not None and self._mender.is_busy

    def stop_rewriting(self) -> bool:
        """No pass over its pages goes on. Returns whether one has to end yet, which is soon."""
        under_way = [each for each in (self.compactor, self._packer) if each is not None and each.is_under_way]
        for each in under_way:
            each.give_way()
        return bool(under_way)

    def serve_behind(self, reader: StreamReader, read: Pending) -> None:
        """Serve a reader when a page was read, in the background, and not before."""
        self._parked[reader] = None

        def was_read(_: object) -> None:
            self._parked.pop(reader, None)
            if not reader.is_ended:
                self.serve_later(reader)

        self._groups.awaited(read).when_done(was_read)

    def _mended(self, reader: StreamReader, error: Exception, is_whole: bool) -> None:
        """The page for which a reader waits is there, or will not be."""
        self._parked.pop(reader, None)
        if reader.is_ended:
            return
        if is_whole:
            self.serve_later(reader)
        else:
            self._unreadable(reader, error)

    def give_up_unreadable(self, reader: StreamReader) -> None:
        """No member can read what comes next."""
        log.error("%s: what is behind offset %d none of %s can read, a consumer is cancelled",
                  self._title, reader.offset, ", ".join(self.group.members()))  # fmt: skip
        self.give_up(reader)

    def unreadable(self) -> AmqpException:
        """What a consumer is told that begins where no member can read it."""
        return precondition_failed(f"{self._title} cannot be read there, its pages are damaged: see the log")

    def _unreadable(self, reader: StreamReader, error: Exception) -> None:
        log.error("%s: what is behind offset %d cannot be read, a consumer is cancelled: %s",
                  self._title, reader.offset, error)  # fmt: skip
        self.give_up(reader)

    def credit_returned(self, consumer: Consumer) -> None:
        """See Queue."""
        reader = self.consumers.get(consumer)
        consumer.is_waiting = True
        if reader is not None:
            self.serve_later(reader)

    def _grown(self) -> None:
        """The log has more."""
        if self.compactor is not None:
            self.compactor.grown()
        for wake in list(self._listeners):
            wake()
        self.wake_readers()

    def wake_readers(self) -> None:
        """There may be something for those that wait."""
        for reader in chain(self.consumers.values(), self._watching):
            if reader.consumer.is_waiting:
                self.serve_later(reader)

    def when_current(self, then: Callable[[], None]) -> None:
        """See QueueGroup."""
        self.group.when_current(then)

    def find_end(self, reader: StreamReader) -> None:
        """Serve a reader once this node knows where the log ends."""
        if reader not in self._seeking:
            self._seeking.append(reader)
            self.when_current(lambda: self._end_found(reader))

    def _end_found(self, reader: StreamReader) -> None:
        self._seeking.remove(reader)
        reader.knows_end = True
        if not reader.is_ended:
            self.serve_later(reader)

    def serve_later(self, reader: StreamReader) -> None:
        """It may have something to do."""
        if not reader.is_late:
            reader.is_late = True
            if reader.is_behind:
                self._behind.append(reader)
                if not self._is_serving_behind:
                    self._is_serving_behind = True
                    self._background.add_behind(self._serve_behind)
                return
            self._late.append(reader)
            if not self._is_serving:
                self._is_serving = True
                self._background.add(self._serve_some)

    def _serve_some(self, now: int) -> bool:
        """A slice: those who are late, in turns."""
        self._is_serving = self._serve_line(self._late, now, False)
        return self._is_serving

    def _serve_behind(self, now: int) -> bool:
        """The same, of those who are far behind."""
        self._is_serving_behind = self._serve_line(self._behind, now, True)
        return self._is_serving_behind

    def _serve_line(self, line: deque[StreamReader], now: int, is_behind: bool) -> bool:
        room = self._background.slice
        while line and room > 0:
            reader = line.popleft()
            reader.is_late = False
            room -= 1  # to look costs something where there is nothing, too
            if reader.is_ended:
                continue
            if self._is_far(reader) != is_behind:
                reader.trail(not is_behind)
                self.serve_later(reader)
                continue
            room = self._serve(reader, room, now)
            if room <= 0 and not reader.is_ended:
                self.serve_later(reader)
        return bool(line)

    def _is_far(self, reader: StreamReader) -> bool:
        stream = self.stream()
        if stream is None or self.group.guest is not None or reader.offset < 0:
            return False
        return stream.log.is_far(reader.offset, self._groups.far_bytes)

    def _serve(self, reader: StreamReader, room: int, now: int) -> int:
        if reader in self._parked:
            return room
        try:
            return reader.serve(room, now)
        except (CorruptRecord, OSError) as error:
            stream, damage = self.stream(), error
            if stream is not None and self.mend(
                stream, error, lambda is_whole: self._mended(reader, damage, is_whole)
            ):
                self._parked[reader] = None
            else:
                self._unreadable(reader, error)
            return room

    # -- settling: credit, which the channel gives ---------------------------------------------------------------------

    def ack(self, delivery: Delivery) -> None:
        """See Queue."""
        self.counts.acked += 1
        if type(delivery) is GroupDelivery:
            delivery.reader.settled(delivery)

    # -- the end -------------------------------------------------------------------------------------------------------

    def delete(self) -> int:
        """The stream is no more: its consumers here are cancelled. Nobody is told how many messages it had."""
        self.writer.seal()
        self.is_deleted = True
        if self.compactor is not None:
            self.compactor.end()
        if self._packer is not None:
            self._packer.end()
        if self._retainer is not None:
            self._retainer.end()
        watching, self._watching = self._watching, {}
        for reader in watching:
            reader.end(True)
            self._reader_has_left(reader)
        self._cancel_all()
        self._forget_readers()
        if self.distant is not None:
            self.distant.end()
        self.group.forget_queue(self)
        for wake in list(self._listeners):
            wake()
        return 0
