"""Any node is asked for what any queue holds: its home answers, or who leads its group."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from amqp_broker.protocol import methods
from tests.management.test_objects_of_a_cluster import ClusterDesk
from tests.node.node_cluster import NodeCluster
from tests.node.node_driver import consume, declare

NODES = ("n1", "n2", "n3")


@pytest.fixture
def desk() -> ClusterDesk:
    """`classic` lives on n2; of each queue a consumer on n3 holds two messages, and n1 has got one."""
    cluster = NodeCluster()
    cluster.run_until_ready()
    desk = ClusterDesk(cluster)
    clients = {name: driver.client(1) for name, driver in cluster.nodes.items()}
    clients["n2"].send(1, declare("classic"), declare("quorum", x_queue_type="quorum"))
    cluster.run(300)
    for name in ("classic", "quorum"):
        for number in range(6):
            clients["n2"].publish(1, name, b"%d" % number)
    cluster.run(300)
    for name in ("classic", "quorum"):
        clients["n1"].send(1, methods.BasicGet(0, name, False))
        cluster.run(300)
    clients["n3"].send(1, methods.BasicQos(0, 2, False), consume("classic", "c"), consume("quorum", "q"))
    cluster.run(300)
    return desk


def bodies(answer: dict[str, Any]) -> list[bytes]:
    assert answer["ok"], answer
    return [base64.b64decode(message["payload"]) for message in answer["messages"]]


@pytest.mark.parametrize("asked", NODES)
@pytest.mark.parametrize("name", ["classic", "quorum"])
def test_every_node_shows_the_same(desk: ClusterDesk, asked: str, name: str) -> None:
    answer = desk.ask(asked, "queue.peek", vhost="/", name=name, limit=2)
    assert bodies(answer) == [b"3", b"4"]
    assert answer["node"] == "n2" if name == "classic" else answer["node"] in NODES
    assert bodies(desk.ask(asked, "queue.peek", vhost="/", name=name, **{"from": answer["next"]})) == [b"5"]
    answer = desk.ask(asked, "queue.peek", vhost="/", name=name, state="unacked")
    assert bodies(answer) == [b"0", b"1", b"2"]
    holders = [message["holder"] for message in answer["messages"]]
    assert [holder["node"] for holder in holders] == ["n1", "n3", "n3"]
    assert [holder["consumer_tag"] for holder in holders] == ["", name[0], name[0]]
    assert all(holder["connection"] and holder["channel"] == 1 for holder in holders)


def test_who_leads_answers_and_a_new_leader_after_it(desk: ClusterDesk) -> None:
    answer = desk.ask("n1", "queue.peek", vhost="/", name="quorum")
    leader = answer["node"]
    others = [name for name in NODES if name != leader]
    desk.cluster.isolate(leader)
    desk.cluster.run(5000)
    answer = desk.ask(others[0], "queue.peek", vhost="/", name="quorum", limit=100)
    assert answer["node"] in others
    # What the lost node's consumers held is back.
    assert set(bodies(answer)) >= {b"3", b"4", b"5"}
    alone = desk.ask(leader, "queue.peek", vhost="/", name="quorum")
    assert alone["ok"] or alone["code"] in ("precondition", "failed")


def test_a_home_that_is_down_is_named(desk: ClusterDesk) -> None:
    desk.cluster.isolate("n2")
    desk.cluster.run(200)
    answer = desk.ask("n1", "queue.peek", vhost="/", name="classic")
    assert answer["code"] == "failed"
    assert "'n2'" in answer["error"]

