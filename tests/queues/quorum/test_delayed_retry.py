"""Delayed retry: what comes back to a quorum queue rests before it comes again."""

from __future__ import annotations

import random

import pytest

from queues.effects import Counted
from queues.message import Entry
from queues.page import AddressBook
from queues.quorum.commands import (
    VERSION,
    VERSION_WITH_STREAMS,
    Batch,
    Command,
    Detach,
    How,
    NodeDown,
    OpenQueue,
    Purge,
    Settle,
    decode_batch,
    encode_batch,
)
from queues.quorum.retry import Retry, RetryType
from queues.wire.reader import Malformed
from tests.queues.quorum.digest import digest_of
from tests.queues.quorum.quorum_world import (
    SESSION,
    Group,
    Member,
    Stream,
    deliveries,
    letters_of,
    names_delivered,
    of_type,
    one_node,
    ready_names,
    resting_of,
    settings_of,
)

ALL = Retry(RetryType.ALL, 100, 250)
KEPT = {"delivery_limit": None}


def test_it_rests_longer_each_time_up_to_the_most() -> None:
    group, node = one_node(retry=ALL)
    consumer, _ = node.attach()
    node.publish(7)
    for delivery, delay in enumerate((100, 200, 250, 250), 1):
        assert names_delivered(node.send(Settle(consumer, How.REQUEUE, ((delivery, delivery),)))) == []
        assert resting_of(group.members[0]) == [7]
        assert names_delivered(group.advance(delay - 1)["n1"]) == []
        assert deliveries(group.advance(1)["n1"]) == [(consumer, delivery + 1, 7, delivery)]
        assert resting_of(group.members[0]) == []
    node.send(Settle(consumer, How.ACK, ((5, 5),)))
    assert group.members[0].pager.used == 0
    assert group.members[0].machine.next_deadline() is None


def test_without_a_most_it_rests_ever_longer() -> None:
    assert [Retry(RetryType.ALL, 10).until(_returned(times), 1_000) for times in (1, 2, 50)] == [1_010, 1_020, 1_500]


def _returned(times: int) -> Entry:
    group, node = one_node()
    node.attach()
    node.publish(1)
    entry: Entry = next(iter(group.members[0].queue().delivery_owners.values())).held[1][0]
    entry.returns = times
    return entry


@pytest.mark.parametrize(
    ("kind", "how", "rests"),
    [
        (RetryType.ALL, How.REQUEUE, True),
        (RetryType.ALL, How.FAIL, True),
        (RetryType.ALL, How.RETURN, False),  # its client has never had it
        (RetryType.FAILED, How.REQUEUE, False),
        (RetryType.FAILED, How.FAIL, True),
        (RetryType.RETURNED, How.REQUEUE, True),
        (RetryType.RETURNED, How.FAIL, False),
    ],
)
def test_which_rest(kind: RetryType, how: How, rests: bool) -> None:
    group, node = one_node(retry=Retry(kind, 100))
    consumer, _ = node.attach()
    node.publish(1)
    again = names_delivered(node.send(Settle(consumer, how, ((1, 1),))))
    assert (again, resting_of(group.members[0])) == (([], [1]) if rests else ([1], []))


@pytest.mark.parametrize(("kind", "rests"), [(RetryType.FAILED, True), (RetryType.RETURNED, False)])
def test_a_channel_that_is_closed_has_failed(kind: RetryType, rests: bool) -> None:
    group, node = one_node(retry=Retry(kind, 100))
    consumer, _ = node.attach()
    node.publish(1)
    node.send(Detach(consumer, True))
    assert resting_of(group.members[0]) == ([1] if rests else [])
    assert ready_names(group.members[0]) == ([] if rests else [1])


@pytest.mark.parametrize(("kind", "rests"), [(RetryType.FAILED, False), (RetryType.RETURNED, True)])
def test_a_node_that_is_gone_and_a_late_consumer_have_returned(kind: RetryType, rests: bool) -> None:
    for consumer_timeout in (None, 50):
        group, node = one_node(retry=Retry(kind, 100), consumer_timeout=consumer_timeout)
        node.attach()
        node.publish(1)
        if consumer_timeout is None:
            group.lead(NodeDown("n1", SESSION))
        else:
            group.advance(50)
        assert resting_of(group.members[0]) == ([1] if rests else [])


def test_others_are_not_held_up_and_it_comes_to_its_old_place() -> None:
    group, node = one_node(retry=ALL)
    consumer, _ = node.attach(prefetch=1)
    node.publish(1, 2, 3)
    assert names_delivered(node.send(Settle(consumer, How.REQUEUE, ((1, 1),)))) == [2]
    group.advance(100)
    assert ready_names(group.members[0]) == [1, 3]


def test_the_delivery_limit_comes_first() -> None:
    group, node = one_node(retry=ALL, delivery_limit=1, dead_letter_exchange="dead")
    consumer, _ = node.attach()
    node.publish(1)
    node.send(Settle(consumer, How.REQUEUE, ((1, 1),)))
    group.advance(100)
    node.send(Settle(consumer, How.REQUEUE, ((2, 2),)))
    assert (resting_of(group.members[0]), letters_of(group.members[0])) == ([], [(1, "DELIVERY_LIMIT", 2)])


def test_it_rests_no_longer_than_it_lives() -> None:
    group, node = one_node(retry=ALL, message_ttl=60, dead_letter_exchange="dead")
    consumer, _ = node.attach()
    node.publish(1)
    node.send(Settle(consumer, How.REQUEUE, ((1, 1),)))
    assert names_delivered(group.advance(60)["n1"]) == []
    assert (resting_of(group.members[0]), letters_of(group.members[0])) == ([], [(1, "EXPIRED", 1)])


def test_what_rests_is_counted_by_itself_and_purged() -> None:
    group, node = one_node(retry=ALL)
    consumer, _ = node.attach(prefetch=2)
    node.publish(1, 2, 3)
    node.send(Settle(consumer, How.REQUEUE, ((1, 1),)))
    figures = group.members[0].queue().statistics()
    assert (figures.ready, figures.unacked, figures.delayed) == (0, 2, 1)
    assert of_type(node.send(Purge(1)), Counted)[0].messages == 1
    assert group.members[0].queue().statistics().delayed == 0
    assert names_delivered(group.advance(1000)["n1"]) == []


def test_a_queue_that_has_it_no_more_lets_rest_what_rests() -> None:
    group, node = one_node(retry=ALL)
    consumer, _ = node.attach()
    node.publish(1)
    node.send(Settle(consumer, How.REQUEUE, ((1, 1),)))
    node.send(OpenQueue(1, settings_of()))
    assert b"".join(group.members[0].machine.export())[5] == VERSION_WITH_STREAMS
    assert names_delivered(group.advance(100)["n1"]) == [1]
    assert b"".join(group.members[0].machine.export())[5] == VERSION
    assert names_delivered(node.send(Settle(consumer, How.REQUEUE, ((2, 2),)))) == [1]


@pytest.mark.parametrize("sequence", [1, (1 << 22) + 5, (1 << 43) - 1, (1 << 43) + 77])
def test_a_message_keeps_its_number_and_its_expiry(sequence: int) -> None:
    group, node = one_node(retry=ALL, message_ttl=10_000)
    member = group.members[0]
    member.queue().next_sequence = sequence
    consumer, _ = node.attach(prefetch=1)
    node.publish(1)
    expires_at = group.now + 10_000
    node.send(Settle(consumer, How.REQUEUE, ((1, 1),)))
    member.checkpoint()
    member.restart(group.log)
    group.advance(100)
    entry, _ = next(iter(member.queue().delivery_owners.values())).held[2]
    assert (entry.sequence, entry.expires_at, entry.returns, bool(entry.is_redelivered)) == (
        sequence, expires_at, 1, True,
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(8))
def test_very_many_are_paged_and_members_agree(seed: int) -> None:
    chance = random.Random(seed)
    members = [Member("n1"), Member("n2", 20_000), Member("n3", 2_000)]
    group = Group(*members, settings=settings_of(retry=Retry(RetryType.ALL, 300, 900), **KEPT))
    node = Stream(group, members[0])
    consumer, _ = node.attach(prefetch=20)
    held: dict[int, int] = {}
    taken = done = 0

    def look() -> None:
        nonlocal taken
        for _, delivery, name, _ in deliveries(members[0].effects[taken:]):
            assert name not in held.values()
            held[delivery] = name
        taken = len(members[0].effects)

    for name in range(200):
        node.publish(name, body_size=chance.randint(0, 300))
        look()
        for delivery in chance.sample(list(held), min(3, len(held))):
            how = How.ACK if chance.random() < 0.2 else How.REQUEUE
            done += how is How.ACK
            del held[delivery]
            node.send(Settle(consumer, how, ((delivery, delivery),)))
        if chance.random() < 0.2:
            group.advance(chance.randint(0, 100))
        look()
        if chance.random() < 0.05:
            members[1].checkpoint()
        if chance.random() < 0.03:
            members[1].restart(group.log)
        if chance.random() < 0.02:
            members[2].install_from(members[0])
    assert len({digest_of(member.machine) for member in members}) == 1
    figures = members[2].queue().statistics()
    assert figures.ready + figures.unacked + figures.delayed + done == 200
    while done < 200:
        for delivery in list(held):
            node.send(Settle(consumer, How.ACK, ((delivery, delivery),)))
            del held[delivery]
            done += 1
        group.advance(100)
        look()
    assert [member.pager.used for member in members] == [0, 0, 0]


# -- octets ------------------------------------------------------------------------------------------------------------


def test_the_commands_have_kinds_of_their_own() -> None:
    for command in (OpenQueue(1, settings_of(retry=Retry(RetryType.FAILED, 5))), Settle(3, How.FAIL, ((1, 2),))):
        batch = Batch(5, "n1", 1, 1, 0, [command])
        data = encode_batch(batch)
        assert data[0] == VERSION_WITH_STREAMS
        assert decode_batch(data, AddressBook()) == batch
        for size in range(1, len(data)):
            with pytest.raises(Malformed):
                decode_batch(data[:size], AddressBook())
        kind = 1 if isinstance(command, OpenQueue) else 4
        at = next(at for at in range(len(data)) if data[at] == kind + (39 if kind == 1 else 37))
        with pytest.raises(Malformed):
            decode_batch(bytes([VERSION]) + data[1:at] + bytes([kind]) + data[at + 1 :], AddressBook())
    others: list[Command] = [OpenQueue(1, settings_of()), Settle(3, How.REQUEUE, ((1, 2),))]
    assert encode_batch(Batch(5, "n1", 1, 1, 0, others))[0] == VERSION
