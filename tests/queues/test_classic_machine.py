"""ClassicQueue with journal, pages, timers and recovery against a model of lists: any operations, any crash."""

from __future__ import annotations

import random
import sys
from typing import Any

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from queues.arguments import Overflow, QueueArguments
from queues.classic import ClassicQueue
from queues.message import Entry, Message
from queues.ready import Ready
from tests.example_counts import examples
from tests.queues.queue_model import Known, QueueModel, Taker
from tests.queues.queue_world import JOURNAL_LIMIT_BYTES, JOURNAL_SEGMENT_BYTES, Client, World, message_named, name_of
from tests.simulation.simulated_disk import SimulatedCrash, SimulatedDisk
from tests.storage.page_files import live_bytes

ARGUMENTS = st.builds(
    QueueArguments,
    message_ttl=st.sampled_from([None, None, 5, 0]),
    max_length=st.sampled_from([None, None, None, 4, 0]),
    max_length_bytes=st.sampled_from([None, None, None, 900]),
    overflow=st.sampled_from(Overflow),
    dead_letter_exchange=st.sampled_from([None, "dead"]),
    max_priority=st.sampled_from([None, None, 3]),
    single_active_consumer=st.booleans(),
    delivery_limit=st.sampled_from([None, 1]),
)
PLACES = st.sampled_from([(0,), (0,), (1,), (0, 1)])
QUEUES = st.integers(0, 1)
SIZES = st.sampled_from([0, 5, 40, 150, 150, 400, 17_000])
PICKS = st.integers(0, 1 << 16)


def levels_of(queue: ClassicQueue) -> list[Ready]:
    ready: Any = queue.ready
    return ready.levels if queue.settings.max_priority is not None else [ready]


class QueueMachine(RuleBasedStateMachine):
    """Two queues on one journal. The world is rebuilt from its disk at every restart."""

    @initialize(arguments=st.tuples(ARGUMENTS, ARGUMENTS), seed=st.integers(0, 1 << 32))
    def start(self, arguments: tuple[QueueArguments, QueueArguments], seed: int) -> None:
        self.arguments = list(arguments)
        self.disk = SimulatedDisk(random.Random(seed))
        self.models = [QueueModel(each) for each in arguments]
        self.names = 0
        self.pending: list[list[Known]] = [[], []]
        self._build(1)

    def _build(self, now: int) -> None:
        self.log: list[tuple[Client, Entry | None, Message, bool]] = []
        self.entries: list[dict[int, Entry]] = [{}, {}]
        self.clients: list[list[tuple[Client, Taker]]] = [[], []]
        self.getters = [(Client(self.log, 1 << 30), Taker(0, 1 << 30, False, 0)) for _ in range(2)]
        self.world = World(self.disk, self.arguments, now)
        for queue, (client, _) in zip(self.world.queues, self.getters, strict=True):
            client.queue = queue

    # -- operations ----------------------------------------------------------------------------------------------------

    @rule(
        places=PLACES,
        size=SIZES,
        is_persistent=st.sampled_from([True, True, True, False]),
        priority=st.integers(-1, 5),
        expiration=st.sampled_from([-1, -1, -1, 0, 3, 20]),
        count=st.integers(1, 6),
    )
    def publish(
        self, places: tuple[int, ...], size: int, is_persistent: bool, priority: int, expiration: int, count: int
    ) -> None:
        for _ in range(count):
            self.names += 1
            message = message_named(self.names, size, is_persistent, priority, expiration)
            self.world.vhost.publish(message, [self.world.queues[place] for place in places], self.world.now)
            for place in places:
                model = self.models[place]
                if model.accepts(self.names, message.body_size):
                    model.add(self.names, message.body_size, is_persistent, priority, expiration, self.world.now)
            self._take_log()

    @rule(
        place=QUEUES,
        limit=st.sampled_from([1, 2, 30]),
        no_ack=st.sampled_from([False, False, True]),
        priority=st.integers(0, 2),
    )
    def add_consumer(self, place: int, limit: int, no_ack: bool, priority: int) -> None:
        client = Client(self.log, limit, no_ack, priority)
        taker = Taker(len(self.clients[place]), limit, no_ack, priority)
        self.clients[place].append((client, taker))
        self.world.queues[place].add_consumer(client)
        self.models[place].add_taker(taker)
        self._dispatch()

    @rule(place=QUEUES, pick=PICKS)
    def remove_consumer(self, place: int, pick: int) -> None:
        clients = self.clients[place]
        if clients:
            client, taker = clients.pop(pick % len(clients))
            self.world.queues[place].remove_consumer(client)
            self.models[place].remove_taker(taker)
            self._dispatch()

    @rule(place=QUEUES, pick=PICKS)
    def pause_or_resume(self, place: int, pick: int) -> None:
        clients = self.clients[place]
        if clients:
            client, taker = clients[pick % len(clients)]
            client.is_paused = taker.is_paused = not client.is_paused
            if not client.is_paused:
                self.world.queues[place].credit_returned(client)
            self._dispatch()

    def _picked(self, place: int, pick: int, count: int) -> list[int]:
        """Some of the sequences that are held."""
        held = sorted(self.entries[place])
        start = pick % len(held) if held else 0
        return held[start : start + count]

    def _release(self, place: int, sequences: list[int]) -> list[Entry]:
        """The entries of these sequences, whose consumers get their credit back."""
        entries = [self.entries[place].pop(sequence) for sequence in sequences]
        for entry in entries:
            client = entry.consumer
            client.unsettled -= 1
        return entries

    def _give_credit(self, place: int) -> None:
        for client, _ in self.clients[place]:
            self.world.queues[place].credit_returned(client)
        self._dispatch()

    @rule(place=QUEUES, pick=PICKS, count=st.integers(1, 12))
    def ack(self, place: int, pick: int, count: int) -> None:
        sequences = self._picked(place, pick, count)
        for entry in self._release(place, sequences):
            self.world.queues[place].ack(entry)
        for sequence in sequences:
            self.models[place].settle(sequence)
        self._give_credit(place)

    @rule(place=QUEUES, pick=PICKS, count=st.integers(1, 3))
    def reject(self, place: int, pick: int, count: int) -> None:
        sequences = self._picked(place, pick, count)
        for entry in self._release(place, sequences):
            self.world.queues[place].reject(entry, self.world.now)
        for sequence in sequences:
            self.models[place].reject(sequence)
        self._give_credit(place)

    @rule(place=QUEUES, pick=PICKS, count=st.integers(1, 12), backwards=st.booleans())
    def put_back(self, place: int, pick: int, count: int, backwards: bool) -> None:
        sequences = self._picked(place, pick, count)
        if backwards:
            sequences.reverse()
        if sequences:
            self.world.queues[place].put_back(self._release(place, sequences), self.world.now)
            self.models[place].put_back(sequences)
            self._give_credit(place)

    @rule(place=QUEUES, is_held=st.booleans())
    def get(self, place: int, is_held: bool) -> None:
        queue, model = self.world.queues[place], self.models[place]
        entry = queue.get(self.world.now)
        name = name_of(entry.message) if entry is not None else None
        known = model.get(name, entry is not None and entry.is_redelivered)
        if entry is None or known is None:
            return
        client, taker = self.getters[place]
        if is_held:
            client.unsettled += 1
            queue.take_held(entry, client)
            self.entries[place][entry.sequence] = entry
            model.hold(known, taker)
        else:
            queue.forget(entry)
        self._dispatch()

    @rule(place=QUEUES)
    def purge(self, place: int) -> None:
        assert self.world.queues[place].purge() == len(self.models[place].ready)
        self.models[place].ready.clear()

    @rule(milliseconds=st.integers(1, 8))
    def advance(self, milliseconds: int) -> None:
        self.world.advance(milliseconds)
        self._dispatch()

    @rule(place=QUEUES, arguments=ARGUMENTS)
    def change_policy(self, place: int, arguments: QueueArguments) -> None:
        """All but what is fixed at the declaration."""
        old = self.arguments[place]
        changed = QueueArguments(
            message_ttl=arguments.message_ttl,
            max_length=arguments.max_length,
            max_length_bytes=arguments.max_length_bytes,
            overflow=arguments.overflow,
            dead_letter_exchange=arguments.dead_letter_exchange,
            max_priority=old.max_priority,
            single_active_consumer=old.single_active_consumer,
            delivery_limit=arguments.delivery_limit,
        )
        self.arguments[place] = self.models[place].settings = changed
        self.world.queues[place].apply_settings(changed)
        self.models[place].enforce_limits()

    # -- turns, syncs and crashes --------------------------------------------------------------------------------------

    @rule()
    def end_turn(self) -> None:
        self.world.end_turn()

    @rule(place=QUEUES, want=st.sampled_from([1, 600, 1 << 30]), keeps_head=st.booleans())
    def page_out(self, place: int, want: int, keeps_head: bool) -> None:
        """Memory is short."""
        pager = self.world.pager
        before = pager.used
        freed = self.world.queues[place].ready.page_out(want, keeps_head)
        assert freed == before - pager.used

    @rule()
    def sync(self) -> None:
        if self.world.job is not None:
            self.finish_sync()
        self.begin_sync()
        self.finish_sync()

    @precondition(lambda self: self.world.job is None)
    @rule()
    def begin_sync(self) -> None:
        self.world.begin_sync()
        self.pending = [model.lasting() for model in self.models]

    @precondition(lambda self: self.world.job is not None)
    @rule()
    def finish_sync(self) -> None:
        self.world.finish_sync()
        for model, pending in zip(self.models, self.pending, strict=True):
            model.durable = pending

    @rule(change=st.integers(1, 6), loses_unsynced=st.booleans())
    def crash_in_sync(self, change: int, loses_unsynced: bool) -> None:
        """The machine, or only the process, goes down somewhere in a sync."""
        if self.world.job is None:
            self.begin_sync()
        self.disk.crash_at = change
        try:
            self.finish_sync()
        except SimulatedCrash:
            self._restart(loses_unsynced, [[model.durable for model in self.models], self.pending])
        else:
            self.disk.crash_at = None

    @rule(loses_unsynced=st.booleans())
    def restart(self, loses_unsynced: bool) -> None:
        self._restart(loses_unsynced, [[model.durable for model in self.models]])

    def _restart(self, loses_unsynced: bool, candidates: list[list[list[Known]]]) -> None:
        """Start again on what the disk holds, which must be one of the candidates."""
        if loses_unsynced:
            self.disk.crash()
        else:
            self.disk.come_back()
        self._build(self.world.now)
        found = [self.world.found[1], self.world.found[2]]
        names = [[(sequence, name) for sequence, name, _ in each] for each in found]
        allowed = [[[(known.sequence, known.name) for known in each] for each in state] for state in candidates]
        assert names in allowed
        # Where several are equal, the last one knows of more returns.
        state = next(
            state for state, each in zip(reversed(candidates), reversed(allowed), strict=True) if each == names
        )
        for queue, model, survivors, each in zip(self.world.queues, self.models, state, found, strict=True):
            for known, (_, _, returns) in zip(survivors, each, strict=True):
                assert returns <= known.returns
                known.returns = returns
            model.restart(survivors, queue.next_sequence)
            model.expire(self.world.now)
            model.enforce_limits()
        self._dispatch()

    # -- comparing -----------------------------------------------------------------------------------------------------

    def _dispatch(self) -> None:
        for model in self.models:
            model.expire(self.world.now)
        self.world.work()
        self.world.dispatch()
        self.world.work()
        self._take_log(expires=True)
        for model in self.models:
            model.expire(self.world.now)

    def _take_log(self, expires: bool = False) -> None:
        """Tell the model of the deliveries since last time."""
        log = list(self.log)
        self.log.clear()
        for client, entry, message, redelivered in log:
            place = client.queue.queue_id - 1
            model = self.models[place]
            if expires:
                model.expire(self.world.now)
            taker = next(taker for other, taker in self.clients[place] if other is client)
            model.deliver(name_of(message), taker, redelivered, entry is not None)
            if entry is not None:
                assert entry.consumer is client
                self.entries[place][entry.sequence] = entry

    @invariant()
    def counts_and_order(self) -> None:
        self._dispatch()
        for queue, model in zip(self.world.queues, self.models, strict=True):
            assert queue.ready.count == len(model.ready)
            assert queue.ready.message_bytes == model.ready_bytes
            assert queue.unacked == len(model.held)
            assert not (model.ready and model.has_takers()), "a message waits although a consumer has credit"
            assert [name for name, _ in model.dead] == [
                name_of(message) for place, message, _ in self.world.dead_letters if place == queue.queue_id
            ]
            assert [reason for _, reason in model.dead] == [
                reason for place, _, reason in self.world.dead_letters if place == queue.queue_id
            ]

    @invariant()
    def budget(self) -> None:
        """`pager.used` is what there is in RAM, to the octet."""
        self._dispatch()
        used = sum(entry.message.size for entries in self.entries for entry in entries.values())
        for queue in self.world.queues:
            for level in levels_of(queue):
                in_head = sum(entry.message.size for entry in level.head)
                assert level.head_size == in_head
                used += in_head
                apart = sum(entry.message.size for entry in level.stragglers)
                assert level.stragglers_size == apart
                used += apart
                if level.pages is not None:
                    used += sum(page.size for page in level.pages if page.data is not None)
                    used += level.tail.buffer.length
        assert self.world.pager.used == used

    def teardown(self) -> None:
        """Everything is consumed: nothing is left in RAM, on disk, or after a restart; the journal is short again."""
        if sys.exc_info()[1] is not None or not hasattr(self, "world"):
            return  # a failure must not be hidden by another one
        for place, queue in enumerate(self.world.queues):
            for client, _ in list(self.clients[place]):
                queue.remove_consumer(client)
            self.clients[place].clear()
            self.models[place].takers.clear()
            self.models[place].active = None
            self.ack(place, 0, 1 << 30)
            while self.models[place].ready:
                self.get(place, is_held=False)
        self.counts_and_order()
        assert self.world.pager.used == 0
        for _ in range(4):
            self.sync()
        for queue_id in (1, 2):
            assert live_bytes(self.world.page_store, queue_id) == 0
            assert self.disk.list(f"queues/{queue_id}") == []
        for _ in range(200):
            self.names += 1
            self.publish((0,), 0, True, -1, -1, 1)
            self.purge(0)
            self.sync()
        assert self.world.journal.total_bytes <= JOURNAL_LIMIT_BYTES + 2 * JOURNAL_SEGMENT_BYTES
        self._restart(True, [[[], []]])


QueueMachine.TestCase.settings = settings(
    max_examples=examples(100),
    stateful_step_count=50,
    deadline=None,
    # Shrinking takes many minutes here; the steps of a failure can be read as they are.
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
    suppress_health_check=list(HealthCheck),
)
test_queues_are_what_the_model_says = QueueMachine.TestCase
