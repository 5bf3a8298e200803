"""Capture: the state of a group as it was at one moment, taken bit by bit while entries go on being applied.

    a Capture is made -> each queue and each stream is noted (`parts_of` of image.py): when `parts` comes to it,
                         or right before it changes or goes, whichever is first -> closed

Invariants:
1. Before a queue or a stream changes, each capture that is open is told (`Execution._is_to_change`). So what is noted
   is what was there when the capture was made, whenever that is done.
2. Each is noted once, and what came after the capture was made never.
3. What a turn has to note for what it changes is bounded by what it changes: each of these once a capture. A queue is
   noted in one go, which costs by its pages and by what it has in hand; of a stream by those that no checkpoint has
   named yet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from queues.quorum.image import Part, head_parts, parts_of
from queues.quorum.queue import QuorumQueue
from queues.quorum.state import GroupState
from queues.stream.stream import Stream

Captured = QuorumQueue | Stream


class Capture:
    """names_places: see `parts_of`. prepare: is called with each before it is noted. captures: those that are open;
    this one is among them until it is closed."""

    def __init__(
        self, state: GroupState, names_places: bool, captures: list[Capture], prepare: Callable[[Captured], None]
    ) -> None:
        self._head = head_parts(state)
        self._left: dict[int, Captured] = {**state.queues, **state.streams}
        self._ids = list(self._left)
        self._noted: dict[int, Iterable[Part]] = {}
        self._names_places = names_places
        self._prepare = prepare
        self._captures = captures
        captures.append(self)

    def note(self, queue_id: int) -> None:
        """It is about to change, or to go."""
        found = self._left.pop(queue_id, None)
        if found is not None:
            self._prepare(found)
            self._noted[queue_id] = parts_of(found, self._names_places)

    def note_all(self) -> None:
        """Everything is about to go."""
        for queue_id in list(self._left):
            self.note(queue_id)

    def parts(self) -> Iterator[Part]:
        """All of it, once. Each queue and stream is noted in the step that gives its first part."""
        yield from self._head
        for queue_id in self._ids:
            self.note(queue_id)
            yield from self._noted.pop(queue_id)

    def close(self) -> None:
        """Nothing more is wanted of it."""
        if self in self._captures:
            self._captures.remove(self)
            self._left = {}
            self._noted = {}
