"""Readers at a node that has no copy of their stream: they get what those get that are where it lies."""

from __future__ import annotations

from typing import Any

import pytest

from amqp_broker.protocol import methods
from amqp_broker.queue_types.stream import read_desk
from amqp_broker.queue_types.stream.distant_stream import MOST_PIECE_BYTES
from queues.stream.commands import Trim
from tests.node.node_cluster import NodeCluster
from tests.node.node_driver import Client
from tests.queue_types.stream.test_damaged_pages import damage, found_by, log_of
from tests.queue_types.stream.test_streams_of_a_node import consume, declare, delivered, qos
from tests.queue_types.test_guests import group, guest_of, listed, put_list, settle
from tests.queue_types.test_quorum_cluster import CONFIRM, answer
from tests.queues.stream.stream_world import tiny_pages

__all__ = ["tiny_pages"]
pytestmark = pytest.mark.usefixtures("tiny_pages")

BODIES = [b"%03d" % number * 60 for number in range(120)]
CANCELS = ("consumer_cancel_notify",)


@pytest.fixture
def cluster() -> NodeCluster:
    made = NodeCluster(4, queue_groups=1, quorum_size=3, page_size_bytes=1500)
    made.run_until_ready()
    settle(made)
    answer(made, made.nodes["n1"].client(1), declare())
    return made


def fill(cluster: NodeCluster, bodies: list[bytes], name: str = "n1", **headers: object) -> Client:
    client = cluster.nodes[name].client(1)
    answer(cluster, client, CONFIRM)
    for start in range(0, len(bodies), 3):
        for body in bodies[start : start + 3]:
            client.publish(1, "s", body)
        cluster.run(20)
    cluster.run(200)
    return client


def reading(cluster: NodeCluster, name: str, prefetch: int = 1000, **arguments: object) -> Client:
    reader = cluster.nodes[name].client(1, capabilities=CANCELS)
    reader.send(1, qos(prefetch), consume(**arguments))
    cluster.run(200)
    return reader


def all_of(cluster: NodeCluster, reader: Client, count: int, milliseconds: int = 4000) -> list[tuple[int, bytes]]:
    """What comes, acknowledged, until there are so many."""
    found: list[tuple[int, bytes]] = []
    for _ in range(milliseconds // 20):
        came = [event.method for event in reader.events if isinstance(event.method, methods.BasicDeliver)]
        found += delivered(reader)
        if came:
            reader.send(1, methods.BasicAck(came[-1].delivery_tag, True))
        if len(found) >= count:
            break
        cluster.run(20)
    return found


EXPECTED = list(enumerate(BODIES))


@pytest.mark.parametrize("prefetch", [1, 7, 1000])
def test_a_reader_gets_everything_in_order_and_what_comes_later(cluster: NodeCluster, prefetch: int) -> None:
    fill(cluster, BODIES[:100])
    guest = guest_of(cluster)
    reader = reading(cluster, guest, prefetch)
    assert all_of(cluster, reader, 100) == EXPECTED[:100]
    fill(cluster, BODIES[100:], guest)
    assert all_of(cluster, reader, 20) == EXPECTED[100:]
    assert not group(cluster.nodes[guest]).machine.queue_ids()


@pytest.mark.parametrize(
    ("offset", "first"), [("first", 0), ("last", 117), ("next", 120), (50, 50), (10_000, 120), (-7, 113), ("1h", 0)]
)
def test_where_it_begins(cluster: NodeCluster, offset: object, first: int) -> None:
    fill(cluster, BODIES)
    guest = guest_of(cluster)
    reader = reading(cluster, guest, x_stream_offset=offset)
    assert "basic.consume-ok" in [event.method.name for event in reader.events]
    fill(cluster, [b"more"], guest)
    assert all_of(cluster, reader, 121 - first) == [*EXPECTED[first:], (120, b"more")]


def test_next_is_behind_what_this_node_was_confirmed(cluster: NodeCluster) -> None:
    """The member that is asked has not got that yet, and waits until it has."""
    fill(cluster, BODIES[:3])
    guest, leader = guest_of(cluster), cluster.leader(1)
    late = next(name for name in listed(cluster) if name != leader)
    distant(cluster, guest).node = late
    cluster.cut(late, leader)
    publisher = cluster.nodes[guest].client(1)
    answer(cluster, publisher, CONFIRM)
    publisher.publish(1, "s", b"before")
    cluster.run(20)
    assert publisher.names() == ["basic.ack"]
    reader = cluster.nodes[guest].client(1)
    reader.send(1, qos(10), consume(x_stream_offset="next"))
    cluster.run(20)
    assert "basic.consume-ok" not in [event.method.name for event in reader.events]
    cluster.heal()
    cluster.run(3000)
    fill(cluster, [b"after"], guest)
    assert all_of(cluster, reader, 1) == [(4, b"after")]


def test_it_goes_on_at_another_member_when_the_one_is_gone(cluster: NodeCluster) -> None:
    fill(cluster, BODIES[:60])
    guest = guest_of(cluster)
    reader = reading(cluster, guest, 10)
    found = all_of(cluster, reader, 30)
    asked = distant(cluster, guest).node
    assert asked in listed(cluster)
    other = next(name for name in listed(cluster) if name != asked)
    cluster.kill(asked)
    found += all_of(cluster, reader, 60 - len(found))
    cluster.run(3000)
    fill(cluster, BODIES[60:], other)
    found += all_of(cluster, reader, 60)
    assert found == EXPECTED
    assert distant(cluster, guest).node != asked


def distant(cluster: NodeCluster, name: str) -> Any:
    return cluster.nodes[name].node.broker.vhosts["/"].queues["s"].distant


def test_who_waits_for_more_is_told_by_a_member_that_goes_and_asks_another(cluster: NodeCluster) -> None:
    guest = guest_of(cluster)
    fill(cluster, BODIES[:3])
    reader = reading(cluster, guest)
    assert all_of(cluster, reader, 3) == EXPECTED[:3]
    asked = distant(cluster, guest).node
    other = next(name for name in listed(cluster) if name != asked)
    cluster.kill(asked)
    cluster.run(3000)
    fill(cluster, BODIES[3:9], other)
    assert all_of(cluster, reader, 6) == EXPECTED[3:9]


def test_filters(cluster: NodeCluster) -> None:
    client = fill(cluster, BODIES[:30])
    guest = guest_of(cluster)
    reader = reading(cluster, guest, x_stream_filter="red", x_stream_match_unfiltered=True)
    assert all_of(cluster, reader, 30) == EXPECTED[:30]
    none = reading(cluster, guest, x_stream_filter="red")
    assert delivered(none) == []
    assert client


def test_what_is_trimmed_is_passed_over(cluster: NodeCluster) -> None:
    fill(cluster, BODIES)
    guest = guest_of(cluster)
    reader = reading(cluster, guest, 5)
    found = all_of(cluster, reader, 10)
    leader = cluster.nodes[cluster.leader(1)].node.broker.vhosts["/"].queues["s"]
    leader.group.submit(Trim(leader.queue_id, 90))
    cluster.run(200)
    found += all_of(cluster, reader, 120)
    offsets = [offset for offset, _ in found]
    assert offsets == sorted(set(offsets))
    assert offsets[-30:] == list(range(90, 120))
    assert all(BODIES[offset] == body for offset, body in found)


def test_a_stream_that_is_deleted_cancels_it(cluster: NodeCluster) -> None:
    fill(cluster, BODIES[:3])
    guest = guest_of(cluster)
    reader = reading(cluster, guest)
    reader.take()
    answer(cluster, cluster.nodes["n1"].client(1), methods.QueueDelete(0, "s", False, False, False))
    cluster.run(200)
    assert reader.names() == ["basic.cancel"]
    assert nobody_is_asked(cluster)


def nobody_is_asked(cluster: NodeCluster) -> bool:
    """No node has a question open, nor one that it is to answer."""
    return not any(
        any(driver.node.stream_reads._open.values()) or driver.node.stream_reads.desk.holds
        for driver in cluster.nodes.values()
    )


def test_a_reader_that_is_cancelled_leaves_nothing(cluster: NodeCluster) -> None:
    fill(cluster, BODIES)
    guest = guest_of(cluster)
    reader = reading(cluster, guest, 5)
    waits = reading(cluster, guest)
    for client in (reader, waits):
        client.send(1, methods.BasicCancel("tag", False))
    cluster.run(100)
    room = distant(cluster, guest).room
    assert (room.readers, room.used) == (0, 0)
    assert nobody_is_asked(cluster)


def test_what_it_has_ahead_is_bounded(cluster: NodeCluster) -> None:
    """One that acknowledges nothing holds two pieces and no more, however long the stream is."""
    big = [b"%d" % number + bytes(40_000) for number in range(60)]
    fill(cluster, big)
    guest = guest_of(cluster)
    reader = reading(cluster, guest, 1)
    cluster.run(500)
    room = distant(cluster, guest).room
    assert 0 < room.used <= 2 * (MOST_PIECE_BYTES + 130_000)
    room.limit = 100_000
    assert [body for _, body in all_of(cluster, reader, 60)] == big
    assert room.used <= MOST_PIECE_BYTES + 130_000


def test_readers_at_the_same_place_ask_once(cluster: NodeCluster) -> None:
    guest = guest_of(cluster)
    readers = [reading(cluster, guest, x_stream_offset="next") for _ in range(10)]
    cluster.run(200)
    asked = cluster.nodes[guest].node.stream_reads._open
    assert sum(len(each) for each in asked.values()) == 1
    fill(cluster, BODIES[:9])
    for reader in readers:
        assert all_of(cluster, reader, 9) == EXPECTED[:9]


def test_who_waits_hears_now_and_then_that_there_is_nothing_and_asks_another(cluster: NodeCluster) -> None:
    guest = guest_of(cluster)
    reader = reading(cluster, guest)
    asked = {node: len(each) for node, each in cluster.nodes[guest].node.stream_reads._open.items() if each}
    cluster.run(read_desk.HOLD_MS + 1000)
    later = {node: len(each) for node, each in cluster.nodes[guest].node.stream_reads._open.items() if each}
    assert list(asked.values()) == list(later.values()) == [1]
    assert list(asked) != list(later)
    fill(cluster, BODIES[:3])
    assert all_of(cluster, reader, 3) == EXPECTED[:3]


def test_a_member_that_cannot_read_its_page_is_passed_over(cluster: NodeCluster) -> None:
    fill(cluster, BODIES)
    guest = guest_of(cluster)
    for name in listed(cluster):
        log_of(cluster, name).seal()
        log_of(cluster, name).page_out(1 << 40)
    first = sorted(listed(cluster))[0]
    for name in listed(cluster):
        if name != first:
            damage(cluster, name)
    reader = reading(cluster, guest)
    assert all_of(cluster, reader, 120, 8000) == EXPECTED


def test_where_nobody_can_read_the_page_it_is_cancelled(cluster: NodeCluster, caplog: pytest.LogCaptureFixture) -> None:
    fill(cluster, BODIES)
    guest = guest_of(cluster)
    for name in listed(cluster):
        log_of(cluster, name).seal()
        log_of(cluster, name).page_out(1 << 40)
        damage(cluster, name)
    reader = reading(cluster, guest)
    cluster.run(20_000)
    bodies, others = found_by(reader)
    assert bodies == BODIES[: len(bodies)]
    assert others[-1] == "basic.cancel"
    assert "none of" in caplog.text


def test_it_stays_while_its_node_becomes_a_member_and_a_guest_again(cluster: NodeCluster) -> None:
    fill(cluster, BODIES[:60])
    guest = guest_of(cluster)
    members = listed(cluster)
    reader = reading(cluster, guest, 7)
    found = all_of(cluster, reader, 20)
    put_list(cluster, *members, guest)
    assert group(cluster.nodes[guest]).guest is None
    found += all_of(cluster, reader, 60 - len(found))
    fill(cluster, BODIES[60:90])
    found += all_of(cluster, reader, 30)
    assert distant(cluster, guest).room.readers == 0
    put_list(cluster, *members)
    assert group(cluster.nodes[guest]).guest is not None
    fill(cluster, BODIES[90:])
    found += all_of(cluster, reader, 30)
    assert found == EXPECTED
