"""GuestCounts: the figures of queues that a guest of their group asks the leader for.

    count -> COUNT -> COUNTED -> then(figures)
          -> no leader, or it does not know: at once None; a question that waits goes to the next leader, too, and
             all wait until one has been found, or not in time: after a start, who asks first hears no 0 of a full queue
          -> COUNT_MS are over, or this node is a member now: None

Invariants:
1. `then` of a question is called once, whatever happens.
2. Nothing here goes over all questions in one turn: those that wait and those that are given up are for slices.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from amqp_broker.queue_types.groups.guest_frames import Count, Counted, encode_request
from queues.background import SLICE

if TYPE_CHECKING:
    from amqp_broker.links.tenants import Send
    from amqp_broker.queue_types.groups.group import QueueGroup
    from queues.quorum.queue import QueueStatistics

#: A queue's figures that have not come by then do not come, milliseconds.
COUNT_MS = 1000

#: Called with a queue's figures; None: they are not known now.
TakeFigures = Callable[["QueueStatistics | None"], None]


class _Question(NamedTuple):
    queue_id: int
    then: TakeFigures
    waits: bool


class GuestCounts:
    """Of one guest. send: a request to another node."""

    def __init__(self, group: QueueGroup, send: Send) -> None:
        self._group = group
        self._background = group.host.background
        self._send = send
        self._asked: dict[int, _Question] = {}
        self._due: deque[tuple[int, int]] = deque()  # until when, and the number, in order; of answered ones, too
        self._unsent: deque[int] = deque()
        self._leader: str | None = None
        self._is_new = True  # no leader was found yet, nor looked for in vain
        self._is_ending = False
        self._is_closed = False

    def count(self, queue_id: int, then: TakeFigures, waits: bool, now: int) -> None:
        """Ask for a queue's figures. waits: for a leader, if there is none now, or it does not know."""
        waits = waits or self._is_new
        number = self._group.draw_number()
        is_sent = self._leader is not None and self._say(self._leader, number, queue_id)
        if not is_sent and not waits:
            then(None)
            return
        self._asked[number] = _Question(queue_id, then, waits)
        self._due.append((now + COUNT_MS, number))
        self._group.touch()

    def _say(self, leader: str, number: int, queue_id: int) -> bool:
        return self._send(leader, encode_request(Count(self._group.group_id, number, queue_id)))

    def attached(self, leader: str) -> None:
        """There is somebody to ask: whoever was asked before has not answered."""
        self._leader = leader
        self._is_new = False
        if self._asked:
            if not self._unsent:
                self._background.add(self._ask_some)
            self._unsent = deque(self._asked)

    def detached(self) -> None:
        """There is nobody."""
        self._leader = None

    def _ask_some(self, now: int) -> bool:
        """A slice of those that the leader before has not answered."""
        for _ in range(min(SLICE, len(self._unsent))):
            number = self._unsent.popleft()
            question = self._asked.get(number)
            if question is not None and self._leader is not None:
                self._say(self._leader, number, question.queue_id)
        return bool(self._unsent)

    def receive(self, frame: Counted) -> None:
        """The answer to one."""
        question = self._asked.get(frame.number)
        if question is not None and (frame.figures is not None or not question.waits):
            del self._asked[frame.number]
            question.then(frame.figures)

    def work(self, now: int) -> None:
        """Give up those that have waited long enough."""
        if not self._is_ending and self._due and self._is_over(now):
            self._is_ending = True
            self._background.add(self._end_some)

    def close(self) -> None:
        """Give up all of them."""
        self._leader = None
        self._is_closed = True
        self.work(0)

    def _is_over(self, now: int) -> bool:
        """Whether the oldest has waited long enough; or the clock was set back."""
        return self._is_closed or not self._due[0][0] - COUNT_MS <= now < self._due[0][0]

    def _end_some(self, now: int) -> bool:
        """A slice of those."""
        for _ in range(SLICE):
            if not self._due or not self._is_over(now):
                self._is_ending = False
                return False
            question = self._asked.pop(self._due.popleft()[1], None)
            if question is not None:
                self._is_new = False
                question.then(None)
        return True

    def next_deadline(self) -> int:
        """When `work` has something to do; 0 for never."""
        while self._due and self._due[0][1] not in self._asked:
            self._due.popleft()
        return self._due[0][0] if self._due else 0
