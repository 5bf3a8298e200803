"""QueueSnapshot: all that a queue holds which delivers nothing, in pages, for another home.

Ready messages of each priority come in their order; behind them, in any order, those whose places are among these: what
came back while pages stood before it, and what consumers hold, as if their channels had closed.

The queue is not changed. What is acknowledged meanwhile may be in a page already: it comes again, redelivered.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from queues.message import Entry
from queues.numbered_consumer import NumberedConsumer
from queues.page import AddressBook, Page, PageBuilder

if TYPE_CHECKING:
    from amqp_broker.queue_types.remote.home import Home
    from queues.classic import ClassicQueue

#: A page of entries is sealed at so many octets, or messages.
_PAGE_BYTES = 64 * 1024
_PAGE_MESSAGES = 256


class PackedPage(NamedTuple):
    """is_placed: its messages belong among those that were sent before."""

    octets: bytes
    is_placed: bool


def held_entries(queue: ClassicQueue, home: Home) -> list[Entry]:
    """What consumers hold of a queue, as far as that can be found: all that is durable, all that other nodes hold, and
    what consumers of this node hold that have not left."""
    found: dict[int, Entry] = {entry.sequence: entry for entry in queue.stored_held()}
    consumers: list[object] = [*queue.dispatcher.consumers]
    for session in home.sessions.values():
        consumers += [each for each in session.consumers.values() if each.queue is queue]
    for consumer in consumers:
        if isinstance(consumer, NumberedConsumer):
            found.update({entry.sequence: entry for entry, _ in consumer.held.values()})
        elif (channel := getattr(consumer, "channel", None)) is not None:
            of_queue = [each for each in channel.unacked if isinstance(each, Entry) and each.consumer is not None]
            found.update({each.sequence: each for each in of_queue if each.consumer.queue is queue})
    return list(found.values())


class QueueSnapshot:
    """held: what consumers hold. count: of messages that were given out."""

    def __init__(self, queue: ClassicQueue, held: list[Entry]) -> None:
        self._pager, self._queue_id = queue.pager, queue.queue_id
        self._held = held
        self._addresses = AddressBook()
        self.count = 0
        # References only: what comes back, or is written again meanwhile, changes none of these.
        self._levels = [(list(level.head), list(level.pages or ())) for level in queue.levels()]
        self._late = [entry for level in queue.levels() for entry in level.stragglers]
        tails = [level.tail for level in queue.levels()]
        self._tails = [None if tail is None or not tail.count else tail.octets() for tail in tails]

    def pages(self) -> Iterator[PackedPage]:
        """All of it. Raises StorageError, ValueError."""
        for (head, pages), tail in zip(self._levels, self._tails, strict=True):
            yield from self._packed(head, False, False)
            for page in pages:
                yield from self._packed(self._pager.entries_of(self._queue_id, page), False, False)
            if tail is not None:
                open_page = Page(tail, 0, 0, 0, 0)
                yield from self._packed(open_page.entries(self._addresses), False, False)
        yield from self._packed(self._late, True, False)
        yield from self._packed(self._held, True, True)

    def _packed(self, entries: Iterable[Entry], is_placed: bool, were_held: bool) -> Iterator[PackedPage]:
        builder = PageBuilder()
        for entry in entries:
            returns = entry.returns + were_held
            builder.add(
                entry.message, entry.sequence, entry.expires_at, 0, returns, were_held or entry.is_redelivered
            )
            if builder.buffer.length >= _PAGE_BYTES or builder.count >= _PAGE_MESSAGES:
                yield self._sealed(builder, is_placed)
        if builder.count:
            yield self._sealed(builder, is_placed)

    def _sealed(self, builder: PageBuilder, is_placed: bool) -> PackedPage:
        page = builder.seal()
        assert page.data is not None  # it was just made
        self.count += page.count
        return PackedPage(page.data, is_placed)
