"""WriteGroup: queues whose messages are written together: one journal entry, or one command to where their log is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from queues.message import Message

if TYPE_CHECKING:
    from queues.receipts import Receipt


class WriteGroup:
    """is_local: what `publish` returns says all; where it is false, a receipt is told later what became of a message.
    paces: publishers may have to wait for it (`is_behind`), or are told of its alarm (`is_blocked`). Nothing is asked
    of one that does not. joins: all messages of a turn come with one receipt, whatever goes between them: the group
    asks it for the number of each and tells it which ones are done (Receipt.complete_run). is_serial: what is published
    is one command a message, and receipts are completed in the order in which they were given. is_held: what is
    published is kept for a moment, until the queue lives elsewhere."""

    is_local = True
    paces = False
    joins = False
    is_serial = False
    is_held = False

    def publish(
        self,
        message: Message,
        queues: list[Any],  # own class: those of a group are of one type
        receipt: Receipt | None,
        is_again: bool,
        now: int,
    ) -> int:
        """A message for some of its queues, in order. Returns a PublishOutcome. See Queue.publish."""
        raise NotImplementedError

    def publish_numbered(
        self,
        message: Message,
        queues: list[Any],  # own class: as in `publish`
        producer: bytes,
        number: int,
        receipt: Receipt,
    ) -> None:
        """The same, of a producer that may give it again under this number: a queue that `recognises_producers` drops
        it then. Of a group that is not local."""
        raise NotImplementedError

    def seal(self) -> None:
        """What it has taken in this turn, or while the disk was busy, is submitted."""

    def written_at(self) -> str:
        """The other process that writes what is published here; "" for none, or where nobody knows."""
        return ""
