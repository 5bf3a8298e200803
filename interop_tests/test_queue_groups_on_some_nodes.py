"""Five nodes, groups on three: a stock client at a node without a copy, a member that is killed, groups that change."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from threading import Event

import pika
import pytest

from amqp_broker import RunningCluster, running_cluster
from amqp_broker.system_client import SystemClient

pytestmark = pytest.mark.long
PATIENCE_S = 60
MESSAGES = 50


@pytest.fixture(scope="module")
def cluster() -> Iterator[RunningCluster]:
    with running_cluster(5, queue_groups=2, quorum_size=3, start_timeout_s=90.0) as made:
        yield made


def wait_for(what: Callable[[], bool], name: str) -> None:
    end = time.monotonic() + PATIENCE_S
    while not what():
        assert time.monotonic() < end, name
        Event().wait(0.2)


def group_of(url: str, queue: str = "") -> dict[str, object]:
    with SystemClient(url) as client:
        if not queue:
            return dict(client.request("cluster.status")["groups"][1])
        return dict(client.request("object", kind="queues", vhost="/", name=queue)["object"])


def members_of(url: str) -> list[str]:
    return list(group_of(url, "orders")["members"])  # type: ignore[call-overload]


def test_nothing_confirmed_is_lost_at_a_guest(cluster: RunningCluster) -> None:
    urls = {node.name: node.url for node in cluster.nodes}
    some = next(iter(urls.values()))
    wait_for(lambda: len(group_of(some)["voters"]) == 3, "groups are on three nodes")  # type: ignore[arg-type]
    with pika.BlockingConnection(pika.URLParameters(some)) as first:
        first.channel().queue_declare("orders", durable=True, arguments={"x-queue-type": "quorum"})
    wait_for(lambda: len(members_of(some)) == 3, "the queue is on three nodes")
    members = members_of(some)
    guest, other = (name for name in urls if name not in members)
    sent: list[bytes] = []
    got: list[bytes] = []
    with pika.BlockingConnection(pika.URLParameters(urls[guest])) as connection:
        channel = connection.channel()
        channel.confirm_delivery()

        def publish() -> None:
            for _ in range(MESSAGES):
                body = b"%d" % len(sent)
                channel.basic_publish("", "orders", body, pika.BasicProperties(delivery_mode=2))
                sent.append(body)

        def take() -> None:
            while len(got) < len(sent):
                method, _, body = channel.basic_get("orders")
                assert method is not None, (len(got), len(sent))
                channel.basic_ack(method.delivery_tag)
                got.append(body)

        publish()
        leader = str(group_of(urls[guest], "orders")["leader"])
        publish()
        cluster.node(leader).kill()
        publish()
        take()
        rest = next(name for name in members if name != leader)
        with SystemClient(urls[guest]) as client:
            client.request("queues.grow", node=other, vhost="/", queue="orders")
        publish()
        wait_for(lambda: set(members_of(urls[rest])) == {*members, other}, "the group has grown")
        with SystemClient(urls[guest]) as client:
            client.request("queues.shrink", node=leader, vhost="/", queue="orders")
        publish()
        wait_for(lambda: set(members_of(urls[rest])) == {*members, other} - {leader}, "the group has shrunk")
        publish()
        take()
    assert got == sent
