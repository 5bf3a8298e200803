"""Objects of a cluster, as each of its nodes shows them: those of others, too, and who did not answer."""

from __future__ import annotations

import json
from typing import Any

import pytest

from amqp_broker.links.frame_kinds import FrameKind
from amqp_broker.links.tenants import head_of
from amqp_broker.management.peer_questions import PATIENCE_MS
from amqp_broker.protocol import methods
from amqp_broker.protocol.fields import Table
from tests.node.node_cluster import NodeCluster
from tests.node.node_driver import consume, declare
from tests.node.system_service import SystemService


class ClusterDesk:
    """A desk on each node."""

    def __init__(self, cluster: NodeCluster) -> None:
        self.cluster = cluster
        self.desks = {name: SystemService(driver) for name, driver in cluster.nodes.items()}

    def ask(self, node: str, verb: str, /, **fields: object) -> dict[str, Any]:
        service = self.desks[node]
        service.send(verb, json.dumps(fields).encode())
        for _ in range(2 * PATIENCE_MS // 10):
            self.cluster.run(10)
            if answers := service.answers():
                return answers[0]
        raise AssertionError(f"no answer to {verb}")

    def rows(self, name: str, kind: str, **fields: object) -> list[dict[str, Any]]:
        answer = self.ask(name, "objects.page", kind=kind, **fields)
        found: list[dict[str, Any]] = []
        while True:
            assert answer["ok"], answer
            found += [dict(zip(answer["columns"], row, strict=True)) for row in answer["rows"]]
            if answer["next"] is None:
                return found
            answer = self.ask(name, "objects.page", kind=kind, after=answer["next"], **fields)


@pytest.fixture
def service() -> ClusterDesk:
    cluster = NodeCluster()
    cluster.run_until_ready()
    service = ClusterDesk(cluster)
    for name, driver in cluster.nodes.items():
        client = driver.client(1, 2, capabilities=["consumer_cancel_notify"])
        client.send(1, declare(f"of {name}"), declare("quorum", x_queue_type="quorum"))
        cluster.run(300)
        client.publish(1, f"of {name}", b"x")
        client.publish(1, "quorum", b"x")
        client.send(2, consume("quorum", f"c {name}"))
        cluster.run(300)
        client.take()
    return service


@pytest.mark.parametrize("limit", [1, 2, 4, 500])
def test_connections_and_channels_of_all_nodes_are_shown(service: ClusterDesk, limit: int) -> None:
    for asked in ("n1", "n3"):
        rows = service.rows(asked, "connections", limit=limit)
        assert [row["node"] for row in rows] == ["n1", "n1", "n2", "n2", "n3", "n3"]
        channels = service.rows(asked, "channels", limit=limit)
        assert [(row["node"], row["number"]) for row in channels] == [
            (name, number) for name in ("n1", "n2", "n3") for number in (1, 1, 2)
        ]
        rows = service.rows(asked, "consumers", limit=limit)
        assert [row["consumer_tag"] for row in rows] == ["c n1", "c n2", "c n3"]


def test_a_queue_is_described_by_its_home(service: ClusterDesk) -> None:
    for asked in ("n1", "n2"):
        rows = {row["name"]: row for row in service.rows(asked, "queues")}
        for name in ("n1", "n2", "n3"):
            row = rows[f"of {name}"]
            assert (row["node"], row["publish"], row["messages_ready"]) == (name, 1, 1)
        quorum = rows["quorum"]
        assert quorum["members"] == quorum["online"] == ["n1", "n2", "n3"]
        assert quorum["publish"] == 3
        assert quorum["leader"] in quorum["members"]
        found = service.ask(asked, "object", kind="queues", vhost="/", name="of n3")
        assert (found["node"], found["object"]["publish"]) == ("n3", 1)


def test_who_does_not_answer_is_stale(service: ClusterDesk) -> None:
    service.cluster.isolate("n3")
    service.cluster.run(200)
    answer = service.ask("n1", "objects.page", kind="connections")
    assert answer["stale"] == ["n3"]
    assert [row[1] for row in answer["rows"]] == ["n1", "n1", "n2", "n2"]
    queues = service.ask("n1", "objects.page", kind="queues", columns=["name", "state"])
    assert queues["stale"] == ["n3"]
    assert ["of n3", "down"] in queues["rows"]
    totals = service.ask("n1", "totals")
    assert (sorted(totals["nodes"]), totals["stale"]) == (["n1", "n2"], ["n3"])


def test_who_is_silent_is_stale_after_a_while(service: ClusterDesk) -> None:
    node = service.cluster.nodes["n2"].node
    node.tenants.receivers[int(FrameKind.MANAGEMENT)] = lambda name, payload, now: None
    before = service.cluster.now
    answer = service.ask("n1", "objects.page", kind="channels")
    assert answer["stale"] == ["n2"]
    assert PATIENCE_MS <= service.cluster.now - before <= PATIENCE_MS + 200


def test_a_node_counts_its_own_and_says_what_others_count(service: ClusterDesk) -> None:
    totals = service.ask("n2", "totals")
    assert sorted(totals["nodes"]) == ["n1", "n2", "n3"]
    assert totals["node"] == "n2"
    nodes = totals["nodes"].values()
    assert sum(each["messages"] for each in nodes) == 3 + 3
    assert all(each["connections"] == 2 for each in nodes)


def test_a_node_says_what_others_say_of_themselves(service: ClusterDesk) -> None:
    found = service.ask("n1", "node")
    assert found["name"] == "n1"
    assert sorted(found["nodes"]) == found["members"] == found["running"] == ["n1", "n2", "n3"]
    assert found["nodes"]["n3"]["name"] == "n3"
    service.cluster.nodes["n2"].node.alarms.is_memory_high = True
    health = service.ask("n1", "health")
    assert (health["alarms"], health["local_alarms"]) == ([{"node": "n2", "resource": "memory"}], [])
    service.cluster.isolate("n2")
    service.cluster.run(200)
    found = service.ask("n1", "node")
    assert (found["stale"], found["running"]) == (["n2"], ["n1", "n3"])


def test_connections_of_other_nodes_are_closed_and_their_consumers_cancelled(service: ClusterDesk) -> None:
    (row,) = [each for each in service.rows("n1", "consumers") if each["consumer_tag"] == "c n3"]
    details = row["channel_details"]
    fields = {"connection": details["connection_name"], "channel": details["number"], "tag": "c n3"}
    # The clients of the driven nodes have the same addresses: the tag tells.
    assert service.ask("n1", "consumer.cancel", **fields)["ok"]
    heard = service.cluster.nodes["n3"].clients[-1].names()
    assert heard == ["basic.cancel"]
    assert service.ask("n1", "consumer.cancel", **fields)["code"] == "not_found"
    assert service.ask("n1", "connection.close", name="nobody")["code"] == "not_found"
    extra = service.cluster.nodes["n2"].client(9)
    name = str(extra.connection.peer)
    found = service.ask("n3", "object", kind="connections", name=name)
    assert found["object"]["name"] == name
    assert service.ask("n3", "connection.close", name=name, reason="r")["closed"] == 1
    assert "connection.close" in extra.names()


@pytest.mark.parametrize(
    "payload",
    [b"", b"\x02", b"\x02" + bytes(20), b"\x01\x00" + bytes(8), b"\x01\x00" + bytes(8) + b"[]", b"\x01\x01" + bytes(8),
     b"\x01\x00" + bytes(8) + b'{"verb": "page", "fields": {"kind": 5}, "name": "x", "tags": []}',
     b"\x01\x00" + bytes(8) + b'{"verb": "new", "fields": {}, "name": "x", "tags": []}'],
    ids=range(8),
)  # fmt: skip
def test_what_is_no_question_breaks_nothing(service: ClusterDesk, payload: bytes) -> None:
    frame = head_of(FrameKind.MANAGEMENT) + payload
    service.cluster.nodes["n1"].node.receive_peer("n2", frame, service.cluster.now)
    assert service.ask("n1", "objects.page", kind="channels")["stale"] == []


def test_an_exclusive_queue_of_another_node_names_its_owner(service: ClusterDesk) -> None:
    client = service.cluster.nodes["n3"].client(1)
    client.send(1, methods.QueueDeclare(0, "own", False, False, True, False, False, Table({})))
    service.cluster.run(300)
    (row,) = [each for each in service.rows("n1", "queues") if each["name"] == "own"]
    assert row["owner_pid_details"]["name"] == str(client.connection.peer)


def test_the_active_consumer_of_a_quorum_queue_is_shown(service: ClusterDesk) -> None:
    for name, driver in service.cluster.nodes.items():
        client = driver.client(1)
        client.send(1, declare("sac", x_queue_type="quorum", x_single_active_consumer=True))
        service.cluster.run(300)
        client.send(1, consume("sac", f"sac {name}"))
        service.cluster.run(300)
    for asked in ("n1", "n3"):
        rows = [row for row in service.rows(asked, "consumers") if row["queue"]["name"] == "sac"]
        assert [(row["active"], row["activity_status"]) for row in rows] == [
            (True, "single_active"), (False, "waiting"), (False, "waiting"),
        ]  # fmt: skip
        queues = {row["name"]: row["single_active_consumer_tag"] for row in service.rows(asked, "queues")}
        assert (queues["sac"], queues["quorum"]) == ("sac n1", None)


def test_who_is_not_at_the_home_of_a_queue_does_not_say_who_is_active(service: ClusterDesk) -> None:
    for name in ("n1", "n2"):
        client = service.cluster.nodes[name].client(1)
        client.send(1, declare("sac", x_single_active_consumer=True))
        service.cluster.run(300)
        client.send(1, consume("sac", f"sac {name}"))
        service.cluster.run(300)
    rows = [row for row in service.rows("n1", "consumers") if row["queue"]["name"] == "sac"]
    assert [(row["active"], row["activity_status"]) for row in rows] == [(True, "single_active"), (None, None)]
    queues = {row["name"]: row["single_active_consumer_tag"] for row in service.rows("n3", "queues")}
    assert queues["sac"] == "sac n1"
