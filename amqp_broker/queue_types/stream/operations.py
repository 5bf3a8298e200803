"""StreamOperations: what tools ask of a stream (queues/stream/source.py)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from amqp_broker.errors import precondition_failed
from queues.effects import Refusal
from queues.receipts import JointReceipt
from queues.stream.commands import Compact, ForgetGroup, HoldStream, SeekGroup, Trim
from queues.stream.groups import MOST_GROUPS
from queues.stream.source import Changed, GroupFigures, ShareFigures, StreamFigures, TooManyHolds
from queues.stream.start import Start, StartKind
from queues.stream.stream import MOST_HOLDS, Hold

if TYPE_CHECKING:
    from amqp_broker.queue_types.stream.queue import StreamQueue
    from queues.quorum.commands import Command
    from queues.stream.stream import Stream

_FIRST, _NEXT = Start(StartKind.FIRST), Start(StartKind.NEXT)
_NOT_TAKEN = "its log did not take it: look, and try again"
_REFUSED = {
    Refusal.FULL: f"it has {MOST_GROUPS} groups already: forget one before another begins",
    Refusal.EXCLUSIVE: "there is no such group, or consumers read with it: cancel them before it is forgotten",
}


class StreamOperations:
    """A StreamSource."""

    def __init__(self, queue: StreamQueue) -> None:
        self._queue = queue

    def figures(self) -> StreamFigures | None:
        """See StreamSource."""
        queue = self._queue
        stream = queue.stream()
        if stream is None:
            return None
        log = stream.log
        first_time = last_time = 0
        oldest = log.chunk_at(stream.first)
        if oldest is not None:
            newest = log.chunk_at(stream.next - 1)
            assert newest is not None  # there is an oldest one
            first_time, last_time = oldest.time, newest.time
        return StreamFigures(
            stream.first, stream.next, log.octets, log.unpacked_octets, first_time, last_time, stream.settings,
            len(stream.producers), stream.holds,
            {
                name: GroupFigures(group.position, group.reader.node if group.reader else "", len(group.members))
                for name, group in stream.groups
            },
            queue.group.leader or "",
            {
                name: ShareFigures(len(share.members), tuple([each.node if each else "" for each in share.owners]))
                for name, share in stream.shares
            },
            queue.compactor.figures(stream) if queue.compactor is not None else None,
        )  # fmt: skip

    def find(self, time: int) -> int:
        """See StreamSource."""
        stream = self._queue.stream()
        return stream.log.offset_at(time) if stream is not None else 0

    def trim(self, first: int, then: Changed) -> None:
        """See StreamSource."""
        self._submit(Trim(self._queue.queue_id, first), self._asking(_FIRST, then))

    def seek(self, group: str, position: int, then: Changed) -> None:
        """See StreamSource."""

        def found(end: int | None) -> None:
            place = min(position, end or 0)
            command = SeekGroup(self._queue.queue_id, group, place)
            self._submit(command, lambda refusal: then(refusal, 0 if refusal is not None else place))

        self._queue.place_as_known(_NEXT, found)

    def forget(self, group: str, then: Changed) -> None:
        """See StreamSource."""
        self._submit(ForgetGroup(self._queue.queue_id, group), lambda refusal: then(refusal, 0))

    def hold(self, name: str, hold: Hold | None, then: Changed) -> None:
        """See StreamSource."""
        offset, until = hold if hold is not None else (0, 0)
        text = f"queue '{self._queue.name}' has {MOST_HOLDS} holds already: end one before another begins"
        command = HoldStream(self._queue.queue_id, name, offset, until)
        self._submit(command, self._asking(_FIRST, then), TooManyHolds(text))

    def is_compacted(self) -> bool:
        """See StreamSource."""
        return self._queue.compactor is not None

    def compact(self, then: Changed) -> None:
        """See StreamSource."""
        if not self.is_compacted():
            text = f"queue '{self._queue.name}' is not compacted: that is declared with x-stream-compact true"
            then(precondition_failed(text), 0)
            return
        self._submit(Compact(self._queue.queue_id), self._asking(_NEXT, then))

    def catch_up(self, then: Changed) -> None:
        """See StreamSource: a command that changes nothing is applied behind what was there."""
        self._submit(Trim(self._queue.queue_id, 0), self._asking(_NEXT, then))

    def mend(self, error: Exception) -> bool:
        """See StreamSource."""
        stream = self._queue.stream()
        return stream is not None and self._queue.mend(stream, error, lambda is_whole: None)

    def stream(self) -> Stream | None:
        """See StreamSource."""
        return self._queue.stream()

    def _submit(
        self, command: Command, then: Callable[[Exception | None], None], if_full: Exception | None = None
    ) -> None:
        """`then` hears why it was not carried out, or None. if_full: what is said where that is because there is too
        much."""
        queue = self._queue
        queue.prepare()
        receipt = JointReceipt()
        queue.group.submit(command, receipt)

        def done(refusals: list[Refusal]) -> None:
            if refusals and refusals[0] is Refusal.FULL and if_full is not None:
                then(if_full)
            elif refusals:
                then(self._refused(_REFUSED.get(refusals[0], _NOT_TAKEN)))
            else:
                then(None)

        receipt.seal(done)

    def _asking(self, start: Start, then: Changed) -> Callable[[Exception | None], None]:
        """After a command: `then` hears of this offset, as the command has left it."""

        def placed(offset: int | None) -> None:
            then(self._refused(_NOT_TAKEN) if offset is None else None, offset or 0)

        def done(refusal: Exception | None) -> None:
            if refusal is not None:
                then(refusal, 0)
            else:
                self._queue.place_as_known(start, placed)

        return done

    def _refused(self, why: str) -> Exception:
        return precondition_failed(f"queue '{self._queue.name}': {why}")
