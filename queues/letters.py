"""Letters: the dead letters of one ClassicQueue, from when the queue gives them up until their new places have them.

    add -> noted -> work, in slices: posted -> settled, in the same turn
                                          `-> under way to another node -> done -> settled
                                                         ^------- lost: again, after RETRY_MS

The queue's copy is kept until it is settled, so a letter is lost neither with a crash nor with a link; it may be there
twice after one. Consumers and counts do not see it any more.

Invariants:
1. An entry in here is counted in `pager.used`, and is in `queue.held` if it has a durable copy.
2. At most WINDOW letters, and WINDOW_BYTES octets (or one letter), are under way or wait to be posted again.
3. `post.backlog` counts what publishes have made, is noted and can be posted: not that of queues whose window is full.

Publishers wait for that backlog (Node), since nothing else bounds it: each publish to a full queue makes another
letter. Letters of other causes are no more than there were messages before. Of what expires, or is too much for a new
policy, a queue gives up MOST_NOTED at a time, and the rest stays where it can be paged. What is refused, or comes back
too often, was in RAM as a delivery, of which consumers hold no more than memory allows, and a queue with MOST_NOTED
letters makes no more deliveries. So these hold back their own queue, and no publisher. Nor do letters of letters, of
which there are no more than of the first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from queues.message import Entry, Message
from queues.reason import Reason

#: So many letters of a queue are under way to other nodes at a time,
WINDOW = 1000
#: and so many octets of them.
WINDOW_BYTES = 8 * 1024 * 1024
#: A letter whose way was cut off is posted again after so long, milliseconds.
RETRY_MS = 1000
#: A queue with so many letters that are not posted yet gives up, and delivers, nothing more.
MOST_NOTED = 10_000
#: With so many on a node that publishes have made publishers wait: before a queue that gives up nothing more, for them,
#: would grow above its limit.
MOST_PUBLISHED = 5_000
#: What a letter costs of a slice, and each of its copies (ClassicQueue.work).
_LETTER_COST = 6
_COPY_COST = 1
#: What `Post.post` returns for a letter that is under way.
UNDER_WAY = -1
_WINDOW = WINDOW
_WINDOW_BYTES = WINDOW_BYTES
_MOST_NOTED = MOST_NOTED


class Post(Protocol):
    """Who publishes dead letters. backlog: of all queues, what publishes have made, is noted and can be posted.
    is_posting: what is published now is a letter."""

    backlog: int
    is_posting: bool

    def post(self, queue: Any, entry: Entry, reason: Reason, now: int) -> int:
        """Publish one. Returns how many queues have it, or UNDER_WAY: `queue.letters.done` is called later."""

    def refuse(self, queue: Any, message: Message) -> None:
        """A full queue refuses a message, which becomes a dead letter: `post_refused` of the queue is called before the
        turn ends. There is no other copy of it, and its publisher is told of the refusal."""

    def discard(self, queue: Any) -> None:
        """A queue without a dead letter exchange drops a message that came back too often."""


class Letters:
    """noted: what is to be posted, why, and whether a publish has made it, in order; and who is to be called then.
    is_blocked: too many are under way."""

    def __init__(self, queue: Any, post: Post) -> None:
        self.queue = queue
        self.post = post
        self.noted: deque[tuple[Entry | None, Any, bool]] = deque()
        self.is_blocked = False
        self._published = 0  # of what is noted, what publishes have made
        self._under_way: dict[Entry, Reason] = {}
        self._under_way_bytes = 0
        self._again: deque[tuple[int, Entry, Reason]] = deque()

    @property
    def is_full(self) -> bool:
        """Whether the queue is to give up, and to deliver, nothing more for now."""
        return len(self.noted) >= _MOST_NOTED

    @property
    def count(self) -> int:
        """How many letters have not reached their new places, as far as is known."""
        return len(self.noted) + len(self._under_way) + len(self._again)

    def waiting(self) -> list[tuple[Entry, Reason]]:
        """All that have not reached their new places, as far as is known, each with its reason."""
        noted = [(entry, reason) for entry, reason, _ in self.noted if entry is not None]
        return [*self._under_way.items(), *((entry, reason) for _, entry, reason in self._again), *noted]

    def add(self, entry: Entry, reason: Reason, is_published: bool) -> None:
        """The queue has given an entry up. is_published: because something is published to it."""
        is_published = is_published and not self.post.is_posting
        self.noted.append((entry, reason, is_published))
        if is_published:
            self._published += 1
            if not self.is_blocked:
                self.post.backlog += 1

    def call_when_posted(self, callback: Callable[[], None]) -> None:
        """Call back when everything is posted that is noted now: in a slice, so what is settled is not in the journal
        before the end of that turn."""
        self.noted.append((None, callback, False))

    def work(self, left: int, now: int) -> int:
        """Post what is noted, in a slice of which so much is left. Returns what is left then."""
        noted, post = self.noted, self.post
        while noted and left > 0 and not self.is_blocked:
            if self._is_window_full():
                self.is_blocked = True
                post.backlog -= self._published
                break
            entry, reason, is_published = noted.popleft()
            if is_published:
                self._published -= 1
                post.backlog -= 1
            if entry is None:
                # A slice of its own: who waits may go on then, which this one must not bring about (`run_newest`).
                self.queue.background.add(partial(_call, reason))
                continue
            left -= _LETTER_COST + _COPY_COST * self.post_now(entry, reason, now)
        return left

    def post_now(self, entry: Entry, reason: Reason, now: int) -> int:
        """Post a letter that is not noted. Returns what `Post.post` does."""
        copies = self.post.post(self.queue, entry, reason, now)
        if copies < 0:
            self._under_way[entry] = reason
            self._under_way_bytes += entry.message.size
        else:
            self.queue.settle_letter(entry)
        return copies

    def _is_window_full(self) -> bool:
        if self._under_way_bytes >= _WINDOW_BYTES:
            return True
        return len(self._under_way) + len(self._again) >= _WINDOW

    def done(self, entry: Entry, is_lost: bool, now: int) -> None:
        """A letter that was under way is in its new places; or it is not known whether it got there."""
        reason = self._under_way.pop(entry)
        self._under_way_bytes -= entry.message.size
        if is_lost:
            if not self._again:
                self.queue.timers.at(now + RETRY_MS, self._post_again)
            self._again.append((now + RETRY_MS, entry, reason))
        else:
            self.queue.settle_letter(entry)
        self._unblock()

    def _post_again(self, now: int) -> None:
        """What was lost on its way is noted again, before the others."""
        due = []
        while self._again and self._again[0][0] <= now:
            due.append((*self._again.popleft()[1:], False))
        if self._again:
            self.queue.timers.at(self._again[0][0], self._post_again)
        self.noted.extendleft(reversed(due))
        self._unblock()
        self.queue.work_on()

    def _unblock(self) -> None:
        if self.is_blocked and not self._is_window_full():
            self.is_blocked = False
            self.post.backlog += self._published
            self.queue.work_on()


def _call(callback: Callable[[], None], now: int) -> bool:
    callback()
    return False
