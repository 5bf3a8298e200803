"""let_go: what is large is forgotten bit by bit.

To give back the memory of the definitions of ten thousand queues takes milliseconds where it is done in one go: that is
what happens where the last name of them goes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

#: So many things are forgotten in one slice.
SLICE = 64

Held = dict[Any, Any] | list[Any] | set[Any]  # held: whatever it is


def let_go(held: Held, levels: int = 1) -> Iterator[None]:
    """Empty a container, which nobody else needs, and those in it: of so many levels. Each step is a slice."""
    for number, _ in enumerate(_emptied(held, levels), 1):
        if number % SLICE == 0:
            yield None


def _emptied(held: Held, levels: int) -> Iterator[None]:
    while held:
        item = held.popitem()[1] if isinstance(held, dict) else held.pop()
        if levels > 1 and isinstance(item, dict | list | set):
            yield from _emptied(item, levels - 1)
        yield None
