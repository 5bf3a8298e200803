"""ReadDesk: a member answers those nodes that read a stream and have no copy of it.

    READ -> (there is nothing yet: it waits for the stream to grow) -> its turn -> chunks, page by page -> PIECE ... END
    PLACE -> (this node has to know more first) -> the page that it takes -> END
    LOOK -> (the same) -> (there is no news: it waits for the stream to change) -> SEEN

Invariants:
1. A page that is not in RAM is read in a thread, and not in the loop; the stream is looked up anew after each wait.
2. MOST_AT_ONCE questions are being read for, of all nodes and streams; the others stand in line.
3. Who waits for a stream to grow costs nothing meanwhile, and hears within HOLD_MS that there is nothing: so a member
   that has lost the others is not asked for ever.
"""

from __future__ import annotations

import logging
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, cast

from amqp_broker.octets.checksum import crc32
from amqp_broker.queue_types.stream.page_exchange import where_of
from amqp_broker.queue_types.stream.read_frames import (
    Answer,
    End,
    GroupSeen,
    Look,
    Piece,
    Place,
    Read,
    Refused,
    Said,
    Seen,
    ShareSeen,
    Stop,
    decode_question,
    encode_answer,
    encode_seen,
)
from amqp_broker.turn.awaited_read import AwaitedRead
from amqp_broker.turn.completion import Completion
from amqp_broker.turn.task import Steps, Task
from queues.stream.log import stored_octets
from queues.stream.start import StartKind, page_of, place_of
from queues.wire.reader import Malformed
from storage.errors import CorruptRecord

if TYPE_CHECKING:
    from amqp_broker.links.tenants import Send
    from amqp_broker.queue_types.groups.groups import QuorumGroups
    from amqp_broker.queue_types.stream.queue import StreamQueue
    from amqp_broker.turn.clock import TurnClock
    from queues.background import Background
    from queues.stream.stream import Stream
    from queues.timers import Timers

log = logging.getLogger("amqp_broker.cluster")

#: A question that waits for a stream to grow is answered after this time, milliseconds.
HOLD_MS = 30_000
#: Questions for which pages are read at the same time.
MOST_AT_ONCE = 16
#: Who waits for news of a group looks at most so often, milliseconds: whatever is published wakes it.
_LOOK_MS = 10
#: Octets of a frame, and chunks of a slice: so many are gathered into it.
_FRAME_BYTES = 256 * 1024
_SLICE_CHUNKS = 64


class _Refusal(Exception):
    """This node does not answer now."""


class _Hold:
    """Of one question that waits for its stream. is_wanted: somebody wants to know. goes_on: and not for too long."""

    def __init__(self, timers: Timers, clock: TurnClock) -> None:
        self.is_wanted = self.goes_on = True
        self._change: Completion[None] = Completion()
        self._timer = timers.at(clock.now + HOLD_MS, lambda now: self.stop(True))

    def stop(self, is_wanted: bool) -> None:
        """It has waited long enough; or nobody wants to know any more."""
        self.is_wanted, self.goes_on = is_wanted, False
        self._wake()

    def _wake(self) -> None:
        self._change.complete(None)

    def change(self, queue: StreamQueue) -> Steps:
        """Wait until something happens to the stream."""
        self._change = Completion()
        if self.goes_on:
            queue.tell_growth(self._wake)
            try:
                yield self._change
            finally:
                queue.end_growth(self._wake)

    def end(self) -> None:
        """The question is answered."""
        self._timer.cancel()


class ReadDesk:
    """See the module's docstring. answer: to another node."""

    def __init__(
        self, groups: QuorumGroups, background: Background, timers: Timers, clock: TurnClock, answer: Send
    ) -> None:
        self.answer = answer
        self._groups = groups
        self._background = background
        self._timers = timers
        self._clock = clock
        self.holds: dict[tuple[str, int], _Hold] = {}
        self._line: deque[Completion[None]] = deque()
        self._reading = 0

    def receive(self, name: str, payload: bytes, now: int) -> None:
        """A question of another node."""
        try:
            number, queue_id, asked = decode_question(payload)
        except Malformed as error:
            log.error("%s asks for a stream in a way that is none: %s", name, error)
            return
        if isinstance(asked, Stop):
            hold = self.holds.get((name, number))
            if hold is not None:
                hold.stop(False)
            return
        Task(self._background, self._steps(name, number, queue_id, asked))

    def _say(self, name: str, number: int, said: Said) -> bool:
        return self.answer(name, encode_answer(Answer(number, said)))

    def _steps(self, name: str, number: int, queue_id: int, asked: Place | Read | Look) -> Steps:
        try:
            if isinstance(asked, Place):
                yield from self._place(name, number, queue_id, asked)
            elif isinstance(asked, Look):
                yield from self._look(name, number, queue_id, asked)
            else:
                yield from self._read(name, number, queue_id, asked)
        except _Refusal as refusal:
            self._say(name, number, Refused(False, str(refusal)))
        except (CorruptRecord, OSError) as error:
            self._say(name, number, self._damaged(queue_id, error))

    def _damaged(self, queue_id: int, error: Exception) -> Refused:
        """A page could not be read: it is had from another member, if there is one that has it."""
        try:
            queue, stream = self._find(queue_id)
        except _Refusal as refusal:
            return Refused(False, str(refusal))
        is_mended = stream is not None and queue.mend(stream, error, lambda is_whole: None)
        return Refused(not is_mended, f"it cannot read that: {where_of(error)}")

    def _find(self, queue_id: int) -> tuple[StreamQueue, Stream | None]:
        """The stream as it is now, None where nobody has used it yet."""
        group = self._groups.of(queue_id) if self._groups.all else None
        if group is None or group.guest is not None or group.raft.is_outside:
            raise _Refusal("it has no copy")
        queue = cast("StreamQueue | None", group.queues.get(queue_id))
        if queue is None:
            raise _Refusal(f"it has no stream of id {queue_id}")
        stream = group.machine.stream(queue_id)
        if stream is not None and not stream.is_compacted_enough:
            raise _Refusal("it has taken the stream from another node, and compacts it")
        return queue, stream

    # -- where somebody begins -----------------------------------------------------------------------------------------

    def _place(self, name: str, number: int, queue_id: int, asked: Place) -> Steps:
        start, (queue, stream) = asked.start, self._find(queue_id)
        is_behind = queue.applied < asked.at
        is_beyond = stream is not None and start.kind is StartKind.OFFSET and start.value > stream.next
        if is_behind or is_beyond or stream is None:
            _, stream = yield from self._current(queue_id)
        if stream is None:
            self._say(name, number, End(0, 0, 0))
            return
        page = page_of(start, stream, self._clock.now)
        if page >= 0:
            stream = yield from self._in_ram(queue_id, page)
        offset = min(place_of(start, stream, self._clock.now), stream.next)
        self._say(name, number, End(offset, stream.first, stream.next))

    def _current(self, queue_id: int) -> Steps:
        """As `_find`, once this node has applied all that was committed by now."""
        queue, _ = self._find(queue_id)
        known: Completion[None] = Completion()
        queue.when_current(lambda: known.complete(None))
        yield known
        return self._find(queue_id)

    def _in_ram(self, queue_id: int, offset: int) -> Steps:
        """The stream, once the page with this offset is in RAM."""
        _, stream = self._find(queue_id)
        coming = stream.log.coming(offset) if stream is not None else None
        if coming is not None:
            yield AwaitedRead(coming, self._timers, self._clock)
            _, stream = self._find(queue_id)
        if stream is None:
            raise _Refusal("it is not there any more")
        return stream

    # -- chunks --------------------------------------------------------------------------------------------------------

    def _read(self, name: str, number: int, queue_id: int, asked: Read) -> Steps:
        is_wanted = yield from self._grown(name, number, queue_id, asked.offset)
        if not is_wanted:
            return
        if self._reading >= MOST_AT_ONCE:
            turn: Completion[None] = Completion()
            self._line.append(turn)
            yield turn
        self._reading += 1
        try:
            yield from self._send_chunks(name, number, queue_id, asked)
        finally:
            self._reading -= 1
            if self._line:
                self._line.popleft().complete(None)

    def _grown(self, name: str, number: int, queue_id: int, offset: int) -> Steps:
        """Wait until the stream has this offset, but not for ever. Returns whether anybody wants to know."""
        queue, stream = self._find(queue_id)
        if stream is not None and stream.next > offset:
            return True
        hold = self.holds[name, number] = _Hold(self._timers, self._clock)
        try:
            while hold.goes_on and (stream is None or stream.next <= offset):
                yield from hold.change(queue)
                queue, stream = self._find(queue_id)
        finally:
            hold.end()
            del self.holds[name, number]
        return hold.is_wanted

    def _send_chunks(self, name: str, number: int, queue_id: int, asked: Read) -> Steps:
        offset, sent = asked.offset, 0
        _, stream = self._find(queue_id)
        if stream is None:
            self._say(name, number, End(offset, 0, 0))
            return
        stream = yield from self._in_ram(queue_id, offset)
        gathered: list[bytes] = []
        while (stored := stream.log.chunk_at(offset)) is not None:
            octets = stored_octets(stored.apart())
            if sent and sent + len(octets) > asked.most_bytes:
                break
            gathered.append(octets)
            sent += len(octets)
            offset = stored.next
            if len(gathered) == _SLICE_CHUNKS or len(octets) >= _FRAME_BYTES:
                if not self._send_pieces(name, number, gathered):
                    return
                gathered = []
                yield None
            if sent >= asked.most_bytes:
                break
            stream = yield from self._in_ram(queue_id, offset)
        if self._send_pieces(name, number, gathered):
            self._say(name, number, End(offset, stream.first, stream.next))

    def _send_pieces(self, name: str, number: int, gathered: list[bytes]) -> bool:
        octets = b"".join(gathered)
        return all(
            self._say(name, number, Piece(octets[start : start + _FRAME_BYTES]))
            for start in range(0, len(octets), _FRAME_BYTES)
        )

    # -- groups of readers ---------------------------------------------------------------------------------------------

    def _look(self, name: str, number: int, queue_id: int, asked: Look) -> Steps:
        queue, stream = self._find(queue_id)
        if queue.applied < asked.at:
            queue, stream = yield from self._current(queue_id)
        hold = self.holds[name, number] = _Hold(self._timers, self._clock)
        try:
            while hold.goes_on:
                found = _seen(stream, asked, name, queue.applied)
                if found.digest != asked.known:
                    break
                yield from hold.change(queue)
                pause: Completion[None] = Completion()
                self._timers.at(self._clock.now + _LOOK_MS, partial(_complete, pause))
                yield pause
                queue, stream = self._find(queue_id)
        finally:
            hold.end()
            del self.holds[name, number]
        if hold.is_wanted:
            self._say(name, number, _seen(stream, asked, name, queue.applied))


def _complete(pause: Completion[None], now: int) -> None:
    pause.complete(None)


def _seen(stream: Stream | None, asked: Look, node: str, index: int) -> Seen:
    """What a node wants to know of a group."""
    seen: GroupSeen | ShareSeen | None = None
    group = stream.groups.get(asked.group) if stream is not None and not asked.is_share else None
    share = stream.shares.get(asked.group) if stream is not None and asked.is_share else None
    still = seen
    if group is not None:
        own = tuple([member.number for member in group.members if member.node == node])
        seen = GroupSeen(own, group.generation, group.reader, group.position, group.delivered)
        still = seen._replace(position=0, delivered=0)
    elif share is not None:
        own = tuple([member.number for member in share.members if member.node == node])
        owners = [owner.number if owner is not None and owner.node == node else 0 for owner in share.owners]
        seen = still = ShareSeen(own, tuple(owners))
    first, following = (stream.first, stream.next) if stream is not None else (0, 0)
    return Seen(index, first, following, crc32(encode_seen(still), 0) or 1, seen, asked.is_share)
