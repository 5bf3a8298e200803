"""LocalWrites: the classic queues of this node, whose messages are written to its journal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queues.message import Message
from queues.outcomes import PublishOutcome
from queues.write_group import WriteGroup

if TYPE_CHECKING:
    from queues.classic import ClassicQueue
    from queues.receipts import Receipt

_TAKEN: int = PublishOutcome.TAKEN
_STORED: int = PublishOutcome.STORED
_REFUSED: int = PublishOutcome.REFUSED


class LocalWrites(WriteGroup):
    """A persistent message is in the journal, with all its durable queues in one entry, before a queue has it."""

    def publish(
        self, message: Message, queues: list[ClassicQueue], receipt: Receipt | None, is_again: bool, now: int
    ) -> int:
        """See WriteGroup."""
        outcome = _TAKEN
        accepting = queues
        refusing = None
        for queue in queues:
            if queue.rejects_overflow and queue.rejects(message, now):
                if refusing is None:
                    refusing = set()
                refusing.add(queue)
                outcome = _REFUSED
        if refusing is not None:
            accepting = [queue for queue in queues if queue not in refusing]
        places: list[tuple[int, int, int]] | None = None
        segment = 0
        if message.is_persistent:
            for queue in accepting:
                if queue.is_durable:
                    if places is None:
                        places = []
                    store = queue.store
                    segment = store.segment(queue)
                    places.append((queue.queue_id, queue.next_sequence, queue.expiry_of(message, now)))
            if places is not None:
                store.append_message_for(message, places)
                if outcome == _TAKEN:
                    outcome = _STORED
        for queue in accepting:
            queue.enqueue(
                message, queue.expiry_of(message, now), segment if queue.is_durable else 0, queue.taker(), now
            )
        return outcome


#: Of all classic queues; a message's queues have one store.
LOCAL_WRITES = LocalWrites()
