"""`amqp-broker queue grow`, `shrink` and `rebalance` on two real nodes, and clients that go on."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

import amqp_broker
from amqp_broker import RunningCluster
from amqp_broker.cli.main import main
from amqp_broker.client import Connection
from amqp_broker.protocol import methods as m
from amqp_broker.protocol.fields import Table

PATIENCE_S = 60


@pytest.fixture(scope="module")
def cluster() -> Iterator[RunningCluster]:
    with amqp_broker.running_cluster(2, queue_groups=2) as made:
        yield made


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    capsys.readouterr()
    status = main([*arguments])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def roles(capsys: pytest.CaptureFixture[str], url: str) -> list[str]:
    """Of a node in the groups of queues."""
    _, out, _ = run(capsys, "cluster", "status", "--json", "--url", url)
    rows: list[dict[str, Any]] = json.loads(out)["groups"]
    return [row["role"] for row in rows if row["group"]]


def wait_for_roles(capsys: pytest.CaptureFixture[str], url: str, guests: int) -> None:
    until = time.monotonic() + PATIENCE_S
    while roles(capsys, url).count("guest") != guests:
        assert time.monotonic() < until, roles(capsys, url)


def test_a_node_leaves_its_groups_and_comes_back(
    cluster: RunningCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = cluster.nodes
    with Connection.open(second.url) as connection, connection.channel() as channel:
        arguments = Table({"x-queue-type": "quorum"})
        channel.call(m.QueueDeclare(queue="votes", durable=True, arguments=arguments))
        status, out, err = run(capsys, "queue", "shrink", "n2", "--queue", "votes", "--url", first.url)
        assert (status, err) == (0, "")
        assert out.splitlines()[0].endswith(" is to be on n1")
        assert "`amqp-broker cluster status` shows when" in out
        wait_for_roles(capsys, second.url, 1)
        status, out, err = run(capsys, "queue", "shrink", "n2", "--url", first.url)
        assert (status, err, len(out.splitlines())) == (0, "", 2), "the other group"
        wait_for_roles(capsys, second.url, 2)
        channel.publish("", "votes", b"one")
    status, out, err = run(capsys, "queue", "shrink", "n1", "--queue", "votes", "--url", second.url)
    assert status != 0
    assert "n1 is the only member of group" in err
    status, out, err = run(capsys, "queue", "rebalance", "--url", first.url)
    assert (status, err) == (0, "")
    assert out.splitlines()[0].endswith(" is to be on n2"), "one for each"
    status, out, err = run(capsys, "queue", "grow", "n2", "--url", second.url)
    assert (status, err) == (0, "")
    assert out.splitlines()[0].endswith(" is to be on n1, n2")
    wait_for_roles(capsys, second.url, 0)
    status, out, err = run(capsys, "queue", "grow", "n2", "--url", first.url)
    assert (status, out, err) == (0, "nothing to do: it is so already\n", "")
    with Connection.open(second.url) as connection, connection.channel() as channel:
        assert channel.call(m.QueueDeclare(queue="votes", passive=True)).message_count == 1
