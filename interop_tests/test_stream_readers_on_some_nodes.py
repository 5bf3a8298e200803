"""Four nodes, a stream on three: stock clients read it at the one that has no copy, while members are killed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from amqp_broker import RunningCluster, running_cluster
from amqp_broker.system_client import SystemClient

pytestmark = pytest.mark.long
PATIENCE_S = 90
BODIES = [b"%d" % number for number in range(300)]
STREAM = {"x-queue-type": "stream"}


@pytest.fixture(scope="module")
def cluster() -> Iterator[RunningCluster]:
    with running_cluster(4, queue_groups=2, quorum_size=3, start_timeout_s=90.0) as made:
        yield made


def members_of(url: str, name: str) -> list[str]:
    """The nodes that have a copy, once there are three."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        with SystemClient(url) as client:
            members = client.request("object", kind="queues", vhost="/", name=name)["object"]["members"]
        if len(members) == 3:
            return list(members)
        assert time.monotonic() < deadline, members


def publish(url: str, queue: str, bodies: list[bytes]) -> None:
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        for body in bodies:
            channel.basic_publish("", queue, body)


class Reading:
    """Of one consumer; all that it has got is acknowledged."""

    def __init__(self, url: str, queue: str, **arguments: object) -> None:
        self.connection = pika.BlockingConnection(pika.URLParameters(url))
        self.channel: BlockingChannel = self.connection.channel()
        self.channel.basic_qos(prefetch_count=20)
        self._came = self.channel.consume(queue, arguments=arguments, inactivity_timeout=0.5)
        self.got: list[tuple[int, bytes]] = []
        self.partitions: set[int] = set()
        self.step()  # only that consumes

    def step(self) -> None:
        """What is there now, or the next one that comes in half a second."""
        method, properties, body = next(self._came)
        if method is not None:
            self.got.append((properties.headers["x-stream-offset"], body))
            self.partitions.add(properties.headers.get("x-stream-partition", 0))
            self.channel.basic_ack(method.delivery_tag)

    def until(self, count: int) -> list[tuple[int, bytes]]:
        """All that it has, as soon as there are so many."""
        deadline = time.monotonic() + PATIENCE_S
        while len(self.got) < count:
            assert time.monotonic() < deadline, f"{len(self.got)} of {count}"
            self.step()
        return self.got

    def close(self) -> None:
        self.channel.cancel()
        self.connection.close()


def test_a_node_without_a_copy_serves_readers_while_members_are_killed(cluster: RunningCluster) -> None:
    urls = {node.name: node.url for node in cluster.nodes}
    with pika.BlockingConnection(pika.URLParameters(urls["n1"])) as connection:
        connection.channel().queue_declare("log", durable=True, arguments=STREAM)
    members = members_of(urls["n1"], "log")
    (guest,) = (urls[name] for name in urls if name not in members)
    publish(urls["n1"], "log", BODIES[:100])
    expected = list(enumerate(BODIES))
    hour = datetime.now(UTC) - timedelta(hours=1)
    first = Reading(guest, "log", **{"x-stream-offset": "first"})
    following = Reading(guest, "log", **{"x-stream-offset": "next"})
    others = [Reading(guest, "log", **{"x-stream-offset": offset}) for offset in (60, hour, "1h", -40)]
    group = Reading(guest, "log", **{"x-stream-offset": "first", "x-stream-group": "g"})
    begins = [60, 0, 0, 60]
    assert first.until(100) == expected[:100]
    for reading, begin in zip(others, begins, strict=True):
        assert reading.until(100 - begin) == expected[begin:100]
        reading.close()
    group.until(50)
    sent = 100
    for name in members:  # whichever of them is read from
        cluster.node(name).kill()
        publish(guest, "log", BODIES[sent : sent + 30])
        sent += 30
        assert first.until(sent) == expected[:sent]
        cluster.node(name).start()
    publish(guest, "log", BODIES[sent:])
    assert first.until(300) == expected
    assert group.until(300) == expected
    begin = following.until(1)[0][0]
    assert begin == 100
    assert following.until(200) == expected[100:]
    for reading in (first, following, group):
        reading.close()
    again = Reading(urls[members[0]], "log", **{"x-stream-group": "g"})
    publish(guest, "log", [b"behind"])
    assert again.until(1) == [(300, b"behind")]
    again.close()


def test_partitions_are_shared_by_consumers_of_all_nodes(cluster: RunningCluster) -> None:
    urls = [node.url for node in cluster.nodes]
    with pika.BlockingConnection(pika.URLParameters(urls[0])) as connection:
        arguments = {**STREAM, "x-stream-partitions": 8}
        connection.channel().queue_declare("parts", durable=True, arguments=arguments)
    readings = [Reading(url, "parts", **{"x-stream-offset": "first", "x-stream-group": "g"}) for url in urls]
    publish(urls[0], "parts", BODIES[:80])
    deadline = time.monotonic() + PATIENCE_S
    while sum(len(reading.got) for reading in readings) < 80:
        assert time.monotonic() < deadline
        for reading in readings:
            reading.step()
    assert sorted(body for reading in readings for _, body in reading.got) == sorted(BODIES[:80])
    assert [len(reading.partitions) for reading in readings] == [2] * 4
    for reading in readings:
        reading.close()
