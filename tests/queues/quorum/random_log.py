"""Random traffic of three nodes on two queues, from a seed: what the members of a group are compared with.

Every node has a member, and a shadow of the same name that never crashes, never installs and has all the RAM: what it
is told is what the member has to be told.
"""

from __future__ import annotations

import random
from typing import Any

from queues.arguments import Overflow
from queues.effects import ConsumerCancelled, Delivered, Effect, GetAnswered, SessionClosed
from queues.quorum.commands import (
    Attach,
    Batch,
    Command,
    Detach,
    Dispatched,
    Enqueue,
    Get,
    How,
    NodeDown,
    OpenQueue,
    Prefetch,
    Purge,
    Settle,
    encode_batch,
    encode_leader_batch,
)
from queues.quorum.lease_commands import AckLease, Claim, OpenLease, ReleaseLease
from queues.quorum.retry import Retry, RetryType
from queues.quorum.settings import QuorumSettings
from tests.queues.queue_world import message_named
from tests.queues.quorum.quorum_world import BUDGETS, SESSION, START, Member, settings_of

QUEUES = (1, 2)


def random_settings(chance: random.Random) -> QuorumSettings:
    """Anything a queue may be told."""

    def some(value: Any) -> Any:
        return value if chance.random() < 0.3 else None

    return settings_of(
        message_ttl=some(60),
        max_length=some(25),
        max_length_bytes=some(4_000),
        overflow=chance.choice(list(Overflow)),
        dead_letter_exchange=some("dead"),
        max_priority=some(3),
        single_active_consumer=chance.random() < 0.2,
        delivery_limit=some(2),
        consumer_timeout=some(80),
        deduplication_window=chance.choice([0, 3]),
        deduplication_ttl=some(50),
        retry=random_retry(chance),
        gives_way=chance.random() < 0.7,
    )


def random_retry(chance: random.Random) -> Retry | None:
    """Delayed retry of any type, or none."""
    if chance.random() < 0.6:
        return None
    return Retry(chance.choice(list(RetryType)[1:]), chance.choice([1, 10, 30]), chance.choice([None, 15, 100]))


class RandomNode:
    """A node that publishes, consumes and settles, as far as it has been told of deliveries."""

    def __init__(self, name: str, chance: random.Random, budget_bytes: int, seed: int) -> None:
        self.member = Member(name, budget_bytes, seed)
        self.shadow = Member(name, seed=seed)
        self.chance = chance
        self.numbers = 0
        self.is_away = False
        self.stale: list[tuple[int, int]] = []
        self.begin(SESSION)

    def begin(self, session: int) -> None:
        self.session = session
        self.sequence = 0
        self.seen = 0
        self.taken = 0
        self.consumers: list[int] = []
        self.held: list[tuple[int, int]] = []
        for each in (self.member, self.shadow):
            each.machine.begin_session(session)

    def number(self) -> int:
        self.numbers += 1
        return (SESSION << 20) + self.numbers

    def read_effects(self) -> None:
        """Learn what the member was told."""
        fresh: list[Effect] = self.member.effects[self.taken :]
        self.taken = len(self.member.effects)
        for effect in fresh:
            if isinstance(effect, Delivered | GetAnswered) and effect.message is not None:
                self.held.append((effect.consumer, effect.delivery_id))
            elif isinstance(effect, ConsumerCancelled) and effect.consumer in self.consumers:
                self.consumers.remove(effect.consumer)
            elif isinstance(effect, SessionClosed) and effect.session == self.session:
                self.stale += self.held
                self.begin(self.session + 1)
                self.taken = len(self.member.effects)
                return
            elif hasattr(effect, "session"):
                self.seen = max(self.seen, getattr(effect, "last", 0))

    def command(self, name: int) -> Command:
        """Something that a node might want."""
        chance = self.chance
        queue_id = chance.choice(QUEUES)
        if chance.random() < 0.12:
            return self._lease(queue_id)
        choice = chance.random()
        if choice < 0.5:
            queue_ids = QUEUES if chance.random() < 0.2 else (queue_id,)
            message = message_named(
                name, chance.choice([0, 30, 150, 400, 17_000 if chance.random() < 0.1 else 5]), True,
                chance.randint(-1, 4), chance.choice([-1, -1, -1, 0, 40]),
            )  # fmt: skip
            producer = b"p%d" % chance.randint(0, 2) if chance.random() < 0.2 else b""
            message_id = b"m%d" % chance.randint(0, 9) if chance.random() < 0.2 else b""
            return Enqueue(queue_ids, message, producer, chance.randint(0, name) if producer else 0, message_id)
        if choice < 0.75 and (self.held or self.stale):
            return self._settle()
        if choice < 0.85:
            number = self.number()
            self.consumers.append(number)
            prefetch, priority = chance.choice([0, 1, 2, 10]), chance.choice([0, 0, 1])
            return Attach(number, queue_id, prefetch, chance.random() < 0.1, priority, chance.random() < 0.05, "t")
        if choice < 0.93 and self.consumers:
            consumer = chance.choice(self.consumers)
            if chance.random() < 0.4:
                return Prefetch(consumer, chance.randint(0, 5))
            self.consumers.remove(consumer)
            return Detach(consumer, chance.random() < 0.5, chance.choice([0, 1, 3, 1 << 40]))
        if choice < 0.97:
            return Get(self.number(), queue_id)
        return Purge(queue_id) if choice < 0.98 else OpenQueue(queue_id, random_settings(chance))

    def _lease(self, queue_id: int) -> Command:
        """Something about a lease group, as far as this node knows it."""
        chance = self.chance
        name, owner = chance.choice("ab"), chance.choice("xxy")
        known = self.member.machine.lease_groups(queue_id).get(name)
        if known is None or chance.random() < 0.1:
            return OpenLease(queue_id, name, f"{self.number():032x}", owner)
        caller = (queue_id, name, known.incarnation if chance.random() < 0.95 else "other", owner)
        choice = chance.random()
        if choice < 0.6:
            after = chance.choice([known.next, known.next, known.trimmed, known.next + 1])
            return Claim(*caller, after, chance.randint(0, 12), chance.choice([1, 400, 1 << 40]), chance.random() < 0.5)
        if choice < 0.92:
            return AckLease(*caller, chance.randint(known.trimmed, known.next + (chance.random() < 0.1)))
        return ReleaseLease(*caller)

    def _settle(self) -> Settle:
        from_stale = self.stale and (not self.held or self.chance.random() < 0.2)
        consumer, delivery_id = self.chance.choice(self.stale if from_stale else self.held)
        last = delivery_id + self.chance.choice([0, 0, 2, 50])
        how = self.chance.choice([How.ACK, How.ACK, How.REQUEUE, How.REJECT, How.RETURN, How.FAIL])
        self.held = [each for each in self.held if not (each[0] == consumer and delivery_id <= each[1] <= last)]
        return Settle(consumer, how, ((delivery_id, last),))


class RandomGroup:
    """The log, the three nodes, and what is random."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.log: list[bytes] = []
        self.now = START
        self.names = 0
        self.nodes = [RandomNode(f"n{number + 1}", self.chance, budget, seed) for number, budget in enumerate(BUDGETS)]
        opening = [OpenQueue(queue_id, random_settings(self.chance)) for queue_id in QUEUES]
        self._commit(encode_batch(Batch(self.now, "admin", 1, 1, 0, list(opening))))

    def _commit(self, data: bytes) -> None:
        self.log.append(data)
        if self.chance.random() < 0.1:
            self.log.append(data)  # sent again
        for node in self.nodes:
            node.shadow.apply(self.log)
            if not node.is_away:
                node.member.apply(self.log)
                node.read_effects()

    def step(self) -> None:
        """One entry of the log."""
        chance = self.chance
        self.now += chance.choice([0, 0, 1, 5, 30])
        if chance.random() < 0.15:
            self._lead()
            return
        node = chance.choice(self.nodes)
        commands = []
        for _ in range(chance.choice([0, 1, 1, 3, 8])):
            self.names += 1
            commands.append(node.command(self.names))
        if chance.random() < 0.03:
            # A batch that was lost on its way: what follows it is skipped until it comes.
            lost = Batch(self.now, node.member.name, node.session, node.sequence + 5, 0, list(commands))
            self._commit(encode_batch(lost))
        first = node.sequence + 1
        node.sequence += len(commands)
        self._commit(encode_batch(Batch(self.now, node.member.name, node.session, first, node.seen, list(commands))))

    def _lead(self) -> None:
        commands: list[Any] = []
        shadow = self.nodes[0].shadow
        choice = self.chance.random()
        if choice < 0.1:
            node = self.chance.choice(self.nodes)
            commands.append(NodeDown(node.member.name, node.session))
        elif choice < 0.5:
            queue_id = self.chance.choice(QUEUES)
            letters = shadow.queue(queue_id).letters
            commands.append(Dispatched(queue_id, self.chance.randint(0, letters.next_letter)))
        self._commit(encode_leader_batch(self.now, commands))
