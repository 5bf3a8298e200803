"""Digest: one number for a group's state, equal on all members that have applied the same entries.

It goes over everything replicated, in the order in which it acts, and over nothing else: neither where messages lie nor
how they are paged. It reads every page.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from amqp_broker.octets.buffer import Buffer
from queues.message import Entry
from queues.page import Page, put_message
from queues.pager import Pager
from queues.quorum.cursor_image import offset_parts
from queues.quorum.cursor_queue import CursorQueue
from queues.quorum.image import deduplication_parts, holders_parts, lease_octets, origin_octets, queue_octets
from queues.quorum.machine import QueueGroupMachine
from queues.quorum.resting import Resting
from queues.ready import Ready
from queues.stream.image import stream_pieces


def digest_of(machine: QueueGroupMachine) -> bytes:
    """32 octets. Raises CorruptRecord, OSError where pages have to be read."""
    state, pager = machine._execution.state, machine.pager
    digest = hashlib.blake2b(digest_size=32)
    digest.update(state.clock.to_bytes(8, "big"))
    for name in sorted(state.origins):
        digest.update(origin_octets(state.origins[name]))
        digest.update(b"".join(number.to_bytes(8, "big") for number in sorted(state.origins[name].consumers)))
    for queue_id in sorted(state.queues):
        queue = state.queues[queue_id]
        queue.may_expire, hint = False, queue.may_expire  # only a hint, which may differ
        digest.update(queue_octets(queue))
        queue.may_expire = hint
        for _, octets in [*holders_parts(queue), *deduplication_parts(queue)]:
            digest.update(octets)
        for delivery_owner in queue.delivery_owners.values():
            for delivery_id, (entry, since) in delivery_owner.held.items():
                digest.update(delivery_id.to_bytes(8, "big") + since.to_bytes(8, "big") + _octets_of(entry))
        if isinstance(queue, CursorQueue):
            for _, octets in offset_parts(queue):
                digest.update(octets)
        levels = [] if isinstance(queue, CursorQueue) else queue.levels()
        resting = [queue.resting.waiting] if isinstance(queue.resting, Resting) and queue.resting.count else []
        for ready in [*levels, queue.letters.waiting, *resting]:
            count = 0
            for entry in entries_of(ready, queue_id, pager):
                digest.update(_octets_of(entry))
                count += 1
            assert count == ready.count, f"queue {queue_id}: {ready.count} are counted, {count} are there"
            digest.update(count.to_bytes(8, "big"))
        for entry in queue.letters.transit:
            digest.update(_octets_of(entry))
        if queue.lease_groups is not None:
            for lease in queue.lease_groups.all():
                digest.update(lease_octets(lease))
                for entry in lease.entries():
                    digest.update(_octets_of(entry))
    for queue_id in sorted(state.streams):
        for octets in stream_pieces(state.streams[queue_id]):
            digest.update(octets)
    return digest.digest()


def entries_of(ready: Ready, queue_id: int, pager: Pager) -> Iterator[Entry]:
    """All messages of a Ready, in order; nothing is changed."""
    loose = sorted([*ready.head, *ready.stragglers], key=lambda entry: entry.sequence)
    place = 0
    pages = list(ready.pages or ())
    datas = [(page.first, page) for page in pages]
    for first, page in datas:
        data = page.data if page.data is not None else pager.page_store.read(queue_id, page.location)
        inside = Page(data, 0, 0, 0, 0).entries(pager.addresses)
        while place < len(loose) and loose[place].sequence < first:
            yield loose[place]
            place += 1
        late = []
        while place < len(loose) and loose[place].sequence < page.last:
            late.append(loose[place])
            place += 1
        yield from sorted([*inside, *late], key=lambda entry: entry.sequence) if late else inside
    yield from loose[place:]
    if ready.pages is not None and ready.tail.count:
        yield from Page(ready.tail.octets(), 0, 0, 0, 0).entries(pager.addresses)


def _octets_of(entry: Entry) -> bytes:
    buffer = Buffer()
    buffer.put_u64(entry.sequence)
    buffer.put_u64(entry.expires_at)
    buffer.put_u16(entry.returns)
    buffer.put_u8(1 if entry.is_redelivered else 0)
    put_message(buffer, entry.message)
    return buffer.take()
