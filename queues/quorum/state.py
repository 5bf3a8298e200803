"""GroupState: everything that the members of a queue group agree on, and nothing else.

It is changed by Execution, written and read by image.py and image_reader.py.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple

from queues.effects import (
    AttachRefused,
    Cancel,
    ConsumerCancelled,
    Counted,
    Effect,
    GetAnswered,
    Refusal,
    Refused,
    SettleMissed,
)
from queues.quorum.consumer import QuorumConsumer
from queues.quorum.cursor_queue import CursorQueue
from queues.quorum.queue import QuorumQueue
from queues.stream.stream import Stream

#: Of a state that is none any more, so many queues at most are gone over in a slice.
_QUEUES_AT_ONCE = 64


class NoticeKind(IntEnum):
    """What a notice says. In brackets: its three numbers."""

    REFUSED = 1  # a publish (sequence, Refusal, 0)
    GOT = 2  # the answer to a Get (sequence, consumer, delivery id or 0)
    COUNTED = 3  # what a purge or a deletion has removed (sequence, count, 0)
    ATTACH_REFUSED = 4  # (sequence, consumer, Refusal)
    MISSED = 5  # deliveries that were to be settled and are not held (sequence, consumer, count)
    CANCELLED = 6  # a consumer (consumer, Cancel, 0)


class Notice(NamedTuple):
    """Something that the origin of a command stream is to be told, beyond "done".

    It is replicated, because a member may get past this point by an install, and see no effects of it. `at` is the
    stream's last command then: the notice is dropped when the origin has seen a later one.
    """

    number: int
    at: int
    kind: NoticeKind
    a: int
    b: int
    c: int


class Origin:
    """A node, as the source of a command stream.

    session: its present stream, 0 for none yet; is_open: it was not declared down. last_sequence: the last command of
    it that was applied. last_consumer: the highest consumer number that the node has used, over all sessions.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.session = 0
        self.is_open = False
        self.last_sequence = 0
        self.last_consumer = 0
        self.consumers: dict[int, QuorumConsumer] = {}
        self.notices: deque[Notice] = deque()
        self.next_notice = 1

    def begin(self, session: int) -> None:
        """A new stream; the old one is closed."""
        self.session = session
        self.is_open = True
        self.last_sequence = 0
        self.notices.clear()
        self.next_notice = 1

    def add_notice(self, kind: NoticeKind, a: int, b: int = 0, c: int = 0) -> Notice:
        """Note what the origin is to be told."""
        notice = Notice(self.next_notice, self.last_sequence, kind, a, b, c)
        self.next_notice += 1
        self.notices.append(notice)
        return notice

    def effect_of(self, notice: Notice, left: int) -> Effect | Refused:
        """What a notice says. left: to how many messages another Get may come, where this one has found none: no notice
        says that."""
        _, _, kind, a, b, c = notice
        if kind is NoticeKind.REFUSED:
            return Refused(a, Refusal(b))
        if kind is NoticeKind.GOT:
            return self._answer(a, b, c, left)
        if kind is NoticeKind.COUNTED:
            return Counted(a, b)
        if kind is NoticeKind.ATTACH_REFUSED:
            return AttachRefused(a, b, Refusal(c))
        if kind is NoticeKind.MISSED:
            return SettleMissed(a, b, c)
        return ConsumerCancelled(a, Cancel(b))

    def _answer(self, sequence: int, number: int, delivery_id: int, left: int) -> GetAnswered:
        """The answer to a Get; without a message also if that has gone back to its queue since."""
        consumer = self.consumers.get(number)
        held = consumer.held.get(delivery_id) if consumer is not None else None
        if consumer is None or held is None:
            return GetAnswered(sequence, number, 0, None, False, 0, left)
        entry, queue = held[0], consumer.queue
        return GetAnswered(
            sequence, number, delivery_id, queue.message_of(entry), entry.is_redelivered, entry.returns,
            queue.ready.count,
        )  # fmt: skip

    def seen(self, sequence: int) -> None:
        """The origin has taken the effects of its commands up to this one."""
        while self.notices and self.notices[0].at < sequence:
            self.notices.popleft()


class GroupState:
    """clock: the group's time, milliseconds since the epoch: the highest of all batches. leased: the queues that have,
    or had, lease groups, by id. streams: by id, as queues; no id is in both. cursors: the queues over streams, by
    id."""

    def __init__(self) -> None:
        self.clock = 0
        self.origins: dict[str, Origin] = {}
        self.queues: dict[int, QuorumQueue] = {}
        self.leased: dict[int, QuorumQueue] = {}
        self.streams: dict[int, Stream] = {}
        self.cursors: dict[int, CursorQueue] = {}

    def add(self, queue: QuorumQueue) -> None:
        """There is one queue more."""
        self.queues[queue.queue_id] = queue
        if queue.lease_groups is not None:
            self.leased[queue.queue_id] = queue
        if isinstance(queue, CursorQueue):
            self.cursors[queue.queue_id] = queue

    def remove(self, queue_id: int) -> None:
        """There is one less."""
        del self.queues[queue_id]
        self.leased.pop(queue_id, None)
        self.cursors.pop(queue_id, None)

    @property
    def has_streams(self) -> bool:
        """Whether there is something that programs without streams do not know: these, what rests, who gives way."""
        if self.streams or self.cursors:
            return True
        return any(queue.has_retry or queue.gives_way for queue in self.queues.values())

    def link(self) -> None:
        """All is there: queues over streams find theirs."""
        for cursor in self.cursors.values():
            cursor.look_for(self.streams, self.clock)

    def discarding(self) -> Iterator[None]:
        """Give back the RAM and the places of everything, a slice at each step."""
        for number, queue in enumerate(self.queues.values(), 1):
            yield from queue.discarding()
            if number % _QUEUES_AT_ONCE == 0:
                yield
        for number, stream in enumerate(self.streams.values(), 1):
            yield from stream.discarding()
            if number % _QUEUES_AT_ONCE == 0:
                yield

    def __contains__(self, queue_id: object) -> bool:
        return queue_id in self.queues or queue_id in self.streams

    def ids(self) -> list[int]:
        """Of the queues and the streams."""
        return [*self.queues, *self.streams]
