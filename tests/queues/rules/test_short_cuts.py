"""The short cuts of a classic queue come to the same as the rules.

1. `taker`, `enqueue`: straight to the only consumer with credit, where nothing is ready.
2. `is_drained`: that nothing is ready, and nothing held up, is certain without looking.
3. Without acknowledgements, a message is handed over without an Entry.

A ClassicQueue and the rules alone are told the same, and have told their consumers the same after each step.
"""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from queues.arguments import Overflow, QueueArguments
from queues.quorum.commands import How
from tests.example_counts import examples
from tests.queues.rules.hosts import BareHost, ClassicHost

ARGUMENTS = st.builds(
    QueueArguments,
    message_ttl=st.sampled_from([None, None, None, 0, 5]),
    max_length=st.sampled_from([None, None, None, 0, 3]),
    overflow=st.sampled_from(Overflow),
    dead_letter_exchange=st.sampled_from([None, "dead"]),
    max_priority=st.sampled_from([None, None, None, 3]),
    single_active_consumer=st.booleans(),
    delivery_limit=st.sampled_from([None, None, 1]),
)
PICKS = st.integers(0, 1 << 16)
PUBLISH = st.tuples(st.just("publish"), st.integers(-1, 4), st.sampled_from([-1, -1, -1, 0, 3]))
STEPS = st.one_of(
    PUBLISH,
    PUBLISH,
    PUBLISH,
    st.tuples(st.just("consume"), st.sampled_from([1, 2, 9]), st.booleans()),
    st.tuples(st.just("cancel"), PICKS, st.none()),
    st.tuples(st.just("pause"), PICKS, st.none()),
    st.tuples(st.just("settle"), PICKS, st.sampled_from([How.ACK, How.ACK, How.REQUEUE, How.REJECT, How.RETURN])),
    st.tuples(st.just("get"), st.none(), st.none()),
    st.tuples(st.just("purge"), st.none(), st.none()),
    st.tuples(st.just("advance"), st.sampled_from([1, 4]), st.none()),
)


class Pair:
    """A classic queue, and the rules."""

    def __init__(self, arguments: QueueArguments) -> None:
        self.hosts: tuple[Any, Any] = (ClassicHost(arguments), BareHost(arguments))
        self.name = 0
        self.attached: list[int] = []

    def step(self, kind: str, first: Any, second: Any) -> list[Any]:
        """Tell both the same. Returns what they have answered."""
        classic = self.hosts[0]
        if kind == "publish":
            self.name += 1
            return [each.publish(self.name, priority=first, expiration=second) for each in self.hosts]
        if kind == "consume":
            found = [each.consume(first, no_ack=second) for each in self.hosts]
            self.attached.append(found[0])
            return found
        if kind == "cancel" and self.attached:
            consumer = self.attached.pop(first % len(self.attached))
            return [each.cancel(consumer) for each in self.hosts]
        if kind == "pause" and self.attached:
            consumer = self.attached[first % len(self.attached)]
            return [self._pause(each, consumer) for each in self.hosts]
        if kind == "settle" and classic.held:
            consumer, name = sorted(classic.held)[first % len(classic.held)]
            return [each.settle(consumer, second, name) for each in self.hosts]
        if kind == "get":
            return [each.get() for each in self.hosts]
        if kind == "purge":
            return [each.purge() for each in self.hosts]
        if kind == "advance":
            return [each.advance(first) for each in self.hosts]
        return [None, None]

    @staticmethod
    def _pause(host: Any, consumer: int) -> None:
        client = host.clients[consumer]
        client.is_paused = not client.is_paused
        if not client.is_paused:
            host.queue.dispatcher.credit_returned(client)
        host.look()

    def agree(self) -> None:
        classic, bare = self.hosts
        assert classic.log == bare.log
        assert classic.ready() == bare.ready()
        assert classic.dead() == bare.dead()
        assert classic.discarded() == bare.discarded()
        assert classic.unacked() == bare.unacked()


@given(arguments=ARGUMENTS, steps=st.lists(STEPS, max_size=40))
@settings(max_examples=examples(200), deadline=None, suppress_health_check=list(HealthCheck))
def test_short_cuts_come_to_what_the_rules_say(arguments: QueueArguments, steps: list[tuple[str, Any, Any]]) -> None:
    pair = Pair(arguments)
    for kind, first, second in steps:
        answers = pair.step(kind, first, second)
        assert answers[0] == answers[1], kind
        pair.agree()


def test_a_message_without_acknowledgement_is_no_entry() -> None:
    host = ClassicHost(QueueArguments())
    consumer = host.consume(1, no_ack=True)
    host.publish(1)
    assert host.log == [(consumer, 1, False)]
    assert host.held == {}
    assert host.world.pager.used == 0
    assert host.queue.settled_count == 1
    assert host.queue.held == {}
