"""Members of a group agree about queues over streams whatever their memory, crashes, checkpoints and installs, and each
node is told the same; and no message is in two hands, or before an earlier one of its key."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from queues.effects import Delivered, GetAnswered, Unreadable
from queues.message import Message
from queues.quorum.commands import (
    Attach,
    Batch,
    Command,
    Detach,
    DropQueue,
    Get,
    OpenQueue,
    Prefetch,
    Purge,
    encode_batch,
)
from queues.quorum.cursor_commands import OpenCursor
from queues.quorum.cursor_queue import CursorQueue
from queues.quorum.cursor_settings import CursorSettings
from queues.stream.chunk import ChunkBuilder
from queues.stream.commands import AppendChunk, OpenStream, Trim
from queues.stream.settings import StreamSettings
from queues.stream.start import Start, StartKind
from tests.example_counts import seeds
from tests.queues.quorum.digest import digest_of
from tests.queues.quorum.quorum_world import BUDGETS, START, Member
from tests.queues.quorum.random_log import QUEUES, RandomGroup, RandomNode, random_retry, random_settings
from tests.queues.quorum.test_quorum_determinism import come_back, plain
from tests.queues.stream.cursor_world import message_of, settings_of, value_hash_of
from tests.queues.stream.stream_world import tiny_pages

__all__ = ["tiny_pages"]
STREAMS = (5, 6)
#: By queue, the stream that it is over; two are over one.
CURSORS = {7: 5, 8: 5, 9: 6}
STEPS = 200


def cursor_settings(chance: random.Random, queue_id: int) -> CursorSettings:
    """Anything such a queue may be told. Whether it has filters, and the order of keys, goes by its id."""
    def some(value: int) -> int | None:
        return value if chance.random() < 0.3 else None

    return settings_of(
        Start(chance.choice(list(StartKind)), chance.choice([0, 3, 100])),
        consumer_timeout=some(80), message_ttl=some(200), delivery_limit=some(2), stream_id=CURSORS[queue_id],
        dead_letter_exchange="dead" if chance.random() < 0.4 else None,
        single_active_consumer=chance.random() < 0.2,
        values=(b"red",) if queue_id == 8 else (),
        takes_unfiltered=chance.random() < 0.5,
        has_key_order=queue_id == 9,
        retry=random_retry(chance), gives_way=chance.random() < 0.5,
    )  # fmt: skip


def stream_settings(chance: random.Random) -> StreamSettings:
    """Limits by which marks are a few messages apart, or none."""
    return StreamSettings(chance.choice([None, 4_000]), chance.choice([None, 300]), 400)


class CursorNode(RandomNode):
    """A node that publishes to the streams, and consumes from the queues over them."""

    def command(self, name: int) -> Command:
        chance = self.chance
        choice = chance.random()
        queue_id = chance.choice(list(CURSORS))
        if choice < 0.3:
            builder = ChunkBuilder(16)
            for number in range(chance.choice([1, 2, 8])):
                message = self._message(b"%d " % (10 * name + number))
                builder.add(message, 0, value_hash_of(message))
            return AppendChunk(chance.choice(STREAMS), builder.seal())
        if choice < 0.6 and (self.held or self.stale):
            return self._settle()
        if choice < 0.72:
            self.consumers.append(self.number())
            prefetch, no_ack = chance.choice([0, 1, 2, 10]), chance.random() < 0.1
            return Attach(self.consumers[-1], queue_id, prefetch, no_ack, chance.choice([0, 0, 1]), False, "t")
        if choice < 0.84 and self.consumers:
            consumer = chance.choice(self.consumers)
            if chance.random() < 0.4:
                return Prefetch(consumer, chance.randint(0, 5))
            self.consumers.remove(consumer)
            return Detach(consumer, chance.random() < 0.5, chance.choice([0, 1, 3, 1 << 40]))
        if choice < 0.9:
            return Get(self.number(), queue_id)
        return self._seldom(queue_id)

    def _seldom(self, queue_id: int) -> Command:
        chance = self.chance
        choice = chance.random()
        if choice < 0.35:
            stream_id = chance.choice(STREAMS)
            stream = self.shadow.machine.stream(stream_id)
            end = stream.next if stream is not None else 0
            return Trim(stream_id, chance.randint(max(0, end - 30), end))
        if choice < 0.45:
            return Purge(queue_id)
        if choice < 0.5:
            return DropQueue(chance.choice([queue_id, queue_id, 6]))
        if choice < 0.6:
            return OpenStream(chance.choice(STREAMS), stream_settings(chance))
        return OpenCursor(queue_id, cursor_settings(chance, queue_id))

    def _message(self, body: bytes) -> Message:
        chance = self.chance
        value = chance.choice([None, b"red", b"green"])
        body += b"." * chance.choice([0, 30, 300])
        return message_of(body, chance.choice([b"", b"k", b"l"]), value)


class CursorGroup(RandomGroup):
    """Two streams, three queues over them, and two other queues, of which nobody wants anything."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.log: list[bytes] = []
        self.now = START
        self.names = 0
        self.nodes: list[RandomNode] = [
            CursorNode(f"n{number + 1}", self.chance, budget, seed) for number, budget in enumerate(BUDGETS)
        ]
        opening: list[Command] = [OpenQueue(queue_id, random_settings(self.chance)) for queue_id in QUEUES]
        opening += [OpenStream(stream_id, stream_settings(self.chance)) for stream_id in STREAMS]
        opening += [OpenCursor(queue_id, cursor_settings(self.chance, queue_id)) for queue_id in CURSORS]
        self._commit(encode_batch(Batch(self.now, "admin", 1, 1, 0, opening)))


def cursors_of(member: Member) -> Iterator[CursorQueue]:
    for queue_id in CURSORS:
        queue = member.state.queues.get(queue_id)
        if isinstance(queue, CursorQueue):
            yield queue


def check(group: CursorGroup) -> None:
    """Who is there agrees, and what a queue knows of itself adds up."""
    wanted = digest_of(group.nodes[0].shadow.machine)
    for node in group.nodes:
        members = [node.shadow] if node.is_away else [node.shadow, node.member]
        for member in members:
            assert digest_of(member.machine) == wanted, member.name
            for queue in cursors_of(member):
                check_queue(queue)


def check_queue(queue: CursorQueue) -> None:
    place = queue.place
    held = [entry for owner in queue.delivery_owners.values() for entry, _ in owner.held.values()]
    held += [entry for _, _, entry in place.resting.entries]
    offsets = [entry.sequence for entry in [*held, *place.head]]
    offsets += [offset for waiting in place.waiting.values() for offset in waiting]
    assert len(set(offsets)) == len(offsets), "one message is in two hands"
    assert all(offset < place.next for offset in offsets)
    assert place.count == queue.ready.count == len(place.head) + place.waits + place.unread
    keys = [entry.journal_segment for entry in [*held, *place.head] if entry.journal_segment]
    assert sorted(keys) == sorted(place.keys), "one of each key is out"
    assert queue.unacked == len(held) - place.resting.count
    for entry in [*held, *place.head]:
        waiting = place.waiting.get(entry.journal_segment, ())
        assert all(offset > entry.sequence for offset in waiting), "a later one of the key is out"


@pytest.mark.usefixtures("tiny_pages")
@pytest.mark.parametrize("seed", seeds(range(20)))
def test_members_agree_however_often_they_crash(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("queues.quorum.cursor_ready.LOOKED_AT_ONCE", 5)
    monkeypatch.setattr("queues.quorum.cursor_ready.LOOK_AHEAD", 7)
    group = CursorGroup(seed)
    chance = group.chance
    for _ in range(STEPS):
        group.step()
        for node in group.nodes:
            choice = chance.random()
            if choice < 0.04:
                node.member.checkpoint(is_synced=chance.random() < 0.7)
            elif choice < 0.06:
                node.member.restart(group.log)
        if chance.random() < 0.2:
            check(group)
    check(group)
    for node in group.nodes:
        assert plain(node.member.effects) == plain(node.shadow.effects), "a crash tells nobody anything twice"


@pytest.mark.usefixtures("tiny_pages")
@pytest.mark.parametrize("seed", seeds(range(100, 120)))
def test_who_was_away_is_told_what_it_missed(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("queues.quorum.cursor_ready.LOOKED_AT_ONCE", 5)
    monkeypatch.setattr("tests.queues.quorum.test_quorum_determinism.check_told", lambda node: check_told(node))
    group = CursorGroup(seed)
    chance = group.chance
    away: RandomNode | None = None
    for _ in range(STEPS):
        group.step()
        if away is None and chance.random() < 0.1:
            away = chance.choice(group.nodes)
            away.is_away = True
        elif away is not None and chance.random() < 0.1:
            come_back(group, away)
            away = None
        if chance.random() < 0.1:
            check(group)
    if away is not None:
        come_back(group, away)
    check(group)


def check_told(node: RandomNode) -> None:
    """Of what its consumers hold, a node has heard, message or not."""
    told = {
        (each.consumer, each.delivery_id)
        for each in node.member.effects
        if isinstance(each, Delivered | GetAnswered | Unreadable)
    }
    for queue in cursors_of(node.member):
        for (origin, number), owner in queue.delivery_owners.items():
            if origin == node.member.name:
                assert {(number, delivery_id) for delivery_id in owner.held} <= told
