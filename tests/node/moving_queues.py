"""MovingWorld: workers of one node, a queue that moves between them, and who watches that nothing of it is lost."""

from __future__ import annotations

import json
from typing import Any

from amqp_broker.protocol import methods
from amqp_broker.queue_types.contract.held_queue import HeldQueue
from amqp_broker.rehoming.arrival import ASK_AGAIN_MS
from queues.classic import ClassicQueue
from tests.node.node_driver import Client
from tests.node.system_service import SystemService
from tests.node.worker_world import WorkerWorld


class MovingWorld(WorkerWorld):
    """Three workers; connections stay where they are."""

    def __init__(self, count: int = 3, **settings: Any) -> None:
        super().__init__(count, **{"steering": "off", **settings})
        self._services: dict[str, SystemService] = {}

    def begin(self, name: str, home: str, at: str = "n1") -> SystemService:
        """Ask for a move, without waiting for its end."""
        service = SystemService(self.nodes[at])
        service.send("queue.rehome", json.dumps({"vhost": "/", "name": name, "home": home}).encode())
        return service

    def end(self, service: SystemService, most_ms: int = 30_000) -> dict[str, Any]:
        """What came of it."""
        for _ in range(most_ms // 50):
            answers = service.answers()
            if answers:
                return answers[0]
            self.run(50)
        raise AssertionError("the move does not end")

    def move(self, name: str, home: str, at: str = "n1") -> dict[str, Any]:
        said = self.end(self.begin(name, home, at))
        self.run(300)
        return said

    def homes(self, name: str) -> set[str]:
        """Where a queue lives, as all that are there say."""
        return {driver.node.broker.metadata.queue("/", name).home for driver in self.nodes.values()}

    def is_held(self, name: str) -> bool:
        return any(isinstance(driver.queue(name), HeldQueue) for driver in self.nodes.values())

    def check_rest(self, name: str) -> str:
        """The one home of a queue, which nobody keeps waiting; nothing is left of a move."""
        if any(driver.node.rehoming.arrivals.by_move for driver in self.nodes.values()):
            self.run(ASK_AGAIN_MS + 100)
        (home,) = self.homes(name)
        for each, driver in self.nodes.items():
            queue, rehoming = driver.queue(name), driver.node.rehoming
            assert not isinstance(queue, HeldQueue), each
            assert isinstance(queue, ClassicQueue) == (each == home), each
            assert queue.queue_id == driver.node.broker.metadata.queue("/", name).queue_id
            assert not driver.node.broker.staged, each
            assert not rehoming.departures, each
            assert not rehoming.arrivals.by_move, each
        return home

    def publish(self, client: Client, queue: str, numbers: range, *, persistent: bool = True) -> None:
        for number in numbers:
            client.publish(1, queue, b"%d" % number, persistent=persistent)


def confirming(world: MovingWorld, at: str) -> Client:
    client = world.client(at, 1)
    client.send(1, methods.ConfirmSelect(False))
    return client


def outcomes(client: Client) -> tuple[set[int], set[int]]:
    """The numbers of publishes that were confirmed, and that were nacked, by all that was heard until now."""
    acked: set[int] = set()
    nacked: set[int] = set()
    done = 0
    for event in client.events:
        if event.method.name not in ("basic.ack", "basic.nack"):
            continue
        tag = event.method.delivery_tag
        first = done + 1 if event.method.multiple else tag
        (acked if event.method.name == "basic.ack" else nacked).update(range(first, tag + 1))
        done = max(done, tag)
    return acked, nacked
