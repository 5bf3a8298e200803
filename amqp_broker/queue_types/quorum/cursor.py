"""QueueOverStream: a quorum queue over a stream, as the channels of this node see it.

What is published to it, by its name or a binding, goes to the stream, once, whatever else of the stream is meant as
well: they have one group of writes. Consumers, fetching and settling are those of every quorum queue.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from amqp_broker.queue_types.quorum.queue import QuorumQueue
from queues.quorum.cursor_commands import OpenCursor
from queues.quorum.cursor_queue import CursorQueue
from queues.receipts import JointReceipt

if TYPE_CHECKING:
    from amqp_broker.queue_types.contract.declaration import QueueDeclaration
    from amqp_broker.queue_types.groups.group import QueueGroup
    from amqp_broker.queue_types.proxy.consumer import ProxyDelivery
    from amqp_broker.queue_types.stream.queue import StreamQueue
    from queues.effects import Refusal
    from queues.message import Message
    from queues.peeking import PeekSteps, PeekWish
    from queues.queue import Done
    from queues.quorum.cursor_settings import CursorSettings
    from queues.receipts import Receipt


class QueueOverStream(QuorumQueue):
    """stream: None where it was deleted behind this one's back."""

    recognises_producers = False
    passes_on = True
    lacks = CursorQueue.lacks
    wanted: CursorSettings

    def __init__(
        self,
        declaration: QueueDeclaration,
        queue_id: int,
        group: QueueGroup,
        find_settings: Callable[[], CursorSettings],
        stream: StreamQueue | None,
    ) -> None:
        super().__init__(declaration, queue_id, group, find_settings)
        self.stream = stream
        if stream is not None:
            self.writes = stream.writer
            stream.begin_following(self.name)

    def prepare(self) -> None:
        """See QuorumQueue: the stream comes first."""
        self._prepare_stream()
        super().prepare()

    def _prepare_stream(self) -> None:
        if self.stream is not None and not self.stream.is_deleted:
            self.stream.prepare()

    def open_command(self) -> OpenCursor:
        """See GroupQueue."""
        return OpenCursor(self.queue_id, self.wanted)

    def count(self, is_use: bool, then: Done) -> None:
        """See Queue. Who declares it, and publishes to the stream then, counts on its being there before."""
        is_there = self._state() is not None if self.group.guest is None else self.is_prepared
        if is_there or self.is_deleted:
            super().count(is_use, then)
            return
        receipt = JointReceipt()
        self._prepare_stream()
        self.is_prepared = True
        self.group.submit_opening(self.open_command(), receipt)


        def opened(refusals: list[Refusal]) -> None:
            if refusals:
                then(self.refused(refusals[0]))
            else:
                super(QueueOverStream, self).count(is_use, then)

        receipt.seal(opened)

    def publish(self, message: Message, receipt: Receipt | None, is_again: bool, now: int) -> int:
        """See Queue."""
        if self.stream is None:
            return super().publish(message, receipt, is_again, now)
        return self.stream.publish(message, receipt, is_again, now)

    def ack(self, delivery: ProxyDelivery) -> int:  # type: ignore[override]  # as the compiled base has it
        """See Queue. With key order the next one of the key waits for it: it does not rest."""
        super().ack(delivery)
        if self.wanted.has_key_order:
            self.sink.limit_rest(0)
        return 0

    def leases(self) -> None:
        """See Queue: it lacks them."""

    def peek(self, wish: PeekWish) -> PeekSteps | None:
        """See Queue: whoever wants to look reads the stream."""
        return None

    def place(self) -> tuple[int, int]:
        """The offset from which on nothing was handed out, and how many messages retention has taken before."""
        rules = self._state()
        return (rules.place.next, rules.place.lost) if isinstance(rules, CursorQueue) else (0, 0)

    def delete(self) -> int:
        """See Queue. The stream stays as it is."""
        if self.stream is not None:
            self.stream.end_following(self.name)
        return super().delete()
