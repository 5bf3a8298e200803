"""Random publishes of channels that confirm to queues of two other nodes, many in a turn, and links that are cut.

What has to hold: every publish is confirmed or nacked, once; what was confirmed is in all queues to which it went; and
what was nacked, while no link was lost, is missing in one of them.
"""

from __future__ import annotations

import random

import pytest

from amqp_broker.protocol import methods
from amqp_broker.protocol.fields import Table
from amqp_broker.protocol.frames import encode_method_frame
from tests.example_counts import seeds
from tests.node.node_cluster import NodeCluster
from tests.node.node_driver import declare, publish_octets

QUEUES = {"q": "n2", "small": "n2", "far": "n3", "narrow": "n3", "own": "n1"}
FANS = {"both": ("q", "small"), "all": ("far", "narrow", "q"), "mixed": ("own", "small")}
#: Most are small, and some frames between nodes are full.
SIZES = (10, 10, 10, 10, 3000, 50_000)
STEPS = 40


class Publishers:
    """One run. went: to which queues what a client has published under a number did. fates: what it was told of each.
    got: the bodies that were taken from each queue."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.cluster = NodeCluster()
        self.cluster.run_until_ready()
        self.homes = {name: node.client(1) for name, node in self.cluster.nodes.items()}
        for queue, home in QUEUES.items():
            limit = {} if queue in ("q", "far") else {"x_max_length": 4, "x_overflow": "reject-publish"}
            self.homes[home].send(1, declare(queue, **limit))
        self.cluster.run(300)
        for fan, queues in FANS.items():
            declarer = self.homes["n1"]
            declarer.send(1, methods.ExchangeDeclare(0, fan, "fanout", False, True, False, False, False, Table({})))
            declarer.send(1, *[methods.QueueBind(0, queue, fan, "", False, Table({})) for queue in queues])
        self.cluster.run(500)
        self.clients = [self.cluster.nodes["n1"].client(1) for _ in range(2)]
        for client in self.clients:
            client.send(1, methods.ConfirmSelect(False))
        self.cluster.run(100)
        for client in (*self.clients, *self.homes.values()):
            client.take()
        self.went: list[list[tuple[str, ...]]] = [[] for _ in self.clients]
        self.fates: list[list[str]] = [[] for _ in self.clients]
        self.got: dict[str, set[bytes]] = {queue: set() for queue in QUEUES}
        self.is_lossy = False

    def publish(self) -> None:
        """Each of some clients publishes to one or two targets, by turns, what comes in one turn."""
        chance = self.chance
        for _ in range(chance.randrange(1, 5)):
            number = chance.randrange(len(self.clients))
            client = self.clients[number]
            some = chance.sample([*QUEUES, *FANS], chance.randrange(1, 3))
            said = b""
            for _ in range(chance.randrange(1, 12)):
                target = chance.choice(some)
                self.went[number].append(FANS.get(target, (target,)))
                body = b"%d:%d:" % (number, len(self.went[number]))
                said += self.octets(target, body.ljust(chance.choice(SIZES), b"."), chance.random() < 0.5)
            client.send_octets(said)

    def octets(self, target: str, body: bytes, is_persistent: bool) -> bytes:
        said = publish_octets(1, target, body, persistent=is_persistent)
        if target not in FANS:
            return said
        named = encode_method_frame(1, methods.BasicPublish(0, "", target, False, False))
        return encode_method_frame(1, methods.BasicPublish(0, target, "", False, False)) + said[len(named) :]

    def take_from(self, queue: str, count: int) -> None:
        """A client of its home fetches messages."""
        client = self.homes[QUEUES[queue]]
        for _ in range(count):
            client.send(1, methods.BasicGet(0, queue, True))
            while not client.events:
                self.cluster.step()
            [event] = client.take()
            if event.method.name == "basic.get-empty":
                break
            body = event.body.rstrip(b".")
            assert body not in self.got[queue]
            self.got[queue].add(body)

    def step(self) -> None:
        chance, cluster = self.chance, self.cluster
        action = chance.randrange(10)
        if action < 6:
            self.publish()
        elif action < 8:
            self.take_from(chance.choice([*QUEUES]), chance.randrange(1, 6))
        elif action == 8 and self.is_lossy and chance.random() < 0.5:
            cluster.cut("n1", chance.choice(("n2", "n3")))
            self.publish()
        elif action == 9 and self.is_lossy:
            cluster.heal()
        for _ in range(chance.randrange(3)):
            chance.choice((cluster.step, cluster.nodes["n1"].turn))()
        self.look()

    def look(self) -> None:
        """Confirms come in order: each says what becomes of the next, or of all up to a number."""
        for client, fates in zip(self.clients, self.fates, strict=True):
            for event in client.take():
                method = event.method
                assert method.name in ("basic.ack", "basic.nack")
                first = len(fates) + 1
                assert method.delivery_tag == first or (method.multiple and method.delivery_tag > first)
                fates += [method.name] * (method.delivery_tag - len(fates))

    def end(self) -> None:
        """Everything has come to its end."""
        self.cluster.heal()
        self.cluster.run(600)
        self.look()
        for queue in QUEUES:
            self.take_from(queue, 2000)
        for number, (went, fates) in enumerate(zip(self.went, self.fates, strict=True)):
            assert len(fates) == len(went)
            for tag, (queues, fate) in enumerate(zip(went, fates, strict=True), 1):
                body = b"%d:%d:" % (number, tag)
                is_there = all(body in self.got[queue] for queue in queues)
                assert is_there or fate == "basic.nack", (body, queues)
                assert not is_there or fate == "basic.ack" or self.is_lossy, (body, queues)


@pytest.mark.parametrize("is_lossy", [False, True])
@pytest.mark.parametrize("seed", seeds(range(12)))
def test_each_publish_has_its_own_fate(seed: int, is_lossy: bool) -> None:
    run = Publishers(seed)
    run.is_lossy = is_lossy
    for _ in range(STEPS):
        run.step()
    run.end()
