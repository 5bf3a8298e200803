"""QueueTable: the queues of a virtual host by name, those that live elsewhere made when somebody uses them.

    await_use(record) -> get, or [name]: made, and kept from then on

A node, or a worker, knows all queues of its cluster, and uses few of those that live elsewhere. Of the others it has
what the metadata have: that they are there, and nothing at run time.

Invariants:
1. A queue is made once: whoever asks for it gets the same object, until another one takes its place or it goes.
2. Who only looks (`look`, `made`, `all_made`) makes no queue that stays.
3. The order is that in which names came.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol, cast

from queues.queue import Queue


class Known(Protocol):
    """What is known of a queue, whether it is made or not. home: the other node that has its messages, "" for this
    one."""

    @property
    def name(self) -> str: ...

    @property
    def queue_id(self) -> int: ...

    @property
    def home(self) -> str: ...


class Record(Known, Protocol):
    """What a queue is made of."""

    @property
    def type(self) -> str: ...


def _make_none(record: Record) -> Queue:
    raise AssertionError(f"{record.name} lives elsewhere, and nobody makes such queues here")


class QueueTable:
    """make: a queue that lives elsewhere, of what was given to `await_use`; it may not fail."""

    def __init__(self, make: Callable[..., Queue] = _make_none) -> None:
        self._make = make
        self._entries: dict[str, object] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def get(self, name: str) -> Queue | None:
        """The queue of that name, to be used; None where there is none."""
        entry = self._entries.get(name)
        if entry is None or isinstance(entry, Queue):
            return entry
        made = self._entries[name] = self._make(entry)
        return made

    def __getitem__(self, name: str) -> Queue:
        """The queue of that name, to be used. Raises KeyError where there is none."""
        queue = self.get(name)
        if queue is None:
            raise KeyError(name)
        return queue

    def __setitem__(self, name: str, queue: Queue) -> None:
        self._entries[name] = queue

    def await_use(self, record: Record) -> None:
        """There is a queue, which lives elsewhere: it is made when somebody uses it."""
        self._entries[record.name] = record

    def pop(self, name: str) -> None:
        """It is there no more; nothing happens if it is not."""
        self._entries.pop(name, None)

    # -- who only looks ------------------------------------------------------------------------------------------------

    def entry(self, name: str) -> Known | None:
        """What is known of the queue of that name: itself if it is made, else its record; None where there is none."""
        return cast("Known | None", self._entries.get(name))

    def made(self, name: str) -> Queue | None:
        """The queue of that name, if it is made."""
        entry = self._entries.get(name)
        return entry if isinstance(entry, Queue) else None

    def type_of(self, name: str) -> str | None:
        """The type of the queue of that name; None where there is none."""
        entry = self._entries.get(name)
        if entry is None:
            return None
        return str(entry.declaration.type if isinstance(entry, Queue) else cast("Record", entry).type)

    def all_made(self) -> list[Queue]:
        """Those that are made, so all that live here."""
        return [entry for entry in self._entries.values() if isinstance(entry, Queue)]

    def look(self, name: str) -> Queue | None:
        """As `get`, for who shows it and lets go of it: it is not kept where it is not made."""
        entry = self._entries.get(name)
        return entry if entry is None or isinstance(entry, Queue) else self._make(entry)

    def has(self, queue: Known) -> bool:
        """Whether a queue is there still, and not another one of its name."""
        entry = self.entry(queue.name)
        return entry is not None and entry.queue_id == queue.queue_id
