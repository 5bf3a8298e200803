"""OwnStream against the machine: whatever gets lost on the way to leaders, every command is applied once, in order."""

from __future__ import annotations

import random

import pytest

from queues.effects import Confirmed, Refusal, SessionClosed
from queues.page import AddressBook
from queues.quorum.commands import (
    Attach,
    Detach,
    Enqueue,
    Get,
    How,
    NodeDown,
    Prefetch,
    Purge,
    Settle,
    decode_batch,
    with_time,
)
from queues.quorum.session import BATCH_BYTES, SESSION_BITS, Outcome, OwnStream, session_above
from queues.stream.append_chunk import AppendChunk
from queues.stream.chunk import Chunk
from queues.stream.commands import OpenStream
from queues.stream.settings import StreamSettings
from tests.example_counts import seeds
from tests.queues.queue_world import message_named
from tests.queues.quorum.quorum_world import Group, Member, deliveries, of_type, ready_names, settings_of
from tests.queues.stream.stream_world import chunk_of


def chunk(body: bytes) -> AppendChunk:
    """For a stream, as who packs it has it."""
    octets = chunk_of(body)
    return AppendChunk(5, octets, None, Chunk(octets))


class World:
    """One node with its stream and a leader who may not get everything."""

    def __init__(self) -> None:
        self.member = Member("n1")
        self.group = Group(self.member, settings=settings_of())
        self.stream = OwnStream("n1", 500)
        self.member.machine.begin_session(500)
        self.outcomes: list[Outcome] = []

    def propose(self, batches: list[bytes]) -> None:
        for batch in batches:
            self.group.commit(with_time(batch, self.group.now))

    def learn(self) -> bool:
        """Give the stream its effects. Returns whether its session was closed."""
        effects, self.member.effects = self.member.effects, []
        self.outcomes += self.stream.on_effects(effects)
        return any(each.session == self.stream.session for each in of_type(effects, SessionClosed))

    def flush(self) -> None:
        self.propose(self.stream.take_batches())
        assert not self.learn()


def test_commands_are_numbered_confirmed_and_forgotten() -> None:
    world = World()
    stream = world.stream
    assert stream.submit(Enqueue((1,), message_named(1)), "a") == 1
    assert stream.submit(Enqueue((9,), message_named(2)), "b") == 2
    assert stream.submit(Purge(1)) == 3
    assert stream.unapplied == 3
    assert stream.unapplied_bytes > 0
    world.flush()
    assert world.outcomes == [Outcome("a", None), Outcome("b", Refusal.NO_QUEUE)]
    assert (stream.unapplied, stream.unapplied_bytes) == (0, 0)
    assert stream.take_batches() == []


def test_a_session_is_opened_even_by_who_has_nothing_to_say() -> None:
    world = World()
    world.flush()
    assert world.member.machine.session_of("n1") == 500
    assert world.stream.take_batches() == []


def test_the_opening_goes_again_if_it_was_lost() -> None:
    world = World()
    lost = world.stream.take_batches()
    assert world.stream.take_batches() == []
    world.stream.resend()
    assert world.stream.take_batches() == lost


def test_batches_are_bounded() -> None:
    stream = OwnStream("n1", 1)
    stream.submit(Enqueue((1,), message_named(0, 2 * BATCH_BYTES)))
    assert [len(decode_batch(each, AddressBook()).commands) for each in stream.take_batches()] == [1]
    stream = OwnStream("n1", 1)
    for name in range(20):
        stream.submit(Enqueue((1,), message_named(name, 100_000)))
    stream.submit(Enqueue((1,), message_named(20, 2 * BATCH_BYTES)))
    batches = [decode_batch(each, AddressBook()) for each in stream.take_batches()]
    assert [each.first for each in batches] == [1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21]
    assert max(len(each.commands) for each in batches) == 2


def test_what_is_known_of_a_batch_of_chunks_is_what_it_decodes_to() -> None:
    stream = OwnStream("n1", 7)
    stream.submit(OpenStream(5, StreamSettings()))
    stream.submit(chunk(b"a"))
    mixed, (first, *_) = stream.take(), [stream.submit(chunk(b"x" * 100_000)) for _ in range(5)]
    assert first == 3
    assert [each.made for each in mixed] == [None]
    stream.on_effects([Confirmed(7, 1, 2, ())])
    stream.resend()
    taken = stream.take()
    assert [len(each.made.commands) for each in taken if each.made is not None] == [2, 2, 1]
    for each in taken:
        assert each.made == decode_batch(each.octets, AddressBook())
    stream.submit(chunk(b"b"))
    stream.submit(Purge(1))
    stream.submit(chunk(b"c"))
    assert stream.take()[-1].made is None
    stream.reopen(9)
    again = stream.take()
    assert [each.made for each in again] == [None] * len(again)
    assert sum(len(decode_batch(each.octets, AddressBook()).commands) for each in again) == 8


def test_everything_that_is_not_applied_goes_again() -> None:
    world = World()
    stream = world.stream
    stream.submit(Enqueue((1,), message_named(1)), 1)
    lost = stream.take_batches()
    stream.submit(Enqueue((1,), message_named(2)), 2)
    world.propose(stream.take_batches())
    assert ready_names(world.member) == [], "behind a gap"
    stream.resend()
    world.flush()
    world.propose(lost)
    assert ready_names(world.member) == [1, 2]
    assert world.outcomes == [Outcome(1, None), Outcome(2, None)]


def test_the_batch_says_what_was_seen() -> None:
    world = World()
    stream = world.stream
    stream.submit(Purge(9))
    stream.submit(Purge(9))
    world.flush()
    assert len(world.member.state.origins["n1"].notices) == 2
    stream.submit(Purge(9))
    world.flush()
    assert [notice.at for notice in world.member.state.origins["n1"].notices] == [2, 3]


def test_a_new_session_attaches_the_consumers_again_and_goes_on() -> None:
    world = World()
    stream = world.stream
    kept, gone, prefetching = stream.new_consumer(), stream.new_consumer(), stream.new_consumer()
    for number in (kept, gone, prefetching):
        stream.submit(Attach(number, 1, 1, False, 0, False, f"tag {number}"))
    stream.submit(Detach(gone, True))
    stream.submit(Prefetch(prefetching, 7))
    stream.submit(Enqueue((1,), message_named(1)), "first")
    world.flush()
    stream.submit(Settle(kept, How.ACK, ((1, 1),)), "too late")
    stream.submit(Enqueue((1,), message_named(2)), "second")
    late = stream.new_consumer()
    stream.submit(Attach(late, 1, 1, False, 0, False, "late"), "attach")
    stream.submit(Get(stream.new_consumer(), 1), "get")
    before = stream.take_batches()
    world.group.lead(NodeDown("n1", 500))
    world.propose(before)
    assert world.learn()
    reopened = stream.reopen(501)
    world.member.machine.begin_session(stream.session)
    assert reopened.dropped == ["too late"]
    assert sorted(reopened.consumers)[:3] == [kept, prefetching, late]
    world.propose(stream.take_batches())
    effects = world.member.effects
    assert deliveries(effects)[0] == (reopened.consumers[kept], 1, 1, 1), "it was given back, and comes again"
    assert not world.learn()
    assert [outcome.token for outcome in world.outcomes] == ["first", "second", "attach", "get"]
    holders = {each.tag: each.prefetch for each in world.member.queue().delivery_owners.values() if each.is_attached}
    assert holders == {f"tag {kept}": 1, f"tag {prefetching}": 7, "late": 1}


def test_a_consumer_that_was_refused_is_not_attached_again() -> None:
    world = World()
    stream = world.stream
    stream.submit(Attach(stream.new_consumer(), 9, 1, False, 0, False, "of no queue"))
    kept = stream.new_consumer()
    stream.submit(Attach(kept, 1, 1, False, 0, False, "kept"))
    world.flush()
    world.group.lead(NodeDown("n1", 500))
    assert world.learn()
    assert list(stream.reopen(501).consumers) == [kept]


def test_what_goes_again_is_what_went_before() -> None:
    world = World()
    stream = world.stream
    stream.submit(Purge(1))
    world.flush()
    for name in range(3):
        stream.submit(Enqueue((1,), message_named(name)))
    first = stream.take_batches()
    stream.submit(Enqueue((1,), message_named(3)))
    second = stream.take_batches()
    stream.resend()
    assert stream.take_batches() == first + second
    assert [decode_batch(each, AddressBook()).first for each in first + second] == [2, 5]
    world.propose(first)
    assert not world.learn()
    assert stream.unapplied == 1
    stream.resend()
    assert stream.take_batches() == second


def test_sessions_and_numbers_only_rise() -> None:
    stream = OwnStream("n1", 500)
    number = stream.new_consumer()
    stream.reopen(3)
    assert stream.session == 501
    assert stream.new_consumer() > number
    with pytest.raises(ValueError, match="session 0"):
        OwnStream("n1", 0)


@pytest.mark.parametrize("seed", seeds(range(50)))
def test_every_publish_is_applied_once_and_in_order(seed: int) -> None:
    """Batches get lost, come twice and late; sessions are declared down; leaders change."""
    chance = random.Random(seed)
    world = World()
    stream = world.stream
    flying: list[bytes] = []
    published = 0
    for _ in range(200):
        choice = chance.random()
        if choice < 0.5:
            published += 1
            stream.submit(Enqueue((1,), message_named(published)), published)
            flying += stream.take_batches()
        elif choice < 0.75 and flying:
            world.propose([flying.pop(0)])
        elif choice < 0.85 and flying:
            world.propose([chance.choice(flying)])
        elif choice < 0.9 and flying:
            flying.pop(chance.randrange(len(flying)))
        elif choice < 0.95:
            stream.resend()
            flying += stream.take_batches()
        elif choice < 0.97:
            world.group.lead(NodeDown("n1", stream.session))
        if chance.random() < 0.5 and world.learn():
            stream.reopen(0)
            world.member.machine.begin_session(stream.session)
            flying += stream.take_batches()
    for _ in range(3):
        if world.learn():
            stream.reopen(0)
            world.member.machine.begin_session(stream.session)
        stream.resend()
        world.propose(stream.take_batches())
    assert not world.learn()
    assert ready_names(world.member) == list(range(1, published + 1))
    assert [outcome.token for outcome in world.outcomes] == list(range(1, published + 1))


def test_a_session_is_the_time() -> None:
    now = 1_700_000_000_000 << SESSION_BITS
    assert session_above(0, now, lambda count: b"\x07" * count) == now | 7
    assert session_above(now - 1, now, lambda count: b"\x00" * count) == now


def test_two_runs_whose_clock_was_set_back_have_sessions_of_their_own() -> None:
    """The log of the first is lost here in a crash, and known to others: the second must not go on in its session."""
    newest = 1_700_000_000_000 << SESSION_BITS
    chance = random.Random(5)
    earlier = newest - (5000 << SESSION_BITS)
    found = {session_above(newest, earlier, chance.randbytes) for _ in range(1000)}
    assert len(found) == 1000
    assert min(found) > newest
    assert session_above(newest, newest, lambda count: b"\x00" * count) == newest + 1
