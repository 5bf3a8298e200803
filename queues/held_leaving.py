"""HeldLeaving: what the consumers of a classic queue hold while it leaves a journal segment (queues/store.py).

    queue.held -> left -> (a slice) -> seen -> queue.held

What is handed out meanwhile comes into `queue.held`, and is mostly acknowledged before it would have to leave: to write
that again as fast as it comes would cost a queue that is being drained as much as it delivers. It leaves with the last
slice, if it is little; if it is much it is the next to be `left`.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from queues.message import Entry

#: So much that consumers hold leaves in one go, octets; and so many entries are looked at for that.
_LAST_BYTES = 262_144
_LAST_LOOKED_AT = 8192


class HeldLeaving:
    """left: by sequence, what may rely on the segment, or on a page; seen: what does not any more. An entry is in one
    of them, or in `held` of its queue."""

    def __init__(self, held: dict[int, Entry]) -> None:
        self.left = held
        self.seen: dict[int, Entry] = {}

    def __bool__(self) -> bool:
        return bool(self.left or self.seen)

    def entries(self) -> Iterator[Entry]:
        """All of them."""
        return chain(self.left.values(), self.seen.values())

    def take(self, sequence: int) -> Entry | None:
        """It is not held any more, or not as it was."""
        entry = self.left.pop(sequence, None)
        return entry if entry is not None else self.seen.pop(sequence, None)

    def go_on(self, held: dict[int, Entry], segment: int) -> bool:
        """All of `left` was seen. Whether what was handed out since is much: then it is what is left."""
        if not is_much(held, segment):
            return False
        self.left = held
        return True

    def end(self, held: dict[int, Entry]) -> dict[int, Entry]:
        """All that is held, with this, which has left too."""
        self.seen.update({sequence: entry for sequence, entry in held.items() if entry.journal_segment})
        return self.seen


def relies(entry: Entry, segment: int) -> bool:
    """Whether it has to leave: the segment, or the page that it came out of."""
    return entry.page is not None or 0 < entry.journal_segment <= segment


def is_much(held: dict[int, Entry], segment: int) -> bool:
    """Whether what has to leave of these is too much for one slice."""
    if len(held) > _LAST_LOOKED_AT:
        return True
    return sum(entry.message.size for entry in held.values() if relies(entry, segment)) > _LAST_BYTES
