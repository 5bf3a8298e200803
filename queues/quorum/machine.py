"""QueueGroupMachine: the quorum queues and streams of one Raft group, as the state machine that raft/ drives (raft's
Machine).

    committed entry -> apply -> effects -> take_effects: the node delivers to its own clients
    checkpoint -> the journal, and pages that the same sync makes durable -> restore
    export -> another member's begin_install, install_chunk, end_install

Every member applies every entry and knows every consumer; each tells its own node what that node's consumers and
commands have got. It knows no sockets, no clock (time is in the entries) and no journal: after the turn in which a
checkpoint was taken the node tells it the journal's end, and later how far the journal is synced.

An exception out of `apply`, `checkpoint` or an install leaves it unusable: the node stops.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from typing import Any, Protocol

from queues.effects import Effect
from queues.pager import Pager
from queues.quorum.capture import Capture
from queues.quorum.checkpoint import Checkpoint
from queues.quorum.commands import Batch, decode_batch, with_time
from queues.quorum.execution import Execution
from queues.quorum.feed import Heard, heard_by
from queues.quorum.foresight import look_first
from queues.quorum.image_reader import ImageReader, read_image
from queues.quorum.leases import QuorumLease
from queues.quorum.placement import ChunkPlacer
from queues.quorum.places import Export, Places, place_ahead
from queues.quorum.queue import QueueStatistics, QuorumQueue
from queues.quorum.resting import Resting
from queues.quorum.settings import QuorumSettings
from queues.quorum.state import GroupState
from queues.stream.coming import Coming
from queues.stream.commands import AppendChunk
from queues.stream.damaged import Damaged
from queues.stream.place import Place
from queues.stream.settings import StreamSettings
from queues.stream.stream import Stream
from raft.errors import NotNow

#: So often an entry waits for a page at most: where so many are wanted that they do not stay in RAM for long enough,
#: the rest is read at once.
_MOST_WAITS = 256
#: Chunks that nobody has.
_NOTHING = 1 << 62


class Log(Protocol):
    """What is used of a raft Group to propose."""

    @property
    def last_index(self) -> int:
        """The index of the last entry."""

    def propose(self, data: bytes) -> bool:
        """Append an entry; False: not the leader."""


class QueueGroupMachine:
    """own_node: this node's name. pager: this group's own (its `used` counts towards the node's memory, its pages lie
    in the node's page store). stream_direct_bytes: chunks from this size on go to the files of their streams at once.
    placer: what does that, for raft's log. entry_waits, export_waits: for a page that cannot be read, until
    somebody says `go_on`, or `export_again`. entry_comes: for a page that is read in the background."""

    def __init__(self, own_node: str, pager: Pager, stream_direct_bytes: int = _NOTHING) -> None:
        self.pager = pager
        self.role_changes = 0
        self._execution = Execution(own_node, pager)
        self._places = Places(pager)
        self.placer = ChunkPlacer(pager, stream_direct_bytes, self._has_stream, self._forget_folders)
        self._checkpoint: Checkpoint | None = None  # the last one that was begun
        self._install: ImageReader | None = None
        self._proposed: dict[int, tuple[bytes, Batch]] = {}  # by index, what this member has proposed, as read
        self.entry_waits: Damaged | None = None
        self.entry_comes: Coming | None = None
        self._waits = 0  # how often the next entry has waited for a page
        self.export_waits: Damaged | None = None
        self._looks = True

    # -- raft's Machine ----------------------------------------------------------------------------------------------

    def apply(self, index: int, term: int, data: bytes, now: int) -> None:
        """A committed entry: one batch (commands.py); `now` is ignored. Raises Malformed if it cannot be read; NotNow
        while `entry_waits`, or `entry_comes`."""
        if self.entry_waits is not None:
            raise self.entry_waits
        if self.entry_comes is not None:
            if not self.entry_comes.read.done():
                raise self.entry_comes
            self.entry_comes = None
        proposed = self._proposed.pop(index, None) if self._proposed else None
        if proposed is not None and proposed[0] is data:
            batch = proposed[1]
        else:
            batch = decode_batch(data, self.pager.addresses)
        if self._execution.state.streams:
            self._look_first(index, data, batch)
        places = self.placer.take(index)
        if places is None:
            self._execution.run(batch)
        else:
            self._run_placed(batch, places)

    def _look_first(self, index: int, data: bytes, batch: Batch) -> None:
        """Raises NotNow where the entry comes to a page that cannot be read, or not at once."""
        if not self._looks:
            self._looks = True
            return
        try:
            look_first(self._execution.state, batch, self._waits < _MOST_WAITS)
        except Damaged as damaged:
            self._proposed[index] = (data, batch)
            self.entry_waits = damaged
            raise
        except Coming as coming:
            self._proposed[index] = (data, batch)
            self.entry_comes = coming
            self._waits += 1
            raise
        self._waits = 0

    def go_on(self, is_whole: bool) -> None:
        """The page for which an entry waits is whole again, or nobody has it: then it is found out what the entry makes
        of that, and the node may stop."""
        self.entry_waits = None
        self._looks = is_whole

    def _run_placed(self, batch: Batch, places: list[Place]) -> None:
        """Apply a batch of which chunks lie on the disk."""
        for place in places:
            command = batch.commands[place.number]
            assert isinstance(command, AppendChunk)
            batch.commands[place.number] = command.placed(place)
        self._execution.run(batch)
        self.placer.settle(places)

    def _has_stream(self, queue_id: int) -> bool:
        return queue_id in self._execution.state.streams

    def _forget_folders(self, queue_ids: list[int]) -> None:
        """Places in the folders of these queues are dead: those of queues that are gone go with the next checkpoint."""
        execution = self._execution
        execution.dropped += [each for each in queue_ids if each not in execution.state]

    def checkpoint(self) -> list[bytes]:
        """The state as of now. What it names in pages must be synced with it or before it (Pager.has_named_pages)."""
        return [chunk for chunk in self.checkpoint_in_slices() if chunk is not None]

    def prepare_checkpoint(self) -> Iterator[None]:
        """See Machine."""
        return place_ahead(self._execution.state, self.pager)

    def checkpoint_in_slices(self) -> Checkpoint:
        """See Machine. One that was begun before, and is not whole, comes to nothing."""
        self._give_up_checkpoint()
        execution = self._execution
        dropped, execution.dropped = execution.dropped, []
        execution.dropped_bytes = 0  # of places that this checkpoint does not name
        self._checkpoint = checkpoint = Checkpoint(
            execution.state, self.pager, self._places, execution.captures, dropped
        )
        return checkpoint

    def _give_up_checkpoint(self) -> None:
        if self._checkpoint is not None:
            self._checkpoint.close()
            self._checkpoint = None

    def restore(self, chunks: list[bytes]) -> None:
        """At recovery, before the page store drops orphans: what `checkpoint` has given. Raises Malformed,
        CorruptRecord."""
        self._execution.replace(read_image(chunks, self.pager, self._execution))
        self._execution.effects = []

    def export(self) -> Iterator[bytes]:
        """The state as of now for another member. It has `close`. Raises NotNow while `export_waits`."""
        if self.export_waits is not None:
            raise self.export_waits
        execution = self._execution
        capture = Capture(execution.state, False, execution.captures, lambda _: None)
        return Export(capture, self.pager, self._places, self._export_damaged)

    def _export_damaged(self, damaged: Damaged) -> None:
        self.export_waits = damaged

    def begin_install(self) -> None:
        """Another member's state follows; this one stays until it is there. Raises NotNow while there is something left
        of an earlier one, as it may have the same ids."""
        self.abort_install()
        if self._execution.has_left:
            raise NotNow("states that are none any more give back what they have")
        self._install = ImageReader(self.pager, self._execution)

    def install_chunk(self, chunk: bytes) -> None:
        """The next chunk. Raises Malformed."""
        self._present_install().feed(chunk)

    def end_install(self) -> None:
        """The state is that of the image now; the node is told what it has missed. Raises Malformed; NotNow while there
        is something left of queues that are gone, as it may have the same ids."""
        if self._execution.has_gone:
            raise NotNow("queues that are gone give back what they have")
        state = self._present_install().finish()
        self._install = None
        self._give_up_checkpoint()
        before = self._execution.replace(state)
        for queue_id, stream in state.streams.items():
            if stream.settings.key:
                stream.has_taken_over(before.streams.get(queue_id))
        self._execution.discard_later(before)

    def watch_discards(self, hear: Callable[[], None] | None) -> None:
        """`hear`, if there is one, is called when there is something for `discard_some`."""
        self._execution.on_discarding = hear

    def export_again(self) -> None:
        """What `export_waits` for may be there now: the next try says."""
        self.export_waits = None

    def abort_install(self) -> None:
        """Forget what has come."""
        install, self._install = self._install, None
        if install is not None:
            known = self._execution.state
            self._execution.dropped += [each for each in install.ids() if each not in known]
            self._execution.discard_later(install.give_up())

    def take_concerned(self) -> Container[str] | None:
        """Nodes whose commands were applied, or whose consumers got something, since the last call. None: something
        happened that every node may have to know of."""
        return self._execution.take_concerned()

    def role_changed(self, is_leader: bool, leader: str | None, term: int, now: int) -> None:
        """A new leader is told of all dead letters that are not known to be dispatched."""
        if not is_leader:
            self._proposed = {}
        self._execution.set_leader(is_leader)
        self.role_changes += 1

    def _present_install(self) -> ImageReader:
        if self._install is None:
            raise RuntimeError("a chunk of an install, and none was begun")
        return self._install

    # -- the leader ----------------------------------------------------------------------------------------------------

    def propose(self, log: Log, batch: bytes | memoryview, now: int, made: Batch | None = None) -> bool:
        """A node's batch, or an own one of the leader, with the time put in (a view of a frame will do: it is copied
        once). made: what it holds, where this node has just made it of that: it is not read again. False: this member
        does not lead, or hands over. Raises Malformed for what is no batch: nothing was proposed then; and ValueError
        for what is too large for the log.

        What was read to check it is kept for `apply`, so that a leader reads every batch once.
        """
        data = with_time(batch, now)
        if made is None:
            read = decode_batch(data, self.pager.addresses)
        else:
            _, origin, session, first, seen, commands = made
            read = Batch(now, origin, session, first, seen, list(commands))
        if not log.propose(data):
            return False
        self._proposed[log.last_index] = (data, read)
        return True

    # -- the node ----------------------------------------------------------------------------------------------------

    @property
    def own_session(self) -> int:
        """The node's present command stream; effects come for this one only. 0: none."""
        return self._execution.own_session

    def begin_session(self, session: int) -> None:
        """The node has another one."""
        self._execution.own_session = session

    def heard(self) -> Heard:
        """What the own node has heard of its session, if it has taken all effects."""
        execution = self._execution
        return heard_by(execution.state.origins.get(execution.own_node), execution.own_session)

    def resume(self, heard: Heard) -> None:
        """The own node goes on here with a session of which it has heard so much elsewhere: of a state before this
        one."""
        self._execution.resume(heard)

    def expect_guests(self) -> None:
        """Nodes that are no members use the group from now on: the leader is told of whoever gives a queue that is
        there other settings (QueueOpened)."""
        self._execution.has_guests = True

    def tell_growth(self, queue_id: int, is_wanted: bool) -> None:
        """Whether the own node is told when a stream has more (Grown)."""
        if is_wanted:
            self._execution.listened[queue_id] = None
        else:
            self._execution.listened.pop(queue_id, None)

    def open_feed(self, node: str, heard: Heard) -> None:
        """On the member that leads: another node, which is no member, hears the effects of its session from where it
        has stopped."""
        self._execution.open_feed(node, heard)

    def take_feed(self, node: str) -> list[Effect]:
        """What has come for such a node since the last call, in order."""
        feed = self._execution.feeds[node]
        effects: list[Effect] = feed.effects
        if effects:
            feed.effects = []
        return effects

    def close_feed(self, node: str) -> None:
        """It hears nothing more here."""
        execution = self._execution
        execution.feeds.pop(node, None)

    def clear(self) -> None:
        """This node is no member any more: everything goes, and nobody is told of it."""
        self.abort_install()
        self._give_up_checkpoint()
        self._proposed = {}
        execution = self._execution
        execution.own_session = 0
        execution.feeds.clear()
        before = execution.replace(GroupState())
        execution.effects = []
        self._execution.discard_later(before)

    def take_effects(self) -> list[Effect]:
        """What has come of the entries applied since the last call, in order."""
        execution = self._execution
        effects = execution.effects
        if not effects:
            return []
        execution.effects = []
        return effects

    def next_deadline(self) -> int | None:
        """When something is due; then the leader proposes a Tick, again and again until this is later or None."""
        return self._execution.next_deadline()

    def session_of(self, node: str) -> int:
        """The open session of a node, for NodeDown; 0 if it has none."""
        origin = self._execution.state.origins.get(node)
        return origin.session if origin is not None and origin.is_open else 0

    def last_session_of(self, node: str) -> int:
        """The newest session of a node, open or not; 0 if it never had one."""
        origin = self._execution.state.origins.get(node)
        return origin.session if origin is not None else 0

    def open_sessions(self) -> dict[str, int]:
        """The open session of each node that has one."""
        origins = self._execution.state.origins
        return {name: origins[name].session for name in origins if origins[name].is_open}

    @property
    def clock(self) -> int:
        """The group's time, milliseconds since the epoch."""
        return self._execution.state.clock

    def settings_of(self, queue_id: int) -> QuorumSettings | StreamSettings | None:
        """What is in force for a queue or a stream, None if there is none."""
        state = self._execution.state
        queue, stream = state.queues.get(queue_id), state.streams.get(queue_id)
        if queue is not None:
            return queue.quorum_settings
        return stream.settings if stream is not None else None

    def stream(self, queue_id: int) -> Stream | None:
        """A stream as of what was applied, to be read only and in this turn: an install puts another one there."""
        found: Stream | None = self._execution.state.streams.get(queue_id)
        return found

    def has_files(self, queue_id: int) -> bool:
        """Whether the pages of a queue may still be needed."""
        execution = self._execution
        if queue_id in execution.state or queue_id in execution.dropped or queue_id in self._installing():
            return True
        return queue_id in self._places.queue_ids() or queue_id in self.placer.queue_ids()

    def has_letter(self, queue_id: int, letter: int) -> bool:
        """Whether a dead letter that the leader was told of is not known to be dispatched."""
        return self._execution.has_letter(queue_id, letter)

    def queue_ids(self) -> list[int]:
        """The queues that there are, and those whose pages may still be needed: for PageStore.drop_orphans."""
        execution = self._execution
        placed = self.placer.queue_ids()
        return [*execution.state.ids(), *execution.dropped, *self._places.queue_ids(), *self._installing(), *placed]

    def _installing(self) -> list[int]:
        """The queues of a state that is on its way."""
        return self._install.ids() if self._install is not None else []

    def statistics(self, queue_id: int) -> QueueStatistics | None:
        """Figures of a queue, None if there is no such queue."""
        queue = self._execution.state.queues.get(queue_id)
        return queue.statistics() if queue is not None else None

    def queue_state(self, queue_id: int) -> QuorumQueue | None:
        """A queue as of what was applied, to be read only."""
        found: QuorumQueue | None = self._execution.state.queues.get(queue_id)
        return found

    def leased_queues(self) -> list[int]:
        """The queues that have, or had, lease groups."""
        return list(self._execution.state.leased)

    def lease_groups(self, queue_id: int) -> dict[str, QuorumLease]:
        """The lease groups of a queue by name, to be read only; those that are being put back not among them."""
        queue = self._execution.state.queues.get(queue_id)
        return queue.lease_groups.groups if queue is not None and queue.lease_groups is not None else {}

    def parting_groups(self, queue_id: int) -> list[QuorumLease]:
        """Those of which some is still on its way back to the queue."""
        queue = self._execution.state.queues.get(queue_id)
        return list(queue.lease_groups.parting) if queue is not None and queue.lease_groups is not None else []

    def page_out(self, want_bytes: int, keeps_heads: bool = True) -> int:
        """Memory is short: bring pages to the disk until so much is free; and heads too, of queues that have no
        consumer, unless they are to be kept. Returns what was freed, octets."""
        freed = 0
        for stream in self._execution.state.streams.values():
            if freed >= want_bytes:
                return freed
            freed += stream.log.page_out(want_bytes - freed)
        for queue in self._execution.state.queues.values():
            keeps_head = keeps_heads or bool(queue.dispatcher.consumers)
            delivery_owners: list[Any] = [queue.ready, queue.letters.waiting]
            if isinstance(queue.resting, Resting):
                delivery_owners.append(queue.resting.waiting)
            delivery_owners += queue.leased()
            for delivery_owner in delivery_owners:
                if freed >= want_bytes:
                    return freed
                freed += delivery_owner.page_out(want_bytes - freed, keeps_head)
        return freed

    def wants_checkpoint(self) -> bool:
        """Whether much of the disk is held by nothing but the newest checkpoint."""
        return self._places.are_worth_a_checkpoint()

    @property
    def is_discarding(self) -> bool:
        """Whether there is something to do for `discard_some`."""
        return self._execution.is_discarding

    def discard_some(self, now: int) -> bool:
        """A slice: queues that are gone give back their RAM and their places. Returns whether there is more."""
        if self._execution.is_discarding:
            self._execution.discard_some()
        return self._execution.is_discarding

    def end_turn(self, position: int) -> None:
        """The journal's end, after everything of this turn was appended."""
        execution = self._execution
        if execution.dropped_bytes:
            self._places.dead_bytes += execution.dropped_bytes
            execution.dropped_bytes = 0
        self._places.end_turn(position)

    @property
    def awaits_disk(self) -> bool:
        """Whether `synced` will find something to do."""
        return self._places.is_retiring

    def synced(self, position: int) -> None:
        """The journal is on the disk so far. Raises OSError. Nothing goes while queues that are gone have more to give
        back: what they do give belongs to files that may go now."""
        execution = self._execution
        if self._places.is_retiring and not execution.is_discarding:
            spared = [*execution.dropped, *self._installing(), *self.placer.queue_ids()]
            for compacted, below in self._places.synced(position, execution.state, spared):
                compacted.is_synced_to(below)
