"""Retention where marks are far apart, as they are where nothing is said of segments: streams that were there before
their limits, and such that nobody publishes to. Time and disk are in the test's hand."""

from __future__ import annotations

from typing import Any

import pytest

from amqp_broker.metadata import commands
from queues.stream.source import source_of
from queues.stream.stream import Hold
from tests.leases.service_on_node import ServiceOnNode
from tests.node.node_cluster import NodeCluster
from tests.node.node_driver import NodeDriver, small_config
from tests.queue_types.stream.test_streams_of_a_node import (
    MINUTE,
    a_stream,
    consume,
    delivered,
    fill,
    offsets,
    qos,
    set_policy,
)

BODY = b"x" * 2000


@pytest.fixture
def driver() -> NodeDriver:
    return NodeDriver()


def stream_of(driver: NodeDriver) -> Any:
    return driver.queue("s").stream()


def test_a_stream_that_was_there_before_its_limit_gets_as_short(driver: NodeDriver) -> None:
    publisher = a_stream(driver)
    for _ in range(200):
        fill(driver, publisher, *[BODY] * 5)  # two million octets
    assert len(stream_of(driver).marks.marks) == 1
    set_policy(driver, max_length_bytes=100_000)
    driver.wait(2 * driver.config.stream_retention_ms)
    stream = stream_of(driver)
    kept = sum([each.chunk.length for each in stream.log.chunks(stream.first)])
    assert 99_000 <= kept <= 100_000 + 100_000 // 64 + 5 * 2100
    first = stream.first
    driver.wait(MINUTE)
    assert stream_of(driver).first == first
    driver.crash()
    driver.wait(MINUTE)
    assert (stream_of(driver).first, stream_of(driver).next) == (first, 1000)


def test_all_that_is_too_old_goes_where_nobody_publishes_any_more(driver: NodeDriver) -> None:
    publisher = a_stream(driver, x_max_age="1s")
    for _ in range(20):
        fill(driver, publisher, b"short")
    driver.wait(driver.config.stream_retention_ms + 1100)
    assert (stream_of(driver).first, stream_of(driver).next) == (20, 20)
    fill(driver, publisher, b"new")
    reader = driver.client(1)
    reader.send(1, qos(10), consume())
    driver.settle()
    assert delivered(reader) == [(20, b"new")]


def test_what_is_young_enough_stays(driver: NodeDriver) -> None:
    publisher = a_stream(driver, x_max_age="1m")
    fill(driver, publisher, b"old", b"old")
    driver.wait(MINUTE // 2)
    fill(driver, publisher, b"young")
    driver.wait(MINUTE // 2 + driver.config.stream_retention_ms)
    assert (stream_of(driver).first, stream_of(driver).next) == (2, 3)


def test_what_is_held_stays(driver: NodeDriver) -> None:
    publisher = a_stream(driver, x_max_age="1m")
    for _ in range(4):
        fill(driver, publisher, b"held")
    source = source_of(driver.queue("s"))
    assert source is not None
    source.hold("h", Hold(1, driver.now + 10 * MINUTE), lambda error, first: None)
    driver.wait(MINUTE + 2 * driver.config.stream_retention_ms)
    assert stream_of(driver).first == 1
    driver.wait(MINUTE)  # up to twice the limit
    assert stream_of(driver).first == 4


def test_a_cut_that_was_lost_on_its_way_is_proposed_again(driver: NodeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where a node does not lead any more before it is committed, and leads again."""
    publisher = a_stream(driver)
    for _ in range(10):
        fill(driver, publisher, BODY)
    retained = {"max_length_bytes": 5000}
    lost: list[object] = []

    class Lossy:
        guest = None

        def submit(self, command: object) -> None:
            lost.append(command)

    set_policy(driver, **retained)
    retainer = driver.queue("s")._retainer
    monkeypatch.setattr(retainer, "_group", Lossy())
    driver.wait(driver.config.stream_retention_ms)
    monkeypatch.undo()
    assert lost
    assert offsets(driver) == (0, 10)
    driver.wait(driver.config.stream_retention_ms)
    assert offsets(driver) == (7, 10)


def test_no_limit_costs_nothing(driver: NodeDriver) -> None:
    a_stream(driver)
    assert driver.queue("s")._retainer is None
    set_policy(driver, max_age="1m")
    assert driver.queue("s")._retainer is not None
    driver.node.broker.propose(commands.clear_policy("/", "p"))
    driver.settle()
    assert driver.queue("s")._retainer is None


def test_all_members_cut_at_the_same_place_and_who_leads_next_goes_on() -> None:
    cluster = NodeCluster(3, queue_groups=1)
    cluster.run_until_ready()
    leader = cluster.leader()
    desk = ServiceOnNode(cluster.nodes[leader], lambda: cluster.run(100))
    desk.declare("s", x_queue_type="stream", x_max_age="1m")
    desk.fill("s", 10)
    every = cluster.nodes[leader].config.stream_retention_ms

    def firsts() -> list[int]:
        return [stream_of(node).first for node in cluster.nodes.values()]

    cluster.run(MINUTE // 2)
    desk.fill("s", 10)
    cluster.run(MINUTE // 2 + every)
    assert firsts() == [10] * 3
    cluster.kill(leader)
    cluster.run(MINUTE)
    assert firsts() == [20] * 2


def test_it_goes_on_while_the_disk_is_too_full_to_publish() -> None:
    """Or nobody would ever make room."""
    driver = NodeDriver(small_config(disk_free_limit_bytes=1 << 20))
    publisher = a_stream(driver, x_max_age="10s")
    for _ in range(10):
        fill(driver, publisher, BODY)
    driver.disk.capacity -= driver.disk.free_bytes() - (1 << 19)
    driver.wait(2000)
    assert driver.node.alarms.is_on
    fill(driver, publisher, b"it waits")
    assert offsets(driver) == (0, 10)
    driver.wait(10_000 + driver.config.stream_retention_ms)
    assert driver.node.alarms.is_on
    assert offsets(driver) == (10, 10)
