"""The machine against a model of lists: any commands, one at a time, with crashes, checkpoints and installs between."""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from queues.arguments import Overflow, QueueArguments
from queues.effects import (
    Cancel,
    ConsumerCancelled,
    Counted,
    Delivered,
    Effect,
    GetAnswered,
    QueueGone,
    Refusal,
    SettleMissed,
)
from queues.quorum.commands import (
    Attach,
    Detach,
    Dispatched,
    DropQueue,
    Enqueue,
    Get,
    How,
    NodeDown,
    Prefetch,
    Purge,
    Settle,
)
from queues.quorum.consumer import MOST_IN_FLIGHT
from queues.quorum.settings import QuorumSettings
from tests.example_counts import examples
from tests.queues.queue_world import message_named, name_of
from tests.queues.quorum.quorum_model import QueueModel, Taker
from tests.queues.quorum.quorum_world import (
    BUDGETS,
    Group,
    Member,
    Stream,
    holders_of,
    letters_of,
    of_type,
    ready_names,
    refusals,
)

SETTINGS = st.builds(
    QuorumSettings,
    st.builds(
        QueueArguments,
        message_ttl=st.sampled_from([None, None, 0, 40]),
        expires=st.sampled_from([None, None, 300]),
        max_length=st.sampled_from([None, None, 0, 6]),
        max_length_bytes=st.sampled_from([None, None, 900]),
        overflow=st.sampled_from(Overflow),
        dead_letter_exchange=st.sampled_from([None, "dead"]),
        max_priority=st.sampled_from([None, None, 3]),
        single_active_consumer=st.booleans(),
        delivery_limit=st.sampled_from([None, None, 1]),
    ),
    consumer_timeout=st.sampled_from([None, None, 70]),
    deduplication_window=st.sampled_from([0, 2]),
    deduplication_ttl=st.sampled_from([None, 1000]),
    gives_way=st.booleans(),
)
PICKS = st.integers(0, 1 << 16)


class QuorumMachine(RuleBasedStateMachine):
    """One queue whose consumers are all of one node, so that its effects tell the order of all deliveries."""

    @initialize(wanted=SETTINGS, budget=st.sampled_from(BUDGETS), seed=st.integers(0, 1 << 30))
    def start(self, wanted: QuorumSettings, budget: int, seed: int) -> None:
        self.member = Member("n1", budget, seed)
        self.group = Group(self.member, settings=wanted)
        self.stream = Stream(self.group, self.member)
        self.model = QueueModel(wanted, self.group.now, last_used=self.group.now)
        self.names = 0
        self.letters_done = 0

    # -- what the model does around each command -----------------------------------------------------------------------

    def wait(self, milliseconds: int) -> None:
        """Time passes: what is due happens, before any command."""
        model = self.model
        effects = self.group.advance(milliseconds)["n1"]
        model.clock = self.group.now
        late = model.late()
        assert of_type(effects, ConsumerCancelled) == [ConsumerCancelled(each.number, Cancel.TIMEOUT) for each in late]
        for taker in late:
            model.leave(taker, False)
        for taker in late:
            model.leave(taker, True)
        self.follow(effects)
        if model.is_expired():
            assert of_type(effects, QueueGone)
            model.is_gone = True

    def follow(self, effects: list[Effect]) -> None:
        """Check the deliveries, and do what comes after every command."""
        self.model.change_turns()
        for effect in effects:
            if isinstance(effect, Delivered):
                name = name_of(effect.message)
                self.model.deliver(effect.consumer, effect.delivery_id, name, effect.delivery_count)
                assert effect.redelivered is (effect.delivery_count > 0)
        self.model.enforce_limits()
        self.model.expire()

    def taker(self, pick: int) -> Taker | None:
        takers = self.model.takers
        return takers[pick % len(takers)] if takers else None

    # -- rules ---------------------------------------------------------------------------------------------------------

    @rule(milliseconds=st.sampled_from([1, 10, 40, 100]))
    def pass_time(self, milliseconds: int) -> None:
        self.wait(milliseconds)

    @precondition(lambda self: not self.model.is_gone)
    @rule(
        size=st.sampled_from([5, 40, 150, 400, 17_000]),
        priority=st.integers(-1, 5),
        expiration=st.sampled_from([-1, -1, -1, 0, 25]),
        producer=st.sampled_from([b"", b"", b"p", b"q"]),
        sequence=st.integers(0, 5),
        key=st.sampled_from([b"", b"", b"a", b"b", b"c"]),
        count=st.integers(1, 6),
    )
    def publish(
        self, size: int, priority: int, expiration: int, producer: bytes, sequence: int, key: bytes, count: int
    ) -> None:
        for _ in range(count):
            self.names += 1
            number = sequence if producer else 0
            message = message_named(self.names, size, True, priority, expiration)
            effects = self.stream.send(Enqueue((1,), message, producer, number, key))
            is_taken = self.model.publish(self.names, size, priority, expiration, (producer, number), key)
            assert refusals(effects) == ([] if is_taken else [Refusal.FULL])
            self.follow(effects)

    @precondition(lambda self: not self.model.is_gone)
    @rule(prefetch=st.sampled_from([0, 1, 2, 5]), no_ack=st.booleans(), priority=st.integers(0, 1))
    def attach(self, prefetch: int, no_ack: bool, priority: int) -> None:
        number = self.stream.new_consumer()
        effects = self.stream.send(Attach(number, 1, prefetch, no_ack, priority, False, "t"))
        self.model.join(number, prefetch, no_ack, priority)
        self.follow(effects)

    @rule(pick=PICKS, first=st.integers(1, 12), length=st.sampled_from([1, 1, 3, 100]), how=st.sampled_from(How))
    def settle(self, pick: int, first: int, length: int, how: How) -> None:
        taker = self.taker(pick)
        if taker is None:
            return
        held = [each for each in taker.held if first <= each < first + length]
        effects = self.stream.send(Settle(taker.number, how, ((first, first + length - 1),)))
        missed = [each.deliveries for each in of_type(effects, SettleMissed)]
        assert missed == ([length - len(held)] if length > len(held) else [])
        self.model.settle(taker, held, how.name)
        self.model.sweep()
        self.follow(effects)

    @rule(pick=PICKS, gives_back=st.booleans())
    def detach(self, pick: int, gives_back: bool) -> None:
        taker = self.taker(pick)
        if taker is not None:
            effects = self.stream.send(Detach(taker.number, gives_back))
            self.model.leave(taker, gives_back)
            self.follow(effects)

    @rule(pick=PICKS, prefetch=st.integers(0, 4))
    def change_prefetch(self, pick: int, prefetch: int) -> None:
        taker = self.taker(pick)
        if taker is not None and taker.is_attached and taker.limit != MOST_IN_FLIGHT:
            effects = self.stream.send(Prefetch(taker.number, prefetch))
            taker.limit = prefetch or MOST_IN_FLIGHT
            self.follow(effects)

    @precondition(lambda self: not self.model.is_gone)
    @rule()
    def get(self) -> None:
        number = self.stream.new_consumer()
        (answer,) = of_type(self.stream.send(Get(number, 1)), GetAnswered)
        self.model.last_used = self.model.clock
        if not self.model.ready:
            assert answer.message is None
            return
        taker = Taker(number, 1, 0, is_attached=False)
        self.model.takers.append(taker)
        known = self.model.hold(taker)
        assert (name_of(answer.message), answer.delivery_count) == (known.name, known.returns)
        self.follow([])

    @precondition(lambda self: not self.model.is_gone)
    @rule()
    def purge(self) -> None:
        (counted,) = of_type(self.stream.send(Purge(1)), Counted)
        assert counted.messages == len(self.model.ready)
        self.model.ready = []

    @rule(share=st.integers(0, 3))
    def dispatch_letters(self, share: int) -> None:
        count = len(self.model.dead) * share // 3
        self.letters_done += count
        effects = self.group.lead(Dispatched(1, self.letters_done))["n1"]
        assert not of_type(effects, Delivered)
        del self.model.dead[:count]

    @rule()
    def node_goes_down(self) -> None:
        effects = self.group.lead(NodeDown("n1", self.stream.session))["n1"]
        assert not of_type(effects, Delivered)
        takers = sorted(self.model.takers, key=lambda each: each.number)
        for taker in takers:
            if taker.is_attached:
                self.model.leave(taker, False)
        for taker in takers:
            self.model.leave(taker, True)
        self.follow([])
        consumers = self.stream.consumers
        self.stream = Stream(self.group, self.member, self.stream.session + 1)
        self.stream.consumers = consumers

    @rule()
    def drop(self) -> None:
        if self.names % 7 == 3 and not self.model.is_gone:
            effects = self.stream.send(DropQueue(1))
            assert len(of_type(effects, ConsumerCancelled)) == len(self.model.attached())
            self.model.is_gone = True

    @rule(is_synced=st.booleans())
    def checkpoint(self, is_synced: bool) -> None:
        self.member.checkpoint(is_synced)

    @rule()
    def restart(self) -> None:
        self.member.restart(self.group.log)

    @rule(budget=st.sampled_from(BUDGETS))
    def install_elsewhere(self, budget: int) -> None:
        """Another member takes over from here."""
        other = Member("n1", budget)
        other.machine.begin_session(self.stream.session)
        other.install_from(self.member)
        self.group.members = [other]
        self.member = self.stream.member = other

    # -- comparison ----------------------------------------------------------------------------------------------------

    @invariant()
    def the_machine_is_as_the_model(self) -> None:
        if not hasattr(self, "model"):
            return
        model = self.model
        assert (1 not in self.member.state.queues) is model.is_gone
        if model.is_gone:
            model.takers = []
            assert self.member.pager.used == 0
            return
        assert ready_names(self.member) == [each.name for each in model.ready]
        assert letters_of(self.member) == model.dead
        found = {
            each.consumer_id: {delivery: name_of(entry.message) for delivery, (entry, _) in each.held.items()}
            for each in holders_of(self.member)
        }
        wanted = {
            each.number: {delivery: known.name for delivery, (known, _) in each.held.items()} for each in model.takers
        }
        assert found == wanted
        assert not model.ready or not any(each.has_credit for each in model.in_turn())


QuorumMachine.TestCase.settings = settings(
    max_examples=examples(60), stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
TestQuorumMachine = QuorumMachine.TestCase
