"""Random traffic of three nodes on the queues of one, with frames that come late and links that are cut at any time.

What has to hold: every publish has one fate; what was confirmed is delivered, unless somebody has acknowledged it; what
a client has seen comes again only with the flag; nobody holds more than it asked for; nothing is left behind.
"""

from __future__ import annotations

import random

import pytest

from tests.example_counts import seeds
from tests.node.node_driver import declare
from tests.queue_types.link_world import LinkWorld, Node, RemoteClient

QUEUES = ("q0", "q1")
STEPS = 300


class Traffic:
    """One run. published: by whom. acked: what clients have acknowledged, whether or not it got to the home."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.world = LinkWorld("n2", "n3")
        self.world.home.say(declare("q0"), declare("q1", x_max_length=30, x_overflow="reject-publish"))
        self.next_name = 1
        self.published: dict[int, str] = {}
        self.clients: list[tuple[Node, str, RemoteClient]] = []
        self.acked: set[int] = set()
        self.seen: dict[int, int] = {}
        self.looked: dict[RemoteClient, int] = {}

    def names(self, count: int) -> list[int]:
        found = list(range(self.next_name, self.next_name + count))
        self.next_name += count
        return found

    def step(self) -> None:
        chance, world = self.chance, self.world
        node = world.nodes[chance.choice(("n2", "n3"))]
        queue = chance.choice(QUEUES)
        action = chance.randrange(12)
        if action < 3:
            names = self.names(chance.randrange(1, 6))
            self.published.update(dict.fromkeys(names, node.name))
            node.publish(queue, *names, is_persistent=chance.random() < 0.7, body_size=chance.choice((0, 50, 20_000)))
        elif action == 3:
            self.attach(node, queue)
        elif action < 8 and self.clients:
            self.client_does(*chance.choice(self.clients), chance.randrange(6))
        elif action == 8 and chance.random() < 0.3:
            if node.name in world.linked:
                world.cut(node.name)
            else:
                world.connect(node.name)
        self.look()
        self.frames()
        if chance.random() < 0.1:
            self.rest()

    def attach(self, node: Node, queue: str, prefetch: int | None = None) -> RemoteClient:
        client = RemoteClient(self.chance.randrange(6) if prefetch is None else prefetch)
        node.consume(queue, client)
        self.clients.append((node, queue, client))
        return client

    def client_does(self, node: Node, queue: str, client: RemoteClient, action: int) -> None:
        if client.is_gone:
            self.clients.remove((node, queue, client))
        elif action < 3:
            self.look()
            count = self.chance.randrange(len(client.held) + 1)
            self.acked.update(name for name, _ in client.got[len(client.got) - len(client.held) :][:count])
            client.ack(count)
        elif action == 3:
            self.look()
            client.return_all()
        elif action == 4:
            client.is_paused = not client.is_paused
            if not client.is_paused:
                client.queue.credit_returned(client)
                client.queue.dispatch(0)
        else:
            client.queue.cancel(client, False, 0)
            client.return_all()
            self.clients.remove((node, queue, client))

    def look(self) -> None:
        """What clients got since the last look: without the flag only what nobody has seen."""
        for _, _, client in self.clients:
            start = self.looked.get(client, 0)
            self.looked[client] = len(client.got)
            for name, redelivered in client.got[start:]:
                assert redelivered or name not in self.seen, f"{name} comes again without the flag"
                self.seen[name] = self.seen.get(name, 0) + 1
            if client.prefetch:
                assert len(client.held) <= client.prefetch

    def frames(self) -> None:
        """Some of what is on its way arrives."""
        chance, world = self.chance, self.world
        is_syncing = chance.random() < 0.3
        is_first = chance.random() < 0.5
        job = world.home.begin_sync() if is_syncing else None
        if is_syncing and is_first:
            world.home.finish_sync(job)
        for name in world.nodes:
            if chance.random() < 0.7:
                world.end_turn(name)
            if name in world.linked:
                world.to_home(name, chance.randrange(4))
        if is_syncing and not is_first:
            world.home.finish_sync(job)
        world.home.turn()
        for name in world.linked:
            world.from_home(name, chance.randrange(4))
        for queue in QUEUES:
            for consumer in world.home.queue(queue).dispatcher.consumers:
                assert not consumer.prefetch or len(consumer.held) <= consumer.prefetch

    def rest(self) -> None:
        """Nobody says anything new: everything that is on its way has its end."""
        for _ in range(4):
            self.world.step()
        for node in self.world.nodes.values():
            assert node.link.backlog_bytes == 0

    def finish(self) -> None:
        """All links are there, and one client takes everything that is left."""
        world = self.world
        for name in world.nodes:
            if name not in world.linked:
                world.connect(name)
        for _, _, client in self.clients:
            if not client.is_gone:
                client.queue.cancel(client, False, 0)
                client.return_all()
        self.look()
        world.run(6)
        self.clients.clear()
        node = world.nodes["n2"]
        last = [self.attach(node, queue, 0) for queue in QUEUES]
        for _ in range(60):
            world.step()
            for client in last:
                client.ack()
        self.look()
        world.run(4)
        self.check(last)

    def check(self, last: list[RemoteClient]) -> None:
        world = self.world
        for node in world.nodes.values():
            names = [name for name, _ in node.log]
            assert len(names) == len(set(names))
        fates = {name: refusal for node in world.nodes.values() for name, refusal in node.log}
        assert set(fates) == set(self.published)
        drained = {name for client in last for name in client.names}
        for name, refusal in fates.items():
            assert refusal is not None or name in drained or name in self.acked, f"{name} was confirmed, and is lost"
        for client, queue in zip(last, QUEUES, strict=True):
            for publisher in world.nodes:
                of_one = [each for each in client.names if self.published[each] == publisher]
                assert of_one == sorted(set(of_one))
            assert world.home.queue(queue).unacked == world.home.queue(queue).ready.count == 0
            assert len(world.home.queue(queue).dispatcher.consumers) == 1
        assert world.home.node.store.pager.used == 0
        for node in world.nodes.values():
            assert node.link.backlog_bytes == 0


@pytest.mark.parametrize("seed", seeds(range(40)))
def test_random_traffic(seed: int) -> None:
    traffic = Traffic(seed)
    for _ in range(STEPS):
        traffic.step()
    traffic.finish()


def test_the_traffic_meets_what_it_is_about() -> None:
    """Else it would show nothing."""
    confirmed = lost = refused = redelivered = 0
    for seed in range(8):
        traffic = Traffic(seed)
        for _ in range(STEPS):
            traffic.step()
        traffic.finish()
        for node in traffic.world.nodes.values():
            confirmed += len(node.confirmed)
            lost += sum(why == "UNKNOWN" for _, why in node.nacked)
            refused += sum(why == "FULL" for _, why in node.nacked)
        redelivered += sum(count > 1 for count in traffic.seen.values())
    assert min(confirmed // 10, lost, refused, redelivered) > 5, (confirmed, lost, refused, redelivered)
