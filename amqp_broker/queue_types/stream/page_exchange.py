"""PageExchange: a node asks another one for what a page of a stream should have, and answers such questions.

    fetch -> REQUEST -> the other node reads its own pages in the background -> PIECE, PIECE, ..., END or REFUSED

Pages begin and end elsewhere on each node; chunks are the same on all, and are asked for by their offsets.

Invariants:
1. A question ends with its octets, or with why there are none: when it is refused, when more comes than was asked for,
   or when nothing has come for PATIENCE_MS.
2. A node answers MOST_ANSWERS questions at a time, of all nodes; what is above that is refused.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from amqp_broker.links.frame_kinds import FrameKind
from amqp_broker.queue_types.stream.page_frames import (
    Answer,
    AnswerKind,
    Request,
    decode_answer,
    decode_request,
    encode_answer,
    encode_request,
)
from amqp_broker.turn.awaited_read import AwaitedRead
from amqp_broker.turn.completion import Completion
from amqp_broker.turn.task import Steps, Task
from queues.stream.log import stored_octets
from queues.wire.reader import Malformed
from storage.errors import CorruptRecord

if TYPE_CHECKING:
    from amqp_broker.links.tenants import Tenants
    from amqp_broker.queue_types.groups.groups import QuorumGroups
    from amqp_broker.turn.clock import TurnClock
    from queues.background import Background
    from queues.stream.stream import Stream
    from queues.timers import Timer, Timers

log = logging.getLogger("amqp_broker.cluster")

#: A question of which nothing more has come for so long is over, milliseconds.
PATIENCE_MS = 10_000
#: Questions that are answered at the same time.
MOST_ANSWERS = 4
#: Octets of a frame.
_PIECE_BYTES = 256 * 1024


class Fetched:
    """What a question has come to: the octets of stored chunks, or why there are none."""

    def __init__(self, octets: bytes | None, why: str = "") -> None:
        self.octets = octets
        self.why = why


class _Question(Completion[Fetched]):
    """One that is open. octets: what has come."""

    def __init__(self, node: str, most_bytes: int) -> None:
        super().__init__()
        self.node = node
        self.most_bytes = most_bytes
        self.octets = bytearray()
        self.timer: Timer | None = None


class PageExchange:
    """See the module's docstring."""

    def __init__(
        self, tenants: Tenants, groups: QuorumGroups, background: Background, timers: Timers, clock: TurnClock
    ) -> None:
        self._ask = tenants.register(FrameKind.STREAM_REQUEST, self._on_request)
        self._answer = tenants.register(FrameKind.STREAM_ANSWER, self._on_answer)
        self._groups = groups
        self._background = background
        self._timers = timers
        self._clock = clock
        self._open: dict[int, _Question] = {}
        self._answering = 0

    # -- asking --------------------------------------------------------------------------------------------------------

    def fetch(self, node: str, request: Request) -> Completion[Fetched]:
        """What a node has of a stream."""
        number = request.number
        question = _Question(node, request.most_bytes)
        if not self._ask(node, encode_request(request)):
            question.complete(Fetched(None, f"{node} has no link to this node, or is of an older version"))
            return question
        self._open[number] = question
        self._wait(number, question)
        return question

    def _wait(self, number: int, question: _Question) -> None:
        if question.timer is not None:
            question.timer.cancel()
        why = f"{question.node} has not answered for {PATIENCE_MS} ms"
        question.timer = self._timers.at(
            self._clock.now + PATIENCE_MS, lambda now: self._end(number, Fetched(None, why))
        )

    def _end(self, number: int, fetched: Fetched) -> None:
        question = self._open.pop(number, None)
        if question is not None:
            if question.timer is not None:
                question.timer.cancel()
            question.complete(fetched)

    def _on_answer(self, name: str, payload: bytes, now: int) -> None:
        try:
            answer = decode_answer(payload)
        except Malformed as error:
            log.error("%s sends what is no page of a stream: %s", name, error)
            return
        question = self._open.get(answer.number)
        if question is None or question.node != name:
            return
        if answer.kind == AnswerKind.REFUSED:
            self._end(answer.number, Fetched(None, f"{name}: {answer.octets.decode('utf-8', 'replace')}"))
        elif answer.kind == AnswerKind.END:
            self._end(answer.number, Fetched(bytes(question.octets)))
        elif len(question.octets) + len(answer.octets) > question.most_bytes:
            self._end(answer.number, Fetched(None, f"{name} has more than {question.most_bytes} octets there"))
        else:
            question.octets += answer.octets
            self._wait(answer.number, question)

    # -- answering -----------------------------------------------------------------------------------------------------

    def _on_request(self, name: str, payload: bytes, now: int) -> None:
        try:
            request = decode_request(payload)
        except Malformed as error:
            log.error("%s asks for a page of a stream in a way that is none: %s", name, error)
            return
        if self._answering >= MOST_ANSWERS:
            self._refuse(name, request, f"it answers {MOST_ANSWERS} such questions already")
            return
        self._answering += 1
        Task(self._background, self._steps(name, request)).when_done(self._answered)

    def _answered(self, result: object) -> None:
        self._answering -= 1

    def _refuse(self, name: str, request: Request, why: str) -> None:
        self._answer(name, encode_answer(Answer(request.number, AnswerKind.REFUSED, why.encode())))

    def _stream(self, request: Request) -> Stream | str:
        """The stream as it is now, or why there is nothing to be had."""
        groups = self._groups
        stream = groups.stream(request.queue_id) if groups.all else None
        if stream is None:
            return f"it has no stream of id {request.queue_id}"
        if not stream.is_compacted_enough:
            return "it has taken the stream from another node, and compacts it"
        if request.first < stream.first or request.below > stream.next:
            return f"it has offsets {stream.first} to {stream.next}, and not {request.first} to {request.below}"
        return stream

    def _steps(self, name: str, request: Request) -> Steps:
        offset, count = request.first, 0
        try:
            while offset < request.below:
                stream = self._stream(request)
                coming = stream.log.coming(offset) if not isinstance(stream, str) else None
                if coming is not None:
                    yield AwaitedRead(coming, self._timers, self._clock)
                    stream = self._stream(request)
                if isinstance(stream, str):
                    self._refuse(name, request, stream)
                    return
                stored = stream.log.chunk_at(offset)
                if stored is None or stored.first >= request.below:
                    break
                octets = stored_octets(stored.apart())
                count += len(octets)
                if count > request.most_bytes:
                    self._refuse(name, request, f"it has more than {request.most_bytes} octets there")
                    return
                for start in range(0, len(octets), _PIECE_BYTES):
                    piece = octets[start : start + _PIECE_BYTES]
                    if not self._answer(name, encode_answer(Answer(request.number, AnswerKind.PIECE, piece))):
                        return
                offset = stored.next
                yield None
            self._answer(name, encode_answer(Answer(request.number, AnswerKind.END, b"")))
        except (CorruptRecord, OSError) as error:
            self._refuse(name, request, f"it cannot read that either: {where_of(error)}")


def where_of(error: Exception) -> str:
    """What cannot be read, and why, without what could be done by hand."""
    return error.where if isinstance(error, CorruptRecord) else str(error)
