"""Who reads which partition: counts that differ by one at most, and nothing moves that need not."""

from __future__ import annotations

import random

import pytest

from queues.effects import Confirmed, Refusal
from queues.quorum.commands import Command, NodeDown, encode_leader_batch
from queues.stream.commands import ForgetGroup, JoinGroup, JoinPartitions, LeavePartitions, OpenGroup
from queues.stream.groups import MOST_GROUPS, Member
from queues.stream.murmur import murmur3, partition_of
from queues.stream.shares import Share
from tests.example_counts import seeds
from tests.queues.quorum.quorum_world import of_type
from tests.queues.stream.stream_world import STREAM, commit_as, one_stream, stream_of

A, B, C = Member("n1", 1), Member("n2", 1), Member("n1", 2)


def test_who_comes_gets_what_is_too_much_for_the_others() -> None:
    share = Share()
    share.join(A, 5)
    assert share.owners == [A] * 5
    share.join(B, 5)
    assert share.owners == [A, A, A, B, B]
    share.join(C, 5)
    assert share.owners == [A, A, C, B, B]
    share.leave(A)
    assert share.owners == [B, C, C, B, B]
    share.leave(B)
    share.leave(C)
    assert share.owners == [None] * 5


def test_a_stream_that_grows_gives_the_new_ones_to_who_has_least() -> None:
    share = Share()
    share.join(A, 1)
    share.join(B, 1)
    assert share.owners == [A]
    share.join(A, 4)
    assert share.owners == [A, A, B, B]
    share.join(B, 3)  # a node that has not heard of it
    assert share.owners == [A, A, B, B]


@pytest.mark.parametrize("seed", seeds(range(20)))
def test_no_more_moves_than_need_be(seed: int) -> None:
    chance = random.Random(seed)
    share = Share()
    present: list[Member] = []
    partitions = chance.randint(1, 12)
    for number in range(200):
        before = list(share.owners)
        sizes = {member: len(share.of(member)) for member in present}
        if not present or chance.random() < 0.5:
            member = Member(f"n{chance.randint(1, 3)}", number)
            present.append(member)
            share.join(member, partitions)
        elif chance.random() < 0.1:
            node = chance.choice(present).node
            present = [member for member in present if member.node != node]
            assert share.lose_all(node)
        else:
            share.leave(present.pop(chance.randrange(len(present))))
        assert share.members == present
        counts = [len(share.of(member)) for member in present]
        assert sum(counts) == (partitions if present else 0)
        if present:
            assert max(counts) - min(counts) <= 1
            moved = [old for old, new in zip(before, share.owners, strict=False) if old in present and old != new]
            most = -(-partitions // len(present))
            least = partitions // len(present)
            gave = {member: moved.count(member) for member in present if member in sizes}
            for member, count in gave.items():
                assert count == 0 or sizes[member] - count in (least, most)
                assert count <= max(0, sizes[member] - least)


def refusal_of(node: object, command: Command) -> Refusal | None:
    confirmed = of_type(node.send(command), Confirmed)[0]  # type: ignore[attr-defined]
    return confirmed.refused[0].refusal if confirmed.refused else None


def test_the_log_keeps_who_reads_what() -> None:
    group, node = one_stream()
    name = node.member.name
    assert refusal_of(node, JoinPartitions(STREAM, "g", 1, 3)) is Refusal.NO_QUEUE
    assert refusal_of(node, OpenGroup(STREAM, "g", 7)) is None
    assert refusal_of(node, OpenGroup(STREAM, "g", 9)) is None
    assert refusal_of(node, JoinPartitions(STREAM, "g", 1, 3)) is None
    commit_as(group, "other", 1, JoinPartitions(STREAM, "g", 4, 3))
    stream = stream_of(group.members[0])
    found, share = stream.groups.get("g"), stream.shares.get("g")
    assert found is not None
    assert share is not None
    assert (found.position, found.members) == (7, [])
    assert share.owners == [Member(name, 1), Member(name, 1), Member("other 1", 4)]
    assert refusal_of(node, ForgetGroup(STREAM, "g")) is Refusal.EXCLUSIVE
    group.commit(encode_leader_batch(group.now, [NodeDown("other 1", 1)]))
    assert share.owners == [Member(name, 1)] * 3
    assert refusal_of(node, LeavePartitions(STREAM, "g", 1)) is None
    assert refusal_of(node, ForgetGroup(STREAM, "g")) is None
    assert stream.shares.get("g") is None
    node.send(*[OpenGroup(STREAM, f"{number}", 0) for number in range(MOST_GROUPS)])
    assert refusal_of(node, OpenGroup(STREAM, "one more", 0)) is Refusal.FULL


def test_a_reader_of_one_partition_alone_is_no_member_of_all() -> None:
    _, node = one_stream()
    node.send(JoinGroup(STREAM, "g", 1, 0))
    assert refusal_of(node, ForgetGroup(STREAM, "g")) is Refusal.EXCLUSIVE


@pytest.mark.parametrize(
    ("key", "seed", "expected"),
    [
        (b"", 0, 0), (b"", 1, 0x514E28B7), (b"\xff\xff\xff\xff", 0, 0x76293B50), (b"!Ce\x87", 0, 0xF55B516B),
        (b"!Ce", 0, 0x7E4A8634), (b"!C", 0, 0xA0F7B07A), (b"!", 0, 0x72661CF4),
        (b"Hello, world!", 0x9747B28C, 0x24884CBA),
        (b"The quick brown fox jumps over the lazy dog", 0x9747B28C, 0x2FA826CD),
    ],
)  # fmt: skip
def test_murmur_is_the_one_of_others(key: bytes, seed: int, expected: int) -> None:
    assert murmur3(key, seed) == expected


def test_keys_go_where_clients_of_super_streams_send_them() -> None:
    """Three partitions: as RabbitMQ's .NET client has it in its tests."""
    keys = ("hello1", "hello2", "hello3", "hello4", "hello5", "hello6", "hello7", "hello8", "hello9", "hello10")
    assert [partition_of(key.encode(), 3) for key in keys] == [1, 0, 1, 2, 0, 2, 0, 1, 0, 2]
    assert partition_of(b"hello88", 3) == 1
