"""QueueSizes: what the messages of a queue take, in octets, in RAM and on the disk, for one look at it.

A queue counts how many messages are ready and held, and the octets of those that are ready: nothing else, as who
publishes would pay for it. The rest is said of a few that are looked at (`_LOOKED_AT`): of so many messages it is
exact, of more what is true of these is taken to be true of all. What is looked at does not grow with the queue.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from queues.message import Entry
from queues.numbered_consumer import NumberedConsumer

if TYPE_CHECKING:
    from queues.page import Page
    from queues.ready import Ready
    from queues.rules import QueueRules

#: So many messages, or pages, of a kind are looked at, of so many consumers.
_LOOKED_AT = 16
_CONSUMERS = 4
#: What a queue takes that holds nothing.
_EMPTY_BYTES = 2048


class QueueSizes:
    """persistent, paged_out, bytes_paged_out: of ready messages. memory: of the queue and all that it has in RAM."""

    def __init__(self, rules: QueueRules) -> None:
        ready = rules.ready
        held = [*islice(rules.held_entries(), _LOOKED_AT)]
        self.ready, self.unacked = int(ready.count), int(rules.unacked)
        self.ready_bytes = int(ready.message_bytes)
        bodies = [entry.message.body_size for entry in held]
        self.unacked_bytes = _mean(bodies, self.ready_bytes, self.ready, self.unacked)
        ram, self.paged_out, looked_at, durable = _EMPTY_BYTES, 0, 0, 0
        for level in (each for each in rules.levels() if each.count):
            pages = _some_pages(level)
            there, of_level = _durable_among(level, pages)
            looked_at, durable = looked_at + there, durable + of_level
            ram += _ram_bytes(level, pages)
            self.paged_out += _paged_out(level, pages)
        held_size = sum(entry.message.size for entry in held)
        self.memory = ram + _share(held_size, len(held), self.unacked)
        self.bytes_paged_out = _share(self.paged_out, self.ready, self.ready_bytes)
        if rules.stores_all():
            self.persistent, self.unacked_persistent = self.ready, self.unacked
        else:
            self.persistent = _share(durable, looked_at, self.ready)
            self.unacked_persistent = _share(sum(map(is_stored, held)), len(held), self.unacked)

    @property
    def bytes_persistent(self) -> int:
        """Of ready messages and of those that are held."""
        return _share(self.persistent, self.ready, self.ready_bytes) + _share(
            self.unacked_persistent, self.unacked, self.unacked_bytes
        )


def _share(part: int, whole: int, of: int) -> int:
    """What falls to `part` of a whole, of so many."""
    return part * of // whole if whole else 0


def _mean(looked_at: list[int], ready_bytes: int, ready: int, count: int) -> int:
    """What `count` messages take together that are like these; like the ready ones, where none can be seen."""
    if looked_at:
        return _share(sum(looked_at), len(looked_at), count)
    return _share(ready_bytes, ready, count)


def is_stored(entry: Entry) -> bool:
    """Whether there is a durable copy of it."""
    return bool(entry.journal_segment) or entry.page is not None


def held_by(consumers: Iterable[Any]) -> Iterator[Entry]:
    """Some of what some consumers hold: what came last, where a channel has it with what is of other queues."""
    for consumer in islice(consumers, _CONSUMERS):
        if isinstance(consumer, NumberedConsumer):
            yield from (entry for entry, _ in islice(consumer.held.values(), _LOOKED_AT))
        elif (channel := getattr(consumer, "channel", None)) is not None:
            newest = [each for each in islice(reversed(channel.unacked), _LOOKED_AT) if isinstance(each, Entry)]
            yield from (each for each in newest if each.consumer is consumer)


def _some_pages(level: Ready) -> list[Page]:
    """Whole pages of it, evenly over all."""
    pages = level.pages
    if not pages:
        return []
    if len(pages) <= _LOOKED_AT:
        return list(pages)
    return [pages[number * (len(pages) - 1) // (_LOOKED_AT - 1)] for number in range(_LOOKED_AT)]


def _durable_among(level: Ready, pages: list[Page]) -> tuple[int, int]:
    """How many messages were looked at, and how many of them are stored."""
    entries = [*islice(chain(level.head, level.stragglers), _LOOKED_AT)]
    count, durable = len(entries), sum(1 for entry in entries if is_stored(entry))
    for each in (*pages, *((level.tail,) if level.tail is not None else ())):
        count += each.count
        durable += each.durable_count
    return count, durable


def _paged_out(level: Ready, pages: list[Page]) -> int:
    """How many messages are on the disk alone."""
    if not pages:
        return 0
    in_pages = level.count - len(level.head) - len(level.stragglers) - level.tail.count
    return _share(sum(page.count for page in pages if page.data is None), sum(page.count for page in pages), in_pages)


def _ram_bytes(level: Ready, pages: list[Page]) -> int:
    """What ready messages take in RAM."""
    taken = int(level.head_size + level.stragglers_size)
    if level.tail is not None:
        taken += level.tail.buffer.length
    in_ram = sum(page.size for page in pages if page.data is not None)
    return taken + (_share(in_ram, len(pages), len(level.pages)) if pages else 0)
