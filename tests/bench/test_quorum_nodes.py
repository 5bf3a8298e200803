"""The benchmark of a message through three whole nodes: it carries what it says, and notices when it does not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from amqp_broker.protocol import methods
from benchmarks.quorum_nodes import NAMES, QUEUE, Load, Room

MESSAGES = 20


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Room]:
    found = Room(tmp_path)
    found.run_until_ready()
    yield found
    found.close()


def test_each_message_is_confirmed_delivered_and_acknowledged_on_all_nodes(room: Room) -> None:
    load = Load(room)
    load.carry(MESSAGES // 2)
    load.carry(MESSAGES // 2, first=1 + MESSAGES // 2)
    room.wait(1000)  # acknowledgements rest for a while
    queue = room.members[NAMES[0]].node.broker.vhosts["/"].queues[QUEUE]
    groups = [member.node.groups.all[queue.group.group_id] for member in room.members.values()]
    assert len({group.raft.last_applied for group in groups}) == 1
    assert (queue.message_count(), queue.unacked_count()) == (0, 0)


def test_a_message_that_does_not_arrive_is_an_error(room: Room) -> None:
    load = Load(room)
    load.consumer.feed(b"")
    load.publish = b""
    with pytest.raises(RuntimeError, match="message 1 was not confirmed, or not delivered"):
        load.carry(1)


def test_clients_hear_what_they_are_told(room: Room) -> None:
    load = Load(room)
    load.producer.feed(load.publish)
    room.rest()
    assert [method.name for method in load.producer.said()] == [methods.BasicAck.name]
