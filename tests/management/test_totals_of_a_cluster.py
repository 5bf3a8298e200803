"""What nodes of a cluster count never falls, whoever leads, and whatever is deleted and made again."""

from __future__ import annotations

import json
from typing import Any, cast

from amqp_broker.management.access import Asker
from amqp_broker.management.kept_totals import FILE, shortfall
from amqp_broker.management.peer_questions import PeerAnswer, PeerQuestions
from amqp_broker.management.request import Request
from amqp_broker.management.totals import FRESH_MS, HELD, Totals
from amqp_broker.protocol import methods
from amqp_broker.turn.completion import Completion
from amqp_broker.turn.task import Task
from amqp_broker.web.totals import sums_of
from tests.management.counters import counters_of
from tests.management.test_objects_of_a_cluster import ClusterDesk
from tests.node.node_cluster import NodeCluster
from tests.node.node_driver import Client, NodeDriver, consume, declare

NODES = ("n1", "n2", "n3")
#: Of one queue, as the node that is asked counts them.
OF_A_QUEUE = ("publish", "deliver", "redeliver", "ack")


class Watched:
    """The counters of all nodes, which are compared each time that they are read."""

    def __init__(self, desk: ClusterDesk) -> None:
        self._desk = desk
        self._before: dict[tuple[str, str], float] = {}

    def look(self, *, has_queue: bool = True) -> dict[str, dict[str, Any]]:
        self._desk.cluster.run(2 * FRESH_MS)
        seen = {}
        for node in NODES:
            totals = seen[node] = self._desk.ask(node, "totals")
            counted = counters_of(totals)
            if has_queue:
                row = self._desk.ask(node, "object", kind="queues", vhost="/", name="q")["object"]
                counted |= {f"q {name}": row[name] for name in OF_A_QUEUE}
            for name, value in counted.items():
                assert name == "age_ms" or value >= self._before.get((node, name), 0), (node, name)
                self._before[node, name] = value
        return seen

    def forget_queue(self) -> None:
        """One that is made again begins anew; what was counted of the one before stays in the totals."""
        self._before = {key: value for key, value in self._before.items() if not key[1].startswith("q ")}


def load(cluster: NodeCluster, client: Client, tag: str) -> None:
    client.send(1, consume("q", tag))
    for number in range(5):
        client.publish(1, "q", b"%d" % number)
    cluster.run(500)
    heard = [event for event in client.take() if event.method.name == "basic.deliver"]
    assert len(heard) == 5
    client.send(1, methods.BasicAck(heard[-1].method.delivery_tag, True), methods.BasicCancel(tag, False))
    cluster.run(500)


def test_no_counter_falls_when_others_lead_and_queues_come_again() -> None:
    cluster = NodeCluster()
    cluster.run_until_ready()
    desk = ClusterDesk(cluster)
    watched = Watched(desk)
    clients = {name: driver.client(1) for name, driver in cluster.nodes.items()}
    clients["n1"].send(1, declare("q", x_queue_type="quorum"))
    cluster.run(500)
    for name, client in clients.items():
        load(cluster, client, f"first {name}")
    before = watched.look()
    assert [before[node]["ack"] for node in NODES] == [5, 5, 5]
    for target in NODES:
        desk.desks["n1"].send("cluster.transfer", json.dumps({"vhost": "/", "queue": "q", "node": target}).encode())
        cluster.run(3000)
        desk.desks["n1"].answers()
        assert desk.ask("n1", "quorum.view", vhost="/", name="q")["leader"] == target
        watched.look()
        load(cluster, clients["n2"], f"led by {target}")
        watched.look()
    clients["n3"].send(1, methods.QueueDelete(0, "q", False, False, False))
    cluster.run(500)
    watched.look(has_queue=False)
    clients["n3"].send(1, declare("q", x_queue_type="quorum"))
    cluster.run(500)
    watched.forget_queue()
    load(cluster, clients["n3"], "again")
    after = watched.look()
    assert sum(after[node]["ack"] for node in NODES) == 35


def test_no_sum_falls_while_a_node_is_away() -> None:
    cluster = NodeCluster()
    cluster.run_until_ready()
    desk = ClusterDesk(cluster)
    for driver in cluster.nodes.values():
        client = driver.client(1)
        client.send(1, declare("q"))
        for _ in range(5):
            client.publish(1, "q", b"x")
    cluster.run(2 * FRESH_MS)
    before = desk.ask("n1", "totals")
    sums = sums_of(before)
    cluster.isolate("n3")
    cluster.run(2 * FRESH_MS)
    found = desk.ask("n1", "totals")
    assert (sorted(found["nodes"]), list(found["before"])) == (["n1", "n2"], ["n3"])
    away = sums_of(found)
    assert not [name for name, value in sums.items() if name not in HELD and away[name] < value]
    # What there is now is not known of who does not answer.
    assert away["connections"] < sums["connections"]
    cluster.heal()
    cluster.run(5000)
    again = desk.ask("n1", "totals")
    assert (len(again["nodes"]), again["before"]) == (3, {})
    assert not [name for name, value in away.items() if name not in HELD and sums_of(again)[name] < value]


def test_a_node_whose_counters_begin_anew_goes_on_counting() -> None:
    cluster = NodeCluster()
    cluster.run_until_ready()
    desk = ClusterDesk(cluster)

    def connections_of_n2() -> int:
        cluster.run(2 * FRESH_MS)
        found: int = desk.ask("n1", "totals")["nodes"]["n2"]["connection_created"]
        return found

    for _ in range(20):
        cluster.nodes["n2"].client(1)
    before = connections_of_n2()
    assert before >= 20
    stopped = cluster.kill("n2")
    assert not stopped.disk.exists(FILE)  # nobody had waited for the disk
    cluster.run(500)
    cluster.revive("n2", stopped)
    cluster.run(5000)
    first = connections_of_n2()
    assert first >= before
    for _ in range(3):
        cluster.nodes["n2"].client(1)
    assert connections_of_n2() == first + 3


def test_counters_that_begin_anew_are_seen_by_any_that_is_lower() -> None:
    """Where many connections come before the first answer, other counters are lower."""
    cluster = NodeCluster()
    cluster.run_until_ready()
    desk = ClusterDesk(cluster)

    def of_n2(name: str) -> int:
        cluster.run(2 * FRESH_MS)
        found: int = desk.ask("n1", "totals")["nodes"]["n2"][name]
        return found

    client = cluster.nodes["n2"].client(1)
    client.send(1, declare("q"))
    for _ in range(5):
        client.publish(1, "q", b"x")
    assert (before := of_n2("publish")) >= 5
    stopped = cluster.kill("n2")
    assert not stopped.disk.exists(FILE)  # nobody had waited for the disk
    cluster.run(500)
    cluster.revive("n2", stopped)
    cluster.run(5000)
    clients = [cluster.nodes["n2"].client(1) for _ in range(9)]
    assert of_n2("publish") >= before
    clients[0].publish(1, "q", b"x")
    assert of_n2("publish") == before + 1


def test_what_a_counter_is_short_of() -> None:
    before = {"a": 5, "b": {"c": 2}, "sizes": [3, 0], "gone": 1}
    assert shortfall({"a": 2, "b": {"c": 4}, "sizes": [1, 1], "new": 9}, before) == {
        "a": 3, "b": {"c": 0}, "sizes": [2, 0], "gone": 1,
    }  # fmt: skip


class Peers:
    """Others that answer when the test says so. asked: the questions, in the order in which they came."""

    own_node = "n1"

    def __init__(self) -> None:
        self.asked: list[tuple[str, Completion[PeerAnswer | None]]] = []

    def serve(self, verbs: dict[str, object]) -> None:
        """Nobody asks this node."""

    def others(self) -> list[str]:
        return ["n2", "n3"]

    def ask(self, node: str, verb: str, fields: object, asker: object) -> Completion[PeerAnswer | None]:
        self.asked.append((node, Completion()))
        return self.asked[-1][1]


def test_an_answer_that_is_older_than_another_is_no_counter_that_began_anew() -> None:
    """Who has asked first may wait longer for another node, and look at this one's answer when a later one is known."""
    driver = NodeDriver()
    peers = Peers()
    totals = Totals(driver.node.system.counts, cast(PeerQuestions, peers))
    background = driver.node.background
    request = Request({})
    request.ask_as(Asker(driver.node.broker.metadata, "guest", ()))
    tasks = [Task(background, totals.verbs["totals"](request)) for _ in range(3)]
    driver.settle()
    (n2_of_first, n3_of_first, n2_of_second, n3_of_second, *of_third) = [question for _, question in peers.asked]
    n3_of_first.complete(PeerAnswer({"at": 1, "acked": 10}, ""))
    n2_of_second.complete(None)
    n3_of_second.complete(PeerAnswer({"at": 2, "acked": 15}, ""))
    driver.settle()
    n2_of_first.complete(None)
    driver.settle()
    for question in of_third:
        question.complete(PeerAnswer({"at": 3, "acked": 16}, ""))
    driver.settle()
    assert [task.result["nodes"]["n3"]["acked"] for task in tasks] == [15, 15, 16]
