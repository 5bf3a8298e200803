"""A message for very many queues is handed to them in slices (queues/background.py).

None of its connection's frames are handled meanwhile: what a channel publishes is in each queue in order, and its
confirms are in order. What others publish may come in between. It goes on to its end though its client be gone.

Invariants:
1. It is confirmed when all queues have it, and the disk has what they have stored.
2. Queues of this node alone are given it in parts. To where a log is elsewhere it goes as one command: who looks there
   whether a message comes again knows it by its number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from amqp_broker.turn.task import Steps, Task

if TYPE_CHECKING:
    from amqp_broker.channel.channel import Channel
    from amqp_broker.channel.confirms import PublishReceipt
    from amqp_broker.routing.routes import PublishRoute
    from amqp_broker.turn.clock import TurnClock
    from queues.message import Message
    from queues.queue import Queue
    from queues.receipts import Receipt
    from queues.write_group import WriteGroup

#: So many queues get a message at once, about a millisecond's work. A persistent one is in the journal once for these.
AT_ONCE: Final = 1024


def publish_in_slices(
    channel: Channel,
    route: PublishRoute,
    message: Message,
    receipt: PublishReceipt | None,
    then: Callable[[int], None],
) -> None:
    """Hand it to the queues of a route. receipt: of this publish, if it is to be confirmed. then: is told the
    PublishOutcome of all."""
    services, clock = channel.services, channel.clock
    store = services.store
    journal = store.journal
    pending = services.answers.begin(channel.connection, "basic.publish", is_timed=False)
    if receipt is not None:
        receipt.expect()

    def steps() -> Steps:
        outcome = 0
        for each in publish_parts(route, message, receipt, clock):
            outcome = max(outcome, each)
            yield None
        return outcome

    task = Task(services.background, steps())

    def done(outcome: int | None) -> None:
        defect = task.error
        if outcome is not None:
            if receipt is not None:
                receipt.take_outcome(outcome, journal.position)
            then(outcome)

        def go_on() -> None:
            if defect is not None:
                raise defect

        pending.release(go_on)

    task.when_done(done)


def publish_parts(
    route: PublishRoute, message: Message, receipt: Receipt | None, clock: TurnClock
) -> Iterator[int]:
    """Hand a message to the queues of a route, a part with each step, which gives its PublishOutcome."""
    for group, queues in _parts_of(route):
        there = [queue for queue in queues if not queue.is_deleted]
        yield group.publish(message, there, receipt, False, clock.now) if there else 0


def _parts_of(route: PublishRoute) -> Iterator[tuple[WriteGroup, list[Queue]]]:
    for group, queues in route.groups:
        if not group.is_local:
            yield group, queues
            continue
        for start in range(0, len(queues), AT_ONCE):
            yield group, queues[start : start + AT_ONCE]
