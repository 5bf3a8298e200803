"""QuorumQueue: a quorum queue as the channels of this node see it. Its log is that of a queue group.

Where this node is a member of the group, what the queue holds is known here: as far as this node has applied the log.
Where it is a guest, the member that leads is asked. What is to be deleted only if it is empty, or unused, is looked at
once this node has applied all that was committed before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from amqp_broker.errors import AmqpException, ConnectionException, precondition_failed
from amqp_broker.protocol.constants import ReplyCode
from amqp_broker.queue_types.contract.declaration import QueueDeclaration
from amqp_broker.queue_types.groups.guest_counts import COUNT_MS
from amqp_broker.queue_types.proxy.queue import QueueProxy
from amqp_broker.queue_types.quorum.leases import QuorumLeases
from queues.lease_source import LeasedAt
from queues.message import Message
from queues.peeking import PeekSteps, PeekWish, peek_ready
from queues.queue import Done, Held, Replicas
from queues.quorum.commands import How, OpenQueue
from queues.quorum.consumer import QuorumConsumer
from queues.quorum.queue import QueueStatistics
from queues.quorum.retry import RetryType
from queues.quorum.settings import QuorumSettings
from queues.ready import Ready
from queues.reason import Reason
from queues.receipts import Receipt
from queues.sizes import QueueSizes
from queues.sums import QueueSums

if TYPE_CHECKING:
    from amqp_broker.queue_types.groups.group import QueueGroup
    from amqp_broker.queue_types.proxy.consumer import ProxyDelivery
    from queues.quorum.cursor_commands import OpenCursor
    from queues.quorum.queue import QuorumQueue as RulesOfQueue

_NOTHING = QueueStatistics(0, 0, 0, 0, 0)


class QuorumQueue(QueueProxy):
    """find_settings: makes what is in force out of the declaration and the policies of the day. Whoever
    makes one adds it to its group."""

    recognises_producers = True

    def __init__(
        self,
        declaration: QueueDeclaration,
        queue_id: int,
        group: QueueGroup,
        find_settings: Callable[[], QuorumSettings],
        lease_expires: Callable[[], int | None] = lambda: None,
    ) -> None:
        super().__init__(declaration.name, queue_id, True, group)
        self.declaration = declaration
        self.group = group
        self._machine = group.machine
        self._raft = group.raft
        self._dead_letters = group.host.dead_letters
        self.counts_returns = True
        self.is_prepared = False
        self._counted = _NOTHING  # what the leader has said last, while this node is a guest
        self._leases = QuorumLeases(self, group, lease_expires)
        self._find_settings = find_settings
        self._take_settings(find_settings())

    def _take_settings(self, settings: QuorumSettings) -> None:
        self.wanted = settings
        self.settings = settings.arguments
        self.knows_message_ids = settings.deduplication_window > 0
        self.refuses_get = settings.arguments.single_active_consumer

    def policy_changed(self) -> None:
        """A policy of its virtual host was changed."""
        settings = self._find_settings()
        if settings != self.wanted:
            self._take_settings(settings)
            self.group.settings_changed(self)

    def leases(self) -> QuorumLeases | LeasedAt | None:
        """See Queue: those of a guest are where the log is."""
        if self.group.guest is None:
            return self._leases
        return LeasedAt(self.group.member_to_ask())

    def prepare(self) -> None:
        """The first command of this node: it comes behind one that makes the queue, should nobody have made it yet."""
        self.is_prepared = True
        if self._machine.settings_of(self.queue_id) is None:
            self.group.submit_opening(self.open_command())

    def open_command(self) -> OpenQueue | OpenCursor:
        """See GroupQueue."""
        return OpenQueue(self.queue_id, self.wanted)

    @property
    def gives_up_at_least_once(self) -> bool:
        """Whether a letter is tried again until all the queues have it that it goes to."""
        return self.wanted.at_least_once

    def publish_letter(self, message: Message, reason: Reason, now: int, receipt: Receipt) -> bool:
        """A dead letter of the queue, to be published by this node. Returns whether it went anywhere."""
        return self._dead_letters.publish(self, message, reason, now, receipt)

    def letter_cycles(self) -> int:
        """In how many queues the letter published last was not because it would have come back."""
        return self._dead_letters.cycles

    def count_letter(self, reason: Reason, cycles: int) -> None:
        """One of its letters is done."""
        self._dead_letters.count(self, reason, cycles)

    def fail(self, deliveries: list[ProxyDelivery], now: int) -> None:  # type: ignore[override]  # its own come back
        """See Queue. The log is told of a failure only where that makes a difference."""
        retry = self.wanted.retry
        if retry is None or retry.type is RetryType.ALL:
            self.put_back(deliveries, now)
            return
        for delivery in deliveries:
            self.settle_as(delivery, How.FAIL)

    # -- counts --------------------------------------------------------------------------------------------------------

    def _state(self) -> RulesOfQueue | None:
        """What its log has made of it, as far as this node has applied it."""
        return self._machine.queue_state(self.queue_id)

    def statistics(self) -> QueueStatistics:
        """Its figures, as of what this node has applied; of a guest, as they were counted."""
        if self.group.guest is not None:
            return self._counted
        return self._machine.statistics(self.queue_id) or _NOTHING

    def count(self, is_use: bool, then: Done) -> None:
        """See Queue: a guest asks the leader. Without one, what was counted last is shown."""
        self._ask(then, is_certain=False)

    def count_for_certain(self, then: Done) -> None:
        """See Queue. A member may be behind, and a leader may have been replaced: it is counted once this node has
        heard of all that was committed before, so nothing that was confirmed is missed."""
        group, is_over = self.group, False

        def end(refusal: Exception | None) -> None:
            nonlocal is_over
            if not is_over:
                is_over = True
                timer.cancel()
                then(refusal)

        timer = group.timers.at(group.clock.now + COUNT_MS, lambda now: end(self._uncounted()))
        group.when_current(lambda: self._ask(end, is_certain=True))

    def _ask(self, then: Done, is_certain: bool) -> None:
        group = self.group
        if group.guest is None:
            then(None)
            return

        def counted(figures: QueueStatistics | None) -> None:
            if figures is not None:
                self._counted = figures
                then(None)
            elif is_certain and group.guest is None:
                self.count_for_certain(then)  # a member since, which may be behind
            else:
                then(self._uncounted() if is_certain else None)

        group.count_at_leader(self.queue_id, counted, is_certain)

    def _uncounted(self) -> AmqpException:
        """What a client of a guest is told if nobody has said what the queue holds."""
        members = ", ".join(self.group.members())
        return precondition_failed(
            f"what queue '{self.name}' in vhost '{self.declaration.vhost}' holds and who consumes from it is not known "
            f"here: of its members ({members}) none has said so within {COUNT_MS} ms: try again, or without if-empty "
            "and if-unused"
        )

    def message_count(self) -> int:
        """How many messages are ready."""
        return self.statistics().ready

    def leased_count(self) -> int:
        """How many messages its lease groups hold."""
        return self.statistics().leased

    def delayed_count(self) -> int:
        """How many messages rest before they come again."""
        return self.statistics().delayed

    def unacked_count(self) -> int:
        """How many messages consumers hold, on all nodes."""
        return self.statistics().unacked

    def consumer_count(self) -> int:
        """How many consumers there are on all nodes."""
        return self.statistics().consumers

    def active_tag(self) -> str | None:
        """See Queue: as far as this node has applied the log."""
        active = self._active()
        return active.tag if active is not None else None

    def is_active(self, consumer: object) -> bool | None:
        """See Queue: the same. A guest does not know."""
        if not self.has_single_active_consumer():
            return True
        if self.group.guest is not None:
            return None
        active, own = self._active(), self.consumers.get(consumer)
        if active is None or own is None:
            return False
        return (active.origin, active.consumer_id) == (self.group.own_node, own.number)

    def _active(self) -> QuorumConsumer | None:
        rules = self._state() if self.group.guest is None else None
        active = rules.turns().active if rules is not None else None
        return active if isinstance(active, QuorumConsumer) else None

    def add_counts(self, sums: QueueSums) -> None:
        """See Queue: the node that leads its group counts it."""
        if self._raft.is_leader:
            found = self.statistics()
            sums.add_held(found.ready, found.ready_bytes, found.unacked, found.consumers)
            sums.add_delayed(found.delayed)
            sums.add_leased(found.leased)

    def add_counters(self, sums: QueueSums) -> None:
        """See Queue: what its log did since this member was started, whichever node it was for."""
        self.add_gets(sums)
        rules = self._state()
        if rules is not None:
            rules.add_counters(sums)

    def add_own_counters(self, sums: QueueSums) -> None:
        """See Queue: what consumers of this node got and acknowledged."""
        self.add_gets(sums)
        counts = self.counts
        sums.delivered += counts.delivered
        sums.auto_acked += counts.auto_acked
        sums.redelivered += counts.redelivered
        sums.acked += counts.acked

    def replicas(self) -> Replicas:
        """See Queue."""
        group = self.group
        return Replicas(group.leader or "", group.members())

    def sizes(self) -> QueueSizes | None:
        """See Queue."""
        rules = self._state()
        return rules.sizes() if rules is not None else None

    def would_deliver(self) -> bool | None:
        """See Queue."""
        rules = self._state()
        return rules.would_deliver() if rules is not None else None

    def first_messages(self) -> list[tuple[int, bytes]]:
        """See Queue."""
        rules = self._state()
        return rules.first_messages() if rules is not None else []

    # -- looking -------------------------------------------------------------------------------------------------------

    def seen_at(self) -> str | None:
        """See Queue: who leads its group. Other members may be behind."""
        group = self.group
        return "" if group.raft.is_leader else group.leader or None

    def described_at(self) -> str:
        """See Queue: who leads its group, on a guest; while it knows of nobody, another member."""
        return "" if self.group.guest is None else self.group.member_to_ask()

    def peek(self, wish: PeekWish) -> PeekSteps | None:
        """See Queue."""

        machine = self.group.machine

        def levels() -> list[Ready]:
            rules = machine.queue_state(self.queue_id)
            return rules.levels() if rules is not None else []

        return peek_ready(levels, wish)

    def holdings(self) -> Iterator[Held | None]:
        """See Queue."""
        group = self.group
        rules = group.machine.queue_state(self.queue_id)
        return rules.holdings() if rules is not None else iter(())

    def held_since(self) -> Iterator[int | None]:
        """See Queue."""
        rules = self._state()
        return rules.held_since() if rules is not None else iter(())

    # -- the end -------------------------------------------------------------------------------------------------------

    def delete(self) -> int:
        """The queue is no more. Returns how many messages were ready."""
        count = super().delete()
        self.group.forget_queue(self)
        return count

    def unavailable(self) -> AmqpException:
        """What a client is told when nobody knows what became of its command."""
        return ConnectionException(
            ReplyCode.INTERNAL_ERROR,
            f"queue '{self.name}' in vhost '{self.declaration.vhost}': the other nodes took this one for dead, and "
            "what was not done then is not known: try again",
        )
